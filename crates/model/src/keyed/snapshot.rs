//! Snapshot format of keyed state: full, partial (some keys) or incremental (changes).
//!
//! ```text
//!   "MSTKEYS1" | block ... | end block                    nothing behind it
//!   block      kind u8 | length u32 LE | crc32c u32 LE | body         the checksum is over kind, length and body
//!     1 head     flags u8 | versions u8 | groups u32 LE | frontier   0 bytes: no frontier
//!     2 entries  entry ...                                 in order of their places, without duplicates
//!     3 end      number of entries u64 LE | blake3 of all bytes before this block, 32 bytes
//!   entry      place's length | place | payload's length + 1, 0 for a removal | payload       lengths are varints
//! ```
//!
//! Equal states have equal bytes in every store, because snapshots contain no revisions, timestamps or names.

use super::{EntryKind, EntryPlace, EntryRef, SpaceInfo, SpaceOptions, Version, VersionKind};
use crate::blocks::{BLOCK_BYTES, BlockReader, BlockWriter, HASH_BYTES, damaged};
use crate::codec::{get_varint, put_varint};
use crate::wire::fields;
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};

const MAGIC: &[u8; 8] = b"MSTKEYS1";
const HEAD: u8 = 1;
const ENTRIES: u8 = 2;
const END: u8 = 3;

const ORDERED: u8 = 1;
const MERGED: u8 = 2;
const SOME_KEYS: u8 = 4;
const CHANGES: u8 = 8;

/// The head of a snapshot: its space and its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// The options and the frontier of the space.
    pub space: SpaceInfo,
    /// True if the snapshot has only some keys of the space, and no positions.
    pub some_keys: bool,
    /// True if the snapshot is incremental.
    pub changes: bool,
}

impl SnapshotHead {
    /// The head of a full snapshot.
    pub fn all(space: SpaceInfo) -> SnapshotHead {
        SnapshotHead { space, some_keys: false, changes: false }
    }

    /// The head of a snapshot of some keys.
    pub fn some(space: SpaceInfo) -> SnapshotHead {
        SnapshotHead { space, some_keys: true, changes: false }
    }

    /// The head of an incremental snapshot.
    pub fn changes(space: SpaceInfo) -> SnapshotHead {
        SnapshotHead { space, some_keys: false, changes: true }
    }

    fn encode(&self) -> Vec<u8> {
        let SpaceInfo { options, frontier } = self.space;
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(options.ordered, ORDERED)
            | flag(options.merged, MERGED)
            | flag(self.some_keys, SOME_KEYS)
            | flag(self.changes, CHANGES);
        let versions = options.versions.map_or(0, |kind| kind.bytes() as u8);
        let mut bytes = vec![flags, versions];
        bytes.extend_from_slice(&options.groups.to_le_bytes());
        bytes.extend_from_slice(&frontier.map(Version::to_bytes).unwrap_or_default());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<SnapshotHead> {
        let (&[flags, versions, a, b, c, d], frontier) = bytes.split_first_chunk::<6>()?;
        if flags & !(ORDERED | MERGED | SOME_KEYS | CHANGES) != 0 {
            return None;
        }
        let versions = match versions {
            0 => None,
            bytes => Some(VersionKind::of_bytes(usize::from(bytes))?),
        };
        let frontier = match frontier {
            [] => None,
            bytes => Some(Version::from_bytes(bytes).filter(|f| Some(f.kind()) == versions)?),
        };
        let groups = u32::from_le_bytes([a, b, c, d]);
        let ordered = flags & ORDERED != 0;
        let merged = flags & MERGED != 0;
        let options = SpaceOptions { versions, ordered, merged, groups };
        options.check().ok()?;
        let some_keys = flags & SOME_KEYS != 0;
        let changes = flags & CHANGES != 0;
        Some(SnapshotHead { space: SpaceInfo { options, frontier }, some_keys, changes })
    }
}

/// Totals of a snapshot that was written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The number of entries.
    pub entries: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash at the snapshot's end. Equal states have equal hashes.
    pub hash: [u8; HASH_BYTES],
    /// The positions in the snapshot.
    pub positions: BTreeMap<String, u64>,
}

