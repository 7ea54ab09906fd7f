//! Injected faults in session clients, which simulated worlds find.

use super::hunt::WORLDS;
use crate::drill::Outcome;
use crate::world::{Script, live};
use mainstay_sessions::ClientFault;

/// The faults that show in a world. `NoEpoch` is not among them: a server must detect it, and this one
/// does.
const BUGS: [ClientFault; 7] = [
    ClientFault::NewNumber,
    ClientFault::ReusedNumber,
    ClientFault::LowestTooHigh,
    ClientFault::AcknowledgedFirst,
    ClientFault::HandledForgotten,
    ClientFault::AnyEpoch,
    ClientFault::AlwaysExpired,
];

/// Hunts for each fault and reports how it was found. The world that finds a fault must find nothing
/// without it.
pub fn hunt_in_clients(
    seed: u64,
    mut say: impl FnMut(ClientFault, Option<&str>),
) -> Outcome<Vec<ClientFault>> {
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

fn wrong(seed: u64, planted: Option<ClientFault>) -> Option<String> {
    live(&Script { planted, ..Script::of(seed) }, false).wrong
}
