//! Events are never trimmed; only what a deleted run has left goes.

use super::{is_whole, note, of_run};
use crate::World;
use crate::check::*;
use mainstay::{At, Code, RunStatus};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn months_go_by(w: &World) {
    for number in 0..3 {
        w.pass(DAY * 30);
        w.cells().set("later", number).unwrap();
        w.beside().reap().unwrap();
        w.db().trim().unwrap();
    }
}

/// Events, keys and the past of a run outlive every retention of cells and records.
pub fn events_are_never_trimmed(w: &mut World) {
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

/// While anything of a revision is kept, so are the runs that live, though what is kept of their heads is less.
pub fn past_of_a_run_goes_by_its_events(w: &mut World) {
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
    let (snapshot, info) = (past.snapshot("r").unwrap().unwrap(), past.get("r").unwrap().unwrap());
    assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Running, 301));
    assert_eq!((info.status, info.metadata), (RunStatus::Running, Some("about".into())));
    assert_eq!(past.fetch("r", 299, 9).unwrap().len(), 2);
}

/// What a deleted run has left goes with time, and its past says so; never a wrong answer.
pub fn deleted_says_that_it_was_trimmed(w: &mut World) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let then = w.db().revision();
    w.runs().delete("r").unwrap();
    w.pass(DAY);
    months_go_by(w);
    let past = w.runs().at(At::Revision(then));
    refused(past.and_then(|past| past.fetch("r", 0, 9)), Code::HistoryTrimmed);
    refused(w.runs().append(of_run("r", "RunStarted")), Code::RunNotFound);
}

/// What a branch shows stays, also of a run that its parent deleted.
pub fn branch_keeps_what_it_shows(w: &mut World) {
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    w.db().fork("old", "main", At::Latest).unwrap();
    w.runs().delete("r").unwrap();
    months_go_by(w);
    is_whole(&w.runs_on("old"), "r");
    assert!(w.runs_on("old").append(note("r", 7)).unwrap().idempotent);
    assert_eq!(w.runs_on("old").append(note("r", 301)).unwrap().run_seq, 301);
}

/// So does what a tag names.
pub fn tag_keeps_what_it_names(w: &mut World) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let then = w.db().revision();
    w.db().tag("v", "main", At::Latest).unwrap();
    w.runs().delete("r").unwrap();
    months_go_by(w);
    let past = w.runs().at(At::Revision(then)).unwrap();
    assert_eq!(past.fetch("r", 0, 9).unwrap().len(), 1);
    assert_eq!(past.snapshot("r").unwrap().unwrap().status, RunStatus::Running);
}
