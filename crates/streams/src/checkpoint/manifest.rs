//! Manifest of a checkpoint: its identity and its files. It is written last and commits the checkpoint.
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
/// The largest manifest, in bytes. It has room for thousands of shards.
pub(super) const LIMIT_BYTES: usize = 64 << 20;

/// The identity and the files of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// The job.
    pub job: String,
    /// The operator that owns the state.
    pub operator: String,
    /// The checkpoint's number, higher for later checkpoints.
    pub checkpoint: u64,
    /// The number of rescalings before it.
    pub epoch: u64,
    /// The number of key groups.
    pub groups: u32,
    /// The number of kept checkpoints, as set by the writer of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
    /// The shards' parts, in order.
    pub shards: Vec<ShardPart>,
}

/// A shard's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardPart {
    /// The shard's number.
    pub shard: u32,
    /// The first key group.
    pub first_group: u32,
    /// The end of the key groups, exclusive.
    pub end_group: u32,
    /// The version kind, if the space has one.
    pub versions: Option<VersionName>,
    /// The snapshot mark of the shard's store, for the next incremental snapshot.
    pub mark: Option<SnapshotMark>,
    /// The positions of the shard's sources and sinks.
    pub positions: BTreeMap<String, u64>,
    /// The files: a full snapshot, then the increments in order.
    pub files: Vec<FilePart>,
}

/// The version kind, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionName {
    /// Unsigned integers.
    U64,
    /// Logical timestamps.
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
    /// The path of the file.
    pub name: String,
    /// True if it is a full snapshot and not an increment.
    pub full: bool,
    /// The number of entries.
    pub entries: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash at the file's end, in hexadecimal.
    pub hash: String,
}

impl FilePart {
    pub(super) fn new(name: String, full: bool, summary: &SnapshotSummary) -> FilePart {
        let hash = summary.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        FilePart { name, full, entries: summary.entries, bytes: summary.bytes, hash }
    }

    /// Returns whether the totals of a read file equal those of the written one.
    pub(super) fn matches_summary(&self, summary: &SnapshotSummary) -> bool {
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

    /// The total size of the files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files().fold(0, |all, file| all.saturating_add(file.bytes))
    }

    /// Iterates over all files.
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
