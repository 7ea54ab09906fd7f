//! Worker: a pipeline that takes checkpoints and recovers from the newest one.
//!
//! ```text
//!   open:  state behind the last checkpoint, or sinks behind the state?  --> the state is restored from the newest checkpoint
//!          whose outputs the sinks hold; the pipeline continues from the state; sinks show that checkpoint's outputs
//!   step, step, ... checkpoint: sinks prepared --> state written --> manifest --> sinks show their outputs
//! ```
//!
//! Between checkpoints nothing needs to be durable. After a crash, state and positions are of one consistent
//! moment. If that moment is before the last checkpoint, or the sinks lost outputs that the state includes,
//! the state is restored from a checkpoint.

mod opening;

use crate::board::{Attendance, Board, Duty};
use crate::checkpoint::{Checkpoints, Manifest, divide};
use crate::operator::Operator;
use crate::pipeline::{Pipeline, PipelineBuilder, Progress};
use mainstay_model::{Code, Error, KeyedState, Result};
use opening::{Opened, Opening, Seat};
use std::ops::Range;
use std::sync::Arc;

/// A pipeline with its checkpoints.
///
/// ```
/// use mainstay_streams::{Checkpoints, Items, Job, MemorySink, MemoryState, Pipeline, Shelf, StatefulOperator, Worker};
/// use std::sync::Arc;
/// let directory = tempfile::tempdir().unwrap();
/// let checkpoints = || Checkpoints::open(Shelf::directory(directory.path())?, Job::new("words", "counts"));
/// let counts = || StatefulOperator::new("counts", |word: &&str| *word, |count: Option<u32>, word, _| {
///     let count = count.unwrap_or(0) + 1;
///     Ok((Some(count), vec![format!("{word} {count}")]))
/// });
/// let sink = MemorySink::new("told");
/// let pipeline = || Pipeline::of(counts()).source(Items::new("words", ["so", "it", "goes", "so"])).sink(sink.clone()).batch(2);
///
/// let mut worker = Worker::open(pipeline(), Arc::new(MemoryState::new()), checkpoints()?)?;
/// worker.step()?;
/// worker.checkpoint()?;
/// drop(worker);
///
/// // Another machine, which has only the checkpoints.
/// let mut worker = Worker::open(pipeline(), Arc::new(MemoryState::new()), checkpoints()?)?;
/// assert_eq!(worker.step()?.items, 2);
/// assert_eq!(sink.outputs().last().unwrap().value, "so 2");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct Worker<P: Operator> {
    pipeline: Pipeline<P>,
    checkpoints: Checkpoints,
    shard: u32,
    groups: Range<u32>,
    epoch: u64,
    latest: Option<Manifest>,
    attendance: Option<Attendance>,
}

impl<P: Operator> Worker<P> {
    /// Opens the only worker of a job.
    pub fn open(
        pipeline: PipelineBuilder<P>,
        state: Arc<dyn KeyedState>,
        checkpoints: Checkpoints,
    ) -> Result<Worker<P>> {
        let groups = 0..checkpoints.job().groups;
        Worker::begin(pipeline, state, checkpoints, Seat { shard: 0, shards: 1, groups }, None)
    }

