//! `restore`: writes archived events back unchanged.
//!
//! Requires: Restoring.

use super::{TestRuns, event, folded};
use mainstay_model::{CanonicalEvent, Code, Instant, NewEvent};

/// Archived events as a store of this kind writes them: with gaps in the sequence if the store allows
/// gaps.
fn archived(s: &TestRuns<'_>, run: &str) -> Vec<CanonicalEvent> {
    let types = ["RunStarted", "StepStarted", "StepCompleted", "Tick"];
    let seqs = if s.capabilities().contiguous { [1, 2, 3, 4] } else { [3, 4, 9, 10] };
    let one = |(seq, event_type): (u64, &str)| {
        let event = NewEvent::new(run, event_type).plan("1").data(r#"{"n": 1}"#);
        let event = if event_type.starts_with("Step") { event.step("s") } else { event };
        let key = event.key().unwrap();
        let stored = Instant::of_us(seq * 1_000_000_000);
        event.stored(seq, format!("event-{seq}"), key, stored)
    };
    seqs.into_iter().zip(types).map(one).collect()
}

/// Sequence numbers, event IDs, keys, times and the snapshot are restored.
pub fn events_are_as_they_were(s: &TestRuns<'_>) {
    let mut events = archived(s, "r");
    events[3].more.insert("colour".into(), "green".into());
    s.ok(s.restore(events.clone()));
    assert_eq!(s.events("r"), events);
    assert_eq!(s.ok(s.get_snapshot("r")), Some(folded("r", &events)));
    assert_eq!(s.ok(s.get("r")).unwrap().last_event_seq, events[3].run_seq);
}

/// Existing events are left alone, so repeated and partial restores give the same result.
pub fn there_already_is_left_alone(s: &TestRuns<'_>) {
    let events = archived(s, "r");
    s.ok(s.restore(events[..2].to_vec()));
    s.ok(s.restore(events.clone()));
    s.ok(s.restore(events.clone()));
    assert_eq!(s.events("r"), events);
}

/// After a restore, sequence numbers continue after the last event.
pub fn appends_go_on_behind(s: &TestRuns<'_>) {
    let events = archived(s, "r");
    s.ok(s.restore(events.clone()));
    assert!(s.append(event("r", "RunCompleted")).run_seq > events[3].run_seq);
    assert_eq!(s.events("r").len(), 5);
}

/// Restored keys deduplicate later appends.
pub fn keys_are_known(s: &TestRuns<'_>) {
    let events = archived(s, "r");
    s.ok(s.restore(events.clone()));
    let again = s.append(event("r", "RunStarted").data(r#"{"n": 1}"#));
    assert!(again.idempotent && !again.conflict, "{again:?}");
    assert_eq!(
        (again.run_seq, again.event_id.as_str()),
        (events[0].run_seq, events[0].event_id.as_str())
    );
    assert!(s.append(event("r", "RunStarted").data("2")).conflict);
}

/// A deleted run can be restored.
/// Requires: Deletion.
pub fn deleted_run_comes_back(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    s.append(event("r", "RunCompleted"));
    let events = s.events("r");
    s.ok(s.delete_run("r"));
    s.ok(s.restore(events.clone()));
    assert_eq!(s.events("r"), events);
    assert!(s.append(event("r", "Tick")).persisted);
}

/// An event of another major contract version is refused, because its meaning may differ.
pub fn of_another_contract_is_refused(s: &TestRuns<'_>) {
    let mut events = archived(s, "r");
    events[2].contract_version = "2.0".into();
    s.refused(s.restore(events), Code::NewerFormat);
    s.is_unknown("r");
}
