//! Retention of runs: events of existing runs are never trimmed; only the data of deleted runs is.

use super::{is_whole, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, RunStatus};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn months_go_by(w: &TestDb) {
    for number in 0..3 {
        w.pass(DAY * 30);
        w.cells().set("later", number).unwrap();
        w.beside().reap().unwrap();
        w.db().trim().unwrap();
    }
}

/// Events, keys and past states of a run outlive the retention of cells and records.
pub fn events_are_never_trimmed(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted")]).unwrap();
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    let then = w.db().revision();
    w.pass(DAY);
    w.cells().set("k", 2).unwrap();
    w.runs().append(of_run("r", "RunCompleted")).unwrap();
    months_go_by(w);
    refused(read_at(&w.cells(), At::Revision(then), "k"), Code::HistoryTrimmed);
    is_whole(&w.runs(), "r");
    assert!(w.runs().append(note("r", 7)).unwrap().idempotent);
    assert_eq!(w.runs().snapshot_at("r", 301).unwrap().unwrap().status, RunStatus::Running);
}

/// As long as a revision is readable at all, its runs are readable from their events, even if old run
/// heads are trimmed.
pub fn past_of_a_run_goes_by_its_events(w: &mut TestDb) {
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted")]).unwrap();
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    let then = w.db().revision();
    for number in 0..3 {
        w.pass(DAY + DAY);
        w.runs().append(note("r", 301 + number)).unwrap();
        w.db().trim().unwrap();
    }
    w.runs().append(of_run("r", "RunCompleted")).unwrap();
    let past = w.runs().at(At::Revision(then)).unwrap();
    let snapshot = past.snapshot("r").unwrap().unwrap();
    let info = past.get("r").unwrap().unwrap();
    assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Running, 301));
    assert_eq!((info.status, info.metadata), (RunStatus::Running, Some("about".into())));
    assert_eq!(past.fetch("r", 299, 9).unwrap().len(), 2);
}

/// The data of a deleted run is trimmed with time. Reading its past then fails with `HistoryTrimmed` and
/// never returns a wrong result.
pub fn deleted_says_that_it_was_trimmed(w: &mut TestDb) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let then = w.db().revision();
    w.runs().delete("r").unwrap();
    w.pass(DAY);
    months_go_by(w);
    let past = w.runs().at(At::Revision(then));
    refused(past.and_then(|past| past.fetch("r", 0, 9)), Code::HistoryTrimmed);
    refused(w.runs().append(of_run("r", "RunStarted")), Code::RunNotFound);
}

/// A branch keeps the runs that it shows, even if its parent deleted them.
pub fn branch_keeps_what_it_shows(w: &mut TestDb) {
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    w.db().fork("old", "main", At::Latest).unwrap();
    w.runs().delete("r").unwrap();
    months_go_by(w);
    is_whole(&w.runs_on("old"), "r");
    assert!(w.runs_on("old").append(note("r", 7)).unwrap().idempotent);
    assert_eq!(w.runs_on("old").append(note("r", 301)).unwrap().run_seq, 301);
}

/// A tag keeps the runs of its revision.
pub fn tag_keeps_what_it_names(w: &mut TestDb) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let then = w.db().revision();
    w.db().tag("v", "main", At::Latest).unwrap();
    w.runs().delete("r").unwrap();
    months_go_by(w);
    let past = w.runs().at(At::Revision(then)).unwrap();
    assert_eq!(past.fetch("r", 0, 9).unwrap().len(), 1);
    assert_eq!(past.snapshot("r").unwrap().unwrap().status, RunStatus::Running);
}
