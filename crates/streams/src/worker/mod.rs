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

mod startup;

use crate::checkpoint::{Checkpoints, Manifest, divide};
use crate::coordination::{CoordinationStore, ShardAction, ShardParticipant};
use crate::operator::Operator;
use crate::pipeline::{Pipeline, PipelineBuilder, Progress};
use crate::source::SourcePositions;
use mainstay_model::{Code, Error, KeyedState, Result};
use startup::{ShardAssignment, Startup, WorkerStart};
use std::ops::Range;
use std::sync::Arc;

/// A pipeline with its checkpoints.
///
/// ```
/// use mainstay_streams::{Checkpoints, Items, Job, MemorySink, MemoryState, Pipeline, CheckpointStore, StatefulOperator, Worker};
/// use std::sync::Arc;
/// let directory = tempfile::tempdir().unwrap();
/// let checkpoints = || Checkpoints::open(CheckpointStore::directory(directory.path())?, Job::new("words", "counts"));
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
    participant: Option<ShardParticipant>,
}

impl<P: Operator> Worker<P> {
    /// Opens the only worker of a job.
    pub fn open(
        pipeline: PipelineBuilder<P>,
        state: Arc<dyn KeyedState>,
        checkpoints: Checkpoints,
    ) -> Result<Worker<P>> {
        let groups = 0..checkpoints.job().groups;
        Worker::start(
            pipeline,
            state,
            checkpoints,
            ShardAssignment { shard: 0, shards: 1, groups },
            None,
        )
    }

    /// Opens one of several workers of a job. Each has its own state, and they communicate with their
    /// [`CheckpointCoordinator`](crate::CheckpointCoordinator) through a [`CoordinationStore`].
    pub fn open_shard(
        pipeline: PipelineBuilder<P>,
        state: Arc<dyn KeyedState>,
        checkpoints: Checkpoints,
        shard: u32,
        shards: u32,
        store: CoordinationStore,
    ) -> Result<Worker<P>> {
        let all = divide(checkpoints.job().groups, shards)?;
        let Some(groups) = all.get(shard as usize).cloned() else {
            let message = format!("there is no shard {shard}: they are 0 to {}", shards - 1);
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let pipeline = pipeline.shard(groups.clone(), checkpoints.job().groups);
        let participant = Some(ShardParticipant::new(store, shard));
        Worker::start(
            pipeline,
            state,
            checkpoints,
            ShardAssignment { shard, shards, groups },
            participant,
        )
    }

    fn start(
        pipeline: PipelineBuilder<P>,
        state: Arc<dyn KeyedState>,
        checkpoints: Checkpoints,
        assignment: ShardAssignment,
        participant: Option<ShardParticipant>,
    ) -> Result<Worker<P>> {
        if let Some(participant) = &participant {
            participant.resolve_unfinished(assignment.shards, &checkpoints)?;
        }
        let started =
            Startup { checkpoints: &checkpoints, assignment: &assignment, state }.open(pipeline)?;
        let WorkerStart { pipeline, epoch, latest } = started;
        let ShardAssignment { shard, groups, .. } = assignment;
        Ok(Worker { pipeline, checkpoints, shard, groups, epoch, latest, participant })
    }

    /// Processes one batch, or does the work that a checkpoint requires. A worker that has to wait for the
    /// others returns empty progress.
    pub fn step(&mut self) -> Result<Progress> {
        let positions = self.pipeline.source_positions();
        let action = match &mut self.participant {
            Some(participant) => participant.next_action(self.epoch, &positions)?,
            None => ShardAction::Process,
        };
        match action {
            ShardAction::Process => return self.pipeline.step(),
            ShardAction::Wait => {}
            ShardAction::WriteSnapshot { checkpoint, upto } => {
                return self.write_snapshot(checkpoint, &upto);
            }
            ShardAction::Committed(id) => self.commit_checkpoint(id)?,
            ShardAction::Aborted(id) => self.resolve_outcome(id)?,
            ShardAction::Stop => return Err(rescaled_error(self.epoch)),
        }
        Ok(Progress::default())
    }

    /// Handles a checkpoint whose outcome was missed: it is committed if its manifest exists.
    fn resolve_outcome(&mut self, id: u64) -> Result<()> {
        if self.checkpoints.is_committed(id, self.epoch)? {
            return self.commit_checkpoint(id);
        }
        self.pipeline.abort_checkpoint(id)?;
        self.acknowledge_outcome(id);
        Ok(())
    }

    /// Handles a committed checkpoint: the sinks show its outputs. After an error it is called again.
    fn commit_checkpoint(&mut self, id: u64) -> Result<()> {
        self.latest = self.checkpoints.latest()?;
        // A state that went back behind the barrier no longer knows it, and produces its outputs again.
        if self.pipeline.has_barrier(id) {
            self.pipeline.commit_checkpoint(id)?;
        }
        self.acknowledge_outcome(id);
        Ok(())
    }

    fn acknowledge_outcome(&mut self, id: u64) {
        if let Some(participant) = &mut self.participant {
            participant.acknowledge_outcome(id);
        }
    }

    /// Advances to the common place and writes this shard's snapshot.
    fn write_snapshot(&mut self, id: u64, upto: &SourcePositions) -> Result<Progress> {
        let progress = self.pipeline.step_upto(upto)?;
        if self.pipeline.source_positions() != *upto {
            // Continue with the next step. If the sources end before the place, the checkpoint fails.
            if progress.ended {
                self.post_failure(id, "its sources end before the place that others have come to")?;
            }
            return Ok(progress);
        }
        let report = self.pipeline.barrier(id).and_then(|_| self.write(id));
        let Some(participant) = &mut self.participant else { return Ok(progress) };
        match report {
            Ok(report) => participant.post_report(report)?,
            Err(error) => {
                self.pipeline.abort_checkpoint(id)?;
                participant.post_failure(id, error.message())?;
            }
        }
        Ok(progress)
    }

    fn post_failure(&mut self, id: u64, why: &str) -> Result<()> {
        match &mut self.participant {
            Some(participant) => participant.post_failure(id, why),
            None => Ok(()),
        }
    }

    fn write(&self, id: u64) -> Result<crate::ShardReport> {
        let state = self.pipeline.state();
        let groups = self.groups.clone();
        // Another process may have taken a checkpoint in the meantime.
        let previous = self.checkpoints.latest()?;
        self.checkpoints.write(id, self.shard, groups, &**state, previous.as_ref())
    }

    /// Takes a checkpoint of a job with one worker.
    pub fn checkpoint(&mut self) -> Result<Manifest> {
        if self.participant.is_some() {
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
                self.pipeline.commit_checkpoint(id)?;
                Ok(manifest)
            }
            Err(error) => {
                self.pipeline.abort_checkpoint(id)?;
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
fn rescaled_error(epoch: u64) -> Error {
    let message = format!(
        "the work was divided anew, and epoch {epoch} is over: begin again as one of the new shards"
    );
    Error::new(Code::Fenced, message)
}
