//! Dividing the work anew: a checkpoint of n shards becomes one of m.
//!
//! ```text
//!   checkpoint 17, epoch 0    shard 0: groups 0..64     shard 1: groups 64..128
//!                                  |  \ \                 / / |
//!   checkpoint 18, epoch 1    shard 0: 0..43   shard 1: 43..86   shard 2: 86..128
//! ```
//!
//! Each new shard gets the entries of its groups, out of whatever shards had them, as one full snapshot. Until the manifest
//! is written nothing has happened, and afterwards all of it has: the old shards are fenced by the epoch.

use super::chain::{Chain, Failure, Joined, Rule, Stream};
use super::{Checkpoints, FilePart, Manifest, ShardPart, ShardReport, told};
use crate::position;
use mainstay_model::{
    Code, EntryKind, EntryRef, Error, Result, SnapshotHead, SnapshotWriter, SpaceInfo, key_group,
};
use std::io::Read;
use std::ops::Range;

/// The groups of each of so many shards, in order: as equal as can be.
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

/// Which groups move where when work is divided anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The groups.
    pub groups: Range<u32>,
    /// The shard that had them.
    pub from: u32,
    /// The shard that gets them.
    pub to: u32,
}

impl Manifest {
    /// What would move where with so many shards.
    pub fn plan(&self, shards: u32) -> Result<Vec<Move>> {
        let mut moves = Vec::new();
        for (to, new) in (0..).zip(divide(self.groups, shards)?) {
            for old in &self.shards {
                let groups = old.first_group.max(new.start)..old.end_group.min(new.end);
                if !groups.is_empty() {
                    moves.push(Move { groups, from: old.shard, to });
                }
            }
        }
        Ok(moves)
    }
}

impl Checkpoints {
    /// Divides the work of the newest checkpoint anew, among so many shards; gives the checkpoint that they begin from.
    pub fn rescale(&self, shards: u32) -> Result<Manifest> {
        let Some(before) = self.latest()? else {
            let message =
                format!("job `{}` has no checkpoint that could be divided", self.job.name);
            return Err(Error::new(Code::CheckpointNotFound, message));
        };
        check_aligned(&before)?;
        let id = self.next_id()?;
        let parts = (0..).zip(divide(before.groups, shards)?);
        let reports = parts
            .map(|(shard, groups)| self.part_anew(&before, id, shard, groups))
            .collect::<Result<Vec<_>>>();
        // Files that nobody needs go with a later checkpoint: now others of its number may be under way.
        self.commit(id, before.epoch + 1, reports?)
    }

    /// Writes what a new shard begins with.
    fn part_anew(
        &self,
        before: &Manifest,
        id: u64,
        shard: u32,
        groups: Range<u32>,
    ) -> Result<ShardReport> {
        let mut failures: Vec<Failure> = Vec::new();
        let mut streams = Vec::new();
        let mut space: Option<SpaceInfo> = None;
        for old in &before.shards {
            if old.first_group >= groups.end || old.end_group <= groups.start {
                continue;
            }
            let joined = self.joined(old, Some(wanted(before.groups, groups.clone())))?;
            space = Some(together(space, joined.space(), old)?);
            failures.push(joined.failure.clone());
            streams.push(Stream::new(Box::new(joined) as Box<dyn Read>)?);
        }
        let Some(space) = space else {
            let message =
                format!("groups {groups:?} are in no shard of checkpoint {}", before.checkpoint);
            return Err(Error::new(Code::CorruptData, message));
        };
        streams.push(division(space, before.epoch + 1)?);
        let chain = Chain::new(streams, Rule::Apart).only(remembered(space));
        let joined = Joined::new(chain, space, Box::new(|_| Ok(())))?;
        failures.push(joined.failure.clone());
        let written = self.write_joined(id, shard, joined);
        let (file, positions) =
            failures.iter().fold(written, |written, failure| told(failure, written))?;
        let versions = space.options.versions.map(Into::into);
        let (first_group, end_group) = (groups.start, groups.end);
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

    fn write_joined(
        &self,
        id: u64,
        shard: u32,
        mut joined: Joined,
    ) -> Result<(FilePart, std::collections::BTreeMap<String, u64>)> {
        let name = self.data_name(id, shard);
        let copied = self.shelf.put(&name, |out| {
            let copied = std::io::copy(&mut joined, out);
            copied.map_err(|error| Error::new(Code::Io, format!("`{name}`: {error}")))
        });
        copied?;
        let summary = joined
            .written()
            .ok_or_else(|| Error::new(Code::Io, format!("`{name}` was not written to its end")))?;
        Ok((FilePart::new(name, true, summary), summary.positions.clone()))
    }
}

/// Whether an entry belongs to a shard of some groups. Sinks begin anew, and so do counts of what came too late.
fn wanted(of: u32, groups: Range<u32>) -> super::chain::Wanted {
    Box::new(move |entry| match entry {
        EntryRef::Position { source, .. } => !position::is_of_one_shard(source),
        entry => entry.key().is_some_and(|key| groups.contains(&key_group(key, of))),
    })
}

/// What tells the state of a new shard from that of an old one, which is as far and has other keys: whoever opens an old
/// state as a new shard finds it behind, and restores it.
fn division(space: SpaceInfo, epoch: u64) -> Result<Stream> {
    let mut writer = SnapshotWriter::new(Vec::new(), &SnapshotHead::all(space))?;
    writer.push(&EntryKind::position(position::DIVISION), Some(&epoch.to_be_bytes()))?;
    Stream::new(Box::new(std::io::Cursor::new(writer.finish()?.1)))
}

/// Whether an entry is one that a space with this frontier has: a deletion below it is forgotten, for what it is newer than is
/// stale by the frontier.
fn remembered(space: SpaceInfo) -> super::chain::Wanted {
    Box::new(move |entry| match entry {
        EntryRef::State { version, value: None, .. } => !space.is_sealed(*version),
        _ => true,
    })
}

/// Spaces of shards that become one have to be alike. Of their frontiers the higher one counts: below it a shard has forgotten
/// what was deleted, and to all others nothing new comes there, since they stand at the same place of the stream. What waits
/// below it would have to be applied first.
fn together(space: Option<SpaceInfo>, other: SpaceInfo, part: &ShardPart) -> Result<SpaceInfo> {
    let Some(mut space) = space else { return Ok(other) };
    space.options.versions = space.options.versions.or(other.options.versions);
    if !space.options.is_as(&other.options) {
        let message =
            format!("the space of shard {} is declared in another way than others", part.shard);
        return Err(Error::new(Code::CorruptData, message));
    }
    let waits = space.options.ordered || space.options.merged;
    if waits && space.frontier != other.frontier {
        let message = format!(
            "shard {} has closed versions up to another one than those before it: seal all shards at one frontier and take a checkpoint, then divide that",
            part.shard
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    space.frontier = space.frontier.max(other.frontier);
    Ok(space)
}

/// Refuses a checkpoint whose shards stood at different places of the stream.
fn check_aligned(manifest: &Manifest) -> Result<()> {
    let common = |part: &ShardPart| -> Vec<(String, u64)> {
        let all = part.positions.iter().filter(|(name, _)| !position::is_of_one_shard(name));
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
