//! `append_event` and the stored form of events.

use super::{TestRuns, event, keyed};
use mainstay_model::{CONTRACT_VERSION, Instant, Value};
use std::collections::BTreeSet;

/// The first event creates its run, and the answer describes the stored event.
pub fn makes_a_run(s: &TestRuns<'_>) {
    let appended = s.append(event("r", "RunStarted"));
    assert!(appended.run_seq > 0, "{appended:?}");
    assert!(!appended.idempotent && appended.persisted && !appended.conflict, "{appended:?}");
    let stored = s.only("r");
    assert_eq!((stored.run_id.as_str(), stored.event_type.as_str()), ("r", "RunStarted"));
    assert_eq!((stored.run_seq, &stored.event_id), (appended.run_seq, &appended.event_id));
    assert_eq!(stored.persisted_at, Some(appended.persisted_at));
}

/// Sequence numbers rise.
pub fn sequences_rise(s: &TestRuns<'_>) {
    let seqs: Vec<u64> =
        (0..50).map(|n| s.append(keyed("r", &n.to_string(), "")).run_seq).collect();
    assert!(seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
}

/// Sequence numbers are 1, 2, 3 without gaps, despite repeated and refused events.
/// Requires: Contiguous.
pub fn sequences_have_no_gaps(s: &TestRuns<'_>) {
    for n in 1..=20 {
        assert_eq!(s.append(keyed("r", &n.to_string(), "")).run_seq, n);
        assert_eq!(s.append(keyed("r", &n.to_string(), "")).run_seq, n);
        s.invalid(s.append_event(mainstay_model::NewEvent::new("r", "StepStarted")));
    }
}

/// Runs with different names are independent, whatever characters the names contain.
pub fn runs_are_independent(s: &TestRuns<'_>) {
    let runs = ["r", "R", "r ", "r.1", "r/1", "r*", "r?", "[r]", "ré", "{r}", "%72", "r\n"];
    for (n, run) in runs.iter().enumerate() {
        s.append(keyed(run, "k", &n.to_string()));
    }
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(s.only(run).event_data, Value::from(n.to_string()), "{run}");
    }
}

/// Every field that a producer sets is stored unchanged.
pub fn what_is_said_survives(s: &TestRuns<'_>) {
    let emitted = Instant::parse("2026-02-11T09:30:00.250+01:00").unwrap();
    let mut said = event("r", "StepCompleted").step("load").attempt(3).signal("signal-1");
    said.event_data = Value::from_json(r#"{"rows": 42, "names": ["a", null]}"#).unwrap();
    said.event_id = Some("6f1c2a9e-6f0f-4f0e-9a39-0a8c6a4bb7d1".into());
    said.engine_attempt_id = Some("2".into());
    said.plan_id = Some("plan".into());
    said.emitted_at = Some(emitted.clone());
    said.adapter_version = Some("adapter-1".into());
    said.engine_run_ref = Some(Value::from_json(r#"{"workflowId": "w"}"#).unwrap());
    said.parent_event_id = Some("parent".into());
    let appended = s.append(said.clone());
    let key = said.key().unwrap();
    let stored = said.stored(appended.run_seq, String::new(), key, appended.persisted_at);
    assert_eq!(s.only("r"), stored);
    assert_eq!(stored.emitted_at.as_str(), emitted.as_str());
}

/// Missing event IDs and times are filled in, and every event ID is unique.
pub fn what_is_left_out_is_filled_in(s: &TestRuns<'_>) {
    for n in 0..20 {
        s.append(keyed("r", &n.to_string(), ""));
    }
    let events = s.events("r");
    let ids: BTreeSet<&str> = events.iter().map(|event| event.event_id.as_str()).collect();
    assert!(ids.len() == 20 && !ids.contains(""), "{ids:?}");
    for event in &events {
        assert_eq!(event.persisted_at.as_ref(), Some(&event.emitted_at));
        assert_eq!(event.contract_version, CONTRACT_VERSION);
    }
}

/// Fields unknown to this version are kept.
pub fn unknown_fields_are_kept(s: &TestRuns<'_>) {
    let mut said = event("r", "RunStarted");
    said.more.insert("colour".into(), Value::from("green"));
    said.more.insert("nested".into(), Value::from_json(r#"{"a": [1, {"b": null}]}"#).unwrap());
    s.append(said.clone());
    assert_eq!(s.only("r").more, said.more);
}

/// Event data of any JSON type round-trips.
pub fn values_survive(s: &TestRuns<'_>) {
    let texts = ["null", "true", "0", "-1.5", "9223372036854775807", r#""""#, r#""é\n""#];
    let nested = [r#"[]"#, r#"{}"#, r#"{"a": {"b": [1, [2, {"c": null}]]}}"#];
    for (n, text) in texts.iter().chain(&nested).enumerate() {
        let run = format!("r{n}");
        s.append(event(&run, "Tick").data(text));
        assert_eq!(s.only(&run).event_data, Value::from_json(text).unwrap(), "{text}");
    }
}
