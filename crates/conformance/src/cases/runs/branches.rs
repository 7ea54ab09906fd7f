//! Runs on branches: a fork shares its parent's events and appends independently.

use super::{all, is_whole, keys_of_run, note, of_run, tell};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Contract, DifferenceKind, MergeStrategy, RunFilter, RunStatus};

fn forked(w: &TestDb) {
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted"), note("r", 1)]).unwrap();
    w.runs().append(note("s", 1)).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

/// A fork starts with its parent's events, keys, snapshots, metadata and list.
pub fn fork_starts_as_its_parent(w: &mut TestDb) {
    forked(w);
    let dev = w.runs_on("dev");
    assert_eq!(all(&dev, "r"), all(&w.runs(), "r"));
    assert_eq!(dev.get("r").unwrap(), w.runs().get("r").unwrap());
    assert!(writes_nothing(w.db(), || dev.append(note("r", 1)).unwrap()).idempotent);
    assert_eq!(dev.list(&RunFilter::default(), None, 9).unwrap().runs.len(), 2);
    is_whole(&dev, "r");
}

/// Parent and fork continue with independent sequence numbers.
pub fn both_go_on(w: &mut TestDb) {
    forked(w);
    let dev = w.runs_on("dev");
    assert_eq!(dev.append(note("r", 2)).unwrap().run_seq, 3);
    assert_eq!(w.runs().append(note("r", 3)).unwrap().run_seq, 3);
    assert_eq!(dev.append(note("r", 3)).unwrap().run_seq, 4);
    assert_eq!(keys_of_run(&dev, "r")[1..], ["note-1", "note-2", "note-3"]);
    assert_eq!(keys_of_run(&w.runs(), "r")[1..], ["note-1", "note-3"]);
    is_whole(&dev, "r");
    is_whole(&w.runs(), "r");
}

/// A failed run can be repeated on a fork from any past event, with another result.
pub fn from_any_event_on(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "StepStarted", "StepFailed", "RunFailed"]);
    let second = w.runs().revision_of("r", 2).unwrap().unwrap();
    w.db().fork("again", "main", At::Revision(second)).unwrap();
    let again = w.runs_on("again");
    for kind in ["StepCompleted", "RunCompleted"] {
        let event = mainstay::NewEvent::new("r", kind).with_key(kind);
        again.append(if kind == "StepCompleted" { event.step("s") } else { event }).unwrap();
    }
    assert_eq!(again.snapshot("r").unwrap().unwrap().status, RunStatus::Completed);
    assert_eq!(super::status(w, "r"), RunStatus::Failed);
    is_whole(&again, "r");
    assert!(!again.snapshot("r").unwrap().unwrap().is_inconsistent());
}

/// A fork stores its own base snapshots after those of its parent.
pub fn bases_are_its_own(w: &mut TestDb) {
    tell(w, "r", &["RunStarted"]);
    w.runs().append_batch((1..=200).map(|number| note("r", number)).collect()).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    tell(w, "r", &["RunPaused"]);
    w.runs().append_batch((201..=500).map(|number| note("r", number)).collect()).unwrap();
    let dev = w.runs_on("dev");
    dev.append_batch((300..=700).map(|number| note("r", number)).collect()).unwrap();
    is_whole(&dev, "r");
    is_whole(&w.runs(), "r");
    for seq in [200, 256, 300, 512, 600] {
        let then = dev.snapshot_at("r", seq).unwrap().unwrap();
        assert_eq!((then.status, then.last_event_seq), (RunStatus::Running, seq));
    }
}

/// Deleting a run on one branch does not delete it on the other.
pub fn deleting_is_of_one_branch(w: &mut TestDb) {
    forked(w);
    let dev = w.runs_on("dev");
    assert!(dev.delete("r").unwrap());
    assert!(w.runs().delete("s").unwrap());
    w.beside().reap().unwrap();
    assert_eq!((all(&w.runs(), "r").len(), all(&dev, "s").len()), (2, 1));
    refused(dev.append(note("r", 2)), Code::RunNotFound);
    refused(w.runs().append(note("s", 2)), Code::RunNotFound);
    assert_eq!(dev.append(note("s", 2)).unwrap().run_seq, 2);
    is_whole(&dev, "s");
}

