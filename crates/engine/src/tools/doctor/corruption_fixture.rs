//! Databases with something wrong in them: written past the writer, as only a fault of a program or of a machine could.

use super::*;
use crate::key::entry::{DELETED, EntryHeader};
use crate::key::keyspace::{self, MAIN_ID};
use crate::key::version::Version;
use crate::{Database, Options};
use tempfile::TempDir;

/// A database, and the revision that made what is looked at.
pub struct CorruptDatabase {
    pub directory: TempDir,
    pub db: Database,
    pub generation: u64,
}

/// An empty database that does nothing by itself.
pub fn opened() -> (TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let db = Options::new().sweep_interval(None).open(directory.path()).unwrap();
    (directory, db)
}

impl CorruptDatabase {
    /// Writes something past the writer, into the index alone.
    pub fn put(&self, space: u8, name: &[u8], flags: u8, payload: &[u8]) {
        let revision = self.next_revision();
        let head = EntryHeader { flags, revision, stamp: 1, counter: 9, writes: 1, expires: None };
        let mut entry = Vec::new();
        head.write(payload, &mut entry);
        self.put_entry(space, name, &entry);
    }

    /// Writes something that ends where its counter should be.
    pub fn put_torn(&self, space: u8, name: &[u8]) {
        let revision = self.next_revision().to_le_bytes();
        self.put_entry(space, name, &[&[0], &revision[..], &revision[..], &[255]].concat());
    }

    /// A revision of its own, which the log has for something else.
    pub fn next_revision(&self) -> u64 {
        self.db.cells().set("later", 1).unwrap();
        self.db.revision()
    }

    pub fn put_entry(&self, space: u8, name: &[u8], entry: &[u8]) {
        let key = keyspace::key(space, MAIN_ID, name);
        let index = self.db.here("a test").unwrap().index();
        let active = index.tables().active.clone();
        index.put(&active, index.current.hash(&key), Version::new(&key, entry));
    }

    pub fn remove(&self, space: u8, name: &[u8]) {
        self.put(space, name, DELETED, b"");
    }

    /// What is there.
    pub fn payload(&self, space: u8, name: &[u8]) -> Vec<u8> {
        let index = self.db.here("a test").unwrap().index();
        let key = keyspace::key(space, MAIN_ID, name);
        let read = |entry: &[u8]| crate::key::entry::parse(entry).unwrap().1.to_vec();
        let hash = index.current.hash(&key);
        index.entry(hash, &key, crate::storage::index::NEWEST, false, read).unwrap().unwrap()
    }

    /// Flushes and closes; looks.
    pub fn look(self) -> (TempDir, Report) {
        self.db.trim().unwrap();
        self.db.close().unwrap();
        let report = inspect(self.directory.path()).unwrap();
        (self.directory, report)
    }

    /// Closes, with everything in the stores or in the log alone; what is looked at agrees.
    #[track_caller]
    pub fn healthy(self, is_flushed: bool) -> Report {
        if is_flushed {
            self.db.trim().unwrap();
        }
        self.db.close().unwrap();
        let report = inspect(self.directory.path()).unwrap();
        assert!(report.is_healthy(), "{report}");
        report
    }

    /// Exactly these faults are found, each on `main` and with advice; rebuilding mends them.
    #[track_caller]
    pub fn assert_found<T: std::fmt::Debug>(
        self,
        expected: &[T],
        is_it: impl Fn(&Fault, &T) -> bool,
    ) {
        let (directory, report) = self.look();
        assert_eq!(report.verdict, Verdict::Disagrees, "{report}");
        for one in expected {
            let fault = report.runs.faults.iter().find(|fault| is_it(fault, one));
            let fault = fault.unwrap_or_else(|| panic!("no fault {one:?}: {report}"));
            assert_eq!(fault.branch, "main");
            assert!(report.findings.contains(&fault.to_string()) && !fault.advice.is_empty());
        }
        assert_eq!(report.runs.faults.len(), expected.len(), "{report}");
        // The log never held it.
        salvage(directory.path()).unwrap();
        let db = Options::new().open(directory.path()).unwrap();
        assert!(db.open_report().rebuilt.is_some());
        db.close().unwrap();
        drop(db);
        let report = inspect(directory.path()).unwrap();
        assert!(report.is_healthy(), "{report}");
    }
}