    /// Opens one of several workers of a job. Each has its own state, and they communicate with their
    /// [`Conductor`](crate::Conductor) through a board.
    pub fn open_shard(
        pipeline: PipelineBuilder<P>,
        state: Arc<dyn KeyedState>,
        checkpoints: Checkpoints,
        shard: u32,
        shards: u32,
        board: Board,
    ) -> Result<Worker<P>> {
        let all = divide(checkpoints.job().groups, shards)?;
        let Some(groups) = all.get(shard as usize).cloned() else {
            let message = format!("there is no shard {shard}: they are 0 to {}", shards - 1);
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let pipeline = pipeline.shard(groups.clone(), checkpoints.job().groups);
        let attendance = Some(Attendance::new(board, shard));
        Worker::begin(pipeline, state, checkpoints, Seat { shard, shards, groups }, attendance)
    }

    fn begin(
        pipeline: PipelineBuilder<P>,
        state: Arc<dyn KeyedState>,
        checkpoints: Checkpoints,
        seat: Seat,
        attendance: Option<Attendance>,
    ) -> Result<Worker<P>> {
        if let Some(attendance) = &attendance {
            attendance.begin(seat.shards, &checkpoints)?;
        }
        let opened = Opening { checkpoints: &checkpoints, seat: &seat, state }.open(pipeline)?;
        let Opened { pipeline, epoch, latest } = opened;
        let Seat { shard, groups, .. } = seat;
        Ok(Worker { pipeline, checkpoints, shard, groups, epoch, latest, attendance })
    }

    /// Processes one batch, or does the work that a checkpoint requires. A worker that has to wait for the
    /// others returns empty progress.
    pub fn step(&mut self) -> Result<Progress> {
        let place = self.pipeline.place();
        let duty = match &mut self.attendance {
            Some(attendance) => attendance.duty(self.epoch, &place)?,
            None => Duty::Work,
        };
        match duty {
            Duty::Work => return self.pipeline.step(),
            Duty::Wait => {}
            Duty::Write { checkpoint, upto } => return self.contribute(checkpoint, &upto),
            Duty::Committed(id) => self.committed(id)?,
            Duty::Aborted(id) => self.settle(id)?,
            Duty::Leave => return Err(divided(self.epoch)),
        }
        Ok(Progress::default())
    }

    /// Handles a checkpoint whose outcome was missed: it is committed if its manifest exists.
    fn settle(&mut self, id: u64) -> Result<()> {
        if self.checkpoints.is_committed(id, self.epoch)? {
            return self.committed(id);
        }
        self.pipeline.aborted(id)?;
        self.heard(id);
        Ok(())
    }

    /// Handles a committed checkpoint: the sinks show its outputs. After an error it is called again.
    fn committed(&mut self, id: u64) -> Result<()> {
        self.latest = self.checkpoints.latest()?;
        // A state that went back behind the barrier no longer knows it, and produces its outputs again.
        if self.pipeline.awaits(id) {
            self.pipeline.committed(id)?;
        }
        self.heard(id);
        Ok(())
    }

    fn heard(&mut self, id: u64) {
        if let Some(attendance) = &mut self.attendance {
            attendance.heard(id);
        }
    }

    /// Advances to the common place and writes this shard's snapshot.
    fn contribute(&mut self, id: u64, upto: &crate::coordinator::Place) -> Result<Progress> {
        let progress = self.pipeline.step_upto(upto)?;
        if self.pipeline.place() != *upto {
            // Continue with the next step. If the sources end before the place, the checkpoint fails.
            if progress.ended {
                self.fail(id, "its sources end before the place that others have come to")?;
            }
            return Ok(progress);
        }
        let written = self.pipeline.barrier(id).and_then(|_| self.write(id));
        let Some(attendance) = &mut self.attendance else { return Ok(progress) };
        match written {
            Ok(report) => attendance.reported(report)?,
            Err(error) => {
                self.pipeline.aborted(id)?;
                attendance.failed(id, error.message())?;
            }
        }
        Ok(progress)
    }

    fn fail(&mut self, id: u64, why: &str) -> Result<()> {
        match &mut self.attendance {
            Some(attendance) => attendance.failed(id, why),
            None => Ok(()),
        }
    }

    fn write(&self, id: u64) -> Result<crate::ShardReport> {
        let state = self.pipeline.state();
        let groups = self.groups.clone();
        // Another process may have taken a checkpoint in the meantime.
        let before = self.checkpoints.latest()?;
        self.checkpoints.write(id, self.shard, groups, &**state, before.as_ref())
    }

    /// Takes a checkpoint of a job with one worker.
    pub fn checkpoint(&mut self) -> Result<Manifest> {
        if self.attendance.is_some() {
            let message = "checkpoints of a job with several workers are taken by their conductor";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let id = self.checkpoints.next_id()?;
        self.pipeline.barrier(id)?;
        let committed =
            self.write(id).and_then(|report| self.checkpoints.commit(id, self.epoch, vec![report]));
        match committed {
            Ok(manifest) => {
                self.latest = Some(manifest.clone());
                self.pipeline.committed(id)?;
                Ok(manifest)
            }
            Err(error) => {
                self.pipeline.aborted(id)?;
                Err(error)
            }
        }
    }

    /// The newest checkpoint that this worker knows.
    pub fn latest(&self) -> Option<&Manifest> {
        self.latest.as_ref()
    }

    /// The pipeline.
    pub fn pipeline(&mut self) -> &mut Pipeline<P> {
        &mut self.pipeline
    }
}

#[cold]
fn divided(epoch: u64) -> Error {
    let message = format!(
        "the work was divided anew, and epoch {epoch} is over: begin again as one of the new shards"
    );
    Error::new(Code::Fenced, message)
}
