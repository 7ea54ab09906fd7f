//! Rescaling: converts a checkpoint of n shards to one of m shards.
//!
//! ```text
//!   checkpoint 17, epoch 0    shard 0: groups 0..64     shard 1: groups 64..128
//!                                  |  \ \                 / / |
//!   checkpoint 18, epoch 1    shard 0: 0..43   shard 1: 43..86   shard 2: 86..128
//! ```
//!
//! Each new shard gets one full snapshot with the entries of its key groups, taken from all old shards. The
//! rescaling is atomic, because its manifest commits it. The new epoch fences the old shards.

use super::snapshot_merge::{
    EntryFilter, MergeRule, MergedSnapshotReader, ReadFailure, SnapshotMerger, SnapshotStream,
};
use super::{Checkpoints, FilePart, Manifest, ShardPart, ShardReport, with_cause};
use crate::position;
use mainstay_model::{
    Code, EntryKind, EntryRef, Error, Result, SnapshotHead, SnapshotWriter, SpaceInfo, key_group,
};
use std::io::Read;
use std::ops::Range;

/// Divides the key groups among the shards, in order and as equally as possible.
///
/// ```
/// use mainstay_streams::divide;
/// assert_eq!(divide(128, 3)?, [0..42, 42..85, 85..128]);
/// assert!(divide(128, 129).is_err());
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub fn divide(groups: u32, shards: u32) -> Result<Vec<Range<u32>>> {
    if !(1..=groups).contains(&shards) {
        let message =
            format!("{groups} groups are divided among 1 to {groups} shards, not {shards}");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let first = |shard: u32| (u64::from(groups) * u64::from(shard) / u64::from(shards)) as u32;
    Ok((0..shards).map(|shard| first(shard)..first(shard + 1)).collect())
}

/// A range of key groups that moves in a rescaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyGroupMove {
    /// The key groups.
    pub groups: Range<u32>,
    /// The old shard.
    pub from: u32,
    /// The new shard.
    pub to: u32,
}

impl Manifest {
    /// The moves of a rescaling to this number of shards.
    pub fn plan(&self, shards: u32) -> Result<Vec<KeyGroupMove>> {
        let mut moves = Vec::new();
        for (to, new) in (0..).zip(divide(self.groups, shards)?) {
            for old in &self.shards {
                let groups = old.first_group.max(new.start)..old.end_group.min(new.end);
                if !groups.is_empty() {
                    moves.push(KeyGroupMove { groups, from: old.shard, to });
                }
            }
        }
        Ok(moves)
    }
}

impl Checkpoints {
    /// Rescales the newest checkpoint to this number of shards. Returns the checkpoint that the new shards
    /// start from.
    pub fn rescale(&self, shards: u32) -> Result<Manifest> {
        let Some(previous) = self.latest()? else {
            let message =
                format!("job `{}` has no checkpoint that could be divided", self.job.name);
            return Err(Error::new(Code::CheckpointNotFound, message));
        };
        check_aligned(&previous)?;
        let id = self.next_id()?;
        let parts = (0..).zip(divide(previous.groups, shards)?);
        let reports = parts
            .map(|(shard, groups)| self.write_new_shard(&previous, id, shard, groups))
            .collect::<Result<Vec<_>>>();
        // Unneeded files are removed with a later checkpoint, because another checkpoint with the same number
        // may be in progress now.
        self.commit(id, previous.epoch + 1, reports?)
    }

    /// Writes the snapshot of a new shard.
    fn write_new_shard(
        &self,
        previous: &Manifest,
        id: u64,
        shard: u32,
        groups: Range<u32>,
    ) -> Result<ShardReport> {
        let mut failures: Vec<ReadFailure> = Vec::new();
        let mut streams = Vec::new();
        let mut space: Option<SpaceInfo> = None;
        for old in &previous.shards {
            if old.first_group >= groups.end || old.end_group <= groups.start {
                continue;
            }
            let merged =
                self.merged_snapshot(old, Some(key_group_filter(previous.groups, groups.clone())))?;
            space = Some(merge_space_info(space, merged.space(), old)?);
            failures.push(merged.failure.clone());
            streams.push(SnapshotStream::new(Box::new(merged) as Box<dyn Read>)?);
        }
        let Some(space) = space else {
            let message =
                format!("groups {groups:?} are in no shard of checkpoint {}", previous.checkpoint);
            return Err(Error::new(Code::CorruptData, message));
        };
        streams.push(division_marker(space, previous.epoch + 1)?);
        let merger =
            SnapshotMerger::new(streams, MergeRule::Disjoint).with_filter(tombstone_filter(space));
        let merged = MergedSnapshotReader::new(merger, space, Box::new(|_| Ok(())))?;
        failures.push(merged.failure.clone());
        let result = self.write_merged(id, shard, merged);
        let (file, positions) =
            failures.iter().fold(result, |result, failure| with_cause(failure, result))?;
        let versions = space.options.versions.map(Into::into);
        let first_group = groups.start;
        let end_group = groups.end;
        let part = ShardPart {
            shard,
            first_group,
            end_group,
            versions,
            mark: None,
            positions,
            files: vec![file],
        };
        Ok(ShardReport { checkpoint: id, part, why_full: None })
    }

