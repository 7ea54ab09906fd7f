//! Opening of a worker: makes the state, the positions and the sinks consistent.
//!
//! ```text
//!   newest checkpoint of another epoch?         --> sinks show their own last outputs; refused
//!   state behind the newest checkpoint?     --> restored
//!   sinks behind the state?                 --> restored from the newest one whose outputs the sinks hold
//! ```

use crate::checkpoint::{Checkpoints, Manifest, ShardPart};
use crate::operator::Operator;
use crate::outlet::Behind;
use crate::pipeline::{Barrier, Pipeline, PipelineBuilder};
use crate::position;
use crate::sink::{self, Share, Sink};
use mainstay_model::{Code, Error, KeyedState, Result, SnapshotHead, SnapshotWriter, SpaceInfo};
use std::ops::Range;
use std::sync::Arc;

/// A worker's shard number, the number of shards, and its key groups.
pub(super) struct Seat {
    pub shard: u32,
    pub shards: u32,
    pub groups: Range<u32>,
}

/// The inputs of opening a worker.
pub(super) struct Opening<'w> {
    pub checkpoints: &'w Checkpoints,
    pub seat: &'w Seat,
    pub state: Arc<dyn KeyedState>,
}

/// The result of opening a worker.
pub(super) struct Opened<P: Operator> {
    pub pipeline: Pipeline<P>,
    pub epoch: u64,
    pub latest: Option<Manifest>,
}

