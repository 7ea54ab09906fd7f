//! Runs through the public interface: log, snapshots, branches, deletion, outbox.

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

/// Returns a database in memory with a manual clock.
fn memory() -> (Database, Arc<ManualClock>) {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    (options.clock(clock.clone()).memory().unwrap(), clock)
}

fn event(run: &str, kind: &str, step: Option<&str>) -> NewEvent {
    let event = NewEvent::new(run, kind).plan("1");
    step.into_iter().fold(event, |event, step| event.step(step))
}

/// Returns an event with its own key and value.
fn note(run: &str, number: u64) -> NewEvent {
    NewEvent::new(run, "Noted").with_key(&format!("note-{number}")).value(number as i64)
}
