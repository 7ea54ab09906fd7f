//! Opening, leases, closing and expiry of sessions, and their state after a restart.

use super::*;
use mainstay::{
    ChangeKind, Code, Contract, ErrorKind, Filter, REQUESTS_AHEAD_LIMIT, SessionCommand,
};

#[test]
fn opening_a_name_twice_is_the_same_session() {
    let (db, _) = memory();
    let options = || SessionOptions::new().name("s").lease(secs(5)).capability("lang", "rust");
    let first = db.sessions().open(options()).unwrap();
    first.execute(1, 1, add("n")).unwrap();
    let second = db.sessions().open(SessionOptions::new().name("s").lease(secs(9))).unwrap();
    assert!(first.is_new() && !second.is_new());
    let info = second.info();
    assert_eq!((info.lease_ms, info.next_request, info.opened), (5_000, 2, first.info().opened));
    assert_eq!(info.capabilities, [("lang".to_owned(), "rust".to_owned())]);
    assert_eq!(sum(second.execute(1, 1, add("n"))), 1);
}

#[test]
fn a_session_without_a_name_gets_one() {
    let (db, _) = memory();
    let sessions = db.sessions();
    let a = SessionOptions::new();
    let b = SessionOptions::new();
    let a = sessions.open(a).unwrap();
    let b = sessions.open(b).unwrap();
    assert_ne!(a.name(), b.name());
    assert_eq!(a.info().lease_ms, 60_000);
}

#[test]
fn every_word_of_the_client_renews_the_lease_and_silence_ends_it() {
    let (db, clock) = memory();
    let session = open(&db, "s");
    for word in 0..4 {
        clock.advance(secs(59));
        match word {
            0 => session.keep_alive(0).unwrap(),
            1 => drop(session.execute(1, 1, add("n")).unwrap()),
            // A repeat renews the lease, too.
            2 => drop(session.execute(1, 1, add("n")).unwrap()),
            _ => assert_eq!(session.acknowledge(0).unwrap(), 0),
        }
        db.sweep().unwrap();
    }
    clock.advance(secs(60));
    let error = session.execute(2, 1, add("n")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired, "also before the sweep has come by");
    assert_eq!(session.execute(1, 1, add("n")).unwrap_err().kind(), ErrorKind::SessionExpired);
    assert_eq!(session.keep_alive(0).unwrap_err().kind(), ErrorKind::SessionExpired);
    assert_eq!(db.sessions().info("s").unwrap(), None);
    assert!(db.sessions().list(None, 10).unwrap().sessions.is_empty());
    assert_eq!(value(&db, "n"), 1);
}

#[test]
fn expiry_removes_everything_of_one_session_and_nothing_else() {
    let (db, clock) = memory();
    let gone = open(&db, "a");
    let stays = open(&db, "a/b");
    for session in [&gone, &stays] {
        for id in 1..=3 {
            session.execute(id, 1, add("n")).unwrap();
            db.sessions().send(session.name().as_str(), "x").unwrap();
        }
    }
    clock.advance(secs(59));
    stays.keep_alive(0).unwrap();
    clock.advance(secs(2));
    assert!(db.sweep().unwrap() > 0);
    let figures = db.stats().sessions;
    assert_eq!((figures.live, figures.expired, figures.kept, figures.pending), (1, 1, 3, 3));
    assert_eq!(stays.pending(0, 10).unwrap().len(), 3);
    assert_eq!(sum(stays.execute(1, 1, add("n"))), 4);
    assert_eq!(gone.pending(0, 10).unwrap_err().kind(), ErrorKind::SessionExpired);
}

#[test]
fn the_sweep_finds_expired_sessions_by_itself() {
    let db = Options::new().sweep_interval(Some(Duration::from_millis(1))).memory().unwrap();
    let options = SessionOptions::new().name("s").lease(Duration::from_millis(20));
    db.sessions().open(options).unwrap();
    // Needs a few of these waits. If all of them pass, the sweep never comes.
    let comes = |_| {
        std::thread::sleep(Duration::from_millis(1));
        db.stats().sessions.expired > 0
    };
    assert!((0..60_000).any(comes), "the sweep has not come by");
    assert_eq!(db.stats().sessions.live, 0);
}

