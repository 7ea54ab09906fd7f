//! Conflict detection for interactive transactions on runs.
//!
//! A changed read or a changed answer to an append conflicts. Other appends do not.

use super::transactions::appended;
use super::{all, append, keys_of_run, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Appended, Code, ErrorKind, InteractiveTransaction, RunAnswer, RunCommand, RunFilter,
    RunStatus,
};

/// Runs a transaction around a concurrent write. Returns whether it committed.
#[track_caller]
fn survives(
    w: &TestDb,
    inside: impl FnOnce(&mut InteractiveTransaction),
    meanwhile: impl FnOnce(),
) -> bool {
    let mut t = w.db().begin().unwrap();
    inside(&mut t);
    t.set("result", 1).unwrap();
    meanwhile();
    let before = w.db().revision();
    match t.commit() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert_eq!(w.db().revision(), before, "a conflict writes nothing");
            false
        }
    }
}

/// Each kind of read of a run conflicts with an append to it.
pub fn read_then_appended(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let run = || name("r");
    let reads = [
        RunCommand::Get { run: run() },
        RunCommand::Fetch { run: run(), after: 0, limit: 10 },
        RunCommand::Fetch { run: run(), after: 5, limit: 10 },
        RunCommand::Snapshot { run: run(), seq: None },
        RunCommand::Project { run: run() },
        RunCommand::List { filter: RunFilter::default(), after: None, limit: 10 },
    ];
    for (number, read) in reads.into_iter().enumerate() {
        let meanwhile = || done(w.runs().append(note("r", 10 + number as u64)).unwrap());
        assert!(!survives(w, |t| done(t.run(read.clone()).unwrap()), meanwhile), "{read:?}");
    }
}

/// A run that was absent and has been created conflicts.
pub fn absent_then_made(w: &mut TestDb) {
    let meanwhile = || done(w.runs().append(note("r", 1)).unwrap());
    assert!(!survives(w, |t| assert!(t.fetch_events("r", 0, 9).unwrap().is_empty()), meanwhile));
    let meanwhile = || done(w.runs().append(note("s", 1)).unwrap());
    assert!(!survives(w, |t| assert!(t.run_snapshot("s").unwrap().is_none()), meanwhile));
}

/// A run that was read and has been deleted conflicts.
pub fn read_then_deleted(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let meanwhile = || done(w.runs().delete("r").unwrap());
    assert!(!survives(w, |t| done(t.fetch_events("r", 0, 9).unwrap()), meanwhile));
}

/// Appends to other runs, repeated appends and writes of other kinds do not conflict.
pub fn others_do_not_conflict(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let meanwhile = || {
        w.runs().append(note("r", 1)).unwrap();
        w.runs().append(note("rr", 1)).unwrap();
        w.cells().set("r", 1).unwrap();
        w.db().outbox().put("s", "", Some("r")).unwrap();
    };
    assert!(survives(w, |t| done(t.fetch_events("r", 0, 9).unwrap()), meanwhile));
}

/// A run created in a listed range conflicts, and one outside the range does not.
pub fn phantom_in_a_listed_range(w: &mut TestDb) {
    w.runs().append(note("a/1", 1)).unwrap();
    let list = || RunCommand::List { filter: RunFilter::of("a/"), after: None, limit: 10 };
    let made = |run: &'static str| move |w: &TestDb| done(w.runs().append(note(run, 1)).unwrap());
    let outside = made("b");
    assert!(survives(w, |t| done(t.run(list()).unwrap()), || outside(w)));
    let inside = made("a/2");
    assert!(!survives(w, |t| done(t.run(list()).unwrap()), || inside(w)));
}

