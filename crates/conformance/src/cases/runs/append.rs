//! `append`: adds an event to a run's log, deduplicated by its idempotency key.

use super::{all, is_whole, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Instant, NewEvent, RunStatus, Value};

/// The first event creates the run, and the answer contains its sequence number, event ID and time.
pub fn first_makes_the_run(w: &mut TestDb) {
    w.pass_ms(7);
    let answer = writes_once(w.db(), || w.runs().append(of_run("r", "RunStarted")).unwrap());
    assert_eq!((answer.run_seq, answer.idempotent), (1, false));
    assert_eq!((answer.persisted, answer.conflict), (true, false));
    assert_eq!(answer.persisted_at, Instant::of_us(w.wall_us()));
    let stored = all(&w.runs(), "r").remove(0);
    assert_eq!(
        (stored.event_id, stored.persisted_at),
        (answer.event_id, Some(answer.persisted_at))
    );
    let info = w.runs().get("r").unwrap().unwrap();
    assert_eq!((info.status, info.last_event_seq), (RunStatus::Running, 1));
    assert_eq!((info.created, info.updated), (w.wall_us(), w.wall_us()));
    assert_eq!((info.revision, info.metadata), (w.db().revision(), None));
}

/// Sequence numbers rise by one, and each append is a transaction.
pub fn sequences_rise_by_one(w: &mut TestDb) {
    for seq in 1..=20 {
        let answer = writes_once(w.db(), || w.runs().append(note("r", seq)).unwrap());
        assert_eq!(answer.run_seq, seq);
    }
    is_whole(&w.runs(), "r");
}

/// A repeated append writes nothing and returns the first result, marked as idempotent.
pub fn told_twice_is_one_event(w: &mut TestDb) {
    let first = w.runs().append(note("r", 1)).unwrap();
    w.runs().append(note("r", 2)).unwrap();
    w.pass_ms(5);
    let again = writes_nothing(w.db(), || w.runs().append(note("r", 1)).unwrap());
    assert_eq!((again.run_seq, again.idempotent), (1, true));
    assert_eq!((again.persisted, again.conflict), (false, false));
    assert_eq!((again.event_id, again.persisted_at), (first.event_id, first.persisted_at));
    assert_eq!(all(&w.runs(), "r").len(), 2);
}

/// The same key with another payload is reported as a conflict, and the first event stays.
pub fn another_payload_is_a_conflict(w: &mut TestDb) {
    let first = w.runs().append(note("r", 1)).unwrap();
    let other = note("r", 1).value("else");
    let again = writes_nothing(w.db(), || w.runs().append(other).unwrap());
    assert_eq!((again.run_seq, again.idempotent), (1, true));
    assert_eq!((again.persisted, again.conflict), (false, true));
    assert_eq!(again.event_id, first.event_id);
    assert_eq!(all(&w.runs(), "r")[0].event_data, Value::Int(1));
}

/// The same explicit key with another type or step is a conflict, too.
pub fn another_type_or_step_is_a_conflict(w: &mut TestDb) {
    w.runs().append(NewEvent::new("r", "StepStarted").step("a").with_key("k")).unwrap();
    for other in
        [NewEvent::new("r", "StepSkipped").step("a"), NewEvent::new("r", "StepStarted").step("b")]
    {
        assert!(w.runs().append(other.with_key("k")).unwrap().conflict);
    }
    let same = NewEvent::new("r", "StepStarted").step("a").with_key("k");
    assert!(!w.runs().append(same).unwrap().conflict);
}

/// A retry with another emission time, producer version or event ID is no conflict.
pub fn a_later_retry_is_no_conflict(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let mut again = note("r", 1);
    again.emitted_at = Some(Instant::parse("2030-01-01T00:00:00Z").unwrap());
    again.adapter_version = Some("2".into());
    again.engine_attempt_id = Some("7".into());
    again.event_id = Some("another".into());
    let answer = w.runs().append(again).unwrap();
    assert_eq!((answer.idempotent, answer.conflict), (true, false));
    assert_ne!(answer.event_id, "another");
}

/// Float payloads are compared bit by bit: NaN equals itself, and minus zero differs from zero.
pub fn payloads_compare_bit_by_bit(w: &mut TestDb) {
    let float = |key: &str, value: f64| note("r", 0).with_key(key).value(value);
    w.runs().append(float("nan", f64::NAN)).unwrap();
    w.runs().append(float("zero", 0.0)).unwrap();
    assert!(!w.runs().append(float("nan", f64::NAN)).unwrap().conflict);
    assert!(w.runs().append(float("zero", -0.0)).unwrap().conflict);
}

