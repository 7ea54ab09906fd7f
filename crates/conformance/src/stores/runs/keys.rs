//! Idempotency keys: derivation and validation.

use super::{TestRuns, event};
use mainstay_model::{EventKey, NewEvent, signal_key};

/// A missing key is derived from the event's fields.
pub fn made_by_the_formula(s: &TestRuns<'_>) {
    s.append(NewEvent::new("r", "StepCompleted").step("load").attempt(2).plan("7"));
    let key = EventKey::of("r", "StepCompleted", "7").step("load").attempt("2").hash().unwrap();
    assert_eq!(s.only("r").idempotency_key, key);
    s.append(event("r2", "RunStarted"));
    let key = EventKey::of("r2", "RunStarted", "1").hash().unwrap();
    assert_eq!(s.only("r2").idempotency_key, key);
}

/// An explicit key replaces the derived one.
pub fn own_one_wins(s: &TestRuns<'_>) {
    s.append(event("r", "RunPaused").signal("signal").with_key("mine|and mine alone"));
    assert_eq!(s.only("r").idempotency_key, "mine|and mine alone");
}

/// The plan ID is part of the derived key.
pub fn plan_id_is_part_of_it(s: &TestRuns<'_>) {
    let of = |plan_id: &str| NewEvent { plan_id: Some(plan_id.into()), ..event("r", "RunStarted") };
    assert!(s.append(of("a")).persisted && s.append(of("b")).persisted);
    assert!(s.append(of("a")).idempotent);
    assert!(s.append(event("r", "RunStarted")).persisted);
}

/// The attempt is part of the derived key.
pub fn attempts_are_events_of_their_own(s: &TestRuns<'_>) {
    let attempt = |n: u64| event("r", "StepStarted").step("a").attempt(n);
    assert!(s.append(attempt(1)).persisted && s.append(attempt(2)).persisted);
    assert!(s.append(attempt(2)).idempotent);
    assert_eq!(s.events("r").len(), 2);
}

/// A missing attempt has the same derived key as attempt 1, although the two events are not equal.
pub fn first_attempt_need_not_be_told(s: &TestRuns<'_>) {
    s.append(event("r", "StepStarted").step("a"));
    assert!(s.append(event("r", "StepStarted").step("a").attempt(1)).idempotent);
    assert_eq!(s.events("r").len(), 1);
}

/// Events caused by different signals have different keys; a repeated signal is deduplicated.
pub fn signals_have_keys_of_their_own(s: &TestRuns<'_>) {
    let pause = |signal: &str| NewEvent::new("r", "RunPaused").signal(signal);
    assert!(s.append(pause("a")).persisted && s.append(pause("b")).persisted);
    assert!(s.append(pause("a")).idempotent);
    let keys: Vec<String> = s.events("r").into_iter().map(|it| it.idempotency_key).collect();
    assert_eq!(keys, [signal_key("r", "a").unwrap(), signal_key("r", "b").unwrap()]);
}

/// The separator `|` is refused inside the parts of a derived key.
pub fn bar_inside_is_refused(s: &TestRuns<'_>) {
    let plan_id = NewEvent { plan_id: Some("p|q".into()), ..event("r", "RunStarted") };
    for bad in [
        event("r|s", "RunStarted"),
        event("r", "Run|Started"),
        event("r", "StepStarted").step("a|b"),
        event("r", "RunStarted").attempt("1|2"),
        NewEvent::new("r", "RunStarted").plan("1|2"),
        NewEvent::new("r", "RunPaused").signal("a|b"),
        plan_id,
    ] {
        s.invalid(s.append_event(bad));
    }
    s.is_unknown("r");
    s.is_unknown("r|s");
}

/// An event without a plan version, a signal or a key is refused, because no unique key can be derived.
pub fn nothing_to_go_by_is_refused(s: &TestRuns<'_>) {
    s.invalid(s.append_event(NewEvent::new("r", "RunStarted")));
    s.invalid(s.append_event(NewEvent::new("r", "StepStarted").step("a").attempt(1)));
    s.is_unknown("r");
}
