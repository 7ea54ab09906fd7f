//! Run cases: event logs, their snapshots, and the idempotency keys that deduplicate events.

use crate::TestDb;
use crate::assertions::name;
use mainstay::{CanonicalEvent, NewEvent, RunCommand, RunStatus, Runs, StepStatus};

pub mod alerts;
pub mod append;
pub mod batch;
pub mod bootstrap;
pub mod branches;
pub mod conflicts;
pub mod delete;
pub mod expecting;
pub mod feed;
pub mod fetch;
pub mod kept;
pub mod keys;
pub mod list;
pub mod merge;
pub mod messages;
pub mod numbers;
pub mod past;
pub mod reducer;
pub mod refusals;
pub mod reopening;
pub mod restore;
pub mod retention;
pub mod snapshots;
pub mod tail;
pub mod transactions;
pub mod transfer;

/// An event of a type that the reducer ignores, with a key derived from its number.
pub(crate) fn note(run: &str, number: u64) -> NewEvent {
    NewEvent::new(run, "Noted").with_key(&format!("note-{number}")).value(number as i64)
}

/// An event of the whole run, with plan version 1.
pub(crate) fn of_run(run: &str, kind: &str) -> NewEvent {
    NewEvent::new(run, kind).plan("1")
}

/// The command that appends an event.
pub(crate) fn append(event: NewEvent) -> RunCommand {
    RunCommand::Append { event: Box::new(event), expected: None }
}

/// The command that fetches all events of a run.
pub(crate) fn fetch_all(run: &str) -> RunCommand {
    RunCommand::Fetch { run: name(run), after: 0, limit: 1_000 }
}

/// All events of a run; asserts that the sequence numbers have no gaps.
#[track_caller]
pub(crate) fn all(runs: &Runs, run: &str) -> Vec<CanonicalEvent> {
    let events = runs.fetch(run, 0, 100_000).unwrap();
    let dense = events.iter().enumerate().all(|(place, event)| event.run_seq == place as u64 + 1);
    assert!(dense, "the sequences of `{run}` have gaps");
    events
}

/// The keys of a run's events, in order.
#[track_caller]
pub(crate) fn keys_of_run(runs: &Runs, run: &str) -> Vec<String> {
    all(runs, run).into_iter().map(|event| event.idempotency_key).collect()
}

/// Asserts that the stored snapshot, the projection, the log and the info of a run agree.
#[track_caller]
pub(crate) fn is_whole(runs: &Runs, run: &str) {
    let kept = runs.snapshot(run).unwrap().unwrap();
    let told = runs.project(run).unwrap().unwrap();
    assert_eq!((&kept, kept.hash()), (&told, told.hash()), "{run}");
    let events = all(runs, run);
    let info = runs.get(run).unwrap().unwrap();
    assert_eq!(kept.last_event_seq, events.len() as u64, "{run}");
    assert_eq!(
        (info.last_event_seq, info.status, info.inconsistent),
        (kept.last_event_seq, kept.status, kept.is_inconsistent()),
        "{run}"
    );
}

/// Appends events of these types with unique keys; step events use the step `s`.
pub(crate) fn tell(w: &TestDb, run: &str, kinds: &[&str]) {
    for kind in kinds {
        let place = all(&w.runs(), run).len();
        let event = NewEvent::new(run, kind).with_key(&format!("{place}"));
        let event = if kind.starts_with("Step") { event.step("s") } else { event };
        w.runs().append(event).unwrap();
    }
}

pub(crate) fn status(w: &TestDb, run: &str) -> RunStatus {
    w.runs().snapshot(run).unwrap().unwrap().status
}

/// The status of the step `s` of a run.
pub(crate) fn step_status(w: &TestDb, run: &str) -> StepStatus {
    let snapshot = w.runs().snapshot(run).unwrap().unwrap();
    snapshot.steps.get("s").map(|step| step.status).unwrap_or_default()
}
