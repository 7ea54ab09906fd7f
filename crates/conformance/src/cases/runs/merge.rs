//! Three-way merge of runs by event key.
//!
//! Events appended on one branch are merged, two different histories conflict, and events are never
//! rewritten.

use super::{all, is_whole, keys_of_run, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    At, ChangeKind, Code, Contract, Filter, MergeStrategy, MergeStrategy::*, NewEvent, RunStatus,
};

fn forked(w: &TestDb) {
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted"), note("r", 1)]).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

fn merge(w: &TestDb, strategy: MergeStrategy) -> mainstay::Result<u64> {
    w.db().merge("dev", "main", strategy)
}

/// Events that only the source appended are merged unchanged, with sequence numbers, event IDs and
/// times.
pub fn what_one_side_appended_travels(w: &mut TestDb) {
    forked(w);
    w.pass_ms(9);
    let dev = w.runs_on("dev");
    dev.append_batch((2..=600).map(|number| note("r", number)).collect()).unwrap();
    dev.append(of_run("r", "RunCompleted")).unwrap();
    dev.bootstrap("new", "made there", vec![note("new", 1)]).unwrap();
    w.pass_ms(9);
    assert_eq!(merge(w, Strict).unwrap(), w.db().revision());
    assert_eq!(all(&w.runs(), "r"), all(&dev, "r"));
    assert_eq!(w.runs().get("new").unwrap().unwrap().metadata, Some("made there".into()));
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.status, info.revision), (RunStatus::Completed, w.db().revision()));
    is_whole(&w.runs(), "r");
    is_whole(&w.runs(), "new");
    assert!(w.runs().append(note("r", 300)).unwrap().idempotent);
}

/// Events that only the target appended are kept.
pub fn what_the_target_appended_stays(w: &mut TestDb) {
    forked(w);
    w.runs().append(note("r", 2)).unwrap();
    w.runs_on("dev").append(note("s", 1)).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(keys_of_run(&w.runs(), "r")[1..], ["note-1", "note-2"]);
    assert_eq!(keys_of_run(&w.runs(), "s"), ["note-1"]);
}

/// If both branches appended, `strict` fails with the run's name and writes nothing.
pub fn both_conflict_under_strict(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs_on("dev").append(note("s", 1)).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    let error = writes_nothing(w.db(), || merge(w, Strict)).unwrap_err();
    assert_eq!((error.code(), error.keys()), (Code::MergeConflict, &["r".to_owned()][..]));
    assert!(w.runs().get("s").unwrap().is_none());
}

/// `theirs` appends the events with missing keys under new sequence numbers; existing events are not
/// rewritten.
pub fn theirs_appends_what_is_missing(w: &mut TestDb) {
    forked(w);
    for number in [2, 3, 4] {
        w.runs_on("dev").append(note("r", number)).unwrap();
    }
    w.runs().append(note("r", 5)).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    let before = all(&w.runs(), "r");
    merge(w, Theirs).unwrap();
    let after = all(&w.runs(), "r");
    assert_eq!(after[..4], before[..]);
    assert_eq!(
        keys_of_run(&w.runs(), "r")[1..],
        ["note-1", "note-5", "note-3", "note-2", "note-4"]
    );
    is_whole(&w.runs(), "r");
    assert!(w.runs().append(note("r", 4)).unwrap().idempotent);
}

/// Events left out by a merge with `ours` are appended by a later merge with `theirs`.
pub fn theirs_brings_what_ours_left(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    merge(w, Ours).unwrap();
    w.runs_on("dev").append(note("r", 4)).unwrap();
    merge(w, Theirs).unwrap();
    assert_eq!(keys_of_run(&w.runs(), "r")[1..], ["note-1", "note-3", "note-2", "note-4"]);
    is_whole(&w.runs(), "r");
}

/// `ours` keeps the target's events.
pub fn ours_keeps_the_target(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs_on("dev").append(note("s", 1)).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    merge(w, Ours).unwrap();
    assert_eq!(keys_of_run(&w.runs(), "r")[1..], ["note-1", "note-3"]);
    assert_eq!(keys_of_run(&w.runs(), "s"), ["note-1"], "what only the source changed travels");
    assert!(merge(w, Strict).is_ok(), "it is settled");
    assert_eq!(keys_of_run(&w.runs(), "r")[1..], ["note-1", "note-3"]);
}

