//! Table files that are no part of the tree: being written, or left behind by a failed ingest or compaction.
//!
//! lsm-tree removes them when a store is opened. A disk that ran full must not stay full until
//! then, so we remove them at once. A file that is no longer listed may still be read by an open
//! range; those were listed once, and are told apart by that.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The ids of all tables that were part of the tree since it was opened.
#[derive(Default)]
pub(super) struct OrphanTables {
    listed: Mutex<HashSet<u64>>,
}

impl OrphanTables {
    /// Remembers tables that are, or are about to be, part of the tree.
    pub(super) fn list(&self, ids: impl Iterator<Item = u64>) {
        self.listed.lock().extend(ids);
    }

    /// The files in `tables` that never were part of the tree: those that are being written, and those that a failure left.
    pub(super) fn unlisted(&self, tables: &Path) -> io::Result<Vec<PathBuf>> {
        let files: Vec<fs::DirEntry> = fs::read_dir(tables)?.collect::<io::Result<_>>()?;
        let listed = self.listed.lock();
        let unlisted = files.iter().filter(|file| id(file).is_some_and(|id| !listed.contains(&id)));
        Ok(unlisted.map(fs::DirEntry::path).collect())
    }

    /// Removes the files in `tables` that never were part of the tree.
    ///
    /// No table may be being written meanwhile. What cannot be removed waits for the next start.
    pub(super) fn sweep(&self, tables: &Path) {
        for path in self.unlisted(tables).into_iter().flatten() {
            drop(fs::remove_file(path));
        }
    }
}

/// The id of the table in this file.
fn id(file: &fs::DirEntry) -> Option<u64> {
    file.file_name().to_str()?.parse().ok()
}