    fn write_merged(
        &self,
        id: u64,
        shard: u32,
        mut merged: MergedSnapshotReader,
    ) -> Result<(FilePart, std::collections::BTreeMap<String, u64>)> {
        let name = self.data_name(id, shard);
        let copied = self.store.put(&name, |out| {
            let copied = std::io::copy(&mut merged, out);
            copied.map_err(|error| Error::new(Code::Io, format!("`{name}`: {error}")))
        });
        copied?;
        let summary = merged
            .summary()
            .ok_or_else(|| Error::new(Code::Io, format!("`{name}` was not written to its end")))?;
        Ok((FilePart::new(name, true, summary), summary.positions.clone()))
    }
}

/// The filter of the entries of some key groups. The positions of sinks and the counts of late items are
/// dropped, because they belong to one old shard.
fn key_group_filter(of: u32, groups: Range<u32>) -> EntryFilter {
    Box::new(move |entry| match entry {
        EntryRef::Position { source, .. } => !position::is_shard_local(source),
        entry => entry.key().is_some_and(|key| groups.contains(&key_group(key, of))),
    })
}

/// A position that distinguishes the state of a new shard from that of an old one with equal source positions
/// but other keys. A worker that opens an old state as a new shard finds it behind and restores it.
fn division_marker(space: SpaceInfo, epoch: u64) -> Result<SnapshotStream> {
    let mut writer = SnapshotWriter::new(Vec::new(), &SnapshotHead::all(space))?;
    writer.push(&EntryKind::position(position::RESCALE_COUNT), Some(&epoch.to_be_bytes()))?;
    SnapshotStream::new(Box::new(std::io::Cursor::new(writer.finish()?.1)))
}

/// The filter that drops tombstones below the frontier. Older writes to these keys are stale because of the
/// frontier.
fn tombstone_filter(space: SpaceInfo) -> EntryFilter {
    Box::new(move |entry| match entry {
        EntryRef::State { version, value: None, .. } => !space.is_sealed(*version),
        _ => true,
    })
}

/// Combines the options and frontiers of two shards' spaces. The options must match. The higher frontier
/// counts: below it one shard has dropped its tombstones, and no shard receives new writes there, because all
/// stopped at the same place of the stream. Waiting writes below it would have to be applied first, so
/// ordered spaces need equal frontiers.
fn merge_space_info(
    space: Option<SpaceInfo>,
    other: SpaceInfo,
    part: &ShardPart,
) -> Result<SpaceInfo> {
    let Some(mut space) = space else { return Ok(other) };
    space.options.versions = space.options.versions.or(other.options.versions);
    if !space.options.is_as(&other.options) {
        let message =
            format!("the space of shard {} is declared in another way than others", part.shard);
        return Err(Error::new(Code::CorruptData, message));
    }
    let needs_order = space.options.ordered || space.options.merged;
    if needs_order && space.frontier != other.frontier {
        let message = format!(
            "shard {} has closed versions up to another one than those before it: seal all shards at one frontier and take a checkpoint, then divide that",
            part.shard
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    space.frontier = space.frontier.max(other.frontier);
    Ok(space)
}

/// Rejects a checkpoint whose shards stopped at different places of the stream.
fn check_aligned(manifest: &Manifest) -> Result<()> {
    let common = |part: &ShardPart| -> Vec<(String, u64)> {
        let all = part.positions.iter().filter(|(name, _)| !position::is_shard_local(name));
        all.map(|(name, at)| (name.clone(), *at)).collect()
    };
    let mut all = manifest.shards.iter().map(common);
    let first = all.next();
    if all.all(|other| Some(other) == first) {
        return Ok(());
    }
    let message = format!(
        "the shards of checkpoint {} stood at different places of their sources: take one by their coordinator, and divide that",
        manifest.checkpoint
    );
    Err(Error::new(Code::InvalidArgument, message))
}