/// Adds an entry to `positions` if it is a position.
fn note_position(place: &[u8], payload: Option<&[u8]>, positions: &mut BTreeMap<String, u64>) {
    if place.first() != Some(&(EntryKind::Position as u8)) {
        return;
    }
    let found = EntryRef::from_parts(place, payload, None);
    if let Ok(EntryRef::Position { source, position }) = found {
        positions.insert(source.to_owned(), position);
    }
}

/// The point in time of a snapshot. Only the store that took the snapshot can interpret it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMark(pub String);

/// The result of taking a snapshot that may be incremental.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTaken {
    /// Totals of the written snapshot.
    pub summary: SnapshotSummary,
    /// The snapshot's point in time, which the next incremental snapshot starts from. `None` if the store
    /// cannot use it.
    pub mark: Option<SnapshotMark>,
    /// True if the snapshot is full.
    pub is_full: bool,
    /// The reason for a full snapshot when an incremental one was requested.
    pub why: Option<&'static str>,
}

/// A sequence of encoded entries, as in a block of a snapshot.
///
/// ```
/// use mainstay_model::{EntryBlock, EntryKind};
/// let mut block = EntryBlock::default();
/// block.push(&EntryKind::position("orders"), Some(&7_u64.to_be_bytes()));
/// assert_eq!(block.iter().count(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryBlock(#[serde(with = "fields::bytes")] Vec<u8>);

impl EntryBlock {
    /// Appends an entry. Without a payload, it is a removal.
    pub fn push(&mut self, place: &[u8], payload: Option<&[u8]>) {
        put_varint(&mut self.0, place.len() as u64);
        self.0.extend_from_slice(place);
        put_varint(&mut self.0, payload.map_or(0, |payload| payload.len() as u64 + 1));
        self.0.extend_from_slice(payload.unwrap_or_default());
    }

    /// Appends all entries of another block.
    pub fn append(&mut self, other: &EntryBlock) {
        self.0.extend_from_slice(&other.0);
    }

    /// The encoded entries.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether the block has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Iterates over the entries. An entry that cannot be decoded is an error and ends the iteration.
    pub fn iter(&self) -> Entries<'_> {
        Entries { rest: &self.0 }
    }

    /// Iterates over the last `bytes` bytes, for a reader that stopped there.
    pub fn last(&self, bytes: usize) -> Entries<'_> {
        Entries { rest: &self.0[self.0.len().saturating_sub(bytes)..] }
    }
}

impl<'e> IntoIterator for &'e EntryBlock {
    type Item = Result<EntryParts<'e>>;
    type IntoIter = Entries<'e>;

    fn into_iter(self) -> Entries<'e> {
        self.iter()
    }
}

/// An encoded entry: its place and its payload. A removal has no payload.
pub type EntryParts<'e> = (&'e [u8], Option<&'e [u8]>);

/// Iterator over the entries of a block.
#[derive(Clone, Debug)]
pub struct Entries<'e> {
    rest: &'e [u8],
}

impl Entries<'_> {
    /// The number of bytes left to read.
    pub fn left_bytes(&self) -> usize {
        self.rest.len()
    }
}

impl<'e> Iterator for Entries<'e> {
    type Item = Result<EntryParts<'e>>;

    fn next(&mut self) -> Option<Result<EntryParts<'e>>> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = take_entry(&mut self.rest).ok_or_else(|| damaged("an entry cannot be read"));
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

/// Splits the first entry off `rest`.
fn take_entry<'e>(rest: &mut &'e [u8]) -> Option<EntryParts<'e>> {
    let place = take_sized(rest)?;
    let length = get_varint(rest)?;
    let Some(length) = length.checked_sub(1) else { return Some((place, None)) };
    let (payload, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = behind;
    Some((place, Some(payload)))
}

fn take_sized<'e>(rest: &mut &'e [u8]) -> Option<&'e [u8]> {
    let length = usize::try_from(get_varint(rest)?).ok()?;
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// Writes a snapshot entry by entry.
pub struct SnapshotWriter<W: Write> {
    out: BlockWriter<W>,
    block: EntryBlock,
    last: EntryPlace,
    entries: u64,
    positions: BTreeMap<String, u64>,
}

