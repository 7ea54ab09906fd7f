//! A shard at the board: what it has to do, and what it has said.

use super::Board;
use crate::ShardReport;
use crate::checkpoint::Checkpoints;
use crate::coordinator::{Place, Said, Stage};
use mainstay_model::{Result, Stamp};
use std::time::Duration;

/// How long the writing of a manifest may take before a shard that waits for it looks for itself.
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// How long a shard waits for the others where the coordinator has not said how long it does.
const PATIENCE_US: u64 = 120_000_000;

/// What a shard has heard and said.
pub(crate) struct Attendance {
    board: Board,
    shard: u32,
    /// What it said last.
    told: Option<(u64, bool)>,
    /// The checkpoint that it has written for, and of which it has not heard what became of it.
    written: Option<u64>,
    /// Since when it waits for the others, by the clock of the database.
    since_us: Stamp,
}

/// What a shard has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Go on with its work.
    Work,
    /// Stay where it is.
    Wait,
    /// Go to a place and write for a checkpoint.
    Write { checkpoint: u64, upto: Place },
    /// A checkpoint that it wrote for is committed.
    Committed(u64),
    /// A checkpoint that it wrote for will not be.
    Aborted(u64),
    /// The work was divided anew.
    Leave,
}

impl Attendance {
    pub fn new(board: Board, shard: u32) -> Attendance {
        Attendance { board, shard, told: None, written: None, since_us: 0 }
    }

    /// Begins: a checkpoint that this shard has reported for, before it ended and began again, will not be.
    pub fn begin(&self, shards: u32, checkpoints: &Checkpoints) -> Result<()> {
        self.board.end_for(self.shard, shards, checkpoints, COMMIT_WAIT)
    }

    /// What is to be done, for a shard of an epoch that is at a place.
    pub fn duty(&mut self, epoch: u64, place: &Place) -> Result<Duty> {
        let Some(order) = self.board.order()? else { return Ok(Duty::Work) };
        let id = order.checkpoint;
        if let Some(written) = self.written.filter(|written| *written < id) {
            // The next one has begun: what became of the last one was not heard.
            return Ok(Duty::Aborted(written));
        }
        // Sinks have shown what they were to show: now it can go.
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
            // Who comes too late for it, after a crash say, fails it.
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

    /// Waits for the others, but not for ever: a coordinator that still lives hears by then that one is late, and if it
    /// does not, nobody goes on with this checkpoint.
    fn wait(&mut self, checkpoint: u64, patience_ms: Option<u64>) -> Result<Duty> {
        let patience_us =
            patience_ms.map_or(PATIENCE_US, |patience| patience.saturating_mul(2_000));
        if self.board.now_us()?.saturating_sub(self.since_us) <= patience_us {
            return Ok(Duty::Wait);
        }
        self.failed(checkpoint, "it waited in vain for its coordinator to go on")?;
        Ok(Duty::Work)
    }

    /// The sinks know what became of a checkpoint.
    pub fn heard(&mut self, checkpoint: u64) {
        self.written.take_if(|written| *written == checkpoint);
    }

    pub fn reported(&mut self, report: ShardReport) -> Result<()> {
        let id = report.checkpoint;
        self.board.say(id, self.shard, &Said::Report(Box::new(report)))?;
        (self.told, self.written) = (Some((id, true)), Some(id));
        Ok(())
    }

    pub fn failed(&mut self, checkpoint: u64, why: &str) -> Result<()> {
        self.told = Some((checkpoint, true));
        self.board.say(checkpoint, self.shard, &Said::Failed(why.to_owned()))
    }
}
