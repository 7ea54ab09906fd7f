//! Graves: stretches of an index where every entry is dead, so that a search walks over them once.
//!
//! ```text
//!   entries   x x x x x x x x o o x o        x dead, o alive
//!   grave     [_____________]                the next search begins behind it
//! ```
//!
//! An index over what changes all the time, such as the state of jobs, has far more dead entries than live
//! ones until compaction comes by. A grave is only a memory of what a search saw: it is true for whoever
//! looks at that revision or later, until an entry is written into it, and it may be forgotten at any
//! time.

use mainstay_model::Revision;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// How many dead entries make a grave.
pub(crate) const GRAVE_ENTRIES: usize = 64;
/// How many graves are remembered.
const GRAVES: usize = 4096;
/// How many of the newest writes are remembered, so that it is known what a search could not see.
const WRITES: usize = 4096;

pub(crate) struct Graves(Mutex<Inner>);

struct Inner {
    /// By their first key: the last key, and from which revision on all between is dead.
    graves: BTreeMap<Vec<u8>, (Vec<u8>, Revision)>,
    /// Entries that came to life, with the revision that they get.
    writes: VecDeque<(Revision, Vec<u8>)>,
    /// All that came behind this revision are among them.
    since: Revision,
}

/// A stretch of dead entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grave {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
}

impl Default for Graves {
    /// Knows nothing of what was written, and buries nothing before it is told.
    fn default() -> Graves {
        let (graves, writes) = (BTreeMap::new(), VecDeque::new());
        Graves(Mutex::new(Inner { graves, writes, since: Revision::MAX }))
    }
}

impl Graves {
    /// From this revision on it is told of all that is written.
    pub fn begin(&self, revision: Revision) {
        self.0.lock().since = revision;
    }

    /// An entry comes to life at a revision: no grave may hold it.
    pub fn open(&self, key: &[u8], revision: Revision) {
        let mut inner = self.0.lock();
        if let Some(grave) = inner.holding(key, Revision::MAX) {
            inner.graves.remove(&grave.first);
        }
        inner.note(key, revision);
    }

    /// The grave that holds a key, for somebody who looks at a revision.
    pub fn holding(&self, key: &[u8], at: Revision) -> Option<Grave> {
        self.0.lock().holding(key, at)
    }

    /// Remembers that all from one key to another was dead at a revision, unless something has been written
    /// there since, seen or not.
    pub fn bury(&self, grave: Grave, at: Revision) {
        let mut inner = self.0.lock();
        let inside = |key: &Vec<u8>| *key >= grave.first && *key <= grave.last;
        let opened = inner.writes.iter().any(|(revision, key)| *revision > at && inside(key));
        if at < inner.since || opened {
            return;
        }
        if inner.graves.len() >= GRAVES {
            inner.graves.clear();
        }
        let within = inner.graves.range(grave.first.clone()..=grave.last.clone());
        let within: Vec<Vec<u8>> = within.map(|(first, _)| first.clone()).collect();
        within.iter().for_each(|first| drop(inner.graves.remove(first)));
        inner.graves.insert(grave.first, (grave.last, at));
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.0.lock().graves.len()
    }

    /// Forgets all graves.
    pub fn forget(&self) {
        self.0.lock().graves.clear();
    }
}

impl Inner {
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

    fn holding(&self, key: &[u8], at: Revision) -> Option<Grave> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (first, (last, since)) = self.graves.range::<[u8], _>(upto).next_back()?;
        let holds = last.as_slice() >= key && *since <= at;
        holds.then(|| Grave { first: first.clone(), last: last.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grave(first: &str, last: &str) -> Grave {
        Grave { first: first.into(), last: last.into() }
    }

    fn graves() -> Graves {
        let graves = Graves::default();
        graves.begin(3);
        graves
    }

    #[test]
    fn a_grave_holds_for_later_looks_until_something_is_written_into_it() {
        let graves = graves();
        graves.bury(grave("b", "d"), 7);
        let holding = |key: &str, at| graves.holding(key.as_bytes(), at);
        assert_eq!(holding("c", 7), Some(grave("b", "d")));
        assert_eq!([holding("c", 6), holding("a", 9), holding("e", 9)], [None, None, None]);
        graves.open(b"e", 8);
        assert_eq!(holding("b", 9), Some(grave("b", "d")));
        graves.open(b"c", 9);
        assert_eq!(holding("b", 9), None);
    }

    #[test]
    fn what_was_written_behind_the_look_is_not_buried() {
        let graves = graves();
        graves.open(b"c", 8);
        graves.bury(grave("b", "d"), 7);
        graves.bury(grave("e", "f"), 7);
        assert_eq!(graves.holding(b"c", 9), None, "the look at 7 did not see what came at 8");
        assert_eq!(graves.holding(b"e", 9), Some(grave("e", "f")));
        graves.bury(grave("b", "d"), 8);
        assert!(graves.holding(b"c", 9).is_some(), "at 8 it was seen, and was dead");
        graves.forget();
        assert_eq!(graves.holding(b"c", 9), None);
    }

    #[test]
    fn a_look_at_before_what_is_remembered_buries_nothing() {
        let graves = graves();
        graves.bury(grave("b", "d"), 2);
        assert_eq!(graves.holding(b"c", 9), None);
        for i in 0..=WRITES {
            graves.open(format!("x{i}").as_bytes(), 10 + i as Revision);
        }
        graves.bury(grave("b", "d"), 9);
        assert_eq!(graves.holding(b"c", 99), None);
        graves.bury(grave("b", "d"), 10);
        assert!(graves.holding(b"c", 99).is_some());
        Graves::default().bury(grave("b", "d"), 9);
    }
}
