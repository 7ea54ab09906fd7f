//! Frames outside of the log: as they stood there, checked one behind the other.
//!
//! ```text
//!   log --Reader--> frame as bytes --> a file --> Follower: header, chain, revisions --> frame
//! ```

use mainstay_model::Revision;

use super::DatabaseId;
use super::frame::{self, Frame, FrameHeader};

/// Bytes of a frame that say how long it is.
pub const LOOSE_HEAD_BYTES: usize = frame::HEAD_BYTES;

/// Checks frames one after the other: each has to continue the one before.
#[derive(Clone, Copy, Debug)]
pub struct FrameVerifier {
    seed: u32,
    chain: u32,
    next: Revision,
}

impl FrameVerifier {
    /// Begins at the frame that starts with `next`, behind one with the crc `chain`.
    pub fn new(database: &DatabaseId, chain: u32, next: Revision) -> FrameVerifier {
        FrameVerifier { seed: database.seed(), chain, next }
    }

    /// How many bytes the frame has that begins with this header.
    pub fn size_of(&self, head: &[u8; LOOSE_HEAD_BYTES]) -> Result<usize, &'static str> {
        self.head(head).map(|head| head.size())
    }

    /// The frame in these bytes, which have the size that its header says.
    pub fn follow<'a>(&mut self, bytes: &'a [u8]) -> Result<Frame<'a>, &'static str> {
        let head = self.head(bytes)?;
        if bytes.len() != head.size() || !head.matches(bytes, self.chain) {
            return Err("a frame does not match its checksum");
        }
        (self.chain, self.next) = (head.crc, head.last() + 1);
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
