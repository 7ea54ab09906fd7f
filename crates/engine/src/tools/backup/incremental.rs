//! Incremental backup: copies the frames committed after a revision from the log.
//!
//! ```text
//!   log  ... | frame | frame with since + 1 | ... | frame with last | ...   ----unchanged-->  file
//! ```

use super::increment::{self, IncrementContents, IncrementHeader};
use super::{BackupReport, make_durable};
use crate::fs::checksummed_file::ChecksummedWriter;
use crate::fs::disk_reserve::DiskReserve;
use crate::lifecycle::engine::Engine;
use crate::log::LogReader;
use crate::log::frame::OwnedFrame;
use crate::tools::export::Progress;
use mainstay_model::{Code, Error, Result, Revision};
use std::path::Path;

impl Engine {
    /// Writes an increment.
    pub fn backup_since(
        &self,
        since: Revision,
        path: &Path,
        spare: DiskReserve,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        self.check_open()?;
        make_durable(self, self.sequencer.published())?;
        let taking =
            IncrementWriter::begin(self, since, |head| increment::begin(path, head, spare));
        let taking = taking.map_err(|error| full_is_due(error, since))?;
        taking.run(progress).map_err(|error| full_is_due(error, since))
    }
}

/// An increment that is being written.
struct IncrementWriter {
    reader: LogReader,
    file: ChecksummedWriter,
    contents: IncrementContents,
    /// The next frame to write.
    frame: Option<OwnedFrame>,
}

impl IncrementWriter {
    fn begin(
        core: &Engine,
        since: Revision,
        file: impl FnOnce(&IncrementHeader) -> Result<ChecksummedWriter>,
    ) -> Result<IncrementWriter> {
        let last = core.sequencer.durable();
        if since > last {
            return Err(future(since, last));
        }
        let mut reader = core.log.reader(since)?;
        let frame = reader.next(last)?;
        let first = frame.as_ref().map_or(last + 1, OwnedFrame::first_revision);
        let since_stamp = core.index().stamp_of(since)?.filter(|stamp| *stamp > 0);
        let database = crate::log::DatabaseId(core.index().database());
        let chain = reader.chain_before();
        let head = IncrementHeader { database, since, last, since_stamp, first, chain };
        let file = file(&head)?;
        let contents = IncrementContents { head, stamp: since_stamp, versions: 0, bytes: 0 };
        Ok(IncrementWriter { reader, file, contents, frame })
    }

    fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Result<BackupReport> {
        let IncrementHeader { since, last, .. } = self.contents.head;
        let mut reached = since;
        while let Some(frame) = self.frame.take() {
            self.put(&frame)?;
            reached = frame.last_revision();
            let done = reached - since;
            let total = Some(last - since);
            progress(Progress { phase: "writing", done, total });
            self.frame = self.reader.next(last)?;
        }
        if reached != last {
            return Err(ended_early(reached, last));
        }
        self.contents.bytes = self.file.finish()?;
        Ok(self.contents.report())
    }

    fn put(&mut self, frame: &OwnedFrame) -> Result<()> {
        for transaction in frame.transactions() {
            self.contents.versions += transaction?.effects.len() as u64;
        }
        self.file.put(frame.bytes())
    }
}

/// The error if the log does not reach back to `since`, or was trimmed during the read.
#[cold]
fn full_is_due(error: Error, since: Revision) -> Error {
    match error.code() {
        Code::HistoryTrimmed | Code::Lagged => {
            let message = format!(
                "an increment since revision {since} cannot be had, {}: take a full backup, and \
                 keep the log for longer than the time between two increments",
                error.message()
            );
            Error::new(Code::HistoryTrimmed, message)
        }
        _ => error,
    }
}

#[cold]
fn future(since: Revision, last: Revision) -> Error {
    let message = format!(
        "there is no revision {since} yet, the newest is {last}: the backup to go on from is of \
         another database, or of another copy of this one"
    );
    Error::new(Code::FutureRevision, message)
}

#[cold]
fn ended_early(reached: Revision, last: Revision) -> Error {
    let message = format!(
        "the log ended at revision {reached}, but revision {last} was synced: run `mainstay doctor`"
    );
    Error::new(Code::CorruptLog, message)
}
