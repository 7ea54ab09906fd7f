//! Kills a database process repeatedly and checks that no acknowledged write is lost.
//!
//! `kill [--cycles 200] [--each 60] [--seed n] [--dir d]`; on a violation exits with 1 and keeps the
//! directory. After `each` cycles it continues with a new database and the next seed, because checking
//! an old database takes longer and longer.

use mainstay_sim::drill::Outcome;
use mainstay_sim::effort;
use mainstay_sim::kill::child;
use mainstay_sim::kill::parent::{self, Plan, Tally};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("child") => be_child(&words),
        _ => be_parent(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("VIOLATION: {what}");
            ExitCode::FAILURE
        }
    }
}

fn be_child(words: &[String]) -> Outcome<()> {
    let [_, directory, seed, generation] = words else {
        return Err("usage: kill child DIR SEED GENERATION".to_owned());
    };
    let seed = number(seed)?;
    let generation = number(generation)?;
    child::run(Path::new(directory), seed, generation).map_err(|error| error.to_string())
}

fn be_parent(words: &[String]) -> Outcome<()> {
    let mut cycles = 200;
    let mut each = 60;
    let mut seed = u64::from(std::process::id());
    let mut directory = None;
    for pair in words.chunks(2) {
        match pair {
            [option, value] if option == "--cycles" => cycles = number(value)?,
            [option, value] if option == "--each" => each = number(value)?.max(1),
            [option, value] if option == "--seed" => seed = number(value)?,
            [option, value] if option == "--dir" => directory = Some(PathBuf::from(value)),
            _ => {
                return Err(
                    "usage: kill [--cycles 200] [--each 60] [--seed n] [--dir d]".to_owned()
                );
            }
        }
    }
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    let home = tempfile::Builder::new().prefix("mainstay-kill-").tempdir();
    // Kept until all cycles have passed.
    let home = home.map_err(|error| format!("no temporary directory: {error}"))?.keep();
    let directory = directory.unwrap_or_else(|| home.join("db"));
    let mut tally = Tally::default();
    for number in 0..cycles.div_ceil(each) {
        let directory = directory.with_extension(number.to_string());
        let cycles = each.min(cycles - number * each);
        let seed = seed + number;
        let plan = Plan { cycles, seed, directory, program: program.clone() };
        println!("seed {seed}, directory {}", plan.directory.display());
        tally += parent::run(&plan, summary)?;
    }
    // A directory that cannot be removed does no harm.
    let _ = std::fs::remove_dir_all(home);
    let Tally { cycles, acknowledged, second_kills, during_open, requests, .. } = tally;
    effort::insist_on(&[("acknowledged write", acknowledged)])?;
    // Among this many cycles each of these kinds occurs.
    if cycles >= 100 {
        effort::insist_on(&[
            ("second kill", second_kills),
            ("kill while opening", during_open),
            ("request that was asked again", requests),
        ])?;
    }
    println!(
        "{cycles} cycles, {acknowledged} acknowledged writes, {second_kills} second kills, 0 lost"
    );
    Ok(())
}

fn summary(tally: &Tally) {
    println!(
        "{} cycles: {} acknowledged writes, {} second kills, {} kills while opening, {} requests asked \
         again, {} torn ends cut, {} indexes rebuilt, {} unsynced writes gone",
        tally.cycles,
        tally.acknowledged,
        tally.second_kills,
        tally.during_open,
        tally.requests,
        tally.cut,
        tally.rebuilt,
        tally.unsynced_lost
    );
}

fn number(word: &str) -> Outcome<u64> {
    word.parse().map_err(|_| format!("`{word}` is not a number"))
}