impl Opening<'_> {
    pub fn open<P: Operator>(self, mut builder: PipelineBuilder<P>) -> Result<Opened<P>> {
        let latest = self.checkpoints.latest()?;
        let epoch = latest.as_ref().map_or(0, |latest| latest.epoch);
        self.check_count(&mut builder, latest.as_ref())?;
        self.check_groups(latest.as_ref())?;
        self.check_sinks(&mut builder, epoch)?;
        let named = self.checkpoints.named()?;
        match (&named, &latest) {
            (Some(named), _) => self.go_back_to(named, epoch)?,
            (None, Some(latest)) if is_behind(&*self.state, self.part(latest)?)? => {
                self.restore(latest)?;
            }
            _ => {}
        }
        let mut pipeline = builder.open(Arc::clone(&self.state))?;
        if let Some(from) = self.agree(&mut pipeline, named.or(latest.clone()))? {
            let positions = self.part(&from)?.positions.clone();
            pipeline.committed_before(&Barrier { id: from.checkpoint, positions })?;
        }
        Ok(Opened { pipeline, epoch, latest })
    }

    /// Rejects a worker with another number of shards than the newest checkpoint. Its sinks may not know the
    /// last checkpoint of their own epoch, so they show its outputs first: no other worker can do that.
    fn check_count<P: Operator>(
        &self,
        builder: &mut PipelineBuilder<P>,
        latest: Option<&Manifest>,
    ) -> Result<()> {
        let shard = self.seat.shard;
        let shards = self.seat.shards;
        let there = latest.map_or(shards as usize, |latest| latest.shards.len());
        let epoch = latest.map_or(0, |latest| latest.epoch);
        if there == shards as usize {
            return Ok(());
        }
        let mut notes = String::new();
        let own = self.newest(|manifest| manifest.shards.len() == shards as usize)?;
        if let Some(own) = own {
            for sink in builder.sinks() {
                let held = sink.assign(Share { epoch: own.epoch, shard })?;
                notes += &self.show_last(&mut **sink, held, epoch)?;
            }
        }
        let message = format!(
            "the newest checkpoint has {there} shards, and this is one of {shards}: divide it anew, or begin with as many{notes}"
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn check_groups(&self, latest: Option<&Manifest>) -> Result<()> {
        let Some(latest) = latest else { return Ok(()) };
        let part = self.part(latest)?;
        let of = part.first_group..part.end_group;
        let groups = &self.seat.groups;
        if of == *groups {
            return Ok(());
        }
        let message = format!(
            "shard {} of the newest checkpoint has groups {of:?}, and this one {groups:?}: divide it anew",
            self.seat.shard
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Rejects sinks that hold outputs of another shard or epoch. Sinks of an ended epoch show their last
    /// outputs first.
    fn check_sinks<P: Operator>(&self, builder: &mut PipelineBuilder<P>, epoch: u64) -> Result<()> {
        let share = Share { epoch, shard: self.seat.shard };
        let mut refused = Ok(());
        for sink in builder.sinks() {
            let held = sink.assign(share)?;
            if held != share {
                let notes = self.show_last(&mut **sink, held, epoch)?;
                refused = refused.and(Err(foreign(sink.name(), held, share, &notes)));
            }
        }
        refused
    }

    /// Lets a sink show the outputs of the last checkpoint of its own epoch, if that epoch has ended.
    /// Otherwise its shard may still be running. Returns a note for the error message.
    fn show_last<O>(&self, sink: &mut dyn Sink<O>, share: Share, epoch: u64) -> Result<String> {
        let Some(last) =
            self.newest(|manifest| manifest.epoch == share.epoch && share.epoch < epoch)?
        else {
            return Ok(String::new());
        };
        let part = last.shards.iter().find(|part| part.shard == share.shard);
        let name = position::sink(sink.name());
        let position = part.and_then(|part| part.positions.get(&name)).copied().unwrap_or(0);
        sink.assign(share)?;
        if let sink::Opened::Behind { held } = sink.open(position)? {
            let checkpoint = last.checkpoint;
            return Ok(format!(
                "; sink `{}` holds {held} of the {position} that checkpoint {checkpoint} says it has taken, and shows nothing more",
                sink.name()
            ));
        }
        sink.commit(last.checkpoint, position)?;
        Ok(format!("; sink `{}` shows what checkpoint {} had", sink.name(), last.checkpoint))
    }

    /// The newest checkpoint that matches.
    fn newest(&self, is_meant: impl Fn(&Manifest) -> bool) -> Result<Option<Manifest>> {
        for id in self.checkpoints.list()?.into_iter().rev() {
            // A damaged checkpoint does not hide older ones.
            let manifest = self.checkpoints.manifest_if_whole(id)?;
            if let Some(manifest) = manifest.filter(|manifest| is_meant(manifest)) {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// Restores the state from the checkpoint set with `back_to`.
    fn go_back_to(&self, named: &Manifest, epoch: u64) -> Result<()> {
        if named.epoch == epoch {
            return self.restore(named);
        }
        let message = format!(
            "checkpoint {} is of epoch {}, and the work was divided anew since: go back to one of epoch {epoch}",
            named.checkpoint, named.epoch
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    /// Goes back until the sinks hold the outputs that the state includes. Returns the checkpoint whose
    /// outputs they can show.
    fn agree<P: Operator>(
        &self,
        pipeline: &mut Pipeline<P>,
        latest: Option<Manifest>,
    ) -> Result<Option<Manifest>> {
        if pipeline.behind().is_empty() {
            return Ok(latest);
        }
        let Some(latest) = latest else {
            self.begin_anew()?;
            pipeline.recover()?;
            return Ok(None);
        };
        // The outputs of the newest checkpoint were shown, here or elsewhere.
        pipeline.begin_sinks_at(&self.part(&latest)?.positions)?;
        if pipeline.behind().is_empty() {
            return Ok(Some(latest));
        }
        let epoch = latest.epoch;
        let mut behind = latest.checkpoint;
        loop {
            let is_older = |it: &Manifest| it.epoch == epoch && it.checkpoint <= behind;
            let Some(from) = self.newest(|it| is_older(it) && self.holds(pipeline, it))? else {
                return Err(none_fits(pipeline.behind()));
            };
            self.restore(&from)?;
            pipeline.recover()?;
            if pipeline.behind().is_empty() {
                return Ok(Some(from));
            }
            // Another sink is behind that checkpoint too, so try an older one.
            behind = from.checkpoint.saturating_sub(1);
        }
    }

    /// Returns whether the sinks that are behind hold all outputs up to a checkpoint.
    fn holds<P: Operator>(&self, pipeline: &Pipeline<P>, manifest: &Manifest) -> bool {
        let Ok(part) = self.part(manifest) else { return false };
        let taken = |sink: &str| part.positions.get(&position::sink(sink)).copied().unwrap_or(0);
        pipeline.behind().iter().all(|behind| taken(&behind.sink) <= behind.held)
    }

    fn part<'m>(&self, manifest: &'m Manifest) -> Result<&'m ShardPart> {
        let shard = self.seat.shard;
        manifest.shards.iter().find(|part| part.shard == shard).ok_or_else(|| {
            let message = format!("checkpoint {} has no shard {shard}", manifest.checkpoint);
            Error::new(Code::CorruptData, message)
        })
    }

    fn restore(&self, from: &Manifest) -> Result<()> {
        self.checkpoints.restore(from.checkpoint, self.seat.shard, &*self.state).map(|_| ())
    }

    /// Clears a state that has no checkpoint to go back to. Its options stay.
    fn begin_anew(&self) -> Result<()> {
        let Some(SpaceInfo { options, .. }) = self.state.info()? else { return Ok(()) };
        let nothing = SnapshotHead::all(SpaceInfo { options, frontier: None });
        let (_, nothing) = SnapshotWriter::new(Vec::new(), &nothing)?.finish()?;
        self.state.restore(&nothing).map(|_| ())
    }
}

/// Returns whether a state is behind a checkpoint.
fn is_behind(state: &dyn KeyedState, part: &ShardPart) -> Result<bool> {
    let positions = state.positions()?;
    let at = |name: &String| positions.get(name).copied();
    Ok(part.positions.iter().any(|(name, position)| at(name) < Some(*position)))
}

#[cold]
fn none_fits(behind: &[Behind]) -> Error {
    let lacks = |it: &Behind| format!("sink `{}` holds {} of {}", it.sink, it.held, it.expected);
    let lacks: Vec<String> = behind.iter().map(lacks).collect();
    let message = format!(
        "no checkpoint that is kept fits what the sinks hold: {}; bring their outputs back, or let a sink that holds nothing go on with what comes now (`continued`)",
        lacks.join(", ")
    );
    Error::new(Code::CheckpointNotFound, message)
}

#[cold]
fn foreign(sink: &str, held: Share, share: Share, notes: &str) -> Error {
    let message = format!(
        "sink `{sink}` holds outputs of {held}, and this is {share}: give it a place of its own for them{notes}"
    );
    Error::new(Code::InvalidArgument, message)
}
