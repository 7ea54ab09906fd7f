//! Coordinator side of the board: posts orders, collects the shards' messages and writes the manifest.

use super::{Board, Order, aborted, ended, read};
use crate::Manifest;
use crate::ShardReport;
use crate::checkpoint::Checkpoints;
use crate::coordinator::{Coordinator, Outcome, Stage};
use mainstay::{Event, Feed, Filter};
use mainstay_model::{Code, Error, Result};
use std::time::Duration;

/// Takes checkpoints of a job with several shards.
pub struct Conductor {
    board: Board,
    checkpoints: Checkpoints,
    coordinator: Coordinator,
    shards: u32,
    epoch: u64,
    timeout: Duration,
}

impl Conductor {
    /// Creates a coordinator and ends the unfinished checkpoint of a previous one. The number of shards must
    /// equal that of the newest checkpoint, if one exists. A checkpoint is aborted if no message arrives
    /// within `timeout`.
    pub fn open(
        board: Board,
        checkpoints: Checkpoints,
        shards: u32,
        timeout: Duration,
    ) -> Result<Conductor> {
        let latest = checkpoints.latest()?;
        let epoch = latest.as_ref().map_or(0, |latest| latest.epoch);
        if let Some(there) = latest.map(|it| it.shards.len()).filter(|it| *it != shards as usize) {
            let message = format!(
                "the newest checkpoint has {there} shards, not {shards}: divide it anew, or begin with as many"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let coordinator = Coordinator::new(shards)?;
        let conductor = Conductor { board, checkpoints, coordinator, shards, epoch, timeout };
        conductor.end_what_was_left()?;
        Ok(conductor)
    }

    fn end_what_was_left(&self) -> Result<()> {
        let Some((mut order, counter)) = self.board.order_counted()? else { return Ok(()) };
        let _ = self.board.wipe(order.checkpoint, order.shards.min(self.checkpoints.job().groups));
        if matches!(order.stage, Stage::Committed | Stage::Aborted { .. }) {
            return Ok(());
        }
        order.stage = ended(&self.checkpoints, &order)?;
        // Keep its files, because the previous coordinator may still be running. A later checkpoint removes
        // unneeded files.
        self.board.give(&order, Some(counter)).map(|_| ())
    }

    /// Takes a checkpoint: waits for all shards, then writes the manifest.
    pub fn checkpoint(&mut self) -> Result<Manifest> {
        self.check_epoch()?;
        let before = self.board.order_counted()?;
        let newest = before.as_ref().map_or(0, |(order, _)| order.checkpoint);
        // Numbers of aborted checkpoints are not reused, because files with these numbers may still be
        // written.
        let id = self.checkpoints.next_id()?.max(newest.saturating_add(1));
        self.coordinator.begin(id)?;
        let taken = self.take(id, before.map(|(_, counter)| counter));
        if taken.is_err() {
            let _ = self.coordinator.abort("it failed");
        }
        let _ = self.board.wipe(id, self.shards);
        taken
    }

    /// Fails if the job was rescaled, because the coordinator of the new epoch owns the board.
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

    fn order(&self, checkpoint: u64, stage: Stage) -> Order {
        let patience_ms = Some(self.timeout.as_millis() as u64);
        Order { checkpoint, epoch: self.epoch, shards: self.shards, patience_ms, stage }
    }

    fn take(&mut self, id: u64, expected: Option<u64>) -> Result<Manifest> {
        let prefix = Some(format!("{}/{id:020}/", self.board.order_name()));
        let filter = Filter { prefix, ..Filter::default() };
        let mut feed = self.board.db.watch(filter, self.board.db.revision())?;
        let mut counter = self.board.give(&self.order(id, Stage::Gathering), expected)?;
        let reports = self.gather(id, &mut feed, &mut counter);
        let committed = reports.and_then(|reports| {
            // The last check by compare-and-swap: a shard that restarted before has ended the checkpoint, and
            // one that restarts later waits.
            counter = self.board.give(&self.order(id, Stage::Committing), Some(counter))?;
            self.checkpoints.commit(id, self.epoch, reports)
        });
        let stage = match &committed {
            Ok(_) => Stage::Committed,
            Err(error) => Stage::Aborted { why: error.message().to_owned() },
        };
        // Ignore a failure: another participant has posted the outcome. If the manifest exists, the next
        // coordinator posts it.
        let _ = self.board.try_give(&self.order(id, stage), Some(counter));
        committed
    }

    /// Collects messages until all shards have reported.
    fn gather(&mut self, id: u64, feed: &mut Feed, counter: &mut u64) -> Result<Vec<ShardReport>> {
        loop {
            let Some(event) = feed.next(self.timeout)? else {
                let why = format!("nobody said anything for {:?}", self.timeout);
                return Err(aborted(id, &why));
            };
            match self.hear(id, &event)? {
                Outcome::Pending => {}
                Outcome::Aligned(upto) => {
                    let order = self.order(id, Stage::Writing { upto });
                    *counter = self.board.give(&order, Some(*counter))?;
                }
                Outcome::Whole(reports) => return Ok(reports),
                Outcome::Aborted(why) => return Err(aborted(id, &why)),
            }
        }
    }

    /// Processes a shard's message. A message with an unknown shard number is ignored.
    fn hear(&mut self, id: u64, event: &Event) -> Result<Outcome> {
        let shard = event.key.rsplit('/').next().and_then(|shard| shard.parse().ok());
        match (shard.filter(|shard| *shard < self.shards), &event.value) {
            (Some(shard), Some(said)) => self.coordinator.said(id, shard, read(said)?),
            _ => Ok(Outcome::Pending),
        }
    }
}
