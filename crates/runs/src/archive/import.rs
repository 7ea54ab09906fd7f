//! Import of archived runs.
//!
//! ```text
//!   file --read and verify--> read again, piece by piece --> hidden run --complete--> visible, in one transaction
//! ```

use super::read::path_of;
use super::{Archive, ArchivedRun, Contents};
use mainstay::{CanonicalEvent, Code, Error, Restoring, Result, Runs};
use serde::Serialize;

/// The most events per import transaction.
const BATCH_EVENTS: usize = 1_000;
/// The approximate size of an import transaction, in bytes.
const BATCH_BYTES: usize = 8 << 20;

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The number of events that were not in the database before.
    pub written: u64,
    /// The content of the file.
    pub contents: Contents,
}

/// The pending events of an import.
struct ImportBatch {
    restoring: Restoring,
    events: Vec<CanonicalEvent>,
    weight_bytes: usize,
    written: u64,
}

impl Archive {
    /// Imports a run after its whole file was verified. The run is hidden, and nothing can be appended to it,
    /// until it is complete. An interrupted import starts again. An existing run, possibly continued, is left
    /// unchanged. The file stays.
    pub fn import(&self, archived: &ArchivedRun) -> Result<ImportReport> {
        let path = path_of(archived)?;
        let (header, contents) = self.block_on(self.read(&path, &mut |_| Ok(())))?;
        let runs = self.branch()?.runs();
        let run = header.run_id.as_str();
        if runs.get(run)?.is_some() {
            check_snapshot(&runs, run, &contents)?;
            return Ok(ImportReport { written: 0, contents });
        }
        let restoring = runs.restoring(run, header.metadata()?, Some(header.created_us))?;
        let mut batch = ImportBatch { restoring, events: Vec::new(), weight_bytes: 0, written: 0 };
        self.block_on(self.read(&path, &mut |event| batch.add(event)))?;
        let written = batch.finish()?;
        check_snapshot(&runs, run, &contents)?;
        Ok(ImportReport { written, contents })
    }
}

impl ImportBatch {
    fn add(&mut self, event: CanonicalEvent) -> Result<()> {
        let weight_bytes = event.weight_bytes();
        let is_full = self.events.len() >= BATCH_EVENTS
            || self.weight_bytes + weight_bytes > BATCH_BYTES && !self.events.is_empty();
        if is_full {
            self.written += self.restoring.add(std::mem::take(&mut self.events))?;
            self.weight_bytes = 0;
        }
        self.weight_bytes += weight_bytes;
        self.events.push(event);
        Ok(())
    }

    /// Finishes the import even without pending events, because a run may have no events.
    fn finish(self) -> Result<u64> {
        Ok(self.written + self.restoring.finish(self.events)?)
    }
}

/// Checks that the run in the database, up to the archived events, has the archived snapshot.
fn check_snapshot(runs: &Runs, run: &str, contents: &Contents) -> Result<()> {
    let snapshot = runs.snapshot_at(run, contents.count)?;
    if snapshot.is_some_and(|snapshot| snapshot.hash() == contents.snapshot_hash) {
        return Ok(());
    }
    let message = format!(
        "run `{run}` is in the database and is not the one in the archive: delete it first, or leave it"
    );
    Err(Error::new(Code::RunExists, message))
}
