//! Atomic file replacement: write to `<name>.part`, fsync, rename, fsync the directory.
//!
//! ```text
//!   <name>.part   bytes, locked while they are written   --fsync, rename, fsync of the directory-->   <name>
//! ```

use crate::base::fault_points::{self, InjectedFault};
use crate::fs::disk_reserve::DiskReserve;
use crate::fs::error::io_error;
use mainstay_model::{Code, Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is written as `<name>.part` and gets its name when it is complete. Dropping it earlier removes
/// the part file. After a crash, the next writer of the same name takes over the part file. Only the owner
/// may read the file (mode 0600), because it holds the contents of a database.
///
/// ```
/// use std::io::Write;
/// let root = tempfile::tempdir().unwrap();
/// let path = root.path().join("report");
/// let mut file = mainstay::AtomicFile::create(&path)?;
/// file.write_all(b"all of it").unwrap();
/// assert!(!path.exists());
/// file.finish()?;
/// assert!(path.exists());
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    part: PathBuf,
    file: File,
    spare: DiskReserve,
    complete: bool,
}

impl AtomicFile {
    /// Creates the part file and locks it exclusively. Fails if `path` already exists or if another writer
    /// holds the lock.
    pub fn create(path: &Path) -> Result<AtomicFile> {
        AtomicFile::create_sparing(path, DiskReserve::default())
    }

    /// Like `create`, but writes fail once they would cut into the disk reserve.
    pub(crate) fn create_sparing(path: &Path, spare: DiskReserve) -> Result<AtomicFile> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = own_part(&part, path)?;
        Ok(AtomicFile { path: path.to_owned(), part, file, spare, complete: false })
    }

    /// The path of the part file, where the bytes are until `finish`.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Fsyncs the file, renames it to its final name, and fsyncs the directory, so that the file survives a
    /// power failure.
    pub fn finish(mut self) -> Result<()> {
        let steps = || -> std::io::Result<()> {
            fault_points::unless(InjectedFault::NoSyncOfPart, || self.file.sync_all())?;
            std::fs::rename(&self.part, &self.path)?;
            // A bare file name has an empty parent, which cannot be opened.
            let path = self.path.canonicalize()?;
            let sync = |parent: &Path| File::open(parent)?.sync_all();
            fault_points::unless(InjectedFault::NoSyncOfPartName, || {
                path.parent().map_or(Ok(()), sync)
            })
        };
        steps().map_err(|error| io_error("finish", &self.path, &error))?;
        self.complete = true;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.spare.check(&self.file, bytes.len() as u64)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.complete {
            // A partial file is useless. If it cannot be removed, the next writer takes it over.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Opens and locks the part file, then truncates the bytes that an earlier writer left.
fn own_part(part: &Path, path: &Path) -> Result<File> {
    let refused = |why: &str| {
        let message = format!("{} {why}: choose another name", path.display());
        Error::new(Code::InvalidArgument, message)
    };
    let failed = |error: std::io::Error| io_error("create", part, &error);
    if path.exists() {
        return Err(refused("exists already"));
    }
    let mut open = File::options();
    // Not truncated before the lock is held, because another writer may be writing the file.
    open.write(true).create(true).truncate(false).mode(0o600);
    let file = open.open(part).map_err(failed)?;
    // The previous lock holder may have renamed or removed the part file just before it released the lock.
    // Then the locked inode is no longer the file of that name.
    let is_ours = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && is_same(&file, part).map_err(failed)?;
    // Checked again under the lock, because the previous holder may have finished the file meanwhile.
    if path.exists() {
        return Err(refused("exists already"));
    }
    if !is_ours {
        return Err(refused("is being written by somebody else"));
    }
    file.set_len(0).map_err(failed)?;
    Ok(file)
}

/// Returns whether a path leads to this open file, by device and inode.
fn is_same(file: &File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match path.metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_reads_a_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("backup");
        let file = AtomicFile::create(&path).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file.part()), 0o600);
        file.finish().unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
