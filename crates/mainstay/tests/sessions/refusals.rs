//! Refusals are final: a session or a response that was reported as gone stays gone.

use super::*;
use mainstay::{ChangeKind, Code, Contract, ErrorKind, Filter, SessionCommand, SessionRequest};
use seam::FaultyFiles;
use std::sync::atomic::Ordering;

fn request(id: u64, transaction: Transaction) -> Transaction {
    transaction.in_session(SessionRequest::new(name("s"), id, 1))
}

#[test]
fn what_was_told_to_be_expired_does_not_come_back_with_a_restart() {
    let path = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START_US);
    for word in 0..2 {
        {
            let db = on_disk(path.path(), &clock);
            let session = open(&db, "s");
            clock.advance(secs(61));
            let next = session.info().next_request;
            let told = match word {
                0 => session.execute(next, next, add("late")).map(|_| ()),
                _ => session.keep_alive(0),
            };
            assert_eq!(told.unwrap_err().kind(), ErrorKind::SessionExpired);
        }
        let db = on_disk(path.path(), &clock);
        let late = db.execute(request(1, add("late")));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::SessionExpired);
        // A request with a new number is not taken for the old one.
        let anew = open(&db, "s");
        assert!(anew.is_new());
        let next = anew.info().next_request;
        assert!(db.execute(request(1, add("late"))).is_err());
        assert!(!anew.execute(next, next, add("n")).unwrap().repeated);
        assert_eq!((value(&db, "late"), value(&db, "n")), (0, word + 1));
        anew.close().unwrap();
    }
}

#[test]
fn a_full_disk_is_told_and_not_an_expiry_that_cannot_be_written() {
    let (files, faults) = FaultyFiles::new();
    let clock = ManualClock::new(START_US);
    let db = options(&clock).files(files).memory().unwrap();
    let session = open(&db, "s");
    clock.advance(secs(61));
    // SeqCst: a flag of the test's fault injection, speed does not matter.
    faults.room.store(0, Ordering::SeqCst);
    assert_eq!(session.execute(1, 1, add("n")).unwrap_err().code(), Code::DiskFull);
    faults.room.store(-1, Ordering::SeqCst);
    // No client has seen that the session is over, so its lease may restart, or it ends now. Either is final
    // from here on.
    let first = session.execute(1, 1, add("n")).is_ok();
    assert_eq!(session.execute(1, 1, add("n")).is_ok(), first);
    assert_eq!(value(&db, "n"), i64::from(first));
}

#[test]
fn a_refusal_waits_for_what_it_rests_on() {
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().sweep_interval(None).files(files).memory().unwrap();
    open(&db, "s");
    let synced = faults.syncs.came();
    faults.syncs.hold();
    let close = SessionCommand::Close { session: name("s"), epoch: 0 };
    let close = db.submit(Transaction::new().step(close));
    faults.syncs.wait_for_more_than(synced);
    // Uses a command that is not gathered while the log syncs.
    let send = SessionCommand::Send { session: name("nobody"), payload: vec![] };
    let late = db.submit(request(1, add("n").step(send)));
    std::thread::sleep(Duration::from_millis(50));
    let done = (close.is_done(), late.is_done());
    faults.syncs.let_go();
    assert_eq!(done, (false, false));
    close.wait().unwrap();
    assert_eq!(late.wait().unwrap_err().kind(), ErrorKind::SessionExpired);
}

#[test]
fn that_another_session_is_gone_is_not_told_as_if_it_were_this_one() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let other = || {
        let acknowledge = SessionCommand::Acknowledge { session: name("gone"), upto: 1, epoch: 0 };
        add("n").step(acknowledge)
    };
    let error = session.execute(1, 1, other()).unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::NotFound, Some(1)));
    assert_eq!(session.execute(1, 1, other()).unwrap_err(), error);
    assert_eq!(sum(session.execute(2, 1, add("n"))), 1);
}

/// A command that may fail fails alone, in a session request and outside of one.
#[test]
fn that_another_session_is_gone_stops_no_command_beside() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let gone = || name("gone");
    let with_others = || {
        add("n")
            .attempt(SessionCommand::Acknowledge { session: gone(), upto: 1, epoch: 0 })
            .attempt(SessionCommand::Pending { session: gone(), after: 0, limit: 1, epoch: 0 })
            .step(SessionCommand::Send { session: name("s"), payload: vec![] })
    };
    let failures = |told: mainstay::Result<mainstay::Receipt>| {
        let answers = told.unwrap().answers;
        assert_eq!(answers.len(), 4);
        [1, 2].map(|place| match &answers[place] {
            mainstay::Answer::Failed(error) => error.code(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(failures(db.execute(with_others())), [Code::SessionExpired; 2]);
    let other = [Code::SessionNotFound; 2];
    assert_eq!(failures(session.execute(1, 1, with_others())), other, "its own session lives");
    assert_eq!(failures(session.execute(1, 1, with_others())), other, "as it was answered");
    assert_eq!((value(&db, "n"), session.pending(0, 9).unwrap().len()), (2, 2));
    // A command that must succeed stops the whole transaction.
    let must = || add("n").step(SessionCommand::Acknowledge { session: gone(), upto: 1, epoch: 0 });
    assert_eq!(db.execute(must()).unwrap_err().code(), Code::SessionExpired);
    assert_eq!(value(&db, "n"), 2);
}

#[test]
fn a_session_that_is_opened_over_an_expired_one_is_told_as_another() {
    let (db, clock) = memory();
    let mut feed = db.watch(Filter::default(), 0).unwrap();
    open(&db, "s");
    clock.advance(secs(61));
    assert!(open(&db, "s").is_new());
    db.sync().unwrap();
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        let event = feed.next(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(event.contract, Contract::Sessions);
        kinds.push(event.kind);
    }
    assert_eq!(kinds, [ChangeKind::Opened, ChangeKind::Expired, ChangeKind::Opened]);
    let figures = db.stats().sessions;
    assert_eq!((figures.opened, figures.expired, figures.live), (2, 1, 1));
}
