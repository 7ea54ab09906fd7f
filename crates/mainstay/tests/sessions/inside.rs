//! Server messages that are sent and acknowledged inside open transactions, and inside requests of the same
//! or another session.

use super::machine::Machine;
use super::*;
use mainstay::{
    Answer, Code, Command, ErrorKind, Guard, MemoryFiles, SessionAnswer, SessionCommand,
    SessionRequest,
};

fn send(to: &str, payload: &str) -> SessionCommand {
    SessionCommand::Send { session: name(to), payload: payload.as_bytes().to_vec() }
}

fn acknowledge(session: &str, upto: u64) -> SessionCommand {
    SessionCommand::Acknowledge { session: name(session), upto, epoch: 0 }
}

/// Returns the pending messages of a client, as text.
fn letters(session: &Session) -> Vec<(u64, String)> {
    session
        .pending(0, 100)
        .unwrap()
        .into_iter()
        .map(|(number, payload)| (number, String::from_utf8(payload).unwrap()))
        .collect()
}

fn letter(number: u64, payload: &str) -> (u64, String) {
    (number, payload.to_owned())
}

fn sent(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Session(answer) => match &**answer {
            SessionAnswer::Sent(number) => *number,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_open_transaction_sees_its_own_letters_and_nobody_else_does() {
    let (db, _) = memory();
    let session = open(&db, "s");
    db.sessions().send("s", "old").unwrap();
    let mut own = db.begin().unwrap();
    assert_eq!(sent(&own.run(send("s", "a")).unwrap()), Some(2));
    assert_eq!(sent(&own.run(send("s", "b")).unwrap()), Some(3));
    assert_eq!(own.run(acknowledge("s", 2)).unwrap(), Answer::Count(2));
    assert_eq!(own.run(acknowledge("s", 2)).unwrap(), Answer::Count(0));
    own.incr("n", 1).unwrap();
    assert_eq!((letters(&session), value(&db, "n")), (vec![letter(1, "old")], 0));
    let receipt = own.commit().unwrap();
    let numbers: Vec<_> = receipt.answers[..2].iter().map(sent).collect();
    assert_eq!((numbers, &receipt.answers[2]), (vec![Some(2), Some(3)], &Answer::Count(2)));
    assert_eq!((letters(&session), value(&db, "n")), (vec![letter(3, "b")], 1));
    let figures = db.stats().sessions;
    assert_eq!((figures.sent, figures.acknowledged, figures.pending), (3, 2, 1));
}

#[test]
fn one_that_is_given_up_has_sent_and_acknowledged_nothing() {
    let (db, _) = memory();
    let session = open(&db, "s");
    db.sessions().send("s", "old").unwrap();
    let mut own = db.begin().unwrap();
    own.run(send("s", "a")).unwrap();
    own.run(acknowledge("s", u64::MAX)).unwrap();
    own.rollback();
    assert_eq!(letters(&session), [letter(1, "old")]);
    // A transaction that conflicts must not send anything either.
    let mut own = db.begin().unwrap();
    own.get("n").unwrap();
    own.run(send("s", "a")).unwrap();
    own.run(acknowledge("s", u64::MAX)).unwrap();
    db.execute(add("n")).unwrap();
    assert_eq!(own.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(letters(&session), [letter(1, "old")]);
    assert_eq!(db.sessions().send("s", "new").unwrap(), Some(2), "no number is used up");
}

#[test]
fn numbers_come_with_the_commit_and_senders_do_not_conflict() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let mut a = db.begin().unwrap();
    let mut b = db.begin().unwrap();
    // Both get the same provisional number.
    assert_eq!(sent(&a.run(send("s", "a")).unwrap()), Some(1));
    assert_eq!(sent(&b.run(send("s", "b")).unwrap()), Some(1));
    assert_eq!(db.sessions().send("s", "first").unwrap(), Some(1));
    assert_eq!(sent(&b.commit().unwrap().answers[0]), Some(2));
    session.acknowledge(1).unwrap();
    assert_eq!(sent(&a.commit().unwrap().answers[0]), Some(3));
    assert_eq!(letters(&session), [letter(2, "b"), letter(3, "a")]);
}

#[test]
fn a_session_that_ends_meanwhile_gets_nothing_and_acknowledges_nothing() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let mut sender = db.begin().unwrap();
    sender.set("sent", 1).unwrap();
    assert_eq!(sent(&sender.run(send("s", "a")).unwrap()), Some(1));
    let mut reader = db.begin().unwrap();
    reader.set("read", 1).unwrap();
    assert_eq!(reader.run(acknowledge("s", 9)).unwrap(), Answer::Count(0));
    session.close().unwrap();
    let receipt = sender.commit().unwrap();
    assert_eq!((sent(&receipt.answers[1]), value(&db, "sent")), (None, 1));
    let error = reader.commit().unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::SessionExpired, Some(1)));
    assert_eq!(value(&db, "read"), 0, "all or nothing");
    let anew = open(&db, "s");
    assert!(letters(&anew).is_empty());
    assert_eq!(db.sessions().send("s", "b").unwrap(), Some(1), "that one was never sent");
}

