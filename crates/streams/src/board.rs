//! Coordination of a job's coordinator and shards through cells of a database, embedded or remote.
//!
//! ```text
//!   coordinator --order { checkpoint, stage }--> cell  jobs/<job>/checkpoint            --> shards read it with each batch
//!               <--reached, report, failed------ cells jobs/<job>/checkpoint/<id>/<shard> <-- shards
//! ```
//!
//! The order changes by compare-and-swap, so of two coordinators only one continues. A coordinator that
//! starts after a crash ends the unfinished checkpoint: it is committed if its manifest exists, otherwise
//! aborted. A restarted shard ends it too, because the shard may have lost the state it reported.

mod attendance;
mod conductor;

pub(crate) use attendance::{Attendance, Duty};
pub use conductor::Conductor;

use crate::checkpoint::Checkpoints;
use crate::coordinator::{Said, Stage};
use mainstay::{CellCommand, Database, Filter, Name, Revision, Transaction};
use mainstay_model::{Code, Error, Result, Stamp, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The order of the coordinator to the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// The number of rescalings before it.
    pub epoch: u64,
    /// The number of shards.
    pub shards: u32,
    /// How long the coordinator waits for a message, in milliseconds; `None` if unknown.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// The stage of the checkpoint.
    pub stage: Stage,
}

/// The cells through which a job's coordinator and shards communicate.
#[derive(Clone)]
pub struct Board {
    db: Database,
    job: String,
}

impl Board {
    /// The board of a job, in a database that all of them can reach.
    pub fn new(db: Database, job: &str) -> Result<Board> {
        let board = Board { db, job: job.to_owned() };
        Name::new(&board.order_name())?;
        Ok(board)
    }

    /// Reads the order; `None` before the first checkpoint.
    pub fn order(&self) -> Result<Option<Order>> {
        Ok(self.order_counted()?.map(|(order, _)| order))
    }

    /// Posts a shard's message, which replaces its previous message about this checkpoint.
    pub fn say(&self, checkpoint: u64, shard: u32, said: &Said) -> Result<()> {
        self.db.cells().set(&self.said_name(checkpoint, shard), text(said)?)?;
        Ok(())
    }

    /// The current time of the database.
    fn now_us(&self) -> Result<Stamp> {
        self.db.now_us()
    }

    fn order_name(&self) -> String {
        format!("jobs/{}/checkpoint", self.job)
    }

    fn said_name(&self, checkpoint: u64, shard: u32) -> String {
        format!("{}/{checkpoint:020}/{shard}", self.order_name())
    }

    fn order_counted(&self) -> Result<Option<(Order, u64)>> {
        let Some(cell) = self.db.cells().get_versioned(&self.order_name())? else {
            return Ok(None);
        };
        Ok(Some((read(&cell.value)?, cell.counter)))
    }

    /// Changes the order by compare-and-swap. Returns its new counter, or `None` if it has changed.
    fn try_give(&self, order: &Order, expected: Option<u64>) -> Result<Option<u64>> {
        self.db.cells().cas(&self.order_name(), expected, text(order)?)
    }

    /// Changes the order by compare-and-swap. Fails if it has changed. Returns its new counter.
    fn give(&self, order: &Order, expected: Option<u64>) -> Result<u64> {
        match self.try_give(order, expected)? {
            Some(counter) => Ok(counter),
            None => Err(self.lost(order.checkpoint)?),
        }
    }

    /// The reason why an order has been replaced.
    fn lost(&self, checkpoint: u64) -> Result<Error> {
        let order = self.order()?.filter(|order| order.checkpoint == checkpoint);
        if let Some(Order { stage: Stage::Aborted { why }, .. }) = order {
            return Ok(aborted(checkpoint, &why));
        }
        let message = format!("another coordinator of job `{}` is at work: let it be", self.job);
        Ok(Error::new(Code::Conflict, message))
    }

