//! `bootstrap`: creates a run with metadata and its first events, once.
//!
//! Requires: Bootstrap.

use super::{TestRuns, event, keyed};
use mainstay_model::{Code, NewEvent, Value};

fn metadata() -> Value {
    Value::from_json(r#"{"tenant": "t", "plan": [1, 2]}"#).unwrap()
}

/// The run has the metadata and the events.
pub fn makes_a_run_with_metadata(s: &TestRuns<'_>) {
    let events = vec![event("r", "RunApproved"), event("r", "RunStarted")];
    let answers = s.ok(s.bootstrap("r", metadata(), events));
    assert!(answers.iter().all(|answer| answer.persisted), "{answers:?}");
    let types: Vec<String> = s.events("r").into_iter().map(|event| event.event_type).collect();
    assert_eq!(types, ["RunApproved", "RunStarted"]);
    let info = s.ok(s.get("r")).unwrap();
    assert_eq!(info.metadata, Some(metadata()));
    assert_eq!(info.last_event_seq, answers[1].run_seq);
}

/// Bootstrapping an existing run is refused, whether it was created by bootstrap or by append.
pub fn where_there_is_one_is_refused(s: &TestRuns<'_>) {
    s.ok(s.bootstrap("a", metadata(), vec![event("a", "RunStarted")]));
    s.append(event("b", "RunStarted"));
    for run in ["a", "b"] {
        let again = s.bootstrap(run, Value::from("other"), vec![event(run, "RunApproved")]);
        s.refused(again, Code::RunExists);
        assert_eq!(s.only(run).event_type, "RunStarted");
    }
    assert_eq!(s.ok(s.get("a")).unwrap().metadata, Some(metadata()));
}

/// One invalid event aborts the bootstrap, and no run is created.
pub fn bad_event_makes_nothing(s: &TestRuns<'_>) {
    let bad = vec![event("r", "RunStarted"), NewEvent::new("r", "StepStarted").plan("1")];
    s.invalid(s.bootstrap("r", metadata(), bad));
    s.is_unknown("r");
    s.ok(s.bootstrap("r", metadata(), vec![event("r", "RunStarted")]));
}

/// The keys of the first events deduplicate later appends.
pub fn same_key_later_is_the_first(s: &TestRuns<'_>) {
    let answers = s.ok(s.bootstrap("r", Value::Null, vec![keyed("r", "k", "1")]));
    let again = s.append(keyed("r", "k", "1"));
    assert_eq!((again.run_seq, again.idempotent), (answers[0].run_seq, true));
}
