//! The built-in reducer: the state machine of runs and steps.

use super::{is_whole, status, step_status, tell};
use crate::TestDb;
use mainstay::{NewEvent, RunStatus, RunStatus::*, StepStatus};

/// Each state of a run, and events that lead to it.
const WAYS: [(RunStatus, &[&str]); 7] = [
    (Pending, &[]),
    (Approved, &["RunApproved"]),
    (Running, &["RunStarted"]),
    (Paused, &["RunStarted", "RunPaused"]),
    (Completed, &["RunStarted", "RunCompleted"]),
    (Failed, &["RunStarted", "RunFailed"]),
    (Cancelled, &["RunStarted", "RunCancelled"]),
];

/// Each event, the states in which it is legal, and the state that it leads to.
const RUN_EVENTS: [(&str, &[RunStatus], RunStatus); 7] = [
    ("RunApproved", &[Pending], Approved),
    ("RunStarted", &[Pending, Approved], Running),
    ("RunPaused", &[Running], Paused),
    ("RunResumed", &[Paused], Running),
    ("RunCompleted", &[Running], Completed),
    ("RunFailed", &[Pending, Approved, Running, Paused], Failed),
    ("RunCancelled", &[Pending, Approved, Running, Paused], Cancelled),
];

/// The same for steps.
const STEP_WAYS: [(StepStatus, &[&str]); 5] = [
    (StepStatus::Pending, &[]),
    (StepStatus::Running, &["StepStarted"]),
    (StepStatus::Success, &["StepStarted", "StepCompleted"]),
    (StepStatus::Failed, &["StepStarted", "StepFailed"]),
    (StepStatus::Skipped, &["StepSkipped"]),
];

const STEP_EVENTS: [(&str, StepStatus, StepStatus); 5] = [
    ("StepStarted", StepStatus::Pending, StepStatus::Running),
    ("StepCompleted", StepStatus::Running, StepStatus::Success),
    ("StepFailed", StepStatus::Running, StepStatus::Failed),
    ("StepSkipped", StepStatus::Pending, StepStatus::Skipped),
    ("StepRetried", StepStatus::Failed, StepStatus::Pending),
];

/// Every event in every state of a run: a legal one changes the state, an illegal one only sets the
/// mark.
pub fn every_transition_of_a_run(w: &mut TestDb) {
    w.configure(|options| options.durability(mainstay::Durability::Memory));
    for (place, (from, way)) in WAYS.iter().enumerate() {
        for (event, legal, becomes) in RUN_EVENTS {
            let run = format!("{place}-{event}");
            if way.is_empty() {
                w.runs().bootstrap(&run, 1, vec![]).unwrap();
            }
            tell(w, &run, way);
            assert_eq!(status(w, &run), *from);
            tell(w, &run, &[event]);
            let expected = if legal.contains(from) { (becomes, false) } else { (*from, true) };
            let seen = w.runs().snapshot(&run).unwrap().unwrap();
            assert_eq!((seen.status, seen.is_inconsistent()), expected, "{from:?}, {event}");
            is_whole(&w.runs(), &run);
        }
    }
}

/// Every event in every state of a step, in a running run.
pub fn every_transition_of_a_step(w: &mut TestDb) {
    w.configure(|options| options.durability(mainstay::Durability::Memory));
    for (place, (from, way)) in STEP_WAYS.iter().enumerate() {
        for (event, legal, becomes) in STEP_EVENTS {
            let run = format!("{place}-{event}");
            tell(w, &run, &["RunStarted"]);
            tell(w, &run, way);
            assert_eq!(step_status(w, &run), *from);
            tell(w, &run, &[event]);
            let expected = if legal == *from { (becomes, false) } else { (*from, true) };
            let seen = w.runs().snapshot(&run).unwrap().unwrap();
            assert_eq!(
                (step_status(w, &run), seen.is_inconsistent()),
                expected,
                "{from:?}, {event}"
            );
            is_whole(&w.runs(), &run);
        }
    }
}

/// After a run has ended, no event of the run or its steps is legal.
pub fn nothing_follows_the_end(w: &mut TestDb) {
    for end in ["RunCompleted", "RunFailed", "RunCancelled"] {
        tell(w, end, &["RunStarted", "StepStarted", end]);
        let before = w.runs().snapshot(end).unwrap().unwrap();
        let steps = STEP_EVENTS.iter().map(|(event, _, _)| *event);
        let all: Vec<&str> = RUN_EVENTS.iter().map(|(event, _, _)| *event).chain(steps).collect();
        tell(w, end, &all);
        let after = w.runs().snapshot(end).unwrap().unwrap();
        assert_eq!((after.status, &after.steps), (before.status, &before.steps));
        assert_eq!(w.runs().alerts(end, 0, 99).unwrap().len(), all.len());
    }
}

/// A failed attempt is immutable: later events apply to the next attempt or are illegal.
pub fn failed_attempt_is_immutable(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "StepStarted", "StepFailed"]);
    let failed =
        |w: &TestDb| w.runs().snapshot("r").unwrap().unwrap().steps["s"].attempts[0].clone();
    let before = failed(w);
    let later = ["StepCompleted", "StepRetried", "StepStarted", "StepFailed", "StepRetried"];
    for event in later {
        tell(w, "r", &[event]);
        assert_eq!(failed(w), before, "{event}");
    }
    let step = w.runs().snapshot("r").unwrap().unwrap().steps.remove("s").unwrap();
    let statuses: Vec<_> = step.attempts.iter().map(|attempt| attempt.status).collect();
    use StepStatus::{Failed, Pending};
    assert_eq!(statuses, [Failed, Failed, Pending]);
    assert_eq!(w.runs().alerts("r", 0, 9).unwrap().len(), 1, "completing what had failed");
}