impl<W: Write> SnapshotWriter<W> {
    /// Starts a snapshot with its head.
    pub fn new(out: W, head: &SnapshotHead) -> Result<SnapshotWriter<W>> {
        let out = BlockWriter::new(out);
        let block = EntryBlock::default();
        let last = EntryPlace::new();
        let positions = BTreeMap::new();
        let mut writer = SnapshotWriter { out, block, last, entries: 0, positions };
        writer.out.put(MAGIC)?;
        writer.out.put_block(HEAD, &head.encode())?;
        Ok(writer)
    }

    /// Appends an entry, whose place must be higher than all before. Without a payload, it is a removal.
    pub fn push(&mut self, place: &[u8], payload: Option<&[u8]>) -> Result<()> {
        if self.entries > 0 && place <= self.last.as_slice() {
            let message = format!("an entry at {} is out of order", place.escape_ascii());
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.last.clear();
        self.last.extend_from_slice(place);
        note_position(place, payload, &mut self.positions);
        self.block.push(place, payload);
        self.entries += 1;
        if self.block.as_bytes().len() >= BLOCK_BYTES {
            self.put_entries()?;
        }
        Ok(())
    }

    /// Writes the end block with the count and the hash. Returns the totals and the inner writer.
    pub fn finish(mut self) -> Result<(SnapshotSummary, W)> {
        self.put_entries()?;
        let SnapshotWriter { mut out, entries, positions, .. } = self;
        let hash = out.hash();
        out.put_block(END, &[&entries.to_le_bytes()[..], &hash].concat())?;
        let (out, bytes) = out.finish()?;
        Ok((SnapshotSummary { entries, bytes, hash, positions }, out))
    }

    fn put_entries(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.out.put_block(ENTRIES, self.block.as_bytes())?;
            self.block.clear();
        }
        Ok(())
    }
}

/// Reads and verifies a snapshot block by block. A reader that reaches its end has read exactly the written
/// entries.
pub struct SnapshotReader<R: Read> {
    from: BlockReader<R>,
    head: SnapshotHead,
    last: EntryPlace,
    entries: u64,
    positions: BTreeMap<String, u64>,
    summary: Option<SnapshotSummary>,
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the head.
    pub fn new(from: R) -> Result<SnapshotReader<R>> {
        let mut from = BlockReader::new(from);
        let mut magic = [0; MAGIC.len()];
        let begun = from.fill(&mut magic)?;
        if &magic[..begun] != MAGIC {
            let message = "these bytes are no snapshot of keyed state: they do not begin like one";
            return Err(Error::new(Code::CorruptData, message));
        }
        let (kind, body) = from.take_block()?;
        let head = Some(&body).filter(|_| kind == HEAD).and_then(|body| SnapshotHead::decode(body));
        let Some(head) = head else { return Err(damaged("its head cannot be read")) };
        from.note(kind, &body);
        let last = EntryPlace::new();
        let positions = BTreeMap::new();
        Ok(SnapshotReader { from, head, last, entries: 0, positions, summary: None })
    }

    /// The head of the snapshot.
    pub fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Reads the next block of entries and checks them. Returns `None` at the end.
    pub fn next_block(&mut self) -> Result<Option<EntryBlock>> {
        if self.summary.is_some() {
            return Ok(None);
        }
        let (kind, body) = self.from.take_block()?;
        match kind {
            ENTRIES if !body.is_empty() => {
                self.from.note(kind, &body);
                let block = EntryBlock(body);
                self.check(&block)?;
                Ok(Some(block))
            }
            END => self.end(&body).map(|()| None),
            _ => Err(damaged("a block is of no kind that there is")),
        }
    }

    /// The totals; `None` before the end of the snapshot is reached.
    pub fn summary(&self) -> Option<&SnapshotSummary> {
        self.summary.as_ref()
    }

