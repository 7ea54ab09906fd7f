//! K-way merge of snapshots: a full snapshot with its increments, or the parts of several shards.
//!
//! ```text
//!   full     a1 b1    d1
//!   changes     b2 c2                  the later entry wins; a removal drops the entry
//!   changes        c3 d-
//!   -------------------- one pass, in order of places
//!            a1 b2 c3
//! ```

use mainstay_model::{
    Code, EntryBlock, EntryPlace, EntryRef, Error, Result, SnapshotHead, SnapshotReader,
    SnapshotSummary, SnapshotWriter, SpaceInfo,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::rc::Rc;

/// One snapshot as a stream of entries.
pub(super) struct SnapshotStream {
    reader: SnapshotReader<Box<dyn Read>>,
    block: EntryBlock,
    /// The bytes of the block that are not consumed yet.
    unread_bytes: usize,
    /// The next entry.
    next: Option<(EntryPlace, Option<Vec<u8>>)>,
}

impl SnapshotStream {
    pub fn new(from: Box<dyn Read>) -> Result<SnapshotStream> {
        let reader = SnapshotReader::new(from)?;
        let mut stream =
            SnapshotStream { reader, block: EntryBlock::default(), unread_bytes: 0, next: None };
        stream.advance()?;
        Ok(stream)
    }

    pub fn head(&self) -> &SnapshotHead {
        self.reader.head()
    }

    /// The totals, after the stream was read to its end.
    pub fn summary(&self) -> Option<&SnapshotSummary> {
        self.reader.summary()
    }

    fn place(&self) -> Option<&EntryPlace> {
        self.next.as_ref().map(|(place, _)| place)
    }

    /// Advances to the next entry.
    fn advance(&mut self) -> Result<()> {
        loop {
            let mut unread = self.block.last(self.unread_bytes);
            if let Some(entry) = unread.next() {
                let (place, payload) = entry?;
                self.next = Some((EntryPlace::from_slice(place), payload.map(<[u8]>::to_vec)));
                self.unread_bytes = unread.left_bytes();
                return Ok(());
            }
            match self.reader.next_block()? {
                Some(block) => {
                    self.unread_bytes = block.as_bytes().len();
                    self.block = block;
                }
                None => {
                    self.next = None;
                    return Ok(());
                }
            }
        }
    }
}

/// The rule for entries of several streams at the same place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeRule {
    /// The later stream wins.
    Latest,
    /// Two streams must not have the same place, except for positions. Of two positions the lower one counts,
    /// because items that are read again are recognized by their version.
    Disjoint,
}

/// Merges several snapshots.
pub(super) struct SnapshotMerger {
    streams: Vec<SnapshotStream>,
    rule: MergeRule,
    /// The filter of the entries.
    filter: Option<EntryFilter>,
}

/// Returns whether an entry is wanted.
pub(super) type EntryFilter = Box<dyn Fn(&EntryRef<'_>) -> bool>;

impl SnapshotMerger {
    pub fn new(streams: Vec<SnapshotStream>, rule: MergeRule) -> SnapshotMerger {
        SnapshotMerger { streams, rule, filter: None }
    }

    pub fn with_filter(mut self, filter: EntryFilter) -> SnapshotMerger {
        self.filter = Some(filter);
        self
    }

    /// Returns the next place with its payload.
    fn next(&mut self) -> Result<Option<(EntryPlace, Option<Vec<u8>>)>> {
        let Some(place) = self.streams.iter().filter_map(SnapshotStream::place).min().cloned()
        else {
            return Ok(None);
        };
        let mut selected: Option<Option<Vec<u8>>> = None;
        for stream in &mut self.streams {
            if stream.place() != Some(&place) {
                continue;
            }
            let payload = stream.next.take().and_then(|(_, payload)| payload);
            stream.advance()?;
            selected = Some(match (self.rule, selected) {
                (_, None) | (MergeRule::Latest, Some(_)) => payload,
                (MergeRule::Disjoint, Some(previous)) => lower_position(&place, previous, payload)?,
            });
        }
        Ok(selected.map(|payload| (place, payload)))
    }
}

/// Returns the lower of two positions. Any other entry must be in only one shard.
fn lower_position(
    place: &[u8],
    one: Option<Vec<u8>>,
    other: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    match place.first() {
        // Positions are big-endian, so their bytes compare as numbers.
        Some(4) => Ok(one.min(other)),
        _ => {
            let message = format!(
                "two shards have a state at {}: their checkpoint was not made by shards of one job",
                place.escape_ascii()
            );
            Err(Error::new(Code::CorruptData, message))
        }
    }
}

/// The merged snapshot as a byte stream. `failure` keeps the exact error, which `Read` cannot return.
pub(super) struct MergedSnapshotReader {
    merger: SnapshotMerger,
    space: SpaceInfo,
    writer: Option<SnapshotWriter<ByteQueue>>,
    summary: Option<SnapshotSummary>,
    bytes: ByteQueue,
    /// Checks the input streams before the end is returned.
    check: StreamCheck,
    pub failure: ReadFailure,
}

/// Checks streams that were read to their end.
pub(super) type StreamCheck = Box<dyn Fn(&[SnapshotStream]) -> Result<()>>;

/// The exact error of a failed read.
pub(super) type ReadFailure = Rc<RefCell<Option<Error>>>;

impl MergedSnapshotReader {
    pub fn new(
        merger: SnapshotMerger,
        space: SpaceInfo,
        check: StreamCheck,
    ) -> Result<MergedSnapshotReader> {
        let bytes = ByteQueue::default();
        let writer = SnapshotWriter::new(bytes.clone(), &SnapshotHead::all(space))?;
        let failure = ReadFailure::default();
        Ok(MergedSnapshotReader {
            merger,
            space,
            writer: Some(writer),
            summary: None,
            bytes,
            check,
            failure,
        })
    }

    /// The space of the snapshot.
    pub fn space(&self) -> SpaceInfo {
        self.space
    }

    /// The totals, after all was read.
    pub fn summary(&self) -> Option<&SnapshotSummary> {
        self.summary.as_ref()
    }

    /// Produces more bytes, until some are available or the end is reached.
    fn fill_buffer(&mut self) -> Result<()> {
        while self.bytes.0.borrow().is_empty() {
            let Some(writer) = &mut self.writer else { return Ok(()) };
            match self.merger.next()? {
                Some((_, None)) => {}
                Some((place, Some(payload))) => {
                    let versions = self.space.options.versions;
                    let entry = EntryRef::from_parts(&place, Some(&payload), versions)?;
                    if self.merger.filter.as_ref().is_none_or(|filter| filter(&entry)) {
                        writer.push(&place, Some(&payload))?;
                    }
                }
                None => {
                    (self.check)(&self.merger.streams)?;
                    let finished = self.writer.take().map(SnapshotWriter::finish).transpose()?;
                    self.summary = finished.map(|(summary, _)| summary);
                }
            }
        }
        Ok(())
    }
}

impl Read for MergedSnapshotReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Err(error) = self.fill_buffer() {
            let read_error = io::Error::other(error.to_string());
            *self.failure.borrow_mut() = Some(error);
            return Err(read_error);
        }
        self.bytes.0.borrow_mut().read(buffer)
    }
}

/// Bytes that were written and not yet read.
#[derive(Clone, Default)]
struct ByteQueue(Rc<RefCell<VecDeque<u8>>>);

impl Write for ByteQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
