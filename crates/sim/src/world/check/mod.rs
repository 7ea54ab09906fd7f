//! What must be true, a file for each property.

mod answers;
mod clock;
mod counters;
pub mod feed;
mod kept;
mod letters;
mod money;
mod once;
mod whole;

use super::book::Book;
use super::operation::{SEQUENCE, mark};
use super::script::Script;
use crate::drill::Outcome;
use mainstay::{Database, Error, HistoryEntry};

pub use kept::start;

/// More versions than any cell has.
const ALL: usize = 10_000;

/// Looks at everything.
pub fn all(book: &Book, script: &Script, db: &Database) -> Outcome<()> {
    let sequence = history(db, SEQUENCE)?;
    counters::check(db, &sequence)?;
    let executed = once::check(book, db)?;
    answers::check(book, db, &sequence)?;
    clock::check(book, &sequence)?;
    money::check(db, &sequence)?;
    whole::check(book, db, &executed)?;
    letters::check(book, script, &executed)?;
    book.inside().executed = executed;
    Ok(())
}

/// What goes wrong where nothing should.
fn told(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("looking at {what}: {error}")
}

/// All versions of a cell, the oldest first.
fn history(db: &Database, cell: &str) -> Outcome<Vec<HistoryEntry>> {
    let mut versions = db.cells().history(cell, ALL, None).map_err(told("a history"))?;
    versions.reverse();
    Ok(versions)
}

/// The number that a version holds.
fn number(version: &HistoryEntry) -> i64 {
    version.value.as_ref().and_then(|value| value.as_i64()).unwrap_or(-1)
}

/// All versions of the cell that an operation counts itself in.
fn marks(db: &Database, id: u64) -> Outcome<Vec<HistoryEntry>> {
    history(db, &mark(id))
}
