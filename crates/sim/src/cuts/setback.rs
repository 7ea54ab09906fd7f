//! Table manifests that are set back after a failed rename.
//!
//! ```text
//!   a manifest is renamed ── the disk reports a failure, but the rename is durable
//!        │ the store names the previous manifest again, and deletes the tables it has written
//!        v
//!   the next manifest overwrites the rejected one: a cut now must not leave `current` naming it
//! ```

use super::life::turn;
use crate::disk::{Action, Fault, Mount};
use mainstay::Database;

/// Number of failing manifest renames, one per round: those of a flush, and those of compactions.
pub(super) const ROUNDS: u64 = 4;

/// Cells written per half round.
const TURNS: u64 = 3;

/// Writes and trims. In each round another manifest rename fails. Returns the number of failures that
/// occurred.
pub(super) fn set_back(
    open: impl Fn() -> mainstay::Result<Database>,
    mount: &Mount,
) -> mainstay::Result<u64> {
    let faults = mount.faults();
    let tape = mount.tape();
    // From the start, so that the kernel caches no names.
    let fail = |n| faults.plan_at(Action::Rename, "/current", n, Fault::After);
    fail(u64::MAX);
    let db = open()?;
    let mut turns = 0..;
    let mut hits = 0;
    let mut write = || turns.by_ref().take(TURNS as usize).try_for_each(|n| turn(&db, n, tape));
    for round in 0..ROUNDS {
        write()?;
        fail(round);
        // The trim may fail, but the writes must survive.
        let _ = db.trim();
        hits += u64::from(faults.clear().is_some());
        fail(u64::MAX);
        write()?;
        db.trim()?;
    }
    db.close()?;
    Ok(hits)
}
