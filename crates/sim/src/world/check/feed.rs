//! Check: the feed has delivered every executed operation exactly once.

use crate::drill::Outcome;
use crate::world::book::Book;
use std::collections::BTreeSet;

/// Compares the operations seen in the feed with those found in the data.
pub fn check(book: &Book, seen: &BTreeSet<u64>) -> Outcome<()> {
    let inside = book.inside();
    match inside.executed.symmetric_difference(seen).next() {
        Some(id) if seen.contains(id) => Err(format!("the feed has op{id}, the cells do not")),
        Some(id) => Err(format!("the cells have op{id}, the feed does not")),
        None => Ok(()),
    }
}
