//! Where coordinator and shards meet: cells of a database, in this process or served to several.
//!
//! ```text
//!   coordinator --order { checkpoint, stage }--> cell  jobs/<job>/checkpoint            --> shards look with each batch
//!               <--reached, report, failed------ cells jobs/<job>/checkpoint/<id>/<shard> <-- shards
//! ```
//!
//! The order changes by compare-and-swap: of two coordinators one goes on. One that comes after a crash finds what was under
//! way: if its manifest is there it is committed, else aborted. A shard that begins again ends it, too: what it had
//! reported it may have no more.

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

/// What shards are asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The checkpoint.
    pub checkpoint: u64,
    /// How often the work was divided anew before it.
    pub epoch: u64,
    /// How many shards there are.
    pub shards: u32,
    /// How long its coordinator waits for a word, in milliseconds; nothing: nobody said.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// What is to be done.
    pub stage: Stage,
}

/// Where coordinator and shards of a job meet.
#[derive(Clone)]
pub struct Board {
    db: Database,
    job: String,
}

impl Board {
    /// The board of a job, in a database that all of them reach.
    pub fn new(db: Database, job: &str) -> Result<Board> {
        let board = Board { db, job: job.to_owned() };
        Name::new(&board.order_name())?;
        Ok(board)
    }

    /// What shards are asked to do; nothing before the first checkpoint.
    pub fn order(&self) -> Result<Option<Order>> {
        Ok(self.order_counted()?.map(|(order, _)| order))
    }

    /// Says something for a shard. What it said before about this checkpoint is replaced.
    pub fn say(&self, checkpoint: u64, shard: u32, said: &Said) -> Result<()> {
        self.db.cells().set(&self.said_name(checkpoint, shard), text(said)?)?;
        Ok(())
    }

    /// What time it is in the database.
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

    /// Changes the order, if it is still the one that was read; gives its counter, or nothing.
    fn try_give(&self, order: &Order, expected: Option<u64>) -> Result<Option<u64>> {
        self.db.cells().cas(&self.order_name(), expected, text(order)?)
    }

    /// Changes the order, if it is still the one that was read; gives its counter.
    fn give(&self, order: &Order, expected: Option<u64>) -> Result<u64> {
        match self.try_give(order, expected)? {
            Some(counter) => Ok(counter),
            None => Err(self.lost(order.checkpoint)?),
        }
    }

    /// Why an order is no longer the one that was given.
    fn lost(&self, checkpoint: u64) -> Result<Error> {
        let order = self.order()?.filter(|order| order.checkpoint == checkpoint);
        if let Some(Order { stage: Stage::Aborted { why }, .. }) = order {
            return Ok(aborted(checkpoint, &why));
        }
        let message = format!("another coordinator of job `{}` is at work: let it be", self.job);
        Ok(Error::new(Code::Conflict, message))
    }

    /// Ends what is under way, for a shard that begins again: what it had reported it may have no more once it has gone back
    /// to the last checkpoint. A manifest that is being written is waited for, as long as its coordinator may take.
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
            // Those of another division are no concern of this one.
            if order.shards != shards {
                return Ok(());
            }
            match order.stage {
                Stage::Writing { .. } => {
                    let why = format!("shard {shard} began again");
                    order.stage = Stage::Aborted { why: why.clone() };
                    if self.try_give(&order, Some(counter))?.is_some() {
                        // Its coordinator waits for what shards say, and hears it now.
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

    /// Waits for a change behind a revision; says whether there was one.
    fn changes_within(&self, wait: Duration, after: Revision) -> Result<bool> {
        let filter = Filter { prefix: Some(self.order_name()), ..Filter::default() };
        Ok(self.db.watch(filter, after)?.next(wait)?.is_some())
    }

    /// Removes what was said about a checkpoint that is over.
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

/// What became of a checkpoint whose coordinator ended: if its manifest is there, it is one.
fn ended(checkpoints: &Checkpoints, order: &Order) -> Result<Stage> {
    Ok(match checkpoints.is_committed(order.checkpoint, order.epoch)? {
        true => Stage::Committed,
        false => Stage::Aborted { why: "its coordinator ended".to_owned() },
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

    /// A board where the manifest of checkpoint 1 is being written.
    fn committing(directory: &std::path::Path) -> (Board, Checkpoints) {
        let board = Board::new(Database::memory().unwrap(), "job").unwrap();
        let shelf = Shelf::directory(directory).unwrap();
        let checkpoints = Checkpoints::open(shelf, Job::new("job", "counts")).unwrap();
        let (patience_ms, stage) = (None, Stage::Committing);
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
        // Those of another division are left alone.
        let (board, checkpoints) = committing(directory.path());
        board.end_for(1, 3, &checkpoints, Duration::from_millis(1)).unwrap();
        assert_eq!(board.order().unwrap().unwrap().stage, Stage::Committing);
    }
}
