//! The purge rule of compaction: decides which tombstones and other entries may be dropped, besides shadowed
//! versions.
//!
//! - Tombstones on `main` and in the system spaces hide nothing in layers below.
//! - Keys of a deleted branch and entries of a dropped index are no longer readable.
//! - Stamps of revisions are needed as far back as any data or the log can be read.
//!
//! All are dropped only once their revision is at or below the floor of their class.

use crate::key::entry::{self, DELETED};
use crate::key::keyspace::{self, ENTRIES, MAIN_ID};
use crate::storage::lsm::Purge;
use crate::storage::timestamp_index::TimestampIndex;
use mainstay_model::Revision;
use parking_lot::RwLock;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct TombstoneGc {
    /// Ids of deleted branches.
    dropped: RwLock<HashSet<u32>>,
    /// Ids of dropped indexes.
    dropped_indexes: RwLock<HashSet<u32>>,
    /// Stamps of revisions before this one are no longer needed.
    stamps_from: AtomicU64,
}

impl TombstoneGc {
    /// Sets the branches and indexes that readers can no longer reach. Their ids are never reused.
    pub fn learn(&self, branches: impl Iterator<Item = u32>, indexes: impl Iterator<Item = u32>) {
        *self.dropped.write() = branches.collect();
        *self.dropped_indexes.write() = indexes.collect();
    }

    /// Allows compaction to drop the stamps of revisions before this one.
    pub fn drop_times(&self, before: Revision) {
        // Pairs with the `Acquire` in `is_past`.
        self.stamps_from.fetch_max(before, Ordering::AcqRel);
    }

    /// The rule as a callback for the stores.
    pub fn rule(self: &Arc<TombstoneGc>) -> Purge {
        let purger = self.clone();
        Arc::new(move |key, entry| purger.may_go(key, entry))
    }

    fn may_go(&self, key: &[u8], entry: &[u8]) -> bool {
        let Some((space, branch, name)) = keyspace::split(key) else { return false };
        let deleted = entry.first().is_some_and(|flags| flags & DELETED != 0);
        // The name of an expiry marker is the expiry time, followed by the key that expires.
        let marked = name.get(8..).and_then(keyspace::split).map(|(_, branch, _)| branch);
        match space {
            keyspace::EXPIRIES => deleted || marked.is_none_or(|branch| self.is_dropped(branch)),
            keyspace::TIMES => self.is_past(entry),
            ENTRIES if self.is_of_dropped_index(name) => true,
            _ if keyspace::is_system(space) || branch == MAIN_ID => deleted,
            _ => self.is_dropped(branch),
        }
    }

    fn is_of_dropped_index(&self, name: &[u8]) -> bool {
        let id = name.first_chunk::<4>().map(|id| u32::from_be_bytes(*id));
        id.is_some_and(|id| self.dropped_indexes.read().contains(&id))
    }

    fn is_dropped(&self, branch: u32) -> bool {
        self.dropped.read().contains(&branch)
    }

    /// Returns whether a block of stamps covers only revisions that are no longer readable.
    fn is_past(&self, entry: &[u8]) -> bool {
        let end = entry::parse(entry).ok().and_then(|(_, payload)| TimestampIndex::end_of(payload));
        // Pairs with the `AcqRel` in `drop_times`.
        end.is_some_and(|end| end < self.stamps_from.load(Ordering::Acquire))
    }
}
