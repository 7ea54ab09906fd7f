//! Snapshots of runs: the stored one and the projected one both equal the folded events.

use super::{TestRuns, event, folded, keyed};
use mainstay_model::{RunStatus, StepStatus};

/// A missing run has no snapshot.
pub fn of_nothing_is_nothing(s: &TestRuns<'_>) {
    assert_eq!(s.ok(s.get_snapshot("r")), None);
    assert_eq!(s.ok(s.project_snapshot("r")), None);
    assert_eq!(s.ok(s.snapshot_at("r", 7)), None);
}

const STEPS: [&str; 4] = ["StepStarted", "StepFailed", "StepRetried", "StepSkipped"];

/// Appends many events, some of which are illegal in their state.
fn fill(s: &TestRuns<'_>, from: usize, to: usize) {
    for n in from..to {
        let step = format!("s{}", n % 7);
        let event_type = STEPS[n / 7 % 4];
        s.append(event("r", event_type).step(&step).with_key(&n.to_string()));
    }
    s.settle();
}

/// The stored and the projected snapshot both have the hash of the folded events, at any length of the
/// log.
pub fn is_the_projection(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    let mut before = 0;
    for count in [1, 2, 255, 256, 257, 520, 1_100] {
        fill(s, before, count);
        before = count;
        let events = s.events("r");
        let kept = s.ok(s.get_snapshot("r")).unwrap();
        let made = s.ok(s.project_snapshot("r"));
        assert_eq!(kept.hash(), made.unwrap().hash(), "{count}");
        assert_eq!(kept, folded("r", &events), "{count}");
        assert_eq!(kept.last_event_seq, events.last().unwrap().run_seq);
    }
}

/// A snapshot contains every acknowledged event.
/// Requires: CurrentSnapshots.
pub fn is_never_behind(s: &TestRuns<'_>) {
    for n in 0..300 {
        let seq = s.append(keyed("r", &n.to_string(), "")).run_seq;
        s.settle();
        assert_eq!(s.ok(s.get_snapshot("r")).unwrap().last_event_seq, seq);
    }
}

/// A snapshot at a sequence number equals the fold of the events up to it.
pub fn at_every_sequence(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    fill(s, 0, 600);
    let events = s.events("r");
    for place in [0, 1, 100, 254, 255, 256, 257, 511, 512, 513, 600] {
        let snapshot = s.ok(s.snapshot_at("r", events[place].run_seq)).unwrap();
        assert_eq!(snapshot, folded("r", &events[..=place]), "{place}");
    }
    let beyond = s.ok(s.snapshot_at("r", events[600].run_seq + 1_000)).unwrap();
    assert_eq!(beyond, folded("r", &events));
}

/// An illegal event only marks the snapshot as inconsistent.
pub fn illegal_marks_the_run(s: &TestRuns<'_>) {
    let told = s.tell(
        "r",
        &[("RunStarted", None), ("RunCompleted", None), ("RunPaused", None), ("Tick", None)],
    );
    s.settle();
    let snapshot = s.ok(s.get_snapshot("r")).unwrap();
    assert!(snapshot.is_inconsistent() && snapshot.flags.contains("INCONSISTENT"));
    assert_eq!((snapshot.status, snapshot.steps.len()), (RunStatus::Completed, 0));
    assert_eq!(snapshot.last_event_seq, told[3].run_seq);
    s.tell("well", &[("RunStarted", None), ("RunCompleted", None)]);
    s.settle();
    assert!(!s.ok(s.get_snapshot("well")).unwrap().is_inconsistent());
}

/// An illegal event is stored and acknowledged like any other.
pub fn illegal_stays_in_the_log(s: &TestRuns<'_>) {
    let answers = s.tell("r", &[("RunResumed", None), ("StepCompleted", Some("a"))]);
    assert!(answers.iter().all(|answer| answer.persisted && !answer.conflict), "{answers:?}");
    assert_eq!(s.events("r").len(), 2);
}

/// An event of an unknown type changes only the watermark of the snapshot.
pub fn unknown_types_move_the_watermark(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    s.settle();
    let before = s.ok(s.get_snapshot("r")).unwrap();
    let seq = s.append(event("r", "CoffeeMade")).run_seq;
    let seq = seq.max(s.append(event("r", "StepCorrected").step("a")).run_seq);
    s.settle();
    let mut after = s.ok(s.get_snapshot("r")).unwrap();
    assert_eq!(after.last_event_seq, seq);
    after.last_event_seq = before.last_event_seq;
    assert_eq!(after, before);
}

/// A failed attempt is kept, and a retry adds a new one.
pub fn retry_opens_the_next_attempt(s: &TestRuns<'_>) {
    let a = Some("a");
    let types = [("RunStarted", None), ("StepStarted", a), ("StepFailed", a), ("StepRetried", a)];
    let told = s.tell("r", &types);
    s.settle();
    let snapshot = s.ok(s.get_snapshot("r")).unwrap();
    let step = &snapshot.steps["a"];
    assert_eq!((step.status, step.attempts.len()), (StepStatus::Pending, 2));
    assert_eq!(step.attempts[0].status, StepStatus::Failed);
    assert_eq!(step.attempts[0].ended_seq, Some(told[2].run_seq));
}