/// Equal events on both branches are no conflict.
pub fn same_events_are_no_conflict(w: &mut TestDb) {
    forked(w);
    let mut event = note("r", 2);
    event.event_id = Some("its own".into());
    w.runs_on("dev").append(event.clone()).unwrap();
    w.pass_ms(5);
    w.runs().append(event).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(keys_of_run(&w.runs(), "r")[1..], ["note-1", "note-2"]);
}

/// A run created on both branches conflicts.
pub fn made_on_both_sides(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("s", 1)).unwrap();
    w.runs().append(note("s", 2)).unwrap();
    refused(merge(w, Strict), Code::MergeConflict);
    merge(w, Theirs).unwrap();
    assert_eq!(keys_of_run(&w.runs(), "s"), ["note-2", "note-1"]);
}

/// A deletion is merged; against an append it conflicts.
pub fn deletions_travel(w: &mut TestDb) {
    forked(w);
    w.runs().append(note("s", 1)).unwrap();
    w.db().fork("side", "main", At::Latest).unwrap();
    w.runs_on("side").delete("r").unwrap();
    w.runs_on("side").delete("s").unwrap();
    w.runs().append(note("s", 2)).unwrap();
    let side = |strategy| w.db().merge("side", "main", strategy);
    let error = side(Strict).unwrap_err();
    assert_eq!(error.keys(), ["s"]);
    side(Ours).unwrap();
    assert!(w.runs().get("r").unwrap().is_none());
    assert_eq!(keys_of_run(&w.runs(), "s"), ["note-1", "note-2"]);
    refused(w.runs().append(note("r", 9)), Code::RunNotFound);
}

/// For a run deleted on the target and appended on the source, `strict` fails and `ours` leaves it
/// deleted.
pub fn append_against_deletion(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs().delete("r").unwrap();
    refused(merge(w, Strict), Code::MergeConflict);
    merge(w, Ours).unwrap();
    assert!(w.runs().get("r").unwrap().is_none());
}

/// The last merge is the base of the next one, in both directions.
pub fn last_merge_is_the_next_base(w: &mut TestDb) {
    forked(w);
    let dev = w.runs_on("dev");
    for number in 2..6 {
        dev.append(note("r", number * 10)).unwrap();
        merge(w, Strict).unwrap();
        assert_eq!(w.db().diff("dev", "main").unwrap(), []);
    }
    w.runs().append(note("r", 1_000)).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(all(&dev, "r"), all(&w.runs(), "r"));
    is_whole(&dev, "r");
}

/// Illegal events that are merged raise an alert on the target, once.
pub fn alerts_travel_with_their_events(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(of_run("r", "RunApproved")).unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(w.runs().alerts("r", 0, 9).unwrap().len(), 1);
    merge(w, Strict).unwrap();
    assert_eq!(w.runs().alerts("r", 0, 9).unwrap().len(), 1);
    is_whole(&w.runs(), "r");
}

/// If merged events would be illegal after those of the target, `theirs` fails with the run's name and
/// writes nothing.
pub fn no_merge_makes_a_run_inconsistent(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(of_run("r", "RunPaused")).unwrap();
    w.runs_on("dev").append(note("s", 1)).unwrap();
    w.runs().append(of_run("r", "RunCompleted")).unwrap();
    let before = all(&w.runs(), "r");
    for strategy in [Theirs, Strict] {
        let error = writes_nothing(w.db(), || merge(w, strategy)).unwrap_err();
        assert_eq!((error.code(), error.keys()), (Code::MergeConflict, &["r".to_owned()][..]));
    }
    assert_eq!(all(&w.runs(), "r"), before);
    assert!(w.runs().get("s").unwrap().is_none());
    merge(w, Ours).unwrap();
    assert_eq!(all(&w.runs(), "r"), before);
    assert!(!w.runs().get("r").unwrap().unwrap().inconsistent);
    assert_eq!(keys_of_run(&w.runs(), "s"), ["note-1"]);
    is_whole(&w.runs(), "r");
}

