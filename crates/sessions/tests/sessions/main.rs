//! Tests of the session client: exactly once, despite loss, repetition, delay, restart and expiry.

mod asynchronous;
mod hostile;
mod letters;
mod lossy;
mod planted;
mod random;
mod repeating;
mod restart;
mod resume;
mod rivals;
mod standing;
mod timing;

mod script;
mod world;

use mainstay::{
    Answer, CellCommand, Clock, Database, Durability, ManualClock, Name, Options, Receipt, Result,
    SessionOptions, Transaction, Value,
};
use mainstay_sessions::{Settings, simulation};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any operation takes on a busy machine: after this time, the event will not come.
const PATIENCE: Duration = Duration::from_secs(60);

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// A transaction whose double execution would show.
fn add(cell: &str, by: i64) -> Transaction {
    Transaction::new().step(CellCommand::Incr { name: name(cell), by: by.into() })
}

fn value(db: &Database, cell: &str) -> i64 {
    db.cells().get(cell).unwrap().and_then(|value| value.as_i64()).unwrap_or(0)
}

/// The sum that an addition returned.
fn sum(receipt: &Result<Receipt>) -> i64 {
    number(&receipt.as_ref().unwrap().answers[0])
}

fn number(answer: &Answer) -> i64 {
    match answer {
        Answer::Number { value: Value::Int(n), .. } => *n,
        other => panic!("{other:?}"),
    }
}

fn named(name: &str) -> SessionOptions {
    SessionOptions::new().name(name)
}

/// Short pauses, for tests in real time.
fn quick() -> Settings {
    let first_pause = Duration::from_micros(20);
    let longest_pause = Duration::from_micros(500);
    let attempt = Duration::from_secs(30);
    Settings { first_pause, longest_pause, attempt, ..Settings::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
