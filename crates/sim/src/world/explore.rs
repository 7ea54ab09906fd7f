//! Simulates one world per seed.

use super::book::Tally;
use super::script::Script;
use super::{Digest, Lived, live};
use crate::drill::Outcome;
use crate::effort;

/// Among this many worlds each kind occurs.
const MANY: u64 = 100;

/// The worlds to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub from: u64,
    /// The number of worlds.
    pub seeds: u64,
    /// Whether to print every event.
    pub print: bool,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// The number of finished worlds.
    pub worlds: u64,
    /// The counts over all worlds.
    pub tally: Tally,
    /// The trace hash of the last world.
    pub last: Option<Digest>,
}

/// Simulates all worlds. The error contains the seed and the last events of the failing one.
pub fn run(plan: &Plan, mut tell: impl FnMut(&Found)) -> Outcome<Found> {
    let mut found = Found::default();
    for seed in plan.from..plan.from.saturating_add(plan.seeds) {
        effort::step()?;
        let lived = live(&Script::of(seed), plan.print);
        if let Some(wrong) = &lived.wrong {
            return Err(report(seed, wrong, &lived));
        }
        found.worlds += 1;
        found.last = Some(lived.digest);
        found.tally.add(&lived.tally);
        tell(&found);
    }
    let Tally { answered, letters, cuts, inside, failed_syncs, full, crashes, .. } = found.tally;
    if plan.seeds >= MANY {
        effort::insist_on(&[
            ("answer", answered),
            ("letter", letters),
            ("power cut", cuts),
            ("power cut in the middle of a call", inside),
            ("failed sync", failed_syncs),
            ("full disk", full),
            ("client that crashed", crashes),
        ])?;
    }
    Ok(found)
}

fn report(seed: u64, wrong: &str, lived: &Lived) -> String {
    let tail = lived.tail.join("\n");
    format!(
        "{tail}\nseed {seed}: {wrong}\nsee all of it: prove world --from {seed} --seeds 1 --trace"
    )
}