/// An event of the step `s` with an optional attempt.
fn of_attempt(kind: &str, attempt: Option<&str>, key: &str) -> NewEvent {
    let event = NewEvent::new("r", kind).step("s").with_key(key);
    attempt.into_iter().fold(event, |event, attempt| event.attempt(attempt))
}

/// An event applies to its attempt. An event of a closed attempt is illegal and raises one alert.
pub fn late_event_of_a_closed_attempt(w: &mut TestDb) {
    let first = Some("1");
    let second = Some("2");
    tell(w, "r", &["RunStarted"]);
    for (kind, attempt) in [
        ("StepStarted", first),
        ("StepFailed", first),
        ("StepRetried", second),
        ("StepStarted", second),
        ("StepCompleted", first),
    ] {
        w.runs().append(of_attempt(kind, attempt, &format!("{kind} {attempt:?}"))).unwrap();
    }
    assert_eq!(step_status(w, "r"), StepStatus::Running);
    let late = of_attempt("StepCompleted", first, r#"StepCompleted Some("1")"#);
    assert!(w.runs().append(late).unwrap().idempotent, "told again");
    assert!(w.runs().append(of_attempt("StepCompleted", second, "end")).unwrap().persisted);
    assert_eq!(step_status(w, "r"), StepStatus::Success);
    let snapshot = w.runs().snapshot("r").unwrap().unwrap();
    let attempts = snapshot.steps["s"].attempts.iter();
    let ends: Vec<_> = attempts.map(|attempt| (attempt.status, attempt.ended_seq)).collect();
    assert_eq!(ends, [(StepStatus::Failed, Some(3)), (StepStatus::Success, Some(7))]);
    assert!(snapshot.is_inconsistent());
    let alerts = w.runs().alerts("r", 0, 9).unwrap();
    assert_eq!(alerts.iter().map(|alert| alert.run_seq).collect::<Vec<_>>(), [6]);
    is_whole(&w.runs(), "r");
}

/// An event of an attempt that is not open yet is illegal.
pub fn event_of_an_attempt_to_come(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "StepStarted"]);
    w.runs().append(of_attempt("StepCompleted", Some("2"), "early")).unwrap();
    assert_eq!(step_status(w, "r"), StepStatus::Running);
    w.runs().append(of_attempt("StepFailed", Some("1"), "failed")).unwrap();
    w.runs().append(of_attempt("StepRetried", Some("3"), "too far")).unwrap();
    assert_eq!(step_status(w, "r"), StepStatus::Failed);
    assert_eq!(w.runs().alerts("r", 0, 9).unwrap().len(), 2);
    is_whole(&w.runs(), "r");
}

/// An event without an attempt applies to the newest one. Once attempts are opened by name, it applies
/// to the first.
pub fn event_without_an_attempt(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "StepStarted", "StepFailed", "StepRetried", "StepStarted"]);
    w.runs().append(of_attempt("StepFailed", Some("2"), "second")).unwrap();
    assert!(!w.runs().snapshot("r").unwrap().unwrap().is_inconsistent());
    w.runs().append(of_attempt("StepRetried", Some("3"), "third")).unwrap();
    w.runs().append(of_attempt("StepStarted", Some("3"), "third began")).unwrap();
    w.runs().append(of_attempt("StepCompleted", None, "late")).unwrap();
    assert_eq!(step_status(w, "r"), StepStatus::Running, "the first attempt is closed");
    assert!(w.runs().snapshot("r").unwrap().unwrap().is_inconsistent());
    is_whole(&w.runs(), "r");
}

/// A stored snapshot has enough state of the attempts to continue from it.
pub fn attempts_in_a_kept_snapshot(w: &mut TestDb) {
    let attempt = |n: u64| if n == 0 { Some("first") } else { Some("second") };
    tell(w, "r", &["RunStarted"]);
    w.runs().append(of_attempt("StepStarted", attempt(0), "1")).unwrap();
    w.runs().append(of_attempt("StepFailed", attempt(0), "2")).unwrap();
    w.runs().append(of_attempt("StepRetried", attempt(1), "3")).unwrap();
    let notes = |from| (from..from + 300).map(|number| super::note("r", number)).collect();
    w.runs().append_batch(notes(0)).unwrap();
    w.runs().append(of_attempt("StepStarted", attempt(0), "late")).unwrap();
    assert_eq!(step_status(w, "r"), StepStatus::Pending);
    w.runs().append(of_attempt("StepStarted", attempt(1), "4")).unwrap();
    w.runs().append_batch(notes(300)).unwrap();
    assert_eq!(step_status(w, "r"), StepStatus::Running);
    is_whole(&w.runs(), "r");
}

/// In a paused run, running steps may end, but no step may start.
pub fn a_paused_run_begins_nothing(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "StepStarted", "RunPaused", "StepFailed", "StepRetried"]);
    assert!(!w.runs().snapshot("r").unwrap().unwrap().is_inconsistent());
    tell(w, "r", &["StepStarted"]);
    assert_eq!(step_status(w, "r"), StepStatus::Pending);
    assert!(w.runs().snapshot("r").unwrap().unwrap().is_inconsistent());
}

/// Steps have independent states.
pub fn steps_are_independent(w: &mut TestDb) {
    tell(w, "r", &["RunStarted", "StepStarted", "StepCompleted"]);
    w.runs().append(NewEvent::new("r", "StepStarted").step("t").with_key("t")).unwrap();
    let steps = w.runs().snapshot("r").unwrap().unwrap().steps;
    let told: Vec<_> = steps.iter().map(|(name, step)| (name.as_str(), step.status)).collect();
    assert_eq!(told, [("s", StepStatus::Success), ("t", StepStatus::Running)]);
}
