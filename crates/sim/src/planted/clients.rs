//! Bugs of clients of sessions: simulated worlds find them.

use super::hunt::WORLDS;
use crate::drill::Outcome;
use crate::world::{Script, live};
use mainstay_sessions::Planted;

/// Those that show in a world. Without epochs it is for servers to notice, which this one does.
const BUGS: [Planted; 7] = [
    Planted::NewNumber,
    Planted::ReusedNumber,
    Planted::LowestTooHigh,
    Planted::AcknowledgedFirst,
    Planted::HandledForgotten,
    Planted::AnyEpoch,
    Planted::AlwaysExpired,
];

/// Looks for each of them; says by what it was found, if it was. The world that finds it must find nothing without it.
pub fn hunt_in_clients(
    seed: u64,
    mut say: impl FnMut(Planted, Option<&str>),
) -> Outcome<Vec<Planted>> {
    let mut missed = Vec::new();
    for bug in BUGS {
        let found = (seed..seed + WORLDS).find_map(|seed| Some((seed, wrong(seed, Some(bug))?)));
        say(bug, found.as_ref().map(|found| found.1.as_str()));
        let Some((seed, _)) = found else {
            missed.push(bug);
            continue;
        };
        if let Some(what) = wrong(seed, None) {
            return Err(format!("also without {bug:?}: seed {seed}: {what}"));
        }
    }
    Ok(missed)
}

fn wrong(seed: u64, planted: Option<Planted>) -> Option<String> {
    live(&Script { planted, ..Script::of(seed) }, false).wrong
}