    /// Ends an unfinished checkpoint for a restarted shard, because the shard may have lost the state it
    /// reported when it went back to the last checkpoint. If the manifest is being written, waits as long as
    /// its coordinator may take.
    fn end_for(
        &self,
        shard: u32,
        shards: u32,
        checkpoints: &Checkpoints,
        wait: Duration,
    ) -> Result<()> {
        loop {
            let after = self.db.revision();
            let Some((mut order, counter)) = self.order_counted()? else { return Ok(()) };
            // Orders of another rescaling do not concern this shard.
            if order.shards != shards {
                return Ok(());
            }
            match order.stage {
                Stage::Writing { .. } => {
                    let why = format!("shard {shard} began again");
                    order.stage = Stage::Aborted { why: why.clone() };
                    if self.try_give(&order, Some(counter))?.is_some() {
                        // Wakes the coordinator, which waits for messages of shards.
                        return self.say(order.checkpoint, shard, &Said::Failed(why));
                    }
                }
                Stage::Committing if self.changes_within(wait, after)? => {}
                Stage::Committing => {
                    order.stage = ended(checkpoints, &order)?;
                    self.try_give(&order, Some(counter))?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Waits for a change after a revision. Returns whether one occurred.
    fn changes_within(&self, wait: Duration, after: Revision) -> Result<bool> {
        let filter = Filter { prefix: Some(self.order_name()), ..Filter::default() };
        Ok(self.db.watch(filter, after)?.next(wait)?.is_some())
    }

    /// Deletes the messages about a finished checkpoint.
    fn wipe(&self, checkpoint: u64, shards: u32) -> Result<()> {
        let mut transaction = Transaction::new();
        for shard in 0..shards {
            let name = Name::new(&self.said_name(checkpoint, shard))?;
            transaction = transaction.step(CellCommand::Delete { name, counter: None });
        }
        self.db.execute(transaction).map(|_| ())
    }
}

fn text<T: Serialize>(what: &T) -> Result<Value> {
    let text = serde_json::to_string(what).map_err(|error| {
        Error::new(Code::InvalidValue, format!("a note for the board: {error}"))
    })?;
    Ok(Value::from(text))
}

pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        let message = format!("a note on the board of a job cannot be read: {error}");
        Error::new(Code::CorruptData, message)
    })
}

/// The final stage of a checkpoint whose coordinator died: committed if its manifest exists.
fn ended(checkpoints: &Checkpoints, order: &Order) -> Result<Stage> {
    Ok(if checkpoints.is_committed(order.checkpoint, order.epoch)? {
        Stage::Committed
    } else {
        Stage::Aborted { why: "its coordinator ended".to_owned() }
    })
}

#[cold]
fn aborted(checkpoint: u64, why: &str) -> Error {
    Error::new(Code::CheckpointAborted, format!("checkpoint {checkpoint} is not: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Job, Shelf};

    /// A board on which the manifest of checkpoint 1 is being written.
    fn committing(directory: &std::path::Path) -> (Board, Checkpoints) {
        let board = Board::new(Database::memory().unwrap(), "job").unwrap();
        let shelf = Shelf::directory(directory).unwrap();
        let checkpoints = Checkpoints::open(shelf, Job::new("job", "counts")).unwrap();
        let patience_ms = None;
        let stage = Stage::Committing;
        let order = Order { checkpoint: 1, epoch: 0, shards: 2, patience_ms, stage };
        board.give(&order, None).unwrap();
        (board, checkpoints)
    }

    #[test]
    fn a_manifest_that_is_being_written_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (board, checkpoints) = committing(directory.path());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                board.end_for(1, 2, &checkpoints, Duration::from_secs(600)).unwrap();
                board.order().unwrap().unwrap().stage
            });
            let (mut order, counter) = board.order_counted().unwrap().unwrap();
            order.stage = Stage::Committed;
            board.give(&order, Some(counter)).unwrap();
            assert_eq!(waits.join().unwrap(), Stage::Committed);
        });
    }

    #[test]
    fn whoever_waits_for_one_that_died_looks_for_the_manifest() {
        let directory = tempfile::tempdir().unwrap();
        let (board, checkpoints) = committing(directory.path());
        board.end_for(1, 2, &checkpoints, Duration::from_millis(1)).unwrap();
        assert!(matches!(board.order().unwrap().unwrap().stage, Stage::Aborted { .. }));
        let (board, checkpoints) = committing(directory.path());
        checkpoints.take(&crate::MemoryState::new()).unwrap();
        board.end_for(1, 2, &checkpoints, Duration::from_millis(1)).unwrap();
        assert_eq!(board.order().unwrap().unwrap().stage, Stage::Committed);
        // Orders of another rescaling are left unchanged.
        let (board, checkpoints) = committing(directory.path());
        board.end_for(1, 3, &checkpoints, Duration::from_millis(1)).unwrap();
        assert_eq!(board.order().unwrap().unwrap().stage, Stage::Committing);
    }
}
