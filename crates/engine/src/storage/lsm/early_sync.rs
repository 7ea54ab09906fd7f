//! Syncs table files while they are being written, like RocksDB's `bytes_per_sync`.
//!
//! lsm-tree syncs a table once, when it is complete. For 64 MiB that takes tens of milliseconds. The fsync of
//! a commit waits for it, because a disk first writes everything submitted before. Synced in small parts, a
//! table delays a commit by one part only.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::orphan_tables::OrphanTables;

/// A table is synced after this many bytes of keys and values.
const BYTES_PER_SYNC: usize = 2 << 20;

/// Counts the bytes written to new tables of a store.
#[derive(Clone)]
pub(super) struct EarlySync {
    tables: PathBuf,
    litter: Arc<OrphanTables>,
    unsynced: usize,
    /// The length of each unlisted table at its last sync.
    synced: HashMap<PathBuf, u64>,
}

impl EarlySync {
    pub(super) fn new(tables: PathBuf, litter: Arc<OrphanTables>) -> EarlySync {
        EarlySync { tables, litter, unsynced: 0, synced: HashMap::new() }
    }

    /// Adds bytes that are about to be written. Every [`BYTES_PER_SYNC`] bytes it syncs the tables that are
    /// not listed yet. Returns the number of tables synced.
    ///
    /// lsm-tree does not report which file it writes, and lists the tables of a compaction when all are
    /// complete. Tables that have not grown since their last sync are skipped, because even an fsync of a
    /// clean file flushes the disk's cache.
    pub(super) fn add(&mut self, bytes: usize) -> io::Result<usize> {
        self.unsynced += bytes;
        if self.unsynced < BYTES_PER_SYNC {
            return Ok(0);
        }
        self.unsynced = 0;
        let before = std::mem::take(&mut self.synced);
        let mut count = 0;
        for path in self.litter.unlisted(&self.tables).into_iter().flatten() {
            // A table that cannot be opened is synced when it is complete. A failed sync aborts the ingest or
            // the compaction, because the next sync of the same file may not report the error again.
            let Ok(file) = File::open(&path) else { continue };
            let Ok(length) = file.metadata().map(|about| about.len()) else { continue };
            if before.get(&path) != Some(&length) {
                file.sync_data()?;
                count += 1;
            }
            self.synced.insert(path, length);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_have_grown_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let write =
            |id: u64, text: &str| std::fs::write(dir.path().join(id.to_string()), text).unwrap();
        let litter = Arc::new(OrphanTables::default());
        let mut early_sync = EarlySync::new(dir.path().to_owned(), litter.clone());
        for id in 1..=3 {
            write(id, "a");
        }
        litter.list([1].into_iter());
        assert_eq!(early_sync.add(BYTES_PER_SYNC - 1).unwrap(), 0, "not enough yet");
        assert_eq!(early_sync.add(1).unwrap(), 2, "the first one is listed");
        assert_eq!(early_sync.add(BYTES_PER_SYNC).unwrap(), 0);
        write(2, "ab");
        assert_eq!(early_sync.add(BYTES_PER_SYNC).unwrap(), 1);
    }
}
