//! The frame: the binary format of one batch of transactions in the write-ahead log.
//!
//! All numbers are little endian; a frame starts at a multiple of eight bytes.
//!
//! ```text
//!  offset  bytes
//!       0      4  crc       crc32c of all later bytes of the frame, padding included,
//!                           continued from the crc of the previous frame: the chain
//!       4      4  length    bytes of payload, without padding
//!       8      8  first     revision of the first transaction
//!      16      8  synced    highest revision known to be on stable storage when this was written
//!      24      4  count     transactions, at least one; their revisions are consecutive
//!      28      4  reserved  zero
//!      32      4  head crc  crc32c of bytes 4..32, continued from the crc32c of the database id,
//!                           so that a frame is recognised without the frame before it
//!      36      4  magic     0x4D534652
//!      40      …  payload   the transactions, back to back
//!       …   0..7  padding   zeros up to a multiple of eight
//!
//!  transaction   varint stamp (the first: absolute, the others: difference to the previous one)
//!                varint length of the request id, its bytes (length 0: no request id)
//!                varint number of effects, then for each:
//!                    varint key length, key, varint entry length, entry
//! ```
//!
//! Varints are LEB128 of at most 64 bits. The first frame of a log continues from chain 0.

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Revision, Stamp};

use super::DatabaseId;
use super::transactions::Transactions;
use super::varint;

/// Bytes before the payload.
pub(super) const HEAD_BYTES: usize = 40;
/// Frames start at multiples of this.
pub(super) const ALIGN: usize = 8;
pub(super) const MAGIC: u32 = 0x4D53_4652;

/// Encoded transactions, back to back: the content of a frame.
///
/// The first one's stamp is kept apart, because its encoding depends on the transaction before it in the
/// frame.
#[derive(Debug, Default)]
pub struct FramePayload {
    bytes: Vec<u8>,
    count: u32,
    first: Stamp,
    last: Stamp,
}

impl FramePayload {
    /// Starts a transaction; exactly `effects` calls of [`FramePayload::effect`] follow.
    pub fn transaction(&mut self, stamp: Stamp, request: &[u8], effects: usize) {
        match self.count {
            0 => self.first = stamp,
            _ => varint::put(&mut self.bytes, stamp.wrapping_sub(self.last)),
        }
        varint::put_bytes(&mut self.bytes, request);
        varint::put(&mut self.bytes, effects as u64);
        self.last = stamp;
        self.count += 1;
    }

    /// Appends an effect of the transaction.
    #[inline]
    pub fn effect(&mut self, key: &[u8], entry: &[u8]) {
        varint::put_bytes(&mut self.bytes, key);
        varint::put_bytes(&mut self.bytes, entry);
    }

    /// The encoded size in bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Clears the payload. Keeps the allocation unless it is larger than 4 MiB.
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > 4 << 20 {
            self.bytes = Vec::new();
        }
        self.count = 0;
    }
}

/// A frame under construction at the end of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct FrameBuffer {
    start: usize,
    first: Revision,
    count: u32,
    stamp: Stamp,
}

impl FrameBuffer {
    /// Starts a frame at the end of the buffer.
    pub fn begin(out: &mut Vec<u8>, first: Revision) -> FrameBuffer {
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        FrameBuffer { start, first, count: 0, stamp: 0 }
    }

    /// Appends transactions. The frame must be the last content of the buffer.
    pub fn append(&mut self, out: &mut Vec<u8>, payload: &FramePayload) {
        varint::put(out, payload.first.wrapping_sub(self.stamp));
        out.extend_from_slice(&payload.bytes);
        self.count += payload.count;
        self.stamp = payload.last;
    }

    /// Offset of the frame in the buffer.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The revision of its first transaction.
    pub fn first(&self) -> Revision {
        self.first
    }

    /// The revision of its last transaction.
    pub fn last(&self) -> Revision {
        self.first + u64::from(self.count) - 1
    }

    /// The stamp of its last transaction.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }
}

/// The checksum chain over all frames of a log: each frame's crc continues the one before.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    crc: u32,
    seed: u32,
}

impl Chain {
    /// Continues after a frame with this crc; 0 for a new log.
    pub fn new(crc: u32, database: &DatabaseId) -> Chain {
        Chain { crc, seed: database.seed() }
    }

