//! Runs the checks for lost acknowledged writes, one method per subcommand; `prove help` lists them.

#[cfg(feature = "planted")]
mod bugs;
mod hostile;
mod soak;
mod traced;

use clap::{Parser, Subcommand};
use mainstay_sim::drill::Outcome;
use mainstay_sim::{cuts, failures, flips, strace, world};
use std::path::PathBuf;
use std::process::ExitCode;

/// Crashes, power cuts, failing disks, flipped bits and races.
#[derive(Parser)]
struct Words {
    #[command(subcommand)]
    way: Way,
}

#[derive(Subcommand)]
enum Way {
    /// Cuts power at syncs, renamings and other boundaries of drills.
    Cuts {
        /// How many cuts.
        #[arg(long, default_value_t = 500)]
        count: u64,
        /// How many of them in one recording.
        #[arg(long, default_value_t = 60)]
        each: u64,
        /// What choices come from.
        #[arg(long, default_value_t = u64::from(std::process::id()))]
        seed: u64,
        /// Where a violation is kept.
        #[arg(long, default_value = "violation.json")]
        keep: PathBuf,
    },
    /// Lets each call of a disk fail in turn.
    Failures {
        /// How many of them; all without it.
        #[arg(long)]
        count: Option<u64>,
        /// How many at a time.
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// What choices come from.
        #[arg(long, default_value_t = u64::from(std::process::id()))]
        seed: u64,
        /// Where a violation is kept.
        #[arg(long, default_value = "violation.json")]
        keep: PathBuf,
    },
    /// Lets calls of the system fail, on a real file system.
    Strace {
        /// How many processes meet a failure; one for every call, in every way, without it.
        #[arg(long)]
        count: Option<u64>,
        /// What choices come from.
        #[arg(long, default_value_t = u64::from(std::process::id()))]
        seed: u64,
    },
    /// Is the process that strace traces.
    #[command(hide = true)]
    Traced(traced::Child),
    /// Flips a bit in blocks of files.
    Flips {
        /// How many of them; one in each block of a database without it.
        #[arg(long)]
        count: Option<u64>,
        /// What choices come from.
        #[arg(long, default_value_t = u64::from(std::process::id()))]
        seed: u64,
    },
    /// Lives through simulated worlds: a server, its disk, its clients and the ways between them, from one seed each.
    World {
        /// How many.
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// The first seed.
        #[arg(long, alias = "seed", default_value_t = 1)]
        from: u64,
        /// Prints everything that happens.
        #[arg(long)]
        trace: bool,
    },
    /// Plants bugs, one at a time, and looks for each.
    #[cfg(feature = "planted")]
    Planted {
        /// These alone; all without it.
        bugs: Vec<String>,
        /// What choices come from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Plants a bug and runs its check.
    #[cfg(feature = "planted")]
    Hunt {
        /// The bug.
        bug: String,
        /// Which of its checks is run, from 0.
        #[arg(long, default_value_t = 0)]
        nth: usize,
        /// What choices come from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Loads a database for long, at 80 % of what it can do: nothing may grow.
    Soak {
        /// How long the load lasts.
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// What choices come from.
        #[arg(long, default_value_t = u64::from(std::process::id()))]
        seed: u64,
        /// Where the picture of it is put.
        #[arg(long, default_value = "soak.svg")]
        report: PathBuf,
    },
    /// Attacks a server with greedy clients of every kind, beside one honest client.
    Hostile(hostile::Words),
    /// Is the process of the greedy clients.
    #[command(hide = true)]
    Greedy(hostile::GreedyWords),
    /// Looks at a violation again.
    Again {
        /// Where it was kept.
        file: PathBuf,
        /// Where the files after the cut are put.
        #[arg(long, default_value = "violation")]
        home: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Words::parse().way {
        Way::Cuts { count, each, seed, keep } => {
            cut(&cuts::Plan { seed, cuts: count, cuts_each: each, keep, beside: true })
        }
        Way::Failures { count, jobs, seed, keep } => {
            fail(&failures::Plan { seed, count, only: None, jobs, keep })
        }
        Way::Strace { count, seed } => match strace::permitted() {
            Ok(()) => traced::run(count, seed),
            Err(why) => {
                println!("{why}");
                return ExitCode::from(2);
            }
        },
        Way::Traced(child) => child.run(),
        Way::Flips { count, seed } => flip(&flips::Plan { seed, count }),
        Way::World { seeds, from, trace } => simulate(&world::Plan { from, seeds, print: trace }),
        #[cfg(feature = "planted")]
        Way::Planted { bugs, seed } => bugs::all(&bugs, seed),
        #[cfg(feature = "planted")]
        Way::Hunt { bug, nth, seed } => bugs::one(&bug, nth, seed),
        Way::Soak { seconds, seed, report } => soak::run(seconds, seed, &report),
        Way::Hostile(words) => hostile::run(words),
        Way::Greedy(words) => hostile::attack(&words),
        Way::Again { file, home } => cuts::again(&file, &home),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("VIOLATION: {what}");
            ExitCode::FAILURE
        }
    }
}

fn cut(plan: &cuts::Plan) -> Outcome<()> {
    println!("seed {}", plan.seed);
    let tally = cuts::run(plan, |tally| println!("{} cuts", tally.cuts))?;
    let cuts::Tally { recordings, cuts, during_recovery, acknowledged, .. } = tally;
    println!("{:?}\n{:?}", tally.models, tally.kinds);
    println!(
        "{recordings} recordings, {} processes killed before, {} torn ends, {} indexes rebuilt, {} unsynced writes gone",
        tally.kills, tally.torn, tally.rebuilt, tally.unsynced_lost
    );
    println!(
        "{} cuts of creations, backups, restores, salvages, new classes, new indexes",
        tally.procedures
    );
    println!(
        "{cuts} power cuts, {during_recovery} of them during recovery, {acknowledged} acknowledged writes looked \
         for, 0 lost"
    );
    Ok(())
}

fn fail(plan: &failures::Plan) -> Outcome<()> {
    println!("seed {}", plan.seed);
    let tally =
        failures::run(plan, |tally| println!("{} of {} failures", tally.cases, tally.planned))?;
    tally.places.iter().for_each(|place| println!("failed: {place}"));
    println!("{:?}", tally.actions);
    let failures::Tally { cases, hits, refused, latched, acknowledged, .. } = tally;
    println!("opening was refused {refused} times, writing until the next opening {latched} times");
    println!(
        "{cases} failures of the disk, {hits} of them met, {acknowledged} acknowledged writes looked for, 0 lost"
    );
    Ok(())
}

fn flip(plan: &flips::Plan) -> Outcome<()> {
    println!("seed {}", plan.seed);
    let tally = flips::run(plan, |tally| println!("{} flips", tally.flips))?;
    tally.files.iter().for_each(|(file, count)| println!("flipped: {count} in {file}"));
    println!("{:?}", tally.endings);
    println!("{} bits flipped, 0 wrong answers", tally.flips);
    Ok(())
}

fn simulate(plan: &world::Plan) -> Outcome<()> {
    println!("seeds from {}", plan.from);
    let found = world::run(plan, |found| {
        if found.worlds.is_multiple_of(100) {
            println!("{} worlds", found.worlds);
        }
    })?;
    let world::Found { worlds, tally, last } = found;
    println!("{tally:?}");
    if let Some(last) = last {
        println!("trace of the last one: {last}");
    }
    println!(
        "{worlds} worlds, {} power cuts, {} requests answered, {} letters handled, 0 violations",
        tally.cuts, tally.answered, tally.letters
    );
    Ok(())
}
