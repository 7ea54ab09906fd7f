//! Shard side of the board: derives the shard's next action from the order and the shard's own messages.

use super::Board;
use crate::ShardReport;
use crate::checkpoint::Checkpoints;
use crate::coordinator::{Place, Said, Stage};
use mainstay_model::{Result, Stamp};
use std::time::Duration;

/// How long a restarted shard waits for a manifest to be written before it checks for itself.
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// How long a shard waits for the others if the order has no timeout.
const PATIENCE_US: u64 = 120_000_000;

/// A shard's state at the board.
pub(crate) struct Attendance {
    board: Board,
    shard: u32,
    /// The last checkpoint that the shard posted a message for. The flag is true if the message was final (a
    /// report or a failure).
    told: Option<(u64, bool)>,
    /// The checkpoint that the shard has reported and whose outcome it does not know yet.
    written: Option<u64>,
    /// The start of its wait for the others, by the database's clock.
    since_us: Stamp,
}

/// The next action of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Process the next batch.
    Work,
    /// Wait at the current place.
    Wait,
    /// Advance to a place, then write the checkpoint.
    Write { checkpoint: u64, upto: Place },
    /// A checkpoint that the shard has reported is committed.
    Committed(u64),
    /// A checkpoint that the shard has reported is aborted.
    Aborted(u64),
    /// The job was rescaled; stop.
    Leave,
}

impl Attendance {
    pub fn new(board: Board, shard: u32) -> Attendance {
        Attendance { board, shard, told: None, written: None, since_us: 0 }
    }

    /// Ends a checkpoint that this shard had reported before it restarted.
    pub fn begin(&self, shards: u32, checkpoints: &Checkpoints) -> Result<()> {
        self.board.end_for(self.shard, shards, checkpoints, COMMIT_WAIT)
    }

    /// Returns the next action of a shard at a place in an epoch.
    pub fn duty(&mut self, epoch: u64, place: &Place) -> Result<Duty> {
        let Some(order) = self.board.order()? else { return Ok(Duty::Work) };
        let id = order.checkpoint;
        if let Some(written) = self.written.filter(|written| *written < id) {
            // The next checkpoint has begun, so the shard missed the outcome of the last one.
            return Ok(Duty::Aborted(written));
        }
        // The sinks have shown their committed outputs, so the shard may stop.
        if order.epoch > epoch {
            return Ok(Duty::Leave);
        }
        if order.epoch < epoch {
            return Ok(Duty::Work);
        }
        match order.stage {
            Stage::Gathering if self.told == Some((id, true)) => Ok(Duty::Work),
            Stage::Gathering if self.told == Some((id, false)) => self.wait(id, order.patience_ms),
            Stage::Gathering => {
                self.board.say(id, self.shard, &Said::Reached(place.clone()))?;
                (self.told, self.since_us) = (Some((id, false)), self.board.now_us()?);
                Ok(Duty::Wait)
            }
            Stage::Writing { .. } if self.told == Some((id, true)) => Ok(Duty::Work),
            // A shard that joins too late, for example after a crash, fails the checkpoint.
            Stage::Writing { .. } if self.told != Some((id, false)) => {
                self.failed(id, "it was not there when all were asked where they are")?;
                Ok(Duty::Work)
            }
            Stage::Writing { upto } => Ok(Duty::Write { checkpoint: id, upto }),
            Stage::Committed if self.written == Some(id) => Ok(Duty::Committed(id)),
            Stage::Aborted { .. } if self.written == Some(id) => Ok(Duty::Aborted(id)),
            _ => Ok(Duty::Work),
        }
    }

    /// Waits for the others, up to twice the coordinator's timeout. A living coordinator learns from the
    /// failure message that the shard no longer waits. If it is dead, the checkpoint is not continued.
    fn wait(&mut self, checkpoint: u64, patience_ms: Option<u64>) -> Result<Duty> {
        let patience_us =
            patience_ms.map_or(PATIENCE_US, |patience| patience.saturating_mul(2_000));
        if self.board.now_us()?.saturating_sub(self.since_us) <= patience_us {
            return Ok(Duty::Wait);
        }
        self.failed(checkpoint, "it waited in vain for its coordinator to go on")?;
        Ok(Duty::Work)
    }

    /// Records that the sinks know the outcome of a checkpoint.
    pub fn heard(&mut self, checkpoint: u64) {
        self.written.take_if(|written| *written == checkpoint);
    }

    pub fn reported(&mut self, report: ShardReport) -> Result<()> {
        let id = report.checkpoint;
        self.board.say(id, self.shard, &Said::Report(Box::new(report)))?;
        self.told = Some((id, true));
        self.written = Some(id);
        Ok(())
    }

    pub fn failed(&mut self, checkpoint: u64, why: &str) -> Result<()> {
        self.told = Some((checkpoint, true));
        self.board.say(checkpoint, self.shard, &Said::Failed(why.to_owned()))
    }
}
