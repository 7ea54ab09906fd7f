//! The invariants of a world, one file for each.

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

/// A page size larger than the number of versions of any cell.
const ALL: usize = 10_000;

/// Checks all invariants.
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

/// Formats the error of a read that must not fail.
fn told(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("looking at {what}: {error}")
}

/// Returns all versions of a cell, oldest first.
fn history(db: &Database, cell: &str) -> Outcome<Vec<HistoryEntry>> {
    let mut versions = db.cells().history(cell, ALL, None).map_err(told("a history"))?;
    versions.reverse();
    Ok(versions)
}

/// Returns the number in a version.
fn number(version: &HistoryEntry) -> i64 {
    version.value.as_ref().and_then(|value| value.as_i64()).unwrap_or(-1)
}

/// Returns all versions of the cell in which an operation counts its executions.
fn marks(db: &Database, id: u64) -> Outcome<Vec<HistoryEntry>> {
    history(db, &mark(id))
}
