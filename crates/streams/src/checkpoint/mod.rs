//! Incremental checkpoints: state and positions of one moment, durable and readable on any machine.
//!
//! ```text
//!   shard 0 --full or incremental snapshot-------------> data/17-0    \
//!   shard 1 -------------------------------------------> data/17-1     > manifest 17, last: commits it
//!                                                                     /
//!   restore of 17, shard 0:  data/15-0 (full) + data/16-0 + data/17-0 (changes) --> one snapshot --> the space
//! ```
//!
//! A checkpoint exists only with its manifest. The next checkpoint removes the files of an unfinished one. A
//! manifest names all its files, so each kept checkpoint can be restored independently of the others.

mod checkpoint_store;
mod commit;
mod gc;
mod manifest;
mod rescale;
mod snapshot_merge;

pub use checkpoint_store::CheckpointStore;
pub use manifest::{FilePart, Manifest, ShardPart, VersionName};
pub use rescale::{KeyGroupMove, divide};

use mainstay_model::{Code, Error, KeyedState, Result, check_name};
use serde::{Deserialize, Serialize};
use snapshot_merge::{
    EntryFilter, MergeRule, MergedSnapshotReader, ReadFailure, SnapshotMerger, SnapshotStream,
};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::ops::Range;

/// The default number of kept checkpoints.
const RETAINED_DEFAULT: usize = 10;
/// The longest chain of incremental snapshots. A restore opens all of them at once.
const CHAIN_LIMIT: usize = 1_000;
/// The number of digits of a checkpoint number in file names.
const ID_DIGITS: usize = 20;
/// The read size when only the end of a stream matters.
const READ_BYTES: usize = 256 << 10;
/// The default length of a chain of incremental snapshots.
const CHAIN_DEFAULT: usize = 20;

/// The identity of a checkpointed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job's name, by which its checkpoints are found.
    pub name: String,
    /// The operator that owns the state.
    pub operator: String,
    /// The number of key groups.
    pub groups: u32,
}

impl Job {
    /// A job with one operator and the default number of key groups.
    pub fn new(name: &str, operator: &str) -> Job {
        let name = name.to_owned();
        let operator = operator.to_owned();
        Job { name, operator, groups: mainstay_model::GROUPS_DEFAULT }
    }
}

/// The checkpoints of a job.
///
/// ```
/// use mainstay_model::KeyedState;
/// use mainstay_streams::{Checkpoints, Job, MemoryState, CheckpointStore};
/// let directory = tempfile::tempdir().unwrap();
/// let checkpoints = Checkpoints::open(CheckpointStore::directory(directory.path())?, Job::new("orders", "count"))?;
/// let state = MemoryState::new();
/// state.put(b"user-7", b"1", 17.into())?;
///
/// let id = checkpoints.create(&state)?.checkpoint;
/// // On any machine that can read the directory:
/// let again = MemoryState::new();
/// checkpoints.restore(id, 0, &again)?;
/// assert_eq!(again.snapshot()?, state.snapshot()?);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone)]
pub struct Checkpoints {
    store: CheckpointStore,
    job: Job,
    retained: usize,
    changes: usize,
    start_from: Option<u64>,
}

/// A shard's contribution to a checkpoint that is not committed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// The written file with the files it depends on.
    pub part: ShardPart,
    /// The reason for a full snapshot when an incremental one was possible.
    pub why_full: Option<String>,
}

impl Checkpoints {
    /// Opens the checkpoints of a job.
    pub fn open(store: CheckpointStore, job: Job) -> Result<Checkpoints> {
        for name in [&job.name, &job.operator] {
            check_name(name)?;
        }
        if !job.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            || job.name.starts_with('.')
        {
            let message = format!(
                "job `{}`: its checkpoints are files, so its name has letters, digits, `-`, `_` and `.`",
                job.name
            );
            return Err(Error::new(Code::InvalidName, message));
        }
        let retained = RETAINED_DEFAULT;
        let changes = CHAIN_DEFAULT;
        Ok(Checkpoints { store, job, retained, changes, start_from: None })
    }

