//! Money moves, and neither comes nor goes: now, and at every moment of the past.

use super::told;
use crate::drill::Outcome;
use crate::world::operation::{ACCOUNTS, account};
use mainstay::{At, Database, HistoryEntry};

/// How many moments of the past are looked at.
const MOMENTS: usize = 8;

/// Looks at all accounts, now and then.
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
