//! The store in memory: the same behavior without files.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use mainstay_model::{Result, Revision};
use parking_lot::{Mutex, RwLock};

use super::retention_rule::RetentionRule;
use super::version::{OrderChecker, check_key};
use super::{Entries, Purge, Slice, bounds};

/// Number of keys that a range or a compaction handles per lock acquisition.
const CHUNK_KEYS: usize = 256;

/// Compaction is due after this many new versions, plus a quarter of those stored.
const DUE_VERSIONS: u64 = 1024;

/// A store in memory, without persistence.
pub struct MemoryStore {
    purge: Purge,
    shared: Arc<MemoryStoreShared>,
    compacting: Mutex<()>,
}

#[derive(Default)]
struct MemoryStoreShared {
    versions: RwLock<Versions>,
    /// The revisions at which open ranges read, with the number of ranges.
    open: Mutex<BTreeMap<Revision, usize>>,
}

#[derive(Default)]
struct Versions {
    /// The versions of each key, revisions ascending, so that a new one is appended.
    keys: BTreeMap<Slice, Vec<(Revision, Slice)>>,
    entries: u64,
    since_compaction: u64,
    highest: Option<Revision>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(purge: Purge) -> MemoryStore {
        MemoryStore { purge, shared: Arc::default(), compacting: Mutex::default() }
    }

    /// See [`Store::get`](super::Store::get).
    pub fn get(&self, key: &[u8], at: Revision) -> Result<Option<Slice>> {
        check_key(key)?;
        let versions = self.shared.versions.read();
        Ok(versions.keys.get(key).and_then(|versions| newest(versions, at)))
    }

    /// See [`Store::range`](super::Store::range).
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, at: Revision) -> Entries {
        let Some((from, to)) = bounds::normalise(from, to) else {
            return Box::new(std::iter::empty());
        };
        *self.shared.open.lock().entry(at).or_default() += 1;
        Box::new(MemoryRange {
            shared: self.shared.clone(),
            at,
            next: Some(from.map(Slice::from)),
            to: to.map(Slice::from),
            chunk: VecDeque::new(),
        })
    }

    /// See [`Store::ingest`](super::Store::ingest).
    pub fn ingest<'a>(
        &self,
        versions: impl Iterator<Item = (&'a [u8], Revision, &'a [u8])>,
    ) -> Result<()> {
        let mut checker = OrderChecker::default();
        let mut accepted = Vec::new();
        for (key, revision, entry) in versions {
            checker.check(key, revision, entry)?;
            accepted.push((key, revision, Slice::from(entry)));
        }
        let mut versions = self.shared.versions.write();
        // Oldest first, so that each is appended to its key's history.
        for (key, revision, entry) in accepted.into_iter().rev() {
            versions.put(key, revision, entry);
        }
        Ok(())
    }

    /// See [`Store::compact`](super::Store::compact).
    pub fn compact(&self, floor: Revision) -> Result<u64> {
        if self.compaction_due() { self.compact_all(floor) } else { Ok(0) }
    }

    /// See [`Store::compact_all`](super::Store::compact_all).
    pub fn compact_all(&self, floor: Revision) -> Result<u64> {
        let _one = self.compacting.lock();
        self.shared.versions.write().since_compaction = 0;
        let mut next = Some(Bound::Unbounded);
        while let Some(from) = next {
            next = self.compact_chunk(from, floor);
        }
        // Nothing is written to disk.
        Ok(0)
    }

    /// See [`Store::compaction_due`](super::Store::compaction_due).
    pub fn compaction_due(&self) -> bool {
        let versions = self.shared.versions.read();
        versions.since_compaction > DUE_VERSIONS + versions.entries / 4
    }

    /// See [`Store::entries`](super::Store::entries).
    pub fn entries(&self) -> u64 {
        self.shared.versions.read().entries
    }

    /// See [`Store::highest`](super::Store::highest).
    pub fn highest(&self) -> Option<Revision> {
        self.shared.versions.read().highest
    }

    /// Applies the retention rule to some keys. Returns the start of the next chunk.
    fn compact_chunk(&self, from: Bound<Slice>, floor: Revision) -> Option<Bound<Slice>> {
        let mut versions = self.shared.versions.write();
        let floor = floor.min(self.shared.lowest_open());
        let mut sieve = RetentionRule::new(floor, Some(self.purge.clone()));
        let mut last = None;
        let mut dropped = 0;
        let mut emptied = Vec::new();
        for (key, history) in versions.keys.range_mut((from, Bound::Unbounded)).take(CHUNK_KEYS) {
            dropped += sift(&mut sieve, key, history);
            if history.is_empty() {
                emptied.push(key.clone());
            }
            last = Some(key.clone());
        }
        versions.entries -= dropped;
        for key in emptied {
            versions.keys.remove(&key);
        }
        last.map(Bound::Excluded)
    }
}

