//! Scans: buffers and stores merged into one ordered walk at one revision.
//!
//! ```text
//!   buffer (active) ----page----\
//!   buffers (sealed) ---page-----> smallest key, its newest version -> rows
//!   store per class ----range---/
//! ```
//!
//! Buffers are taken before stores, so a flush in between shows a version twice, never not at all.

use crate::entry;
use crate::memtable::Memtable;
use crate::store::Slice;
use crate::version::Version;
use mainstay_model::{Result, Revision};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// How many versions are taken from a buffer at first: many who look want one.
const FIRST_PAGE: usize = 8;
/// How many versions are taken from a buffer at a time at most, so that its lock is short.
const PAGE: usize = 256;

/// A key and its entry, wherever they lie.
pub(crate) enum Row {
    Buffered(Version),
    Stored(Slice, Slice),
}

impl Row {
    pub fn key(&self) -> &[u8] {
        match self {
            Row::Buffered(version) => version.key(),
            Row::Stored(key, _) => key,
        }
    }

    pub fn entry(&self) -> &[u8] {
        match self {
            Row::Buffered(version) => version.entry(),
            Row::Stored(_, entry) => entry,
        }
    }
}

pub(crate) type StoreRows = Box<dyn Iterator<Item = Result<(Slice, Slice)>> + Send>;

enum Source {
    Buffer(BufferRows),
    Store(StoreRows),
}

struct BufferRows {
    table: Arc<Memtable>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    at: Revision,
    page: VecDeque<Version>,
    /// How many are taken next.
    size: usize,
    done: bool,
}

impl BufferRows {
    fn next(&mut self) -> Option<Version> {
        if self.page.is_empty() && !self.done {
            let to = self.to.as_ref().map(Vec::as_slice);
            let from = self.from.as_ref().map(Vec::as_slice);
            let page = self.table.page(from, to, self.at, self.size);
            self.done = page.len() < self.size;
            self.size = (self.size * 2).min(PAGE);
            if let Some(last) = page.last() {
                self.from = Bound::Excluded(last.key().to_vec());
            }
            self.page = page.into();
        }
        self.page.pop_front()
    }
}

impl Source {
    fn next(&mut self) -> Option<Result<Row>> {
        match self {
            Source::Buffer(rows) => rows.next().map(|version| Ok(Row::Buffered(version))),
            Source::Store(rows) => {
                rows.next().map(|row| row.map(|(key, entry)| Row::Stored(key, entry)))
            }
        }
    }
}

/// The newest version of each key of a range as of one revision, in byte order.
pub(crate) struct Scan {
    sources: Vec<(Source, Option<Row>)>,
    started: bool,
}

impl Scan {
    pub fn new(
        buffers: impl Iterator<Item = Arc<Memtable>>,
        stores: impl Iterator<Item = StoreRows>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        at: Revision,
    ) -> Scan {
        let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        let buffer = |table| {
            let (from, to, page) = (from.clone(), to.clone(), VecDeque::new());
            Source::Buffer(BufferRows { table, from, to, at, page, size: FIRST_PAGE, done: false })
        };
        let sources = buffers.map(buffer).chain(stores.map(Source::Store));
        Scan { sources: sources.map(|source| (source, None)).collect(), started: false }
    }

    fn advance(source: &mut (Source, Option<Row>)) -> Result<()> {
        source.1 = source.0.next().transpose()?;
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Row>> {
        if !self.started {
            self.started = true;
            self.sources.iter_mut().try_for_each(Scan::advance)?;
        }
        let mut best: Option<usize> = None;
        for i in 0..self.sources.len() {
            let Some(row) = &self.sources[i].1 else { continue };
            let better = match best.and_then(|b| self.sources[b].1.as_ref()) {
                None => true,
                Some(other) => match row.key().cmp(other.key()) {
                    std::cmp::Ordering::Less => true,
                    std::cmp::Ordering::Equal => {
                        entry::revision_of(row.entry()) > entry::revision_of(other.entry())
                    }
                    std::cmp::Ordering::Greater => false,
                },
            };
            if better {
                best = Some(i);
            }
        }
        let Some(best) = best else { return Ok(None) };
        let Some(row) = self.sources[best].1.take() else { return Ok(None) };
        Scan::advance(&mut self.sources[best])?;
        for source in &mut self.sources {
            while source.1.as_ref().is_some_and(|other| other.key() == row.key()) {
                Scan::advance(source)?;
            }
        }
        Ok(Some(row))
    }
}

impl Iterator for Scan {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.step().transpose()
    }
}
