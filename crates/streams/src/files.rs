//! File helpers of sources and sinks.

use mainstay_model::{Code, Error, Result};
use std::fs::File;
use std::io;
use std::path::Path;

/// Converts an I/O error, with a remedy if one is known.
#[cold]
pub(crate) fn io_error(what: &str, path: &Path, error: &io::Error) -> Error {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let message = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        ReadOnlyFilesystem | PermissionDenied => Error::new(Code::ReadOnlyFiles, message),
        StorageFull => Error::new(Code::DiskFull, format!("{message}; free some space")),
        _ => Error::new(Code::Io, message),
    }
}

/// Makes created, removed and renamed names of a directory survive a power cut.
pub(crate) fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| io_error("sync", directory, &error))
}

/// Adds context to an error message.
#[cold]
pub(crate) fn with_context(context: impl std::fmt::Display, error: &Error) -> Error {
    Error::new(error.code(), format!("{context}: {}", error.message()))
}
