//! `append_batch`: several events, all or nothing.
//!
//! Requires: Batches.

use super::{TestRuns, event, keyed};
use mainstay_model::{Code, NewEvent};

/// Each event of a batch has its own result.
pub fn answers_per_position(s: &TestRuns<'_>) {
    let first = s.append(keyed("r", "a", "1"));
    let batch = vec![keyed("r", "b", "1"), keyed("r", "a", "1"), keyed("r", "c", "1")];
    let answers = s.ok(s.append_batch(batch));
    let persisted: Vec<bool> = answers.iter().map(|answer| answer.persisted).collect();
    assert_eq!(persisted, [true, false, true]);
    assert_eq!(answers[1].run_seq, first.run_seq);
    let told: Vec<u64> = [&first, &answers[0], &answers[2]].map(|answer| answer.run_seq).to_vec();
    let stored: Vec<u64> = s.events("r").iter().map(|event| event.run_seq).collect();
    assert_eq!(stored, told);
}

/// Events with the same key in one batch are one event.
pub fn same_key_inside_is_one_event(s: &TestRuns<'_>) {
    let batch = vec![keyed("r", "a", "1"), keyed("r", "a", "1"), keyed("r", "a", "2")];
    let answers = s.ok(s.append_batch(batch));
    let seen: Vec<_> = answers.iter().map(|it| (it.run_seq, it.idempotent, it.conflict)).collect();
    let seq = answers[0].run_seq;
    assert_eq!(seen, [(seq, false, false), (seq, true, false), (seq, true, true)]);
    s.only("r");
}

/// One invalid event aborts the whole batch.
pub fn bad_event_writes_nothing(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    for bad in [NewEvent::new("r", "StepStarted").plan("1"), NewEvent::new("r", "RunPaused")] {
        s.invalid(s.append_batch(vec![keyed("r", "a", "1"), keyed("new", "a", "1"), bad]));
    }
    assert_eq!(s.only("r").event_type, "RunStarted");
    s.is_unknown("new");
}

/// A batch can contain events of several runs.
pub fn several_runs_in_one(s: &TestRuns<'_>) {
    let batch = vec![keyed("a", "1", ""), keyed("b", "1", ""), keyed("a", "2", "")];
    let answers = s.ok(s.append_batch(batch));
    assert!(answers[0].run_seq < answers[2].run_seq, "{answers:?}");
    assert_eq!((s.events("a").len(), s.events("b").len()), (2, 1));
}

/// An event for a deleted run aborts the whole batch.
/// Requires: Deletion.
pub fn deleted_run_writes_nothing(s: &TestRuns<'_>) {
    s.append(event("gone", "RunStarted"));
    s.ok(s.delete_run("gone"));
    let batch = vec![keyed("r", "a", "1"), keyed("gone", "a", "1")];
    s.refused(s.append_batch(batch), Code::RunNotFound);
    s.is_unknown("r");
}
