//! The file format of an increment: a header, frames copied from the log, and a hash of everything.
//!
//! ```text
//!   head    | "MSTINCRE" | format u32 | database 16 bytes | since u64 | last u64 | stamp of since u64 |
//!           | first u64 | chain u32 | crc32c u32 |
//!   frames  with the revisions first..=last, the first of them continued from `chain`
//!   blake3 of all before, 32 bytes
//! ```
//!
//! Frames have their own checksums, each continued from the one before. So damage is located, and no
//! frame can be missing or moved. The first frame may begin before `since`, because frames hold many
//! transactions and are not split.

use super::Kind;
use super::file::check_version;
use super::progress::ReadProgress;
use crate::fs::checksummed_file::{ChecksummedReader, ChecksummedWriter};
use crate::fs::disk_reserve::DiskReserve;
use crate::key::entry;
use crate::key::keyspace;
use crate::log::transactions::LoggedTransaction;
use crate::log::{DatabaseId, Frame, FrameVerifier, LOOSE_HEAD_BYTES};
use crate::storage::index::NEWEST;
use mainstay_model::{Result, Revision, Stamp};
use std::path::Path;

pub(super) const MAGIC: &[u8; 8] = b"MSTINCRE";
/// The format that this program writes, and the newest it reads.
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 68;

/// The header of an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IncrementHeader {
    pub database: DatabaseId,
    /// The increment holds everything after this revision.
    pub since: Revision,
    /// The last revision in it.
    pub last: Revision,
    /// The stamp of `since`; `None` if it is no longer known.
    pub since_stamp: Option<Stamp>,
    /// The first revision of its first frame; without frames, the revision after `last`.
    pub first: Revision,
    /// The checksum of the frame before the first one in the log.
    pub chain: u32,
}

impl IncrementHeader {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.database.0);
        for number in [self.since, self.last, self.since_stamp.unwrap_or(0), self.first] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the header from the beginning of a file.
    pub fn read(file: &mut ChecksummedReader<'_>) -> Result<IncrementHeader> {
        let mut bytes = [0; HEAD_BYTES];
        file.take(&mut bytes)?;
        check_version(file, &bytes, &[MAGIC], FORMAT)?;
        let (covered, crc) = bytes.split_at(HEAD_BYTES - 4);
        if crc32c::crc32c(covered).to_le_bytes() != *crc {
            return Err(file.damaged_at(0, "its head does not match its checksum"));
        }
        let head = IncrementHeader::decode(&bytes);
        if head.is_sound() {
            Ok(head)
        } else {
            Err(file.damaged_at(28, "its revisions are ones that cannot be"))
        }
    }

    fn decode(bytes: &[u8; HEAD_BYTES]) -> IncrementHeader {
        let wide = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        IncrementHeader {
            database: DatabaseId(std::array::from_fn(|i| bytes[12 + i])),
            since: wide(28),
            last: wide(36),
            since_stamp: Some(wide(44)).filter(|stamp| *stamp > 0),
            first: wide(52),
            chain: u32::from_le_bytes(std::array::from_fn(|i| bytes[60 + i])),
        }
    }

    fn is_sound(&self) -> bool {
        // Checked first, because 1 is added to both below.
        if self.since >= NEWEST || self.last >= NEWEST {
            return false;
        }
        let frames = self.first <= self.since + 1 && self.since < self.last;
        let none = self.first == self.last + 1 && self.since == self.last;
        frames || none
    }
}

/// Creates the file of an increment and writes the header.
pub(super) fn begin(
    path: &Path,
    head: &IncrementHeader,
    spare: DiskReserve,
) -> Result<ChecksummedWriter> {
    let mut file = ChecksummedWriter::create(path, spare)?;
    file.put(&head.encode())?;
    Ok(file)
}

/// The contents of a verified increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IncrementContents {
    pub head: IncrementHeader,
    /// The stamp of its last revision.
    pub stamp: Option<Stamp>,
    pub versions: u64,
    pub bytes: u64,
}

/// Called with each frame in order, after that frame has been verified.
pub(super) type IncrementVisitor<'a> = &'a mut dyn FnMut(&Frame<'_>) -> Result<()>;

/// Reads and verifies an increment, and visits its frames in order.
pub(super) fn read(
    path: &Path,
    watch: &mut ReadProgress<'_>,
    visit: IncrementVisitor<'_>,
) -> Result<IncrementContents> {
    let mut file = ChecksummedReader::open(path)?;
    let head = IncrementHeader::read(&mut file)?;
    let mut follower = FrameVerifier::new(&head.database, head.chain, head.first);
    let mut contents =
        IncrementContents { head, stamp: head.since_stamp, versions: 0, bytes: file.total() };
    let mut next = head.first;
    while next <= head.last {
        let at = file.position();
        let bytes = frame(&mut file, &follower)?;
        let refused = |what: &str| file.damaged_at(at, what);
        let frame = follower.follow(&bytes).map_err(refused)?;
        contents.count(&frame).map_err(refused)?;
        next = frame.last_revision() + 1;
        visit(&frame)?;
        watch.read(&file);
    }
    if next != head.last + 1 {
        return Err(file.damaged("it holds more revisions than it says"));
    }
    file.check_end()?;
    Ok(contents)
}

/// Reads the bytes of the next frame.
fn frame(file: &mut ChecksummedReader<'_>, follower: &FrameVerifier) -> Result<Vec<u8>> {
    let at = file.position();
    let mut head = [0; LOOSE_HEAD_BYTES];
    file.take(&mut head)?;
    let size = follower.size_of(&head).map_err(|what| file.damaged_at(at, what))?;
    let rest = size - LOOSE_HEAD_BYTES;
    // The length of the file limits how much memory a damaged header can make this allocate.
    if rest as u64 > file.total().saturating_sub(file.position()) {
        return Err(file.damaged_at(at, "a frame reaches beyond the end of the file"));
    }
    let mut bytes = head.to_vec();
    bytes.resize(size, 0);
    file.take(&mut bytes[LOOSE_HEAD_BYTES..])?;
    Ok(bytes)
}

impl IncrementContents {
    /// Counts a frame, if all of it can be read.
    fn count(&mut self, frame: &Frame<'_>) -> std::result::Result<(), &'static str> {
        for transaction in frame.transactions() {
            let transaction = transaction.map_err(|_| "a transaction cannot be read")?;
            check(&transaction)?;
            self.stamp = Some(transaction.stamp);
            self.versions += transaction.effects.len() as u64;
        }
        Ok(())
    }

    pub fn report(&self) -> super::BackupReport {
        super::BackupReport {
            database: self.head.database,
            kind: Kind::Increment { since: self.head.since },
            revision: self.head.last,
            keys: None,
            versions: self.versions,
            bytes: self.bytes,
        }
    }
}

/// Checks the properties that replay relies on.
fn check(transaction: &LoggedTransaction<'_>) -> std::result::Result<(), &'static str> {
    for (key, entry) in transaction.effects.clone() {
        if keyspace::split(key).is_none() || key.len() > usize::from(u16::MAX) {
            return Err("a key cannot be read");
        }
        let Ok((head, _)) = entry::parse(entry) else { return Err("an entry cannot be read") };
        if head.revision != transaction.revision {
            return Err("a version is not of its transaction");
        }
    }
    Ok(())
}
