//! Server messages: sent by any transaction, in order, until they are acknowledged.

use super::*;
use mainstay::{
    Code, Demand, ErrorKind, LETTER_LIMIT_BYTES, MAILBOX_LIMIT, MAILBOX_LIMIT_BYTES,
    SessionCommand, Step,
};

fn send(session: &str, payload: &str) -> SessionCommand {
    SessionCommand::Send { session: name(session), payload: payload.as_bytes().to_vec() }
}

fn numbers(session: &Session) -> Vec<u64> {
    session.pending(0, 100_000).unwrap().into_iter().map(|(number, _)| number).collect()
}

#[test]
fn a_send_is_part_of_its_transaction() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let both = || Transaction::new().step(send("s", "a")).step(send("s", "b"));
    let failing = both().step(CellCommand::Incr { name: name("text"), by: 1.into() });
    db.cells().set("text", "x").unwrap();
    assert!(db.execute(failing).is_err());
    assert!(numbers(&session).is_empty());
    db.execute(both()).unwrap();
    assert_eq!(session.pending(0, 10).unwrap(), [(1, b"a".to_vec()), (2, b"b".to_vec())]);
}

#[test]
fn a_request_that_sends_does_so_once() {
    let (db, _) = memory();
    let a = open(&db, "a");
    let b = open(&db, "b");
    for _ in 0..3 {
        let both = Transaction::new().step(send("b", "x")).step(send("a", "to myself"));
        a.execute(1, 1, both).unwrap();
    }
    assert_eq!((numbers(&a), numbers(&b)), (vec![1], vec![1]));
}

#[test]
fn acknowledging_is_cumulative_and_numbers_are_never_given_again() {
    let (db, _) = memory();
    let session = open(&db, "s");
    for number in 1..=4 {
        assert_eq!(db.sessions().send("s", "x").unwrap(), Some(number));
    }
    assert_eq!(session.acknowledge(2).unwrap(), 2);
    assert_eq!(numbers(&session), [3, 4]);
    assert_eq!(session.acknowledge(1).unwrap(), 0);
    assert_eq!(session.acknowledge(u64::MAX).unwrap(), 2, "beyond the last is all");
    assert!(numbers(&session).is_empty());
    assert_eq!(db.sessions().send("s", "x").unwrap(), Some(5));
    let figures = db.stats().sessions;
    assert_eq!((figures.sent, figures.acknowledged, figures.pending), (5, 4, 1));
}

#[test]
fn sent_and_acknowledged_in_one_transaction() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let ack = |upto| SessionCommand::Acknowledge { session: name("s"), upto, epoch: 0 };
    db.execute(Transaction::new().step(send("s", "a")).step(send("s", "b")).step(ack(1))).unwrap();
    assert_eq!(numbers(&session), [2]);
    db.execute(Transaction::new().step(send("s", "c")).step(ack(3))).unwrap();
    assert!(numbers(&session).is_empty());
    assert_eq!(db.sessions().send("s", "d").unwrap(), Some(4));
    assert_eq!((numbers(&session), db.stats().sessions.pending), (vec![4], 1));
    let now = db.now_us().unwrap();
    let again = db.sessions().requests_for_retry(now + 1, 10).unwrap();
    assert_eq!(again, [(name("s"), 4, b"d".to_vec())]);
}

#[test]
fn what_is_sent_to_nobody_is_dropped_and_counted() {
    let (db, clock) = memory();
    assert_eq!(db.sessions().send("nobody", "x").unwrap(), None);
    open(&db, "s");
    clock.advance(secs(61));
    assert_eq!(db.sessions().send("s", "x").unwrap(), None, "its lease is over");
    assert_eq!(db.stats().sessions.dropped, 2);
    let must = Transaction::new().must(send("nobody", "x"));
    assert_eq!(db.execute(must).unwrap_err().code(), Code::MustFailed);
}

#[test]
fn only_what_is_strictly_older_is_retried_and_counts_as_sent_now() {
    let (db, clock) = memory();
    let a = open(&db, "a");
    let _b = open(&db, "b");
    clock.advance(secs(1));
    let first = db.execute(Transaction::new().step(send("a", "1"))).unwrap().stamp;
    clock.advance(secs(1));
    let second = db.execute(Transaction::new().step(send("b", "2"))).unwrap().stamp;
    let sessions = db.sessions();
    assert!(!sessions.has_pending(first).unwrap() && sessions.has_pending(first + 1).unwrap());
    assert!(sessions.requests_for_retry(first, 10).unwrap().is_empty());
    clock.advance(secs(1));
    let again = sessions.requests_for_retry(second, 10).unwrap();
    assert_eq!(again, [(name("a"), 1, b"1".to_vec())]);
    assert!(sessions.requests_for_retry(second, 10).unwrap().is_empty(), "it is marked");
    assert!(sessions.has_pending(second + 1).unwrap());
    let again = sessions.requests_for_retry(second + 1, 10).unwrap();
    assert_eq!(again, [(name("b"), 1, b"2".to_vec())]);
    assert!(!sessions.has_pending(second + 1).unwrap());
    clock.advance(secs(1));
    let now = db.now_us().unwrap();
    assert_eq!(sessions.requests_for_retry(now, 1).unwrap().len(), 1, "at most so many");
    a.acknowledge(1).unwrap();
    clock.advance(secs(1));
    let later = db.now_us().unwrap();
    let left: Vec<_> = sessions.requests_for_retry(later, 10).unwrap();
    assert_eq!(left, [(name("b"), 1, b"2".to_vec())]);
}

#[test]
fn a_mailbox_has_its_limits() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let error = db.sessions().send("s", vec![0; LETTER_LIMIT_BYTES + 1]).unwrap_err();
    assert_eq!(error.code(), Code::ValueTooLarge);
    let many = (0..MAILBOX_LIMIT).fold(Transaction::new(), |all, _| all.step(send("s", "x")));
    db.execute(many).unwrap();
    let error = db.sessions().send("s", "x").unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::MailboxFull, ErrorKind::TooLarge));
    // A transaction can choose not to fail because of a full mailbox.
    let attempt = Step { command: send("s", "x").into(), demand: Demand::Nothing };
    let mut transaction = add("n");
    transaction.steps.push(attempt);
    db.execute(transaction).unwrap();
    assert_eq!(value(&db, "n"), 1);
    session.acknowledge(MAILBOX_LIMIT as u64).unwrap();
    for _ in 0..MAILBOX_LIMIT_BYTES / LETTER_LIMIT_BYTES {
        db.sessions().send("s", vec![0; LETTER_LIMIT_BYTES]).unwrap();
    }
    assert_eq!(db.sessions().send("s", "x").unwrap_err().code(), Code::MailboxFull);
    session.acknowledge(MAILBOX_LIMIT as u64 + 1).unwrap();
    assert!(db.sessions().send("s", "x").unwrap().is_some(), "room was made");
}

#[test]
fn an_open_transaction_can_send() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let mut open = db.begin().unwrap();
    open.run(send("s", "a")).unwrap();
    assert!(numbers(&session).is_empty());
    open.commit().unwrap();
    assert_eq!(numbers(&session), [1]);
}
