//! Deleting: a run is gone at once, what it leaves goes in pieces.
//!
//! ```text
//!   delete: the head says so, and a marker waits for what was left: events, keys, states, alerts
//! ```

use super::{head, staged_restore};
use crate::apply::deferred_delete;
use crate::apply::key_state::remove;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::Index;
use mainstay_model::{Code, Error, Name, Result, Revision};

/// Deletes a run; says whether there was one.
pub(super) fn delete(
    view: &View<'_>,
    overlay: &mut WriteSet,
    run: &Name,
    revision: Revision,
) -> Result<bool> {
    let met = head::meet(view, overlay, run)?;
    let Some(head) = met.head else {
        // What a restoring that was broken off has left goes, too.
        staged_restore::give_up(view, overlay, run, revision)?;
        return Ok(false);
    };
    if head.generation == revision {
        // Its life is known by the revision that made it: a further one could not be told from it.
        let message = format!("run `{run}` was made in the same transaction: delete it in another");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    mark(view.index, overlay, view.branch(), run, head.generation)?;
    remove(overlay, met.seen)?;
    Ok(true)
}

/// Leaves of a run what a deletion leaves, also where it never was: nothing can be appended to it.
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
    match met.is_deleted() {
        true => Ok(()),
        false => remove(overlay, met.seen),
    }
}

/// Lets what a life of a run has left go.
pub(crate) fn mark(
    index: &Index,
    overlay: &mut WriteSet,
    branch: u32,
    run: &Name,
    generation: u64,
) -> Result<()> {
    deferred_delete::mark(index, overlay, &deferred_delete::run(branch, run.as_str(), generation))
}
