//! Recovery of runs after a reopen (disk only).
//!
//! Requires: Disk.

use super::{all, is_whole, note, tell};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, RequestId, RunFilter, RunStatus, Transaction};

/// Events, keys, snapshots, alerts, metadata, lists and deletions are unchanged after a reopen.
pub fn everything_is_there(w: &mut TestDb) {
    w.runs().bootstrap("r", "about", vec![]).unwrap();
    tell(w, "r", &["RunStarted", "RunApproved"]);
    w.runs().append_batch((1..=600).map(|number| note("r", number)).collect()).unwrap();
    w.runs().append(note("gone", 1)).unwrap();
    w.runs().delete("gone").unwrap();
    let sight = |w: &TestDb| {
        let runs = w.runs();
        let listed = runs.list(&RunFilter::default(), None, 9).unwrap();
        (
            all(&runs, "r"),
            runs.snapshot("r").unwrap(),
            runs.get("r").unwrap(),
            listed,
            runs.alerts("r", 0, 9).unwrap(),
        )
    };
    let before = sight(w);
    for _ in 0..2 {
        w.reopen();
        assert_eq!(sight(w), before);
        is_whole(&w.runs(), "r");
        assert!(w.runs().append(note("r", 500)).unwrap().idempotent);
        refused(w.runs().append(note("gone", 2)), Code::RunNotFound);
    }
    assert_eq!(w.runs().append(note("r", 601)).unwrap().run_seq, 603);
}

/// Replaying the log alone rebuilds the runs.
pub fn the_log_alone_gives_them(w: &mut TestDb) {
    tell(w, "r", &["RunStarted"]);
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    let before = all(&w.runs(), "r");
    w.reopen_after(|directory| std::fs::remove_dir_all(directory.join("index")).unwrap());
    assert_eq!(all(&w.runs(), "r"), before);
    is_whole(&w.runs(), "r");
    assert!(w.runs().append(note("r", 7)).unwrap().idempotent);
}

/// Branches and past revisions are unchanged after a reopen.
pub fn branches_and_the_past(w: &mut TestDb) {
    tell(w, "r", &["RunStarted"]);
    let then = w.db().revision();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.runs_on("dev").append(note("r", 1)).unwrap();
    tell(w, "r", &["RunCompleted"]);
    w.reopen();
    let past = w.runs().at(At::Revision(then)).unwrap();
    assert_eq!(past.snapshot("r").unwrap().unwrap().status, RunStatus::Running);
    assert_eq!(all(&w.runs_on("dev"), "r").len(), 2);
    is_whole(&w.runs_on("dev"), "r");
    w.db().merge("dev", "main", mainstay::MergeStrategy::Theirs).unwrap();
    is_whole(&w.runs(), "r");
}

/// Receipts of requests with appends survive a reopen.
pub fn requests_are_remembered(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(super::append(note("r", 1)))
        .request(RequestId::new("once").unwrap());
    let first = w.db().execute(transaction.clone()).unwrap();
    w.reopen();
    let again = w.db().execute(transaction).unwrap();
    assert!(again.repeated);
    assert_eq!(again.answers, first.answers);
}
