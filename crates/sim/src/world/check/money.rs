//! Check: the sum of all accounts is constant, now and at past revisions.

use super::told;
use crate::drill::Outcome;
use crate::world::operation::{ACCOUNTS, account};
use mainstay::{At, Database, HistoryEntry};

/// The number of past revisions to check.
const MOMENTS: usize = 8;

/// Checks all accounts, now and in the past.
pub fn check(db: &Database, sequence: &[HistoryEntry]) -> Outcome<()> {
    let step = (sequence.len() / MOMENTS).max(1);
    let past = sequence.iter().step_by(step).map(|version| At::Revision(version.revision));
    past.chain([At::Latest]).try_for_each(|at| look(db, at))
}

fn look(db: &Database, at: At) -> Outcome<()> {
    let cells = db.cells().at(at).map_err(told("the past"))?;
    let mut sum = 0;
    for k in 0..ACCOUNTS {
        let balance = cells.get(&account(k)).map_err(told("an account"))?;
        sum += balance.and_then(|balance| balance.as_i64()).unwrap_or(0);
    }
    match sum {
        0 => Ok(()),
        _ => Err(format!("{sum} came out of nothing at {at:?}")),
    }
}