/// A fork of a fork reads through all its ancestors.
pub fn forks_of_forks(w: &mut TestDb) {
    let mut parent = "main".to_owned();
    for depth in 0..5 {
        w.runs_on(&parent).append(note("r", depth)).unwrap();
        let child = format!("b{depth}");
        w.db().fork(&child, &parent, At::Latest).unwrap();
        parent = child;
    }
    assert_eq!(w.runs_on(&parent).append(note("r", 9)).unwrap().run_seq, 6);
    assert_eq!(all(&w.runs_on("b1"), "r").len(), 3);
    assert!(w.runs_on(&parent).append(note("r", 0)).unwrap().idempotent);
    is_whole(&w.runs_on(&parent), "r");
}

/// A fork commits one transaction, independent of the number of events.
pub fn forking_writes_nothing_per_event(w: &mut TestDb) {
    w.runs().append_batch((1..=500).map(|number| note("r", number)).collect()).unwrap();
    writes_once(w.db(), || w.db().fork("dev", "main", At::Latest).unwrap());
}

/// The past of a fork continues through its fork point into the parent.
pub fn past_goes_through_the_fork(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let then = w.db().revision();
    w.runs().append(note("r", 2)).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.runs_on("dev").append(note("r", 3)).unwrap();
    w.runs().append(note("r", 4)).unwrap();
    let past = w.runs_on("dev").at(At::Revision(then)).unwrap();
    assert_eq!(past.fetch("r", 0, 9).unwrap().len(), 1);
    assert_eq!(past.get("r").unwrap().unwrap().last_event_seq, 1);
}

/// A difference names the run and the branch that changed it.
pub fn difference_names_the_run(w: &mut TestDb) {
    forked(w);
    assert!(w.db().diff("dev", "main").unwrap().is_empty());
    w.runs_on("dev").append(note("r", 2)).unwrap();
    w.runs().delete("s").unwrap();
    w.runs().append(note("t", 1)).unwrap();
    let seen = w.db().diff("dev", "main").unwrap();
    let told: Vec<_> = seen.iter().map(|d| (d.contract, d.key.as_str(), d.kind)).collect();
    use DifferenceKind::{OnlyA, OnlyB};
    let of = |key, kind| (Contract::Runs, key, kind);
    assert_eq!(told, [of("r", OnlyA), of("s", OnlyB), of("t", OnlyB)]);
    w.runs().append(note("r", 3)).unwrap();
    assert_eq!(w.db().diff("dev", "main").unwrap()[0].kind, DifferenceKind::Both);
}

/// Equal events on both branches are no difference, whenever they were appended.
pub fn same_events_are_no_difference(w: &mut TestDb) {
    forked(w);
    let mut event = note("r", 2);
    event.event_id = Some("its own".into());
    w.runs_on("dev").append(event.clone()).unwrap();
    w.pass_ms(5);
    w.runs().append(event).unwrap();
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
}

/// Operations on a deleted branch are refused.
pub fn deleted_branch_is_gone(w: &mut TestDb) {
    forked(w);
    let dev = w.runs_on("dev");
    w.db().delete_branch("dev").unwrap();
    refused(dev.append(note("r", 2)), Code::BranchNotFound);
    refused(dev.fetch("r", 0, 9), Code::BranchNotFound);
    refused(dev.snapshot("r"), Code::BranchNotFound);
}

