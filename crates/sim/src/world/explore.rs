//! World after world, seed after seed.

use super::book::Tally;
use super::script::Script;
use super::{Digest, Lived, live};
use crate::drill::Outcome;
use crate::effort;

/// Among so many worlds there is one of every kind.
const MANY: u64 = 100;

/// Which worlds are lived through.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Whether everything that happens is printed.
    pub print: bool,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Worlds that came to their end.
    pub worlds: u64,
    /// What was counted in all of them.
    pub tally: Tally,
    /// The trace of the last one.
    pub last: Option<Digest>,
}

/// Lives through all of them; the error tells the seed, and the last of what happened there.
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
