//! Checkpoints: state and positions of one moment, where a crash or another machine finds them.
//!
//! ```text
//!   shard 0 --snapshot of all, or of what has changed--> data/17-0    \
//!   shard 1 -------------------------------------------> data/17-1     > manifest 17, last: now it is one
//!                                                                     /
//!   restore of 17, shard 0:  data/15-0 (all) + data/16-0 + data/17-0 (changes) --> one snapshot --> the space
//! ```
//!
//! A checkpoint that has no manifest is none: what a crash leaves of it is removed by the next one. A manifest names all files
//! that make it, so any that is kept can be restored, whatever came before or after.

mod chain;
mod commit;
mod manifest;
mod rescale;
mod shelf;
mod tidy;

pub use manifest::{FilePart, Manifest, ShardPart, VersionName};
pub use rescale::{Move, divide};
pub use shelf::Shelf;

use chain::{Chain, Joined, Rule, Stream};
use mainstay_model::{Code, Error, KeyedState, Result, check_name};
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::ops::Range;

/// How many checkpoints are kept unless told otherwise.
const KEPT_DEFAULT: usize = 10;
/// The most of changes alone: all of them are opened to restore one.
const CHANGES_LIMIT: usize = 1_000;
/// How many digits the number of a checkpoint has in names.
const DIGITS: usize = 20;
/// How much is read at once where only its end matters.
const PIECE_BYTES: usize = 256 << 10;
/// After so many of changes alone comes a full one.
const CHANGES_DEFAULT: usize = 20;

/// What checkpoints are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job, by which its checkpoints are found.
    pub name: String,
    /// The operator whose state it is.
    pub operator: String,
    /// How many groups keys belong to.
    pub groups: u32,
}

impl Job {
    /// A job with one operator and the usual number of groups.
    pub fn new(name: &str, operator: &str) -> Job {
        let (name, operator) = (name.to_owned(), operator.to_owned());
        Job { name, operator, groups: mainstay_model::GROUPS_DEFAULT }
    }
}

/// The checkpoints of a job.
///
/// ```
/// use mainstay_model::KeyedState;
/// use mainstay_streams::{Checkpoints, Job, MemoryState, Shelf};
/// let directory = tempfile::tempdir().unwrap();
/// let checkpoints = Checkpoints::open(Shelf::directory(directory.path())?, Job::new("orders", "count"))?;
/// let state = MemoryState::new();
/// state.put(b"user-7", b"1", 17.into())?;
///
/// let id = checkpoints.take(&state)?.checkpoint;
/// // On any machine that sees the directory:
/// let again = MemoryState::new();
/// checkpoints.restore(id, 0, &again)?;
/// assert_eq!(again.snapshot()?, state.snapshot()?);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone)]
pub struct Checkpoints {
    shelf: Shelf,
    job: Job,
    kept: usize,
    changes: usize,
    back_to: Option<u64>,
}

/// What a shard has written for a checkpoint that is not one yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The checkpoint.
    pub checkpoint: u64,
    /// What it has written, and what that stands on.
    pub part: ShardPart,
    /// Why all there is was written, where changes alone would have done.
    pub why_full: Option<String>,
}

impl Checkpoints {
    /// The checkpoints of a job, those there are and those to come.
    pub fn open(shelf: Shelf, job: Job) -> Result<Checkpoints> {
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
        let (kept, changes) = (KEPT_DEFAULT, CHANGES_DEFAULT);
        Ok(Checkpoints { shelf, job, kept, changes, back_to: None })
    }

    /// How many are kept; at least one.
    #[must_use]
    pub fn keep(mut self, kept: usize) -> Checkpoints {
        self.kept = kept.max(1);
        self
    }

    /// After how many of changes alone a full one comes, 1,000 at most; 0: all are full.
    #[must_use]
    pub fn changes(mut self, changes: usize) -> Checkpoints {
        self.changes = changes.min(CHANGES_LIMIT);
        self
    }

    /// Workers that are opened with these begin from this one, whatever their state is and whatever came after it. The
    /// next one that they take is the newest then; until there is one, those who are opened without this go on from the
    /// newest that was.
    #[must_use]
    pub fn back_to(mut self, checkpoint: u64) -> Checkpoints {
        self.back_to = Some(checkpoint);
        self
    }

