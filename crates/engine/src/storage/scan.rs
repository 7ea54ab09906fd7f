//! Merging iterator: buffers and stores merged into one ordered scan at one revision.
//!
//! ```text
//!   buffer (active) ----page----\
//!   buffers (sealed) ---page-----> smallest key, its newest version -> rows
//!   store per class ----range---/
//! ```
//!
//! Buffers are collected before stores, so a concurrent flush can show a version twice, but never hide it.

use crate::key::entry;
use crate::key::version::Version;
use crate::storage::lsm::Slice;
use crate::storage::memtable::Memtable;
use mainstay_model::{Result, Revision};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Number of versions read from a buffer at first: many scans need only one.
const FIRST_PAGE: usize = 8;
/// Maximum number of versions read from a buffer at a time, so that its lock is held only briefly.
const PAGE: usize = 256;

/// A key and its entry, from a buffer or a store.
pub enum ScanRow {
    Buffered(Version),
    Stored(Slice, Slice),
}

impl ScanRow {
    pub fn key(&self) -> &[u8] {
        match self {
            ScanRow::Buffered(version) => version.key(),
            ScanRow::Stored(key, _) => key,
        }
    }

    pub fn entry(&self) -> &[u8] {
        match self {
            ScanRow::Buffered(version) => version.entry(),
            ScanRow::Stored(_, entry) => entry,
        }
    }
}

pub(crate) type StoreRows = Box<dyn Iterator<Item = Result<(Slice, Slice)>> + Send>;

enum RowSource {
    Buffer(BufferRows),
    Store(StoreRows),
}

struct BufferRows {
    table: Arc<Memtable>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    at: Revision,
    page: VecDeque<Version>,
    /// The number of versions to read next.
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

impl RowSource {
    fn next(&mut self) -> Option<Result<ScanRow>> {
        match self {
            RowSource::Buffer(rows) => rows.next().map(|version| Ok(ScanRow::Buffered(version))),
            RowSource::Store(rows) => {
                rows.next().map(|row| row.map(|(key, entry)| ScanRow::Stored(key, entry)))
            }
        }
    }
}

/// Iterates the newest version of each key of a range as of one revision, in byte order.
pub struct Scan {
    sources: Vec<RowSource>,
    /// Sources with rows left, each with its next row.
    rows: Vec<(RowSource, ScanRow)>,
}

impl Scan {
    pub fn new(
        buffers: impl Iterator<Item = Arc<Memtable>>,
        stores: impl Iterator<Item = StoreRows>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        at: Revision,
    ) -> Scan {
        let from = from.map(<[u8]>::to_vec);
        let to = to.map(<[u8]>::to_vec);
        let buffer = |table| {
            let from = from.clone();
            let to = to.clone();
            let page = VecDeque::new();
            RowSource::Buffer(BufferRows {
                table,
                from,
                to,
                at,
                page,
                size: FIRST_PAGE,
                done: false,
            })
        };
        let sources = buffers.map(buffer).chain(stores.map(RowSource::Store)).collect();
        Scan { sources, rows: Vec::new() }
    }

    /// Reads the first row of each source.
    fn start(&mut self) -> Result<()> {
        for mut source in std::mem::take(&mut self.sources) {
            if let Some(row) = source.next().transpose()? {
                self.rows.push((source, row));
            }
        }
        Ok(())
    }

    /// Takes the row of a source and advances the source. An exhausted source is removed.
    fn take(&mut self, place: usize) -> Result<ScanRow> {
        let (source, row) = &mut self.rows[place];
        match source.next().transpose()? {
            Some(next) => Ok(std::mem::replace(row, next)),
            None => Ok(self.rows.remove(place).1),
        }
    }

    fn step(&mut self) -> Result<Option<ScanRow>> {
        if !self.sources.is_empty() {
            self.start()?;
        }
        // Most scans have only one source, or only one left.
        if self.rows.len() < 2 {
            return (!self.rows.is_empty()).then(|| self.take(0)).transpose();
        }
        let row = self.take(self.first())?;
        let mut place = 0;
        while place < self.rows.len() {
            if self.rows[place].1.key() == row.key() {
                // If a source was removed, the next one now has its index.
                drop(self.take(place)?)
            } else {
                place += 1
            }
        }
        Ok(Some(row))
    }

    /// The index of the source with the smallest key, and of equal keys the newest version.
    fn first(&self) -> usize {
        let mut first = 0;
        for (place, (_, row)) in self.rows.iter().enumerate().skip(1) {
            let held = &self.rows[first].1;
            let order = row.key().cmp(held.key());
            let is_newer = || entry::revision_of(row.entry()) > entry::revision_of(held.entry());
            if order.is_lt() || order.is_eq() && is_newer() {
                first = place;
            }
        }
        first
    }
}

impl Iterator for Scan {
    type Item = Result<ScanRow>;

    fn next(&mut self) -> Option<Result<ScanRow>> {
        self.step().transpose()
    }
}
