//! Sinks: destinations of outputs, with two-phase commit by checkpoint.
//!
//! ```text
//!   assign(share)      the shard whose outputs it takes
//!        |
//!   open(position)     the position in the state: outputs beyond are dropped, or recognized when they come again
//!        |
//!   write, flush ...   one batch; then state and position are written, atomically
//!        |
//!   prepare(id) ------ checkpoint id is taken ------ commit(id, position)      or abort(id)
//!   durable                                          visible
//! ```
//!
//! A crash may occur between any two calls. The position stored with the states is authoritative.

mod file;
mod idempotent;
mod memory;
mod part_files;
mod sink_set;

pub use file::FileSink;
pub use idempotent::IdempotentSink;
pub use memory::MemorySink;
pub use part_files::CommittedOutput;
#[cfg(any(test, fuzzing))]
pub(crate) use part_files::reformat_name;
pub use sink_set::SinkLag;
pub(crate) use sink_set::SinkSet;

use crate::output::Output;
use mainstay_model::Result;
use std::fmt;

/// A destination of outputs.
///
/// A position counts the outputs since the beginning, in the sink's own unit. The same outputs always lead to
/// the same positions.
pub trait Sink<O>: Send {
    /// The sink's name, under which its position is stored.
    fn name(&self) -> &str;

    /// Called before `open` with the shard whose outputs the sink will take. Returns the shard whose outputs
    /// it already holds, if known. A pipeline without a worker does not call it.
    fn assign(&mut self, shard_id: ShardId) -> Result<ShardId> {
        Ok(shard_id)
    }

    /// Opens or reopens the sink at the position in the state. Outputs beyond the position will come again,
    /// identically. The sink truncates them or, if readers have already seen them, skips exactly as many.
    fn open(&mut self, position: u64) -> Result<OpenStatus>;

    /// Called when the sink holds less than its position and all earlier outputs were shown elsewhere. An
    /// empty sink that its user has configured for this starts at the position. Other sinks do nothing.
    fn begin_at(&mut self, _position: u64) -> Result<()> {
        Ok(())
    }

    /// Writes outputs. Returns the position after them.
    fn write(&mut self, outputs: &[Output<O>]) -> Result<u64>;

    /// Moves the outputs out of this process's memory. The state is written after it.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes all written outputs durable, for a checkpoint.
    fn prepare(&mut self, checkpoint: u64) -> Result<()>;

    /// Makes the prepared outputs up to a position visible. It is idempotent.
    fn commit(&mut self, checkpoint: u64, position: u64) -> Result<()>;

    /// Called when the checkpoint is aborted. The outputs remain valid and are committed with a later one.
    fn abort(&mut self, checkpoint: u64) -> Result<()>;
}

/// The shard whose outputs a sink takes. Positions of different shards are independent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardId {
    /// The number of rescalings before.
    pub epoch: u64,
    /// The shard's number.
    pub shard: u32,
}

impl fmt::Display for ShardId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "shard {} of epoch {}", self.shard, self.epoch)
    }
}

/// The result of opening a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenStatus {
    /// The sink continues at the position.
    Ready,
    /// The sink holds less than its position in the state, because a power failure lost unprepared outputs.
    /// The state must go back to the last checkpoint.
    Lagging {
        /// The position that the sink holds.
        position: u64,
    },
}
