//! Enumerates the possible failures, and selects some of them.

use super::call::{Call, Errno};
use super::case::Case;
use super::trace::Event;
use super::tracer::is_ours;
use mainstay_conformance::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Returns the calls that can be injected by their number. Each thread counts for itself, so a number
/// is left out if it is also a call of a thread on other files: the program first opens its own
/// libraries.
pub fn places(events: &[Event], directory: &Path) -> BTreeSet<(Call, u64)> {
    let mut counts: BTreeMap<(Call, u64), u64> = BTreeMap::new();
    let mut ours = BTreeSet::new();
    let mut others = BTreeSet::new();
    let mut begun: Vec<&Event> = events.iter().collect();
    begun.sort_by_key(|event| event.begun);
    for event in begun {
        let n = counts.entry((event.call, event.thread)).or_default();
        *n += 1;
        let side = if is_ours(event, directory) { &mut ours } else { &mut others };
        side.insert((event.call, *n));
    }
    ours.difference(&others).copied().collect()
}

/// Returns the ways in which a call can fail, and whether permanently. A call that is retried until it
/// succeeds must not fail permanently.
pub fn ways(call: Call) -> impl Iterator<Item = (Errno, bool)> {
    let ways = call.errors().iter().flat_map(|error| [(*error, false), (*error, true)]);
    ways.filter(|(error, lasting)| !lasting || *error != Errno::Eintr)
}

/// Returns `count` cases, evenly distributed: one error of every call before the next error of any.
pub fn some(all: Vec<Case>, count: u64, random: &mut Random) -> Vec<Case> {
    let mut kinds: BTreeMap<(Errno, Call), Vec<Case>> = BTreeMap::new();
    all.into_iter().for_each(|case| kinds.entry((case.error, case.call)).or_default().push(case));
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count && !kinds.is_empty() {
        for cases in kinds.values_mut().take(count as usize - chosen.len()) {
            chosen.push(cases.swap_remove(random.below(cases.len() as u64) as usize));
        }
        kinds.retain(|_, cases| !cases.is_empty());
    }
    chosen
}
