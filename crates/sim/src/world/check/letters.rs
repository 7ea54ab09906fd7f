//! Check: messages are handled once and in order, and all of them if no session expires.

use crate::drill::Outcome;
use crate::world::book::{Book, Handled};
use crate::world::script::Script;
use std::collections::{BTreeMap, BTreeSet};

/// Checks every message that was handled.
pub fn check(book: &Book, script: &Script, executed: &BTreeSet<u64>) -> Outcome<()> {
    let inside = book.inside();
    let mut last: BTreeMap<usize, Handled> = BTreeMap::new();
    let mut places: BTreeMap<u64, Handled> = BTreeMap::new();
    for letter in &inside.letters {
        if !executed.contains(&letter.id) {
            return Err(format!("{letter:?} was handled, and never sent"));
        }
        if let Some(before) = last.insert(letter.client, *letter)
            && !follows(before, *letter)
        {
            return Err(format!("{letter:?} was handled behind {before:?}"));
        }
        let first = *places.entry(letter.id).or_insert(*letter);
        let place = |of: Handled| (of.client, of.opened, of.number);
        if place(first) != place(*letter) {
            return Err(format!("{letter:?} was handled, and {first:?}"));
        }
    }
    if script.is_patient() { check_complete(&places) } else { Ok(()) }
}

/// Checks that every number was handled, if no session expires and none is pending.
fn check_complete(places: &BTreeMap<u64, Handled>) -> Outcome<()> {
    let mut numbers: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for letter in places.values() {
        numbers.entry(letter.client).or_default().insert(letter.number);
    }
    for (client, numbers) in numbers {
        if numbers.last() != Some(&(numbers.len() as u64)) {
            return Err(format!(
                "of the letters to client {client} these were handled: {numbers:?}"
            ));
        }
    }
    Ok(())
}

/// Returns whether one message may follow another. Within one incarnation each comes once. The last one
/// of an incarnation may be repeated in the next, because a crash may hide its result.
fn follows(before: Handled, letter: Handled) -> bool {
    match (before.opened == letter.opened, before.life == letter.life) {
        (true, true) => letter.number > before.number,
        (true, false) => letter.number >= before.number,
        (false, _) => letter.opened > before.opened,
    }
}
