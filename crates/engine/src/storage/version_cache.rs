//! A concurrent hash cache of the newest version of each recently written or read key.
//!
//! ```text
//!   key --hash--> shard --> slot { newest, older: earlier versions that are not flushed }
//!
//!   write            newest is pushed to older, the new version becomes newest      (dirty)
//!   flush settles    flushed versions leave `older`; newest becomes clean
//!   store read       inserts the newest version, clean
//!   over the budget  a clock hand evicts clean slots not read since its last pass
//! ```
//!
//! Write buffer and cache share one table, so a read finds a key with one lookup, and a writer changes one
//! place. Versions are inserted when they are executed, before they are durable. Readers look for the newest
//! version not newer than their snapshot, so they never see them early.
//!
//! A slot always holds the newest version of its key. A reader may therefore insert a version from a store
//! only if no slot has been created meanwhile, and nothing newer than its snapshot was evicted.

use crate::base::metrics::CacheCounters;
use crate::key::keyspace::{PREFIX_BYTES, is_only_walked};
use crate::key::version::Version;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use mainstay_model::Revision;
use parking_lot::{RwLock, RwLockReadGuard};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

/// Enough shards that two readers rarely contend for a lock.
const SHARDS: usize = 256;

/// Maximum number of slots that the clock hand passes per insertion.
const HAND_STEPS: usize = 64;

/// Maximum number of keys prefetched together.
pub(crate) const TOUCH_LIMIT: usize = 16;

type Touched<T> = SmallVec<[T; TOUCH_LIMIT]>;

pub struct VersionCache {
    shards: Box<[RwLock<Shard>]>,
    hasher: FixedState,
    shard_budget_bytes: usize,
    pub hits: CacheCounters,
}

#[derive(Default)]
struct Shard {
    table: HashTable<SlotPosition>,
    slots: Vec<CacheSlot>,
    free: Vec<u32>,
    hand: usize,
    clean_bytes: usize,
    /// The newest revision ever evicted from this shard.
    evicted: Revision,
    evictions: u64,
}

/// The index of a slot, with a tag of its hash that avoids most useless slot reads.
struct SlotPosition {
    tag: u32,
    slot: u32,
}

/// Selects the shard by middle bits: the table uses the low bits for the bucket and the high seven for its
/// own tag.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// Hash bits used neither for the bucket nor for the table's own tag. Eight of them also select the shard.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 16) as u32
}

struct CacheSlot {
    hash: u64,
    newest: Option<Version>,
    /// Usually empty or one version.
    older: SmallVec<[Version; 1]>,
    clean: bool,
    visited: AtomicBool,
}

/// The result of a lookup.
pub enum CacheLookup<T> {
    Found(T),
    /// Not in the cache: the caller has to read the stores.
    Elsewhere,
}

impl VersionCache {
    pub fn new(budget_bytes: usize, seed: u64) -> VersionCache {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        let hasher = FixedState::with_seed(seed);
        let hits = CacheCounters::default();
        VersionCache { shards, hasher, shard_budget_bytes: budget_bytes / SHARDS, hits }
    }

