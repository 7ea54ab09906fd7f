//! Ranges of names that are all dead, so that lists pass by them in one step.
//!
//! ```text
//!   names    x x x x x x x x o o x o        x deleted or expired, o alive
//!   range    [_____________]                the next list goes on behind it
//! ```
//!
//! Deleted cells and records keep their counters for the retention, so the dead stay in the store. A range is only a
//! memory of a walk. It holds for reads of that revision or later, until something is written into it. Writers know
//! nothing of ranges: a reader looks up in `RecentWrites` what was written meanwhile. [`DeadRangeCache`](crate::storage::dead_ranges) does the same
//! for the entries of indexes, which `RecentWrites` does not hold.

use crate::mvcc::recent_writes::RecentWrites;
use mainstay_model::{Revision, Stamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;

/// How many dead names in a row are worth remembering.
const DEAD_NAMES: usize = 64;
/// How many ranges are remembered.
const RANGES: usize = 4096;

#[derive(Default)]
pub(crate) struct DeadNames(Mutex<DeadNameMap>);

#[derive(Default)]
struct DeadNameMap {
    /// By their first key.
    ranges: BTreeMap<Vec<u8>, Dead>,
    /// Writes up to here were looked at.
    upto: Revision,
}

struct Dead {
    last: Vec<u8>,
    /// All names of it were dead as of this revision, at this time.
    revision: Revision,
    now: Stamp,
}

impl DeadNames {
    /// The last key of the range that a key lies in, as seen at a revision and a time.
    fn end_of(&self, trail: &RecentWrites, key: &[u8], at: (Revision, Stamp)) -> Option<Vec<u8>> {
        let mut inner = self.0.lock();
        inner.catch_up(trail, at.0);
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (_, dead) = inner.ranges.range::<[u8], _>(upto).next_back()?;
        let holds = dead.last.as_slice() >= key && dead.revision <= at.0 && dead.now <= at.1;
        holds.then(|| dead.last.clone())
    }

    /// Remembers that all names between two keys were dead.
    fn add(
        &self,
        trail: &RecentWrites,
        first: Vec<u8>,
        last: Vec<u8>,
        (revision, now): (Revision, Stamp),
    ) {
        let mut inner = self.0.lock();
        inner.catch_up(trail, revision);
        // Something may have been written into it behind this revision.
        if inner.upto > revision && inner.is_written(trail, &first, &last, revision) {
            return;
        }
        if inner.ranges.len() >= RANGES {
            inner.ranges.clear();
        }
        inner.join(first, Dead { last, revision, now });
    }
}

impl DeadNameMap {
    /// Forgets ranges that were written into up to a revision.
    fn catch_up(&mut self, trail: &RecentWrites, revision: Revision) {
        if revision <= self.upto {
            return;
        }
        if !self.ranges.is_empty() {
            let mut opened = Vec::new();
            let ranges = &self.ranges;
            let reaches = trail.any_between(self.upto, revision, |key| {
                let upto = (Bound::Unbounded, Bound::Included(key));
                let holding = ranges.range::<[u8], _>(upto).next_back();
                opened.extend(
                    holding
                        .filter(|(_, dead)| dead.last.as_slice() >= key)
                        .map(|(first, _)| first.clone()),
                );
                false
            });
            match reaches {
                Some(_) => opened.iter().for_each(|first| drop(self.ranges.remove(first))),
                None => self.ranges.clear(),
            }
        }
        self.upto = revision;
    }

    /// Adds a range, joined with those that it meets, so that no key lies in two. All of it is dead from when each of
    /// them is.
    fn join(&mut self, mut first: Vec<u8>, mut dead: Dead) {
        let upto = (Bound::Unbounded, Bound::Included(first.as_slice()));
        if let Some((earlier, other)) = self.ranges.range::<[u8], _>(upto).next_back()
            && other.last >= first
        {
            first = earlier.clone();
        }
        let met = self.ranges.range(first.clone()..=dead.last.clone());
        let met: Vec<Vec<u8>> = met.map(|(first, _)| first.clone()).collect();
        for other in met.iter().filter_map(|first| self.ranges.remove(first)) {
            dead.last = dead.last.max(other.last);
            dead.revision = dead.revision.max(other.revision);
            dead.now = dead.now.max(other.now);
        }
        self.ranges.insert(first, dead);
    }

    fn is_written(&self, trail: &RecentWrites, first: &[u8], last: &[u8], since: Revision) -> bool {
        trail.any_between(since, self.upto, |key| key >= first && key <= last).unwrap_or(true)
    }
}

/// Where a walk over names is, and what it knows of dead ones.
pub(crate) struct DeadWalk<'d> {
    names: &'d DeadNames,
    trail: &'d RecentWrites,
    at: (Revision, Stamp),
    /// The key behind which the walk begins, until its first step.
    start: Option<Vec<u8>>,
    /// Those that were dead in a row.
    dead: Option<DeadRun>,
}

