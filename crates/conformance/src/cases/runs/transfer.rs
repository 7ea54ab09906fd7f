//! Export and import of runs.

use super::{all, is_whole, note, of_run, tell};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, RunFilter, Value};
use std::path::PathBuf;

fn filled(w: &TestDb) {
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted")]).unwrap();
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    tell(w, "r", &["RunApproved"]);
    w.runs().append(note("s", 1)).unwrap();
    w.runs().append(note("gone", 1)).unwrap();
    w.runs().delete("gone").unwrap();
    w.cells().set("r", 1).unwrap();
}

fn exported(w: &TestDb, branch: &str) -> PathBuf {
    let path = w.file(&format!("{branch}.export"));
    w.beside().export(branch, &path, &mut |_| {}).unwrap();
    path
}

/// Events, keys, metadata and alerts round-trip. Deleted runs do not.
pub fn round_trip(w: &mut TestDb) {
    filled(w);
    w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    let copy = w.runs_on("copy");
    for run in ["r", "s"] {
        assert_eq!(all(&copy, run), all(&w.runs(), run));
        is_whole(&copy, run);
    }
    let told = |runs: mainstay::Runs| {
        let info = runs.get("r").unwrap().unwrap();
        (info.status, info.created, info.inconsistent, info.metadata)
    };
    assert_eq!(told(copy.clone()), told(w.runs()));
    assert_eq!(copy.alerts("r", 0, 9).unwrap().len(), 1);
    assert!(copy.append(note("r", 7)).unwrap().idempotent);
    assert!(copy.get("gone").unwrap().is_none());
    assert_eq!(copy.append(note("r", 301)).unwrap().run_seq, 303);
}

/// A fork exports its visible runs, and another database can import them.
pub fn fork_into_another_database(w: &mut TestDb) {
    filled(w);
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.runs_on("dev").append(note("s", 2)).unwrap();
    w.runs_on("dev").delete("r").unwrap();
    w.runs().append(note("later", 1)).unwrap();
    let path = exported(w, "dev");
    let other = if w.is_on_disk() { TestDb::disk() } else { TestDb::memory() };
    other.beside().import(&path, "copy", &mut |_| {}).unwrap();
    let copy = other.runs_on("copy");
    let listed = copy.list(&RunFilter::default(), None, 9).unwrap().runs;
    assert_eq!(listed.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["s"]);
    assert_eq!(all(&copy, "s"), all(&w.runs_on("dev"), "s"));
    is_whole(&copy, "s");
}

/// On the copy a deleted run still accepts no events, whether it was deleted on the exported branch or
/// on its parent. Restoring the run makes it appendable again.
pub fn deleted_stays_deleted(w: &mut TestDb) {
    filled(w);
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.runs_on("dev").delete("s").unwrap();
    for branch in ["main", "dev"] {
        w.beside().import(&exported(w, branch), &format!("{branch} copy"), &mut |_| {}).unwrap();
    }
    let main = w.runs_on("main copy");
    let dev = w.runs_on("dev copy");
    for copy in [&main, &dev] {
        refused(copy.append(note("gone", 1)), Code::RunNotFound);
        refused(copy.bootstrap("gone", 1, vec![]), Code::RunNotFound);
    }
    refused(dev.append(note("s", 2)), Code::RunNotFound);
    assert_eq!(main.append(note("s", 2)).unwrap().run_seq, 2);
    let again = w.file("again.export");
    w.beside().export("dev copy", &again, &mut |_| {}).unwrap();
    w.beside().import(&again, "third", &mut |_| {}).unwrap();
    refused(w.runs_on("third").append(note("s", 2)), Code::RunNotFound);
    assert_eq!(dev.restore("gone", None, None, vec![]).unwrap(), 0);
    assert_eq!(dev.append(note("gone", 1)).unwrap().run_seq, 1);
}

/// The report counts runs. Among the versions it counts their events, their creations and deleted runs.
pub fn report_counts_runs(w: &mut TestDb) {
    filled(w);
    let report = w.beside().export("main", &w.file("main.export"), &mut |_| {}).unwrap();
    assert_eq!((report.cells, report.runs, report.versions), (1, 2, 307));
}

/// Equal histories have equal hashes, and another event gives another hash.
pub fn hash_knows_runs(w: &mut TestDb) {
    filled(w);
    let hash = |w: &TestDb| w.beside().export_hash("main").unwrap();
    let before = hash(w);
    let other = TestDb::memory();
    filled(&other);
    assert_eq!(hash(&other), before);
    other.runs().append(note("r", 7)).unwrap();
    assert_eq!(hash(&other), before, "told again is nothing new");
    other.runs().append(note("r", 999)).unwrap();
    assert_ne!(hash(&other), before);
}

/// An imported branch can be appended to, forked and merged.
pub fn imported_branch_lives_on(w: &mut TestDb) {
    filled(w);
    w.beside().import(&exported(w, "main"), "copy", &mut |_| {}).unwrap();
    w.db().fork("dev", "copy", At::Latest).unwrap();
    w.runs_on("dev").append(note("s", 2)).unwrap();
    w.db().merge("dev", "copy", mainstay::MergeStrategy::Strict).unwrap();
    assert_eq!(all(&w.runs_on("copy"), "s").len(), 2);
    w.runs_on("copy").delete("r").unwrap();
    refused(w.runs_on("copy").append(note("r", 1)), Code::RunNotFound);
    assert_eq!(w.runs().get("r").unwrap().unwrap().metadata, Some(Value::from("about")));
}
