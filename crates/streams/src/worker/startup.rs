//! Opening of a worker: makes the state, the positions and the sinks consistent.
//!
//! ```text
//!   newest checkpoint of another epoch?         --> sinks show their own last outputs; refused
//!   state behind the newest checkpoint?     --> restored
//!   sinks behind the state?                 --> restored from the newest one whose outputs the sinks hold
//! ```

use crate::checkpoint::{Checkpoints, Manifest, ShardPart};
use crate::operator::Operator;
use crate::pipeline::{Barrier, Pipeline, PipelineBuilder};
use crate::position;
use crate::sink::{OpenStatus, ShardId, Sink, SinkLag};
use mainstay_model::{Code, Error, KeyedState, Result, SnapshotHead, SnapshotWriter, SpaceInfo};
use std::ops::Range;
use std::sync::Arc;

/// A worker's shard number, the number of shards, and its key groups.
pub(super) struct ShardAssignment {
    pub shard: u32,
    pub shards: u32,
    pub groups: Range<u32>,
}

/// The inputs of opening a worker.
pub(super) struct Startup<'w> {
    pub checkpoints: &'w Checkpoints,
    pub assignment: &'w ShardAssignment,
    pub state: Arc<dyn KeyedState>,
}

/// The result of opening a worker.
pub(super) struct WorkerStart<P: Operator> {
    pub pipeline: Pipeline<P>,
    pub epoch: u64,
    pub latest: Option<Manifest>,
}

