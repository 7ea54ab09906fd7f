//! Coordinator side of the checkpoint protocol: publishes phases, collects the shards' messages and writes the manifest.

use super::{
    CheckpointStatus, CoordinationStore, CoordinatorState, Outcome, Phase, aborted_error, decode,
    final_phase,
};
use crate::Manifest;
use crate::ShardReport;
use crate::checkpoint::Checkpoints;
use mainstay::{Event, Feed, Filter};
use mainstay_model::{Code, Error, Result};
use std::time::Duration;

/// Takes checkpoints of a job with several shards.
pub struct CheckpointCoordinator {
    store: CoordinationStore,
    checkpoints: Checkpoints,
    state: CoordinatorState,
    shards: u32,
    epoch: u64,
    timeout: Duration,
}

impl CheckpointCoordinator {
    /// Creates a coordinator and ends the unfinished checkpoint of a previous one. The number of shards must
    /// equal that of the newest checkpoint, if one exists. A checkpoint is aborted if no message arrives
    /// within `timeout`.
    pub fn open(
        store: CoordinationStore,
        checkpoints: Checkpoints,
        shards: u32,
        timeout: Duration,
    ) -> Result<CheckpointCoordinator> {
        let latest = checkpoints.latest()?;
        let epoch = latest.as_ref().map_or(0, |latest| latest.epoch);
        if let Some(actual) = latest.map(|it| it.shards.len()).filter(|it| *it != shards as usize) {
            let message = format!(
                "the newest checkpoint has {actual} shards, not {shards}: divide it anew, or begin with as many"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let state = CoordinatorState::new(shards)?;
        let checkpoint_coordinator =
            CheckpointCoordinator { store, checkpoints, state, shards, epoch, timeout };
        checkpoint_coordinator.resolve_unfinished()?;
        Ok(checkpoint_coordinator)
    }

    fn resolve_unfinished(&self) -> Result<()> {
        let Some((mut status, counter)) = self.store.versioned_status()? else { return Ok(()) };
        let _ = self
            .store
            .delete_messages(status.checkpoint, status.shards.min(self.checkpoints.job().groups));
        if matches!(status.phase, Phase::Committed | Phase::Aborted { .. }) {
            return Ok(());
        }
        status.phase = final_phase(&self.checkpoints, &status)?;
        // Keep its files, because the previous coordinator may still be running. A later checkpoint removes
        // unneeded files.
        self.store.update(&status, Some(counter)).map(|_| ())
    }

    /// Takes a checkpoint: waits for all shards, then writes the manifest.
    pub fn checkpoint(&mut self) -> Result<Manifest> {
        self.check_epoch()?;
        let previous = self.store.versioned_status()?;
        let newest_id = previous.as_ref().map_or(0, |(status, _)| status.checkpoint);
        // Numbers of aborted checkpoints are not reused, because files with these numbers may still be
        // written.
        let id = self.checkpoints.next_id()?.max(newest_id.saturating_add(1));
        self.state.begin(id)?;
        let manifest = self.run_round(id, previous.map(|(_, counter)| counter));
        if manifest.is_err() {
            let _ = self.state.abort("it failed");
        }
        let _ = self.store.delete_messages(id, self.shards);
        manifest
    }

    /// Fails if the job was rescaled, because the coordinator of the new epoch owns the coordination store.
    fn check_epoch(&self) -> Result<()> {
        let epoch = self.checkpoints.latest()?.map_or(0, |latest| latest.epoch);
        if epoch <= self.epoch {
            return Ok(());
        }
        let message = format!(
            "the work was divided anew, and epoch {} is over: its coordinator is not needed any more",
            self.epoch
        );
        Err(Error::new(Code::Fenced, message))
    }

    fn status(&self, checkpoint: u64, phase: Phase) -> CheckpointStatus {
        let patience_ms = Some(self.timeout.as_millis() as u64);
        CheckpointStatus { checkpoint, epoch: self.epoch, shards: self.shards, patience_ms, phase }
    }

    fn run_round(&mut self, id: u64, expected: Option<u64>) -> Result<Manifest> {
        let prefix = Some(format!("{}/{id:020}/", self.store.status_cell()));
        let filter = Filter { prefix, ..Filter::default() };
        let mut feed = self.store.db.watch(filter, self.store.db.revision())?;
        let mut counter = self.store.update(&self.status(id, Phase::Gathering), expected)?;
        let reports = self.collect_reports(id, &mut feed, &mut counter);
        let committed = reports.and_then(|reports| {
            // The last check by compare-and-swap: a shard that restarted before has ended the checkpoint, and
            // one that restarts later waits.
            counter = self.store.update(&self.status(id, Phase::Committing), Some(counter))?;
            self.checkpoints.commit(id, self.epoch, reports)
        });
        let phase = match &committed {
            Ok(_) => Phase::Committed,
            Err(error) => Phase::Aborted { why: error.message().to_owned() },
        };
        // Ignore a failure: another participant has posted the outcome. If the manifest exists, the next
        // coordinator posts it.
        let _ = self.store.compare_and_set(&self.status(id, phase), Some(counter));
        committed
    }

    /// Collects messages until all shards have reported.
    fn collect_reports(
        &mut self,
        id: u64,
        feed: &mut Feed,
        counter: &mut u64,
    ) -> Result<Vec<ShardReport>> {
        loop {
            let Some(event) = feed.next(self.timeout)? else {
                let why = format!("nobody said anything for {:?}", self.timeout);
                return Err(aborted_error(id, &why));
            };
            match self.handle_event(id, &event)? {
                Outcome::Pending => {}
                Outcome::Aligned(upto) => {
                    let status = self.status(id, Phase::Writing { upto });
                    *counter = self.store.update(&status, Some(*counter))?;
                }
                Outcome::Complete(reports) => return Ok(reports),
                Outcome::Aborted(why) => return Err(aborted_error(id, &why)),
            }
        }
    }

    /// Processes a shard's message. A message with an unknown shard number is ignored.
    fn handle_event(&mut self, id: u64, event: &Event) -> Result<Outcome> {
        let shard = event.key.rsplit('/').next().and_then(|shard| shard.parse().ok());
        match (shard.filter(|shard| *shard < self.shards), &event.value) {
            (Some(shard), Some(message)) => self.state.handle(id, shard, decode(message)?),
            _ => Ok(Outcome::Pending),
        }
    }
}
