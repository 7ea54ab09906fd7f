//! Session requests, in the order of the contract.

use super::*;
use mainstay::{
    BranchCommand, Code, ErrorKind, Fields, Guard, KEPT_LIMIT, KEPT_LIMIT_BYTES, NewEvent,
    OutboxCommand, RecordCommand, RecordWrite, RunCommand, SessionRequest, StateCommand,
    StateWrite,
};

#[test]
fn a_repeat_is_answered_the_same_and_changes_nothing() {
    let (db, _) = memory();
    let session = open(&db, "s");
    assert_eq!(sum(session.execute(1, 1, add("n"))), 1);
    assert_eq!(sum(session.execute(2, 1, add("n"))), 2);
    let revision = db.revision();
    for _ in 0..3 {
        let again = session.execute(1, 1, add("n")).unwrap();
        assert!(again.repeated);
        assert_eq!(sum(Ok(again)), 1);
    }
    // A repeat is recognized by its number, whatever its commands.
    assert_eq!(sum(session.execute(1, 1, add("other"))), 1);
    assert_eq!((value(&db, "n"), value(&db, "other"), db.revision()), (2, 0, revision));
}

#[test]
fn what_the_client_has_got_goes_and_is_never_executed_again() {
    let (db, _) = memory();
    let session = open(&db, "s");
    for id in 1..=5 {
        session.execute(id, 1, add("n")).unwrap();
    }
    session.execute(6, 4, add("n")).unwrap();
    for id in 1..4 {
        let error = session.execute(id, 1, add("n")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseEvicted, "{error}");
    }
    assert_eq!(sum(session.execute(4, 1, add("n"))), 4);
    assert_eq!(value(&db, "n"), 6);
    let info = db.sessions().info("s").unwrap().unwrap();
    assert_eq!((info.mark, info.kept, info.next_request), (4, 3, 7));
}

#[test]
fn a_late_request_above_the_mark_is_executed_in_its_turn() {
    let (db, _) = memory();
    let session = open(&db, "s");
    session.execute(3, 1, add("n")).unwrap();
    session.execute(1, 1, add("n")).unwrap();
    assert_eq!(sum(session.execute(2, 1, add("n"))), 3);
    assert_eq!(sum(session.execute(3, 1, add("n"))), 1);
    assert_eq!(sum(session.execute(1, 1, add("n"))), 2);
}

#[test]
fn nobody_is_executed_in_a_session_that_is_not_there() {
    let (db, _) = memory();
    let request = SessionRequest::new(name("nobody"), 1, 1);
    let error = db.execute(add("n").in_session(request)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    assert!(error.message().contains("nobody"), "{error}");
    assert_eq!((value(&db, "n"), db.revision()), (0, 0));
}

#[test]
fn numbers_that_make_no_sense_are_refused_and_nothing_is_kept() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let above = i64::MAX as u64 + 1;
    for (id, lowest) in [(0, 0), (0, 1), (3, 4), (above, 1), (u64::MAX - 1, 1), (u64::MAX, 1)] {
        let error = session.execute(id, lowest, add("n")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{id} {lowest}: {error}");
    }
    let info = db.sessions().info("s").unwrap().unwrap();
    assert_eq!((value(&db, "n"), info.kept, info.mark), (0, 0, 1));
}

#[test]
fn errors_and_conflicts_are_answers_for_good() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let guarded = || add("n").guard(Guard::Counter { name: name("n"), is: Some(9) });
    let error = session.execute(1, 1, guarded()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    // The guard would hold now, but the request already has its answer.
    for _ in 0..9 {
        db.execute(add("n")).unwrap();
    }
    assert_eq!(session.execute(1, 1, guarded()).unwrap_err(), error);
    assert_eq!(value(&db, "n"), 9);
    assert_eq!(sum(session.execute(2, 1, guarded())), 10);
}

#[test]
fn an_error_takes_back_what_its_transaction_wrote_and_keeps_its_position() {
    let (db, _) = memory();
    let session = open(&db, "s");
    db.cells().set("text", "x").unwrap();
    let both = || add("n").step(CellCommand::Incr { name: name("text"), by: 1.into() });
    let error = session.execute(1, 1, both()).unwrap_err();
    assert_eq!((error.code(), error.position()), (Code::NotANumber, Some(1)));
    assert_eq!(session.execute(1, 1, both()).unwrap_err(), error);
    assert_eq!(value(&db, "n"), 0);
}

#[test]
fn all_contracts_and_a_branch_go_in_one_request() {
    let (db, _) = memory();
    let session = open(&db, "s");
    db.fork("side", "main", mainstay::At::Latest).unwrap();
    let event = Box::new(NewEvent::new("order-7", "RunCompleted").plan("1"));
    let fields = Fields::of([("f", "v")]).unwrap();
    let all = || {
        let write = RecordWrite::of("r", &fields, None).unwrap();
        let writes = vec![StateWrite::put("k", "v", 1)];
        Transaction::on("side")
            .step(CellCommand::Incr { name: name("n"), by: 1.into() })
            .step(RecordCommand::Write(Box::new(write)))
            .step(RunCommand::Append { event: event.clone(), expected: None })
            .step(StateCommand::Write { space: name("space"), writes })
    };
    let first = session.execute(1, 1, all()).unwrap();
    let again = session.execute(1, 1, all()).unwrap();
    assert_eq!((first.answers.clone(), first.revision), (again.answers.clone(), again.revision));
    let side = db.branch("side").unwrap();
    assert_eq!(side.cells().get("n").unwrap(), Some(1.into()));
    assert_eq!(value(&db, "n"), 0);
    assert_eq!(side.records().get("r").unwrap().map(|record| record.counter), Some(1));
}

#[test]
fn a_fork_is_a_request_like_any_other() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let fork = || {
        let (name, from) = (name("side"), name("main"));
        Transaction::new().step(BranchCommand::Fork { name, from, at: None })
    };
    let first = session.execute(1, 1, fork()).unwrap();
    assert_eq!(session.execute(1, 1, fork()).unwrap().answers, first.answers);
    assert_eq!(session.execute(2, 1, fork()).unwrap_err().kind(), ErrorKind::Exists);
    db.delete_branch("side").unwrap();
    assert_eq!(session.execute(1, 1, fork()).unwrap().answers, first.answers, "not forked again");
    assert!(db.branch("side").is_err());
}

