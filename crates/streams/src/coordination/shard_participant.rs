//! Shard side of the checkpoint protocol: derives the next action from the status and the shard's messages.

use super::{CoordinationStore, Phase, ShardStatus};
use crate::checkpoint::Checkpoints;
use crate::{ShardReport, SourcePositions};
use mainstay_model::{Result, Stamp};
use std::time::Duration;

/// How long a restarted shard waits for a manifest to be written before it checks for itself.
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// How long a shard waits for the others if the status has no timeout.
const WAIT_DEFAULT_US: u64 = 120_000_000;

/// A shard's state in the checkpoint protocol.
pub(crate) struct ShardParticipant {
    store: CoordinationStore,
    shard: u32,
    /// The last checkpoint that the shard posted a message for. The flag is true if the message was final (a
    /// report or a failure).
    posted: Option<(u64, bool)>,
    /// The checkpoint that the shard has reported and whose outcome it does not know yet.
    reported: Option<u64>,
    /// The start of its wait for the others, by the database's clock.
    wait_start_us: Stamp,
}

/// The next action of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShardAction {
    /// Process the next batch.
    Process,
    /// Wait at the current place.
    Wait,
    /// Advance to a place, then write the checkpoint.
    WriteSnapshot { checkpoint: u64, upto: SourcePositions },
    /// A checkpoint that the shard has reported is committed.
    Committed(u64),
    /// A checkpoint that the shard has reported is aborted.
    Aborted(u64),
    /// The job was rescaled; stop.
    Stop,
}

impl ShardParticipant {
    pub fn new(store: CoordinationStore, shard: u32) -> ShardParticipant {
        ShardParticipant { store, shard, posted: None, reported: None, wait_start_us: 0 }
    }

    /// Ends a checkpoint that this shard had reported before it restarted.
    pub fn resolve_unfinished(&self, shards: u32, checkpoints: &Checkpoints) -> Result<()> {
        self.store.resolve_for_shard(self.shard, shards, checkpoints, COMMIT_WAIT)
    }

    /// Returns the next action of a shard at a place in an epoch.
    pub fn next_action(&mut self, epoch: u64, positions: &SourcePositions) -> Result<ShardAction> {
        let Some(status) = self.store.status()? else { return Ok(ShardAction::Process) };
        let id = status.checkpoint;
        if let Some(reported) = self.reported.filter(|reported| *reported < id) {
            // The next checkpoint has begun, so the shard missed the outcome of the last one.
            return Ok(ShardAction::Aborted(reported));
        }
        // The sinks have shown their committed outputs, so the shard may stop.
        if status.epoch > epoch {
            return Ok(ShardAction::Stop);
        }
        if status.epoch < epoch {
            return Ok(ShardAction::Process);
        }
        match status.phase {
            Phase::Gathering if self.posted == Some((id, true)) => Ok(ShardAction::Process),
            Phase::Gathering if self.posted == Some((id, false)) => {
                self.wait(id, status.patience_ms)
            }
            Phase::Gathering => {
                self.store.post(id, self.shard, &ShardStatus::Reached(positions.clone()))?;
                (self.posted, self.wait_start_us) = (Some((id, false)), self.store.now_us()?);
                Ok(ShardAction::Wait)
            }
            Phase::Writing { .. } if self.posted == Some((id, true)) => Ok(ShardAction::Process),
            // A shard that joins too late, for example after a crash, fails the checkpoint.
            Phase::Writing { .. } if self.posted != Some((id, false)) => {
                self.post_failure(id, "it was not there when all were asked where they are")?;
                Ok(ShardAction::Process)
            }
            Phase::Writing { upto } => Ok(ShardAction::WriteSnapshot { checkpoint: id, upto }),
            Phase::Committed if self.reported == Some(id) => Ok(ShardAction::Committed(id)),
            Phase::Aborted { .. } if self.reported == Some(id) => Ok(ShardAction::Aborted(id)),
            _ => Ok(ShardAction::Process),
        }
    }

    /// Waits for the others, up to twice the coordinator's timeout. A living coordinator learns from the
    /// failure message that the shard no longer waits. If it is dead, the checkpoint is not continued.
    fn wait(&mut self, checkpoint: u64, patience_ms: Option<u64>) -> Result<ShardAction> {
        let timeout_us =
            patience_ms.map_or(WAIT_DEFAULT_US, |timeout_ms| timeout_ms.saturating_mul(2_000));
        if self.store.now_us()?.saturating_sub(self.wait_start_us) <= timeout_us {
            return Ok(ShardAction::Wait);
        }
        self.post_failure(checkpoint, "it waited in vain for its coordinator to go on")?;
        Ok(ShardAction::Process)
    }

    /// Records that the sinks know the outcome of a checkpoint.
    pub fn acknowledge_outcome(&mut self, checkpoint: u64) {
        self.reported.take_if(|reported| *reported == checkpoint);
    }

    pub fn post_report(&mut self, report: ShardReport) -> Result<()> {
        let id = report.checkpoint;
        self.store.post(id, self.shard, &ShardStatus::Report(Box::new(report)))?;
        self.posted = Some((id, true));
        self.reported = Some(id);
        Ok(())
    }

    pub fn post_failure(&mut self, checkpoint: u64, why: &str) -> Result<()> {
        self.posted = Some((checkpoint, true));
        self.store.post(checkpoint, self.shard, &ShardStatus::Failed(why.to_owned()))
    }
}
