//! Putting messages into the outbox.

use super::{claim, claimed, send};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{ChangeKind, Code, Contract, Filter, OutboxState, Value};

/// IDs rise, and a claim returns the complete message.
pub fn a_message_comes_whole(w: &mut TestDb) {
    let bytes: Vec<u8> = (0..=255).collect();
    let first = w.db().outbox().put("orders.done", bytes.clone(), Some("r")).unwrap();
    let written = w.wall_us();
    let second = send(w, "é", None);
    assert!(second > first);
    let messages = claim(w);
    assert_eq!((messages[0].id, messages[1].id), (first, second));
    assert_eq!((messages[0].subject.as_str(), &messages[0].payload), ("orders.done", &bytes));
    assert_eq!((messages[0].run.as_deref(), messages[1].run.as_deref()), (Some("r"), None));
    assert_eq!((messages[0].tries, messages[0].written), (1, written));
    assert_eq!(messages[0].failure, None);
}

/// The state counts pending and dead messages.
pub fn state_counts(w: &mut TestDb) {
    assert_eq!(w.db().outbox().state().unwrap(), OutboxState::default());
    let due = w.wall_us();
    send(w, "a", None);
    let last = send(w, "b", None);
    let state = w.db().outbox().state().unwrap();
    assert_eq!((state.pending, state.dead, state.last_id), (2, 0, last));
    assert!(state.oldest_due.is_some_and(|oldest| oldest <= due + 10), "{state:?}");
    claim(w);
    assert_eq!(w.db().outbox().state().unwrap().pending, 2, "under way is not delivered");
}

/// IDs are never reused, even after all messages are gone.
pub fn numbers_are_never_given_twice(w: &mut TestDb) {
    let first = send(w, "a", None);
    claim(w);
    assert_eq!(w.db().outbox().ack(&[first]).unwrap(), 1);
    assert!(send(w, "b", None) > first);
}

/// A message can name a run that does not exist.
pub fn the_run_need_not_be_there(w: &mut TestDb) {
    send(w, "a", Some("nobody"));
    assert!(w.runs().get("nobody").unwrap().is_none());
    assert_eq!(claimed(w), ["a"]);
}

/// A put produces a feed event.
pub fn in_the_feed(w: &mut TestDb) {
    let wanted = Filter { contract: Some(Contract::Outbox), ..Filter::default() };
    let mut feed = w.db().watch(wanted, w.db().revision()).unwrap();
    let id = w.db().outbox().put("s", "p", Some("r")).unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.key, event.kind, event.counter), (id.to_string(), ChangeKind::Set, id));
    let Some(Value::Object(value)) = event.value else { panic!("no message") };
    assert_eq!((&value["subject"], &value["run"]), (&"s".into(), &"r".into()));
    assert_eq!(value["payload"], Value::Bytes(b"p".to_vec()));
}

/// Bad input is refused, and nothing is written.
pub fn bad_input_is_refused(w: &mut TestDb) {
    let outbox = w.db().outbox();
    writes_nothing(w.db(), || {
        refused(outbox.put("", "", None), Code::InvalidArgument);
        refused(outbox.put("a\0b", "", None), Code::InvalidArgument);
        refused(outbox.put(&"s".repeat(1_025), "", None), Code::InvalidArgument);
        refused(outbox.put("s", "", Some("")), Code::InvalidName);
        refused(outbox.put("s", vec![0; (16 << 20) + 1], None), Code::ValueTooLarge);
    });
    outbox.put(&"s".repeat(1_024), "", None).unwrap();
}
