//! A cache of index ranges in which every entry is dead, so that later searches skip them.
//!
//! ```text
//!   entries   x x x x x x x x o o x o        x dead, o alive
//!   range     [_____________]                the next search starts after it
//! ```
//!
//! An index over values that change often, such as the state of jobs, has far more dead entries than live
//! ones until compaction runs. A range only records the result of a search. It is valid for reads at that
//! revision or later, until an entry is written into it, and may be dropped at any time. Ranges never
//! overlap, so one lookup finds the range that contains a key, and a write invalidates at most one.

use mainstay_model::Revision;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum number of dead entries for a range to be cached.
pub(crate) const GRAVE_ENTRIES: usize = 64;
/// Maximum number of cached ranges.
const GRAVES: usize = 4096;
/// Number of recent writes kept, to detect writes that a search could not see.
const WRITES: usize = 4096;

pub struct DeadRangeCache {
    inner: Mutex<DeadRangeMap>,
    /// The newest executed revision: the revision at which the writer reads.
    executed: AtomicU64,
}

struct DeadRangeMap {
    /// First key -> last key, and the revision from which all entries between are dead.
    graves: BTreeMap<Vec<u8>, (Vec<u8>, Revision)>,
    /// Recent writes of live entries, with their revision.
    writes: VecDeque<(Revision, Vec<u8>)>,
    /// `writes` contains all writes after this revision.
    since: Revision,
}

/// A range of dead entries, both ends inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadRange {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
}

impl Default for DeadRangeCache {
    /// A cache that rejects every range until [`DeadRangeCache::begin`].
    fn default() -> DeadRangeCache {
        let graves = BTreeMap::new();
        let writes = VecDeque::new();
        let inner = Mutex::new(DeadRangeMap { graves, writes, since: Revision::MAX });
        DeadRangeCache { inner, executed: AtomicU64::new(0) }
    }
}

impl DeadRangeCache {
    /// Starts recording: from this revision on, the cache is notified of every write.
    pub fn begin(&self, revision: Revision) {
        self.inner.lock().since = revision;
        self.reach(revision);
    }

    /// Records that every revision up to this one is executed.
    pub fn reach(&self, revision: Revision) {
        // Pairs with the `Acquire` in `insert`: the writes up to this revision are recorded.
        self.executed.store(revision, Ordering::Release);
    }

    /// Drops the range that contains `key`, because a live entry is written there at `revision`.
    pub fn invalidate(&self, key: &[u8], revision: Revision) {
        let mut inner = self.inner.lock();
        if let Some(grave) = inner.holding(key, Revision::MAX) {
            inner.graves.remove(&grave.first);
        }
        inner.note(key, revision);
    }

    /// The cached range that contains `key` and is valid for a read at `at`.
    pub fn containing(&self, key: &[u8], at: Revision) -> Option<DeadRange> {
        self.inner.lock().holding(key, at)
    }

    /// Caches a range that was dead at a revision, unless an entry was written into it since, even if the
    /// search saw that write.
    pub fn insert(&self, grave: DeadRange, at: Revision) {
        // The writer reads at a revision above all others, but has seen only executed writes. Pairs with the
        // `Release` in `reach`.
        let at = at.min(self.executed.load(Ordering::Acquire));
        let mut inner = self.inner.lock();
        let inside = |key: &Vec<u8>| *key >= grave.first && *key <= grave.last;
        let opened = inner.writes.iter().any(|(revision, key)| *revision > at && inside(key));
        if at < inner.since || opened {
            return;
        }
        if inner.graves.len() >= GRAVES {
            inner.graves.clear();
        }
        inner.join(grave, at);
    }

    /// The number of cached ranges.
    pub fn len(&self) -> usize {
        self.inner.lock().graves.len()
    }

    /// Drops all ranges, because the revisions after `executed` were undone.
    pub fn forget(&self, executed: Revision) {
        self.inner.lock().graves.clear();
        self.reach(executed);
    }
}

impl DeadRangeMap {
    /// Records a write. It replaces the oldest one if the list is full.
    fn note(&mut self, key: &[u8], revision: Revision) {
        let mut place = Vec::new();
        if self.writes.len() >= WRITES
            && let Some((gone, oldest)) = self.writes.pop_front()
        {
            self.since = self.since.max(gone);
            place = oldest;
        }
        place.clear();
        place.extend_from_slice(key);
        self.writes.push_back((revision, place));
    }

    fn holding(&self, key: &[u8], at: Revision) -> Option<DeadRange> {
        let (grave, since) = self.reaching(key)?;
        (since <= at).then_some(grave)
    }

