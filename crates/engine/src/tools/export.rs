//! Export and import: a branch in one file, with its retained versions, counters and tags.
//!
//! ```text
//!   "MSTEXPT1" | record ... | end record | blake3 of all before, 32 bytes
//!   record: length u32 LE | kind u8 | body
//!     1 head     a value: format, branch, revision
//!     2 version  revision u64 LE | name length u16 LE | name | entry      by revision
//!     3 tag      revision u64 LE | name                                   after its revision
//!     4 version  of a record, as 2 is of a cell
//!     6 event    of a run, as 2 is of a cell: its name is the run, a NUL and the sequence; 0 is the run's creation time and metadata
//!     7 entry    of a space of keyed state, as 2 is of a cell: its name is the space, a NUL and the place. The entry follows
//!                the length of its versions u8, 80 more while readers did not see it
//!     8 space    of keyed state, as 2 is of a cell: 1 if readers see it from then on u8 | its declaration
//!     5 index    over records: a value with its prefix and fields         after the head
//!    10 message  to be sent, as 2 is of a cell: its name is `m` and its number u64 BE, and instead of an entry: 1 if it is
//!                dead u8 | reason | subject | run | payload
//!    11 request  to a client, the same with `c`: session | payload
//!    12 deleted  run, as 2 is of a cell
//!     9 end      number of versions u64 LE
//! ```
//!
//! Versions are in the order of their revisions, so an import replays history: each transaction of the
//! source becomes one of the target, with the target's own revision and stamp. Inherited state is
//! exported as the branch's own. An import uses nothing of the file before all of it has been verified.

use crate::key::keyspace::{CELLS, DATA};
use crate::lifecycle::engine::Engine;
use crate::mvcc::write_set::WriteSet;
use crate::read::snapshot::Snapshot;
use import::Import;
use mainstay_model::{At, BranchCommand, Name, Result, Revision};
use reader::check_file;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

mod import;
mod keyed;
mod reader;
mod record;
mod writer;

/// The progress of an export or import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub phase: &'static str,
    /// The number of versions processed so far; while checking, the number of bytes.
    pub done: u64,
    /// The total, if it is known.
    pub total: Option<u64>,
}

/// The contents of a finished export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportReport {
    /// The revision of the exported snapshot.
    pub revision: Revision,
    /// The number of cells, including deleted ones.
    pub cells: u64,
    /// The number of records, including deleted ones.
    pub records: u64,
    /// The number of runs.
    pub runs: u64,
    /// The number of spaces of keyed state.
    pub spaces: u64,
    /// The number of versions of cells, records, spaces and their entries, and of events of runs.
    pub versions: u64,
    /// The number of tags of the branch.
    pub tags: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportReport {
    /// The name of the exported branch.
    pub source: String,
    /// The number of versions written.
    pub versions: u64,
    /// The number of spaces of keyed state.
    pub spaces: u64,
    /// The number of tags created. A tag whose name is taken gets the branch's name as a prefix.
    pub tags: u64,
    /// The revision of the last transaction.
    pub revision: Revision,
}

/// The contents of a verified export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportContents {
    /// The name of the exported branch.
    pub branch: String,
    /// The revision of the exported snapshot.
    pub revision: Revision,
    /// The number of versions of all kinds.
    pub versions: u64,
    /// The number of spaces of keyed state.
    pub spaces: u64,
    /// The number of tags of the branch.
    pub tags: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// Reads and verifies an exported file. Changes nothing.
pub fn verify_export(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<ExportContents> {
    check_file(path, progress)
}

impl Engine {
    /// Creates a branch from a file. The whole file is verified before anything is written.
    pub fn import(
        self: &Arc<Engine>,
        path: &Path,
        as_branch: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        let name = Name::new(as_branch)?;
        check_file(path, progress)?;
        let import = Import::begin(self, name)?;
        let give_up = import.on_branch(BranchCommand::Delete { name: import.name.clone() });
        let done = import.run(path, progress);
        if done.is_err() {
            // A partial import must not remain. If it cannot be deleted now, the next open deletes it.
            let _ = self.execute(give_up);
        }
        done
    }

    /// Returns a hash of all retained versions of a branch.
    pub fn export_hash(self: &Arc<Engine>, branch: &str) -> Result<[u8; 32]> {
        let snapshot = Snapshot::new(self, branch, At::Latest)?;
        let tags = tags_of(self, &snapshot);
        let mut hasher = blake3::Hasher::new();
        for space in DATA {
            // Cells were the only kind at first. Each later kind is introduced by a length that no name
            // can have. Without later kinds the hash is the same as it was then.
            let mut said = space == CELLS;
            for_each(&snapshot, space, |name, history| {
                if !std::mem::replace(&mut said, true) {
                    hasher.update(&u64::MAX.to_le_bytes());
                    hasher.update(&[space]);
                }
                hasher.update(&(name.len() as u64).to_le_bytes());
                hasher.update(name);
                hasher.update(&(history.len() as u64).to_le_bytes());
                for entry in history {
                    hasher.update(&(entry.len() as u64).to_le_bytes());
                    hasher.update(entry);
                }
                Ok(())
            })?;
        }
        for (revision, tag) in tags {
            hasher.update(&revision.to_le_bytes());
            hasher.update(tag.as_bytes());
        }
        Ok(*hasher.finalize().as_bytes())
    }
}

/// Visits the names of a keyspace in order, each with its retained entries, oldest first.
fn for_each(
    snapshot: &Snapshot,
    space: u8,
    mut visit: impl FnMut(&[u8], &[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let nothing = WriteSet::default();
    let mut walk = snapshot.view().walk(&nothing, space, b"", None);
    while let Some(step) = walk.next()? {
        let mut history = Vec::new();
        snapshot.view().versions(space, step.name(), |entry| {
            history.push(entry.to_vec());
            Ok(true)
        })?;
        history.reverse();
        visit(step.name(), &history)?;
    }
    Ok(())
}

/// Returns the tags of a branch, by revision.
fn tags_of(core: &Arc<Engine>, snapshot: &Snapshot) -> VecDeque<(Revision, String)> {
    let catalog = core.state.catalog.read();
    let all = catalog.tags_at(snapshot.revision).into_iter();
    let own = all.filter(|(_, tag)| tag.branch == snapshot.branch);
    let mut tags: Vec<_> = own.map(|(name, tag)| (tag.revision, name.clone())).collect();
    tags.sort();
    tags.into()
}
