//! Snapshots of runs are derived from the events and never behind them.
//!
//! Stored, folded and projected snapshots are equal.

use super::{all, is_whole, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{NewEvent, RunSnapshot, RunStatus, reduce};

/// Appends events of steps that start, fail, are retried and complete, so that stored base snapshots
/// have contents.
fn busy(w: &TestDb, count: u64) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let kinds = ["StepStarted", "StepFailed", "StepRetried", "StepStarted", "StepCompleted"];
    let event = |i: u64| {
        let kind = kinds[(i / 7 % 5) as usize];
        NewEvent::new("r", kind).step(&format!("s{}", i % 7)).with_key(&i.to_string())
    };
    for first in (1..count).step_by(50) {
        let events = (first..count.min(first + 50)).map(event).collect();
        w.runs().append_batch(events).unwrap();
    }
}

/// A missing run has no snapshot; a run without events has an initial one.
pub fn of_nothing(w: &mut TestDb) {
    assert!(w.runs().snapshot("r").unwrap().is_none() && w.runs().project("r").unwrap().is_none());
    w.runs().bootstrap("r", 1, vec![]).unwrap();
    assert_eq!(w.runs().snapshot("r").unwrap(), Some(RunSnapshot::new("r")));
}

/// After every event the snapshot includes it and equals the projection.
pub fn never_behind(w: &mut TestDb) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    for number in 1..=40 {
        w.runs().append(note("r", number)).unwrap();
        is_whole(&w.runs(), "r");
    }
    w.runs().append_batch((41..=600).map(|number| note("r", number)).collect()).unwrap();
    is_whole(&w.runs(), "r");
    w.runs().append(of_run("r", "RunCompleted")).unwrap();
    is_whole(&w.runs(), "r");
    assert_eq!(w.runs().snapshot("r").unwrap().unwrap().status, RunStatus::Completed);
}

/// At every past event the snapshot equals the fold of the events up to it.
pub fn at_a_past_event(w: &mut TestDb) {
    busy(w, 600);
    let mut folded = RunSnapshot::new("r");
    assert_eq!(w.runs().snapshot_at("r", 0).unwrap().as_ref(), Some(&folded));
    for event in all(&w.runs(), "r") {
        reduce(&mut folded, &event);
        if event.run_seq % 37 == 0 || (250..260).contains(&event.run_seq) {
            let then = w.runs().snapshot_at("r", event.run_seq).unwrap().unwrap();
            assert_eq!((&then, then.hash()), (&folded, folded.hash()), "{}", event.run_seq);
        }
    }
    assert!(w.runs().snapshot_at("r", 601).unwrap().is_none(), "there are not so many");
    is_whole(&w.runs(), "r");
}

/// An event of an unknown type changes only the watermark.
pub fn unknown_types_move_the_watermark(w: &mut TestDb) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    let before = w.runs().snapshot("r").unwrap().unwrap();
    w.runs().append(note("r", 1)).unwrap();
    w.runs().append(NewEvent::new("r", "StepCorrected").step("s").plan("1")).unwrap();
    w.runs().append(NewEvent::new("r", "runcompleted").plan("1")).unwrap();
    let after = w.runs().snapshot("r").unwrap().unwrap();
    assert_eq!(after, RunSnapshot { last_event_seq: 4, ..before });
    assert!(w.runs().alerts("r", 0, 9).unwrap().is_empty());
}

/// The hash depends on the contents and not on times: two equal runs differ only by their names.
pub fn hash_is_of_the_meaning(w: &mut TestDb) {
    for run in ["r", "s"] {
        w.runs().append(of_run(run, "RunStarted")).unwrap();
        w.pass_ms(5);
        w.runs().append(NewEvent::new(run, "StepStarted").step("a").plan("1")).unwrap();
    }
    let of = |run: &str| w.runs().snapshot(run).unwrap().unwrap();
    let renamed = RunSnapshot { run_id: "r".into(), ..of("s") };
    assert_eq!((of("r").hash(), of("r").hash().len()), (renamed.hash(), 64));
    assert_ne!(of("r").hash(), of("s").hash());
}

/// Attempts record the sequence numbers of the events that started and ended them.
pub fn attempts_tell_their_events(w: &mut TestDb) {
    super::tell(w, "r", &["RunStarted", "StepStarted", "StepFailed", "StepRetried", "StepStarted"]);
    let step = w.runs().snapshot("r").unwrap().unwrap().steps.remove("s").unwrap();
    let told: Vec<_> = step.attempts.iter().map(|one| (one.started_seq, one.ended_seq)).collect();
    assert_eq!(told, [(Some(2), Some(3)), (Some(5), None)]);
}

/// Within a transaction, a snapshot contains the events of earlier steps.
pub fn within_a_transaction(w: &mut TestDb) {
    let snapshot = mainstay::RunCommand::Snapshot { run: name("r"), seq: None };
    let transaction = mainstay::Transaction::new()
        .step(super::append(of_run("r", "RunStarted")))
        .step(snapshot)
        .step(super::append(of_run("r", "RunPaused")));
    let answers = w.db().execute(transaction).unwrap().answers;
    let mainstay::Answer::Run(answer) = &answers[1] else { panic!("{answers:?}") };
    let mainstay::RunAnswer::Snapshot(Some(seen)) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!((seen.status, seen.last_event_seq), (RunStatus::Running, 1));
}
