//! Maps I/O errors to the error codes of the log.

use std::io::{self, ErrorKind};

use mainstay_model::{Code, Error};
use rustix::io::Errno;

/// Builds the error for a failed disk operation. The message names the file.
pub(super) fn io_failure(doing: &str, file: &str, error: &io::Error) -> Error {
    let (code, advice) = match error.kind() {
        // The disk is healthy: closing files elsewhere in the process or system solves it.
        _ if is_out_of_files(error) => (
            Code::QueueFull,
            "the process has as many files open as it may: try later, or raise the limit (ulimit -n, LimitNOFILE)",
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            (Code::DiskFull, "make space, writes then resume")
        }
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            (Code::ReadOnlyFiles, "make the directory writable for this user and reopen")
        }
        _ => (Code::Io, "check the disk"),
    };
    Error::new(code, format!("{doing} {file} failed: {error}; {advice}"))
}

/// Returns whether the process or the system has reached its limit of open files.
pub(super) fn is_out_of_files(error: &io::Error) -> bool {
    let limits = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| limits.contains(&number))
}

/// A failed fsync: from here on it is unknown which bytes are on stable storage.
pub(super) fn sync_failure(file: &str, error: &io::Error) -> Error {
    let message = format!(
        "syncing {file} failed: {error}; what was not acknowledged may be lost, reopen the database"
    );
    Error::new(Code::SyncFailed, message)
}

/// A write that failed and could not be truncated: any part of it may be in the file, even if the disk was
/// full.
pub(super) fn left_behind(file: &str, error: &io::Error) -> Error {
    let message = format!(
        "cutting back {file} failed: {error}; a write that failed may be in it, reopen the database"
    );
    Error::new(Code::Io, message)
}

/// Another program made a newer segment, or removed this writer's segment.
#[cold]
pub(super) fn foreign_segment(own: &str, newest: Option<String>) -> Error {
    let found = match newest {
        Some(name) if name.as_str() > own => format!("{name} was made beside this process"),
        _ => "it is gone".to_owned(),
    };
    let message = format!(
        "{own} is no longer the newest segment of the log, {found}: another program has written here, so this one writes \
         nothing more until the database is opened again. Stop every program that uses the directory, copy it to a safe \
         place, and look with `mainstay doctor`"
    );
    Error::new(Code::LockLost, message)
}

/// Bytes of the log that differ from those written.
pub(super) fn damage(file: &str, offset: u64, what: &str) -> Error {
    let message = format!(
        "{file} is damaged at byte {offset}: {what}; nothing was changed, run `mainstay doctor`"
    );
    Error::new(Code::CorruptLog, message)
}
