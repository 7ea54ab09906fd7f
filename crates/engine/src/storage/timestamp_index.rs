//! Timestamp index: an exact mapping between revisions and commit timestamps, in both directions.
//!
//! ```text
//!   points (revision, stamp): between two points both increase by one per revision
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

/// Maximum number of points in a stored block.
const BLOCK_POINTS: usize = 512;

/// A revision at which reads see all stored blocks.
const NEWEST: Revision = (1 << 62) - 1;

pub(crate) type TimestampPoint = (Revision, Stamp);

#[derive(Default)]
pub struct TimestampIndex {
    blocks: RwLock<Vec<Block>>,
    /// The last revision covered by any stored block, even beyond the flush mark.
    reach: Revision,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first: TimestampPoint,
    /// The last revision that the block covers.
    end: Revision,
}

/// The last point at or before the searched position, and the point after it.
struct TimestampGap {
    point: TimestampPoint,
    next: Option<TimestampPoint>,
}

impl TimestampIndex {
    /// Loads the directory of the blocks flushed up to the flush mark.
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
            // After a flush that a crash interrupted, the flush was repeated: its blocks overlap these.
            let covered = blocks.last().is_some_and(|last| last.end >= first.0);
            if covered || end > mark {
                continue;
            }
            // Compaction drops old blocks in any order. Blocks before a gap are no longer needed.
            if blocks.last().is_some_and(|last| last.end + 1 < first.0) {
                blocks.clear();
            }
            blocks.push(Block { first, end });
        }
        Ok(TimestampIndex { blocks: RwLock::new(blocks), reach })
    }

    /// The last revision covered by a stored block at load time, even beyond the flush mark.
    pub fn reach(&self) -> Revision {
        self.reach
    }

    /// The blocks for the points of a buffer that ends at `end`. `number` must be above all stored numbers.
    pub fn blocks(points: &[TimestampPoint], end: Revision, number: Revision) -> Vec<Version> {
        let mut versions = Vec::new();
        let mut chunks = points.chunks(BLOCK_POINTS).peekable();
        while let Some(chunk) = chunks.next() {
            let end = chunks.peek().map_or(end, |next| next[0].0 - 1);
            versions.push(encode(chunk, end, number));
        }
        versions
    }

    /// Adds flushed points to the directory.
    pub fn settle(&self, points: &[TimestampPoint], end: Revision) {
        let mut blocks = self.blocks.write();
        let mut chunks = points.chunks(BLOCK_POINTS).peekable();
        while let Some(chunk) = chunks.next() {
            let end = chunks.peek().map_or(end, |next| next[0].0 - 1);
            blocks.push(Block { first: chunk[0], end });
        }
    }

    /// A snapshot of all known points; `buffers` are ordered oldest first.
    pub fn picture(&self, buffers: &[&Memtable]) -> TimestampSnapshot {
        let points = buffers.iter().flat_map(|table| table.times()).collect();
        TimestampSnapshot { blocks: self.blocks.read().clone(), points }
    }

    /// Drops the blocks that end before a revision.
    pub fn forget(&self, before: Revision) {
        let mut blocks = self.blocks.write();
        let count = blocks.partition_point(|block| block.end < before);
        blocks.drain(..count);
    }

    /// The last revision that a stored block covers.
    pub fn end_of(payload: &[u8]) -> Option<Revision> {
        codec::get_varint(&mut &payload[..])
    }

    /// The newest revision with a stamp at or before `stamp`; 0 if even the first one is later.
    pub fn revision_at(&self, stamp: Stamp, buffers: &[&Memtable], store: &Store) -> Result<u64> {
        let Some(place) = self.place(|point| point.1 <= stamp, buffers, store)? else {
            return Ok(0);
        };
        let (revision, start) = place.point;
        let reached = revision.saturating_add(stamp - start);
        Ok(place.next.map_or(reached, |next| reached.min(next.0 - 1)))
    }

    /// The stamp of a revision; `None` before the first known point.
    pub fn stamp_of(
        &self,
        revision: Revision,
        buffers: &[&Memtable],
        store: &Store,
    ) -> Result<Option<Stamp>> {
        let place = self.place(|point| point.0 <= revision, buffers, store)?;
        Ok(place.map(|place| place.point.1 + (revision - place.point.0)))
    }

    /// The first revision with a known stamp.
    pub fn first(&self, buffers: &[&Memtable]) -> Option<TimestampPoint> {
        let stored = self.blocks.read().first().map(|block| block.first);
        stored.or_else(|| {
            buffers.iter().find_map(|table| table.with_times(|times| times.first().copied()))
        })
    }

    /// Searches from the newest point to the oldest; `buffers` are ordered oldest first.
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

/// A snapshot of the index: stored blocks never change, and the buffers' points are copied.
pub struct TimestampSnapshot {
    blocks: Vec<Block>,
    points: Vec<TimestampPoint>,
}

impl TimestampSnapshot {
    /// The blocks of an index that ends at `upto`, in order. Blocks dropped since the snapshot are left out:
    /// `is_forgotten` is called with the first revision of a missing block.
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

/// Reads the block that starts with a revision.
fn read(store: &Store, first: Revision) -> Result<(Revision, Vec<TimestampPoint>)> {
    let key = keyspace::key(keyspace::TIMES, keyspace::MAIN_ID, &first.to_be_bytes());
    let entry = store.get(&key, NEWEST)?.ok_or_else(|| missing(first))?;
    let (end, points) = decode(entry::parse(&entry)?.1)?;
    if points.first().is_some_and(|point| point.0 == first) {
        Ok((end, points))
    } else {
        Err(missing(first))
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

/// Encodes the payload of a block.
pub fn block(points: &[TimestampPoint], end: Revision) -> Vec<u8> {
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

pub fn decode(mut payload: &[u8]) -> Result<(Revision, Vec<TimestampPoint>)> {
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
