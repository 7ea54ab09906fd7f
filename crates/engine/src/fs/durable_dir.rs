//! Durable directory creation: fsyncs every ancestor so that the entries survive a power failure.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Creates a directory and its missing parents so that their entries survive a power failure. An existing
/// directory is left unchanged.
///
/// Fsyncs all ancestors in any case, because the process that created one of them may have been killed before
/// its fsync.
///
/// ```
/// let root = tempfile::tempdir().unwrap();
/// let archive = root.path().join("archives/2026");
/// mainstay::create_dir_all_durable(&archive).unwrap();
/// assert!(archive.is_dir());
/// ```
pub fn create_dir_all_durable(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(directory)?;
    fsync_ancestors(directory)
}

/// Fsyncs the ancestors of a directory, up to the root of its file system.
pub(crate) fn fsync_ancestors(directory: &Path) -> io::Result<()> {
    let directory = directory.canonicalize()?;
    let device = directory.metadata()?.dev();
    for (steps, above) in directory.ancestors().skip(1).enumerate() {
        // The entry of a mount point is on another file system, so it is not this function's to sync.
        if above.metadata()?.dev() != device {
            break;
        }
        match File::open(above) {
            // Another process created an ancestor that is unreadable and further up, or not writable here. It
            // is responsible for the durability of that directory.
            Err(error)
                if error.kind() == ErrorKind::PermissionDenied
                    && (steps > 0 || !may_write(above)) => {}
            opened => opened?.sync_all()?,
        }
    }
    Ok(())
}

fn may_write(directory: &Path) -> bool {
    accessat(CWD, directory, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}
