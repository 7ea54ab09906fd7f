//! Idempotency keys: repeated appends.

use super::{TestRuns, event, keyed};
use mainstay_model::{Appended, Instant, Value};

/// A repeated append writes nothing and returns the first result, marked as idempotent.
pub fn told_twice_is_one_event(s: &TestRuns<'_>) {
    let first = s.append(event("r", "RunStarted").data("1"));
    s.append(event("r", "RunPaused"));
    s.pass_ms(5);
    let again = s.append(event("r", "RunStarted").data("1"));
    let told_again = Appended { idempotent: true, persisted: false, ..first };
    assert_eq!(again, told_again);
    assert_eq!(s.events("r").len(), 2);
}

/// The same key with other data is reported as a conflict and writes nothing.
pub fn other_data_is_a_conflict(s: &TestRuns<'_>) {
    let first = s.append(keyed("r", "k", "one"));
    let other = s.append(keyed("r", "k", "two"));
    assert!(other.conflict && other.idempotent && !other.persisted, "{other:?}");
    assert_eq!((other.run_seq, &other.event_id), (first.run_seq, &first.event_id));
    assert!(!s.append(keyed("r", "k", "one")).conflict, "it says what the first one said");
}

/// The same key with another type, step or attempt is reported as a conflict.
pub fn other_type_is_a_conflict(s: &TestRuns<'_>) {
    s.append(event("r", "StepStarted").step("a").with_key("k"));
    for other in [
        event("r", "StepCompleted").step("a"),
        event("r", "StepStarted").step("b"),
        event("r", "StepStarted").step("a").attempt(2),
    ] {
        let answer = s.append(other.clone().with_key("k"));
        assert!(answer.conflict && !answer.persisted, "{other:?}");
    }
    assert_eq!(s.events("r").len(), 1);
}

/// A different emission time, event ID or producer version is no conflict, because a retry changes them.
pub fn when_and_by_whom_may_differ(s: &TestRuns<'_>) {
    s.append(keyed("r", "k", "one"));
    let mut again = keyed("r", "k", "one");
    again.emitted_at = Some(Instant::parse("2026-02-11T08:30:00Z").unwrap());
    again.event_id = Some("another".into());
    again.engine_attempt_id = Some("7".into());
    again.adapter_version = Some("2".into());
    let answer = s.append(again);
    assert!(answer.idempotent && !answer.conflict, "{answer:?}");
}

/// Later appends with the same key do not change the first event.
pub fn first_stays_as_it_was(s: &TestRuns<'_>) {
    s.append(keyed("r", "k", "one"));
    let stored = s.only("r");
    s.append(keyed("r", "k", "two"));
    s.append(keyed("r", "k", "one"));
    assert_eq!(s.only("r"), stored);
    assert_eq!(stored.event_data, Value::from("one"));
}

/// Keys are scoped to a run.
pub fn keys_are_of_a_run(s: &TestRuns<'_>) {
    assert!(s.append(keyed("r", "k", "one")).persisted);
    assert!(s.append(keyed("r2", "k", "two")).persisted);
    assert_eq!(s.only("r2").event_data, Value::from("two"));
}
