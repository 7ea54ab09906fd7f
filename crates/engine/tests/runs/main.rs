//! Runs: the log, what it adds up to, branches, deletion, the outbox. All through the public interface.

mod budgets;
mod contract;
mod figures;
mod log;
mod merges;
mod outbox;
mod past;
mod programs;
mod restoring;
mod reviewed;

use mainstay::{Database, Durability, ManualClock, NewEvent, Options};
use std::sync::Arc;

/// A database in memory with a clock that stands still.
fn memory() -> (Database, Arc<ManualClock>) {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    (options.clock(clock.clone()).memory().unwrap(), clock)
}

fn event(run: &str, kind: &str, step: Option<&str>) -> NewEvent {
    let event = NewEvent::new(run, kind).plan("1");
    step.into_iter().fold(event, |event, step| event.step(step))
}

/// An event that is like no other.
fn note(run: &str, number: u64) -> NewEvent {
    NewEvent::new(run, "Noted").with_key(&format!("note-{number}")).value(number as i64)
}