/// Dead names in a row.
struct DeadRun {
    first: Vec<u8>,
    last: Vec<u8>,
    count: usize,
    /// The last of them ends a range that was known.
    skipped: bool,
}

impl<'d> DeadWalk<'d> {
    /// A walk as of a revision and a time, behind a key.
    pub fn new(
        names: &'d DeadNames,
        trail: &'d RecentWrites,
        at: (Revision, Stamp),
        start: Option<Vec<u8>>,
    ) -> DeadWalk<'d> {
        DeadWalk { names, trail, at, start, dead: None }
    }

    /// Notes a dead name; gives the last key of the range that it lies in, if there is one: the walk goes on behind it.
    pub fn dead(&mut self, key: Vec<u8>) -> Option<Vec<u8>> {
        let end = |key: &[u8]| self.names.end_of(self.trail, key, self.at);
        let start = self.start.take();
        let Some(row) = &mut self.dead else {
            let known = end(&key);
            // Nothing lies between the start and this name, so a range that ends there goes on here.
            let first = start.filter(|start| end(start).is_some()).unwrap_or_else(|| key.clone());
            let (last, skipped) = (known.clone().unwrap_or(key), known.is_some());
            self.dead = Some(DeadRun { first, last, count: 1, skipped });
            return known;
        };
        let known = if row.skipped { end(&key) } else { None };
        row.skipped = known.is_some();
        // Ranges that follow each other become one.
        row.count = if row.skipped { DEAD_NAMES } else { row.count + 1 };
        row.last = known.clone().unwrap_or(key);
        known
    }

    /// Notes that the last dead name was followed by a live one, or that the walk ends here.
    pub fn ends(&mut self) {
        self.start = None;
        if let Some(DeadRun { first, last, count, .. }) = self.dead.take()
            && count >= DEAD_NAMES
        {
            self.names.add(self.trail, first, last, self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACES: usize = 8;

    fn key(place: usize) -> Vec<u8> {
        vec![u8::try_from(place).unwrap()]
    }

    #[derive(Clone, Debug)]
    enum Act {
        /// One name comes to life or dies.
        Write(usize, bool),
        /// A walk over a stretch, so many revisions ago, remembers it if all of it is dead.
        Walk(usize, usize, usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (0..PLACES, any::<bool>()).prop_map(|(place, lives)| Act::Write(place, lives)),
            (0..PLACES, 0..PLACES, 0..4_usize).prop_map(|(a, b, ago)| Act::Walk(
                a.min(b),
                a.max(b),
                ago
            )),
        ]
    }

    proptest! {
        /// No range passes by a name that lives at the revision that is read.
        #[test]
        fn no_range_holds_what_lives(acts in prop::collection::vec(act(), 1..60)) {
            let (names, trail) = (DeadNames::default(), RecentWrites::new(0));
            let mut past = vec![[false; PLACES]];
            for act in acts {
                let newest = past.len() - 1;
                match act {
                    Act::Write(place, lives) => {
                        trail.record(newest as Revision + 1, [key(place).as_slice()].into_iter());
                        past.push(past[newest]);
                        past[newest + 1][place] = lives;
                    }
                    Act::Walk(first, last, ago) => {
                        let seen = newest.saturating_sub(ago);
                        if past[seen][first..=last].iter().all(|lives| !lives) {
                            names.add(&trail, key(first), key(last), (seen as Revision, 0));
                        }
                    }
                }
                for (seen, living) in past.iter().enumerate() {
                    let passed = |place: &usize| {
                        names.end_of(&trail, &key(*place), (seen as Revision, 0)).is_some()
                    };
                    let wrong = (0..PLACES).find(|place| living[*place] && passed(place));
                    prop_assert_eq!(wrong, None, "at {}", seen);
                }
            }
        }
    }
}
