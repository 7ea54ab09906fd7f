//! Which revision was stamped when: exact, both ways.
//!
//! ```text
//!   points (revision, stamp): between two of them both rise by one
//!
//!   flushed blocks of up to 512 points, in the system store    directory of them in memory
//!   then the points of the sealed buffers, then those of the active one
//! ```

use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace;
use crate::key::version::Version;
use crate::storage::lsm::Store;
use crate::storage::memtable::Memtable;
use mainstay_model::{Code, Error, Result, Revision, Stamp, codec};
use parking_lot::RwLock;
use std::ops::Bound;

/// The most points in one stored block.
const BLOCK_POINTS: usize = 512;

/// Reads of stored blocks see all of them.
const NEWEST: Revision = (1 << 62) - 1;

pub(crate) type TimestampPoint = (Revision, Stamp);

#[derive(Default)]
pub(crate) struct TimestampIndex {
    blocks: RwLock<Vec<Block>>,
    /// The last revision that anything stored speaks for, also behind the mark.
    reach: Revision,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first: TimestampPoint,
    /// The last revision it speaks for.
    end: Revision,
}

/// A point and the one behind it, between which what was asked for lies.
struct TimestampGap {
    point: TimestampPoint,
    next: Option<TimestampPoint>,
}

impl TimestampIndex {
    /// Reads the directory of what was flushed up to the replay mark.
    pub fn load(store: &Store, mark: Revision) -> Result<TimestampIndex> {
        let from = keyspace::key(keyspace::TIMES, keyspace::MAIN_ID, b"");
        let to = keyspace::key(keyspace::TIMES + 1, keyspace::MAIN_ID, b"");
        let mut blocks: Vec<Block> = Vec::new();
        let mut reach = 0;
        for row in store.range(Bound::Included(&from), Bound::Excluded(&to), NEWEST) {
            let (_, entry) = row?;
            let (end, points) = decode(entry::parse(&entry)?.1)?;
            reach = end.max(reach);
            let Some(&first) = points.first() else { continue };
            // A flush that was cut short by a crash was done again: its blocks overlap these.
            let covered = blocks.last().is_some_and(|last| last.end >= first.0);
            if covered || end > mark {
                continue;
            }
            // Compaction drops old blocks in any order: what lies before a gap is no longer needed.
            if blocks.last().is_some_and(|last| last.end + 1 < first.0) {
                blocks.clear();
            }
            blocks.push(Block { first, end });
        }
        Ok(TimestampIndex { blocks: RwLock::new(blocks), reach })
    }

    /// The last revision that anything was stored for when it was loaded, also behind the mark.
    pub fn reach(&self) -> Revision {
        self.reach
    }

    /// The blocks for the points of a buffer that ends at `end`, numbered above all that is stored.
    pub fn blocks(points: &[TimestampPoint], end: Revision, number: Revision) -> Vec<Version> {
        let mut versions = Vec::new();
        let mut chunks = points.chunks(BLOCK_POINTS).peekable();
        while let Some(chunk) = chunks.next() {
            let end = chunks.peek().map_or(end, |next| next[0].0 - 1);
            versions.push(encode(chunk, end, number));
        }
        versions
    }

    /// Adds to the directory what was flushed.
    pub fn settle(&self, points: &[TimestampPoint], end: Revision) {
        let mut blocks = self.blocks.write();
        let mut chunks = points.chunks(BLOCK_POINTS).peekable();
        while let Some(chunk) = chunks.next() {
            let end = chunks.peek().map_or(end, |next| next[0].0 - 1);
            blocks.push(Block { first: chunk[0], end });
        }
    }

    /// All that is known, taken hold of; `buffers` are given oldest first.
    pub fn picture(&self, buffers: &[&Memtable]) -> TimestampSnapshot {
        let points = buffers.iter().flat_map(|table| table.times()).collect();
        TimestampSnapshot { blocks: self.blocks.read().clone(), points }
    }

    /// Forgets the blocks that end before a revision.
    pub fn forget(&self, before: Revision) {
        let mut blocks = self.blocks.write();
        let count = blocks.partition_point(|block| block.end < before);
        blocks.drain(..count);
    }

