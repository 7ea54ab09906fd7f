//! Snapshots put together: a full one and what has changed since, or parts of several shards, as one snapshot.
//!
//! ```text
//!   full     a1 b1    d1
//!   changes     b2 c2                  the later one decides; what it says is gone is left out
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

/// One snapshot, entry by entry, as far as it was read.
pub(super) struct Stream {
    reader: SnapshotReader<Box<dyn Read>>,
    block: EntryBlock,
    /// How much of the block was not given yet.
    left_bytes: usize,
    /// The entry that is next.
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

    /// What was read, once all of it was.
    pub fn summary(&self) -> Option<&SnapshotSummary> {
        self.reader.summary()
    }

    fn place(&self) -> Option<&EntryPlace> {
        self.next.as_ref().map(|(place, _)| place)
    }

    /// Goes on to the next entry.
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

/// How entries of one place are put together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The later stream decides.
    Later,
    /// No two streams have the same place, but for positions, of which the lower one counts: what comes again is known
    /// by its version.
    Apart,
}

/// Several snapshots as one.
pub(super) struct Chain {
    streams: Vec<Stream>,
    rule: Rule,
    /// Which entries are wanted.
    wanted: Option<Wanted>,
}

/// Says which entries are wanted.
pub(super) type Wanted = Box<dyn Fn(&EntryRef<'_>) -> bool>;

impl Chain {
    pub fn new(streams: Vec<Stream>, rule: Rule) -> Chain {
        Chain { streams, rule, wanted: None }
    }

    pub fn only(mut self, wanted: Wanted) -> Chain {
        self.wanted = Some(wanted);
        self
    }

    /// The next place, and what is there.
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

/// Of two positions the lower one. Anything else stands in one shard alone.
fn lower(place: &[u8], one: Option<Vec<u8>>, other: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    match place.first() {
        // Positions are in their order.
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

/// Several snapshots as the bytes of one, for those who read. What goes wrong stays to be asked for.
pub(super) struct Joined {
    chain: Chain,
    space: SpaceInfo,
    writer: Option<SnapshotWriter<Bytes>>,
    written: Option<SnapshotSummary>,
    bytes: Bytes,
    /// Looks at what was read before its end is given.
    check: Check,
    pub failure: Failure,
}

/// Looks at streams that were read to their end.
pub(super) type Check = Box<dyn Fn(&[Stream]) -> Result<()>>;

/// What went wrong, where whoever reads is told less.
pub(super) type Failure = Rc<RefCell<Option<Error>>>;

impl Joined {
    pub fn new(chain: Chain, space: SpaceInfo, check: Check) -> Result<Joined> {
        let bytes = Bytes::default();
        let writer = SnapshotWriter::new(bytes.clone(), &SnapshotHead::all(space))?;
        let failure = Failure::default();
        Ok(Joined { chain, space, writer: Some(writer), written: None, bytes, check, failure })
    }

    /// The space that it is of.
    pub fn space(&self) -> SpaceInfo {
        self.space
    }

    /// What was written, once all of it was read.
    pub fn written(&self) -> Option<&SnapshotSummary> {
        self.written.as_ref()
    }

    /// Makes further bytes, until there are some or all is done.
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