    /// Sets the number of kept checkpoints, at least one.
    #[must_use]
    pub fn keep(mut self, retained: usize) -> Checkpoints {
        self.retained = retained.max(1);
        self
    }

    /// Sets the number of incremental snapshots before a full one, at most 1,000. With 0, all are full.
    #[must_use]
    pub fn changes(mut self, changes: usize) -> Checkpoints {
        self.changes = changes.min(CHAIN_LIMIT);
        self
    }

    /// Makes workers opened with this handle start from this checkpoint, whatever their state and later
    /// checkpoints are. Their next checkpoint is then the newest. Until it exists, workers opened without
    /// this setting continue from the previous newest one.
    #[must_use]
    pub fn start_from(mut self, checkpoint: u64) -> Checkpoints {
        self.start_from = Some(checkpoint);
        self
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Lists the checkpoints' numbers, oldest first.
    pub fn list(&self) -> Result<Vec<u64>> {
        let names = self.store.list(&self.manifest_directory())?;
        Ok(names
            .iter()
            .filter(|name| is_manifest_name(name))
            .filter_map(|name| checkpoint_number(name))
            .collect())
    }

    /// Returns the newest checkpoint; `None` if none exists.
    pub fn latest(&self) -> Result<Option<Manifest>> {
        let latest = self.newest_of(&self.list()?)?;
        latest.map(|latest| self.sync_manifests().map(|()| latest)).transpose()
    }

    /// Fsyncs the manifest directory. The writer of a manifest may have crashed before the fsync, so a reader
    /// does it before relying on the manifest.
    fn sync_manifests(&self) -> Result<()> {
        self.store.sync_directory(&self.manifest_directory())
    }

    fn manifest_directory(&self) -> String {
        format!("{}/manifests", self.job.name)
    }

    /// Returns the newest of these checkpoints. A checkpoint of an epoch that had already ended does not
    /// count: its writer crashed before removing it.
    fn newest_of(&self, all: &[u64]) -> Result<Option<Manifest>> {
        let Some((last, previous)) = all.split_last() else { return Ok(None) };
        let last = self.manifest(*last)?;
        let Some(previous) = previous.last() else { return Ok(Some(last)) };
        match self.manifest_if_valid(*previous)?.filter(|previous| previous.epoch > last.epoch) {
            Some(previous) => Ok(Some(previous)),
            None => Ok(Some(last)),
        }
    }

    /// Returns whether this checkpoint of this epoch is committed. A rescaling may have created another
    /// checkpoint with the same number.
    pub(crate) fn is_committed(&self, checkpoint: u64, epoch: u64) -> Result<bool> {
        let all = self.list()?;
        let upto = all.partition_point(|id| *id <= checkpoint);
        let newest = self.newest_of(&all[..upto])?;
        let is_current = newest.is_some_and(|it| it.checkpoint == checkpoint && it.epoch == epoch);
        if is_current {
            self.sync_manifests()?;
        }
        Ok(is_current)
    }

    /// Reads the manifest of a checkpoint and checks that it belongs to this job.
    pub fn manifest(&self, checkpoint: u64) -> Result<Manifest> {
        let manifest = self.read_manifest(checkpoint)?;
        self.check_identity(&manifest)?;
        Ok(manifest)
    }

    fn read_manifest(&self, checkpoint: u64) -> Result<Manifest> {
        let name = self.manifest_name(checkpoint);
        let Some(file) = self.store.open(&name)? else {
            let message = format!("job `{}` has no checkpoint {checkpoint}", self.job.name);
            return Err(Error::new(Code::CheckpointNotFound, message));
        };
        let mut bytes = Vec::new();
        file.take(manifest::LIMIT_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::new(Code::Io, format!("manifest `{name}`: {error}")))?;
        let manifest = Manifest::decode(&name, &bytes)?;
        if manifest.checkpoint == checkpoint {
            return Ok(manifest);
        }
        let message =
            format!("manifest `{name}` is that of checkpoint {}: remove it", manifest.checkpoint);
        Err(Error::new(Code::CorruptData, message))
    }

    /// Rejects a checkpoint of another job, operator or number of key groups.
    fn check_identity(&self, manifest: &Manifest) -> Result<()> {
        let Job { name, operator, groups } = &self.job;
        let differs = |what: &str, actual: &dyn std::fmt::Display, own: &dyn std::fmt::Display| {
            let message = format!(
                "checkpoint {} is of {what} {actual}, and this is {what} {own}: restore it where it belongs",
                manifest.checkpoint
            );
            Err(Error::new(Code::InvalidArgument, message))
        };
        match manifest {
            _ if manifest.job != *name => differs("job", &manifest.job, name),
            _ if manifest.operator != *operator => {
                differs("operator", &manifest.operator, operator)
            }
            _ if manifest.groups != *groups => {
                differs("a number of key groups,", &manifest.groups, groups)
            }
            _ => Ok(()),
        }
    }

    /// The checkpoint set with `start_from`, if any.
    pub(crate) fn start_checkpoint(&self) -> Result<Option<Manifest>> {
        let Some(id) = self.start_from else { return Ok(None) };
        let start_checkpoint = self.manifest(id)?;
        self.sync_manifests()?;
        Ok(Some(start_checkpoint))
    }

    /// The number of the next checkpoint.
    pub fn next_id(&self) -> Result<u64> {
        self.list()?.last().map_or(Ok(1), |last| self.id_after(*last))
    }

    /// The number after another.
    fn id_after(&self, checkpoint: u64) -> Result<u64> {
        checkpoint.checked_add(1).ok_or_else(|| {
            let message = format!(
                "job `{}` has a checkpoint with the last number there is, {checkpoint}: somebody put it there; remove it",
                self.job.name
            );
            Error::new(Code::CorruptData, message)
        })
    }

    /// Takes a checkpoint of a job with one shard.
    pub fn create(&self, state: &dyn KeyedState) -> Result<Manifest> {
        let previous = self.latest()?;
        if let Some(shards) = previous.as_ref().map(|it| it.shards.len()).filter(|it| *it != 1) {
            let message = format!(
                "the newest checkpoint of job `{}` has {shards} shards: theirs are taken by their conductor",
                self.job.name
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let id = self.next_id()?;
        let epoch = previous.as_ref().map_or(0, |previous| previous.epoch);
        let report = self.write(id, 0, 0..self.job.groups, state, previous.as_ref())?;
        self.commit(id, epoch, vec![report])
    }

    /// Writes a shard's snapshot for a checkpoint: incremental since the previous one, or full.
    pub fn write(
        &self,
        checkpoint: u64,
        shard: u32,
        groups: Range<u32>,
        state: &dyn KeyedState,
        previous: Option<&Manifest>,
    ) -> Result<ShardReport> {
        self.check_key_groups(state)?;
        if self.list()?.contains(&checkpoint) {
            return Err(self.overtaken_error(checkpoint, checkpoint));
        }
        let previous = previous.and_then(|previous| previous.part(shard, &groups));
        let since = previous.filter(|previous| previous.files.len() <= self.changes);
        let mark = since.and_then(|previous| previous.mark.as_ref());
        let name = self.data_name(checkpoint, shard);
        let snapshot = self.store.put(&name, |out| state.snapshot_since(mark, out))?;
        let file = FilePart::new(name, snapshot.is_full, &snapshot.summary);
        let mut files = Vec::new();
        let mut positions = Default::default();
        if let (false, Some(previous)) = (snapshot.is_full, since) {
            files = previous.files.clone();
            positions = previous.positions.clone();
        }
        files.push(file);
        positions.extend(snapshot.summary.positions);
        let versions = state.info()?.and_then(|info| info.options.versions).map(VersionName::from);
        let first_group = groups.start;
        let end_group = groups.end;
        let part = ShardPart {
            shard,
            first_group,
            end_group,
            versions,
            mark: snapshot.mark,
            positions,
            files,
        };
        Ok(ShardReport { checkpoint, part, why_full: snapshot.why.map(str::to_owned) })
    }

    /// Rejects a space with another number of key groups than the job's.
    fn check_key_groups(&self, state: &dyn KeyedState) -> Result<()> {
        let groups = state.info()?.map(|info| info.options.groups);
        match groups.filter(|groups| *groups != self.job.groups) {
            None => Ok(()),
            Some(groups) => {
                let message = format!(
                    "keys of the space belong to {groups} groups, those of job `{}` to {}: declare it so",
                    self.job.name, self.job.groups
                );
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    /// Lists the jobs that have checkpoints, in byte order of their names.
    pub fn jobs(store: &CheckpointStore) -> Result<Vec<String>> {
        let mut jobs: Vec<String> = store
            .list("")?
            .iter()
            .filter_map(|name| Some(name.split_once("/manifests/")?.0.to_owned()))
            .collect();
        jobs.dedup();
        Ok(jobs)
    }

    /// Opens the checkpoints of a job by name, with the operator and the settings of its newest readable
    /// manifest; `None` if the job has no checkpoints. The number of kept checkpoints also comes from that
    /// manifest.
    pub fn of_job(store: CheckpointStore, name: &str) -> Result<Option<Checkpoints>> {
        let checkpoints = Checkpoints::open(store, Job::new(name, "any"))?;
        let mut first_error = None;
        for checkpoint in checkpoints.list()?.into_iter().rev() {
            match checkpoints.read_manifest(checkpoint) {
                Ok(manifest) => return checkpoints.with_settings_of(manifest).map(Some),
                // A damaged checkpoint does not hide the others.
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        first_error.map_or(Ok(None), Err)
    }

    /// Takes the operator, the key groups and the number of kept checkpoints from a manifest.
    fn with_settings_of(self, manifest: Manifest) -> Result<Checkpoints> {
        let operator = manifest.operator.clone();
        let groups = manifest.groups;
        let all = Checkpoints { job: Job { operator, groups, ..self.job }, ..self };
        all.check_identity(&manifest)?;
        // A manifest without the number was written by an older version, so remove none of its checkpoints.
        let retained =
            manifest.kept.and_then(|retained| usize::try_from(retained).ok()).unwrap_or(usize::MAX);
        Ok(all.keep(retained))
    }

    /// Reads and verifies all files of a checkpoint without changing anything.
    pub fn verify(&self, checkpoint: u64) -> Result<Manifest> {
        let manifest = self.manifest(checkpoint)?;
        check_complete(checkpoint, &self.job, &manifest.shards)?;
        for part in &manifest.shards {
            let mut merged_snapshot = self.merged_snapshot(part, None)?;
            let mut buffer = vec![0; READ_BYTES];
            loop {
                let result = merged_snapshot.read(&mut buffer);
                let result = result.map_err(|error| Error::new(Code::Io, error.to_string()));
                let count = with_cause(&merged_snapshot.failure, result)?;
                if count == 0 {
                    break;
                }
            }
        }
        Ok(manifest)
    }

    /// Restores a space from a shard's part of a checkpoint. A damaged file changes nothing. Returns the
    /// part.
    pub fn restore(
        &self,
        checkpoint: u64,
        shard: u32,
        state: &dyn KeyedState,
    ) -> Result<ShardPart> {
        let manifest = self.manifest(checkpoint)?;
        let part = manifest.shards.into_iter().find(|part| part.shard == shard);
        let Some(part) = part else {
            let message = format!("checkpoint {checkpoint} has no shard {shard}");
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let mut merged_snapshot = self.merged_snapshot(&part, None)?;
        let failure = merged_snapshot.failure.clone();
        with_cause(&failure, state.restore_from(&mut merged_snapshot))?;
        Ok(part)
    }

    /// Joins the files of a shard's part to one snapshot, optionally with only the wanted entries.
    fn merged_snapshot(
        &self,
        part: &ShardPart,
        filter: Option<EntryFilter>,
    ) -> Result<MergedSnapshotReader> {
        let streams: Vec<SnapshotStream> =
            part.files.iter().map(|file| self.stream(file)).collect::<Result<_>>()?;
        let Some(last) = streams.last() else {
            let message = format!("shard {} has no files", part.shard);
            return Err(Error::new(Code::CorruptData, message));
        };
        let space = last.head().space;
        let files = part.files.clone();
        let check = Box::new(move |streams: &[SnapshotStream]| check_files(&files, streams));
        let mut merger = SnapshotMerger::new(streams, MergeRule::Latest);
        if let Some(filter) = filter {
            merger = merger.with_filter(filter);
        }
        MergedSnapshotReader::new(merger, space, check)
    }

    fn stream(&self, file: &FilePart) -> Result<SnapshotStream> {
        let Some(from) = self.store.open(&file.name)? else {
            return Err(unusable_file(file, "it is not there"));
        };
        let stream =
            SnapshotStream::new(from).map_err(|error| unusable_file(file, &error.to_string()))?;
        if stream.head().changes != file.full {
            Ok(stream)
        } else {
            Err(unusable_file(file, "it is another file"))
        }
    }

    /// A unique file name, so that two writers of the same checkpoint use different files.
    fn data_name(&self, checkpoint: u64, shard: u32) -> String {
        format!("{}/data/{checkpoint:020}-{shard}-{}", self.job.name, unique_suffix())
    }

    fn manifest_name(&self, checkpoint: u64) -> String {
        format!("{}/manifests/{checkpoint:020}", self.job.name)
    }
}

impl Manifest {
    /// A shard's part, if it has exactly these key groups.
    fn part(&self, shard: u32, groups: &Range<u32>) -> Option<&ShardPart> {
        let part = self.shards.iter().find(|part| part.shard == shard)?;
        ((part.first_group..part.end_group) == *groups).then_some(part)
    }
}

/// Rejects parts with missing or duplicate key groups, or without a full snapshot.
fn check_complete(checkpoint: u64, job: &Job, parts: &[ShardPart]) -> Result<()> {
    let mut next = 0;
    for (index, part) in parts.iter().enumerate() {
        let is_next = part.shard as usize == index && part.first_group == next;
        let has_base = part.files.first().is_some_and(|file| file.full);
        if !is_next || !has_base || part.end_group < part.first_group {
            let message = format!(
                "checkpoint {checkpoint} is not whole: shard {} does not follow the one before it, or has no full snapshot",
                part.shard
            );
            return Err(Error::new(Code::CorruptData, message));
        }
        next = part.end_group;
    }
    if next == job.groups {
        return Ok(());
    }
    let message =
        format!("checkpoint {checkpoint} is not whole: groups from {next} on are in no shard");
    Err(Error::new(Code::CorruptData, message))
}

/// Rejects files that differ from those that were written.
fn check_files(files: &[FilePart], streams: &[SnapshotStream]) -> Result<()> {
    for (file, stream) in files.iter().zip(streams) {
        if !stream.summary().is_some_and(|summary| file.matches_summary(summary)) {
            return Err(unusable_file(file, "it is not the one that was written"));
        }
    }
    Ok(())
}

/// Parses the checkpoint number at the start of a file name: 20 digits.
fn checkpoint_number(name: &str) -> Option<u64> {
    let digits = name.rsplit('/').next()?.get(..ID_DIGITS)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns whether the name is that of a manifest. Other files may be in the same directory.
fn is_manifest_name(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|name| name.len() == ID_DIGITS)
}

/// A random suffix for unique file names.
fn unique_suffix() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Replaces a generic error by the recorded cause, if there is one.
fn with_cause<T>(failure: &ReadFailure, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| failure.borrow_mut().take().unwrap_or(error))
}

#[cold]
fn unusable_file(file: &FilePart, why: &str) -> Error {
    let message = format!(
        "file `{}` of the checkpoint cannot be used: {why}; use another checkpoint. Where it is the newest and has to go, \
         remove its manifest",
        file.name
    );
    Error::new(Code::CorruptData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_changes_has_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let store = CheckpointStore::directory(directory.path()).unwrap();
        let checkpoints = Checkpoints::open(store, Job::new("job", "counts")).unwrap();
        assert_eq!(checkpoints.clone().changes(usize::MAX).changes, CHAIN_LIMIT);
        assert_eq!(checkpoints.changes(7).changes, 7);
    }
}