    /// The last revision that a stored block speaks for.
    pub fn end_of(payload: &[u8]) -> Option<Revision> {
        codec::get_varint(&mut &payload[..])
    }

    /// The newest revision that was not stamped later; 0 when the first one was.
    pub fn revision_at(&self, stamp: Stamp, buffers: &[&Memtable], store: &Store) -> Result<u64> {
        let Some(place) = self.place(|point| point.1 <= stamp, buffers, store)? else {
            return Ok(0);
        };
        let (revision, start) = place.point;
        let reached = revision.saturating_add(stamp - start);
        Ok(place.next.map_or(reached, |next| reached.min(next.0 - 1)))
    }

    /// The stamp of a revision.
    pub fn stamp_of(
        &self,
        revision: Revision,
        buffers: &[&Memtable],
        store: &Store,
    ) -> Result<Option<Stamp>> {
        let place = self.place(|point| point.0 <= revision, buffers, store)?;
        Ok(place.map(|place| place.point.1 + (revision - place.point.0)))
    }

    /// The first revision whose stamp is known.
    pub fn first(&self, buffers: &[&Memtable]) -> Option<TimestampPoint> {
        let stored = self.blocks.read().first().map(|block| block.first);
        stored.or_else(|| {
            buffers.iter().find_map(|table| table.with_times(|times| times.first().copied()))
        })
    }

    /// Looks from the newest to the oldest; `buffers` are given oldest first.
    fn place(
        &self,
        reached: impl Fn(&TimestampPoint) -> bool,
        buffers: &[&Memtable],
        store: &Store,
    ) -> Result<Option<TimestampGap>> {
        let mut next = None;
        for table in buffers.iter().rev() {
            let found = table.with_times(|times| last_reached(times, &reached, &mut next));
            if found.is_some() {
                return Ok(found);
            }
        }
        let block = {
            let blocks = self.blocks.read();
            let count = blocks.partition_point(|block| reached(&block.first));
            next = blocks.get(count).map(|block| block.first).or(next);
            let Some(block) = blocks[..count].last() else { return Ok(None) };
            *block
        };
        let (_, points) = read(store, block.first.0)?;
        Ok(last_reached(&points, &reached, &mut next))
    }
}

/// What was known at one moment: stored blocks stay as they are, the buffers' points are a copy.
pub(crate) struct TimestampSnapshot {
    blocks: Vec<Block>,
    points: Vec<TimestampPoint>,
}

impl TimestampSnapshot {
    /// The blocks of an index that ends at a revision, in order. What was let go of since the
    /// picture was taken is left out: `is_forgotten` is asked about the first revision of a block.
    pub fn blocks_upto(
        self,
        upto: Revision,
        store: &Store,
        is_forgotten: impl Fn(Revision) -> bool,
    ) -> impl Iterator<Item = Result<Version>> {
        let number = upto + 1;
        let begun = self.blocks.into_iter().take_while(move |block| block.first.0 <= upto);
        let stored = begun.filter_map(move |block| match read(store, block.first.0) {
            Ok((end, mut points)) => {
                points.retain(|point| point.0 <= upto);
                Some(Ok(encode(&points, end.min(upto), number)))
            }
            Err(_) if is_forgotten(block.first.0) => None,
            Err(error) => Some(Err(error)),
        });
        let mut points = self.points;
        points.retain(|point| point.0 <= upto);
        stored.chain(TimestampIndex::blocks(&points, upto, number).into_iter().map(Ok))
    }
}

/// The block that begins with a revision.
fn read(store: &Store, first: Revision) -> Result<(Revision, Vec<TimestampPoint>)> {
    let key = keyspace::key(keyspace::TIMES, keyspace::MAIN_ID, &first.to_be_bytes());
    let entry = store.get(&key, NEWEST)?.ok_or_else(|| missing(first))?;
    let (end, points) = decode(entry::parse(&entry)?.1)?;
    match points.first().is_some_and(|point| point.0 == first) {
        true => Ok((end, points)),
        false => Err(missing(first)),
    }
}

