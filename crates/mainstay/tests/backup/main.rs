//! Backups: their contents, the answers of an index that is filled from one, and refused cases.

mod bases;
mod increments;
mod restores;
mod taking;

use mainstay::{
    At, BranchInfo, CellCommand, Code, Database, Durability, Filter, HistoryEntry, ManualClock,
    MergeStrategy, Name, Options, Receipt, RequestId, Revision, Stamp, TagInfo, Transaction, Ttl,
    Value, verify_backup,
};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);

fn clock() -> Arc<ManualClock> {
    ManualClock::new(1_700_000_000_000_000)
}

/// Options with small buffers and segments, and three retention classes.
fn options(clock: &Arc<ManualClock>) -> Options {
    Options::new()
        .durability(Durability::Memory)
        .clock(clock.clone())
        .sweep_interval(None)
        .write_buffer_bytes(64 << 10)
        .segment_bytes(16 << 10)
        .retention(7 * DAY)
        .retention_class("log/", None)
        .retention_class("tmp/", Some(10 * MINUTE))
        .feed_retention(Duration::ZERO, 0)
}

fn fill(db: &Database, clock: &ManualClock, rounds: i64) {
    for round in 0..rounds {
        clock.advance(Duration::from_secs(7));
        for name in ["plain", "log/a", "log/b", "tmp/x"] {
            db.cells().set(name, round).unwrap();
        }
    }
}

fn named() -> Transaction {
    let name = Name::new("by request").unwrap();
    let step = CellCommand::set(name, "once");
    Transaction::new().step(step).request(RequestId::new("request 1").unwrap())
}

/// Writes data of every kind: history, deletions, expiries, branches, tags, merges, receipts.
fn furnish(db: &Database, clock: &ManualClock) -> Receipt {
    fill(db, clock, 60);
    let cells = db.cells();
    cells.set("gone", 1).unwrap();
    cells.delete("gone").unwrap();
    cells.set_with("short", "lived", Ttl::Millis(60_000)).unwrap();
    cells.set_with("long", "lived", Ttl::Millis(30 * 86_400_000)).unwrap();
    db.fork("side", "main", At::Revision(40)).unwrap();
    db.branch("side").unwrap().cells().set("plain", "on the side").unwrap();
    db.fork("merged", "main", At::Latest).unwrap();
    db.branch("merged").unwrap().cells().set("from merged", 1).unwrap();
    db.merge("merged", "main", MergeStrategy::Strict).unwrap();
    db.fork("dropped", "main", At::Latest).unwrap();
    db.branch("dropped").unwrap().cells().set("plain", "never seen again").unwrap();
    db.delete_branch("dropped").unwrap();
    db.tag("early", "main", At::Revision(50)).unwrap();
    db.tag("removed", "main", At::Latest).unwrap();
    db.untag("removed").unwrap();
    let receipt = db.execute(named()).unwrap();
    clock.advance(2 * MINUTE);
    db.sweep().unwrap();
    receipt
}

/// The answers of a database to all queries of these tests.
#[derive(Debug, PartialEq)]
struct Answers {
    revision: Revision,
    branches: Vec<BranchInfo>,
    tags: Vec<TagInfo>,
    hashes: Vec<[u8; 32]>,
    histories: Vec<(String, Vec<HistoryEntry>)>,
    past: Vec<Vec<Result<Option<Value>, Code>>>,
    stamps: Vec<Result<Stamp, Code>>,
    by_stamp: Vec<Result<Revision, Code>>,
}