#[test]
fn the_numbers_of_a_session_that_is_gone_go_on_in_one_of_its_name() {
    let (db, clock) = memory();
    for round in 0..3 {
        let session = open(&db, "s");
        assert!(session.is_new());
        let next = session.info().next_request;
        assert_eq!(next, 1 + (2 + REQUESTS_AHEAD_LIMIT) * round);
        for id in 1..next {
            // A late copy of a request that the previous session has executed.
            let error = session.execute(id, 1, add("n")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
        }
        session.execute(next, next, add("n")).unwrap();
        session.execute(next + 1, next, add("n")).unwrap();
        assert_eq!(db.sessions().send("s", "x").unwrap(), Some(round + 1));
        if round == 1 {
            session.close().unwrap();
        } else {
            clock.advance(secs(61));
        }
        if round == 0 {
            db.sweep().unwrap();
        }
    }
    assert_eq!(value(&db, "n"), 6);
    // After a day the numbers are no longer remembered.
    clock.advance(secs(24 * 3600 + 100));
    db.sweep().unwrap();
    clock.advance(secs(24 * 3600 + 100));
    db.sweep().unwrap();
    assert_eq!(open(&db, "s").info().next_request, 1);
}

#[test]
fn a_late_copy_of_what_was_never_executed_is_not_executed_in_the_next_session() {
    let (db, clock) = memory();
    for ends in 0..2 {
        let session = open(&db, "s");
        let next = session.info().next_request;
        match ends {
            0 => clock.advance(secs(61)),
            _ => assert!(session.close().unwrap()),
        }
        // The client got the answer that nothing was executed, but a copy of the request is still on its way.
        let late = next + REQUESTS_AHEAD_LIMIT - 1;
        for number in [next, late] {
            let error = session.execute(number, next, add("n")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SessionExpired);
        }
        let anew = open(&db, "s");
        for number in [next, late] {
            let error = anew.execute(number, next, add("n")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
        }
        assert_eq!(value(&db, "n"), 0);
        anew.execute(anew.info().next_request, late + 1, add("m")).unwrap();
    }
}

#[test]
fn a_restart_keeps_responses_marks_letters_and_numbers_and_renews_leases() {
    let path = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START_US);
    for round in 0..4_u64 {
        let db = on_disk(path.path(), &clock);
        let session = open(&db, "s");
        assert_eq!(session.is_new(), round == 0);
        let first = round * 5 + 1;
        assert_eq!(session.info().next_request, first);
        for id in 1..first {
            match session.execute(id, 1, add("n")) {
                Ok(receipt) => assert_eq!(sum(Ok(receipt)), id as i64),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ResponseEvicted, "{id}"),
            }
        }
        for id in first..first + 5 {
            assert_eq!(sum(session.execute(id, id.min(first + 1), add("n"))), id as i64);
            assert_eq!(db.sessions().send("s", "x").unwrap(), Some(id));
        }
        assert_eq!(session.pending(0, 100).unwrap().len() as u64, 5 + u64::from(round > 0) * 2);
        session.acknowledge(first + 2).unwrap();
        if round % 2 == 1 {
            db.trim().unwrap();
        }
        drop((session, db));
        // Longer than the lease, but no database was running to measure it.
        clock.advance(secs(100));
    }
}

#[test]
fn a_keep_alive_evicts_and_survives_a_restart() {
    let path = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START_US);
    {
        let db = on_disk(path.path(), &clock);
        let session = open(&db, "s");
        (1..=4).for_each(|id| drop(session.execute(id, 1, add("n")).unwrap()));
        let before = db.revision();
        session.keep_alive(0).unwrap();
        session.keep_alive(1).unwrap();
        assert_eq!(db.revision(), before, "one that says nothing new writes nothing");
        for number in [i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX] {
            let error = session.keep_alive(number).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "no request has that number");
        }
        session.keep_alive(5).unwrap();
        session.keep_alive(2).unwrap();
        assert_eq!(db.sessions().info("s").unwrap().unwrap().kept, 0);
    }
    let db = on_disk(path.path(), &clock);
    let session = open(&db, "s");
    for id in 1..=4 {
        let error = session.execute(id, 1, add("n")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseEvicted);
    }
    assert_eq!((value(&db, "n"), session.info().next_request), (4, 5));
}