    /// The range that contains a key, and the revision from which it is valid.
    fn reaching(&self, key: &[u8]) -> Option<(DeadRange, Revision)> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (first, (last, since)) = self.graves.range::<[u8], _>(upto).next_back()?;
        let grave = || DeadRange { first: first.clone(), last: last.clone() };
        (last.as_slice() >= key).then(|| (grave(), *since))
    }

    /// Adds a range, merged with those it overlaps. A merged range is valid from the newest revision among
    /// its parts. If an existing range contains the new one and is valid at least as early, nothing changes.
    fn join(&mut self, mut grave: DeadRange, mut since: Revision) {
        let first = grave.first.clone();
        let last = grave.last.clone();
        if let Some((earlier, from)) = self.reaching(&first) {
            if earlier.last >= last && from <= since {
                return;
            }
            grave.first = earlier.first;
        }
        let met = self.graves.range(grave.first.clone()..=last);
        let met: Vec<Vec<u8>> = met.map(|(first, _)| first.clone()).collect();
        for (last, from) in met.iter().filter_map(|first| self.graves.remove(first)) {
            grave.last = grave.last.max(last);
            since = since.max(from);
        }
        self.graves.insert(grave.first, (grave.last, since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::index::NEWEST;
    use proptest::prelude::*;

    fn grave(first: &str, last: &str) -> DeadRange {
        DeadRange { first: first.into(), last: last.into() }
    }

    fn graves() -> DeadRangeCache {
        let graves = DeadRangeCache::default();
        graves.begin(3);
        graves
    }

    fn reached(revision: Revision) -> DeadRangeCache {
        let graves = graves();
        graves.reach(revision);
        graves
    }

    #[test]
    fn a_grave_holds_for_later_looks_until_something_is_written_into_it() {
        let graves = reached(5_000);
        graves.insert(grave("b", "d"), 7);
        let holding = |key: &str, at| graves.containing(key.as_bytes(), at);
        assert_eq!(holding("c", 7), Some(grave("b", "d")));
        assert_eq!([holding("c", 6), holding("a", 9), holding("e", 9)], [None, None, None]);
        graves.invalidate(b"e", 8);
        assert_eq!(holding("b", 9), Some(grave("b", "d")));
        graves.invalidate(b"c", 9);
        assert_eq!(holding("b", 9), None);
    }

    #[test]
    fn what_was_written_behind_the_look_is_not_buried() {
        let graves = reached(5_000);
        graves.invalidate(b"c", 8);
        graves.insert(grave("b", "d"), 7);
        graves.insert(grave("e", "f"), 7);
        assert_eq!(graves.containing(b"c", 9), None, "the look at 7 did not see what came at 8");
        assert_eq!(graves.containing(b"e", 9), Some(grave("e", "f")));
        graves.insert(grave("b", "d"), 8);
        assert!(graves.containing(b"c", 9).is_some(), "at 8 it was seen, and was dead");
        graves.forget(9);
        assert_eq!(graves.containing(b"c", 9), None);
    }

    /// Operations on a few index entries.
    #[derive(Clone, Debug)]
    enum Act {
        /// Writes an entry that is live (true) or dead.
        Write(usize, bool),
        /// Reads a range, this many revisions ago, or as the writer (`None`).
        Look(usize, usize, Option<u64>),
        Undo,
    }

    fn act() -> impl Strategy<Value = Act> {
        let look = (0..PLACES, 0..PLACES, prop::option::of(0..6_u64));
        prop_oneof![
            4 => (0..PLACES, any::<bool>()).prop_map(|(place, lives)| Act::Write(place, lives)),
            8 => look.prop_map(|(a, b, ago)| Act::Look(a.min(b), a.max(b), ago)),
            1 => Just(Act::Undo),
        ]
    }

    const PLACES: usize = 8;

    fn key(place: usize) -> Vec<u8> {
        vec![u8::try_from(place).unwrap()]
    }

    proptest! {
        /// No cached range, at any revision, contains an entry that is live at that revision.
        #[test]
        fn no_grave_holds_what_lives(acts in prop::collection::vec(act(), 1..60)) {
            let graves = graves();
            // Which entries are live, for each revision from 3 on.
            let mut past = vec![[false; PLACES]];
            for act in acts {
                let newest = past.len() - 1;
                match act {
                    Act::Write(place, lives) => {
                        let revision = (newest + 4) as Revision;
                        if lives {
                            graves.invalidate(&key(place), revision);
                        }
                        past.push(past[newest]);
                        past[newest + 1][place] = lives;
                        graves.reach(revision);
                    }
                    Act::Look(first, last, ago) => {
                        let seen = newest.saturating_sub(ago.unwrap_or(0) as usize);
                        let at = ago.map_or(NEWEST, |_| (seen + 3) as Revision);
                        if past[seen][first..=last].iter().all(|lives| !lives) {
                            graves.insert(DeadRange { first: key(first), last: key(last) }, at);
                        }
                    }
                    Act::Undo => {
                        past.truncate(newest.max(1));
                        graves.forget((past.len() + 2) as Revision);
                    }
                }
                for (seen, living) in past.iter().enumerate() {
                    let told = |place: &usize| graves.containing(&key(*place), (seen + 3) as Revision);
                    let wrong = (0..PLACES).find(|place| living[*place] && told(place).is_some());
                    prop_assert_eq!(wrong, None, "at {}", seen + 3);
                }
            }
        }
    }

    #[test]
    fn graves_that_meet_are_one() {
        let graves = reached(5_000);
        graves.insert(grave("b", "f"), 7);
        graves.insert(grave("d", "h"), 5);
        assert_eq!(graves.len(), 1);
        assert_eq!(graves.containing(b"h", 7), Some(grave("b", "h")));
        assert_eq!(
            graves.containing(b"h", 6),
            None,
            "not all of it was dead then, as far as is known"
        );
        graves.insert(grave("c", "d"), 9);
        assert_eq!(
            graves.containing(b"d", 7),
            Some(grave("b", "h")),
            "it says more than the new one"
        );
        graves.invalidate(b"g", 10);
        assert_eq!((graves.len(), graves.containing(b"g", 10)), (0, None));
    }

    #[test]
    fn a_look_at_before_what_is_remembered_buries_nothing() {
        let graves = reached(5_000);
        graves.insert(grave("b", "d"), 2);
        assert_eq!(graves.containing(b"c", 9), None);
        for i in 0..=WRITES {
            graves.invalidate(format!("x{i}").as_bytes(), 10 + i as Revision);
        }
        graves.insert(grave("b", "d"), 9);
        assert_eq!(graves.containing(b"c", 99), None);
        graves.insert(grave("b", "d"), 10);
        assert!(graves.containing(b"c", 99).is_some());
        DeadRangeCache::default().insert(grave("b", "d"), 9);
    }
}