    /// The hash of a key: of its space and branch, then of its name.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        match key.split_first_chunk::<PREFIX_BYTES>() {
            Some((prefix, name)) => self.hash_parts(prefix, name),
            None => self.hasher.hash_one(key),
        }
    }

    #[inline]
    pub fn hash_parts(&self, prefix: &[u8; PREFIX_BYTES], name: &[u8]) -> u64 {
        let [a, b, c, d, e] = *prefix;
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]));
        hasher.write(name);
        hasher.finish()
    }

    /// Looks up the newest version of a name not newer than `at`, without building its key.
    #[inline]
    pub fn lookup_name<T>(
        &self,
        prefix: &[u8; PREFIX_BYTES],
        name: &[u8],
        at: Revision,
        found: impl FnOnce(&Version) -> T,
    ) -> CacheLookup<T> {
        let hash = self.hash_parts(prefix, name);
        let shard = self.shard(hash).read();
        shard.read(
            shard.index_where(hash, |newest| {
                newest.key().split_first_chunk() == Some((prefix, name))
            }),
            at,
            self.counted(found),
        )
    }

    #[inline]
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[shard_of(hash)]
    }

    /// Looks up the newest version of a key not newer than `at`.
    #[inline]
    pub fn lookup<T>(
        &self,
        hash: u64,
        key: &[u8],
        at: Revision,
        found: impl FnOnce(&Version) -> T,
    ) -> CacheLookup<T> {
        let shard = self.shard(hash).read();
        shard.read(shard.index(hash, key), at, self.counted(found))
    }

    /// Counts a hit. The caller that reads a store counts the miss.
    #[inline]
    fn counted<T>(&self, found: impl FnOnce(&Version) -> T) -> impl FnOnce(&Version) -> T {
        |version| {
            self.hits.hit();
            found(version)
        }
    }

    /// Prefetches the newest versions of several keys. Separate lookups would wait for memory one after the
    /// other. Here the cache misses overlap, because no lock is taken between them.
    pub fn prefetch(&self, hashes: &[u64]) {
        let shards: Touched<_> =
            hashes.iter().map(|&hash| self.shard(hash).read_recursive()).collect();
        let place = |(shard, &hash): (&RwLockReadGuard<'_, Shard>, &u64)| {
            shard.table.find(hash, |place| place.tag == tag(hash)).map(|place| place.slot as usize)
        };
        let places: Touched<_> = shards.iter().zip(hashes).map(place).collect();
        let slots: Touched<_> = shards
            .iter()
            .zip(&places)
            .filter_map(|(shard, place)| shard.slots.get((*place)?))
            .collect();
        // Slots first, then versions, because the slots hold the addresses of the versions.
        let newest: Touched<_> = slots.iter().filter_map(|slot| slot.newest.as_ref()).collect();
        black_box(newest.iter().fold(0, |all, version| all ^ version.touch()));
    }

    /// Inserts a version that was just executed.
    pub fn put(&self, hash: u64, version: Version) {
        let mut shard = self.shard(hash).write();
        if let Some(i) = shard.index(hash, version.key()) {
            shard.replace(i, version);
        } else {
            shard.insert(hash, version, false);
            // Inserting a new key adds no clean bytes, so without this nothing would be evicted until the
            // next flush.
            shard.evict(self.shard_budget_bytes);
        }
    }

    /// Inserts a version that a reader at `snapshot` found to be the newest one in a store.
    pub fn put_clean(&self, hash: u64, version: Version, snapshot: Revision) {
        if self.shard_budget_bytes == 0 {
            return;
        }
        let mut shard = self.shard(hash).write();
        if shard.evicted > snapshot || shard.index(hash, version.key()).is_some() {
            return;
        }
        shard.clean_bytes += version.cost_bytes();
        shard.insert(hash, version, true);
        shard.evict(self.shard_budget_bytes);
    }

    /// Marks as flushed these versions, sorted by key, and all older ones of their keys.
    pub fn settle(&self, sorted: &[Version], upto: Revision) {
        let keys = (0..sorted.len())
            .filter(|&i| !sorted[i].key().first().is_some_and(|&it| is_only_walked(it)))
            .filter(|&i| i == 0 || sorted[i - 1].key() != sorted[i].key());
        let mut keys: Vec<(u64, usize)> = keys.map(|i| (self.hash(sorted[i].key()), i)).collect();
        // Shard by shard, so that one lock serves many keys, and their cache misses overlap.
        keys.sort_unstable_by_key(|&(hash, _)| shard_of(hash));
        for together in keys.chunk_by(|(a, _), (b, _)| shard_of(*a) == shard_of(*b)) {
            let mut shard = self.shard(together[0].0).write();
            for &(hash, i) in together {
                shard.settle(hash, &sorted[i], upto);
                shard.evict(self.shard_budget_bytes);
            }
        }
    }

    /// Removes a version that will never be durable. Versions must be removed newest first.
    pub fn undo(&self, version: &Version, flushed: Revision) {
        let hash = self.hash(version.key());
        let mut shard = self.shard(hash).write();
        let Some(i) = shard.index(hash, version.key()) else { return };
        let slot = &mut shard.slots[i];
        if slot.newest.as_ref().map(Version::revision) != Some(version.revision()) {
            return;
        }
        match slot.older.pop() {
            Some(previous) => {
                slot.clean = previous.revision() <= flushed && slot.older.is_empty();
                let cost = if slot.clean { previous.cost_bytes() } else { 0 };
                slot.newest = Some(previous);
                shard.clean_bytes += cost;
            }
            None => {
                // Earlier versions may have been flushed and dropped from `older` meanwhile. A reader that
                // read the stores before that must not insert an older version.
                shard.evicted = shard.evicted.max(version.revision());
                shard.remove(i);
            }
        }
    }

    pub fn clean_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().clean_bytes).sum()
    }

    /// The total number of evictions.
    pub fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().evictions).sum()
    }
}

