//! Crashes and full disks: acknowledged requests are kept, and others may be sent again.

use super::machine::Machine;
use super::*;
use mainstay::{Answer, Code, ErrorKind, SessionAnswer, SessionCommand};
use seam::FaultyFiles;
use std::sync::atomic::Ordering;

#[test]
fn a_full_disk_keeps_no_response_and_the_request_is_sent_again() {
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().sweep_interval(None).files(files).memory().unwrap();
    let session = open(&db, "s");
    session.execute(1, 1, add("n")).unwrap();
    // SeqCst for all flags in this file: the simplest order, and tests need no speed.
    faults.room.store(0, Ordering::SeqCst);
    for _ in 0..3 {
        let error = session.execute(2, 2, add("n")).unwrap_err();
        assert_eq!(error.code(), Code::DiskFull);
    }
    // A failed request has an answer only if the answer could be stored.
    let failing = Transaction::new().guard(mainstay::Guard::Counter { name: name("n"), is: None });
    assert_eq!(session.execute(3, 1, failing.clone()).unwrap_err().code(), Code::DiskFull);
    assert_eq!(sum(session.execute(1, 1, add("n"))), 1, "what is kept is answered");
    faults.room.store(-1, Ordering::SeqCst);
    assert_eq!(db.sessions().info("s").unwrap().unwrap().mark, 1, "nothing was evicted either");
    assert_eq!(sum(session.execute(2, 2, add("n"))), 2);
    assert_eq!(session.execute(3, 1, failing).unwrap_err().code(), Code::GuardFailed);
    assert_eq!(value(&db, "n"), 2);
}

#[test]
fn after_a_failed_sync_nobody_is_told_that_it_was_executed() {
    let (files, faults) = FaultyFiles::new();
    let machine = Machine::with(files);
    let db = machine.open();
    let session = open(&db, "s");
    session.execute(1, 1, add("n")).unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    let error = session.execute(2, 1, add("n")).unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::UnknownOutcome, ErrorKind::UnknownOutcome));
    faults.sync_fails.store(false, Ordering::SeqCst);
    // The request is executed but not durable. A repeat must not be answered, and no other request may run.
    for (id, lowest) in [(2, 1), (2, 2), (3, 3), (3, 1)] {
        let error = session.execute(id, lowest, add("n")).unwrap_err();
        assert_eq!((error.code(), error.kind()), (Code::SyncFailed, ErrorKind::ReadOnly), "{id}");
    }
    for told in [
        session.keep_alive(2),
        session.acknowledge(1).map(drop),
        session.close().map(drop),
        db.sessions().send("s", "x").map(drop),
        db.sessions().open(SessionOptions::new()).map(drop),
    ] {
        assert_eq!(told.unwrap_err().code(), Code::SyncFailed);
    }
    assert_eq!(sum(session.execute(1, 1, add("n"))), 1, "what is durable is answered");
    assert_eq!((value(&db, "n"), db.stats().read_only), (1, true));
    drop((session, db));
    // The restart decides whether it was executed. It counts once in either case.
    let db = machine.open();
    let session = open(&db, "s");
    assert!(!session.is_new());
    for _ in 0..2 {
        assert_eq!(sum(session.execute(2, 1, add("n"))), 2);
    }
    assert_eq!(sum(session.execute(1, 1, add("n"))), 1, "nothing was evicted");
    assert_eq!((sum(session.execute(3, 3, add("n"))), value(&db, "n")), (3, 3));
}

#[test]
fn after_a_failed_sync_sessions_can_be_looked_at() {
    let (files, faults) = FaultyFiles::new();
    let machine = Machine::with(files);
    let db = machine.open();
    let session = open(&db, "s");
    db.sessions().send("s", "x").unwrap();
    let other = open(&db, "other");
    faults.sync_fails.store(true, Ordering::SeqCst);
    let all = add("n")
        .step(SessionCommand::Send { session: name("other"), payload: b"y".into() })
        .in_session(mainstay::SessionRequest::new(name("s"), 1, 1));
    assert_eq!(db.execute(all).unwrap_err().code(), Code::UnknownOutcome);
    // No client can send any request, so no lease ends.
    machine.clock.advance(secs(100_000));
    for _ in 0..2 {
        assert_eq!(session.pending(0, 10).unwrap(), [(1, b"x".to_vec())]);
        assert!(other.pending(0, 10).unwrap().is_empty(), "what is not durable is not there");
        assert_eq!(db.sessions().list(None, 10).unwrap().sessions.len(), 2);
        assert_eq!(db.sessions().info("s").unwrap().map(|info| info.kept), Some(0));
        assert!(db.sessions().info("nobody").unwrap().is_none());
        assert!(db.sessions().has_pending(mainstay::Stamp::MAX).unwrap());
    }
    let look = |session| SessionCommand::Info { session: name(session) };
    let both = db.execute(Transaction::new().step(look("s")).step(look("other"))).unwrap();
    assert_eq!(both.answers.len(), 2);
    let mixed = Transaction::new()
        .step(look("s"))
        .step(CellCommand::Incr { name: name("n"), by: 1.into() });
    let as_request = Transaction::new().step(look("s")).in_session(mainstay::SessionRequest::new(
        name("s"),
        2,
        1,
    ));
    for refused in [mixed, as_request, Transaction::new()] {
        assert_eq!(db.execute(refused).unwrap_err().code(), Code::SyncFailed);
    }
    assert_eq!(db.close().unwrap_err().code(), Code::SyncFailed);
    assert_eq!(db.sessions().list(None, 10).unwrap_err().code(), Code::Closed);
    assert_eq!(session.pending(0, 10).unwrap_err().code(), Code::Closed);
}

