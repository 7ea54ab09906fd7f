//! Errors of file operations.

use mainstay_model::{Code, Error};
use std::path::Path;

/// Converts an error of a file operation. The message includes the remedy where one is known.
pub fn io_error(what: &str, path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let message = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        ReadOnlyFilesystem | PermissionDenied => Error::new(Code::ReadOnlyFiles, message),
        StorageFull | QuotaExceeded => {
            Error::new(Code::DiskFull, format!("{message}; free some space"))
        }
        _ => Error::new(Code::Io, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk() {
        for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded] {
            assert_eq!(io_error("write", Path::new("mark"), &kind.into()).code(), Code::DiskFull);
        }
    }
}
