//! Interactive transactions: what was read of a run conflicts when it changes, blind appends never do.

use super::{append, keys_of_run, note, of_run};
use crate::World;
use crate::check::*;
use mainstay::{Answer, Code, ErrorKind, Interactive, RunAnswer, RunCommand, RunFilter, RunStatus};

/// Runs one transaction around another writer; says whether it committed.
#[track_caller]
fn survives(w: &World, inside: impl FnOnce(&mut Interactive), meanwhile: impl FnOnce()) -> bool {
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

/// Every way to read a run, and an append meanwhile.
pub fn read_then_appended(w: &mut World) {
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

/// What was found absent and is there now.
pub fn absent_then_made(w: &mut World) {
    let meanwhile = || done(w.runs().append(note("r", 1)).unwrap());
    assert!(!survives(w, |t| assert!(t.fetch_events("r", 0, 9).unwrap().is_empty()), meanwhile));
    let meanwhile = || done(w.runs().append(note("s", 1)).unwrap());
    assert!(!survives(w, |t| assert!(t.run_snapshot("s").unwrap().is_none()), meanwhile));
}

/// What was read and is deleted now.
pub fn read_then_deleted(w: &mut World) {
    w.runs().append(note("r", 1)).unwrap();
    let meanwhile = || done(w.runs().delete("r").unwrap());
    assert!(!survives(w, |t| done(t.fetch_events("r", 0, 9).unwrap()), meanwhile));
}

/// Other runs, told again, and other kinds do not conflict.
pub fn others_do_not_conflict(w: &mut World) {
    w.runs().append(note("r", 1)).unwrap();
    let meanwhile = || {
        w.runs().append(note("r", 1)).unwrap();
        w.runs().append(note("rr", 1)).unwrap();
        w.cells().set("r", 1).unwrap();
        w.db().outbox().put("s", "", Some("r")).unwrap();
    };
    assert!(survives(w, |t| done(t.fetch_events("r", 0, 9).unwrap()), meanwhile));
}

/// A run in a listed range that comes or goes.
pub fn phantom_in_a_listed_range(w: &mut World) {
    w.runs().append(note("a/1", 1)).unwrap();
    let list = || RunCommand::List { filter: RunFilter::of("a/"), after: None, limit: 10 };
    let made = |run: &'static str| move |w: &World| done(w.runs().append(note(run, 1)).unwrap());
    let outside = made("b");
    assert!(survives(w, |t| done(t.run(list()).unwrap()), || outside(w)));
    let inside = made("a/2");
    assert!(!survives(w, |t| done(t.run(list()).unwrap()), || inside(w)));
}

/// Blind appends never conflict; their sequences are given at the commit.
pub fn blind_appends_never_conflict(w: &mut World) {
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.append(note("r", 1)).unwrap().run_seq, 1, "provisional");
    t.put_message("s", "x", Some("r")).unwrap();
    w.runs().append(note("r", 2)).unwrap();
    let receipt = t.commit().unwrap();
    let Answer::Run(answer) = &receipt.answers[0] else { panic!("{receipt:?}") };
    let RunAnswer::Appended(appended) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!((appended.run_seq, appended.persisted), (2, true), "final");
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-2", "note-1"]);
    assert_eq!(w.db().outbox().state().unwrap().pending, 1);
}

/// Two that append blindly to one run both commit, also the same event, which is there once.
pub fn two_blind_appends_commit(w: &mut World) {
    let (mut one, mut two) = (w.db().begin().unwrap(), w.db().begin().unwrap());
    for t in [&mut one, &mut two] {
        t.append(note("r", 1)).unwrap();
    }
    two.append(note("r", 2)).unwrap();
    one.commit().unwrap();
    two.commit().unwrap();
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1", "note-2"]);
}

/// What it expects of a sequence is looked at when it commits.
pub fn expecting_is_looked_at_at_the_commit(w: &mut World) {
    w.runs().append(note("r", 1)).unwrap();
    let mut t = w.db().begin().unwrap();
    t.append_expecting(note("r", 2), 1).unwrap();
    w.runs().append(note("r", 3)).unwrap();
    assert_eq!(t.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(keys_of_run(&w.runs(), "r"), ["note-1", "note-3"]);
}

/// It reads a snapshot, and its own appends on it.
pub fn reads_its_own_appends(w: &mut World) {
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

/// Its own deletion is seen, and lists have what it made.
pub fn lists_see_its_own(w: &mut World) {
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

/// A command that failed leaves it open, and nothing of itself.
pub fn failed_command_leaves_it_open(w: &mut World) {
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

/// Two that read both runs and append to one each: only one of them commits.
pub fn write_skew_cannot_happen(w: &mut World) {
    let (mut one, mut two) = (w.db().begin().unwrap(), w.db().begin().unwrap());
    for t in [&mut one, &mut two] {
        assert!(t.fetch_events("a", 0, 9).unwrap().is_empty());
        assert!(t.fetch_events("b", 0, 9).unwrap().is_empty());
    }
    one.append(note("a", 1)).unwrap();
    two.append(note("b", 1)).unwrap();
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

/// A merge that brings events changes the run.
pub fn merge_changes_what_it_brings(w: &mut World) {
    w.runs().append(note("r", 1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    w.runs_on("dev").append(note("r", 2)).unwrap();
    let meanwhile = || done(w.db().merge("dev", "main", Default::default()).unwrap());
    assert!(!survives(w, |t| done(t.run_snapshot("r").unwrap()), meanwhile));
}

/// Only reading never fails.
pub fn read_only_never_fails(w: &mut World) {
    let mut t = w.db().begin().unwrap();
    t.fetch_events("r", 0, 9).unwrap();
    w.db().execute(mainstay::Transaction::new().step(append(note("r", 1)))).unwrap();
    t.commit().unwrap();
}
