//! Compatibility of the event contract, tested with events written by other versions. The files must never
//! change: a change that cannot read them is a major one.

use mainstay_model::{
    CONTRACT_VERSION, CanonicalEvent, Code, Instant, Judgement, RunSnapshot, RunStatus, Value,
    from_value, reduce, to_value,
};

/// Written by the first version, which did not store its version yet.
const FIRST: &str = include_str!("fixtures/contract/event-1.0.json");
/// Written by a later minor version, with fields and a type that this version does not know.
const LATER: &str = include_str!("fixtures/contract/event-1.9.json");
/// Written by another major version.
const OTHER: &str = include_str!("fixtures/contract/event-2.0.json");

fn event(text: &str) -> CanonicalEvent {
    serde_json::from_str(text).unwrap()
}

/// The event after each storage round trip.
fn kept(event: &CanonicalEvent) -> [CanonicalEvent; 3] {
    let stored = event.persisted_at.clone().unwrap_or_else(|| Instant::of_us(0));
    let mut bytes = Vec::new();
    event.encode(&stored, &mut bytes).unwrap();
    let run = event.run_id.as_str();
    [
        self::event(&serde_json::to_string(event).unwrap()),
        from_value(to_value(event).unwrap()).unwrap(),
        CanonicalEvent::decode(&bytes, run, event.run_seq, stored.stamp_us()).unwrap(),
    ]
}

#[test]
fn an_event_of_the_first_version_is_read_and_written_again() {
    let event = event(FIRST);
    event.check().unwrap();
    assert_eq!((event.run_seq, event.contract_version.as_str()), (10, "1.0"));
    assert_eq!(event.engine_run_ref.as_ref().unwrap().to_json(), r#"{"workflowId":"w"}"#);
    assert!(event.more.is_empty(), "every field of it is known: {:?}", event.more);
    kept(&event).iter().for_each(|kept| assert_eq!(kept, &event));
    // Written again, the event has all its fields and now its contract version.
    let mut said: serde_json::Value = serde_json::from_str(FIRST).unwrap();
    said["contractVersion"] = "1.0".into();
    assert_eq!(serde_json::to_value(&event).unwrap(), said);
}

#[test]
fn a_later_minor_version_is_kept_as_it_came_and_passed_by() {
    let event = event(LATER);
    event.check().unwrap();
    assert_eq!(event.more["tenant"], Value::from("t"));
    assert_eq!(event.more.len(), 2, "{:?}", event.more);
    kept(&event).iter().for_each(|kept| assert_eq!(kept, &event));
    let said: serde_json::Value = serde_json::from_str(LATER).unwrap();
    assert_eq!(serde_json::to_value(&event).unwrap(), said, "its version and all it says");
    let mut snapshot = RunSnapshot::new("r1");
    assert!(!matches!(reduce(&mut snapshot, &event), Judgement::Illegal(_)));
    assert_eq!((snapshot.last_event_seq, snapshot.status), (11, RunStatus::Pending));
}

#[test]
fn another_major_version_is_refused_by_name() {
    for refused in [event(OTHER).check(), event(OTHER).check_version()] {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::NewerFormat);
        assert!(error.to_string().contains("2.0"), "{error}");
        assert!(error.to_string().contains(CONTRACT_VERSION), "{error}");
    }
    for version in ["0.9", "10.0", "", "one"] {
        let event = CanonicalEvent { contract_version: version.into(), ..event(FIRST) };
        assert_eq!(event.check().unwrap_err().code(), Code::NewerFormat, "{version}");
    }
}

#[test]
fn a_required_field_that_is_missing_and_a_malformed_time_are_refused() {
    for (from, to) in [
        (r#""runId": "r1","#, ""),
        (r#""eventType": "StepCompleted","#, ""),
        (r#""idempotencyKey": "abc123","#, ""),
        ("2026-02-11T10:00:00.000Z", "noon"),
    ] {
        assert!(FIRST.contains(from), "{from}");
        let text = FIRST.replacen(from, to, 1);
        assert!(serde_json::from_str::<CanonicalEvent>(&text).is_err(), "{text}");
    }
}
