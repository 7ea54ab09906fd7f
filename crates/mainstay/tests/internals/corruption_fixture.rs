//! Test fixtures of inconsistent databases, written without the writer as only a fault could.

use mainstay_engine::tools::doctor::*;

use mainstay::{Database, Options};
use mainstay_engine::key::entry::{DELETED, EntryHeader};
use mainstay_engine::key::keyspace::{self, MAIN_ID};
use mainstay_engine::key::version::Version;
use tempfile::TempDir;

/// A database, and the revision that created the object under test.
pub struct CorruptDatabase {
    pub directory: TempDir,
    pub db: Database,
    pub generation: u64,
}

/// Returns an empty database without background sweeps.
pub fn opened() -> (TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let db = Options::new().sweep_interval(None).open(directory.path()).unwrap();
    (directory, db)
}

impl CorruptDatabase {
    /// Writes an entry into the index without the writer and without the log.
    pub fn put(&self, space: u8, name: &[u8], flags: u8, payload: &[u8]) {
        let revision = self.next_revision();
        let head = EntryHeader { flags, revision, stamp: 1, counter: 9, writes: 1, expires: None };
        let mut entry = Vec::new();
        head.write(payload, &mut entry);
        self.put_entry(space, name, &entry);
    }

    /// Writes an entry that is cut off where its counter should be.
    pub fn put_torn(&self, space: u8, name: &[u8]) {
        let revision = self.next_revision().to_le_bytes();
        self.put_entry(space, name, &[&[0], &revision[..], &revision[..], &[255]].concat());
    }

    /// Returns a revision that the log uses for another write.
    pub fn next_revision(&self) -> u64 {
        self.db.cells().set("later", 1).unwrap();
        self.db.revision()
    }

    pub fn put_entry(&self, space: u8, name: &[u8], entry: &[u8]) {
        let key = keyspace::key(space, MAIN_ID, name);
        let index = self.db.engine().index();
        let active = index.tables().active.clone();
        index.put(&active, index.current.hash(&key), Version::new(&key, entry));
    }

    pub fn remove(&self, space: u8, name: &[u8]) {
        self.put(space, name, DELETED, b"");
    }

    /// Returns the payload of an entry.
    pub fn payload(&self, space: u8, name: &[u8]) -> Vec<u8> {
        let index = self.db.engine().index();
        let key = keyspace::key(space, MAIN_ID, name);
        let read = |entry: &[u8]| mainstay_engine::key::entry::parse(entry).unwrap().1.to_vec();
        let hash = index.current.hash(&key);
        index
            .entry(hash, &key, mainstay_engine::storage::index::NEWEST, false, read)
            .unwrap()
            .unwrap()
    }

    /// Flushes and closes the database, then inspects it.
    pub fn look(self) -> (TempDir, Report) {
        self.db.trim().unwrap();
        self.db.close().unwrap();
        let report = inspect(self.directory.path()).unwrap();
        (self.directory, report)
    }

    /// Closes the database with everything in the stores or only in the log, and checks that it is
    /// healthy.
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

    /// Checks that exactly these faults are found, each on `main` and with advice, and that a rebuild
    /// repairs them.
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
        // The log never held the bad entry.
        salvage(directory.path()).unwrap();
        let db = Options::new().open(directory.path()).unwrap();
        assert!(db.open_report().rebuilt.is_some());
        db.close().unwrap();
        drop(db);
        let report = inspect(directory.path()).unwrap();
        assert!(report.is_healthy(), "{report}");
    }
}
