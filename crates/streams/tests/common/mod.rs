//! Shared helpers of the pipeline tests: faulty sources and stores, and the results of a run.

#![allow(dead_code)]

use mainstay_model::{
    Code, Error, Item, Kept, KeySelection, KeyedCapabilities, KeyedState, LogicalTime, Result,
    SnapshotSummary, SpaceInfo, SpaceOptions, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use mainstay_streams::{Items, MemoryState, Source, SourceItem, StatefulOperator};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An item: its key, and a number.
pub type Event = (u8, u64);

/// An operator whose state and outputs depend on the order and the number of its items. Multiples of seven
/// delete the state; some items give no output, some several.
pub fn digest() -> StatefulOperator<Event, Vec<u64>, String> {
    StatefulOperator::new(
        "digest",
        |event: &Event| vec![event.0],
        |state: Option<Vec<u64>>, event, time| {
            let mut seen = state.unwrap_or_default();
            seen.push(event.1);
            let outputs = (0..event.1 % 3).map(|n| format!("{n} of {event:?} at {time}: {seen:?}"));
            let outputs = outputs.collect();
            Ok((Some(seen).filter(|_| event.1 % 7 != 0), outputs))
        },
    )
}

/// Events whose times have gaps.
pub fn source(name: &str, events: &[Event]) -> Items<Event> {
    let times = (0..).map(|n: u64| LogicalTime::new(n / 10, n * 3));
    Items::with_times(name, times.zip(events.iter().copied()))
}

/// A source that goes further back than requested.
pub struct RedeliveringSource<S> {
    pub source: S,
    pub back: u64,
}

impl<S: Source> Source for RedeliveringSource<S> {
    type Item = S::Item;

    fn name(&self) -> &str {
        self.source.name()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.source.seek(position.saturating_sub(self.back))
    }

    fn next(&mut self) -> Result<Option<SourceItem<S::Item>>> {
        self.source.next()
    }
}

/// A source that assigns times on arrival, which is wrong.
pub struct ArrivalTimeSource<S> {
    pub source: S,
    pub clock: Arc<AtomicU64>,
}

impl<S: Source> Source for ArrivalTimeSource<S> {
    type Item = S::Item;

    fn name(&self) -> &str {
        self.source.name()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.source.seek(position)
    }

    fn next(&mut self) -> Result<Option<SourceItem<S::Item>>> {
        let now = LogicalTime::new(0, self.clock.fetch_add(1, Ordering::Relaxed));
        Ok(self.source.next()?.map(|read| SourceItem { time: now, ..read }))
    }
}

/// A store with one failing write. The write may nevertheless be applied, so its outcome is unknown.
#[derive(Default)]
pub struct FlakyState {
    pub inner: MemoryState,
    /// The number of the failing write, counted from 1; 0 for none.
    pub fails: AtomicU64,
    /// True if the failing write is applied nevertheless.
    pub made: bool,
    /// The most writes per batch; 0 for no limit.
    pub most: usize,
    /// The number of syncs.
    pub synced: AtomicU64,
}

impl FlakyState {
    pub fn new(fails: u64, made: bool) -> FlakyState {
        FlakyState { fails: AtomicU64::new(fails), made, ..FlakyState::default() }
    }
}

impl KeyedState for FlakyState {
    fn capabilities(&self) -> KeyedCapabilities {
        self.inner.capabilities()
    }

    fn declare(&self, options: SpaceOptions) -> Result<bool> {
        self.inner.declare(options)
    }

    fn info(&self) -> Result<Option<SpaceInfo>> {
        self.inner.info()
    }

    fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        if self.most > 0 && writes.len() > self.most {
            return Err(Error::new(Code::TransactionTooLarge, "too many"));
        }
        let before = self.fails.load(Ordering::Relaxed);
        self.fails.store(before.saturating_sub(1), Ordering::Relaxed);
        if before != 1 {
            return self.inner.write(writes);
        }
        if self.made {
            self.inner.write(writes)?;
        }
        Err(Error::new(Code::UnknownOutcome, "the reply was lost"))
    }

    fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        if self.most > 0 && keys.len() > self.most {
            return Err(Error::new(Code::TransactionTooLarge, "too many"));
        }
        self.inner.look(keys)
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        self.inner.scan(prefix, after, limit)
    }

    fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.inner.items(key, after, limit)
    }

    fn positions(&self) -> Result<BTreeMap<String, u64>> {
        self.inner.positions()
    }

    fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        self.inner.waiting(below, limit)
    }

    fn seal(&self, frontier: Version) -> Result<u64> {
        self.inner.seal(frontier)
    }

    fn sync(&self) -> Result<()> {
        self.synced.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }

    fn clear(&self) -> Result<bool> {
        self.inner.clear()
    }

    fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary> {
        self.inner.snapshot_to(out)
    }

    fn restore_from(&self, from: &mut dyn Read) -> Result<u64> {
        self.inner.restore_from(from)
    }

    fn snapshot_keys_to(
        &self,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        self.inner.snapshot_keys_to(keys, out)
    }

    fn restore_keys_from(&self, from: &mut dyn Read) -> Result<u64> {
        self.inner.restore_keys_from(from)
    }
}
