//! The versioned LSM store under the index.
//!
//! ```text
//!  memtable full            background thread
//!       | ingest                 | compact(floor)
//!       v                        v
//!  +---------+   tables   +-------------+   RetentionRule: drops versions that
//!  | level 0 | ---------> | levels 1..6 |   no read at or above the floor sees
//!  +---------+            +-------------+
//!       ^                        ^
//!       +--- get, range (at) ----+
//! ```
//!
//! A version is (key, revision, entry). A read at revision `at` sees the newest version of a key that is not
//! above `at`. An entry carries its own revision: byte 0 belongs to the caller, bytes 1..9 hold the revision
//! as `u64` little-endian, the rest belongs to the caller again.

mod bounds;
mod check;
mod compaction_filter;
mod delete_scheduler;
mod disk;
mod early_sync;
mod failure;
mod manifest;
mod memory;
mod orphan_tables;
mod retention_rule;
mod table_options;
mod version;

#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use mainstay_model::{Result, Revision};

#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub use check::tables_of;
pub use check::{check_list, check_tables};
pub use delete_scheduler::DeleteScheduler;
pub use disk::DiskStore;
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub use manifest::current_of;
pub use memory::MemoryStore;
#[cfg(test)]
use version::{KEY_LIMIT_BYTES, REVISION_LIMIT, revision_of};

/// A reference-counted byte slice, which may point into a block of the store.
pub type Slice = lsm_tree::Slice;

/// Returns whether an entry is a deletion that hides nothing. Such a tombstone may be dropped once no read
/// can come before it.
pub type Purge = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// Iterates keys in ascending order, with the entry that the read sees.
pub type Entries = Box<dyn Iterator<Item = Result<(Slice, Slice)>> + Send + 'static>;

/// Options shared by all stores of a database.
#[derive(Clone)]
pub struct StoreOptions {
    /// Cache of blocks read from disk, shared by all stores.
    pub block_cache: Arc<lsm_tree::Cache>,
    /// Cache of open files, shared by all stores; `None` keeps every table open.
    pub descriptors: Option<Arc<lsm_tree::DescriptorTable>>,
    /// Frees the space of compacted tables on a background thread; with `None` their space is freed at once.
    pub delete_scheduler: Option<Arc<DeleteScheduler>>,
    /// Decides which tombstones may be dropped.
    pub purge: Purge,
}

/// An ordered set of versions, on disk or in memory.
pub enum Store {
    /// An LSM tree on disk.
    Disk(DiskStore),
    /// An ordered map in memory.
    Memory(MemoryStore),
}

impl Store {
    /// Opens the store in `dir`, or creates it unless `expect_existing` is set.
    ///
    /// A damaged table manifest is refused with [`CorruptIndex`] before any file is touched.
    ///
    /// [`CorruptIndex`]: mainstay_model::Code::CorruptIndex
    pub fn open(dir: &Path, options: &StoreOptions, expect_existing: bool) -> Result<Store> {
        DiskStore::open(dir, options, expect_existing).map(Store::Disk)
    }

    /// Opens a temporary copy of a store, without the syncs that make it survive a power failure.
    pub fn open_copy(dir: &Path, options: &StoreOptions) -> Result<Store> {
        DiskStore::open_copy(dir, options).map(Store::Disk)
    }

    /// An empty store in memory.
    pub fn memory(purge: Purge) -> Store {
        Store::Memory(MemoryStore::new(purge))
    }

    /// The entry of the newest version of `key` that is not above `at`.
    pub fn get(&self, key: &[u8], at: Revision) -> Result<Option<Slice>> {
        match self {
            Store::Disk(store) => store.get(key, at),
            Store::Memory(store) => store.get(key, at),
        }
    }

