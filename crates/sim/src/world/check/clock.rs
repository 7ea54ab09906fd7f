//! Check: revisions and stamps increase across all restarts.

use crate::drill::Outcome;
use crate::world::book::{Answered, Book, Told};
use mainstay::HistoryEntry;

/// Checks the stored versions and the answers.
pub fn check(book: &Book, sequence: &[HistoryEntry]) -> Outcome<()> {
    let rises =
        |two: &[HistoryEntry]| two[0].revision < two[1].revision && two[0].stamp < two[1].stamp;
    if let Some(two) = sequence.windows(2).find(|two| !rises(two)) {
        return Err(format!("{:?} is followed by {:?}", two[0], two[1]));
    }
    let inside = book.inside();
    let mut told: Vec<Answered> = Vec::new();
    for told_of in inside.told.values() {
        match told_of {
            Told::Answered(answered) if !inside.lost.contains(answered) => told.push(*answered),
            _ => {}
        }
    }
    told.sort_by_key(|answered| answered.revision);
    let rises = |two: &[Answered]| {
        two[0].revision < two[1].revision
            && two[0].stamp < two[1].stamp
            && two[0].sequence < two[1].sequence
    };
    match told.windows(2).find(|two| !rises(two)) {
        Some(two) => Err(format!("{:?} and {:?} were told", two[0], two[1])),
        None => Ok(()),
    }
}
