//! Checksummed block framing of snapshots. Each block has a CRC-32C, and the last block has a hash of all
//! bytes before it.
//!
//! ```text
//!   kind u8 | length u32 LE | crc32c u32 LE | body         the checksum is over kind, length and body
//! ```

use crate::limits::VALUE_LIMIT_BYTES;
use crate::{Code, Error, Result};
use std::io::{self, Read, Write};

/// A block is flushed when it reaches this size, in bytes.
pub const BLOCK_BYTES: usize = 64 << 10;
/// The largest block, in bytes. One entry may be as large as a value.
const BLOCK_LIMIT_BYTES: usize = VALUE_LIMIT_BYTES + (1 << 20);
const BLOCK_HEAD_BYTES: usize = 9;
/// The length of the hash of all bytes.
pub const HASH_BYTES: usize = 32;

/// Writes blocks and hashes all written bytes.
pub struct BlockWriter<W> {
    out: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> BlockWriter<W> {
        BlockWriter { out, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    /// Writes a block with its checksum.
    pub fn put_block(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        self.put(&block_head(kind, body))?;
        self.put(body)
    }

    /// Writes raw bytes outside a block, such as the magic number.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| cannot("write", &error))
    }

    /// The BLAKE3 hash of all bytes written so far.
    pub fn hash(&self) -> [u8; HASH_BYTES] {
        *self.hasher.finalize().as_bytes()
    }

    /// Flushes, then returns the inner writer and the number of bytes written.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.out.flush().map_err(|error| cannot("write", &error))?;
        Ok((self.out, self.bytes))
    }
}

/// Reads blocks and verifies their checksums.
pub struct BlockReader<R> {
    from: R,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<R: Read> BlockReader<R> {
    /// Reads from `from`.
    pub fn new(from: R) -> BlockReader<R> {
        BlockReader { from, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    /// Reads raw bytes outside a block until `room` is full or the input ends. Returns the number of bytes
    /// read.
    pub fn fill(&mut self, room: &mut [u8]) -> Result<usize> {
        let read = fill(&mut self.from, room)?;
        self.hasher.update(&room[..read]);
        self.bytes += read as u64;
        Ok(read)
    }

    /// Reads the next block. The caller adds it to the hash with `note`, except the last block, which holds
    /// the hash.
    pub fn take_block(&mut self) -> Result<(u8, Vec<u8>)> {
        take_block(&mut self.from)
    }

    /// Adds a block to the hash.
    pub fn note(&mut self, kind: u8, body: &[u8]) {
        self.hasher.update(&block_head(kind, body));
        self.hasher.update(body);
        self.bytes += (BLOCK_HEAD_BYTES + body.len()) as u64;
    }

    /// The hash of all bytes read with `fill` or added with `note`.
    pub fn hash(&self) -> [u8; HASH_BYTES] {
        *self.hasher.finalize().as_bytes()
    }

    /// Returns the total number of bytes, including this last block. Fails if more bytes follow it.
    pub fn end(&mut self, body: &[u8]) -> Result<u64> {
        if fill(&mut self.from, &mut [0])? > 0 {
            return Err(damaged("something follows its end"));
        }
        Ok(self.bytes + (BLOCK_HEAD_BYTES + body.len()) as u64)
    }
}

fn block_head(kind: u8, body: &[u8]) -> [u8; BLOCK_HEAD_BYTES] {
    let mut head = [0; BLOCK_HEAD_BYTES];
    head[0] = kind;
    head[1..5].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head[..5]), body);
    head[5..].copy_from_slice(&checksum.to_le_bytes());
    head
}

fn take_block(from: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; BLOCK_HEAD_BYTES];
    if fill(from, &mut head)? < head.len() {
        return Err(damaged("it ends too early"));
    }
    let [kind, a, b, c, d, ..] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > BLOCK_LIMIT_BYTES {
        return Err(damaged("a block is longer than any that was written"));
    }
    // Do not reserve `length` bytes: a damaged length must not allocate memory.
    let mut body = Vec::new();
    let mut limited = from.take(length as u64);
    limited.read_to_end(&mut body).map_err(|error| cannot("read", &error))?;
    if body.len() < length {
        return Err(damaged("it ends too early"));
    }
    if block_head(kind, &body) != head {
        return Err(damaged("a block does not have its checksum"));
    }
    Ok((kind, body))
}

/// Reads until `room` is full or the input ends. Returns the number of bytes read.
fn fill(from: &mut impl Read, mut room: &mut [u8]) -> Result<usize> {
    let wanted = room.len();
    while !room.is_empty() {
        match from.read(room) {
            Ok(0) => break,
            Ok(read) => room = &mut room[read..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot("read", &error)),
        }
    }
    Ok(wanted - room.len())
}

/// The error of a damaged snapshot.
#[cold]
pub fn damaged(what: &str) -> Error {
    Error::new(Code::CorruptData, format!("the snapshot is damaged: {what}"))
}

#[cold]
fn cannot(what: &str, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => Code::DiskFull,
        _ => Code::Io,
    };
    Error::new(code, format!("cannot {what} the snapshot: {error}"))
}
