//! Check: every answer is that of its one execution, in revision, stamp and position.

use super::{marks, number};
use crate::drill::Outcome;
use crate::world::book::{Book, Told};
use mainstay::{Database, HistoryEntry};

/// Checks every answer that no power failure has taken back.
pub fn check(book: &Book, db: &Database, sequence: &[HistoryEntry]) -> Outcome<()> {
    let inside = book.inside();
    for told in inside.told.values() {
        let Told::Answered(answered) = told else { continue };
        if inside.lost.contains(answered) {
            continue;
        }
        let marks = marks(db, answered.id)?;
        let mark = marks.first().map(|mark| (mark.revision, mark.stamp));
        let place = sequence.iter().find(|version| version.revision == answered.revision);
        let place = place.map(|version| (version.stamp, number(version)));
        if mark != Some((answered.revision, answered.stamp))
            || place != Some((answered.stamp, answered.sequence))
        {
            return Err(format!("{answered:?} was told; there is {mark:?}, {place:?}"));
        }
    }
    Ok(())
}