impl CacheSlot {
    #[inline]
    fn at(&self, at: Revision) -> Option<&Version> {
        let newest = self.newest.as_ref()?;
        if newest.revision() <= at {
            return Some(newest);
        }
        let older = self.older.partition_point(|version| version.revision() <= at);
        self.older[..older].last()
    }

    /// Drops flushed versions. Returns the bytes that became clean.
    fn settle(&mut self, upto: Revision) -> usize {
        let flushed = self.older.partition_point(|version| version.revision() <= upto);
        self.older.drain(..flushed);
        if self.older.is_empty() {
            self.older = SmallVec::new();
        }
        match &self.newest {
            Some(newest) if !self.clean && newest.revision() <= upto => {
                self.clean = true;
                newest.cost_bytes()
            }
            _ => 0,
        }
    }
}

impl Shard {
    #[inline]
    fn index(&self, hash: u64, key: &[u8]) -> Option<usize> {
        self.index_where(hash, |newest| newest.key() == key)
    }

    #[inline]
    fn index_where(&self, hash: u64, is_key: impl Fn(&Version) -> bool) -> Option<usize> {
        let is_slot = |place: &SlotPosition| {
            let slot = &self.slots[place.slot as usize];
            place.tag == tag(hash) && slot.hash == hash && slot.newest.as_ref().is_some_and(&is_key)
        };
        self.table.find(hash, is_slot).map(|place| place.slot as usize)
    }

    #[inline]
    fn read<T>(
        &self,
        place: Option<usize>,
        at: Revision,
        found: impl FnOnce(&Version) -> T,
    ) -> CacheLookup<T> {
        let Some(i) = place else { return CacheLookup::Elsewhere };
        let slot = &self.slots[i];
        if !slot.visited.load(Ordering::Relaxed) {
            slot.visited.store(true, Ordering::Relaxed);
        }
        match slot.at(at) {
            Some(version) => CacheLookup::Found(found(version)),
            None => CacheLookup::Elsewhere,
        }
    }

    fn settle(&mut self, hash: u64, version: &Version, upto: Revision) {
        // Usually the newest version is this very one, which avoids comparing keys.
        if let Some(i) =
            self.index_where(hash, |newest| newest.is(version) || newest.key() == version.key())
        {
            self.clean_bytes += self.slots[i].settle(upto);
        }
    }

    fn replace(&mut self, i: usize, version: Version) {
        let slot = &mut self.slots[i];
        let Some(old) = slot.newest.replace(version) else { return };
        if slot.clean {
            slot.clean = false;
            self.clean_bytes = self.clean_bytes.saturating_sub(old.cost_bytes());
        }
        slot.older.push(old);
    }

    fn insert(&mut self, hash: u64, version: Version, clean: bool) {
        let newest = Some(version);
        let slot = CacheSlot {
            hash,
            newest,
            older: SmallVec::new(),
            clean,
            visited: AtomicBool::new(false),
        };
        let i = match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = slot;
                i
            }
            None => {
                if self.slots.len() == self.slots.capacity() {
                    // Doubling would reserve far more than the budget accounts for.
                    self.slots.reserve_exact(self.slots.len() / 8 + 16);
                }
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        let place = SlotPosition { tag: tag(hash), slot: i };
        self.table.insert_unique(hash, place, |place| slots[place.slot as usize].hash);
    }

    fn remove(&mut self, i: usize) {
        let hash = self.slots[i].hash;
        if let Ok(entry) = self.table.find_entry(hash, |place| place.slot as usize == i) {
            entry.remove();
        }
        let slot = &mut self.slots[i];
        if slot.clean {
            let cost = slot.newest.as_ref().map_or(0, Version::cost_bytes);
            self.clean_bytes = self.clean_bytes.saturating_sub(cost);
        }
        slot.newest = None;
        slot.older = SmallVec::new();
        slot.clean = false;
        self.free.push(i as u32);
    }

