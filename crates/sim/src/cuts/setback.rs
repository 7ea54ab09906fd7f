//! Lists of tables that are set back.
//!
//! ```text
//!   a list gets its name ── the disk says that it failed, and it is there for good
//!        │ the store names the list before it again, and removes what it has written
//!        v
//!   the next list is written over the one that was refused: whoever is cut off now must not be left with its name
//! ```

use super::life::turn;
use crate::disk::{Action, Fault, Mount};
use mainstay::Database;

/// Lists of tables that fail, one in each round: those of a flush, and those of compactions.
pub(super) const ROUNDS: u64 = 4;

/// So many cells are written in half a round.
const TURNS: u64 = 3;

/// Writes and trims; in each round another list of tables is said to have failed. Gives in how many that came to pass.
pub(super) fn set_back(
    open: impl Fn() -> mainstay::Result<Database>,
    mount: &Mount,
) -> mainstay::Result<u64> {
    let (faults, tape) = (mount.faults(), mount.tape());
    // From the beginning on, so that the kernel believes in no name.
    let fail = |n| faults.plan_at(Action::Rename, "/current", n, Fault::After);
    fail(u64::MAX);
    let db = open()?;
    let (mut turns, mut hits) = (0.., 0);
    let mut write = || turns.by_ref().take(TURNS as usize).try_for_each(|n| turn(&db, n, tape));
    for round in 0..ROUNDS {
        write()?;
        fail(round);
        // It may fail; what was written is there all the same.
        let _ = db.trim();
        hits += u64::from(faults.clear().is_some());
        fail(u64::MAX);
        write()?;
        db.trim()?;
    }
    db.close()?;
    Ok(hits)
}
