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
pub(super) struct Stream {
    reader: SnapshotReader<Box<dyn Read>>,
    block: EntryBlock,
    /// The bytes of the block that are not consumed yet.
    left_bytes: usize,
    /// The next entry.
    next: Option<(EntryPlace, Option<Vec<u8>>)>,
}

impl Stream {
    pub fn new(from: Box<dyn Read>) -> Result<Stream> {
        let reader = SnapshotReader::new(from)?;
        let mut stream = Stream { reader, block: EntryBlock::default(), left_bytes: 0, next: None };
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
            let mut rest = self.block.last(self.left_bytes);
            if let Some(entry) = rest.next() {
                let (place, payload) = entry?;
                self.next = Some((EntryPlace::from_slice(place), payload.map(<[u8]>::to_vec)));
                self.left_bytes = rest.left_bytes();
                return Ok(());
            }
            match self.reader.next_block()? {
                Some(block) => {
                    self.left_bytes = block.as_bytes().len();
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
pub(super) enum Rule {
    /// The later stream wins.
    Later,
    /// Two streams must not have the same place, except for positions. Of two positions the lower one counts,
    /// because items that are read again are recognized by their version.
    Apart,
}

/// Merges several snapshots.
pub(super) struct Chain {
    streams: Vec<Stream>,
    rule: Rule,
    /// The filter of the entries.
    wanted: Option<Wanted>,
}

/// Returns whether an entry is wanted.
pub(super) type Wanted = Box<dyn Fn(&EntryRef<'_>) -> bool>;

impl Chain {
    pub fn new(streams: Vec<Stream>, rule: Rule) -> Chain {
        Chain { streams, rule, wanted: None }
    }

    pub fn only(mut self, wanted: Wanted) -> Chain {
        self.wanted = Some(wanted);
        self
    }

    /// Returns the next place with its payload.
    fn next(&mut self) -> Result<Option<(EntryPlace, Option<Vec<u8>>)>> {
        let Some(place) = self.streams.iter().filter_map(Stream::place).min().cloned() else {
            return Ok(None);
        };
        let mut found: Option<Option<Vec<u8>>> = None;
        for stream in &mut self.streams {
            if stream.place() != Some(&place) {
                continue;
            }
            let here = stream.next.take().and_then(|(_, payload)| payload);
            stream.advance()?;
            found = Some(match (self.rule, found) {
                (_, None) | (Rule::Later, Some(_)) => here,
                (Rule::Apart, Some(before)) => lower(&place, before, here)?,
            });
        }
        Ok(found.map(|payload| (place, payload)))
    }
}

/// Returns the lower of two positions. Any other entry must be in only one shard.
fn lower(place: &[u8], one: Option<Vec<u8>>, other: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
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
pub(super) struct Joined {
    chain: Chain,
    space: SpaceInfo,
    writer: Option<SnapshotWriter<Bytes>>,
    written: Option<SnapshotSummary>,
    bytes: Bytes,
    /// Checks the input streams before the end is returned.
    check: Check,
    pub failure: Failure,
}

/// Checks streams that were read to their end.
pub(super) type Check = Box<dyn Fn(&[Stream]) -> Result<()>>;

/// The exact error of a failed read.
pub(super) type Failure = Rc<RefCell<Option<Error>>>;

impl Joined {
    pub fn new(chain: Chain, space: SpaceInfo, check: Check) -> Result<Joined> {
        let bytes = Bytes::default();
        let writer = SnapshotWriter::new(bytes.clone(), &SnapshotHead::all(space))?;
        let failure = Failure::default();
        Ok(Joined { chain, space, writer: Some(writer), written: None, bytes, check, failure })
    }

    /// The space of the snapshot.
    pub fn space(&self) -> SpaceInfo {
        self.space
    }

    /// The totals, after all was read.
    pub fn written(&self) -> Option<&SnapshotSummary> {
        self.written.as_ref()
    }

    /// Produces more bytes, until some are available or the end is reached.
    fn go_on(&mut self) -> Result<()> {
        while self.bytes.0.borrow().is_empty() {
            let Some(writer) = &mut self.writer else { return Ok(()) };
            match self.chain.next()? {
                Some((_, None)) => {}
                Some((place, Some(payload))) => {
                    let versions = self.space.options.versions;
                    let entry = EntryRef::from_parts(&place, Some(&payload), versions)?;
                    if self.chain.wanted.as_ref().is_none_or(|wanted| wanted(&entry)) {
                        writer.push(&place, Some(&payload))?;
                    }
                }
                None => {
                    (self.check)(&self.chain.streams)?;
                    let finished = self.writer.take().map(SnapshotWriter::finish).transpose()?;
                    self.written = finished.map(|(summary, _)| summary);
                }
            }
        }
        Ok(())
    }
}

impl Read for Joined {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if let Err(error) = self.go_on() {
            let told = io::Error::other(error.to_string());
            *self.failure.borrow_mut() = Some(error);
            return Err(told);
        }
        self.bytes.0.borrow_mut().read(room)
    }
}

/// Bytes that were written and not yet read.
#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<VecDeque<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