/// A run that is inconsistent already accepts events from `theirs`.
pub fn an_inconsistent_run_takes_more(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(of_run("r", "RunPaused")).unwrap();
    w.runs().append(of_run("r", "RunApproved")).unwrap();
    w.runs().append(of_run("r", "RunCompleted")).unwrap();
    assert!(w.runs().get("r").unwrap().unwrap().inconsistent);
    merge(w, Theirs).unwrap();
    assert_eq!(w.runs().alerts("r", 0, 9).unwrap().len(), 2);
    is_whole(&w.runs(), "r");
}

/// A run rewound and continued on a branch is another history, so it conflicts even if the target did
/// not append.
pub fn a_rewound_run_is_not_mixed_with_what_it_left(w: &mut TestDb) {
    let step = |kind: &str| NewEvent::new("r", kind).step("s").plan("1");
    w.runs().append_batch(vec![of_run("r", "RunStarted"), step("StepStarted")]).unwrap();
    w.runs().append(step("StepCompleted")).unwrap();
    w.db().fork_at_event("dev", "main", "r", 2).unwrap();
    w.runs_on("dev").append(step("StepFailed")).unwrap();
    let before = all(&w.runs(), "r");
    for strategy in [Strict, Theirs] {
        refused(merge(w, strategy), Code::MergeConflict);
    }
    merge(w, Ours).unwrap();
    assert_eq!(all(&w.runs(), "r"), before);
    assert!(!w.runs().get("r").unwrap().unwrap().inconsistent);
}

/// A run deleted on the target stays deleted, even with `theirs`, because a deleted run accepts no
/// events.
pub fn what_the_target_deleted_stays_deleted(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs_on("dev").append(note("new", 1)).unwrap();
    w.runs().delete("r").unwrap();
    w.runs().append(note("new", 1)).unwrap();
    w.runs().delete("new").unwrap();
    for strategy in [Strict, Theirs] {
        let error = writes_nothing(w.db(), || merge(w, strategy)).unwrap_err();
        let named = ["new".to_owned(), "r".to_owned()];
        assert_eq!((error.code(), error.keys()), (Code::MergeConflict, &named[..]));
    }
    merge(w, Ours).unwrap();
    for run in ["r", "new"] {
        assert!(w.runs().get(run).unwrap().is_none());
        refused(w.runs().append(note(run, 9)), Code::RunNotFound);
    }
}

/// The deletion of a run that was created on the source is merged to a target that never had the run.
pub fn what_the_source_made_and_deleted_stays_deleted(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("new", 1)).unwrap();
    w.runs_on("dev").delete("new").unwrap();
    w.runs_on("dev").delete("r").unwrap();
    assert_eq!(w.db().diff("dev", "main").unwrap().len(), 2);
    merge(w, Strict).unwrap();
    for run in ["r", "new"] {
        refused(w.runs().append(note(run, 9)), Code::RunNotFound);
    }
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
    let deleted = w.db().revision();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(w.db().revision(), deleted + 1);
}

/// Such a deletion conflicts with a run that the target created under the same name.
pub fn a_deletion_against_a_run_that_was_made_meanwhile(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("new", 1)).unwrap();
    w.runs_on("dev").delete("new").unwrap();
    w.runs().append(note("new", 2)).unwrap();
    refused(merge(w, Strict), Code::MergeConflict);
    merge(w, Ours).unwrap();
    assert_eq!(keys_of_run(&w.runs(), "new"), ["note-2"]);
}

/// Cells, records and runs are merged in one transaction.
pub fn all_kinds_in_one_transaction(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.on("dev").set("c", 1).unwrap();
    w.records_on("dev").set_field("k", "a", "1").unwrap();
    let revision = writes_once(w.db(), || merge(w, Strict).unwrap());
    assert_eq!(w.runs().revision_of("r", 3).unwrap(), Some(revision));
    assert_eq!(w.cells().get("c").unwrap(), int(1));
}

/// Merged events are in the feed of the target.
pub fn merged_events_are_told(w: &mut TestDb) {
    forked(w);
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs_on("dev").append(note("r", 3)).unwrap();
    let wanted = Filter { contract: Some(Contract::Runs), ..Filter::default() };
    let mut feed = w.db().watch(wanted, w.db().revision()).unwrap();
    merge(w, Strict).unwrap();
    let seen: Vec<_> =
        events(&mut feed, 2).into_iter().map(|e| (e.branch, e.kind, e.counter)).collect();
    let of = |seq| ("main".to_owned(), ChangeKind::Appended, seq);
    assert_eq!(seen, [of(3), of(4)]);
}
