//! The write buffer (memtable): versions that the stores do not hold yet, in execution order.
//!
//! ```text
//!   push ->  versions  [ v v v v v v v | v v v ]
//!                        sorted runs     tail: sorted by the next scan
//! ```
//!
//! Point reads use [`VersionCache`](crate::storage::version_cache::VersionCache). The buffer serves scans and
//! the flush. Most buffers are never scanned, so sorting is lazy. A scan turns the tail into a sorted run,
//! and runs of similar size are merged, which costs each version a logarithmic number of moves.

use crate::key::keyspace;
use crate::key::version::Version;
use mainstay_model::{Revision, Stamp};
use parking_lot::{Mutex, RwLock};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};

#[derive(Default)]
pub struct Memtable {
    /// One list per group of key spaces, in key order: user data, events of runs, event keys, index entries
    /// and similar keys, and internal data. Scans of one group do not sort the others.
    lists: [List; BEGINS.len()],
    /// The first revision and stamp of each range in which both increase by the same amount.
    times: Mutex<Vec<(Revision, Stamp)>>,
    bytes: AtomicUsize,
}

#[derive(Default)]
struct List {
    versions: RwLock<Vec<Version>>,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    sorted: usize,
    runs: Vec<Vec<Version>>,
}

impl Memtable {
    /// A new buffer with room for about as many versions as the last one.
    pub fn like(last: &Memtable) -> Memtable {
        let table = Memtable::default();
        for (list, last) in table.lists.iter().zip(&last.lists) {
            let count = last.versions.read().len();
            list.versions.write().reserve(count + count / 8);
        }
        table
    }

    /// Appends a version. Only one thread, the writer, calls this.
    #[inline]
    pub fn push(&self, version: Version) {
        self.bytes.fetch_add(version.cost_bytes(), Memory::Relaxed);
        self.list(version.key()).versions.write().push(version);
    }

    #[inline]
    fn list(&self, key: &[u8]) -> &List {
        &self.lists[place(key)]
    }

    /// Records the stamp of a revision. Revisions must ascend.
    pub fn note_time(&self, revision: Revision, stamp: Stamp) {
        let mut times = self.times.lock();
        if times.last().is_some_and(|&(first, start)| revision - first == stamp.wrapping_sub(start))
        {
            return;
        }
        times.push((revision, stamp));
        self.bytes.fetch_add(size_of::<(Revision, Stamp)>(), Memory::Relaxed);
    }

    pub fn times(&self) -> Vec<(Revision, Stamp)> {
        self.times.lock().clone()
    }

    pub fn with_times<T>(&self, read: impl FnOnce(&[(Revision, Stamp)]) -> T) -> T {
        read(&self.times.lock())
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Memory::Relaxed)
    }

    /// Removes everything newer than a revision. Returns it newest first.
    pub fn undo(&self, after: Revision) -> Vec<Version> {
        let undone: Vec<Version> = self.lists.iter().flat_map(|list| list.undo(after)).collect();
        let cost: usize = undone.iter().map(Version::cost_bytes).sum();
        self.bytes.fetch_sub(cost, Memory::Relaxed);
        self.times.lock().retain(|&(revision, _)| revision <= after);
        undone
    }

    /// Returns at most `limit` keys of a range in order, each with its newest version not newer than `at`.
    pub fn page(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        at: Revision,
        limit: usize,
    ) -> Vec<Version> {
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => place(key),
            Bound::Unbounded => 0,
        };
        let mut page = Vec::new();
        for (place, list) in self.lists.iter().enumerate().skip(first) {
            let is_in_range = place == first || is_before_end(&[BEGINS[place]], to);
            if !is_in_range || page.len() == limit {
                break;
            }
            let mut order = list.order.lock();
            order.catch_up(&list.versions.read());
            page.append(&mut order.page(from, to, at, limit - page.len()));
        }
        page
    }

    /// All versions of several buffers, sorted by key, the newest of each key first.
    pub fn sorted(tables: &[&Memtable]) -> Vec<Version> {
        let all = |place: usize| {
            let mut versions = Vec::new();
            for table in tables {
                versions.extend_from_slice(&table.lists[place].versions.read());
            }
            sorted(versions)
        };
        (0..BEGINS.len()).flat_map(all).collect()
    }
}

