//! Sinks: where outputs go.
//!
//! ```text
//!   assign(share)      whose outputs it takes
//!        |
//!   open(position)     the state says how much was taken: what is beyond is given up, or known when it comes again
//!        |
//!   write, flush ...   one batch; then state and position are written, at once
//!        |
//!   prepare(id) ------ checkpoint id is taken ------ commit(id, position)      or abort(id)
//!   on stable storage                                visible
//! ```
//!
//! A crash can come between any two of these. The position that stands with the states decides what counts.

mod file;
mod idempotent;
mod memory;
mod stock;

pub use file::FileSink;
pub use idempotent::IdempotentSink;
pub use memory::MemorySink;
pub use stock::Committed;
#[cfg(any(test, fuzzing))]
pub(crate) use stock::name_again;

use crate::output::Output;
use mainstay_model::Result;
use std::fmt;

/// Where outputs go.
///
/// A position is how much a sink has taken since the beginning, in whatever it counts. The same outputs lead to the same
/// positions, always.
pub trait Sink<O>: Send {
    /// What it is called; its position is kept under this name.
    fn name(&self) -> &str;

    /// Is told whose outputs it will take, before it is opened; says whose it holds already, where that is known. A
    /// pipeline that has no worker tells nothing.
    fn assign(&mut self, share: Share) -> Result<Share> {
        Ok(share)
    }

    /// Begins, or begins again after something failed, where the state says that it was. What it holds beyond the position
    /// will come again, the same: it cuts that off, or, where others have seen it, passes over exactly so much.
    fn open(&mut self, position: u64) -> Result<Opened>;

    /// It holds less than it should, and up to a position all was shown: a sink that holds nothing, and was told by its user
    /// that what comes before is elsewhere, begins there. Others do nothing.
    fn begin_at(&mut self, _position: u64) -> Result<()> {
        Ok(())
    }

    /// Takes outputs; gives the position behind them.
    fn write(&mut self, outputs: &[Output<O>]) -> Result<u64>;

    /// Gets what was taken out of the memory of this process. The state is written behind it.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Puts all that was taken on stable storage: a checkpoint is being taken.
    fn prepare(&mut self, checkpoint: u64) -> Result<()>;

    /// Makes visible what was taken up to a position, which was prepared. A second time does nothing.
    fn commit(&mut self, checkpoint: u64, position: u64) -> Result<()>;

    /// The checkpoint will not be. What was taken is still right, and is committed with a later one.
    fn abort(&mut self, checkpoint: u64) -> Result<()>;
}

/// Whose outputs a sink takes: positions of one say nothing about those of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How often the work had been divided anew.
    pub epoch: u64,
    /// The shard.
    pub shard: u32,
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "shard {} of epoch {}", self.shard, self.epoch)
    }
}

/// What a sink says when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It goes on at the position.
    Ready,
    /// It holds less than the state says it has taken: a power cut lost what was not prepared. The state has to go back to
    /// the last checkpoint.
    Behind {
        /// How much it holds.
        held: u64,
    },
}
