//! Restore: creates a database directory from a chain of backups.
//!
//! ```text
//!   full        --checked--> index/       as with a base alone
//!   increments  --checked--> log.next/    their transactions after the full one, in new frames
//!   then  log.next -> log,  DATABASE: only now it is a database
//! ```
//!
//! Opening the directory replays that log like crash recovery. So every revision, stamp and receipt is
//! restored, and the feed reaches as far back as the increments do.

use super::BackupReport;
use super::chain::{ChainEnd, check_chain};
use super::progress::ReadProgress;
use crate::base::fault_points::{self, InjectedFault};
use crate::fs::error::io_error;
use crate::lifecycle::database_file::DatabaseFile;
use crate::lifecycle::open::RebuildSource;
use crate::lifecycle::open::{make_dir, plain_store_options};
use crate::log::{Chain, DiskFiles, Frame, FrameBuffer, FramePayload, Log, LogOptions, LogWriter};
use crate::storage::reclassify;
use crate::tools::export::Progress;
use mainstay_model::{Code, Error, Result, Revision};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Restores a database into an empty or new directory, from a full backup and its increments in the
/// order in which they were taken. Returns the contents of each file.
///
/// All files are verified completely, and verified to join, before anything is written. An interrupted
/// restore leaves no database.
pub fn restore_backup(
    directory: &Path,
    files: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<BackupReport>> {
    let (reports, base) = check_chain(files, progress)?;
    let (Some(full), Some(base)) = (files.first(), base) else { return Err(no_full(files)) };
    let mut watch = ReadProgress::over(files, "restoring", progress);
    let mut identity = DatabaseFile::reserve(directory, base.database())?;
    check_unused(directory)?;
    base.fill_watched(&directory.join("index"), &plain_store_options(), &mut watch)?;
    watch.file_done(base.report().bytes);
    write_log(directory, ChainEnd::of_base(full, &base), &files[1..], &mut watch)?;
    identity.complete()?;
    Ok(reports)
}

/// Refuses a directory with a log: it may have lost its `DATABASE`, and its log must not be
/// overwritten.
fn check_unused(directory: &Path) -> Result<()> {
    let log = directory.join("log");
    match fs::read_dir(&log).map(|mut entries| entries.next().is_none()) {
        Ok(false) => {
            let message = format!(
                "{} has files in it: restore to an empty directory; nothing was touched",
                log.display()
            );
            Err(Error::new(Code::ForeignDirectory, message))
        }
        _ => Ok(()),
    }
}

/// Writes the log under a temporary name, and renames it once all of it is on stable storage.
fn write_log(
    directory: &Path,
    base: ChainEnd,
    files: &[PathBuf],
    watch: &mut ReadProgress<'_>,
) -> Result<()> {
    let (log, next) = (directory.join("log"), directory.join("log.next"));
    if next.exists() {
        fs::remove_dir_all(&next).map_err(|error| io_error("remove", &next, &error))?;
    }
    make_dir(&next)?;
    let mut joining = RestoredLog::begin(&next, &base)?;
    let mut end = base;
    for path in files {
        let contents = end.read(path, watch, &mut |frame| joining.frame(frame))?;
        watch.file_done(contents.bytes);
        end = ChainEnd::of(path, &contents);
    }
    fault_points::unless(InjectedFault::NoSyncOfRestoredLog, || joining.writer.sync())?;
    reclassify::rename_durably(&next, &log).map_err(|error| io_error("put in place", &log, &error))
}

/// A new log with the transactions of the increments.
struct RestoredLog {
    writer: LogWriter,
    chain: Chain,
    /// The last revision in it, or in the full backup before it.
    reached: Revision,
}

impl RestoredLog {
    fn begin(directory: &Path, base: &ChainEnd) -> Result<RestoredLog> {
        let files = Arc::new(DiskFiles::new(directory));
        let id = base.database;
        let first = base.revision + 1;
        let (_, writer) = Log::create(files, id, first, LogOptions::default())?;
        Ok(RestoredLog { writer, chain: Chain::new(0, &id), reached: base.revision })
    }

    /// Writes the transactions of a frame that are new.
    fn frame(&mut self, frame: &Frame<'_>) -> Result<()> {
        let mut payload = FramePayload::default();
        for transaction in frame.transactions() {
            let transaction = transaction?;
            if transaction.revision <= self.reached {
                continue;
            }
            let effects = transaction.effects;
            payload.transaction(transaction.stamp, transaction.request, effects.len());
            effects.for_each(|(key, entry)| payload.effect(key, entry));
        }
        if frame.last_revision() > self.reached {
            self.write(&payload, frame.last_revision())
        } else {
            Ok(())
        }
    }

    /// Writes a frame that claims that everything before it is synced. This is true once the directory
    /// becomes a database. So recovery can distinguish damage in the middle of this log from a torn
    /// tail.
    fn write(&mut self, payload: &FramePayload, last: Revision) -> Result<()> {
        let first = self.reached + 1;
        let mut out = Vec::new();
        let mut growing = FrameBuffer::begin(&mut out, first);
        growing.append(&mut out, payload);
        let end = out.len();
        let bytes = self.chain.seal(&mut out, &growing, end, self.reached);
        self.writer.write(bytes, first, last, self.chain.crc())?;
        self.reached = last;
        Ok(())
    }
}

#[cold]
fn no_full(files: &[PathBuf]) -> Error {
    let what = match files.first() {
        Some(first) => format!("{} is an increment", first.display()),
        None => "no file was named".to_owned(),
    };
    let message = format!("{what}: a restore begins with a full backup; nothing was changed");
    Error::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{DatabaseId, FrameVerifier, MemoryFiles};

    /// In the log that was backed up, frames end where backups end. In the log of a copy they may not.
    #[test]
    fn only_what_is_new_in_a_frame_is_written() {
        let id = DatabaseId([7; 16]);
        let mut out = Vec::new();
        let mut payload = FramePayload::default();
        for revision in 1..=5 {
            payload.transaction(1000 + revision, b"", 1);
            payload.effect(b"key", &[revision as u8]);
        }
        let mut growing = FrameBuffer::begin(&mut out, 1);
        growing.append(&mut out, &payload);
        let end = out.len();
        let bytes = Chain::new(0, &id).seal(&mut out, &growing, end, 0).to_vec();
        let frame = FrameVerifier::new(&id, 0, 1).follow(&bytes).unwrap();

        let files = Arc::new(MemoryFiles::new());
        let (log, writer) = Log::create(files, id, 4, LogOptions::default()).unwrap();
        let mut joining = RestoredLog { writer, chain: Chain::new(0, &id), reached: 3 };
        joining.frame(&frame).unwrap();
        joining.frame(&frame).unwrap();
        let mut reader = log.reader(3).unwrap();
        let written = reader.next(5).unwrap().unwrap();
        let written: Vec<_> =
            written.transactions().map(|t| t.map(|t| (t.revision, t.stamp))).collect();
        assert_eq!(written, [Ok((4, 1004)), Ok((5, 1005))]);
        assert!(reader.next(5).unwrap().is_none());
    }
}
