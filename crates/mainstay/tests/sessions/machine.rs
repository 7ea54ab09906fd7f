//! A machine that outlives the databases on it: the log in the test's own files, the index in a directory.

use super::*;
use mainstay::{Files, MemoryFiles};
use tempfile::TempDir;

pub struct Machine {
    pub directory: TempDir,
    pub clock: Arc<ManualClock>,
    files: Arc<dyn Files>,
}

impl Machine {
    pub fn with(files: Arc<dyn Files>) -> Machine {
        let directory = tempfile::tempdir().unwrap();
        Machine { directory, clock: ManualClock::new(START_US), files }
    }

    pub fn open(&self) -> Database {
        options(&self.clock).files(self.files.clone()).open(self.directory.path()).unwrap()
    }

    /// Replaces the log by a copy, as after a crash.
    pub fn lose_all_but(&mut self, files: MemoryFiles) -> Arc<MemoryFiles> {
        let files = Arc::new(files);
        self.files = files.clone();
        files
    }
}

/// Returns a request whose answer is a cell of `bytes` bytes, for a response of a chosen size.
pub fn sized(bytes: usize) -> Transaction {
    add("n").step(CellCommand::Get { name: name(&format!("size/{bytes}")) })
}

pub fn make_sizes(db: &Database, sizes: &[usize]) {
    for &bytes in sizes {
        db.cells().set(&format!("size/{bytes}"), "x".repeat(bytes)).unwrap();
    }
}
