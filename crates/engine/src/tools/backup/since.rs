//! Taking an increment: what was committed after a revision, out of the log.
//!
//! ```text
//!   log  ... | frame | frame with since + 1 | ... | frame with last | ...   --as they stand-->  file
//! ```

use super::increment::{self, Contents, Head};
use super::{BackupReport, make_durable};
use crate::fs::hashed::HashedWriter;
use crate::fs::spare::{Spare, Sparing};
use crate::handle::db::Database;
use crate::lifecycle::core::Core;
use crate::log::Reader;
use crate::log::frame::OwnedFrame;
use crate::tools::export::Progress;
use mainstay_model::{Code, Error, Result, Revision};
use std::path::Path;

impl Database {
    /// Writes everything that was committed after a revision to one file, which must not exist yet:
    /// effects, stamps and receipts, as the log has them.
    ///
    /// Together with a full [backup](Database::backup) of that revision, or of a later one, and the
    /// increments between, it makes the database as it is now: see
    /// [`restore_backup`](crate::restore_backup). Where the log no longer reaches back so far the
    /// answer is `HistoryTrimmed`, and a full backup is due;
    /// [`Options::feed_retention`](crate::Options::feed_retention) says how long it does.
    ///
    /// ```
    /// use mainstay::{Database, restore_backup};
    /// let root = tempfile::tempdir().unwrap();
    /// let (full, more) = (root.path().join("full"), root.path().join("more"));
    /// let db = Database::memory()?;
    /// db.cells().set("a", 1)?;
    /// let report = db.backup(&full, &mut |_| {})?;
    /// db.cells().set("a", 2)?;
    /// db.backup_since(report.revision, &more, &mut |_| {})?;
    ///
    /// let copy = root.path().join("copy");
    /// restore_backup(&copy, &[full, more], &mut |_| {})?;
    /// assert_eq!(Database::open(&copy)?.cells().get("a")?, Some(2.into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn backup_since(
        &self,
        since: Revision,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        self.sparing(Spare::default()).backup_since(since, path, progress)
    }
}

impl Sparing<'_> {
    /// Writes an increment, as [`Database::backup_since`] does.
    pub fn backup_since(
        &self,
        since: Revision,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        let core = self.db.here("a backup")?;
        core.check_open()?;
        make_durable(core, core.sequencer.published())?;
        let taking = Taking::begin(core, since, |head| increment::begin(path, head, self.spare));
        let taking = taking.map_err(|error| full_is_due(error, since))?;
        taking.run(progress).map_err(|error| full_is_due(error, since))
    }
}

/// An increment being written.
struct Taking {
    reader: Reader,
    file: HashedWriter,
    contents: Contents,
    /// The frame that is written next.
    frame: Option<OwnedFrame>,
}

impl Taking {
    fn begin(
        core: &Core,
        since: Revision,
        file: impl FnOnce(&Head) -> Result<HashedWriter>,
    ) -> Result<Taking> {
        let last = core.sequencer.durable();
        if since > last {
            return Err(future(since, last));
        }
        let mut reader = core.log.reader(since)?;
        let frame = reader.next(last)?;
        let first = frame.as_ref().map_or(last + 1, OwnedFrame::first_revision);
        let since_stamp = core.index().stamp_of(since)?.filter(|stamp| *stamp > 0);
        let (database, chain) =
            (crate::log::DatabaseId(core.index().database()), reader.chain_before());
        let head = Head { database, since, last, since_stamp, first, chain };
        let file = file(&head)?;
        let contents = Contents { head, stamp: since_stamp, versions: 0, bytes: 0 };
        Ok(Taking { reader, file, contents, frame })
    }

    fn run(mut self, progress: &mut dyn FnMut(Progress)) -> Result<BackupReport> {
        let Head { since, last, .. } = self.contents.head;
        let mut reached = since;
        while let Some(frame) = self.frame.take() {
            self.put(&frame)?;
            reached = frame.last_revision();
            let (done, total) = (reached - since, Some(last - since));
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

/// The log does not reach back, or did not any more when it was read.
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