/// Keys are scoped to a run.
pub fn keys_belong_to_their_run(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    let other = w.runs().append(note("s", 1)).unwrap();
    assert_eq!((other.run_seq, other.persisted), (1, true));
}

/// `emitted_at` is stored exactly as the producer sent it; `persisted_at` is the engine's time.
pub fn emitted_is_the_producers(w: &mut TestDb) {
    let mut event = note("r", 1);
    event.emitted_at = Some(Instant::parse("2026-02-11T09:30:00.250+01:00").unwrap());
    w.runs().append(event).unwrap();
    w.runs().append(note("r", 2)).unwrap();
    let events = all(&w.runs(), "r");
    assert_eq!(events[0].emitted_at.as_str(), "2026-02-11T09:30:00.250+01:00");
    let stored = Instant::of_us(w.wall_us());
    assert_eq!((events[0].persisted_at.as_ref(), &events[1].emitted_at), (Some(&stored), &stored));
}

/// An event may bring its own event ID; others get a unique one.
pub fn event_ids_are_its_own(w: &mut TestDb) {
    let mut named = note("r", 1);
    named.event_id = Some("6f1c2a9e-6f0f-4f0e-9a39-0a8c6a4bb7d1".into());
    assert_eq!(w.runs().append(named).unwrap().event_id, "6f1c2a9e-6f0f-4f0e-9a39-0a8c6a4bb7d1");
    let batch = (2..50).map(|number| note("r", number)).collect();
    let ids = w.runs().append_batch(batch).unwrap().into_iter().map(|one| one.event_id);
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 48);
}

/// Every field round-trips, including unknown ones and the contract version.
pub fn every_field_comes_back(w: &mut TestDb) {
    let text = |text: &str| Some(text.to_owned());
    let mut event = NewEvent::new("r", "StepCompleted").step("s").attempt(3).plan("7");
    event.engine_attempt_id = text("e");
    event.plan_id = text("p");
    event.adapter_version = text("a");
    event.engine_run_ref = Some(Value::from("ref"));
    event.caused_by_signal_id = text("signal");
    event.parent_event_id = text("parent");
    event.more.insert("tenant".into(), Value::Array(vec![1.into(), Value::Null]));
    w.runs().append(event.clone()).unwrap();
    let stored = all(&w.runs(), "r").remove(0);
    assert_eq!(stored.contract_version, "1.0");
    assert_eq!((&stored.more, &stored.engine_run_ref), (&event.more, &event.engine_run_ref));
    let texts = |all: [Option<String>; 8]| all;
    assert_eq!(
        texts([
            stored.step_id,
            stored.logical_attempt_id,
            stored.plan_version,
            stored.engine_attempt_id,
            stored.plan_id,
            stored.adapter_version,
            stored.caused_by_signal_id,
            stored.parent_event_id,
        ]),
        texts([
            text("s"),
            text("3"),
            text("7"),
            text("e"),
            text("p"),
            text("a"),
            text("signal"),
            text("parent")
        ])
    );
}

/// Payloads can be values of any type; a missing payload is `Null`.
pub fn payloads_are_values(w: &mut TestDb) {
    let values = [
        Value::Null,
        true.into(),
        i64::MIN.into(),
        f64::NEG_INFINITY.into(),
        "é\0".into(),
        Value::Bytes(vec![0, 255]),
        Value::Array(vec![Value::Object([("a".to_owned(), Value::Null)].into())]),
    ];
    for (number, value) in values.iter().enumerate() {
        w.runs().append(note("r", number as u64).value(value.clone())).unwrap();
    }
    w.runs().append(NewEvent::new("r", "Noted").with_key("none")).unwrap();
    let stored: Vec<_> = all(&w.runs(), "r").into_iter().map(|event| event.event_data).collect();
    assert_eq!(stored[..7], values);
    assert_eq!(stored[7], Value::Null);
}

/// Runs, cells and records with the same name are independent, and so are runs with a common name
/// prefix.
pub fn runs_are_independent(w: &mut TestDb) {
    for run in ["r", "r/1", "r\u{1}", "rr"] {
        w.runs().append(note(run, 1)).unwrap();
        w.runs().append(note(run, 2)).unwrap();
    }
    w.cells().set("r", 1).unwrap();
    w.records().set_field("r", "a", "1").unwrap();
    w.runs().append(note("r", 3)).unwrap();
    assert_eq!((all(&w.runs(), "r").len(), all(&w.runs(), "r\u{1}").len()), (3, 2));
    assert_eq!(
        (w.cells().get("r").unwrap(), names(&w.cells(), "")),
        (int(1), vec!["r".to_owned()])
    );
    holds(&w.records(), "r", &[("a", "1")]);
}
