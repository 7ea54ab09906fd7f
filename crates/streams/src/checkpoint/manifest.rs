//! The manifest of a checkpoint: what it is of, and which files make it. It is written last: a checkpoint without one
//! is none.
//!
//! ```text
//!   { "format": 1, "job": ..., "operator": ..., "checkpoint": 17, "epoch": 0, "groups": 128, "kept": 10, "shards": [ {
//!       "shard": 0, "first_group": 0, "end_group": 64, "mark": ..., "positions": { ... },
//!       "files": [ { "name": ..., "full": true, "entries": ..., "bytes": ..., "hash": ... }, changes, changes ] }, ... ] }
//!   blake3 of the line above, in hex
//! ```

use mainstay_model::{Code, Error, Result, SnapshotMark, SnapshotSummary, VersionKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FORMAT: u32 = 1;
/// A manifest is never larger: some thousands of shards fit.
pub(super) const LIMIT_BYTES: usize = 64 << 20;

/// What a checkpoint is of, and which files make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// The job.
    pub job: String,
    /// The operator whose state it is.
    pub operator: String,
    /// Its number: later ones have higher ones.
    pub checkpoint: u64,
    /// How often the work was divided anew before it.
    pub epoch: u64,
    /// How many groups keys belong to.
    pub groups: u32,
    /// How many checkpoints of the job are kept, as far as whoever took this one says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// The parts of it, in order.
    pub shards: Vec<ShardPart>,
}

/// What one shard has contributed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardPart {
    /// Which shard.
    pub shard: u32,
    /// The first group of its keys.
    pub first_group: u32,
    /// The first group that is no longer its own.
    pub end_group: u32,
    /// The kind of its versions, if there are some.
    pub versions: Option<VersionName>,
    /// The moment that it shows, for its store.
    pub mark: Option<SnapshotMark>,
    /// How far its sources were read and its sinks written.
    pub positions: BTreeMap<String, u64>,
    /// The files that make it: a full one, and what has changed since, in order.
    pub files: Vec<FilePart>,
}

/// The kind of versions, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionName {
    /// Whole numbers.
    U64,
    /// Logical times.
    Time,
}

impl From<VersionKind> for VersionName {
    fn from(kind: VersionKind) -> VersionName {
        match kind {
            VersionKind::U64 => VersionName::U64,
            VersionKind::Time => VersionName::Time,
        }
    }
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Where it lies.
    pub name: String,
    /// Whether all there was is in it, and not only what had changed.
    pub full: bool,
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The hash that it ends with.
    pub hash: String,
}

impl FilePart {
    pub(super) fn new(name: String, full: bool, summary: &SnapshotSummary) -> FilePart {
        let hash = summary.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        FilePart { name, full, entries: summary.entries, bytes: summary.bytes, hash }
    }

    /// Whether what was read is what was written.
    pub(super) fn is_of(&self, summary: &SnapshotSummary) -> bool {
        *self == FilePart::new(self.name.clone(), self.full, summary)
    }
}

impl Manifest {
    pub(super) fn new(
        job: &super::Job,
        checkpoint: u64,
        epoch: u64,
        kept: usize,
        shards: Vec<ShardPart>,
    ) -> Manifest {
        let super::Job { name: job, operator, groups } = job.clone();
        let kept = Some(kept as u64);
        Manifest { format: FORMAT, job, operator, checkpoint, epoch, groups, kept, shards }
    }

    /// The bytes that take part in it.
    pub fn bytes(&self) -> u64 {
        self.files().fold(0, |all, file| all.saturating_add(file.bytes))
    }

    /// All files that make it.
    pub fn files(&self) -> impl Iterator<Item = &FilePart> {
        self.shards.iter().flat_map(|shard| &shard.files)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)
            .map_err(|error| Error::new(Code::InvalidValue, format!("a manifest: {error}")))?;
        bytes.push(b'\n');
        let hash = blake3::hash(&bytes).to_hex();
        bytes.extend_from_slice(hash.as_bytes());
        bytes.push(b'\n');
        if bytes.len() <= LIMIT_BYTES {
            return Ok(bytes);
        }
        let message = format!(
            "the manifest of checkpoint {} would have {} bytes, and {LIMIT_BYTES} are the most: make a full one, or have fewer shards",
            self.checkpoint,
            bytes.len()
        );
        Err(Error::new(Code::TransactionTooLarge, message))
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Manifest> {
        let damaged = |what: &str| {
            let message = format!(
                "manifest `{name}` is damaged: {what}; use another checkpoint. Where it is the newest, remove it: the one \
                 before it is the newest then"
            );
            Error::new(Code::CorruptData, message)
        };
        let end =
            bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("it has no end"))?;
        let (line, hash) = bytes.split_at(end + 1);
        if hash.strip_suffix(b"\n") != Some(blake3::hash(line).to_hex().as_bytes()) {
            return Err(damaged("its hash is another one"));
        }
        let manifest: Manifest =
            serde_json::from_slice(line).map_err(|error| damaged(&error.to_string()))?;
        if manifest.format != FORMAT {
            let message = format!(
                "manifest `{name}` has format {}, this program knows {FORMAT}: read it with a newer one",
                manifest.format
            );
            return Err(Error::new(Code::NewerFormat, message));
        }
        Ok(manifest)
    }
}
