//! Verifies frames stored outside of the log, such as in a backup, one after the other.
//!
//! ```text
//!   log --LogReader--> frame as bytes --> a file --> FrameVerifier: header, chain, revisions --> frame
//! ```

use mainstay_model::Revision;

use super::DatabaseId;
use super::frame::{self, Frame, FrameHeader};

/// Length of the frame header, which states the size of the frame.
pub const LOOSE_HEAD_BYTES: usize = frame::HEAD_BYTES;

/// Verifies a sequence of frames: each must continue the chain and the revisions of the one before.
#[derive(Clone, Copy, Debug)]
pub struct FrameVerifier {
    seed: u32,
    chain: u32,
    next: Revision,
}

impl FrameVerifier {
    /// Starts at the frame with first revision `next`, after a frame with crc `chain`.
    pub fn new(database: &DatabaseId, chain: u32, next: Revision) -> FrameVerifier {
        FrameVerifier { seed: database.seed(), chain, next }
    }

    /// The size in bytes of the frame with this header.
    pub fn size_of(&self, head: &[u8; LOOSE_HEAD_BYTES]) -> Result<usize, &'static str> {
        self.head(head).map(|head| head.size())
    }

    /// Verifies the next frame. `bytes` must have the size that its header states.
    pub fn follow<'a>(&mut self, bytes: &'a [u8]) -> Result<Frame<'a>, &'static str> {
        let head = self.head(bytes)?;
        if bytes.len() != head.size() || !head.matches(bytes, self.chain) {
            return Err("a frame does not match its checksum");
        }
        self.chain = head.crc;
        self.next = head.last() + 1;
        Ok(Frame::new(head, bytes))
    }

    fn head(&self, bytes: &[u8]) -> Result<FrameHeader, &'static str> {
        match FrameHeader::parse(bytes, self.seed) {
            None => Err("the header of a frame does not match its checksum"),
            Some(head) if head.first != self.next => {
                Err("a frame has another revision than the one that comes next")
            }
            Some(head) => Ok(head),
        }
    }
}