impl Startup<'_> {
    pub fn open<P: Operator>(self, mut builder: PipelineBuilder<P>) -> Result<WorkerStart<P>> {
        let latest = self.checkpoints.latest()?;
        let epoch = latest.as_ref().map_or(0, |latest| latest.epoch);
        self.check_count(&mut builder, latest.as_ref())?;
        self.check_groups(latest.as_ref())?;
        self.check_sinks(&mut builder, epoch)?;
        let start_checkpoint = self.checkpoints.start_checkpoint()?;
        match (&start_checkpoint, &latest) {
            (Some(start_checkpoint), _) => {
                self.restore_start_checkpoint(start_checkpoint, epoch)?
            }
            (None, Some(latest)) if is_behind(&*self.state, self.part(latest)?)? => {
                self.restore(latest)?;
            }
            _ => {}
        }
        let mut pipeline = builder.open(Arc::clone(&self.state))?;
        if let Some(from) =
            self.align_with_sinks(&mut pipeline, start_checkpoint.or(latest.clone()))?
        {
            let positions = self.part(&from)?.positions.clone();
            pipeline.committed_before(&Barrier { id: from.checkpoint, positions })?;
        }
        Ok(WorkerStart { pipeline, epoch, latest })
    }

    /// Rejects a worker with another number of shards than the newest checkpoint. Its sinks may not know the
    /// last checkpoint of their own epoch, so they show its outputs first: no other worker can do that.
    fn check_count<P: Operator>(
        &self,
        builder: &mut PipelineBuilder<P>,
        latest: Option<&Manifest>,
    ) -> Result<()> {
        let shard = self.assignment.shard;
        let shards = self.assignment.shards;
        let actual = latest.map_or(shards as usize, |latest| latest.shards.len());
        let epoch = latest.map_or(0, |latest| latest.epoch);
        if actual == shards as usize {
            return Ok(());
        }
        let mut note = String::new();
        let own = self.newest(|manifest| manifest.shards.len() == shards as usize)?;
        if let Some(own) = own {
            for sink in builder.sinks() {
                let stored = sink.assign(ShardId { epoch: own.epoch, shard })?;
                note += &self.commit_last_outputs(&mut **sink, stored, epoch)?;
            }
        }
        let message = format!(
            "the newest checkpoint has {actual} shards, and this is one of {shards}: divide it anew, or begin with as many{note}"
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn check_groups(&self, latest: Option<&Manifest>) -> Result<()> {
        let Some(latest) = latest else { return Ok(()) };
        let part = self.part(latest)?;
        let actual = part.first_group..part.end_group;
        let groups = &self.assignment.groups;
        if actual == *groups {
            return Ok(());
        }
        let message = format!(
            "shard {} of the newest checkpoint has groups {actual:?}, and this one {groups:?}: divide it anew",
            self.assignment.shard
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Rejects sinks that hold outputs of another shard or epoch. Sinks of an ended epoch show their last
    /// outputs first.
    fn check_sinks<P: Operator>(&self, builder: &mut PipelineBuilder<P>, epoch: u64) -> Result<()> {
        let shard_id = ShardId { epoch, shard: self.assignment.shard };
        let mut result = Ok(());
        for sink in builder.sinks() {
            let stored = sink.assign(shard_id)?;
            if stored != shard_id {
                let note = self.commit_last_outputs(&mut **sink, stored, epoch)?;
                result = result.and(Err(foreign_sink_error(sink.name(), stored, shard_id, &note)));
            }
        }
        result
    }

    /// Lets a sink show the outputs of the last checkpoint of its own epoch, if that epoch has ended.
    /// Otherwise its shard may still be running. Returns a note for the error message.
    fn commit_last_outputs<O>(
        &self,
        sink: &mut dyn Sink<O>,
        shard_id: ShardId,
        epoch: u64,
    ) -> Result<String> {
        let Some(last) =
            self.newest(|manifest| manifest.epoch == shard_id.epoch && shard_id.epoch < epoch)?
        else {
            return Ok(String::new());
        };
        let part = last.shards.iter().find(|part| part.shard == shard_id.shard);
        let name = position::sink(sink.name());
        let position = part.and_then(|part| part.positions.get(&name)).copied().unwrap_or(0);
        sink.assign(shard_id)?;
        if let OpenStatus::Lagging { position: actual } = sink.open(position)? {
            let checkpoint = last.checkpoint;
            return Ok(format!(
                "; sink `{}` holds {actual} of the {position} that checkpoint {checkpoint} says it has taken, and shows nothing more",
                sink.name()
            ));
        }
        sink.commit(last.checkpoint, position)?;
        Ok(format!("; sink `{}` shows what checkpoint {} had", sink.name(), last.checkpoint))
    }

    /// The newest checkpoint that matches.
    fn newest(&self, is_match: impl Fn(&Manifest) -> bool) -> Result<Option<Manifest>> {
        for id in self.checkpoints.list()?.into_iter().rev() {
            // A damaged checkpoint does not hide older ones.
            let manifest = self.checkpoints.manifest_if_valid(id)?;
            if let Some(manifest) = manifest.filter(|manifest| is_match(manifest)) {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// Restores the state from the checkpoint set with `back_to`.
    fn restore_start_checkpoint(&self, start_checkpoint: &Manifest, epoch: u64) -> Result<()> {
        if start_checkpoint.epoch == epoch {
            return self.restore(start_checkpoint);
        }
        let message = format!(
            "checkpoint {} is of epoch {}, and the work was divided anew since: go back to one of epoch {epoch}",
            start_checkpoint.checkpoint, start_checkpoint.epoch
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Goes back until the sinks hold the outputs that the state includes. Returns the checkpoint whose
    /// outputs they can show.
    fn align_with_sinks<P: Operator>(
        &self,
        pipeline: &mut Pipeline<P>,
        latest: Option<Manifest>,
    ) -> Result<Option<Manifest>> {
        if pipeline.lagging_sinks().is_empty() {
            return Ok(latest);
        }
        let Some(latest) = latest else {
            self.clear_state()?;
            pipeline.recover()?;
            return Ok(None);
        };
        // The outputs of the newest checkpoint were shown, here or elsewhere.
        pipeline.begin_sinks_at(&self.part(&latest)?.positions)?;
        if pipeline.lagging_sinks().is_empty() {
            return Ok(Some(latest));
        }
        let epoch = latest.epoch;
        let mut newest_id = latest.checkpoint;
        loop {
            let is_older = |it: &Manifest| it.epoch == epoch && it.checkpoint <= newest_id;
            let Some(from) = self.newest(|it| is_older(it) && self.has_outputs_of(pipeline, it))?
            else {
                return Err(no_checkpoint_error(pipeline.lagging_sinks()));
            };
            self.restore(&from)?;
            pipeline.recover()?;
            if pipeline.lagging_sinks().is_empty() {
                return Ok(Some(from));
            }
            // Another sink is behind that checkpoint too, so try an older one.
            newest_id = from.checkpoint.saturating_sub(1);
        }
    }

    /// Returns whether the sinks that are behind hold all outputs up to a checkpoint.
    fn has_outputs_of<P: Operator>(&self, pipeline: &Pipeline<P>, manifest: &Manifest) -> bool {
        let Ok(part) = self.part(manifest) else { return false };
        let position_in =
            |sink: &str| part.positions.get(&position::sink(sink)).copied().unwrap_or(0);
        pipeline.lagging_sinks().iter().all(|lag| position_in(&lag.sink) <= lag.actual)
    }

    fn part<'m>(&self, manifest: &'m Manifest) -> Result<&'m ShardPart> {
        let shard = self.assignment.shard;
        manifest.shards.iter().find(|part| part.shard == shard).ok_or_else(|| {
            let message = format!("checkpoint {} has no shard {shard}", manifest.checkpoint);
            Error::new(Code::CorruptData, message)
        })
    }

    fn restore(&self, from: &Manifest) -> Result<()> {
        self.checkpoints.restore(from.checkpoint, self.assignment.shard, &*self.state).map(|_| ())
    }

    /// Clears a state that has no checkpoint to go back to. Its options stay.
    fn clear_state(&self) -> Result<()> {
        let Some(SpaceInfo { options, .. }) = self.state.info()? else { return Ok(()) };
        let empty = SnapshotHead::all(SpaceInfo { options, frontier: None });
        let (_, empty) = SnapshotWriter::new(Vec::new(), &empty)?.finish()?;
        self.state.restore(&empty).map(|_| ())
    }
}

/// Returns whether a state is behind a checkpoint.
fn is_behind(state: &dyn KeyedState, part: &ShardPart) -> Result<bool> {
    let positions = state.positions()?;
    let at = |name: &String| positions.get(name).copied();
    Ok(part.positions.iter().any(|(name, position)| at(name) < Some(*position)))
}

#[cold]
fn no_checkpoint_error(lagging: &[SinkLag]) -> Error {
    let lag_text =
        |it: &SinkLag| format!("sink `{}` holds {} of {}", it.sink, it.actual, it.expected);
    let lags: Vec<String> = lagging.iter().map(lag_text).collect();
    let message = format!(
        "no checkpoint that is kept fits what the sinks hold: {}; bring their outputs back, or let a sink that holds nothing go on with what comes now (`continued`)",
        lags.join(", ")
    );
    Error::new(Code::CheckpointNotFound, message)
}

#[cold]
fn foreign_sink_error(sink: &str, stored: ShardId, shard_id: ShardId, note: &str) -> Error {
    let message = format!(
        "sink `{sink}` holds outputs of {stored}, and this is {shard_id}: give it a place of its own for them{note}"
    );
    Error::new(Code::InvalidArgument, message)
}
