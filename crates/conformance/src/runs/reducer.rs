//! The reducer that all runs have: which event may follow which.

use super::{is_whole, status, step_status, tell};
use crate::World;
use mainstay::{RunStatus, RunStatus::*, StepStatus};

/// A state of a run and the events that lead there.
const WAYS: [(RunStatus, &[&str]); 7] = [
    (Pending, &[]),
    (Approved, &["RunApproved"]),
    (Running, &["RunStarted"]),
    (Paused, &["RunStarted", "RunPaused"]),
    (Completed, &["RunStarted", "RunCompleted"]),
    (Failed, &["RunStarted", "RunFailed"]),
    (Cancelled, &["RunStarted", "RunCancelled"]),
];

/// An event, the states that it may follow, and what becomes of them.
const RUN_EVENTS: [(&str, &[RunStatus], RunStatus); 7] = [
    ("RunApproved", &[Pending], Approved),
    ("RunStarted", &[Pending, Approved], Running),
    ("RunPaused", &[Running], Paused),
    ("RunResumed", &[Paused], Running),
    ("RunCompleted", &[Running], Completed),
    ("RunFailed", &[Pending, Approved, Running, Paused], Failed),
    ("RunCancelled", &[Pending, Approved, Running, Paused], Cancelled),
];

/// The same for a step.
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

/// Every event in every state of a run: what may follow moves it, what may not changes nothing and marks it.
pub fn every_transition_of_a_run(w: &mut World) {
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

/// Every event in every state of a step, while the run runs.
pub fn every_transition_of_a_step(w: &mut World) {
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

/// Nothing follows the end, neither of the run nor of its steps.
pub fn nothing_follows_the_end(w: &mut World) {
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

/// A failed attempt is immutable: what comes goes to the next one, or is refused.
pub fn failed_attempt_is_immutable(w: &mut World) {
    tell(w, "r", &["RunStarted", "StepStarted", "StepFailed"]);
    let failed =
        |w: &World| w.runs().snapshot("r").unwrap().unwrap().steps["s"].attempts[0].clone();
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

/// What was begun may end while the run is paused, but nothing begins.
pub fn a_paused_run_begins_nothing(w: &mut World) {
    tell(w, "r", &["RunStarted", "StepStarted", "RunPaused", "StepFailed", "StepRetried"]);
    assert!(!w.runs().snapshot("r").unwrap().unwrap().is_inconsistent());
    tell(w, "r", &["StepStarted"]);
    assert_eq!(step_status(w, "r"), StepStatus::Pending);
    assert!(w.runs().snapshot("r").unwrap().unwrap().is_inconsistent());
}

/// Steps are judged by themselves.
pub fn steps_are_independent(w: &mut World) {
    tell(w, "r", &["RunStarted", "StepStarted", "StepCompleted"]);
    w.runs().append(mainstay::NewEvent::new("r", "StepStarted").step("t").with_key("t")).unwrap();
    let steps = w.runs().snapshot("r").unwrap().unwrap().steps;
    let told: Vec<_> = steps.iter().map(|(name, step)| (name.as_str(), step.status)).collect();
    assert_eq!(told, [("s", StepStatus::Success), ("t", StepStatus::Running)]);
}
