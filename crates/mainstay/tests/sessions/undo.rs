//! A write that fails on a full disk is undone: it is not visible, uses up no number, and can be repeated.

use super::machine::{Machine, make_sizes, sized};
use super::*;
use mainstay::{
    Answer, Code, Error, ErrorKind, Guard, Hold, SessionAnswer, SessionCommand, SessionInfo,
    SessionRequest, Ticket,
};
use seam::{Faults, FaultyFiles};
use std::sync::atomic::Ordering;

type Told = std::result::Result<Receipt, Error>;

/// Everything visible of sessions except the leases, which restart whenever sessions are loaded from storage.
#[derive(Debug, PartialEq)]
struct Picture {
    revision: u64,
    sum: i64,
    sessions: Vec<Seen>,
    figures: [u64; 4],
    pending: bool,
}

/// Everything visible of one session: its description, its answers, its pending messages.
type Seen = (SessionInfo, Vec<Told>, Letters);
type Letters = Vec<(u64, Vec<u8>)>;

fn picture(db: &Database) -> Picture {
    let revision = db.revision();
    let page = db.sessions().list(None, 100).unwrap();
    let sessions = page.sessions.into_iter().map(|info| picture_of(db, info)).collect();
    let figures = db.stats().sessions;
    let figures = [figures.live, figures.kept, figures.kept_bytes, figures.pending];
    let pending = db.sessions().has_pending(u64::MAX).unwrap();
    assert_eq!((db.revision(), value(db, "twice")), (revision, 0), "looking changes nothing");
    Picture { revision, sum: value(db, "n"), sessions, figures, pending }
}

fn picture_of(db: &Database, info: SessionInfo) -> Seen {
    let told = |id| {
        let request = SessionRequest::new(info.session.clone(), id, 0);
        db.execute(add("twice").in_session(request))
    };
    let answers = (1..info.next_request).map(told).collect();
    let letters = letters(db, &info.session);
    (SessionInfo { expires: 0, ..info }, answers, letters)
}

