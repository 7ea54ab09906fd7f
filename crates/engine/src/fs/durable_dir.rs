//! Directories whose names stay.

use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes a directory, and those on the way to it, so that their names survive a power cut. One that is there stays as it is.
///
/// Whoever made it may have been killed before its name was safe, so all names on the way to it are synced in any case.
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

/// Syncs the names of the directories on the way to this one, as far as this file system goes.
pub(crate) fn fsync_ancestors(directory: &Path) -> io::Result<()> {
    let directory = directory.canonicalize()?;
    let device = directory.metadata()?.dev();
    for (steps, above) in directory.ancestors().skip(1).enumerate() {
        // What something is mounted on has its name from whoever mounted it.
        if above.metadata()?.dev() != device {
            break;
        }
        match File::open(above) {
            // Further up, and where nothing can be made, it was somebody else who made what is there.
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
