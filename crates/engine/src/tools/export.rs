//! Export and import: a branch in one file, with its retained versions, counters and tags.
//!
//! ```text
//!   "MSTEXPT1" | record ... | end record | blake3 of all before, 32 bytes
//!   record: length u32 LE | kind u8 | body
//!     1 head     a value: format, branch, revision
//!     2 version  revision u64 LE | name length u16 LE | name | entry      by revision
//!     3 tag      revision u64 LE | name                                   behind its revision
//!     4 version  of a record, as 2 is of a cell
//!     6 event    of a run, as 2 is of a cell: its name has the sequence behind a NUL; 0 is when and with what the run was made
//!     7 entry    of a space of keyed state, as 2 is of a cell: its name has the place behind a NUL, and before the entry stands
//!                the length of its versions u8, 80 more while nobody saw it
//!     8 space    of keyed state, as 2 is of a cell: 1 if it is seen from then on u8 | how it is declared
//!     5 index    over records: a value with its prefix and fields         behind the head
//!    10 message  to be sent, as 2 is of a cell: its name is `m` and its number u64 BE, and instead of an entry stands 1 if it is
//!                dead u8 | why | subject | run | payload
//!    11 request  to a client, the same with `c`: session | payload
//!    12 deleted  run, as 2 is of a cell
//!     9 end      number of versions u64 LE
//! ```
//!
//! Versions stand in the order of their revisions, so an import replays history: each
//! transaction of the source becomes one of the target, with the target's own revision and stamp.
//! What the branch inherits is its own in the file. Nothing of the file is used before all of it
//! has been checked.

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

/// How far an export or import has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: &'static str,
    /// Versions, or bytes when checking, dealt with so far.
    pub done: u64,
    /// How many there are, where that is known.
    pub total: Option<u64>,
}

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportReport {
    /// The revision that the file shows.
    pub revision: Revision,
    /// Cells, deleted ones included.
    pub cells: u64,
    /// Records, deleted ones included.
    pub records: u64,
    /// Runs.
    pub runs: u64,
    /// Spaces of keyed state.
    pub spaces: u64,
    /// Versions of cells, records, spaces and what is in them, and events of runs.
    pub versions: u64,
    /// Tags of the branch.
    pub tags: u64,
    /// The file's size.
    pub bytes: u64,
}

/// What was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportReport {
    /// The branch that was exported.
    pub source: String,
    /// Versions written.
    pub versions: u64,
    /// Spaces of keyed state.
    pub spaces: u64,
    /// Tags made; a name that is taken gets the branch's name before it.
    pub tags: u64,
    /// The revision of the last transaction.
    pub revision: Revision,
}

/// What an exported file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportContents {
    /// The branch that was exported.
    pub branch: String,
    /// The revision that the file shows.
    pub revision: Revision,
    /// Versions of all kinds.
    pub versions: u64,
    /// Spaces of keyed state.
    pub spaces: u64,
    /// Tags of the branch.
    pub tags: u64,
    /// The file's size.
    pub bytes: u64,
}

/// Reads an exported file and checks all of it; changes nothing.
pub fn verify_export(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<ExportContents> {
    check_file(path, progress)
}

impl Engine {
    /// Makes a branch from a file, which is checked as a whole before anything is written.
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
            // Half an import is none; what cannot be deleted now is when the database is opened.
            let _ = self.execute(give_up);
        }
        done
    }

    /// A hash of all retained versions of a branch.
    pub fn export_hash(self: &Arc<Engine>, branch: &str) -> Result<[u8; 32]> {
        let snapshot = Snapshot::new(self, branch, At::Latest)?;
        let tags = tags_of(self, &snapshot);
        let mut hasher = blake3::Hasher::new();
        for space in DATA {
            // Cells came first: what follows them says so with a length that no name has. Where nothing
            // follows, the hash is what it was before there was anything else.
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

/// Visits what a branch holds of a space in order, each name with its retained entries, oldest first.
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

/// The tags of a branch, by revision.
fn tags_of(core: &Arc<Engine>, snapshot: &Snapshot) -> VecDeque<(Revision, String)> {
    let catalog = core.state.catalog.read();
    let all = catalog.tags_at(snapshot.revision).into_iter();
    let own = all.filter(|(_, tag)| tag.branch == snapshot.branch);
    let mut tags: Vec<_> = own.map(|(name, tag)| (tag.revision, name.clone())).collect();
    tags.sort();
    tags.into()
}
