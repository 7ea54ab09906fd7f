//! Where coordinator and shards meet: cells of a database, in this process or served to several.
//!
//! ```text
//!   coordinator --order { checkpoint, stage }--> cell  jobs/<job>/checkpoint            --> shards look with each batch
//!               <--reached, report, failed------ cells jobs/<job>/checkpoint/<id>/<shard> <-- shards
//! ```
//!
//! The order changes by compare-and-swap: of two coordinators one goes on. One that comes after a crash finds what was under
//! way: if its manifest is there it is committed, else aborted.

use crate::checkpoint::Checkpoints;
use crate::coordinator::{Coordinator, Outcome, Said, Stage};
use crate::{Manifest, ShardReport};
use mainstay::{CellCommand, Database, Event, Filter, Name, Transaction};
use mainstay_model::{Code, Error, Result, Value};
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

    /// Changes the order, if it is still the one that was read; gives its counter.
    fn give(&self, order: &Order, expected: Option<u64>) -> Result<u64> {
        let given = self.db.cells().cas(&self.order_name(), expected, text(order)?)?;
        given.ok_or_else(|| {
            let message =
                format!("another coordinator of job `{}` is at work: let it be", self.job);
            Error::new(Code::Conflict, message)
        })
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

fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        let message = format!("a note on the board of a job cannot be read: {error}");
        Error::new(Code::CorruptData, message)
    })
}

/// Takes checkpoints of a job with several shards, which meet it at a board.
pub struct Conductor {
    board: Board,
    checkpoints: Checkpoints,
    coordinator: Coordinator,
    shards: u32,
    epoch: u64,
    timeout: Duration,
}

impl Conductor {
    /// A coordinator of as many shards as the newest checkpoint has, or of so many where there is none yet. What another one
    /// left under way is ended. A checkpoint is aborted when nobody says anything for so long.
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
        if matches!(order.stage, Stage::Committed | Stage::Aborted { .. }) {
            return Ok(());
        }
        let is_there = self.checkpoints.list()?.contains(&order.checkpoint);
        order.stage = match is_there {
            true => Stage::Committed,
            false => Stage::Aborted { why: "its coordinator ended".to_owned() },
        };
        // Its files stay: whoever left it may still be at it. What nobody needs goes with a later checkpoint.
        self.board.give(&order, Some(counter)).map(|_| ())
    }

    /// Takes a checkpoint: waits for all shards, and writes the manifest.
    pub fn checkpoint(&mut self) -> Result<Manifest> {
        let before = self.board.order_counted()?;
        let newest = before.as_ref().map_or(0, |(order, _)| order.checkpoint);
        // A number that was given up is not used again: files of it may still come.
        let id = self.checkpoints.next_id()?.max(newest + 1);
        self.coordinator.begin(id)?;
        let taken = self.take(id, before.map(|(_, counter)| counter));
        if taken.is_err() {
            let _ = self.coordinator.abort("it failed");
        }
        let _ = self.board.wipe(id, self.shards);
        taken
    }

    fn take(&mut self, id: u64, expected: Option<u64>) -> Result<Manifest> {
        let (epoch, shards) = (self.epoch, self.shards);
        let order = |stage| Order { checkpoint: id, epoch, shards, stage };
        let prefix = Some(format!("{}/{id:020}/", self.board.order_name()));
        let mut feed = self
            .board
            .db
            .watch(Filter { prefix, ..Filter::default() }, self.board.db.revision())?;
        let mut counter = self.board.give(&order(Stage::Gathering), expected)?;
        let ended = loop {
            let Some(event) = feed.next(self.timeout)? else {
                break Err(format!("nobody said anything for {:?}", self.timeout));
            };
            match self.hear(id, &event)? {
                Outcome::Pending => {}
                Outcome::Aligned(upto) => {
                    counter = self.board.give(&order(Stage::Writing { upto }), Some(counter))?;
                }
                Outcome::Whole(reports) => break Ok(reports),
                Outcome::Aborted(why) => break Err(why),
            }
        };
        let committed = match ended {
            Ok(reports) => self.checkpoints.commit(id, self.epoch, reports),
            Err(why) => {
                // It has no manifest: what it left is removed now, or by the next one.
                let _ = self.checkpoints.abort(id);
                Err(Error::new(Code::CheckpointAborted, format!("checkpoint {id} is not: {why}")))
            }
        };
        let stage = match &committed {
            Ok(_) => Stage::Committed,
            Err(error) => Stage::Aborted { why: error.message().to_owned() },
        };
        let given = self.board.give(&order(stage), Some(counter));
        // Where the manifest is there, whoever comes next says so.
        if committed.is_err() {
            given?;
        }
        committed
    }

    /// Hears what a shard has said; a number that no shard has says nothing.
    fn hear(&mut self, id: u64, event: &Event) -> Result<Outcome> {
        let shard = event.key.rsplit('/').next().and_then(|shard| shard.parse().ok());
        match (shard.filter(|shard| *shard < self.shards), &event.value) {
            (Some(shard), Some(said)) => self.coordinator.said(id, shard, read(said)?),
            _ => Ok(Outcome::Pending),
        }
    }
}

/// What a shard has heard and said.
pub(crate) struct Attendance {
    board: Board,
    shard: u32,
    /// What it said last.
    told: Option<(u64, bool)>,
    /// The checkpoint that it has written for, and of which it has not heard what became of it.
    written: Option<u64>,
}

/// What a shard has to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Go on with its work.
    Work,
    /// Stay where it is.
    Wait,
    /// Go to a place and write for a checkpoint.
    Write { checkpoint: u64, upto: crate::coordinator::Place },
    /// A checkpoint that it wrote for is committed.
    Committed(u64),
    /// A checkpoint that it wrote for will not be.
    Aborted(u64),
    /// The work was divided anew.
    Leave,
}

impl Attendance {
    pub fn new(board: Board, shard: u32) -> Attendance {
        Attendance { board, shard, told: None, written: None }
    }

    /// What is to be done, for a shard of an epoch that is at a place.
    pub fn duty(&mut self, epoch: u64, place: &crate::coordinator::Place) -> Result<Duty> {
        let Some(order) = self.board.order()? else { return Ok(Duty::Work) };
        let id = order.checkpoint;
        if let Some(written) = self.written.filter(|written| *written < id) {
            // The next one has begun: what became of the last one was not heard.
            self.written = None;
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
            Stage::Gathering if self.told == Some((id, false)) => Ok(Duty::Wait),
            Stage::Gathering => {
                self.board.say(id, self.shard, &Said::Reached(place.clone()))?;
                self.told = Some((id, false));
                Ok(Duty::Wait)
            }
            Stage::Writing { .. } if self.told == Some((id, true)) => Ok(Duty::Work),
            // Who comes too late for it, after a crash say, fails it.
            Stage::Writing { .. } if self.told != Some((id, false)) => {
                self.failed(id, "it was not there when all were asked where they are")?;
                Ok(Duty::Work)
            }
            Stage::Writing { upto } => Ok(Duty::Write { checkpoint: id, upto }),
            Stage::Committed if self.written.take_if(|written| *written == id).is_some() => {
                Ok(Duty::Committed(id))
            }
            Stage::Aborted { .. } if self.written.take_if(|written| *written == id).is_some() => {
                Ok(Duty::Aborted(id))
            }
            _ => Ok(Duty::Work),
        }
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
