//! A cache of ranges of an index in which every entry is dead, so that a search walks over them once.
//!
//! ```text
//!   entries   x x x x x x x x o o x o        x dead, o alive
//!   range     [_____________]                the next search begins behind it
//! ```
//!
//! An index over what changes all the time, such as the state of jobs, has far more dead entries than live
//! ones until compaction comes by. A range only remembers what a search saw. It holds for reads
//! at that revision or later, until an entry is written into it, and may be dropped at any time. No two
//! ranges overlap, so one lookup finds the range that contains a key, and a write invalidates at most one.

use mainstay_model::Revision;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many dead entries make a grave.
pub(crate) const GRAVE_ENTRIES: usize = 64;
/// How many graves are remembered.
const GRAVES: usize = 4096;
/// How many of the newest writes are remembered, so that it is known what a search could not see.
const WRITES: usize = 4096;

pub(crate) struct DeadRangeCache {
    inner: Mutex<DeadRangeMap>,
    /// The newest executed revision, which is what the writer looks at.
    executed: AtomicU64,
}

struct DeadRangeMap {
    /// By their first key: the last key, and from which revision on all between is dead.
    graves: BTreeMap<Vec<u8>, (Vec<u8>, Revision)>,
    /// Entries that came to life, with the revision that they get.
    writes: VecDeque<(Revision, Vec<u8>)>,
    /// All that came behind this revision are among them.
    since: Revision,
}

/// A stretch of dead entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadRange {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
}

impl Default for DeadRangeCache {
    /// Knows nothing of what was written, and buries nothing before it is told.
    fn default() -> DeadRangeCache {
        let (graves, writes) = (BTreeMap::new(), VecDeque::new());
        let inner = Mutex::new(DeadRangeMap { graves, writes, since: Revision::MAX });
        DeadRangeCache { inner, executed: AtomicU64::new(0) }
    }
}

impl DeadRangeCache {
    /// From this revision on it is told of all that is written.
    pub fn begin(&self, revision: Revision) {
        self.inner.lock().since = revision;
        self.reach(revision);
    }

    /// All up to this revision was executed.
    pub fn reach(&self, revision: Revision) {
        self.executed.store(revision, Ordering::Release);
    }

    /// An entry comes to life at a revision: no grave may hold it.
    pub fn invalidate(&self, key: &[u8], revision: Revision) {
        let mut inner = self.inner.lock();
        if let Some(grave) = inner.holding(key, Revision::MAX) {
            inner.graves.remove(&grave.first);
        }
        inner.note(key, revision);
    }

    /// The grave that holds a key, for somebody who looks at a revision.
    pub fn containing(&self, key: &[u8], at: Revision) -> Option<DeadRange> {
        self.inner.lock().holding(key, at)
    }

    /// Remembers that all from one key to another was dead at a revision, unless something has been written
    /// there since, seen or not.
    pub fn insert(&self, grave: DeadRange, at: Revision) {
        // The writer looks at all there is, which is no more than was executed.
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

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.inner.lock().graves.len()
    }

    /// Forgets all graves, as everything behind a revision was taken back.
    pub fn forget(&self, executed: Revision) {
        self.inner.lock().graves.clear();
        self.reach(executed);
    }
}

impl DeadRangeMap {
    /// Remembers a write in the place of the oldest one, once there are enough.
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

    /// The grave that holds a key, and from when on.
    fn reaching(&self, key: &[u8]) -> Option<(DeadRange, Revision)> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (first, (last, since)) = self.graves.range::<[u8], _>(upto).next_back()?;
        let grave = || DeadRange { first: first.clone(), last: last.clone() };
        (last.as_slice() >= key).then(|| (grave(), *since))
    }

    /// Adds a grave, joined with those that it meets. What is joined is true from when all of it is; one
    /// that lies within another which was true before says nothing new.
    fn join(&mut self, mut grave: DeadRange, mut since: Revision) {
        let (first, last) = (grave.first.clone(), grave.last.clone());
        if let Some((earlier, from)) = self.reaching(&first) {
            if earlier.last >= last && from <= since {
                return;
            }
            grave.first = earlier.first;
        }
        let met = self.graves.range(grave.first.clone()..=last);
        let met: Vec<Vec<u8>> = met.map(|(first, _)| first.clone()).collect();
        for (last, from) in met.iter().filter_map(|first| self.graves.remove(first)) {
            (grave.last, since) = (grave.last.max(last), since.max(from));
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

    /// What happens to a few entries, each of which has a place.
    #[derive(Clone, Debug)]
    enum Act {
        /// One comes to life or dies.
        Write(usize, bool),
        /// Somebody looks at a stretch, so many revisions ago, or as the writer.
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
        /// Whoever is told of a grave at a revision finds nothing in it that lives there.
        #[test]
        fn no_grave_holds_what_lives(acts in prop::collection::vec(act(), 1..60)) {
            let graves = graves();
            // Which entries lived, for each revision from 3 on.
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