    /// Reads and verifies the rest of the snapshot. Returns the totals.
    pub fn check_rest(mut self) -> Result<SnapshotSummary> {
        while self.next_block()?.is_some() {}
        self.summary.ok_or_else(|| damaged("it has no end"))
    }

    /// Rejects entries that are malformed, out of order or invalid for this kind of snapshot.
    fn check(&mut self, block: &EntryBlock) -> Result<()> {
        let versions = self.head.space.options.versions;
        for entry in block {
            let (place, payload) = entry?;
            let entry = EntryRef::from_parts(place, payload, versions)?;
            let is_removal =
                matches!(entry, EntryRef::NoState { .. } | EntryRef::NotWaiting { .. });
            if is_removal && !self.head.changes {
                return Err(damaged("it says that something is gone, and is no list of changes"));
            }
            if self.entries > 0 && place <= self.last.as_slice() {
                return Err(damaged("its entries are out of order"));
            }
            note_position(place, payload, &mut self.positions);
            self.last.clear();
            self.last.extend_from_slice(place);
            self.entries += 1;
        }
        Ok(())
    }

    fn end(&mut self, body: &[u8]) -> Result<()> {
        let hash = self.from.hash();
        let entries = self.entries;
        if body != [&entries.to_le_bytes()[..], &hash].concat() {
            return Err(damaged("its end does not fit what is before it"));
        }
        let bytes = self.from.end(body)?;
        let positions = std::mem::take(&mut self.positions);
        self.summary = Some(SnapshotSummary { entries, bytes, hash, positions });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpaceEntry;

    fn sample(entries: u64) -> Vec<u8> {
        let options = SpaceOptions::default().versions(VersionKind::U64);
        let space = SpaceInfo { options, frontier: Some(7.into()) };
        let mut writer = SnapshotWriter::new(Vec::new(), &SnapshotHead::all(space)).unwrap();
        for n in 0..entries {
            let key = n.to_be_bytes().to_vec();
            let value = Some(vec![n as u8; 100]);
            let entry = SpaceEntry::State { key, version: n.into(), value };
            let mut payload = Vec::new();
            entry.put_payload(&mut payload);
            writer.push(&entry.place(), Some(&payload)).unwrap();
        }
        writer.push(&EntryKind::position("s"), Some(&entries.to_be_bytes())).unwrap();
        let (summary, bytes) = writer.finish().unwrap();
        assert_eq!((summary.entries, summary.bytes), (entries + 1, bytes.len() as u64));
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        for entries in [0, 1, 2_000] {
            let bytes = sample(entries);
            let mut reader = SnapshotReader::new(&bytes[..]).unwrap();
            assert_eq!(reader.head().space.frontier, Some(7.into()));
            let mut places = Vec::new();
            while let Some(block) = reader.next_block().unwrap() {
                places.extend(block.iter().map(|entry| entry.unwrap().0.to_vec()));
            }
            assert_eq!(places.len() as u64, entries + 1);
            assert!(places.is_sorted());
            assert_eq!(reader.summary().unwrap().bytes, bytes.len() as u64);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_end_that_is_missing_is_found() {
        let bytes = sample(3);
        let whole = |bytes: &[u8]| SnapshotReader::new(bytes).and_then(SnapshotReader::check_rest);
        whole(&bytes).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            for bit in 0..8 {
                flipped[at] ^= 1 << bit;
                let error = whole(&flipped).unwrap_err();
                assert_eq!(error.code(), Code::CorruptData, "bit {bit} of byte {at}");
                flipped[at] ^= 1 << bit;
            }
            assert!(whole(&bytes[..at]).is_err(), "cut at {at}");
        }
        assert!(whole(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn entries_out_of_order_are_refused() {
        let space = SpaceInfo { options: SpaceOptions::default(), frontier: None };
        let mut writer = SnapshotWriter::new(Vec::new(), &SnapshotHead::all(space)).unwrap();
        let position = 1_u64.to_be_bytes();
        writer.push(&EntryKind::position("b"), Some(&position)).unwrap();
        for source in ["a", "b"] {
            assert!(writer.push(&EntryKind::position(source), Some(&position)).is_err());
        }
    }
}
