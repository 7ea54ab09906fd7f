//! Syncs table files while they are written, as RocksDB does with `bytes_per_sync`.
//!
//! lsm-tree syncs a table once, when it is complete. For 64 MiB that takes tens of milliseconds, and the sync of a commit waits for it:
//! a disk takes all that was written before. Synced in small parts, a table delays a commit by one part.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::litter::Litter;

/// After so many bytes of keys and values the table is synced.
const BYTES_PER_SYNC: usize = 2 << 20;

/// Counts the bytes that go into new tables of a store.
#[derive(Clone)]
pub(super) struct EarlySync {
    tables: PathBuf,
    litter: Arc<Litter>,
    unsynced: usize,
}

impl EarlySync {
    pub(super) fn new(tables: PathBuf, litter: Arc<Litter>) -> EarlySync {
        EarlySync { tables, litter, unsynced: 0 }
    }

    /// Adds bytes that are about to be written; when they are many, syncs the tables that are not listed yet.
    ///
    /// lsm-tree does not tell which file it writes. There are two at most, of an ingest and of a compaction.
    pub(super) fn add(&mut self, bytes: usize) -> io::Result<()> {
        self.unsynced += bytes;
        if self.unsynced < BYTES_PER_SYNC {
            return Ok(());
        }
        self.unsynced = 0;
        for path in self.litter.unlisted(&self.tables).into_iter().flatten() {
            // One that cannot be opened is synced when it is complete. One that cannot be synced ends the ingest or the compaction: the
            // next sync of the same file may not report it again.
            if let Ok(file) = File::open(path) {
                file.sync_data()?;
            }
        }
        Ok(())
    }
}
