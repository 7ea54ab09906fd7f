//! Outbox messages attached to events: written only if the event is new.

use super::{all, append, note};
use crate::TestDb;
use crate::assertions::*;
use crate::cases::outbox::{claim, claimed};
use mainstay::{Code, NewEvent, RequestId, RunCommand, Transaction};

/// An event with a message of this subject, identified by its number.
fn telling(number: u64, subject: &str) -> NewEvent {
    note("r", number).message(subject, format!("of {number}"))
}

fn pending(w: &TestDb) -> u64 {
    w.db().outbox().state().unwrap().pending
}

/// An attached message belongs to the event's run and is delivered like any other message.
pub fn comes_with_a_new_event(w: &mut TestDb) {
    let told = writes_once(w.db(), || w.runs().append(telling(1, "first")).unwrap());
    assert!(told.persisted);
    w.runs().append(telling(2, "second")).unwrap();
    assert_eq!((all(&w.runs(), "r").len(), pending(w)), (2, 2));
    let messages = claim(w);
    assert_eq!(messages.len(), 1, "messages of one run keep their order");
    let message = &messages[0];
    assert_eq!((message.subject.as_str(), &message.payload[..]), ("first", &b"of 1"[..]));
    assert_eq!(message.run.as_deref(), Some("r"));
    assert_eq!(message.written, w.runs().get("r").unwrap().unwrap().created);
    w.db().outbox().ack(&[message.id]).unwrap();
    assert_eq!(claimed(w), ["second"]);
}

/// A repeated append writes neither the event nor its message, even if the message differs.
pub fn repeated_append_writes_neither(w: &mut TestDb) {
    w.runs().append(telling(1, "first")).unwrap();
    let again = writes_nothing(w.db(), || w.runs().append(telling(1, "first")).unwrap());
    assert!(again.idempotent && !again.conflict);
    let other = telling(1, "other").value("else");
    assert!(writes_nothing(w.db(), || w.runs().append(other).unwrap()).conflict);
    // The message is not part of the event, so another message is no conflict.
    assert!(!w.runs().append(telling(1, "other")).unwrap().conflict);
    assert_eq!((pending(w), claimed(w)), (1, vec!["first".to_owned()]));
}

/// A retried transaction leaves one event and one message.
pub fn retried_transaction(w: &mut TestDb) {
    let told = |n| Transaction::new().step(set("c", n)).step(append(telling(1, "first")));
    w.db().execute(told(1)).unwrap();
    w.db().execute(told(2)).unwrap();
    assert_eq!(w.cells().get("c").unwrap(), Some(2.into()));
    assert_eq!((all(&w.runs(), "r").len(), pending(w)), (1, 1));
    let named = || told(3).request(RequestId::new("once").unwrap());
    w.db().execute(named()).unwrap();
    assert!(w.db().execute(named()).unwrap().repeated);
    assert_eq!(pending(w), 1);
}

/// In a batch each new event has its own message, and a duplicate event has none.
pub fn in_one_batch(w: &mut TestDb) {
    w.runs().append(telling(1, "first")).unwrap();
    let events = vec![telling(1, "again"), telling(2, "second"), note("r", 3), telling(2, "twice")];
    let told = w.runs().append_batch(events).unwrap();
    let persisted: Vec<_> = told.iter().map(|one| one.persisted).collect();
    assert_eq!(persisted, [false, true, true, false]);
    let mut subjects = Vec::new();
    while let [message] = &claim(w)[..] {
        subjects.push(message.subject.clone());
        w.db().outbox().ack(&[message.id]).unwrap();
    }
    assert_eq!(subjects, ["first", "second"]);
}

/// A bootstrap writes the first events and their messages.
pub fn with_the_first_events(w: &mut TestDb) {
    let events = || vec![telling(1, "first"), note("r", 2), telling(3, "second")];
    writes_once(w.db(), || w.runs().bootstrap("r", 1, events()).unwrap());
    assert_eq!(pending(w), 2);
    refused(writes_nothing(w.db(), || w.runs().bootstrap("r", 1, events())), Code::RunExists);
    assert_eq!(pending(w), 2);
}

/// In an interactive transaction the event and its message are committed together or not at all.
pub fn in_an_open_transaction(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.run(append(telling(1, "first"))).unwrap();
    t.run(append(telling(1, "again"))).unwrap();
    assert_eq!(pending(w), 0);
    t.commit().unwrap();
    assert_eq!((all(&w.runs(), "r").len(), pending(w)), (1, 1));
    let mut t = w.db().begin().unwrap();
    t.run(append(telling(2, "second"))).unwrap();
    w.runs().append(telling(2, "faster")).unwrap();
    refused(t.commit(), Code::Conflict);
    assert_eq!((all(&w.runs(), "r").len(), pending(w)), (2, 2));
}

/// If the event is refused, so is its message, and vice versa.
pub fn refused_together(w: &mut TestDb) {
    for bad in [note("r", 1).message("", "x"), note("r", 1).message("a\0b", "x")] {
        refused(writes_nothing(w.db(), || w.runs().append(bad)), Code::InvalidArgument);
    }
    let event = Box::new(telling(1, "first"));
    let moved = RunCommand::Append { event, expected: Some(7) };
    let done = writes_nothing(w.db(), || w.db().execute(Transaction::new().step(moved)));
    refused(done.map(drop), Code::SequenceMoved);
    assert_eq!((w.runs().get("r").unwrap().is_none(), pending(w)), (true, 0));
}
