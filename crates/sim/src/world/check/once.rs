//! Check: each operation is executed at most once, exactly once if answered, and never if refused.

use super::{marks, number};
use crate::drill::Outcome;
use crate::world::book::{Book, Told};
use mainstay::Database;
use std::collections::BTreeSet;

/// Checks every operation. Returns those that were executed.
pub fn check(book: &Book, db: &Database) -> Outcome<BTreeSet<u64>> {
    let mut executed = BTreeSet::new();
    let inside = book.inside();
    for (id, operation) in &inside.operations {
        let marks = marks(db, *id)?;
        let times = marks.last().map_or(0, number);
        let told = inside.told.get(id);
        let wrong = |what: &str| Err(format!("op{id} {what}: {times} times, told {told:?}"));
        match told {
            _ if times > 1 || marks.len() > 1 => return wrong("was executed more than once"),
            _ if times == 1 && operation.fails => return wrong("was executed against its guard"),
            Some(Told::Refused(_)) if times > 0 => return wrong("was executed, and refused"),
            Some(Told::Answered(of)) if times == 0 && !inside.lost.contains(of) => {
                return wrong("was answered, and is not there");
            }
            _ => {}
        }
        if times == 1 {
            executed.insert(*id);
        }
    }
    Ok(executed)
}
