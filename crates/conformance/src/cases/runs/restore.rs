//! Restoring archived events with their sequence numbers, event IDs and times.

use super::{all, is_whole, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{CanonicalEvent, Code, Value};

fn archived(w: &TestDb) -> Vec<CanonicalEvent> {
    w.runs().bootstrap("r", "about", vec![of_run("r", "RunStarted")]).unwrap();
    w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
    all(&w.runs(), "r")
}

/// A deleted run can be restored exactly.
pub fn a_deleted_run_comes_back(w: &mut TestDb) {
    let events = archived(w);
    let before = w.runs().snapshot("r").unwrap();
    w.runs().delete("r").unwrap();
    w.pass_ms(60_000);
    let restored = w.runs().restore("r", Some("about".into()), Some(77), events.clone()).unwrap();
    assert_eq!((restored, all(&w.runs(), "r")), (301, events));
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.created, info.metadata), (77, Some(Value::from("about"))));
    assert_eq!(w.runs().snapshot("r").unwrap(), before);
    is_whole(&w.runs(), "r");
    assert!(w.runs().append(note("r", 7)).unwrap().idempotent, "its keys are there");
    assert_eq!(w.runs().append(note("r", 301)).unwrap().run_seq, 302);
}

/// Events can be restored in parts and repeatedly, and existing ones are left alone.
pub fn in_pieces_and_again(w: &mut TestDb) {
    let events = archived(w);
    w.runs().delete("r").unwrap();
    for piece in events.chunks(100) {
        w.runs().restore("r", None, None, piece.to_vec()).unwrap();
    }
    assert_eq!(all(&w.runs(), "r"), events);
    let again =
        writes_nothing(w.db(), || w.runs().restore("r", None, None, events.clone()).unwrap());
    assert_eq!(again, 0);
    is_whole(&w.runs(), "r");
}

/// Gaps in the sequence, and events that differ from existing ones, are refused and write nothing.
pub fn what_does_not_fit_is_refused(w: &mut TestDb) {
    let events = archived(w);
    let changed = |change: &dyn Fn(&mut CanonicalEvent)| {
        let mut event = events[0].clone();
        change(&mut event);
        writes_nothing(w.db(), || w.runs().restore("r", None, None, vec![event]))
    };
    refused(changed(&|event| event.run_seq = 303), Code::InvalidArgument);
    refused(changed(&|event| event.idempotency_key = "else".into()), Code::RunExists);
    refused(changed(&|event| event.contract_version = "2.0".into()), Code::NewerFormat);
    let twice = CanonicalEvent { run_seq: 302, ..events[0].clone() };
    let twice = writes_nothing(w.db(), || w.runs().restore("r", None, None, vec![twice]));
    assert!(twice.is_err(), "one event per key");
}

/// Alerts of restored events are raised again, once.
pub fn alerts_come_back(w: &mut TestDb) {
    super::tell(w, "r", &["RunStarted", "RunApproved"]);
    let events = all(&w.runs(), "r");
    w.runs().delete("r").unwrap();
    w.runs().restore("r", None, None, events.clone()).unwrap();
    w.runs().restore("r", None, None, events).unwrap();
    assert_eq!(w.runs().alerts("r", 0, 9).unwrap().len(), 1);
    is_whole(&w.runs(), "r");
}