#[test]
fn an_open_transaction_finds_no_session_whose_lease_is_over() {
    let (db, clock) = memory();
    open(&db, "s");
    clock.advance(secs(61));
    let mut own = db.begin().unwrap();
    assert_eq!(sent(&own.run(send("s", "a")).unwrap()), None);
    assert_eq!(own.run(acknowledge("s", 1)).unwrap_err().kind(), ErrorKind::SessionExpired);
    assert_eq!(sent(&own.commit().unwrap().answers[0]), None);
    assert_eq!(db.stats().sessions.dropped, 1);
    assert!(open(&db, "s").is_new());
}

#[test]
fn other_commands_on_sessions_stand_in_no_open_transaction() {
    let (db, _) = memory();
    open(&db, "s");
    let session = || name("s");
    let mut own = db.begin().unwrap();
    let opening = SessionOptions::new().name("new").command().unwrap();
    for command in [
        opening,
        SessionCommand::Close { session: session(), epoch: 0 },
        SessionCommand::KeepAlive { session: session(), lowest_pending: 1, epoch: 0 },
        SessionCommand::Retry { sent_before: 1, limit: 1 },
        SessionCommand::Info { session: session() },
        SessionCommand::List { after: None, limit: 1 },
        SessionCommand::Pending { session: session(), after: 0, limit: 1, epoch: 0 },
        SessionCommand::HasPending { sent_before: 1 },
    ] {
        let error = own.run(command.clone()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{command:?}");
    }
    // The transaction is still open.
    own.run(send("s", "a")).unwrap();
    own.commit().unwrap();
    assert_eq!(db.stats().sessions.pending, 1);
}

/// Each request sends to both sessions and acknowledges for one.
fn exchange(db: &Database, of: &str, id: u64, acknowledges: &str, upto: u64) -> Receipt {
    let text = format!("{of}{id}");
    let steps = add("n").step(acknowledge(acknowledges, upto));
    let steps = steps.step(send("a", &text)).step(send("b", &text));
    db.execute(steps.in_session(SessionRequest::new(name(of), id, 0))).unwrap()
}

#[test]
fn requests_acknowledge_and_send_once_in_their_own_session_and_in_another() {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let mut db = machine.open();
    open(&db, "a");
    open(&db, "b");
    let work = [("a", 1, "a", 0), ("a", 2, "a", 1), ("b", 1, "a", 2), ("a", 3, "b", 2)];
    let first = work.map(|(of, id, whose, upto)| exchange(&db, of, id, whose, upto));
    let counts = first.iter().map(|receipt| receipt.answers[1].clone());
    assert!(counts.eq([0, 1, 1, 2].map(Answer::Count)));
    for round in 0..3 {
        let a = open(&db, "a");
        let b = open(&db, "b");
        assert_eq!(letters(&a), [letter(3, "b1"), letter(4, "a3")]);
        assert_eq!(letters(&b), [letter(3, "b1"), letter(4, "a3")]);
        for ((of, id, whose, upto), first) in work.into_iter().zip(&first) {
            let again = exchange(&db, of, id, whose, upto);
            assert_eq!(again, Receipt { repeated: true, ..first.clone() }, "{of}{id}");
        }
        let figures = db.stats().sessions;
        assert_eq!((figures.pending, figures.kept, value(&db, "n")), (4, 4, 4), "round {round}");
        if round == 1 {
            db.trim().unwrap();
        }
        drop((a, b, db));
        db = machine.open();
    }
}

#[test]
fn a_request_that_fails_has_sent_and_acknowledged_nothing() {
    let (db, _) = memory();
    let a = open(&db, "a");
    let b = open(&db, "b");
    db.sessions().send("a", "old").unwrap();
    db.sessions().send("b", "old").unwrap();
    db.cells().set("text", "x").unwrap();
    let fails = || {
        let steps = Transaction::new().step(acknowledge("a", 1)).step(acknowledge("b", 1));
        let steps = steps.step(send("a", "new")).step(send("b", "new"));
        steps.step(CellCommand::Incr { name: name("text"), by: 1.into() })
    };
    let error = a.execute(1, 1, fails()).unwrap_err();
    assert_eq!((error.code(), error.position()), (Code::NotANumber, Some(4)));
    assert_eq!(a.execute(1, 1, fails()).unwrap_err(), error);
    assert_eq!((letters(&a), letters(&b)), (vec![letter(1, "old")], vec![letter(1, "old")]));
}

#[test]
fn an_open_transaction_becomes_a_request() {
    let (db, _) = memory();
    let session = open(&db, "s");
    let other = open(&db, "other");
    let prepare = || {
        let mut own = db.begin().unwrap();
        own.get("seen").unwrap();
        own.incr("n", 1).unwrap();
        own.run(send("other", "a")).unwrap();
        own.into_transaction().unwrap()
    };
    let first = prepare();
    let second = prepare();
    let receipt = session.execute(1, 1, first.clone()).unwrap();
    let again = session.execute(1, 1, first).unwrap();
    assert_eq!(again, Receipt { repeated: true, ..receipt });
    db.cells().set("seen", 1).unwrap();
    // A value that it read has changed since. The conflict is its final answer.
    let error = session.execute(2, 1, second.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    db.cells().delete("seen").unwrap();
    assert_eq!(session.execute(2, 1, second).unwrap_err(), error);
    assert_eq!((value(&db, "n"), letters(&other)), (1, vec![letter(1, "a")]));
}

/// A session that was reported as gone must not be alive after a restart, whichever command reported it.
fn told_of_an_end(tell: impl Fn(&Database) -> mainstay::Error) {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let db = machine.open();
    open(&db, "s");
    machine.clock.advance(secs(61));
    assert_eq!(tell(&db).kind(), ErrorKind::SessionExpired);
    drop(db);
    assert_eq!(machine.open().sessions().info("s").unwrap(), None);
}

#[test]
fn the_end_of_a_session_that_a_step_met_is_one_for_good() {
    told_of_an_end(|db| db.execute(add("n").step(acknowledge("s", 1))).unwrap_err());
}

#[test]
fn the_end_of_a_session_that_was_met_otherwise_is_one_for_good() {
    told_of_an_end(|db| {
        let mut transaction = add("n").guard(Guard::Counter { name: name("n"), is: Some(9) });
        transaction.otherwise = Some(vec![Command::from(acknowledge("s", 1)).into()]);
        db.execute(transaction).unwrap_err()
    });
}

#[test]
fn the_end_of_a_session_that_an_open_transaction_met_is_one_for_good() {
    told_of_an_end(|db| db.begin().unwrap().run(acknowledge("s", 1)).unwrap_err());
}