/// The answer to an append still holds at commit: the event ID, that it was new, and without other
/// writers the sequence number.
pub fn append_is_as_told(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let mut t = w.db().begin().unwrap();
    let told = [2, 3, 2, 1].map(|number| t.append(note("r", number)).unwrap());
    assert_eq!(told.each_ref().map(|told| told.run_seq), [2, 3, 2, 1]);
    t.set("seen", told[1].event_id.as_str()).unwrap();
    w.pass_ms(10);
    let receipt = t.commit().unwrap();
    for (answer, told) in receipt.answers.iter().zip(&told) {
        let last = appended(answer);
        let said = |one: &Appended| (one.run_seq, one.persisted, one.idempotent);
        assert_eq!((said(&last), &last.event_id), (said(told), &told.event_id));
    }
    assert_eq!(all(&w.runs(), "r")[2].event_id, told[1].event_id, "called as it was told");
}

/// The answer to a bootstrap still holds at commit.
pub fn bootstrap_is_as_told(w: &mut TestDb) {
    let events = vec![note("r", 1), note("r", 2)];
    let command = RunCommand::Bootstrap { run: name("r"), metadata: 1.into(), events };
    let mut t = w.db().begin().unwrap();
    let Answer::Run(answer) = t.run(command).unwrap() else { panic!("no run") };
    let RunAnswer::AppendedAll(told) = *answer else { panic!("{answer:?}") };
    w.pass_ms(10);
    t.commit().unwrap();
    let names = |run| all(&w.runs(), run).into_iter().map(|event| event.event_id);
    assert!(names("r").eq(told.into_iter().map(|told| told.event_id)));
}

/// Appends of different events never conflict; final sequence numbers are assigned at commit.
pub fn blind_appends_never_conflict(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.append(note("r", 2)).unwrap().run_seq, 2, "provisional");
    assert!(t.append(note("r", 1)).unwrap().idempotent);
    t.put_message("s", "x", Some("r")).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    let receipt = t.commit().unwrap();
    let [two, one] = [0, 1].map(|answer| appended(&receipt.answers[answer]));
    assert_eq!((two.run_seq, two.persisted), (3, true), "final");
    assert_eq!((one.run_seq, one.idempotent), (1, true));
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1", "note-3", "note-2"]);
    assert_eq!(w.db().outbox().state().unwrap().pending, 1);
}

/// If another writer appends the same event first, the transaction conflicts, because its event was
/// answered as new.
pub fn append_then_the_same_event(w: &mut TestDb) {
    let meanwhile = || done(w.runs().append(note("r", 1)).unwrap());
    assert!(!survives(w, |t| assert!(t.append(note("r", 1)).unwrap().persisted), meanwhile));
    let meanwhile = || done(w.runs().append(note("r", 2).value("else")).unwrap());
    assert!(!survives(w, |t| assert!(!t.append(note("r", 2)).unwrap().conflict), meanwhile));
    assert_eq!(w.cells().get("result").unwrap(), None);
}

/// If the run is deleted after an append was answered, as new or as a duplicate, the transaction
/// conflicts.
pub fn duplicate_then_deleted(w: &mut TestDb) {
    for run in ["r", "s"] {
        w.runs().append(note(run, 1)).unwrap();
    }
    let meanwhile = || done(w.runs().delete("r").unwrap());
    assert!(!survives(w, |t| assert!(t.append(note("r", 1)).unwrap().idempotent), meanwhile));
    let meanwhile = || done(w.runs().delete("s").unwrap());
    assert!(!survives(w, |t| assert!(t.append(note("s", 2)).unwrap().persisted), meanwhile));
}

/// Writes that do not change the run do not conflict with an append, nor do appends on other branches.
pub fn others_leave_an_append_alone(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let meanwhile = || {
        w.runs().append(note("r", 1)).unwrap();
        w.runs().append(note("rr", 1)).unwrap();
        w.runs_on("dev").append(note("r", 2)).unwrap();
        w.db().outbox().put("s", "", Some("r")).unwrap();
    };
    assert!(survives(w, |t| done(t.append(note("r", 2)).unwrap()), meanwhile));
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1", "note-2"]);
}

/// On a fork only appends on that fork conflict, not those on its parent.
pub fn append_on_a_fork(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let begin = || w.db().branch("dev").unwrap().begin().unwrap();
    let mut one = begin();
    let mut two = begin();
    for t in [&mut one, &mut two] {
        assert_eq!(t.append(note("r", 2)).unwrap().run_seq, 2);
    }
    w.runs().append(note("r", 2)).unwrap();
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(keys_of_run(&w.runs_on("dev"), "r"), ["note-1", "note-2"]);
}