    /// What they are of.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The numbers of those there are, oldest first.
    pub fn list(&self) -> Result<Vec<u64>> {
        let names = self.shelf.list(&self.manifests())?;
        Ok(names.iter().filter(|name| is_manifest(name)).filter_map(|name| number(name)).collect())
    }

    /// The newest one; nothing where there is none.
    pub fn latest(&self) -> Result<Option<Manifest>> {
        let latest = self.latest_of(&self.list()?)?;
        latest.map(|latest| self.kept_for_good().map(|()| latest)).transpose()
    }

    /// Whoever wrote a manifest may have been killed before its name was safe: who goes by it makes it so.
    fn kept_for_good(&self) -> Result<()> {
        self.shelf.keep(&self.manifests())
    }

    fn manifests(&self) -> String {
        format!("{}/manifests", self.job.name)
    }

    /// The newest of these. One of a division that was over before it is none: whoever wrote it has not come to take it back.
    fn latest_of(&self, all: &[u64]) -> Result<Option<Manifest>> {
        let Some((last, before)) = all.split_last() else { return Ok(None) };
        let last = self.manifest(*last)?;
        let Some(before) = before.last() else { return Ok(Some(last)) };
        match self.manifest_if_whole(*before)?.filter(|before| before.epoch > last.epoch) {
            Some(before) => Ok(Some(before)),
            None => Ok(Some(last)),
        }
    }

    /// Whether a checkpoint is one, of this epoch: another of its number may have come with a division.
    pub(crate) fn is_committed(&self, checkpoint: u64, epoch: u64) -> Result<bool> {
        let all = self.list()?;
        let upto = all.partition_point(|id| *id <= checkpoint);
        let found = self.latest_of(&all[..upto])?;
        let is_one = found.is_some_and(|it| it.checkpoint == checkpoint && it.epoch == epoch);
        if is_one {
            self.kept_for_good()?;
        }
        Ok(is_one)
    }

    /// The manifest of one of them, which has to be of this job.
    pub fn manifest(&self, checkpoint: u64) -> Result<Manifest> {
        let manifest = self.read_manifest(checkpoint)?;
        self.check_own(&manifest)?;
        Ok(manifest)
    }

