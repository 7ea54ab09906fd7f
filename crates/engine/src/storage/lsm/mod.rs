//! The versioned ordered store under the index.
//!
//! ```text
//!  memtable full            background thread
//!       | ingest                 | compact(floor)
//!       v                        v
//!  +---------+   tables   +-------------+   Sieve: what no read at or above
//!  | level 0 | ---------> | levels 1..6 |   the floor can see does not pass
//!  +---------+            +-------------+
//!       ^                        ^
//!       +--- get, range (at) ----+
//! ```
//!
//! A version is (key, revision, entry). A read at revision `at` sees the newest version of a key
//! that is not above `at`. An entry carries its own revision: byte 0 belongs to the caller, bytes
//! 1..9 hold the revision as `u64` little-endian, the rest belongs to the caller again.

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

#[cfg(any(test, fuzzing))]
pub use check::tables_of;
pub use check::{check_list, check_tables};
pub use delete_scheduler::DeleteScheduler;
pub use disk::DiskStore;
#[cfg(any(test, fuzzing))]
pub use manifest::current_of;
pub use memory::MemoryStore;
#[cfg(test)]
use version::{KEY_LIMIT_BYTES, REVISION_LIMIT, revision_of};

/// Bytes that are cheap to clone, as they lie in a block of the store.
pub type Slice = lsm_tree::Slice;

/// Says of a key and its entry whether it is a deletion that hides nothing, so that it may go
/// once no read can come before it.
pub type Purge = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// Walks keys in ascending order with the entry that a read sees.
pub type Entries = Box<dyn Iterator<Item = Result<(Slice, Slice)>> + Send + 'static>;

/// What all stores of a database share.
#[derive(Clone)]
pub struct StoreOptions {
    /// Blocks read from disk, shared by all stores.
    pub block_cache: Arc<lsm_tree::Cache>,
    /// Open files, shared by all stores; `None` keeps every table open.
    pub descriptors: Option<Arc<lsm_tree::DescriptorTable>>,
    /// Frees the space of tables that were compacted away, on a thread; without it, it is freed at once.
    pub delete_scheduler: Option<Arc<DeleteScheduler>>,
    /// Which deletions may go.
    pub purge: Purge,
}

/// An ordered set of versions, on disk or in memory.
pub enum Store {
    /// Tables on disk.
    Disk(DiskStore),
    /// A tree in memory.
    Memory(MemoryStore),
}

impl Store {
    /// Opens the store in `dir`, or creates it there unless it is expected to exist.
    ///
    /// Damage to the list of tables is refused with [`CorruptIndex`] before any file is touched.
    ///
    /// [`CorruptIndex`]: mainstay_model::Code::CorruptIndex
    pub fn open(dir: &Path, options: &StoreOptions, expect_existing: bool) -> Result<Store> {
        DiskStore::open(dir, options, expect_existing).map(Store::Disk)
    }

    /// Opens a copy of a store that nobody needs after a power cut.
    pub fn open_copy(dir: &Path, options: &StoreOptions) -> Result<Store> {
        DiskStore::open_copy(dir, options).map(Store::Disk)
    }

    /// An empty store that lives as long as the process.
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
    /// Reads lazily, and sees one state whatever is written or compacted meanwhile.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, at: Revision) -> Entries {
        match self {
            Store::Disk(store) => store.range(from, to, at),
            Store::Memory(store) => store.range(from, to, at),
        }
    }

    /// Takes versions in, keys ascending and the revisions of a key descending.
    ///
    /// They are durable and visible when this returns; all of them or, after an error, none. A
    /// version that is here already may come again. Otherwise the versions of a key must be newer
    /// than all that were ingested before: reads stop at the first table that has an answer.
    pub fn ingest<'a>(
        &self,
        versions: impl Iterator<Item = (&'a [u8], Revision, &'a [u8])>,
    ) -> Result<()> {
        match self {
            Store::Disk(store) => store.ingest(versions),
            Store::Memory(store) => store.ingest(versions),
        }
    }

    /// One round of compaction if one is due; gives how many bytes it wrote. It blocks, so call it
    /// from a background thread.
    ///
    /// Fresh tables go down when `runs` of them lie one over the other: many at once rewrite what is below them
    /// less often, few are faster to read.
    ///
    /// What no read at or above `floor` can see is dropped on the way. Nothing at or below the
    /// floor may be ingested any more, and no new read may start below it.
    pub fn compact(&self, floor: Revision, runs: u8) -> Result<u64> {
        match self {
            Store::Disk(store) => store.compact(floor, runs),
            Store::Memory(store) => store.compact(floor),
        }
    }

    /// Rewrites everything without what no read at or above `floor` can see; gives how many bytes
    /// it wrote.
    pub fn compact_all(&self, floor: Revision) -> Result<u64> {
        match self {
            Store::Disk(store) => store.compact_all(floor),
            Store::Memory(store) => store.compact_all(floor),
        }
    }

    /// Whether [`compact`](Store::compact) may find something to do.
    pub fn compaction_due(&self) -> bool {
        match self {
            Store::Disk(store) => store.compaction_due(),
            Store::Memory(store) => store.compaction_due(),
        }
    }

    /// Whether it is time for [`compact`](Store::compact), given how many fresh tables there should be for that. What is
    /// in memory has no tables, and decides by itself.
    pub fn is_ripe(&self, runs: u8) -> bool {
        let enough = match self {
            Store::Disk(store) => store.l0_runs() >= runs.into(),
            Store::Memory(_) => true,
        };
        enough && self.compaction_due()
    }

    /// How many layers of fresh tables a read has to look through: many are a reason to slow
    /// writes down until compaction catches up.
    pub fn l0_runs(&self) -> usize {
        match self {
            Store::Disk(store) => store.l0_runs(),
            Store::Memory(_) => 0,
        }
    }

    /// Refuses where so many layers of fresh tables lie one over the other that no more can be taken; says why nobody has
    /// compacted them.
    pub fn check_room(&self) -> Result<()> {
        match self {
            Store::Disk(store) => store.check_room(),
            Store::Memory(_) => Ok(()),
        }
    }

    /// How many compactions have failed, one behind the other, over a damaged table say: fresh tables lie one over the other for
    /// as long as they do.
    pub fn failed_compactions(&self) -> u32 {
        match self {
            Store::Disk(store) => store.failed_compactions(),
            Store::Memory(_) => 0,
        }
    }

    /// The memory for filters and indexes that stays outside the block cache.
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

    /// How many versions are stored; versions ingested twice may count twice.
    pub fn entries(&self) -> u64 {
        match self {
            Store::Disk(store) => store.entries(),
            Store::Memory(store) => store.entries(),
        }
    }

    /// The highest revision stored, if any. A purge may have taken away what was ingested last,
    /// so this is no mark of what was ingested.
    pub fn highest(&self) -> Option<Revision> {
        match self {
            Store::Disk(store) => store.highest(),
            Store::Memory(store) => store.highest(),
        }
    }
}
