//! Deletion of runs: a run disappears at once, and its data is deleted later in batches.
//!
//! ```text
//!   delete: a tombstone on the head, and a marker for the data that remains: events, keys, states, alerts
//! ```

use super::{head, staged_restore};
use crate::apply::deferred_delete;
use crate::apply::key_state::remove;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::Index;
use mainstay_model::{Code, Error, Name, Result, Revision};

/// Deletes a run. Returns whether it existed.
pub(super) fn delete(
    view: &View<'_>,
    overlay: &mut WriteSet,
    run: &Name,
    revision: Revision,
) -> Result<bool> {
    let met = head::meet(view, overlay, run)?;
    let Some(head) = met.head else {
        // Also removes the remains of an unfinished restore.
        staged_restore::give_up(view, overlay, run, revision)?;
        return Ok(false);
    };
    if head.generation == revision {
        // A generation is identified by the revision that created it, so one transaction cannot create two of
        // them.
        let message = format!("run `{run}` was made in the same transaction: delete it in another");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    mark(view.index, overlay, view.branch(), run, head.generation)?;
    remove(overlay, met.seen)?;
    Ok(true)
}

/// Leaves a run deleted even if it never existed, so that no event can be appended to it.
pub(super) fn bury(
    view: &View<'_>,
    overlay: &mut WriteSet,
    run: &Name,
    revision: Revision,
) -> Result<()> {
    if delete(view, overlay, run, revision)? {
        return Ok(());
    }
    let met = head::meet(view, overlay, run)?;
    if met.is_deleted() { Ok(()) } else { remove(overlay, met.seen) }
}

/// Schedules the deletion of the data of one generation of a run.
pub(crate) fn mark(
    index: &Index,
    overlay: &mut WriteSet,
    branch: u32,
    run: &Name,
    generation: u64,
) -> Result<()> {
    deferred_delete::mark(index, overlay, &deferred_delete::run(branch, run.as_str(), generation))
}
