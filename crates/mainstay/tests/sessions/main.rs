//! Sessions of the engine: each request is executed once, despite loss, eviction, expiry, crashes and full
//! disks.

#[path = "../seam/mod.rs"]
mod seam;

mod commands;
mod crowd;
mod doctor;
mod epochs;
mod faults;
mod inside;
mod letters;
mod machine;
mod names;
mod random;
mod refusals;
mod requests;
mod slots;
mod standing;
mod sweeps;
mod undo;

use mainstay::{
    CellCommand, Clock, Database, Durability, ManualClock, Name, Options, Receipt, Result, Session,
    SessionOptions, Transaction, Value,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const START_US: u64 = 1_700_000_000_000_000;

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// Returns a transaction for which a second execution would be visible.
fn add(cell: &str) -> Transaction {
    Transaction::new().step(CellCommand::Incr { name: name(cell), by: 1.into() })
}

fn options(clock: &Arc<ManualClock>) -> Options {
    let clock: Arc<dyn Clock> = clock.clone();
    Options::new().clock(clock).sweep_interval(None)
}

fn memory() -> (Database, Arc<ManualClock>) {
    let clock = ManualClock::new(START_US);
    let db = options(&clock).durability(Durability::Memory).memory().unwrap();
    (db, clock)
}

fn on_disk(path: &Path, clock: &Arc<ManualClock>) -> Database {
    options(clock).open(path).unwrap()
}

fn open(db: &Database, name: &str) -> Session {
    db.sessions().open(SessionOptions::new().name(name)).unwrap()
}

fn value(db: &Database, cell: &str) -> i64 {
    db.cells().get(cell).unwrap().and_then(|value| value.as_i64()).unwrap_or(0)
}

/// Returns the sum in the answer of an addition.
fn sum(receipt: Result<Receipt>) -> i64 {
    match &receipt.unwrap().answers[0] {
        mainstay::Answer::Number { value: Value::Int(n), .. } => *n,
        other => panic!("{other:?}"),
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
