//! Sequential scanner that verifies the frames of one segment.

use std::io;
use std::sync::Arc;

use super::files::{File, read_full};
use super::frame::{ALIGN, Frame, FrameHeader, HEAD_BYTES};
use super::segment::FramePosition;

/// Larger buffers are freed after the frame that needed them.
const KEPT_BUFFER_BYTES: usize = 1024 * 1024;

/// Reads frames in order from a start position.
pub(super) struct Scanner {
    file: Arc<dyn File>,
    seed: u32,
    place: FramePosition,
    buffer: Vec<u8>,
    buffer_offset: u64,
    chunk_bytes: usize,
}

/// The bytes at the scanner's position.
#[derive(Debug)]
pub(super) enum Scanned {
    /// The header of the expected frame.
    Head(FrameHeader),
    /// Zeros, or the end of the file.
    End,
    /// Anything else, with a description.
    Bad(&'static str),
}

impl Scanner {
    /// Starts at a position of a file; `seed` is derived from the database id.
    pub(super) fn new(
        file: Arc<dyn File>,
        seed: u32,
        place: FramePosition,
        chunk_bytes: usize,
    ) -> Scanner {
        let buffer_offset = place.offset;
        Scanner { file, seed, place, buffer: Vec::new(), buffer_offset, chunk_bytes }
    }

    /// The position of the next frame, with the revision and the chain it must continue.
    pub(super) fn place(&self) -> FramePosition {
        self.place
    }

    /// Reads the header of the next frame, without bytes from `limit` on.
    pub(super) fn peek(&mut self, limit: u64) -> io::Result<Scanned> {
        let seed = self.seed;
        let next = self.place.first;
        let bytes = self.fill(HEAD_BYTES, limit)?;
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(Scanned::End);
        }
        if bytes.len() < HEAD_BYTES {
            return Ok(Scanned::Bad("the file ends inside the header of a frame"));
        }
        Ok(match FrameHeader::parse(bytes, seed) {
            None => Scanned::Bad("the header of the frame does not match its checksum"),
            Some(head) if head.first != next => {
                Scanned::Bad("the frame has another revision than the one that comes next")
            }
            Some(head) => Scanned::Head(head),
        })
    }

    /// Reads the frame whose header [`Scanner::peek`] returned.
    pub(super) fn take(
        &mut self,
        head: FrameHeader,
        limit: u64,
    ) -> io::Result<Result<Frame<'_>, &'static str>> {
        let size = head.size();
        let FramePosition { offset, chain, .. } = self.place;
        if self.fill(size, limit)?.len() < size {
            return Ok(Err("the file ends inside the frame"));
        }
        let start = (offset - self.buffer_offset) as usize;
        let bytes = &self.buffer[start..start + size];
        if !head.matches(bytes, chain) {
            return Ok(Err("the frame does not match its checksum"));
        }
        self.place =
            FramePosition { first: head.last() + 1, offset: offset + size as u64, chain: head.crc };
        Ok(Ok(Frame::new(head, bytes)))
    }

    /// The next `size` bytes, fewer at the end of the file or at the limit.
    fn fill(&mut self, size: usize, limit: u64) -> io::Result<&[u8]> {
        let start = (self.place.offset - self.buffer_offset) as usize;
        if self.buffer.len() < start + size {
            self.refill(start, size, limit)?;
        }
        let start = (self.place.offset - self.buffer_offset) as usize;
        let end = self.buffer.len().min(start + size);
        Ok(&self.buffer[start..end])
    }

    fn refill(&mut self, start: usize, size: usize, limit: u64) -> io::Result<()> {
        self.buffer.drain(..start.min(self.buffer.len()));
        self.buffer_offset = self.place.offset;
        let have = self.buffer.len();
        // The file length bounds the allocation, because a damaged header may state any length.
        let available = limit.min(self.file.len()?).saturating_sub(self.place.offset);
        let want = (size.max(self.chunk_bytes) as u64).min(available) as usize;
        if want <= have {
            return Ok(());
        }
        if self.buffer.capacity() > KEPT_BUFFER_BYTES.max(want) {
            self.buffer.shrink_to(want);
        }
        self.buffer.resize(want, 0);
        let at = self.buffer_offset + have as u64;
        let read = read_full(&*self.file, &mut self.buffer[have..], at);
        self.buffer.truncate(have + *read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

/// Returns whether all bytes are zero. Works on blocks, which the compiler vectorizes, because every open
/// checks the whole unused rest of a segment.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(1024).all(|block| block.iter().fold(0, |all, byte| all | byte) == 0)
}

/// The end offset of the last nonzero byte at or after `from`.
pub(super) fn last_used_byte(file: &dyn File, from: u64) -> io::Result<Option<u64>> {
    let mut used = None;
    for_each_chunk(file, from, |offset, bytes| {
        if !is_zero(bytes) {
            let last = bytes.iter().rposition(|&byte| byte != 0);
            used = last.map(|at| offset + at as u64 + 1);
        }
        Ok(())
    })?;
    Ok(used)
}

/// Overwrites everything from `from` on with zeros.
pub(super) fn zero_tail(file: &dyn File, from: u64) -> io::Result<()> {
    // Writes only chunks that are not zero already: the others stay allocated but unwritten blocks.
    for_each_chunk(file, from, |offset, bytes| {
        if is_zero(bytes) {
            return Ok(());
        }
        super::files::write_zeros(file, offset, offset + bytes.len() as u64)
    })
}

/// Finds every frame header from `from` on, without the frames before it.
pub(super) fn find_heads(
    file: &dyn File,
    seed: u32,
    from: u64,
    found: &mut dyn FnMut(u64, FrameHeader),
) -> io::Result<()> {
    // The end of a chunk is searched again with the next one, for headers that cross the boundary.
    let mut carried: Vec<u8> = Vec::new();
    for_each_chunk(file, from.next_multiple_of(ALIGN as u64), |offset, bytes| {
        let start = offset - carried.len() as u64;
        carried.extend_from_slice(bytes);
        let last = carried.len().saturating_sub(HEAD_BYTES - ALIGN);
        for at in (0..last).step_by(ALIGN) {
            if let Some(head) = FrameHeader::parse(&carried[at..], seed) {
                found(start + at as u64, head);
            }
        }
        carried.drain(..last.next_multiple_of(ALIGN).min(carried.len()));
        Ok(())
    })
}

fn for_each_chunk(
    file: &dyn File,
    from: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = from;
    loop {
        let read = read_full(file, &mut buffer, offset)?;
        if read == 0 {
            return Ok(());
        }
        each(offset, &buffer[..read])?;
        offset += read as u64;
    }
}
