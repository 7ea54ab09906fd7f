//! Bringing a run back from the archive.
//!
//! ```text
//!   file --read, found whole--> read again, piece by piece --> hidden from all --whole--> seen, in one transaction
//! ```

use super::read::path_of;
use super::{Archive, ArchivedRun, Contents};
use mainstay::{CanonicalEvent, Code, Error, Restoring, Result, Runs};
use serde::Serialize;

/// The most events that one transaction brings back.
const PIECE_EVENTS: usize = 1_000;
/// About the most bytes of events that one transaction brings back.
const PIECE_BYTES: usize = 8 << 20;

/// What an import did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// How many events were not there before.
    pub written: u64,
    /// What the file holds.
    pub contents: Contents,
}

/// A run on its way back.
struct Piece {
    restoring: Restoring,
    events: Vec<CanonicalEvent>,
    weight_bytes: usize,
    written: u64,
}

impl Archive {
    /// Brings a run back, once all of its file is found to be whole. Nobody sees it, and nobody can append to it, before all of it
    /// is there; one that was broken off in between is begun again. A run that is there, and was maybe continued, is
    /// left as it is. The file stays.
    pub fn import(&self, archived: &ArchivedRun) -> Result<Imported> {
        let path = path_of(archived)?;
        let (head, contents) = self.wait(self.read(&path, &mut |_| Ok(())))?;
        let (runs, run) = (self.branch()?.runs(), head.run_id.as_str());
        if runs.get(run)?.is_some() {
            check(&runs, run, &contents)?;
            return Ok(Imported { written: 0, contents });
        }
        let restoring = runs.restoring(run, head.metadata()?, Some(head.created_us))?;
        let mut piece = Piece { restoring, events: Vec::new(), weight_bytes: 0, written: 0 };
        self.wait(self.read(&path, &mut |event| piece.add(event)))?;
        let written = piece.finish()?;
        check(&runs, run, &contents)?;
        Ok(Imported { written, contents })
    }
}

impl Piece {
    fn add(&mut self, event: CanonicalEvent) -> Result<()> {
        let weight_bytes = event.weight_bytes();
        let is_full = self.events.len() >= PIECE_EVENTS
            || self.weight_bytes + weight_bytes > PIECE_BYTES && !self.events.is_empty();
        if is_full {
            self.written += self.restoring.add(std::mem::take(&mut self.events))?;
            self.weight_bytes = 0;
        }
        self.weight_bytes += weight_bytes;
        self.events.push(event);
        Ok(())
    }

    /// Also nothing is written: a run may have no events.
    fn finish(self) -> Result<u64> {
        Ok(self.written + self.restoring.finish(self.events)?)
    }
}

/// The run must add up to what it was, as far as the archive knows it.
fn check(runs: &Runs, run: &str, contents: &Contents) -> Result<()> {
    let snapshot = runs.snapshot_at(run, contents.count)?;
    if snapshot.is_some_and(|snapshot| snapshot.hash() == contents.snapshot_hash) {
        return Ok(());
    }
    let message = format!(
        "run `{run}` is in the database and is not the one in the archive: delete it first, or leave it"
    );
    Err(Error::new(Code::RunExists, message))
}
