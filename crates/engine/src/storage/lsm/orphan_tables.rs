//! Table files that are not part of the tree: being written, or left behind by a failed ingest or compaction.
//!
//! lsm-tree removes them when a store is opened. A full disk must not stay full until then, so the store
//! removes them at once. A file that is no longer listed may still be used by an open range. Such files were
//! listed once, which distinguishes them from orphans.

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
    /// Records tables that are, or are about to be, part of the tree.
    pub(super) fn list(&self, ids: impl Iterator<Item = u64>) {
        self.listed.lock().extend(ids);
    }

    /// The files in `tables` that were never part of the tree: those being written, and the leftovers of a
    /// failure.
    pub(super) fn unlisted(&self, tables: &Path) -> io::Result<Vec<PathBuf>> {
        let files: Vec<fs::DirEntry> = fs::read_dir(tables)?.collect::<io::Result<_>>()?;
        let listed = self.listed.lock();
        let unlisted = files.iter().filter(|file| id(file).is_some_and(|id| !listed.contains(&id)));
        Ok(unlisted.map(fs::DirEntry::path).collect())
    }

    /// Deletes the files in `tables` that were never part of the tree.
    ///
    /// No table may be written meanwhile. Files that cannot be deleted remain until the next start.
    pub(super) fn sweep(&self, tables: &Path) {
        for path in self.unlisted(tables).into_iter().flatten() {
            drop(fs::remove_file(path));
        }
    }
}

/// The table id of this file; `None` if it is not a table.
fn id(file: &fs::DirEntry) -> Option<u64> {
    file.file_name().to_str()?.parse().ok()
}