/// A merge that brings the same event conflicts.
pub fn append_then_merged(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    w.runs_on("dev").append(note("r", 2)).unwrap();
    let meanwhile = || done(w.db().merge("dev", "main", Default::default()).unwrap());
    assert!(!survives(w, |t| done(t.append(note("r", 2)).unwrap()), meanwhile));
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1", "note-2"]);
}

/// An expected sequence number is checked again at commit.
pub fn expecting_is_looked_at_at_the_commit(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let mut t = w.db().begin().unwrap();
    t.append_expecting(note("r", 2), 1).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    assert_eq!(t.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1", "note-3"]);
}

/// Reads see the snapshot and the transaction's own appends.
pub fn reads_its_own_appends(w: &mut TestDb) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let mut t = w.db().begin().unwrap();
    w.runs().append(of_run("r", "RunPaused")).unwrap();
    assert_eq!(t.run_snapshot("r").unwrap().unwrap().status, RunStatus::Running, "of its begin");
    t.append(of_run("r", "RunCompleted")).unwrap();
    let seen: Vec<_> =
        t.fetch_events("r", 0, 9).unwrap().into_iter().map(|event| event.event_type).collect();
    assert_eq!(seen, ["RunStarted", "RunCompleted"]);
    assert_eq!(t.run_snapshot("r").unwrap().unwrap().status, RunStatus::Completed);
    assert!(t.append(of_run("r", "RunStarted")).unwrap().idempotent);
    drop(t);
    assert_eq!(super::status(w, "r"), RunStatus::Paused);
}

/// Lists see the transaction's own appends and deletions.
pub fn lists_see_its_own(w: &mut TestDb) {
    w.runs().append(note("a", 1)).unwrap();
    let mut t = w.db().begin().unwrap();
    t.append(note("b", 1)).unwrap();
    assert!(t.delete_run("a").unwrap());
    let list = RunCommand::List { filter: RunFilter::default(), after: None, limit: 10 };
    let Answer::Run(answer) = t.run(list).unwrap() else { panic!("no list") };
    let RunAnswer::Runs(page) = *answer else { panic!("no list") };
    assert_eq!(page.runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["b"]);
    t.commit().unwrap();
    assert!(w.runs().get("a").unwrap().is_none() && w.runs().get("b").unwrap().is_some());
}

/// A failed command leaves the transaction open and writes nothing.
pub fn failed_command_leaves_it_open(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    refused(
        t.append(mainstay::NewEvent::new("r", "StepStarted").with_key("k")),
        Code::InvalidArgument,
    );
    refused(t.append_expecting(note("r", 1), 7), Code::SequenceMoved);
    t.append(note("r", 2)).unwrap();
    t.commit().unwrap();
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-2"]);
}

/// Of two transactions that read both runs and append to one each, only one commits.
pub fn write_skew_cannot_happen(w: &mut TestDb) {
    let mut one = w.db().begin().unwrap();
    let mut two = w.db().begin().unwrap();
    for t in [&mut one, &mut two] {
        assert!(t.fetch_events("a", 0, 9).unwrap().is_empty());
        assert!(t.fetch_events("b", 0, 9).unwrap().is_empty());
    }
    one.append(note("a", 1)).unwrap();
    two.append(note("b", 1)).unwrap();
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// A merge that appends events conflicts with reads of the run.
pub fn merge_changes_what_it_brings(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    w.runs_on("dev").append(note("r", 2)).unwrap();
    let meanwhile = || done(w.db().merge("dev", "main", Default::default()).unwrap());
    assert!(!survives(w, |t| done(t.run_snapshot("r").unwrap()), meanwhile));
}

/// A read-only transaction never fails.
pub fn read_only_never_fails(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.fetch_events("r", 0, 9).unwrap();
    w.db().execute(mainstay::Transaction::new().step(append(note("r", 1)))).unwrap();
    t.commit().unwrap();
}