#[test]
fn the_oldest_responses_make_room() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let limit = KEPT_LIMIT as u64;
    for id in 1..=limit + 2 {
        session.execute(id, 1, add("n")).unwrap();
    }
    let info = db.sessions().info("s").unwrap().unwrap();
    assert_eq!((info.kept, info.mark), (limit, 3));
    for id in [1, 2] {
        let error = session.execute(id, 1, add("n")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
    }
    assert_eq!(sum(session.execute(3, 1, add("n"))), 3);
    assert_eq!(value(&db, "n"), limit as i64 + 2);
}

#[test]
fn a_response_that_is_itself_the_oldest_does_not_stay_but_its_mark_does() {
    let path = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START_US);
    let limit = KEPT_LIMIT as u64;
    {
        let db = on_disk(path.path(), &clock);
        let session = open(&db, "s");
        let requests =
            (2..=limit + 1).map(|id| add("n").in_session(SessionRequest::new(name("s"), id, 1)));
        assert!(db.execute_all(requests.collect()).iter().all(Result::is_ok));
        assert_eq!(sum(session.execute(1, 1, add("n"))), limit as i64 + 1);
        let error = session.execute(1, 1, add("n")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
    }
    let db = on_disk(path.path(), &clock);
    let session = open(&db, "s");
    let error = session.execute(1, 1, add("n")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
    assert_eq!(value(&db, "n"), limit as i64 + 1);
}

/// Returns a transaction that writes, and whose answer has the size of a cell.
fn reads(cell: &str) -> Transaction {
    add("n").step(CellCommand::Get { name: name(cell) })
}

#[test]
fn responses_have_a_limit_in_bytes_together() {
    let (db, _) = memory();
    let session = open(&db, "s");
    db.cells().set("large", "x".repeat(KEPT_LIMIT_BYTES / 4)).unwrap();
    for id in 1..=6 {
        session.execute(id, 1, reads("large")).unwrap();
    }
    let info = db.sessions().info("s").unwrap().unwrap();
    assert!(info.kept_bytes <= KEPT_LIMIT_BYTES as u64, "{info:?}");
    assert_eq!((info.kept, info.mark), (3, 4));
}

#[test]
fn a_response_over_the_limit_aborts_its_request_for_good() {
    let (db, _) = memory();
    let session = open(&db, "s");
    db.cells().set("large", "x".repeat(KEPT_LIMIT_BYTES)).unwrap();
    let error = session.execute(1, 1, reads("large")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(value(&db, "n"), 0, "nothing was written");
    db.cells().set("large", "small").unwrap();
    assert_eq!(session.execute(1, 1, reads("large")).unwrap_err(), error);
    assert_eq!(value(&db, "n"), 0);
    assert_eq!(db.sessions().info("s").unwrap().unwrap().kept, 1);
}

/// Caches must not contain effects of an aborted request.
#[test]
fn what_an_aborted_request_had_claimed_and_appended_is_as_it_was() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let runs = db.runs();
    let outbox = db.outbox();
    let event = |kind: &str| NewEvent::new("run", kind).plan("1");
    runs.append(event("RunStarted")).unwrap();
    outbox.put("subject", vec![0; KEPT_LIMIT_BYTES + 1], None).unwrap();
    outbox.put("subject", "small", None).unwrap();
    let claim = || OutboxCommand::Claim { limit: 10, lease_ms: 60_000 };
    let append = || RunCommand::Append { event: Box::new(event("RunPaused")), expected: None };
    let error = session.execute(1, 1, Transaction::new().step(append()).step(claim())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(runs.fetch("run", 0, 10).unwrap().len(), 1);
    assert_eq!(outbox.claim(10, secs(60)).unwrap().len(), 2);
    runs.append(event("RunCompleted")).unwrap();
    let kept = runs.snapshot("run").unwrap();
    let replayed = runs.project("run").unwrap();
    assert_eq!(kept, replayed);
}

#[test]
fn sessions_do_not_know_each_other() {
    let (db, _) = memory();
    // One name is a prefix of the other one.
    let a = open(&db, "a");
    let b = open(&db, "ab");
    assert_eq!(sum(a.execute(1, 1, add("n"))), 1);
    assert_eq!(sum(b.execute(1, 1, add("n"))), 2);
    a.close().unwrap();
    assert_eq!(sum(b.execute(1, 1, add("n"))), 2);
    assert_eq!(a.execute(1, 1, add("n")).unwrap_err().kind(), ErrorKind::SessionExpired);
}

#[test]
fn one_number_sent_by_many_threads_at_once_is_executed_once() {
    let db = Database::memory().unwrap();
    let session = open(&db, "s");
    for id in 1..=200 {
        let sums: Vec<i64> = std::thread::scope(|scope| {
            let ask = || scope.spawn(|| sum(session.execute(id, id, add("n"))));
            let threads: Vec<_> = (0..4).map(|_| ask()).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sums, [id as i64; 4]);
    }
}