    /// The crc of the last frame.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Completes a frame: pads it, fills in its header and returns its bytes. `end` is the end of its payload
    /// in the buffer.
    ///
    /// Does not check [`WRITE_LIMIT_BYTES`](super::WRITE_LIMIT_BYTES): the write refuses larger frames.
    pub fn seal<'a>(
        &mut self,
        out: &'a mut Vec<u8>,
        frame: &FrameBuffer,
        end: usize,
        synced: Revision,
    ) -> &'a [u8] {
        let padded = end.next_multiple_of(ALIGN);
        if out.len() < padded {
            out.resize(padded, 0);
        }
        let length = (end - frame.start - HEAD_BYTES) as u32;
        let frame_bytes = &mut out[frame.start..padded];
        frame_bytes[4..8].copy_from_slice(&length.to_le_bytes());
        frame_bytes[8..16].copy_from_slice(&frame.first.to_le_bytes());
        frame_bytes[16..24].copy_from_slice(&synced.to_le_bytes());
        frame_bytes[24..28].copy_from_slice(&frame.count.to_le_bytes());
        let head_crc = crc32c::crc32c_append(self.seed, &frame_bytes[4..32]);
        frame_bytes[32..36].copy_from_slice(&head_crc.to_le_bytes());
        frame_bytes[36..40].copy_from_slice(&MAGIC.to_le_bytes());
        self.crc = crc32c::crc32c_append(self.crc, &frame_bytes[4..]);
        frame_bytes[..4].copy_from_slice(&self.crc.to_le_bytes());
        frame_bytes
    }
}

/// The header of a frame, verified independently of the frames before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) crc: u32,
    pub(super) length: u32,
    pub(super) first: Revision,
    pub(super) synced: Revision,
    pub(super) count: u32,
}

impl FrameHeader {
    /// Parses a header. Returns `None` if the bytes are not a header of this database.
    pub(super) fn parse(bytes: &[u8], seed: u32) -> Option<FrameHeader> {
        let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        // The magic rejects nearly everything before a checksum has to be computed.
        if number(bytes, 36) != MAGIC || number(bytes, 28) != 0 {
            return None;
        }
        if crc32c::crc32c_append(seed, &bytes[4..32]) != number(bytes, 32) {
            return None;
        }
        let head = FrameHeader {
            crc: number(bytes, 0),
            length: number(bytes, 4),
            first: wide(bytes, 8),
            synced: wide(bytes, 16),
            count: number(bytes, 24),
        };
        let sound = head.count > 0 && head.first.checked_add(u64::from(head.count)).is_some();
        sound.then_some(head)
    }

    /// The revision of the last transaction.
    pub(super) fn last(&self) -> Revision {
        self.first + u64::from(self.count - 1)
    }

    /// Bytes of the whole frame, padding included.
    pub(super) fn size(&self) -> usize {
        (HEAD_BYTES + self.length as usize).next_multiple_of(ALIGN)
    }

    /// Returns whether the frame's checksum is correct after a frame with crc `chain`.
    pub(super) fn matches(&self, frame: &[u8], chain: u32) -> bool {
        fault_points::is(InjectedFault::ChecksumIgnored)
            || crc32c::crc32c_append(chain, &frame[4..]) == self.crc
    }
}

fn number(bytes: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn wide(bytes: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// A frame with a verified checksum, borrowed from the read buffer.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    head: FrameHeader,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame in `bytes`, already verified by [`FrameHeader::matches`].
    pub(super) fn new(head: FrameHeader, bytes: &'a [u8]) -> Frame<'a> {
        Frame { head, bytes }
    }

    /// The revision of the first transaction.
    pub fn first_revision(&self) -> Revision {
        self.head.first
    }

    /// The revision of the last transaction.
    pub fn last_revision(&self) -> Revision {
        self.head.last()
    }

    /// The highest revision known to be on stable storage when this frame was written.
    pub fn synced_revision(&self) -> Revision {
        self.head.synced
    }

    /// Bytes of the whole frame, header and padding included.
    pub(super) fn size(&self) -> usize {
        self.head.size()
    }

    /// The transactions in order.
    pub fn transactions(&self) -> Transactions<'a> {
        let payload = &self.bytes[HEAD_BYTES..HEAD_BYTES + self.head.length as usize];
        Transactions::new(self.head.first, self.head.count, payload)
    }

    /// Copies the frame.
    pub fn to_owned_frame(self) -> OwnedFrame {
        OwnedFrame { head: self.head, bytes: self.bytes.into() }
    }
}

/// A frame that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFrame {
    head: FrameHeader,
    bytes: Box<[u8]>,
}

impl OwnedFrame {
    /// The same frame, borrowed.
    pub fn frame(&self) -> Frame<'_> {
        Frame { head: self.head, bytes: &self.bytes }
    }

    /// The whole frame, byte for byte as in the log.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The revision of the first transaction.
    pub fn first_revision(&self) -> Revision {
        self.head.first
    }

    /// The revision of the last transaction.
    pub fn last_revision(&self) -> Revision {
        self.head.last()
    }

    /// The transactions in order.
    pub fn transactions(&self) -> Transactions<'_> {
        self.frame().transactions()
    }
}
