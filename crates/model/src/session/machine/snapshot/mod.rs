//! Snapshots: all that a machine keeps, as bytes.
//!
//! ```text
//!   "MSTSESSN" | format u32 LE | crc32c u32 LE of these 12 bytes | block ... | end block     nothing behind it
//!   block      as in `blocks`
//!     1 head     machine's name | machine's version | clock | limits | counters
//!     2 entries  session, its responses, what waits for its client; the next session ...; formers; the user's keys
//!     3 end      number of entries u64 LE | blake3 of all bytes before this block, 32 bytes
//! ```
//!
//! Equal states have equal bytes, so the hash at the end is the canonical hash of the state. It is written entry by
//! entry and read likewise; neither side has a copy of the whole.

mod bytes;
mod entry;
mod reader;
mod writer;

use super::session_machine::{MachineCodec, SessionMachine};
use super::user::UserStateMachine;
use crate::Result;
use crate::blocks::HASH_BYTES;
use std::io::{self, Read, Write};
use std::marker::PhantomData;

const MAGIC: &[u8; 8] = b"MSTSESSN";
/// The version of the format.
const FORMAT: u32 = 1;
const PRELUDE_BYTES: usize = 16;
const HEAD: u8 = 1;
const ENTRIES: u8 = 2;
const END: u8 = 3;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWritten {
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The hash that it ends with: equal for equal states.
    pub hash: [u8; HASH_BYTES],
}

impl<M: UserStateMachine, C: MachineCodec<M>> SessionMachine<M, C> {
    /// Writes all that the machine keeps, entry by entry.
    pub fn snapshot_to(&self, out: impl Write) -> Result<SnapshotWritten> {
        writer::write(M::NAME, M::VERSION, &self.core, out)
    }

    /// A machine as it was when the snapshot was taken. It is refused, with nothing made of it, if it is
    ///
    /// - `ForeignSnapshot`: of another machine, or of another version of this one;
    /// - `NewerFormat`: written by a later program, in a format that this one does not know;
    /// - `CorruptData`: cut short, changed in any byte, followed by something, or no snapshot at all.
    pub fn restore(machine: M, from: impl Read) -> Result<SessionMachine<M, C>> {
        let core = reader::read(M::NAME, M::VERSION, from)?;
        Ok(SessionMachine { machine, core, codec: PhantomData })
    }

    /// Becomes what it was when the snapshot was taken; if that is refused, it stays as it is.
    pub fn restore_from(&mut self, from: impl Read) -> Result<()> {
        self.core = reader::read(M::NAME, M::VERSION, from)?;
        Ok(())
    }

    /// The canonical hash of all that the machine keeps: equal for equal states, on whatever replica, and the one that a
    /// snapshot ends with. It reads the whole state.
    pub fn hash(&self) -> [u8; HASH_BYTES] {
        let written = self.snapshot_to(io::sink());
        written.expect("nothing fails that is written nowhere").hash
    }
}
