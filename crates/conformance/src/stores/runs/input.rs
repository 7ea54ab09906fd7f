//! Input validation: invalid or oversized input is refused and writes nothing.

use super::{TestRuns, event, keyed};
use mainstay_model::{Code, ErrorKind, FetchOptions, Instant, NewEvent, Value, from_value};

/// Every operation refuses an invalid run name.
pub fn bad_names_are_refused(s: &TestRuns<'_>) {
    let long = "n".repeat(1_025);
    for bad in ["", "a\0b", "_mainstay/x", long.as_str()] {
        s.refused(s.append_event(keyed(bad, "k", "")), Code::InvalidName);
        s.refused(s.fetch_events(bad, FetchOptions::default()), Code::InvalidName);
        s.refused(s.get_snapshot(bad), Code::InvalidName);
        s.refused(s.project_snapshot(bad), Code::InvalidName);
        s.refused(s.get(bad), Code::InvalidName);
    }
}

/// A run name of the maximum length is accepted.
pub fn longest_names_are_taken(s: &TestRuns<'_>) {
    let run = "n".repeat(1_024);
    s.append(event(&run, "RunStarted"));
    assert_eq!(s.only(&run).run_id, run);
}

/// A step event without a step is refused.
pub fn step_event_without_a_step(s: &TestRuns<'_>) {
    s.invalid(s.append_event(event("r", "StepStarted")));
    s.invalid(s.append_event(event("r", "StepCorrected").step("")));
    s.invalid(s.append_event(event("r", "StepStarted").with_key("k")));
    s.is_unknown("r");
}

/// An event without a type is refused.
pub fn event_without_a_type(s: &TestRuns<'_>) {
    s.invalid(s.append_event(event("r", "")));
    s.is_unknown("r");
}

/// An empty idempotency key is refused.
pub fn empty_key(s: &TestRuns<'_>) {
    s.invalid(s.append_event(keyed("r", "", "")));
    s.is_unknown("r");
}

/// A malformed time is refused when the event is parsed, before it reaches a store.
pub fn malformed_time(s: &TestRuns<'_>) {
    for bad in ["noon", "", "2026-02-30T00:00:00Z", "2026-02-11"] {
        assert!(Instant::parse(bad).is_err(), "{bad}");
        let fields = [("runId", "r"), ("eventType", "RunStarted"), ("emittedAt", bad)];
        let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
        assert!(from_value::<NewEvent>(Value::Object(fields.into())).is_err(), "{bad}");
    }
    s.is_unknown("r");
}

/// Event data larger than the store's payload limit is refused.
pub fn payload_over_the_limit(s: &TestRuns<'_>) {
    let limit = s.can().payload_limit_bytes;
    s.append(event("r", "Tick").value("x".repeat(limit - 64)));
    let error = s.wait(s.append_event(event("r", "Tock").value("x".repeat(limit + 1))));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(s.only("r").event_type, "Tick");
}

/// Refused events change neither the log nor the snapshot nor the info.
pub fn nothing_is_left_of_what_was_refused(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    let before = (s.events("r"), s.ok(s.get_snapshot("r")), s.ok(s.get("r")));
    s.invalid(s.append_event(event("r", "StepStarted")));
    s.invalid(s.append_event(event("r", "StepStarted").step("a|b")));
    s.invalid(s.append_event(NewEvent::new("r", "RunPaused")));
    let after = (s.events("r"), s.ok(s.get_snapshot("r")), s.ok(s.get("r")));
    assert_eq!(before, after);
    assert!(s.append(event("r", "RunPaused")).persisted);
}
