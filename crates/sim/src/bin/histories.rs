//! Records histories of a database under many threads and checks them for strict serializability.
//!
//! `histories [--operations 200000] [--seed n]`; exits with 1 on a violation.

use mainstay::{Clock, SystemClock};
use mainstay_sim::drill::Outcome;
use mainstay_sim::effort;
use mainstay_sim::history::{self, Plan, Tally};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match check(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("VIOLATION: {what}");
            ExitCode::FAILURE
        }
    }
}

fn check(words: &[String]) -> Outcome<()> {
    let mut plan = Plan { seed: u64::from(std::process::id()), operations: 200_000 };
    for pair in words.chunks(2) {
        match pair {
            [option, value] if option == "--operations" => plan.operations = number(value)?,
            [option, value] if option == "--seed" => plan.seed = number(value)?,
            _ => return Err("usage: histories [--operations 200000] [--seed n]".to_owned()),
        }
    }
    println!("seed {}", plan.seed);
    let clock = SystemClock::new();
    let tally = history::run(&plan)?;
    summary(&tally, clock.monotonic_us() / 1000);
    // Some thousands of operations contain each of these kinds.
    if plan.operations >= 100_000 {
        effort::insist_on(&[
            ("call beside another", tally.beside),
            ("transaction that was aborted", tally.aborted),
            ("unknown outcome", tally.unknown),
            ("database that was opened again", tally.reopened),
        ])?;
    }
    println!("{} operations checked, 0 violations", tally.operations);
    Ok(())
}

fn summary(tally: &Tally, took_ms: u64) {
    println!(
        "{} databases, {} reopened: {} keys, {} calls beside another, {} transactions, {} of them aborted, {} \
         unknown outcomes, {} operations/s",
        tally.rounds,
        tally.reopened,
        tally.keys,
        tally.beside,
        tally.transactions,
        tally.aborted,
        tally.unknown,
        tally.operations * 1000 / took_ms.max(1)
    );
}

fn number(word: &str) -> Outcome<u64> {
    word.parse().map_err(|_| format!("`{word}` is not a number"))
}
