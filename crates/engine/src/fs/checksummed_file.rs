//! Write-once files with a trailing BLAKE3 checksum: exports and backups.
//!
//! ```text
//!   | bytes ... | blake3 of all bytes before, 32 bytes |
//! ```

use crate::fs::atomic_file::AtomicFile;
use crate::fs::disk_reserve::DiskReserve;
use crate::fs::error::io_error;
use mainstay_model::{Code, Error, Result};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

const BUFFER_BYTES: usize = 1 << 20;

/// Writes a checksummed file through an [`AtomicFile`].
pub(crate) struct ChecksummedWriter {
    out: BufWriter<AtomicFile>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl ChecksummedWriter {
    /// Creates the part file. Fails if `path` already exists.
    pub fn create(path: &Path, spare: DiskReserve) -> Result<ChecksummedWriter> {
        let part = AtomicFile::create_sparing(path, spare)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, part);
        Ok(ChecksummedWriter { out, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        let written = self.out.write_all(bytes);
        written.map_err(|error| io_error("write", self.out.get_ref().part(), &error))
    }

    /// Appends the hash and finishes the atomic file, so that it survives a power failure. Returns the file's
    /// size.
    pub fn finish(mut self) -> Result<u64> {
        let hash = *self.hasher.finalize().as_bytes();
        self.put(&hash)?;
        let flushed = self.out.flush();
        flushed.map_err(|error| io_error("write", self.out.get_ref().part(), &error))?;
        let (part, _) = self.out.into_parts();
        part.finish()?;
        Ok(self.bytes)
    }
}

/// Recomputes the hash at the end of a checksummed file.
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub fn mend_hash(bytes: &mut [u8]) {
    if let Some((before, hash)) = bytes.split_last_chunk_mut::<32>() {
        *hash = *blake3::hash(before).as_bytes();
    }
}

/// Reads a checksummed file and hashes the bytes as it reads them.
pub(crate) struct ChecksummedReader<'a> {
    path: &'a Path,
    input: BufReader<File>,
    hasher: blake3::Hasher,
    read: u64,
    total: u64,
}

impl<'a> ChecksummedReader<'a> {
    pub fn open(path: &'a Path) -> Result<ChecksummedReader<'a>> {
        let file = File::open(path).map_err(|e| io_error("open", path, &e))?;
        let total = file.metadata().map_err(|e| io_error("read", path, &e))?.len();
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(ChecksummedReader { path, input, hasher: blake3::Hasher::new(), read: 0, total })
    }

    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.read
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the error for damage at the current position.
    pub fn damaged(&self, what: &str) -> Error {
        self.damaged_at(self.read, what)
    }

    pub fn damaged_at(&self, offset: u64, what: &str) -> Error {
        let path = self.path.display();
        let message = format!("{path} is damaged at byte {offset}: {what}; nothing was changed");
        Error::new(Code::CorruptData, message)
    }

    pub fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.damaged("it ends too early"),
            _ => io_error("read", self.path, &error),
        })?;
        self.hasher.update(bytes);
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Checks the trailing hash, and that no bytes follow it.
    pub fn check_end(&mut self) -> Result<()> {
        let expected = *self.hasher.finalize().as_bytes();
        let mut hash = [0; 32];
        self.take(&mut hash)?;
        let mut rest = [0; 1];
        let more = self.input.read(&mut rest).map_err(|e| io_error("read", self.path, &e))?;
        if hash == expected && more == 0 {
            Ok(())
        } else {
            Err(self.damaged("the checksum does not match"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_writes_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let code = || {
            ChecksummedWriter::create(&path, DiskReserve::default()).err().map(|error| error.code())
        };
        let mut first = ChecksummedWriter::create(&path, DiskReserve::default()).unwrap();
        first.put(b"all of it").unwrap();
        assert_eq!(code(), Some(Code::InvalidArgument), "another is at it");
        drop(first);
        assert!(!path.exists(), "half a file is none");
        let mut second = ChecksummedWriter::create(&path, DiskReserve::default()).unwrap();
        second.put(b"all of it").unwrap();
        assert_eq!(second.finish().unwrap(), 9 + 32);
        assert_eq!(code(), Some(Code::InvalidArgument), "it exists");
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            1,
            "and nothing beside it"
        );
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 9 + 32);
    }
}