#[test]
fn who_only_looks_while_a_sync_fails_is_answered() {
    for round in 0..40 {
        let (files, faults) = FaultyFiles::new();
        let machine = Machine::with(files);
        let db = machine.open();
        open(&db, "s");
        std::thread::scope(|threads| {
            let writers =
                (0..3).map(|_| threads.spawn(|| while db.cells().incr("n", 1).is_ok() {}));
            let writers: Vec<_> = writers.collect();
            let looker = threads.spawn(|| {
                while !db.stats().read_only {
                    db.sessions().list(None, 10).unwrap();
                    db.sessions().info("s").unwrap();
                }
            });
            std::thread::sleep(std::time::Duration::from_micros(100 * round));
            faults.sync_fails.store(true, Ordering::SeqCst);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            looker.join().unwrap();
        });
    }
}

#[test]
fn who_asks_for_what_is_durable_is_told_of_nothing_else_after_a_failed_sync() {
    let (files, faults) = FaultyFiles::new();
    let machine = Machine::with(files);
    let db = machine.open();
    open(&db, "s");
    db.sessions().send("s", "kept").unwrap();
    db.sync().unwrap();
    let send = SessionCommand::Send { session: name("s"), payload: b"loose".into() };
    let loose = Transaction::new().step(send).durability(Durability::Memory);
    db.execute(loose).unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    db.sync().unwrap_err();
    let pending = |durability| {
        let session = name("s");
        let after = 0;
        let limit = 10;
        let epoch = 0;
        let command = SessionCommand::Pending { session, after, limit, epoch };
        let look = Transaction::new().step(command).durability(durability);
        match db.execute(look).unwrap().answers.remove(0) {
            Answer::Session(answer) => match *answer {
                SessionAnswer::Pending { requests, .. } => requests.len(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..2 {
        assert_eq!(pending(Durability::Memory), 2, "it was seen before");
        assert_eq!(pending(Durability::Sync), 1, "its number may be that of another one soon");
    }
}

#[test]
fn what_is_told_of_sessions_after_a_failed_sync_has_the_limits_of_every_transaction() {
    let (files, faults) = FaultyFiles::new();
    let machine = Machine::with(files);
    let db = machine.open();
    let session = open(&db, "s");
    for _ in 0..4 {
        db.sessions().send("s", vec![b'x'; 1 << 20]).unwrap();
    }
    faults.sync_fails.store(true, Ordering::SeqCst);
    session.execute(1, 1, add("n")).unwrap_err();
    let pending = |session| {
        let session = name(session);
        let after = 0;
        let limit = 10;
        let epoch = 0;
        SessionCommand::Pending { session, after, limit, epoch }
    };
    // A missing session does not stop the other commands.
    let both = Transaction::new().attempt(pending("nobody")).attempt(pending("s"));
    let both = db.execute(both).unwrap();
    assert!(
        matches!(&both.answers[0], Answer::Failed(error) if error.code() == Code::SessionExpired)
    );
    assert!(matches!(&both.answers[1], Answer::Session(_)));
    let alone = db.execute(Transaction::new().step(pending("s")).step(pending("nobody")));
    assert_eq!(alone.unwrap_err().position(), Some(1));
    let much = (0..40).fold(Transaction::new(), |all, _| all.step(pending("s")));
    assert_eq!(db.execute(much).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn a_repeat_is_not_told_before_the_first_is_on_stable_storage() {
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().sweep_interval(None).files(files).memory().unwrap();
    open(&db, "s");
    let synced = faults.syncs.came();
    faults.syncs.hold();
    let first = db.submit(add("n").in_session(mainstay::SessionRequest::new(name("s"), 1, 1)));
    faults.syncs.wait_for_more_than(synced);
    let again = db.submit(add("n").in_session(mainstay::SessionRequest::new(name("s"), 1, 1)));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!first.is_done() && !again.is_done());
    faults.syncs.let_go();
    assert_eq!((sum(first.wait()), sum(again.wait())), (1, 1));
}

#[test]
fn an_error_is_told_when_it_is_on_stable_storage_too() {
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().sweep_interval(None).files(files).memory().unwrap();
    open(&db, "s");
    let synced = faults.syncs.came();
    faults.syncs.hold();
    let failing =
        Transaction::new().guard(mainstay::Guard::Counter { name: name("n"), is: Some(1) });
    let ticket = db.submit(failing.in_session(mainstay::SessionRequest::new(name("s"), 1, 1)));
    faults.syncs.wait_for_more_than(synced);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!ticket.is_done());
    faults.syncs.let_go();
    assert_eq!(ticket.wait().unwrap_err().code(), Code::GuardFailed);
}