fn last_reached(
    points: &[TimestampPoint],
    reached: &impl Fn(&TimestampPoint) -> bool,
    next: &mut Option<TimestampPoint>,
) -> Option<TimestampGap> {
    let count = points.partition_point(reached);
    *next = points.get(count).copied().or(*next);
    points[..count].last().map(|&point| TimestampGap { point, next: *next })
}

fn encode(points: &[TimestampPoint], end: Revision, number: Revision) -> Version {
    let payload = block(points, end);
    let stamp = points.last().map_or(0, |point| point.1);
    let head =
        EntryHeader { flags: 0, revision: number, stamp, counter: 1, writes: 1, expires: None };
    let mut entry = Vec::new();
    head.write(&payload, &mut entry);
    let key = keyspace::key(keyspace::TIMES, keyspace::MAIN_ID, &points[0].0.to_be_bytes());
    Version::new(&key, &entry)
}

/// The payload of a block.
pub(crate) fn block(points: &[TimestampPoint], end: Revision) -> Vec<u8> {
    let mut payload = Vec::new();
    codec::put_varint(&mut payload, end);
    let mut last = (0, 0);
    for &(revision, stamp) in points {
        codec::put_varint(&mut payload, revision - last.0);
        codec::put_varint(&mut payload, stamp - last.1);
        last = (revision, stamp);
    }
    payload
}

pub(crate) fn decode(mut payload: &[u8]) -> Result<(Revision, Vec<TimestampPoint>)> {
    let mut read = |last: Revision| {
        let number = (!payload.is_empty()).then(|| codec::get_varint(&mut payload));
        number.map(|number| number.ok_or_else(|| missing(last))).transpose()
    };
    let end = read(0)?.ok_or_else(|| missing(0))?;
    let mut points = Vec::new();
    let mut last: TimestampPoint = (0, 0);
    while let Some(revision) = read(last.0)? {
        let stamp = read(last.0)?.ok_or_else(|| missing(last.0))?;
        last = (last.0.saturating_add(revision), last.1.saturating_add(stamp));
        points.push(last);
    }
    Ok((end, points))
}

#[cold]
fn missing(revision: Revision) -> Error {
    let message =
        format!("the stamps from revision {revision} on cannot be read: run `mainstay doctor`");
    Error::new(Code::CorruptIndex, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn stored(blocks: &[(Revision, Revision)], mark: Revision) -> Vec<(Revision, Revision)> {
        let store = Store::memory(Arc::new(|_, _| false));
        for (number, &(first, end)) in blocks.iter().enumerate() {
            let block = encode(&[(first, first * 10)], end, 1000 + number as u64);
            let rows = [(block.key(), block.revision(), block.entry())];
            store.ingest(rows.into_iter()).unwrap();
        }
        let times = TimestampIndex::load(&store, mark).unwrap();
        let kept = times.blocks.read();
        kept.iter().map(|block| (block.first.0, block.end)).collect()
    }

    #[test]
    fn a_block_that_ends_in_no_number_is_refused() {
        let points = [(1, 1_000), (300, 5_000_000)];
        let whole = block(&points, 400);
        assert_eq!(decode(&whole), Ok((400, points.to_vec())));
        for rest in [&[0x80][..], &[0xff; 11], &[1]] {
            assert!(decode(&[&whole[..], rest].concat()).is_err(), "{rest:?}");
        }
        assert!(decode(&whole[..whole.len() - 1]).is_err());
        assert!(decode(b"").is_err());
    }

    #[test]
    fn what_lies_before_a_gap_is_not_used() {
        assert_eq!(stored(&[(1, 10), (11, 20), (31, 40)], 40), [(31, 40)]);
        assert_eq!(stored(&[(11, 20), (21, 30)], 30), [(11, 20), (21, 30)]);
    }

    #[test]
    fn blocks_of_a_flush_that_was_cut_short_are_no_gap() {
        assert_eq!(stored(&[(1, 10), (11, 15), (16, 30)], 10), [(1, 10)]);
        assert_eq!(stored(&[(1, 10), (16, 30)], 10), [(1, 10)]);
        assert_eq!(stored(&[(16, 30), (1, 10), (11, 20), (21, 40)], 40).len(), 3);
    }
}
