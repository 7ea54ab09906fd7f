//! Doctor tests on real files with damage of every kind: refuse with a clear error, inspect without changes,
//! salvage.

mod damage;
mod index;
mod refusals;
mod writers;

use mainstay::doctor::{self, Verdict};
use mainstay::{Cells, Database, HistoryEntry, Options, Value};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CELLS: u64 = 10;

/// Options with small segments, so that a few hundred writes fill several.
fn options() -> Options {
    Options::new().segment_bytes(8192)
}

/// Writes revisions: revision `r` sets one of ten cells to `r`.
fn write(cells: &Cells, revisions: std::ops::RangeInclusive<u64>) {
    for revision in revisions {
        cells.set(&format!("cell {}", revision % CELLS), revision as i64).unwrap();
    }
}

/// Returns a closed database whose log holds `revisions` revisions, and whose index holds the first `flushed`
/// ones.
fn database(flushed: u64, revisions: u64) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let db = options().open(directory.path()).unwrap();
    write(&db.cells(), 1..=flushed);
    if flushed > 0 {
        db.trim().unwrap();
        assert_eq!(db.stats().flushed, flushed);
    }
    write(&db.cells(), flushed + 1..=revisions);
    assert_eq!(db.revision(), revisions);
    db.close().unwrap();
    directory
}

/// Asserts that the cells have the values of a revision.
fn assert_holds(db: &Database, revisions: u64) {
    assert_eq!(db.revision(), revisions);
    for cell in 0..CELLS {
        let last = (1..=revisions).rev().find(|revision| revision % CELLS == cell);
        let found = db.cells().get(&format!("cell {cell}")).unwrap();
        assert_eq!(found, last.map(|last| Value::from(last as i64)), "cell {cell}");
    }
}

/// Opens the database, checks the values, and writes one more revision.
fn assert_opens_with(directory: &Path, revisions: u64) -> Database {
    let db = options().open(directory).unwrap();
    assert_holds(&db, revisions);
    write(&db.cells(), revisions + 1..=revisions + 1);
    assert_holds(&db, revisions + 1);
    db
}

fn histories(db: &Database) -> Vec<Vec<HistoryEntry>> {
    (0..CELLS)
        .map(|cell| db.cells().history(&format!("cell {cell}"), 10_000, None).unwrap())
        .collect()
}

fn flip(path: &Path, byte: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[byte as usize] ^= 0x10;
    fs::write(path, bytes).unwrap();
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
            all.push((path.clone(), Some(fs::read(&path).unwrap())));
        }
    }
    all.sort();
    all
}

/// Inspects a database, and asserts that this changes nothing.
fn inspect(directory: &Path) -> doctor::Report {
    let before = contents(directory);
    let report = doctor::inspect(directory).unwrap();
    assert!(contents(directory) == before, "looking changed something");
    report
}

#[track_caller]
fn assert_verdict(directory: &Path, verdict: Verdict) -> doctor::Report {
    let report = inspect(directory);
    assert_eq!(report.verdict, verdict, "{report}");
    report
}
