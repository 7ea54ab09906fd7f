//! Regression tests for review findings, each with the scenario that showed it.

use crate::{event, memory, note};
use mainstay::{
    At, Code, Durability, ManualClock, MergeStrategy, Name, Options, RunCommand, Runs, Transaction,
};
use std::time::Duration;

fn keys(runs: &Runs) -> Vec<String> {
    runs.fetch("r", 0, 99).unwrap().into_iter().map(|event| event.idempotency_key).collect()
}

/// After a merge that gave new sequence numbers, a position in one log has no meaning in the other one.
#[test]
fn a_merge_back_brings_all() {
    let (db, _) = memory();
    db.runs().append(note("r", 1)).unwrap();
    db.fork("b", "main", At::Latest).unwrap();
    let b = db.branch("b").unwrap().runs();
    db.runs().append(note("r", 2)).unwrap();
    b.append(note("r", 10)).unwrap();
    b.append(note("r", 11)).unwrap();
    db.merge("b", "main", MergeStrategy::Theirs).unwrap();
    db.merge("main", "b", MergeStrategy::Theirs).unwrap();
    assert_eq!(keys(&b), ["note-1", "note-10", "note-11", "note-2"]);
}

#[test]
fn a_restore_that_fails_leaves_nothing() {
    let (db, _) = memory();
    for number in 1..=2 {
        db.runs().append(note("a", number)).unwrap();
    }
    let mut events = db.runs().fetch("a", 0, 9).unwrap();
    events.iter_mut().for_each(|event| event.run_id = "x".into());
    events[1].idempotency_key = events[0].idempotency_key.clone();
    let run = Name::new("x").unwrap();
    let restore = RunCommand::Restore { run, metadata: None, created: None, events };
    db.execute(Transaction::new().attempt(restore)).unwrap();
    assert!(db.runs().get("x").unwrap().is_none());
}

#[test]
fn the_past_of_a_fork_is_that_of_its_parent() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let db = options.clock(clock.clone()).memory().unwrap();
    db.runs().append(note("r", 1)).unwrap();
    let then = db.revision();
    db.runs().append(note("r", 2)).unwrap();
    db.runs().append(note("r", 3)).unwrap();
    db.fork("b", "main", At::Latest).unwrap();
    let b = db.branch("b").unwrap().runs();
    b.append(note("r", 4)).unwrap();
    for number in 1..=2 {
        clock.advance(Duration::from_secs(48 * 3600));
        db.runs().append(note("other", number)).unwrap();
        db.cells().set("c", number as i64).unwrap();
        db.trim().unwrap();
    }
    for runs in [db.runs(), b] {
        assert_eq!(runs.at(At::Revision(then)).unwrap().fetch("r", 0, 9).unwrap().len(), 1);
    }
}

#[test]
fn no_attempt_is_the_first_one() {
    let (db, _) = memory();
    db.runs().append(event("r", "RunStarted", None)).unwrap();
    let again = db.runs().append(event("r", "RunStarted", None).attempt(1)).unwrap();
    assert!(again.idempotent && !again.conflict, "{again:?}");
}

#[test]
fn runs_that_were_made_with_something_else_are_others() {
    let (db, _) = memory();
    db.fork("b", "main", At::Latest).unwrap();
    let b = db.branch("b").unwrap().runs();
    db.runs().bootstrap("r", "main's", vec![]).unwrap();
    b.bootstrap("r", "b's", vec![]).unwrap();
    let merged = db.merge("b", "main", MergeStrategy::Strict);
    assert_eq!(merged.unwrap_err().code(), Code::MergeConflict);
}

#[test]
fn a_claim_takes_no_more_than_can_be_held() {
    let (db, _) = memory();
    for _ in 0..5 {
        db.outbox().put("s", vec![7; 16 << 20], None).unwrap();
    }
    let mut claims = Vec::new();
    loop {
        let claimed = db.outbox().claim(1000, Duration::from_secs(9)).unwrap();
        if claimed.is_empty() {
            break;
        }
        claims.push(claimed.len());
    }
    assert_eq!(claims, [3, 2]);
}

#[test]
fn names_of_steps_have_a_limit() {
    let (db, _) = memory();
    let long = "s".repeat(1025);
    let error = db.runs().append(event("r", "StepStarted", Some(&long))).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}
