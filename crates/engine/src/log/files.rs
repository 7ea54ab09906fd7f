//! The file system interface of the log.
//!
//! The log names files within one directory and uses only the operations of these two traits. Tests can
//! therefore substitute a disk that is full, fails or loses power.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::failure::is_out_of_files;
use parking_lot::{Mutex, RwLock};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// The files of one directory.
pub trait Files: Send + Sync {
    /// Creates an empty file. Fails with `AlreadyExists` if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file. Open handles stay readable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, replacing the target if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Syncs the directory, so that created, removed and renamed names survive a power failure.
    fn sync_dir(&self) -> io::Result<()>;
}

/// One open file.
pub trait File: Send + Sync {
    /// Writes all bytes. After an error, any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Reads some bytes. Returns zero only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Syncs the contents, so that they survive a power failure.
    fn sync(&self) -> io::Result<()>;
    /// Allocates disk blocks up to this length. New bytes read as zeros, existing ones are kept.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Writes zeros up to this length if that makes later syncs cheaper. On merely allocated blocks, a file
    /// system must record at the first write that each of them is now in use.
    fn prefill(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Cuts the file to this length.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns whether the file has length zero.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Prefilling syncs the file after this many bytes. A disk syncs one file at a time, so a commit waits for a
/// running sync, and small syncs keep that wait short.
const PREFILL_SYNC_BYTES: u64 = 1 << 20;

/// Zeros are written in chunks of this size.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Writes zeros from `from` up to `to`.
pub(super) fn write_zeros(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut offset = from;
    while offset < to {
        let piece = ZEROS.len().min((to - offset) as usize);
        file.write_at(&ZEROS[..piece], offset)?;
        offset += piece as u64;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes read.
pub(super) fn read_full(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The files of a real directory.
#[derive(Debug)]
pub struct DiskFiles {
    directory: PathBuf,
    read_only: bool,
    /// A directory handle opened early, to sync the directory while the process is out of file descriptors.
    kept: Option<std::fs::File>,
}

impl DiskFiles {
    /// Uses this directory, which must exist.
    pub fn new(directory: impl Into<PathBuf>) -> DiskFiles {
        let directory = directory.into();
        let kept = std::fs::File::open(&directory).ok();
        DiskFiles { directory, read_only: false, kept }
    }

    /// Opens files read-only and refuses changes.
    pub fn read_only(directory: impl Into<PathBuf>) -> DiskFiles {
        DiskFiles { directory: directory.into(), read_only: true, kept: None }
    }

    fn writable(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }
}

impl Files for DiskFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.writable()?;
        let mut options = std::fs::OpenOptions::new();
        // Only the owner may read the log, regardless of the umask.
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(self.directory.join(name));
        Ok(Arc::new(DiskFile(file?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(!self.read_only).open(self.directory.join(name));
        Ok(Arc::new(DiskFile(file?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Names of the log are always UTF-8.
            if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_file()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.writable()?;
        std::fs::remove_file(self.directory.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.writable()?;
        std::fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.writable()?;
        match (std::fs::File::open(&self.directory), &self.kept) {
            // A segment already renamed must not be lost because clients use up all file descriptors.
            (Err(error), Some(kept)) if is_out_of_files(&error) => kept.sync_all(),
            (opened, _) => opened?.sync_all(),
        }
    }
}

struct DiskFile(std::fs::File);

impl File for DiskFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, offset)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
                Err(Errno::INTR) => {}
                // Some file systems cannot allocate. Writing zeros takes the same blocks.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    return write_zeros(self, self.len()?, len);
                }
                other => return other.map_err(io::Error::from),
            }
        }
    }

    fn prefill(&self, len: u64) -> io::Result<()> {
        for start in (0..len).step_by(PREFILL_SYNC_BYTES as usize) {
            write_zeros(self, start, len.min(start + PREFILL_SYNC_BYTES))?;
            self.sync()?;
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Files in memory, for tests and for databases without persistence.
#[derive(Default)]
pub struct MemoryFiles {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
}

impl MemoryFiles {
    /// An empty directory.
    pub fn new() -> MemoryFiles {
        MemoryFiles::default()
    }

    /// Returns a deep copy of all files.
    pub fn copy(&self) -> MemoryFiles {
        let files = self.files.lock();
        let copies = files.iter().map(|(name, file)| {
            let bytes = file.bytes.read().clone();
            (name.clone(), Arc::new(MemoryFile { bytes: RwLock::new(bytes) }))
        });
        MemoryFiles { files: Mutex::new(copies.collect()) }
    }

    fn find(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        self.files.lock().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for MemoryFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut files = self.files.lock();
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(MemoryFile::default());
        files.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.find(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.files.lock().remove(name);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
}

impl File for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start + bytes.len();
        let mut content = self.bytes.write();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.bytes.read();
        let start = content.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let read = buf.len().min(content.len() - start);
        buf[..read].copy_from_slice(&content[start..start + read]);
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut content = self.bytes.write();
        if content.len() < len {
            content.resize(len, 0);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.bytes.write().resize(len, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_reads_the_log() {
        let root = tempfile::tempdir().unwrap();
        DiskFiles::new(root.path()).create("a").map(drop).unwrap();
        let made = root.path().join("a").metadata().unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o600);
    }
}