fn letters(db: &Database, session: &Name) -> Letters {
    let command =
        SessionCommand::Pending { session: session.clone(), after: 0, limit: 100, epoch: 0 };
    match &run(db, command).unwrap().answers[0] {
        Answer::Session(answer) => match &**answer {
            SessionAnswer::Pending { requests, .. } => requests.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns a database on a disk that can be full: one session with responses of all sizes and with messages,
/// one with few.
fn begin() -> (Machine, Arc<Faults>, Database) {
    let (files, faults) = FaultyFiles::new();
    let machine = Machine::with(files);
    let db = machine.open();
    make_sizes(&db, &[10, 300, 2_000]);
    let a = open(&db, "a");
    let b = open(&db, "b");
    for (id, bytes) in (1..).zip([10, 2_000, 300, 10, 2_000, 300, 10]) {
        a.execute(id, 1, sized(bytes)).unwrap();
        db.sessions().send("a", "x".repeat(bytes)).unwrap();
    }
    a.execute(8, 2, failing()).unwrap_err();
    a.acknowledge(2).unwrap();
    b.execute(1, 1, add("n")).unwrap();
    (machine, faults, db)
}

/// Returns a request whose answer is an error.
fn failing() -> Transaction {
    add("n").guard(Guard::Counter { name: name("never"), is: Some(1) })
}

fn run(db: &Database, command: SessionCommand) -> Told {
    db.execute(Transaction::new().step(command))
}

fn request(db: &Database, id: u64, lowest: u64, transaction: Transaction) -> Told {
    db.execute(transaction.in_session(SessionRequest::new(name("a"), id, lowest)))
}

fn send(to: &str) -> SessionCommand {
    SessionCommand::Send { session: name(to), payload: b"letter".to_vec() }
}

fn acknowledge(upto: u64) -> SessionCommand {
    SessionCommand::Acknowledge { session: name("a"), upto, epoch: 0 }
}

fn open_new(db: &Database) -> Told {
    run(db, SessionOptions::new().name("new").lease(secs(9)).command().unwrap())
}

fn close(db: &Database) -> Told {
    run(db, SessionCommand::Close { session: name("a"), epoch: 0 })
}

/// Evicts small and large responses. Some of their slots stay as spares, others are deleted.
fn keep_alive(db: &Database) -> Told {
    run(db, SessionCommand::KeepAlive { session: name("a"), lowest_pending: 7, epoch: 0 })
}

fn request_in_order(db: &Database) -> Told {
    request(db, 9, 7, sized(300))
}

fn request_beside_others(db: &Database) -> Told {
    request(db, 9, 0, add("n"))
}

fn request_that_fails(db: &Database) -> Told {
    request(db, 9, 6, failing())
}

fn request_with_letters(db: &Database) -> Told {
    let both = add("n").step(send("b")).step(send("a")).step(acknowledge(8));
    request(db, 9, 3, both)
}

fn send_to_both(db: &Database) -> Told {
    db.execute(add("n").step(send("a")).step(send("b")).step(send("a")))
}

fn acknowledge_some(db: &Database) -> Told {
    run(db, acknowledge(5))
}

fn acknowledge_all(db: &Database) -> Told {
    run(db, acknowledge(u64::MAX))
}

/// Another client takes the session over.
fn take(db: &Database) -> Told {
    let over = db.sessions().info("a").unwrap().unwrap().epoch;
    let session = name("a");
    let hold = Some(Hold { nonce: 7, over });
    run(db, SessionCommand::Open { session, lease_ms: None, capabilities: vec![], hold })
}

type Act = fn(&Database) -> Told;

const ACTS: [(&str, Act); 11] = [
    ("open", open_new),
    ("take", take),
    ("close", close),
    ("keep alive", keep_alive),
    ("request", request_in_order),
    ("request in a shared slot", request_beside_others),
    ("request that fails", request_that_fails),
    ("request with letters", request_with_letters),
    ("send", send_to_both),
    ("acknowledge some", acknowledge_some),
    ("acknowledge all", acknowledge_all),
];

/// Runs an action that fails. It must leave no visible effect, neither while the disk is full nor afterwards.
fn fail(db: &Database, faults: &Faults, what: &str, act: Act) {
    let before = picture(db);
    // SeqCst for all flags in this file: the simplest order, and tests need no speed.
    faults.room.store(0, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(act(db).unwrap_err().code(), Code::DiskFull, "{what}");
        assert_eq!(picture(db), before, "{what}: while the disk is full");
    }
    faults.room.store(-1, Ordering::SeqCst);
    assert_eq!(picture(db), before, "{what}: afterwards");
}

/// Returns the answer and the resulting state without any failure.
fn undisturbed(act: Act) -> (Told, Picture) {
    let (_machine, _, db) = begin();
    let told = act(&db);
    (told, picture(&db))
}

#[test]
fn what_a_full_disk_refused_has_not_happened_and_can_be_done_again() {
    for (what, act) in ACTS {
        let expected = undisturbed(act);
        let (machine, faults, db) = begin();
        fail(&db, &faults, what, act);
        // Revisions, timestamps and numbers are the same as without the failure.
        assert_eq!((act(&db), picture(&db)), expected, "{what}");
        drop(db);
        assert_eq!(picture(&machine.open()), expected.1, "{what}: opened again");
    }
}

#[test]
fn what_a_full_disk_refused_does_not_come_back_with_a_restart() {
    for (what, act) in ACTS {
        let expected = undisturbed(act);
        let (machine, faults, db) = begin();
        let before = picture(&db);
        fail(&db, &faults, what, act);
        drop(db);
        let db = machine.open();
        assert_eq!(picture(&db), before, "{what}: opened again");
        assert_eq!((act(&db), picture(&db)), expected, "{what}");
    }
}

#[test]
fn a_whole_group_is_taken_back_and_a_repeat_in_it_is_told_nothing() {
    let (machine, faults, db) = begin();
    let before = picture(&db);
    let requests = || {
        let of = |id, lowest, all: Transaction| {
            all.in_session(SessionRequest::new(name("a"), id, lowest))
        };
        let close = SessionCommand::Close { session: name("b"), epoch: 0 };
        [
            of(9, 0, add("n")),
            of(9, 0, add("n")),
            of(10, 9, sized(2_000).step(send("b"))),
            Transaction::new().step(close),
            of(11, 11, add("n").step(acknowledge(4)).step(send("a"))),
            of(10, 9, add("n")),
        ]
    };
    let came = faults.writes.came();
    faults.writes.hold();
    let first = db.submit(add("other"));
    faults.writes.wait_for_more_than(came);
    let tickets: Vec<Ticket> = requests().into_iter().map(|one| db.submit(one)).collect();
    faults.room.store(0, Ordering::SeqCst);
    faults.writes.let_go();
    assert_eq!(first.wait().unwrap_err().code(), Code::DiskFull);
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap_err().code(), Code::DiskFull);
    }
    faults.room.store(-1, Ordering::SeqCst);
    assert_eq!(picture(&db), before);
    let told = requests().map(|one| db.execute(one));
    assert!(told[..5].iter().all(|told| told.is_ok()), "{told:?}");
    let repeated = told.iter().flatten().map(|receipt| receipt.repeated).collect::<Vec<_>>();
    assert_eq!(repeated, [false, true, false, false, false]);
    let evicted = told[5].as_ref().unwrap_err().kind();
    assert_eq!((evicted, value(&db, "n")), (ErrorKind::ResponseEvicted, before.sum + 3));
    let after = picture(&db);
    drop(db);
    assert_eq!(picture(&machine.open()), after);
}

#[test]
fn leases_still_count_after_something_was_taken_back() {
    let (machine, faults, db) = begin();
    for (what, act) in ACTS {
        machine.clock.advance(secs(40));
        fail(&db, &faults, what, act);
        machine.clock.advance(secs(19));
        let words = |name: &str| {
            run(
                &db,
                SessionCommand::KeepAlive {
                    session: super::name(name),
                    lowest_pending: 0,
                    epoch: 0,
                },
            )
        };
        words("a").unwrap();
        words("b").unwrap();
    }
    // One client sends nothing while the disk is full.
    fail(&db, &faults, "send", send_to_both);
    machine.clock.advance(secs(59));
    run(&db, SessionCommand::KeepAlive { session: name("b"), lowest_pending: 0, epoch: 0 })
        .unwrap();
    machine.clock.advance(secs(2));
    assert!(db.sweep().unwrap() > 0, "the sweep is told when to come");
    assert_eq!(request(&db, 9, 0, add("n")).unwrap_err().kind(), ErrorKind::SessionExpired);
    let figures = db.stats().sessions;
    assert_eq!((figures.live, figures.kept, figures.pending), (1, 1, 0));
}

#[test]
fn who_has_nothing_to_do_with_it_keeps_lease_and_times_of_sending() {
    let (machine, faults, db) = begin();
    machine.clock.advance(secs(40));
    let sent = db.now_us().unwrap();
    assert_eq!(db.sessions().requests_for_retry(sent, 100).unwrap().len(), 5);
    faults.room.store(0, Ordering::SeqCst);
    assert_eq!(db.cells().set("other", 1).unwrap_err().code(), Code::DiskFull);
    faults.room.store(-1, Ordering::SeqCst);
    assert!(!db.sessions().has_pending(sent).unwrap(), "they were sent again a moment ago");
    machine.clock.advance(secs(21));
    assert!(db.sweep().unwrap() > 0, "nobody has spoken");
    assert_eq!(db.stats().sessions.live, 0);
}

#[test]
fn a_sweep_that_cannot_be_written_expires_nobody() {
    let (machine, faults, db) = begin();
    let before = picture(&db);
    machine.clock.advance(secs(61));
    faults.room.store(0, Ordering::SeqCst);
    assert_eq!(db.sweep().unwrap_err().code(), Code::DiskFull);
    assert_eq!(picture(&db), before, "nobody was told that they are gone: their leases begin anew");
    faults.room.store(-1, Ordering::SeqCst);
    assert_eq!(db.sweep().unwrap(), 0);
    machine.clock.advance(secs(61));
    assert!(db.sweep().unwrap() > 0);
    assert_eq!(db.stats().sessions.live, 0);
    drop(db);
    assert!(picture(&machine.open()).sessions.is_empty());
}
