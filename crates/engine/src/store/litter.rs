//! Table files that a failed ingest or compaction left behind.
//!
//! lsm-tree removes them when a store is opened. A disk that ran full must not stay full until
//! then, so we remove them at once. A file that is no longer listed may still be read by an open
//! range; those were listed once, and are told apart by that.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use parking_lot::Mutex;

/// The ids of all tables that were part of the tree since it was opened.
#[derive(Default)]
pub(super) struct Litter {
    listed: Mutex<HashSet<u64>>,
}

impl Litter {
    /// Remembers tables that are, or are about to be, part of the tree.
    pub(super) fn list(&self, ids: impl Iterator<Item = u64>) {
        self.listed.lock().extend(ids);
    }

    /// Removes the files in `tables` that never were part of the tree.
    ///
    /// No table may be being written meanwhile. What cannot be removed waits for the next start.
    pub(super) fn sweep(&self, tables: &Path) {
        let Ok(files) = fs::read_dir(tables) else { return };
        let mut listed = self.listed.lock();
        let mut present = HashSet::new();
        for file in files.flatten() {
            let id = file.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            match id {
                Some(id) if listed.contains(&id) => {
                    present.insert(id);
                }
                Some(_) => drop(fs::remove_file(file.path())),
                None => {}
            }
        }
        *listed = present;
    }
}
