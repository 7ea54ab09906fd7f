//! `append_batch`: several events in one transaction, with one result per event.

use super::{all, is_whole, note, of_run};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, NewEvent};

/// Events of several runs are appended in one transaction and answered in order.
pub fn answers_per_position(w: &mut TestDb) {
    let events =
        vec![note("r", 1), note("s", 1), note("r", 2), note("r", 1), note("s", 1).value("else")];
    let answers = writes_once(w.db(), || w.runs().append_batch(events).unwrap());
    let told: Vec<_> =
        answers.iter().map(|a| (a.run_seq, a.persisted, a.idempotent, a.conflict)).collect();
    let new = (true, false, false);
    let again = (false, true, false);
    let other = (false, true, true);
    let with = |seq, (a, b, c)| (seq, a, b, c);
    assert_eq!(told, [with(1, new), with(1, new), with(2, new), with(1, again), with(1, other)]);
    is_whole(&w.runs(), "r");
}

/// One invalid event fails the whole batch, and the error has its position.
pub fn one_bad_event_fails_all(w: &mut TestDb) {
    let bad = vec![note("r", 1), NewEvent::new("r", "StepStarted").plan("1"), note("r", 2)];
    refused_at(writes_nothing(w.db(), || w.runs().append_batch(bad)), Code::InvalidArgument, 1);
    w.runs().append(note("gone", 1)).unwrap();
    w.runs().delete("gone").unwrap();
    let bad = vec![note("r", 1), note("r", 2), note("gone", 2)];
    refused_at(writes_nothing(w.db(), || w.runs().append_batch(bad)), Code::RunNotFound, 2);
    assert!(all(&w.runs(), "r").is_empty() && w.runs().get("r").unwrap().is_none());
}

/// An empty batch writes nothing.
pub fn empty_batch(w: &mut TestDb) {
    assert!(writes_nothing(w.db(), || w.runs().append_batch(vec![]).unwrap()).is_empty());
}

/// A batch of existing events writes nothing.
pub fn repeated_writes_nothing(w: &mut TestDb) {
    let events = || (1..=5).map(|number| note("r", number)).collect::<Vec<_>>();
    w.runs().append_batch(events()).unwrap();
    let again = writes_nothing(w.db(), || w.runs().append_batch(events()).unwrap());
    assert!(again.iter().zip(1..).all(|(one, seq)| one.idempotent && one.run_seq == seq));
}

/// A batch longer than the distance between stored snapshots leaves correct snapshots.
pub fn long_batches_are_whole(w: &mut TestDb) {
    w.runs().append(of_run("r", "RunStarted")).unwrap();
    w.runs().append_batch((1..=1_000).map(|number| note("r", number)).collect()).unwrap();
    is_whole(&w.runs(), "r");
    assert_eq!(w.runs().snapshot_at("r", 700).unwrap().unwrap().last_event_seq, 700);
}
