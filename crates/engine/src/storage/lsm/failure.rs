//! Maps errors of lsm-tree and of files to engine errors.

use std::io;
use std::path::Path;

use mainstay_model::{Code, Error};

/// The error for a failure of the tree in `dir` while it was `doing` something.
#[cold]
pub(super) fn tree_failure(error: lsm_tree::Error, doing: &str, dir: &Path) -> Error {
    match error {
        lsm_tree::Error::Io(error) => io_failure(&error, doing, dir),
        lsm_tree::Error::InvalidVersion(version) => {
            let dir = dir.display();
            let message = format!(
                "{doing} the index at {dir} failed: its tables have format {version}, \
                 use the program that wrote them"
            );
            Error::new(Code::Unsupported, message)
        }
        damage => corrupt(dir, &format!("{doing} it failed ({damage:?})")),
    }
}

/// The error for a failed operation on a file or directory at `path`.
#[cold]
pub(super) fn io_failure(error: &io::Error, doing: &str, path: &Path) -> Error {
    let (code, advice) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (Code::DiskFull, "free some space and try again")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (Code::ReadOnlyFiles, "make the directory writable")
        }
        // A table that is missing, truncated or inconsistent with its index is damaged.
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::NotFound
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidData => {
            return corrupt(path, &format!("{doing} it met missing or wrong data ({error})"));
        }
        _ => (Code::Io, "check the disk and try again"),
    };
    let path = path.display();
    Error::new(code, format!("{doing} the index at {path} failed: {error}; {advice}"))
}

/// The error for stored bytes that differ from those written.
#[cold]
pub(super) fn corrupt(path: &Path, what: &str) -> Error {
    let path = path.display();
    let message = format!(
        "the index at {path} is damaged: {what}; \
         nothing was changed, rebuild it from the log or restore a backup"
    );
    Error::new(Code::CorruptIndex, message)
}