/// A fork at an event inside a batch lacks the later events, which can be appended again. A merge adds
/// only the new ones.
pub fn from_an_event_of_a_batch_on(w: &mut TestDb) {
    w.runs().bootstrap("r", "about", (1..=5).map(|n| note("r", n)).collect()).unwrap();
    let before = all(&w.runs(), "r");
    w.db().fork_at_event("dev", "main", "r", 2).unwrap();
    let dev = w.runs_on("dev");
    assert_eq!(all(&dev, "r"), before[..2]);
    assert_eq!(dev.get("r").unwrap().unwrap().metadata, Some("about".into()));
    for (number, seq) in [(2, 2), (9, 3), (4, 4)] {
        assert_eq!(dev.append(note("r", number)).unwrap().run_seq, seq);
    }
    is_whole(&dev, "r");
    assert_eq!(all(&w.runs(), "r"), before);
    w.db().merge("dev", "main", mainstay::MergeStrategy::Theirs).unwrap();
    assert_eq!(
        keys_of_run(&w.runs(), "r"),
        ["note-1", "note-2", "note-3", "note-4", "note-5", "note-9"]
    );
    is_whole(&w.runs(), "r");
}

/// Rewinding a run removes the keys, stored snapshots and reducer states of the later events.
pub fn rewound_is_another_life(w: &mut TestDb) {
    w.runs().append_batch((1..=600).map(|n| note("r", n)).collect()).unwrap();
    w.runs().keep("r", "mine", 1, 600, 7.into()).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = w.runs_on("dev");
    assert_eq!(dev.rewind("r", 300).unwrap(), 300);
    assert_eq!(writes_nothing(w.db(), || dev.rewind("r", 300).unwrap()), 0);
    assert_eq!(dev.kept("r", "mine", 1).unwrap(), None);
    assert_eq!(
        dev.append_batch((299..=600).map(|n| note("r", n)).collect()).unwrap()[2].run_seq,
        301
    );
    is_whole(&dev, "r");
    assert_eq!(keys_of_run(&dev, "r"), keys_of_run(&w.runs(), "r"));
    assert!(w.runs().kept("r", "mine", 1).unwrap().is_some());
}

/// A run that is being restored on a branch does not count as deleted there, so no merge deletes the
/// target's run.
pub fn a_run_that_is_being_restored_is_not_merged(w: &mut TestDb) {
    forked(w);
    let dev = w.runs_on("dev");
    let before = w.db().revision();
    assert_eq!(dev.rewind("r", 1).unwrap(), 1);
    assert_eq!(w.db().revision(), before + 1, "a short run is rewound at once");
    let events = dev.fetch("r", 0, 9).unwrap();
    dev.delete("r").unwrap();
    let mut restoring = dev.restoring("r", None, None).unwrap();
    restoring.add(events).unwrap();
    for strategy in [MergeStrategy::Strict, MergeStrategy::Theirs] {
        let error = writes_nothing(w.db(), || w.db().merge("dev", "main", strategy)).unwrap_err();
        assert_eq!((error.code(), error.keys()), (Code::MergeConflict, &["r".to_owned()][..]));
    }
    w.db().merge("dev", "main", MergeStrategy::Ours).unwrap();
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 2);
    restoring.finish(Vec::new()).unwrap();
    w.db().merge("dev", "main", MergeStrategy::Theirs).unwrap();
    is_whole(&w.runs(), "r");
}

/// Rewinding is refused on `main`, after the end of a run, and for a missing run. A failed fork at an
/// event creates no branch.
pub fn rewinding_is_refused(w: &mut TestDb) {
    forked(w);
    let code = |result: mainstay::Result<u64>| result.unwrap_err().code();
    let dev = w.runs_on("dev");
    assert_eq!(code(w.runs().rewind("r", 1)), Code::InvalidArgument);
    assert_eq!(code(dev.rewind("r", 0)), Code::InvalidArgument);
    assert_eq!(code(dev.rewind("r", 3)), Code::InvalidArgument);
    assert_eq!(code(dev.rewind("x", 1)), Code::RunNotFound);
    for (run, seq) in [("r", 3), ("r", 0), ("x", 1)] {
        assert_eq!(code(w.db().fork_at_event("new", "main", run, seq)), Code::RunNotFound);
    }
    assert!(w.db().branch("new").is_err());
    is_whole(&dev, "r");
}