fn answers(db: &Database) -> Answers {
    let revision = db.revision();
    let branches = db.branches();
    let mut histories = Vec::new();
    for branch in &branches {
        let cells = db.branch(&branch.name).unwrap().cells();
        for name in ["plain", "log/a", "log/b", "tmp/x", "gone", "short", "long", "by request"] {
            histories.push((format!("{}: {name}", branch.name), history(&cells, name)));
        }
    }
    let past = |revision| {
        let cells = match db.cells().at(At::Revision(revision)) {
            Ok(cells) => cells,
            Err(error) => return vec![Err(error.code())],
        };
        let names = ["plain", "log/a", "tmp/x", "gone", "short", "long"];
        names.iter().map(|name| cells.get(name).map_err(|error| error.code())).collect()
    };
    let stamps = (0..=revision).map(|r| db.stamp_of(r).map_err(|error| error.code()));
    let stamps: Vec<_> = stamps.collect();
    let known = stamps.iter().flatten();
    Answers {
        revision,
        hashes: branches.iter().map(|b| db.export_hash(&b.name).unwrap()).collect(),
        branches,
        tags: db.tags(),
        histories,
        past: (0..=revision).map(past).collect(),
        by_stamp: known.map(|s| db.revision_at(*s).map_err(|error| error.code())).collect(),
        stamps,
    }
}

fn history(cells: &mainstay::Cells, name: &str) -> Vec<HistoryEntry> {
    cells.history(name, 100_000, None).unwrap()
}

#[track_caller]
fn assert_same(db: &Database, expected: &Answers) {
    let found = answers(db);
    assert_eq!(found.revision, expected.revision);
    assert_eq!(found.branches, expected.branches);
    for (found, expected) in found.histories.iter().zip(&expected.histories) {
        assert!(found == expected, "{}: {:#?}", found.0, (found.1.len(), expected.1.len()));
    }
    assert!(found == *expected, "the same cells, but not the same in all");
}

fn backup(db: &Database, path: &Path) -> mainstay::BackupReport {
    db.backup(path, &mut |_| {}).unwrap()
}

/// Returns every file and directory below a directory, with its bytes.
fn contents(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
            all.push((path, None));
        } else {
            all.push((path.clone(), Some(fs::read(&path).unwrap())))
        }
    }
    all.sort();
    all
}

/// A directory with a database `db` whose log is trimmed, a backup `base` of it, and the database's answers
/// when it was closed, some revisions later.
struct Case {
    root: TempDir,
    clock: Arc<ManualClock>,
    report: mainstay::BackupReport,
    expected: Answers,
    receipt: Receipt,
}

impl Case {
    fn new() -> Case {
        let root = tempfile::tempdir().unwrap();
        let clock = clock();
        let db = options(&clock).open(root.path().join("db")).unwrap();
        let receipt = furnish(&db, &clock);
        clock.advance(MINUTE);
        fill(&db, &clock, 3);
        db.trim().unwrap();
        assert!(db.stats().log_first > 1, "the log is trimmed: {:?}", db.stats());
        fill(&db, &clock, 2);
        let report = backup(&db, &root.path().join("base"));
        fill(&db, &clock, 2);
        db.branch("side").unwrap().cells().delete("plain").unwrap();
        let expected = answers(&db);
        db.close().unwrap();
        Case { root, clock, report, expected, receipt }
    }

    fn db(&self) -> PathBuf {
        self.root.path().join("db")
    }

    fn base(&self) -> PathBuf {
        self.root.path().join("base")
    }

    fn options(&self) -> Options {
        options(&self.clock)
    }

    fn lose_index(&self) {
        fs::remove_dir_all(self.db().join("index")).unwrap();
    }

    /// Asserts that opening with this base is refused and changes nothing.
    #[track_caller]
    fn assert_refused(&self, base: &Path, code: Code, words: &[&str]) {
        let before = contents(&self.db());
        let error = self.options().base(base).open(self.db()).err().expect("it is refused");
        assert_eq!(error.code(), code, "{error}");
        for word in words.iter().chain(&[base.file_name().unwrap().to_str().unwrap()]) {
            assert!(error.message().contains(word), "{error} does not say {word}");
        }
        assert!(contents(&self.db()) == before, "refusing changed something");
    }
}
