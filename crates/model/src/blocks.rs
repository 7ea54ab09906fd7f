//! Blocks: what snapshots are made of. Each has its checksum, and the last one the hash of all before it.
//!
//! ```text
//!   kind u8 | length u32 LE | crc32c u32 LE | body         the checksum is over kind, length and body
//! ```

use crate::limits::VALUE_LIMIT_BYTES;
use crate::{Code, Error, Result};
use std::io::{self, Read, Write};

/// A block is written when it has so many bytes.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// The largest block: one entry may be large.
const BLOCK_LIMIT_BYTES: usize = VALUE_LIMIT_BYTES + (1 << 20);
const BLOCK_HEAD_BYTES: usize = 9;
pub(crate) const HASH_BYTES: usize = 32;

/// Writes blocks, and hashes what it writes.
pub(crate) struct BlockWriter<W> {
    out: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    pub(crate) fn new(out: W) -> BlockWriter<W> {
        BlockWriter { out, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    pub(crate) fn put_block(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        self.put(&block_head(kind, body))?;
        self.put(body)
    }

    /// Writes what is no block.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|error| cannot("write", &error))
    }

    /// The hash of all that was written.
    pub(crate) fn hash(&self) -> [u8; HASH_BYTES] {
        *self.hasher.finalize().as_bytes()
    }

    /// Gives back where it wrote to, and how many bytes that were.
    pub(crate) fn finish(mut self) -> Result<(W, u64)> {
        self.out.flush().map_err(|error| cannot("write", &error))?;
        Ok((self.out, self.bytes))
    }
}

/// Reads blocks, and checks them.
pub(crate) struct BlockReader<R> {
    from: R,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<R: Read> BlockReader<R> {
    pub(crate) fn new(from: R) -> BlockReader<R> {
        BlockReader { from, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    /// Reads what is no block, as much as there is room for; says how much there was.
    pub(crate) fn fill(&mut self, room: &mut [u8]) -> Result<usize> {
        let read = fill(&mut self.from, room)?;
        self.hasher.update(&room[..read]);
        self.bytes += read as u64;
        Ok(read)
    }

    /// The next block. It counts towards the hash when it is noted, which the last one is not.
    pub(crate) fn take_block(&mut self) -> Result<(u8, Vec<u8>)> {
        take_block(&mut self.from)
    }

    /// Takes a block into the hash.
    pub(crate) fn note(&mut self, kind: u8, body: &[u8]) {
        self.hasher.update(&block_head(kind, body));
        self.hasher.update(body);
        self.bytes += (BLOCK_HEAD_BYTES + body.len()) as u64;
    }

    /// The hash of all that was noted.
    pub(crate) fn hash(&self) -> [u8; HASH_BYTES] {
        *self.hasher.finalize().as_bytes()
    }

    /// How many bytes there were with this last block. Refuses what follows it.
    pub(crate) fn end(&mut self, body: &[u8]) -> Result<u64> {
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

/// Reads as much as there is room for; says how much there was.
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

#[cold]
pub(crate) fn damaged(what: &str) -> Error {
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