#[test]
fn what_opens_keeps_or_closes_a_session_stands_alone() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let close = || SessionCommand::Close { session: name("s"), epoch: 0 };
    let error = db.execute(add("n").step(close())).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let error = session.execute(1, 1, Transaction::new().step(close())).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(db.sessions().info("s").unwrap().is_some());
    assert_eq!(value(&db, "n"), 0);
}

#[test]
fn bad_leases_and_capabilities_are_refused() {
    let (db, _) = memory();
    let open =
        |options: SessionOptions| db.sessions().open(options.name("s")).err().map(|e| e.code());
    assert_eq!(open(SessionOptions::new().lease(Duration::ZERO)), Some(Code::InvalidTtl));
    assert_eq!(open(SessionOptions::new().lease(secs(86_401))), Some(Code::InvalidTtl));
    let long = "x".repeat(1025);
    assert_eq!(open(SessionOptions::new().capability("", "x")), Some(Code::InvalidArgument));
    assert_eq!(open(SessionOptions::new().capability("x", &long)), Some(Code::InvalidArgument));
    let large = (0..20)
        .fold(SessionOptions::new(), |all, i| all.capability(&i.to_string(), &"x".repeat(1_000)));
    assert_eq!(open(large), Some(Code::InvalidArgument));
    let many = (0..65).fold(SessionOptions::new(), |all, i| all.capability(&i.to_string(), ""));
    assert_eq!(open(many), Some(Code::InvalidArgument));
    let twice = SessionOptions::new().capability("lang", "rust").capability("lang", "c");
    assert_eq!(open(twice), Some(Code::InvalidArgument));
    assert_eq!(db.revision(), 0);
}

#[test]
fn sessions_are_listed_in_pages() {
    let (db, _) = memory();
    ["b", "a", "c"].iter().for_each(|name| drop(open(&db, name)));
    let page = db.sessions().list(None, 2).unwrap();
    let names: Vec<&str> = page.sessions.iter().map(|info| info.session.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["a", "b"], Some("b")));
    let page = db.sessions().list(Some("b"), 2).unwrap();
    assert_eq!((page.sessions.len(), page.next), (1, None));
}

#[test]
fn the_feed_tells_of_sessions_and_what_is_sent_to_them() {
    let db = Database::memory().unwrap();
    let mut feed = db.watch(Filter::default(), 0).unwrap();
    let session = open(&db, "s");
    session.execute(1, 1, add("n")).unwrap();
    db.sessions().send("s", "hello").unwrap();
    session.acknowledge(1).unwrap();
    session.close().unwrap();
    let mut told = Vec::new();
    while told.len() < 4 {
        let event = feed.next(Duration::from_secs(60)).unwrap().unwrap();
        told.push((event.contract, event.key, event.kind, event.value, event.counter));
    }
    let s = |kind, value, n| (Contract::Sessions, "s".to_owned(), kind, value, n);
    assert_eq!(told[0], s(ChangeKind::Opened, None, 0));
    assert_eq!(told[1].0, Contract::Cells);
    assert_eq!(told[2], s(ChangeKind::Sent, Some(Value::Bytes(b"hello".to_vec())), 1));
    assert_eq!(told[3], s(ChangeKind::Closed, None, 0));
}

#[test]
fn a_backup_brings_sessions_along() {
    let path = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START_US);
    let file = path.path().join("backup");
    {
        let db = on_disk(&path.path().join("a"), &clock);
        let session = open(&db, "s");
        (1..=3).for_each(|id| drop(session.execute(id, id.min(2), add("n")).unwrap()));
        db.sessions().send("s", "x").unwrap();
        db.backup(&file, &mut |_| {}).unwrap();
    }
    mainstay::restore_backup(&path.path().join("b"), &[file], &mut |_| {}).unwrap();
    let db = on_disk(&path.path().join("b"), &clock);
    let session = open(&db, "s");
    assert!(!session.is_new());
    assert_eq!(sum(session.execute(3, 2, add("n"))), 3);
    assert_eq!(session.execute(1, 1, add("n")).unwrap_err().kind(), ErrorKind::ResponseEvicted);
    assert_eq!(session.pending(0, 10).unwrap(), [(1, b"x".to_vec())]);
    assert_eq!(value(&db, "n"), 3);
}