impl MemoryStoreShared {
    /// The lowest revision of an open range. Ranges read in chunks, so versions they have not reached yet
    /// must stay.
    fn lowest_open(&self) -> Revision {
        self.open.lock().keys().next().copied().unwrap_or(Revision::MAX)
    }

    fn close(&self, at: Revision) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                open.remove(&at);
            }
        }
    }
}

impl Versions {
    fn put(&mut self, key: &[u8], revision: Revision, entry: Slice) {
        self.highest = self.highest.max(Some(revision));
        let history = match self.keys.get_mut(key) {
            Some(history) => history,
            None => self.keys.entry(key.into()).or_default(),
        };
        match history.binary_search_by_key(&revision, |version| version.0) {
            Ok(place) => history[place].1 = entry,
            Err(place) => {
                history.insert(place, (revision, entry));
                self.entries += 1;
                self.since_compaction += 1;
            }
        }
    }
}

fn newest(history: &[(Revision, Slice)], at: Revision) -> Option<Slice> {
    let seen = history.partition_point(|version| version.0 <= at);
    Some(history[..seen].last()?.1.clone())
}

/// Drops the versions that the rule does not keep. Returns their number.
fn sift(sieve: &mut RetentionRule, key: &[u8], history: &mut Vec<(Revision, Slice)>) -> u64 {
    let before = history.len();
    history.reverse();
    history.retain(|(_, entry)| sieve.keep(key, entry));
    history.reverse();
    (before - history.len()) as u64
}

/// A range iterator that reads in chunks, so that it does not hold the lock while its caller works.
struct MemoryRange {
    shared: Arc<MemoryStoreShared>,
    at: Revision,
    /// The start of the next chunk; `None` after the last one.
    next: Option<Bound<Slice>>,
    to: Bound<Slice>,
    chunk: VecDeque<(Slice, Slice)>,
}

impl MemoryRange {
    fn fill(&mut self) {
        while self.chunk.is_empty()
            && let Some(from) = self.next.take()
        {
            let shared = self.shared.clone();
            let versions = shared.versions.read();
            let bounds = (from, self.to.clone());
            for (key, history) in versions.keys.range(bounds).take(CHUNK_KEYS) {
                self.next = Some(Bound::Excluded(key.clone()));
                if let Some(entry) = newest(history, self.at) {
                    self.chunk.push_back((key.clone(), entry));
                }
            }
            self.finish_if_done();
        }
    }

    /// Ends the iteration before the bounds cross or exclude the same key on both sides, because a map panics
    /// on those.
    fn finish_if_done(&mut self) {
        let done = match (&self.next, &self.to) {
            (Some(Bound::Excluded(last)), Bound::Included(to) | Bound::Excluded(to)) => last >= to,
            _ => false,
        };
        if done {
            self.next = None;
        }
    }
}

impl Iterator for MemoryRange {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        self.chunk.pop_front().map(Ok)
    }
}

impl Drop for MemoryRange {
    fn drop(&mut self) {
        self.shared.close(self.at);
    }
}