/// The first key space of each list.
const BEGINS: [u8; 5] =
    [0, keyspace::EVENTS, keyspace::EVENT_KEYS, keyspace::ENTRIES, keyspace::SESSIONS];

/// The index of the list that holds a key.
#[inline]
fn place(key: &[u8]) -> usize {
    let space = key.first().copied().unwrap_or_default();
    BEGINS[1..].iter().take_while(|begin| space >= **begin).count()
}

impl List {
    fn undo(&self, after: Revision) -> Vec<Version> {
        // Same lock order as in a scan.
        let mut order = self.order.lock();
        let mut versions = self.versions.write();
        let keep = versions.partition_point(|version| version.revision() <= after);
        let mut undone = versions.split_off(keep);
        undone.reverse();
        *order = Order::default();
        undone
    }
}

fn sorted(versions: Vec<Version>) -> Vec<Version> {
    let shared = shared_prefix(&versions);
    let mut places: Vec<(u64, u32)> = Vec::with_capacity(versions.len());
    for (i, version) in versions.iter().enumerate() {
        places.push((leading(&version.key()[shared..]), i as u32));
    }
    // The eight bytes after the shared prefix decide nearly every comparison without reading the versions.
    places.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| compare(&versions[a.1 as usize], &versions[b.1 as usize]))
    });
    // Moved, not cloned: incrementing the reference count of each version would fetch it from memory.
    let mut versions: Vec<_> = versions.into_iter().map(Some).collect();
    places.into_iter().filter_map(|(_, i)| versions[i as usize].take()).collect()
}

/// The length of the prefix that all keys share.
fn shared_prefix(versions: &[Version]) -> usize {
    let Some((first, rest)) = versions.split_first() else { return 0 };
    let first = first.key();
    rest.iter().fold(first.len(), |shared, version| {
        let same = first[..shared].iter().zip(version.key()).take_while(|(a, b)| a == b);
        same.count()
    })
}

/// The first eight bytes as an integer with the same order.
fn leading(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    let n = bytes.len().min(8);
    padded[..n].copy_from_slice(&bytes[..n]);
    u64::from_be_bytes(padded)
}

/// Orders by key, then newest first.
fn compare(a: &Version, b: &Version) -> Ordering {
    a.key().cmp(b.key()).then_with(|| b.revision().cmp(&a.revision()))
}

impl Order {
    fn catch_up(&mut self, versions: &[Version]) {
        if self.sorted == versions.len() {
            return;
        }
        let mut tail = versions[self.sorted..].to_vec();
        tail.sort_unstable_by(compare);
        self.sorted = versions.len();
        self.runs.push(tail);
        self.merge_runs();
    }

    /// Merges until each run is at least twice as long as the next.
    fn merge_runs(&mut self) {
        while let [.., a, b] = self.runs.as_slice() {
            if a.len() >= 2 * b.len() {
                return;
            }
            if let (Some(b), Some(a)) = (self.runs.pop(), self.runs.pop()) {
                self.runs.push(merge(a, b));
            }
        }
    }

    fn page(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        at: Revision,
        limit: usize,
    ) -> Vec<Version> {
        let mut tails: Vec<&[Version]> = self.runs.iter().map(|run| seek(run, from)).collect();
        let mut page: Vec<Version> = Vec::new();
        while page.len() < limit {
            let Some(version) = smallest(&mut tails, at) else { break };
            if !is_before_end(version.key(), to) {
                break;
            }
            if page.last().is_none_or(|last| last.key() != version.key()) {
                page.push(version.clone());
            }
        }
        page
    }
}

