//! Export and import of records: counters, expiries, deletions, history.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Ttl};
use std::path::PathBuf;

fn filled(w: &TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("", "x")]), None).unwrap();
    w.records().set_field("k", "a", "2").unwrap();
    w.records().set_field("gone", "a", "1").unwrap();
    w.records().delete("gone").unwrap();
    w.records().put("short", &fields(&[("a", "1")]), Some(Ttl::Millis(50))).unwrap();
    w.cells().set("k", 1).unwrap();
}

fn exported(w: &TestDb, branch: &str) -> PathBuf {
    let path = w.file(&format!("{branch}.export"));
    w.beside().export(branch, &path, &mut |_| {}).unwrap();
    path
}

/// Fields, counters, deletions and expiries round-trip. A cell with the same name stays a cell.
pub fn round_trip(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    let copy = w.records_on("copy");
    holds(&copy, "k", &[("", "x"), ("a", "2")]);
    assert_eq!(record_counter(&copy, "k"), Some(2));
    assert_eq!(w.on("copy").get("k").unwrap(), int(1));
    is_gone(&copy, "gone");
    assert_eq!(copy.set_field("gone", "a", "1").unwrap(), 3, "the counter survives");
    let expires = |records: &mainstay::Records| records.get("short").unwrap().unwrap().expires;
    assert_eq!(expires(&copy), expires(&w.records()));
    w.pass_ms(60);
    is_gone(&copy, "short");
    assert_eq!(w.db().sweep().unwrap(), 2);
}

/// The import contains the version history.
pub fn history_comes_along(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    for key in ["k", "gone", "short"] {
        let versions = |records: mainstay::Records| -> Vec<_> {
            let history = records.history(key, 9, None).unwrap().into_iter();
            history.map(|v| (v.counter, v.writes, v.fields, v.expires)).collect()
        };
        assert_eq!(versions(w.records_on("copy")), versions(w.records()), "{key}");
    }
}

/// A fork exports its visible records, and another database can import them.
pub fn fork_into_another_database(w: &mut TestDb) {
    filled(w);
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.records_on("dev").set_field("own", "a", "1").unwrap();
    w.records_on("dev").delete("k").unwrap();
    w.records().set_field("later", "a", "1").unwrap();
    let path = exported(w, "dev");
    let other = if w.is_on_disk() { TestDb::disk() } else { TestDb::memory() };
    other.beside().import(&path, "copy", &mut |_| {}).unwrap();
    assert_eq!(found(&other.records_on("copy"), "", &[]), ["own", "short"]);
    assert_eq!(other.records_on("copy").set_field("k", "a", "1").unwrap(), 4);
}

/// The export report counts records and cells separately.
pub fn report_counts_records(w: &mut TestDb) {
    filled(w);
    let path = w.file("main.export");
    let report = w.beside().export("main", &path, &mut |_| {}).unwrap();
    assert_eq!((report.cells, report.records, report.versions), (1, 3, 6));
}

/// Equal histories have equal hashes, and different histories have different hashes.
pub fn hash_knows_records(w: &mut TestDb) {
    filled(w);
    let hash = |w: &TestDb| w.beside().export_hash("main").unwrap();
    let before = hash(w);
    let other = TestDb::memory();
    filled(&other);
    assert_eq!(hash(&other), before);
    other.records().set_field("k", "a", "2").unwrap();
    assert_ne!(hash(&other), before, "a write of the same is a write");
}

/// An imported branch can be written, forked and merged.
pub fn imported_branch_lives_on(w: &mut TestDb) {
    filled(w);
    let path = exported(w, "main");
    w.beside().import(&path, "copy", &mut |_| {}).unwrap();
    w.db().fork("dev", "copy", At::Latest).unwrap();
    w.records_on("dev").set_field("k", "b", "1").unwrap();
    w.records_on("copy").set_field("k", "c", "1").unwrap();
    w.db().merge("dev", "copy", mainstay::MergeStrategy::Strict).unwrap();
    holds(&w.records_on("copy"), "k", &[("", "x"), ("a", "2"), ("b", "1"), ("c", "1")]);
}
