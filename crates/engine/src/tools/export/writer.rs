//! Export: writes a branch to a file.

use super::record::{
    END, ENTRY, EVENT, HEAD, INDEX, MAGIC, MESSAGE, RECORD_VERSION, REQUEST, SPACE, TAG, TOMBSTONE,
    VERSION, head, index,
};
use super::{ExportReport, Progress, for_each, keyed, tags_of};
use crate::apply::outbox::transfer;
use crate::apply::runs;
use crate::fs::checksummed_file::ChecksummedWriter;
use crate::fs::disk_reserve::DiskReserve;
use crate::fs::external_sort::ExternalSorter;
use crate::key::entry::{self, QUIET};
use crate::key::keyspace::{CELLS, EVENTS, KEYED, OUTBOX, RECORDS, RUNS, SPACES};
use crate::lifecycle::engine::Engine;
use crate::mvcc::write_set::WriteSet;
use crate::read::snapshot::Snapshot;
use crate::storage::index_def::IndexDef;
use mainstay_model::{At, Code, Error, Name, Result, Revision};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

impl Engine {
    /// Writes a branch to one file.
    pub fn export(
        self: &Arc<Engine>,
        branch: &str,
        path: &Path,
        spare: DiskReserve,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExportReport> {
        let snapshot = Snapshot::new(self, branch, At::Latest)?;
        let _pin = self.pins.hold(
            "export",
            self.clock.monotonic_us(),
            self.index().data_floor().min(snapshot.revision),
        );
        // Removed tags are not kept for long, so the tags are read before everything else.
        let tags = tags_of(self, &snapshot);
        let mut sorter = ExternalSorter::beside(path, spare)?;
        let mut cells = 0;
        let mut records = 0;
        let mut versions = 0_u64;
        for space in [CELLS, RECORDS] {
            let names = if space == CELLS { &mut cells } else { &mut records };
            for_each(&snapshot, space, |name, history| {
                *names += 1;
                for entry in history {
                    sorter.push(entry::revision_of(entry), &[&[space], name].concat(), entry)?;
                    versions += 1;
                    if versions.is_multiple_of(1024) {
                        progress(Progress { phase: "reading", done: versions, total: None });
                    }
                }
                Ok(())
            })?;
        }
        let runs = each_event(&snapshot, |space, name, entry| {
            versions += 1;
            sorter.push(entry::revision_of(entry), &[&[space], name].concat(), entry)
        })?;
        transfer::each(
            &snapshot.view(),
            self.state.serves_branches,
            |revision, place, content| {
                versions += 1;
                sorter.push(revision, &[&[OUTBOX], &place[..]].concat(), &content.encode())
            },
        )?;
        let spaces = keyed::each(&snapshot, |revision, name, version| {
            versions += 1;
            sorter.push(revision, name, version)
        })?;
        let count = tags.len() as u64;
        let mut file = ExportFile { file: ChecksummedWriter::create(path, spare)? };
        file.begin(branch, snapshot.revision, &self.index().declared())?;
        let bytes = file.fill(sorter, tags, versions, progress)?;
        let revision = snapshot.revision;
        Ok(ExportReport { revision, cells, records, runs, spaces, versions, tags: count, bytes })
    }
}

/// Visits the events of all runs of a branch, each run's creation data before them, and the deletions
/// of runs. Returns the number of runs.
fn each_event(
    snapshot: &Snapshot,
    mut visit: impl FnMut(u8, &[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let nothing = WriteSet::default();
    let view = snapshot.view();
    let mut walk = view.walk(&nothing, RUNS, b"", None);
    let mut runs = 0;
    while let Some(step) = walk.next()? {
        if step.head.is_deleted() {
            // A quiet tombstone only reserves the name while its run is restored: no run was deleted.
            if step.head.flags & QUIET == 0 {
                let run = Name::new(&String::from_utf8_lossy(step.name()))?;
                if runs::is_being_rewound(&view, &run, step.head.revision)? {
                    return Err(rewound(&run));
                }
                let mut entry = Vec::new();
                step.head.write(b"", &mut entry);
                visit(RUNS, step.name(), &entry)?;
            }
            continue;
        }
        runs += 1;
        let run = Name::new(&String::from_utf8_lossy(step.name()))?;
        runs::each_event(&view, &run, (step.head, step.payload()), |seq, head, payload| {
            let mut entry = Vec::with_capacity(payload.len() + 32);
            head.write(payload, &mut entry);
            visit(EVENTS, &[run.as_bytes(), &[0], &seq.to_be_bytes()].concat(), &entry)
        })?;
    }
    Ok(runs)
}

/// An export that is being written.
struct ExportFile {
    file: ChecksummedWriter,
}

impl ExportFile {
    fn record(&mut self, kind: u8, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.file.put(&(length as u32 + 1).to_le_bytes())?;
        self.file.put(&[kind])?;
        parts.iter().try_for_each(|part| self.file.put(part))
    }

    /// Writes the header and the index definitions.
    fn begin(&mut self, branch: &str, revision: Revision, indexes: &[IndexDef]) -> Result<()> {
        self.file.put(MAGIC)?;
        self.record(HEAD, &[&head(branch, revision)?])?;
        indexes.iter().try_for_each(|one| self.record(INDEX, &[&index(one)?]))
    }

    fn fill(
        mut self,
        sorter: ExternalSorter,
        mut tags: VecDeque<(Revision, String)>,
        versions: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        let mut done = 0_u64;
        for version in sorter.sorted()? {
            let (revision, name, entry) = version?;
            self.put_tags(&mut tags, revision)?;
            let (kind, name) = match name.split_first() {
                Some((&RECORDS, name)) => (RECORD_VERSION, name),
                Some((&EVENTS, name)) => (EVENT, name),
                Some((&KEYED, name)) => (ENTRY, name),
                Some((&SPACES, name)) => (SPACE, name),
                Some((&RUNS, name)) => (TOMBSTONE, name),
                Some((&OUTBOX, name)) if name.first() == Some(&b'm') => (MESSAGE, name),
                Some((&OUTBOX, name)) => (REQUEST, name),
                Some((_, name)) => (VERSION, name),
                None => (VERSION, &name[..]),
            };
            let length = (name.len() as u16).to_le_bytes();
            self.record(kind, &[&revision.to_le_bytes(), &length, name, &entry])?;
            done += 1;
            if done.is_multiple_of(1024) {
                progress(Progress { phase: "writing", done, total: Some(versions) });
            }
        }
        self.put_tags(&mut tags, Revision::MAX)?;
        self.record(END, &[&versions.to_le_bytes()])?;
        progress(Progress { phase: "writing", done, total: Some(versions) });
        self.file.finish()
    }

    /// Writes the tags of revisions below `before`.
    fn put_tags(
        &mut self,
        tags: &mut VecDeque<(Revision, String)>,
        before: Revision,
    ) -> Result<()> {
        while tags.front().is_some_and(|(revision, _)| *revision < before) {
            let Some((revision, name)) = tags.pop_front() else { break };
            self.record(TAG, &[&revision.to_le_bytes(), name.as_bytes()])?;
        }
        Ok(())
    }
}

#[cold]
fn rewound(run: &Name) -> Error {
    let message = format!(
        "run `{run}` is being rewound: export the branch when that is done; if it was broken off, delete the branch"
    );
    Error::new(Code::Conflict, message)
}
