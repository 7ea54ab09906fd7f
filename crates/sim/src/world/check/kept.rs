//! Check: promised writes survive every power failure.

use crate::drill::Outcome;
use crate::world::book::Book;
use crate::world::book::Told;
use crate::world::operation::{SEQUENCE, mark};
use mainstay::Database;

/// Checks a server that has just started.
pub fn start(book: &Book, db: &Database) -> Outcome<()> {
    let reached = db.revision();
    let mut inside = book.inside();
    if reached < inside.floor {
        let floor = inside.floor;
        return Err(format!("LOST: r{floor} was promised, and the log ends at r{reached}"));
    }
    inside.start(reached);
    let told = |error: mainstay::Error| format!("looking at what is left: {error}");
    for told_of in inside.told.values() {
        let Told::Answered(answered) = told_of else { continue };
        let is_there = db.cells().get(&mark(answered.id)).map_err(told)?.is_some();
        if !is_there && !inside.lost.contains(answered) {
            return Err(format!("LOST: {answered:?} was told, and is not there"));
        }
    }
    // Revisions that were seen but lost must not break reads: every read still gets an answer.
    db.cells().get(SEQUENCE).map(drop).map_err(told)
}
