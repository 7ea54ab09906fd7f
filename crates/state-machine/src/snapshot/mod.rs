//! Snapshot format of a session machine's complete state.
//!
//! ```text
//!   "MSTSESSN" | format u32 LE | crc32c u32 LE of these 12 bytes | block ... | end block     nothing after it
//!   block      as in `blocks`
//!     1 head     machine's name | machine's version | clock | limits | counters
//!     2 entries  session, its responses, its pending requests; the next session ...; formers; the user's keys
//!     3 end      number of entries u64 LE | blake3 of all bytes before this block, 32 bytes
//! ```
//!
//! Equal states have equal bytes, so the hash at the end is the canonical hash of the state. Snapshots are
//! written and read entry by entry; neither side holds a copy of the whole.

mod bytes;
mod entry;
mod reader;
mod writer;

use super::session_machine::{MachineCodec, SessionMachine};
use super::user::UserStateMachine;
use mainstay_model::Result;
use mainstay_model::blocks::HASH_BYTES;
use std::io::{self, Read, Write};
use std::marker::PhantomData;

const MAGIC: &[u8; 8] = b"MSTSESSN";
/// The version of the format.
const FORMAT: u32 = 1;
const PRELUDE_BYTES: usize = 16;
const HEAD: u8 = 1;
const ENTRIES: u8 = 2;
const END: u8 = 3;

/// Totals of a written snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWritten {
    /// The number of entries.
    pub entries: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash at the snapshot's end. Equal states have equal hashes.
    pub hash: [u8; HASH_BYTES],
}

impl<M: UserStateMachine, C: MachineCodec<M>> SessionMachine<M, C> {
    /// Writes the complete state, entry by entry.
    pub fn snapshot_to(&self, out: impl Write) -> Result<SnapshotWritten> {
        writer::write(M::NAME, M::VERSION, &self.core, out)
    }

    /// Restores a machine from a snapshot. Fails without creating a machine with
    ///
    /// - `ForeignSnapshot` if it belongs to another machine, or to another version of this one;
    /// - `NewerFormat` if a newer program wrote it, in a format that this one does not know;
    /// - `CorruptData` if it is truncated, changed in any byte, followed by other bytes, or no snapshot at
    ///   all.
    pub fn restore(machine: M, from: impl Read) -> Result<SessionMachine<M, C>> {
        let core = reader::read(M::NAME, M::VERSION, from)?;
        Ok(SessionMachine { machine, core, codec: PhantomData })
    }

    /// Replaces the state by a snapshot. If the snapshot is refused, the state does not change.
    pub fn restore_from(&mut self, from: impl Read) -> Result<()> {
        self.core = reader::read(M::NAME, M::VERSION, from)?;
        Ok(())
    }

    /// The canonical hash of the complete state, equal to the hash at a snapshot's end. Equal states have
    /// equal hashes on every replica. It reads the whole state.
    pub fn hash(&self) -> [u8; HASH_BYTES] {
        let written = self.snapshot_to(io::sink());
        written.expect("nothing fails that is written nowhere").hash
    }
}
