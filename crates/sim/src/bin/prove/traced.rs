//! System calls that fail under strace: the parent process and the traced child.

use clap::Args;
use mainstay_sim::drill::Outcome;
use mainstay_sim::strace::{self, Orders, Plan, Tally};
use std::path::PathBuf;

/// The arguments of a traced child.
#[derive(Args)]
pub struct Child {
    /// The database.
    directory: PathBuf,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    generation: u64,
    #[arg(long)]
    faulty: bool,
    #[arg(long)]
    blind: bool,
    #[arg(long)]
    resumes: bool,
    #[cfg(feature = "planted")]
    #[arg(long)]
    bug: Option<String>,
}

impl Child {
    pub fn run(&self) -> Outcome<()> {
        #[cfg(feature = "planted")]
        if let Some(bug) = &self.bug {
            mainstay::fault_points::plant(Some(crate::bugs::find(bug)?));
        }
        let Child { seed, generation, faulty, blind, resumes, .. } = *self;
        strace::be_child(&self.directory, Orders { seed, generation, faulty, blind, resumes })
    }
}

/// Injects failures into `count` calls, or into all.
pub fn run(count: Option<u64>, seed: u64) -> Outcome<()> {
    println!("seed {seed}");
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    let plan = Plan { seed, count, program, bug: None };
    let tally =
        strace::run(&plan, |tally| println!("{} of {} processes", tally.cases, tally.planned))?;
    tally.places.iter().for_each(|place| println!("failed: {place}"));
    println!("{:?}", tally.errors);
    let Tally { cases, met, astray, refused, latched, forgotten_bytes, acknowledged, .. } = tally;
    println!(
        "{cases} processes, {met} of them met a failure, {astray} did not come to their database; opening was refused \
         {refused} times, writing until the next opening {latched} times; {forgotten_bytes} bytes that a failed sync did \
         not write were dropped"
    );
    let calls: Vec<_> = tally.calls.iter().map(|(call, count)| format!("{call} {count}")).collect();
    let failed: u64 = tally.calls.values().sum();
    println!(
        "{failed} calls that failed under strace ({}), {acknowledged} acknowledged writes looked for, 0 lost",
        calls.join(", ")
    );
    Ok(())
}