    /// The newest version not above `at` of each key between the bounds, in ascending order.
    ///
    /// Reads lazily from one consistent state, regardless of concurrent writes and compactions.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, at: Revision) -> Entries {
        match self {
            Store::Disk(store) => store.range(from, to, at),
            Store::Memory(store) => store.range(from, to, at),
        }
    }

    /// Ingests versions, keys ascending and the revisions of a key descending.
    ///
    /// All of them are durable and visible when this returns; after an error, none is. A version that is
    /// already stored may be ingested again. Otherwise the versions of a key must be newer than all that were
    /// ingested before, because reads stop at the first table that has an answer.
    pub fn ingest<'a>(
        &self,
        versions: impl Iterator<Item = (&'a [u8], Revision, &'a [u8])>,
    ) -> Result<()> {
        match self {
            Store::Disk(store) => store.ingest(versions),
            Store::Memory(store) => store.ingest(versions),
        }
    }

    /// Runs one round of compaction if one is due. Returns the bytes written. It blocks, so call it from a
    /// background thread.
    ///
    /// Level 0 is compacted once it has `runs` runs. More runs mean fewer rewrites of the levels below, fewer
    /// runs mean faster reads.
    ///
    /// Drops versions that no read at or above `floor` can see. From then on, no revision at or below the
    /// floor may be ingested, and no new read may start below it.
    pub fn compact(&self, floor: Revision, runs: u8) -> Result<u64> {
        match self {
            Store::Disk(store) => store.compact(floor, runs),
            Store::Memory(store) => store.compact(floor),
        }
    }

    /// Rewrites everything and drops versions that no read at or above `floor` can see. Returns the bytes
    /// written.
    pub fn compact_all(&self, floor: Revision) -> Result<u64> {
        match self {
            Store::Disk(store) => store.compact_all(floor),
            Store::Memory(store) => store.compact_all(floor),
        }
    }

    /// Returns whether [`compact`](Store::compact) may find work.
    pub fn compaction_due(&self) -> bool {
        match self {
            Store::Disk(store) => store.compaction_due(),
            Store::Memory(store) => store.compaction_due(),
        }
    }

    /// Returns whether it is time for [`compact`](Store::compact), given the number of level 0 runs required
    /// for it. A store in memory has no tables, and decides by itself.
    pub fn is_ripe(&self, runs: u8) -> bool {
        let enough = match self {
            Store::Disk(store) => store.l0_runs() >= runs.into(),
            Store::Memory(_) => true,
        };
        enough && self.compaction_due()
    }

    /// The number of level 0 runs that a read has to check. A high number is a reason for back-pressure on
    /// writes until compaction catches up.
    pub fn l0_runs(&self) -> usize {
        match self {
            Store::Disk(store) => store.l0_runs(),
            Store::Memory(_) => 0,
        }
    }

    /// Fails if level 0 has so many runs that no more tables can be added. The error says why they are not
    /// compacted.
    pub fn check_room(&self) -> Result<()> {
        match self {
            Store::Disk(store) => store.check_room(),
            Store::Memory(_) => Ok(()),
        }
    }

    /// The number of consecutive failed compactions, for example because of a damaged table. Level 0 grows
    /// while they fail.
    pub fn failed_compactions(&self) -> u32 {
        match self {
            Store::Disk(store) => store.failed_compactions(),
            Store::Memory(_) => 0,
        }
    }

    /// Bytes of filters and block indexes that stay in memory outside the block cache.
    pub fn pinned_bytes(&self) -> u64 {
        match self {
            Store::Disk(store) => store.pinned_bytes() as u64,
            Store::Memory(_) => 0,
        }
    }

    /// The size of the data in all tables, without their indexes and filters.
    pub fn disk_bytes(&self) -> u64 {
        match self {
            Store::Disk(store) => store.disk_bytes(),
            Store::Memory(_) => 0,
        }
    }

    /// The number of stored versions; versions ingested twice may count twice.
    pub fn entries(&self) -> u64 {
        match self {
            Store::Disk(store) => store.entries(),
            Store::Memory(store) => store.entries(),
        }
    }

    /// The highest revision stored, if any. A purge may have removed the newest versions, so this does not
    /// state how far the store was filled.
    pub fn highest(&self) -> Option<Revision> {
        match self {
            Store::Disk(store) => store.highest(),
            Store::Memory(store) => store.highest(),
        }
    }
}
