//! Checkpoint barriers in a pipeline.
//!
//! ```text
//!   step step | barrier(id): sinks are durable | step step ...
//!             '-- checkpoint of the state at this point --> durable --> committed(id): sinks show their outputs
//!                                                        '-> failed ---> aborted(id)
//! ```

use super::Pipeline;
use crate::operator::Operator;
use mainstay_model::{Code, Error, Result};
use std::collections::BTreeMap;

/// A checkpoint's place in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint's number.
    pub id: u64,
    /// The positions in the state at the barrier.
    pub positions: BTreeMap<String, u64>,
}

impl Barrier {
    /// Returns whether a state with these positions includes the barrier.
    pub(super) fn is_included_in(&self, positions: &BTreeMap<String, u64>) -> bool {
        let position_of = |name| positions.get(name).copied().unwrap_or(0);
        self.positions.iter().all(|(name, position)| position_of(name) >= *position)
    }
}

impl<P: Operator> Pipeline<P> {
    /// Makes all sinks' outputs durable and returns the place in the stream. The current state belongs to the
    /// checkpoint, so snapshot it before the next step.
    pub fn barrier(&mut self, id: u64) -> Result<Barrier> {
        self.ensure_ready()?;
        if self.barriers.contains_key(&id) {
            let message = format!("checkpoint {id} has its barrier already: give each its own id");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let positions = self.state.positions()?;
        if let Err(error) = self.sinks.prepare(id) {
            self.needs_recovery = true;
            return Err(error);
        }
        let barrier = Barrier { id, positions };
        self.barriers.insert(id, barrier.clone());
        Ok(barrier)
    }

    /// Returns whether the outcome of this checkpoint is still unknown to the pipeline.
    pub(crate) fn has_barrier(&self, id: u64) -> bool {
        self.barriers.contains_key(&id)
    }

    /// Called when the checkpoint is durable: the sinks show their outputs up to its barrier. It may be
    /// repeated after an error.
    pub fn commit_checkpoint(&mut self, id: u64) -> Result<()> {
        let Some(barrier) = self.barriers.get(&id) else {
            let message = format!(
                "this pipeline has no barrier of checkpoint {id}: after a restart, say what it was with `committed_before`"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        };
        self.committed_before(&barrier.clone())
    }

    /// Like `committed`, for a checkpoint from before a restart, whose outcome the sinks may not know. It is
    /// idempotent.
    pub fn committed_before(&mut self, barrier: &Barrier) -> Result<()> {
        self.sinks.commit(barrier.id, &barrier.positions)?;
        self.barriers.remove(&barrier.id);
        Ok(())
    }

    /// Called when the checkpoint is aborted. The sinks' outputs are committed with a later one.
    pub fn abort_checkpoint(&mut self, id: u64) -> Result<()> {
        self.barriers.remove(&id);
        self.sinks.abort(id)
    }
}
