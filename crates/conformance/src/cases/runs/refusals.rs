//! Input validation of events: invalid input is refused with a clear error and writes nothing.

use super::{all, note};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, NewEvent, Value};

/// An event needs a type, and every event whose type starts with `Step` needs a step.
pub fn events_say_what_happened(w: &mut TestDb) {
    let bad = [
        NewEvent::new("r", "").with_key("k"),
        NewEvent::new("r", "StepStarted").with_key("k"),
        NewEvent::new("r", "StepStarted").step("").with_key("k"),
        NewEvent::new("r", "StepUnheardOf").with_key("k"),
    ];
    for event in bad {
        refused(writes_nothing(w.db(), || w.runs().append(event)), Code::InvalidArgument);
    }
    assert!(w.runs().get("r").unwrap().is_none());
}

/// Run names follow the same rules as all names.
pub fn runs_are_named_alike(w: &mut TestDb) {
    for bad in ["", "a\0b", "_mainstay/x", &"n".repeat(1_025)] {
        refused(writes_nothing(w.db(), || w.runs().append(note(bad, 1))), Code::InvalidName);
        refused(w.runs().bootstrap(bad, 1, vec![]), Code::InvalidName);
        refused(w.runs().delete(bad), Code::InvalidName);
        refused(w.runs().get(bad), Code::InvalidName);
        refused(w.runs().fetch(bad, 0, 1), Code::InvalidName);
        refused(w.runs().tail(bad, 0).map(drop), Code::InvalidName);
    }
    let longest = "é".repeat(512);
    assert_eq!(w.runs().append(note(&longest, 1)).unwrap().run_seq, 1);
    assert!(w.runs().append(note(&longest, 1)).unwrap().idempotent);
}

/// Event data has the same size and depth limits as values.
pub fn payloads_have_limits(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let large = || Value::Bytes(vec![0; (16 << 20) + 1]);
    let event = note("r", 2).value(large());
    refused(writes_nothing(w.db(), || w.runs().append(event)), Code::ValueTooLarge);
    let deep = (0..200).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    refused(
        writes_nothing(w.db(), || w.runs().append(note("r", 2).value(deep))),
        Code::ValueTooDeep,
    );
    refused(
        writes_nothing(w.db(), || w.runs().bootstrap("s", large(), vec![])),
        Code::ValueTooLarge,
    );
    assert_eq!(all(&w.runs(), "r").len(), 1);
}

/// Other fields of an event have limits, too.
pub fn other_fields_have_limits(w: &mut TestDb) {
    let large = || Value::Bytes(vec![0; (16 << 20) + 1]);
    let mut reference = note("r", 1);
    reference.engine_run_ref = Some(large());
    let mut more = note("r", 1);
    more.more.insert("more".into(), large());
    for event in [reference, more] {
        refused(writes_nothing(w.db(), || w.runs().append(event)), Code::ValueTooLarge);
    }
    assert!(w.runs().get("r").unwrap().is_none());
}
