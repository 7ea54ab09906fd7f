//! A cache of ranges of names that are all dead, so that listings skip them in one step.
//!
//! ```text
//!   names    x x x x x x x x o o x o        x deleted or expired, o alive
//!   range    [_____________]                the next listing continues after it
//! ```
//!
//! Deleted cells and records keep their counters for the retention time, so dead names stay in the store. A
//! range records the result of an earlier scan. It is valid for reads at that revision or later, until a name
//! in it is written. Writers do not update ranges. Instead, a reader looks up later writes in `RecentWrites`.
//! [`DeadRangeCache`](crate::storage::dead_ranges) does the same for index entries, which `RecentWrites` does
//! not record.

use crate::mvcc::recent_writes::RecentWrites;
use mainstay_model::{Revision, Stamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Minimum number of consecutive dead names for a range to be cached.
const DEAD_NAMES: usize = 64;
/// Maximum number of cached ranges.
const RANGES: usize = 4096;

#[derive(Default)]
pub struct DeadNames(Mutex<DeadNameMap>);

#[derive(Default)]
struct DeadNameMap {
    /// Ranges by their first key.
    ranges: BTreeMap<Vec<u8>, Dead>,
    /// The revision up to which writes have been checked against the ranges.
    upto: Revision,
}

struct Dead {
    last: Vec<u8>,
    /// All names of the range were dead at this revision and this time.
    revision: Revision,
    now: Stamp,
}

impl DeadNames {
    /// The last key of the cached range that contains `key`, if it is valid at this revision and time.
    fn end_of(&self, trail: &RecentWrites, key: &[u8], at: (Revision, Stamp)) -> Option<Vec<u8>> {
        let mut inner = self.0.lock();
        inner.catch_up(trail, at.0);
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (_, dead) = inner.ranges.range::<[u8], _>(upto).next_back()?;
        let holds = dead.last.as_slice() >= key && dead.revision <= at.0 && dead.now <= at.1;
        holds.then(|| dead.last.clone())
    }

    /// Caches a range of dead names.
    fn add(
        &self,
        trail: &RecentWrites,
        first: Vec<u8>,
        last: Vec<u8>,
        (revision, now): (Revision, Stamp),
    ) {
        let mut inner = self.0.lock();
        inner.catch_up(trail, revision);
        // A name in the range may have been written after this revision.
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
    /// Drops ranges with a write up to `revision`.
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

    /// Adds a range, merged with those it overlaps, so that ranges never overlap. The merged range is valid
    /// from the newest revision and time among its parts.
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

/// State of a scan over names, and of its current run of dead names.
pub(crate) struct DeadWalk<'d> {
    names: &'d DeadNames,
    trail: &'d RecentWrites,
    at: (Revision, Stamp),
    /// The key after which the scan starts, until its first step.
    start: Option<Vec<u8>>,
    /// The current run of consecutive dead names.
    dead: Option<DeadRun>,
}

/// A run of consecutive dead names.
struct DeadRun {
    first: Vec<u8>,
    last: Vec<u8>,
    count: usize,
    /// True if its last name is the end of a cached range.
    skipped: bool,
}

impl<'d> DeadWalk<'d> {
    /// Starts a scan after the key `start`, as of a revision and a time.
    pub fn new(
        names: &'d DeadNames,
        trail: &'d RecentWrites,
        at: (Revision, Stamp),
        start: Option<Vec<u8>>,
    ) -> DeadWalk<'d> {
        DeadWalk { names, trail, at, start, dead: None }
    }

    /// Records a dead name. If a cached range contains it, returns the last key of that range, after which
    /// the scan continues.
    pub fn dead(&mut self, key: Vec<u8>) -> Option<Vec<u8>> {
        let end = |key: &[u8]| self.names.end_of(self.trail, key, self.at);
        let start = self.start.take();
        let Some(row) = &mut self.dead else {
            let known = end(&key);
            // No name lies between `start` and this one, so a cached range that ends at `start` is extended.
            let first = start.filter(|start| end(start).is_some()).unwrap_or_else(|| key.clone());
            let last = known.clone().unwrap_or(key);
            let skipped = known.is_some();
            self.dead = Some(DeadRun { first, last, count: 1, skipped });
            return known;
        };
        let known = if row.skipped { end(&key) } else { None };
        row.skipped = known.is_some();
        // Adjacent ranges are merged into one.
        row.count = if row.skipped { DEAD_NAMES } else { row.count + 1 };
        row.last = known.clone().unwrap_or(key);
        known
    }

    /// Ends the current run of dead names, at a live name or at the end of the scan.
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
        /// Writes a name that is live (true) or dead.
        Write(usize, bool),
        /// A scan over a range, this many revisions ago. It caches the range if all names in it are dead.
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
        /// No cached range contains a name that is live at the revision of the read.
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
