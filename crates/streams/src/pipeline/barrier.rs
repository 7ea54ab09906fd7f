//! Where a checkpoint stands in the stream.
//!
//! ```text
//!   step step | barrier(id): sinks on stable storage | step step ...
//!             '-- checkpoint of the state, as it is here --> durable --> committed(id): sinks show it
//!                                                        '-> failed ---> aborted(id)
//! ```

use super::Pipeline;
use crate::operator::Operator;
use mainstay_model::{Code, Error, Result};
use std::collections::BTreeMap;

/// Where a checkpoint stands in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint.
    pub id: u64,
    /// The positions that stand with the states there.
    pub positions: BTreeMap<String, u64>,
}

impl Barrier {
    /// Whether a state with these positions has come so far.
    pub(super) fn is_within(&self, positions: &BTreeMap<String, u64>) -> bool {
        let reached = |name| positions.get(name).copied().unwrap_or(0);
        self.positions.iter().all(|(name, position)| reached(name) >= *position)
    }
}

impl<P: Operator> Pipeline<P> {
    /// Has all sinks put what they have taken on stable storage, and says where in the stream that is. The state as it is
    /// now is the checkpoint's: it is to be taken before the next step.
    pub fn barrier(&mut self, id: u64) -> Result<Barrier> {
        self.ready()?;
        if self.barriers.contains_key(&id) {
            let message = format!("checkpoint {id} has its barrier already: give each its own id");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let positions = self.state.positions()?;
        if let Err(error) = self.outlet.prepare(id) {
            self.broken = true;
            return Err(error);
        }
        let barrier = Barrier { id, positions };
        self.barriers.insert(id, barrier.clone());
        Ok(barrier)
    }

    /// Whether it has stood at a checkpoint's barrier, and not yet heard what became of that.
    pub(crate) fn awaits(&self, id: u64) -> bool {
        self.barriers.contains_key(&id)
    }

    /// The checkpoint is durable: the sinks show what they had taken by its barrier. After an error it can be said again.
    pub fn committed(&mut self, id: u64) -> Result<()> {
        let Some(barrier) = self.barriers.get(&id) else {
            let message = format!(
                "this pipeline has no barrier of checkpoint {id}: after a restart, say what it was with `committed_before`"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        };
        self.committed_before(&barrier.clone())
    }

    /// A checkpoint that was taken before a restart is durable: it may be that the sinks were not told. A second time does
    /// nothing.
    pub fn committed_before(&mut self, barrier: &Barrier) -> Result<()> {
        self.outlet.commit(barrier.id, &barrier.positions)?;
        self.barriers.remove(&barrier.id);
        Ok(())
    }

    /// The checkpoint will not be. What the sinks have taken is committed with a later one.
    pub fn aborted(&mut self, id: u64) -> Result<()> {
        self.barriers.remove(&id);
        self.outlet.abort(id)
    }
}