fn merge(a: Vec<Version>, b: Vec<Version>) -> Vec<Version> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let mut a = a.into_iter().peekable();
    let mut b = b.into_iter().peekable();
    loop {
        let from_a = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => compare(x, y).is_le(),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return merged,
        };
        merged.extend(if from_a { a.next() } else { b.next() });
    }
}

fn seek<'a>(run: &'a [Version], from: Bound<&[u8]>) -> &'a [Version] {
    let start = match from {
        Bound::Unbounded => 0,
        Bound::Included(key) => run.partition_point(|version| version.key() < key),
        Bound::Excluded(key) => run.partition_point(|version| version.key() <= key),
    };
    &run[start..]
}

/// Removes and returns the smallest version not newer than `at`.
fn smallest<'a>(tails: &mut [&'a [Version]], at: Revision) -> Option<&'a Version> {
    for tail in tails.iter_mut() {
        while tail.first().is_some_and(|version| version.revision() > at) {
            *tail = &tail[1..];
        }
    }
    let tail = tails.iter_mut().filter(|tail| !tail.is_empty());
    let tail = tail.min_by(|a, b| compare(&a[0], &b[0]))?;
    let (first, rest) = tail.split_first()?;
    *tail = rest;
    Some(first)
}

pub(crate) fn is_before_end(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => true,
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::entry::EntryHeader;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn version(name: &[u8], revision: Revision) -> Version {
        let head =
            EntryHeader { flags: 0, revision, stamp: 0, counter: 1, writes: 1, expires: None };
        let mut entry = Vec::new();
        head.write(b"", &mut entry);
        Version::new(name, &entry)
    }

    proptest! {
        #[test]
        fn pages_and_flush_order_agree_with_a_sorted_map(
            names in prop::collection::vec("[\x01\x02\x06\x10][ab]{1,9}", 1..200),
            scan_every in 1_usize..50,
            at in 0_u64..220,
            from in "[\x01\x06][ab]{0,3}",
            to in "[\x02\x07\x11]",
        ) {
            let table = Memtable::default();
            let mut model: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
            for (i, name) in names.iter().enumerate() {
                let revision = i as u64 + 1;
                table.push(version(name.as_bytes(), revision));
                model.entry(name.clone().into_bytes()).or_default().push(revision);
                if i % scan_every == 0 {
                    table.page(Bound::Unbounded, Bound::Unbounded, revision, 3);
                }
            }
            let (from, to) = (from.as_bytes(), Bound::Excluded(to.as_bytes()));
            let page = table.page(Bound::Excluded(from), to, at, 10);
            let expected: Vec<_> = model
                .iter()
                .filter(|(name, _)| name.as_slice() > from && is_before_end(name, to))
                .filter_map(|(name, all)| {
                    all.iter().rfind(|&&r| r <= at).map(|&r| (name.clone(), r))
                })
                .take(10)
                .collect();
            let page: Vec<_> = page.iter().map(|v| (v.key().to_vec(), v.revision())).collect();
            prop_assert_eq!(page, expected);
            let sorted: Vec<_> =
                Memtable::sorted(&[&table]).iter().map(|v| (v.key().to_vec(), v.revision())).collect();
            let expected: Vec<_> = model
                .iter()
                .flat_map(|(name, all)| all.iter().rev().map(|&r| (name.clone(), r)))
                .collect();
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn times_are_kept_where_they_do_not_rise_with_the_revision() {
        let table = Memtable::default();
        for (revision, stamp) in [(1, 100), (2, 101), (3, 102), (4, 200), (5, 201), (6, 500)] {
            table.note_time(revision, stamp);
        }
        assert_eq!(table.times(), [(1, 100), (4, 200), (6, 500)]);
        table.undo(4);
        assert_eq!(table.times(), [(1, 100), (4, 200)]);
    }
}
