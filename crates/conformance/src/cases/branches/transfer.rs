//! Export of a branch to one file and import into a new branch, protected by checksums.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, ErrorKind, Ttl};
use std::path::PathBuf;

fn filled(w: &TestDb) {
    for n in 0..40 {
        w.cells().set(&format!("k{n:02}"), n).unwrap();
    }
    w.cells().set("k00", "again").unwrap();
    w.cells().delete("k01").unwrap();
    w.cells().set_with("ttl", 1, Ttl::Millis(50)).unwrap();
}

fn exported(w: &TestDb, branch: &str) -> PathBuf {
    let path = w.file(&format!("{branch}.export"));
    w.beside().export(branch, &path, &mut |_| {}).unwrap();
    path
}

/// An imported branch has the exported values, counters, deletions and times to live.
pub fn round_trip_in_one_database(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    let copy = w.on("copy");
    assert_eq!(names(&copy, ""), names(&w.cells(), ""));
    assert_eq!(copy.get("k00").unwrap(), Some("again".into()));
    assert_eq!(counter(&copy, "k00"), Some(2));
    assert_eq!(copy.get("k01").unwrap(), None);
    assert_eq!(copy.set("k01", 1).unwrap(), 3, "the counter survives deletion and transfer");
    w.pass_ms(60);
    assert_eq!(copy.get("ttl").unwrap(), None);
}

/// A file can be imported into another database.
pub fn into_another_database(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    let other = if w.is_on_disk() { TestDb::disk() } else { TestDb::memory() };
    other.cells().set("own", 1).unwrap();
    other.beside().import(&path, "copy", &mut |_| {}).unwrap();
    assert_eq!(names(&other.on("copy"), ""), names(&w.cells(), ""));
    assert_eq!(other.on("copy").get("k07").unwrap(), int(7));
    assert_eq!(counter(&other.on("copy"), "k00"), Some(2));
    assert_eq!(names(&other.cells(), ""), ["own"]);
}

/// The export includes the retained old versions.
pub fn history_comes_along(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    let seen = w.on("copy").history("k00", 9, None).unwrap();
    let values: Vec<_> = seen.iter().map(|entry| (entry.counter, entry.value.clone())).collect();
    assert_eq!(values, [(2, Some("again".into())), (1, int(0))]);
    let gone = w.on("copy").history("k01", 9, None).unwrap();
    assert_eq!((gone[0].counter, &gone[0].value), (2, &None));
}

/// A fork exports both its inherited keys and its own.
pub fn fork_exports_what_it_shows(w: &mut TestDb) {
    filled(w);
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("own", 1).unwrap();
    w.on("dev").delete("k02").unwrap();
    w.cells().set("later", 1).unwrap();
    let path = exported(w, "dev");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    assert_eq!(names(&w.on("copy"), ""), names(&w.on("dev"), ""));
}

/// An imported branch accepts writes and forks.
pub fn imported_branch_lives_on(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    assert_eq!(w.on("copy").set("k07", 70).unwrap(), 2);
    w.db().fork("child", "copy", At::Latest).unwrap();
    assert_eq!(w.on("child").get("k07").unwrap(), int(70));
    assert_eq!(w.cells().get("k07").unwrap(), int(7));
}

/// Importing to an existing branch name is refused and writes nothing.
pub fn existing_name_is_refused(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    writes_nothing(w.db(), || {
        refused(w.beside().import(&path, "main", &mut |_| {}).map(drop), Code::BranchExists);
    });
}

/// A file with a flipped bit at any of eight offsets is refused, and no branch is created.
pub fn damaged_file_is_refused(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    let whole = std::fs::read(&path).unwrap();
    for part in 0..8 {
        let at = (whole.len() - 1) * part / 7;
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        assert!(w.beside().import(&path, "copy", &mut |_| {}).is_err(), "byte {at} was flipped");
        refused(w.db().branch("copy").map(drop), Code::BranchNotFound);
    }
}

/// A flipped bit in the middle of the file is reported as `Corrupt`.
pub fn damage_is_called_corrupt(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    let mut damaged = std::fs::read(&path).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let error = w.beside().import(&path, "copy", &mut |_| {}).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// A truncated file is refused, and no branch is created.
pub fn truncated_file_is_refused(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    let whole = std::fs::read(&path).unwrap();
    for keep in [0, 1, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..keep]).unwrap();
        assert!(w.beside().import(&path, "copy", &mut |_| {}).is_err(), "{keep} bytes were left");
        refused(w.db().branch("copy").map(drop), Code::BranchNotFound);
    }
}

/// Export and import call their progress callbacks.
pub fn progress_is_told(w: &mut TestDb) {
    filled(w);
    let path = w.file("main.export");
    let mut out = 0;
    let mut back = 0;
    w.beside().export("main", &path, &mut |_| out += 1).unwrap();
    w.beside().import(&path, "copy", &mut |_| back += 1).unwrap();
    assert!(out > 0 && back > 0);
}

/// An unknown branch is refused.
pub fn unknown_branch_is_refused(w: &mut TestDb) {
    let path = w.file("x.export");
    refused(w.beside().export("nowhere", &path, &mut |_| {}).map(drop), Code::BranchNotFound);
}