    /// Advances the clock hand until the clean versions fit the budget, or the step limit is reached.
    fn evict(&mut self, budget_bytes: usize) {
        let mut steps = 0;
        while self.clean_bytes > budget_bytes && steps < HAND_STEPS && !self.slots.is_empty() {
            steps += 1;
            let i = self.hand % self.slots.len();
            self.hand = i + 1;
            let slot = &mut self.slots[i];
            if !slot.clean || !slot.older.is_empty() || slot.newest.is_none() {
                continue;
            }
            // A second chance, unless the shard is far over its budget.
            let pressed = self.clean_bytes > budget_bytes + budget_bytes / 8;
            if std::mem::take(slot.visited.get_mut()) && !pressed {
                continue;
            }
            let revision = slot.newest.as_ref().map_or(0, Version::revision);
            self.evicted = self.evicted.max(revision);
            self.evictions += 1;
            self.remove(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::entry::EntryHeader;

    fn version(name: &str, revision: Revision) -> Version {
        let head = EntryHeader {
            flags: 0,
            revision,
            stamp: revision,
            counter: 1,
            writes: 1,
            expires: None,
        };
        let mut entry = Vec::new();
        head.write(&[b'v'; 100], &mut entry);
        Version::new(name.as_bytes(), &entry)
    }

    fn put(current: &VersionCache, name: &str, revision: Revision) {
        current.put(current.hash(name.as_bytes()), version(name, revision));
    }

    fn seen(current: &VersionCache, name: &str, at: Revision) -> Option<Revision> {
        let key = name.as_bytes();
        match current.lookup(current.hash(key), key, at, Version::revision) {
            CacheLookup::Found(revision) => Some(revision),
            CacheLookup::Elsewhere => None,
        }
    }

    #[test]
    fn a_reader_sees_the_version_of_its_snapshot() {
        let current = VersionCache::new(1 << 20, 1);
        for revision in [3, 5, 9] {
            put(&current, "a", revision);
        }
        let views: Vec<_> = (2..10).map(|at| seen(&current, "a", at)).collect();
        let expected = [None, Some(3), Some(3), Some(5), Some(5), Some(5), Some(5), Some(9)];
        assert_eq!(views, expected);
    }

    #[test]
    fn settling_leaves_only_what_the_stores_lack() {
        let current = VersionCache::new(1 << 20, 1);
        for revision in [3, 5, 9] {
            put(&current, "a", revision);
        }
        current.settle(&[version("a", 5), version("a", 3)], 5);
        assert_eq!((seen(&current, "a", 5), seen(&current, "a", 9)), (None, Some(9)));
        assert_eq!(current.clean_bytes(), 0);
        current.settle(&[version("a", 9)], 9);
        assert_eq!(current.clean_bytes(), version("a", 9).cost_bytes());
        put(&current, "a", 11);
        assert_eq!(current.clean_bytes(), 0);
        assert_eq!(seen(&current, "a", 10), Some(9));
    }

    #[test]
    fn a_stale_read_never_replaces_what_was_written_and_evicted_meanwhile() {
        let current = VersionCache::new(0, 1);
        put(&current, "a", 9);
        current.settle(&[version("a", 9)], 9);
        assert_eq!(seen(&current, "a", 9), None, "a budget of nothing evicts at once");
        current.put_clean(current.hash(b"a"), version("a", 3), 4);
        assert_eq!(seen(&current, "a", 9), None, "revision 3 is not the newest");
    }

    #[test]
    fn a_stale_read_never_takes_the_place_of_what_was_undone() {
        let current = VersionCache::new(1 << 20, 1);
        put(&current, "a", 5);
        put(&current, "a", 9);
        current.settle(&[version("a", 5)], 5);
        current.undo(&version("a", 9), 5);
        current.put_clean(current.hash(b"a"), version("a", 3), 4);
        assert_eq!(seen(&current, "a", 9), None, "the stores know of revision 5");
        current.put_clean(current.hash(b"a"), version("a", 5), 9);
        assert_eq!(seen(&current, "a", 9), Some(5));
    }

    #[test]
    fn undoing_brings_back_the_version_before() {
        let current = VersionCache::new(1 << 20, 1);
        put(&current, "a", 3);
        put(&current, "a", 5);
        current.undo(&version("a", 5), 3);
        assert_eq!(seen(&current, "a", 9), Some(3));
        current.undo(&version("a", 3), 0);
        assert_eq!(seen(&current, "a", 9), None);
        assert_eq!(current.clean_bytes(), 0);
    }

    #[test]
    fn clean_values_stay_within_the_budget_and_dirty_ones_stay() {
        let budget = 256 * 2 * version("key 00000", 1).cost_bytes();
        let current = VersionCache::new(budget, 1);
        for i in 0..20_000_u64 {
            put(&current, &format!("key {i:05}"), i + 1);
        }
        let there = |i: u64| seen(&current, &format!("key {i:05}"), u64::MAX).is_some();
        assert!((0..20_000).all(there), "dirty versions are never evicted");
        let all: Vec<_> = (0..20_000_u64).map(|i| version(&format!("key {i:05}"), i + 1)).collect();
        current.settle(&all, 20_000);
        let limit = budget + budget / 8;
        assert!(current.clean_bytes() <= limit, "{} > {limit}", current.clean_bytes());
        assert!((0..20_000).filter(|&i| there(i)).count() > 300);
    }
}
