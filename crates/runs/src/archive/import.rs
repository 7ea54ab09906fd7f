//! Bringing a run back from the archive.

use super::read::path_of;
use super::{Archive, ArchivedRun, Contents};
use mainstay::{CanonicalEvent, Code, Error, Result, Runs, Stamp, Value};
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
    runs: Runs,
    run: String,
    metadata: Option<Value>,
    created: Stamp,
    events: Vec<CanonicalEvent>,
    weight_bytes: usize,
    written: u64,
}

impl Archive {
    /// Brings a run back, once all of its file is found to be whole. Done again, also after it was broken off in between,
    /// it writes what is missing; a run that was continued meanwhile is left as it is. The file stays.
    pub fn import(&self, archived: &ArchivedRun) -> Result<Imported> {
        let path = path_of(archived)?;
        let (head, contents) = self.wait(self.read(&path, &mut |_| Ok(())))?;
        let mut piece = Piece {
            runs: self.branch()?.runs(),
            run: head.run_id.clone(),
            metadata: head.metadata()?,
            created: head.created_us,
            events: Vec::new(),
            weight_bytes: 0,
            written: 0,
        };
        self.wait(self.read(&path, &mut |event| piece.add(event)))?;
        piece.write()?;
        piece.check(&contents)?;
        Ok(Imported { written: piece.written, contents })
    }
}

impl Piece {
    fn add(&mut self, event: CanonicalEvent) -> Result<()> {
        let weight_bytes = event.weight_bytes();
        let is_full = self.events.len() >= PIECE_EVENTS
            || self.weight_bytes + weight_bytes > PIECE_BYTES && !self.events.is_empty();
        if is_full {
            self.write()?;
        }
        self.weight_bytes += weight_bytes;
        self.events.push(event);
        Ok(())
    }

    /// Also nothing is written: a run may have no events.
    fn write(&mut self) -> Result<()> {
        let (metadata, events) = (self.metadata.clone(), std::mem::take(&mut self.events));
        self.weight_bytes = 0;
        self.written += self.runs.restore(&self.run, metadata, Some(self.created), events)?;
        Ok(())
    }

    /// The run must add up to what it was, as far as the archive knows it.
    fn check(&self, contents: &Contents) -> Result<()> {
        let snapshot = self.runs.snapshot_at(&self.run, contents.count)?;
        if snapshot.is_some_and(|snapshot| snapshot.hash() == contents.snapshot_hash) {
            return Ok(());
        }
        let message = format!(
            "run `{}` is in the database and is not the one in the archive: delete it first, or leave it",
            self.run
        );
        Err(Error::new(Code::RunExists, message))
    }
}