    fn read_manifest(&self, checkpoint: u64) -> Result<Manifest> {
        let name = self.manifest_name(checkpoint);
        let Some(file) = self.shelf.open(&name)? else {
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

    /// Refuses the checkpoint of another job, operator or number of groups.
    fn check_own(&self, manifest: &Manifest) -> Result<()> {
        let Job { name, operator, groups } = &self.job;
        let differs = |what: &str, theirs: &dyn std::fmt::Display, own: &dyn std::fmt::Display| {
            let message = format!(
                "checkpoint {} is of {what} {theirs}, and this is {what} {own}: restore it where it belongs",
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

    /// The one to begin from whatever the state is; nothing where none was named.
    pub(crate) fn named(&self) -> Result<Option<Manifest>> {
        let Some(id) = self.back_to else { return Ok(None) };
        let named = self.manifest(id)?;
        self.kept_for_good()?;
        Ok(Some(named))
    }

    /// The number that the next checkpoint gets.
    pub fn next_id(&self) -> Result<u64> {
        self.list()?.last().map_or(Ok(1), |last| self.behind(*last))
    }

    /// The number behind another.
    fn behind(&self, checkpoint: u64) -> Result<u64> {
        checkpoint.checked_add(1).ok_or_else(|| {
            let message = format!(
                "job `{}` has a checkpoint with the last number there is, {checkpoint}: somebody put it there; remove it",
                self.job.name
            );
            Error::new(Code::CorruptData, message)
        })
    }

    /// Takes a checkpoint of a job that has one shard.
    pub fn take(&self, state: &dyn KeyedState) -> Result<Manifest> {
        let before = self.latest()?;
        if let Some(shards) = before.as_ref().map(|it| it.shards.len()).filter(|it| *it != 1) {
            let message = format!(
                "the newest checkpoint of job `{}` has {shards} shards: theirs are taken by their conductor",
                self.job.name
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let id = self.next_id()?;
        let epoch = before.as_ref().map_or(0, |before| before.epoch);
        let report = self.write(id, 0, 0..self.job.groups, state, before.as_ref())?;
        self.commit(id, epoch, vec![report])
    }

    /// Writes what a shard contributes to a checkpoint: what has changed since the one before, or all there is.
    pub fn write(
        &self,
        checkpoint: u64,
        shard: u32,
        groups: Range<u32>,
        state: &dyn KeyedState,
        before: Option<&Manifest>,
    ) -> Result<ShardReport> {
        self.check_space(state)?;
        if self.list()?.contains(&checkpoint) {
            return Err(self.too_late(checkpoint, checkpoint));
        }
        let before = before.and_then(|before| before.part(shard, &groups));
        let since = before.filter(|before| before.files.len() <= self.changes);
        let mark = since.and_then(|before| before.mark.as_ref());
        let name = self.data_name(checkpoint, shard);
        let taken = self.shelf.put(&name, |out| state.snapshot_since(mark, out))?;
        let file = FilePart::new(name, taken.is_full, &taken.summary);
        let (mut files, mut positions) = (Vec::new(), Default::default());
        if let (false, Some(before)) = (taken.is_full, since) {
            (files, positions) = (before.files.clone(), before.positions.clone());
        }
        files.push(file);
        positions.extend(taken.summary.positions);
        let versions = state.info()?.and_then(|info| info.options.versions).map(VersionName::from);
        let (first_group, end_group) = (groups.start, groups.end);
        let part = ShardPart {
            shard,
            first_group,
            end_group,
            versions,
            mark: taken.mark,
            positions,
            files,
        };
        Ok(ShardReport { checkpoint, part, why_full: taken.why.map(str::to_owned) })
    }

    /// Refuses a space whose keys belong to another number of groups than the job's.
    fn check_space(&self, state: &dyn KeyedState) -> Result<()> {
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

    /// The jobs that have checkpoints, in byte order of their names.
    pub fn jobs(shelf: &Shelf) -> Result<Vec<String>> {
        let mut jobs: Vec<String> = shelf
            .list("")?
            .iter()
            .filter_map(|name| Some(name.split_once("/manifests/")?.0.to_owned()))
            .collect();
        jobs.dedup();
        Ok(jobs)
    }

    /// The checkpoints of a job, whatever its operator and its number of groups; nothing where it has none. As many are kept
    /// as by whoever took the newest one that can be read.
    pub fn of_job(shelf: Shelf, name: &str) -> Result<Option<Checkpoints>> {
        let checkpoints = Checkpoints::open(shelf, Job::new(name, "any"))?;
        let mut unread = None;
        for checkpoint in checkpoints.list()?.into_iter().rev() {
            match checkpoints.read_manifest(checkpoint) {
                Ok(manifest) => return checkpoints.like(manifest).map(Some),
                // One that is damaged does not hide the others.
                Err(error) => _ = unread.get_or_insert(error),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// Those of the operator, the groups and the number that a manifest says.
    fn like(self, manifest: Manifest) -> Result<Checkpoints> {
        let (operator, groups) = (manifest.operator.clone(), manifest.groups);
        let all = Checkpoints { job: Job { operator, groups, ..self.job }, ..self };
        all.check_own(&manifest)?;
        // One that does not say it was written before they did: none of those goes.
        let kept = manifest.kept.and_then(|kept| usize::try_from(kept).ok()).unwrap_or(usize::MAX);
        Ok(all.keep(kept))
    }

    /// Reads all files of a checkpoint, and checks them; changes nothing.
    pub fn verify(&self, checkpoint: u64) -> Result<Manifest> {
        let manifest = self.manifest(checkpoint)?;
        check_whole(checkpoint, &self.job, &manifest.shards)?;
        for part in &manifest.shards {
            let mut joined = self.joined(part, None)?;
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let taken = joined.read(&mut piece);
                let taken = taken.map_err(|error| Error::new(Code::Io, error.to_string()));
                let taken = told(&joined.failure, taken)?;
                if taken == 0 {
                    break;
                }
            }
        }
        Ok(manifest)
    }

    /// Makes a space what a shard's was; if something is damaged, nothing happens. Gives the part that it was.
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
        let mut joined = self.joined(&part, None)?;
        let failure = joined.failure.clone();
        told(&failure, state.restore_from(&mut joined))?;
        Ok(part)
    }

    /// All files of a shard's part as one snapshot, of which some entries may be wanted.
    fn joined(&self, part: &ShardPart, wanted: Option<chain::Wanted>) -> Result<Joined> {
        let streams: Vec<Stream> =
            part.files.iter().map(|file| self.stream(file)).collect::<Result<_>>()?;
        let Some(last) = streams.last() else {
            let message = format!("shard {} has no files", part.shard);
            return Err(Error::new(Code::CorruptData, message));
        };
        let space = last.head().space;
        let files = part.files.clone();
        let check = Box::new(move |streams: &[Stream]| check_files(&files, streams));
        let mut chain = Chain::new(streams, Rule::Later);
        if let Some(wanted) = wanted {
            chain = chain.only(wanted);
        }
        Joined::new(chain, space, check)
    }

    fn stream(&self, file: &FilePart) -> Result<Stream> {
        let Some(from) = self.shelf.open(&file.name)? else {
            return Err(lost(file, "it is not there"));
        };
        let stream = Stream::new(from).map_err(|error| lost(file, &error.to_string()))?;
        match stream.head().changes != file.full {
            true => Ok(stream),
            false => Err(lost(file, "it is another file")),
        }
    }

    /// A name that nobody else takes: of two who write for one checkpoint, each has files of its own.
    fn data_name(&self, checkpoint: u64, shard: u32) -> String {
        format!("{}/data/{checkpoint:020}-{shard}-{}", self.job.name, unique())
    }

    fn manifest_name(&self, checkpoint: u64) -> String {
        format!("{}/manifests/{checkpoint:020}", self.job.name)
    }
}

impl Manifest {
    /// What a shard has contributed, if its groups are these.
    fn part(&self, shard: u32, groups: &Range<u32>) -> Option<&ShardPart> {
        let found = self.shards.iter().find(|part| part.shard == shard)?;
        ((found.first_group..found.end_group) == *groups).then_some(found)
    }
}

/// Refuses parts that leave groups out, or have them twice.
fn check_whole(checkpoint: u64, job: &Job, parts: &[ShardPart]) -> Result<()> {
    let mut next = 0;
    for (place, part) in parts.iter().enumerate() {
        let in_order = part.shard as usize == place && part.first_group == next;
        let has_base = part.files.first().is_some_and(|file| file.full);
        if !in_order || !has_base || part.end_group < part.first_group {
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

/// Refuses files that are not those that were written.
fn check_files(files: &[FilePart], streams: &[Stream]) -> Result<()> {
    for (file, stream) in files.iter().zip(streams) {
        if !stream.summary().is_some_and(|summary| file.is_of(summary)) {
            return Err(lost(file, "it is not the one that was written"));
        }
    }
    Ok(())
}

/// The checkpoint that a file is of, by its name: 20 digits, and whatever is behind them.
fn number(name: &str) -> Option<u64> {
    let digits = name.rsplit('/').next()?.get(..DIGITS)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Whether a file is a manifest by its name; others may lie beside them.
fn is_manifest(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|name| name.len() == DIGITS)
}

/// Something that nobody else has, for the names of files.
fn unique() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// What went wrong inside, where the outside knows less.
fn told<T>(failure: &chain::Failure, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| failure.borrow_mut().take().unwrap_or(error))
}

#[cold]
fn lost(file: &FilePart, why: &str) -> Error {
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
        let shelf = Shelf::directory(directory.path()).unwrap();
        let checkpoints = Checkpoints::open(shelf, Job::new("job", "counts")).unwrap();
        assert_eq!(checkpoints.clone().changes(usize::MAX).changes, CHANGES_LIMIT);
        assert_eq!(checkpoints.changes(7).changes, 7);
    }
}
