//! A store before another that can be told to do something else.

use mainstay_conformance::KeyedWorld;
use mainstay_model::limits::PAGE_LIMIT;
use mainstay_model::{
    Item, Kept, KeySelection, KeyedCapabilities, KeyedState, Result, SnapshotSummary, SpaceInfo,
    SpaceOptions, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use mainstay_streams::MemoryState;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

/// Which page is wanted: of the keys that begin with something, or of a key's items.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    pub of: &'w [u8],
    pub after: Option<&'w [u8]>,
    pub limit: usize,
}

impl Wanted<'_> {
    pub fn scan(&self, inner: &dyn KeyedState) -> Result<StatePage> {
        inner.scan(self.of, self.after, self.limit)
    }

    pub fn items(&self, inner: &dyn KeyedState) -> Result<Vec<Item>> {
        inner.items(self.of, self.after, self.limit)
    }

    /// A page of a size that every store gives.
    pub fn clamped(self) -> Self {
        Wanted { limit: clamp(self.limit), ..self }
    }
}

/// The nearest size that a page may have.
pub fn clamp(limit: usize) -> usize {
    limit.clamp(1, PAGE_LIMIT)
}

/// What a store does otherwise than the one behind it.
pub trait Bend: Send + Sync {
    /// What it says that it can do.
    fn capabilities(&self, inner: KeyedCapabilities) -> KeyedCapabilities {
        inner
    }

    /// Declares.
    fn declare(&self, inner: &dyn KeyedState, options: SpaceOptions) -> Result<bool> {
        inner.declare(options)
    }

    /// Writes.
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        inner.write(writes)
    }

    /// Looks.
    fn look(&self, inner: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        inner.look(keys)
    }

    /// Scans.
    fn scan(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<StatePage> {
        wanted.scan(inner)
    }

    /// Reads a log.
    fn items(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<Vec<Item>> {
        wanted.items(inner)
    }

    /// Tells what waits.
    fn waiting(
        &self,
        inner: &dyn KeyedState,
        below: Option<Version>,
        limit: usize,
    ) -> Result<Vec<WaitingEntry>> {
        inner.waiting(below, limit)
    }

    /// Seals.
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        inner.seal(frontier)
    }

    /// Clears.
    fn clear(&self, inner: &dyn KeyedState) -> Result<bool> {
        inner.clear()
    }

    /// Writes a snapshot.
    fn snapshot(&self, inner: &dyn KeyedState, out: &mut dyn Write) -> Result<SnapshotSummary> {
        inner.snapshot_to(out)
    }

    /// Restores one.
    fn restore(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        inner.restore_from(from)
    }

    /// Writes a snapshot of some keys.
    fn snapshot_keys(
        &self,
        inner: &dyn KeyedState,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        inner.snapshot_keys_to(keys, out)
    }

    /// Adds one.
    fn restore_keys(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        inner.restore_keys_from(from)
    }
}

/// A store that was bent.
struct Bent<B> {
    inner: MemoryState,
    bend: B,
}

/// What makes a bent space.
type Make = dyn Fn() -> Arc<dyn KeyedState> + Send + Sync;

/// A world of bent spaces.
pub struct Before {
    make: Box<Make>,
    spaces: Mutex<HashMap<String, Arc<dyn KeyedState>>>,
    /// Whether it can be opened again, and whether anything is there then.
    reopens: Option<bool>,
}

impl Before {
    /// Bends every space, each by a bend of its own.
    pub fn bent<B: Bend + 'static>(bend: impl Fn() -> B + Send + Sync + 'static) -> Before {
        let make = move || -> Arc<dyn KeyedState> {
            Arc::new(Bent { inner: MemoryState::new(), bend: bend() })
        };
        Before { make: Box::new(make), spaces: Mutex::default(), reopens: None }
    }

    /// It can be opened again, and all is there.
    pub fn keeping_all(mut self) -> Before {
        self.reopens = Some(true);
        self
    }

    /// It can be opened again, and nothing is there.
    pub fn losing_all(mut self) -> Before {
        self.reopens = Some(false);
        self
    }
}

impl KeyedWorld for Before {
    fn space(&self, name: &str) -> Arc<dyn KeyedState> {
        // A case that failed may have held it.
        let mut spaces = self.spaces.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        spaces.entry(name.to_owned()).or_insert_with(|| (self.make)()).clone()
    }

    fn can_reopen(&self) -> bool {
        self.reopens.is_some()
    }

    fn reopen(&self) {
        if self.reopens == Some(false) {
            self.spaces.lock().unwrap().clear();
        }
    }
}

impl<B: Bend> KeyedState for Bent<B> {
    fn capabilities(&self) -> KeyedCapabilities {
        self.bend.capabilities(self.inner.capabilities())
    }

    fn declare(&self, options: SpaceOptions) -> Result<bool> {
        self.bend.declare(&self.inner, options)
    }

    fn info(&self) -> Result<Option<SpaceInfo>> {
        self.inner.info()
    }

    fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        self.bend.write(&self.inner, writes)
    }

    fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        self.bend.look(&self.inner, keys)
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        self.bend.scan(&self.inner, Wanted { of: prefix, after, limit })
    }

    fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.bend.items(&self.inner, Wanted { of: key, after, limit })
    }

    fn positions(&self) -> Result<BTreeMap<String, u64>> {
        self.inner.positions()
    }

    fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        self.bend.waiting(&self.inner, below, limit)
    }

    fn seal(&self, frontier: Version) -> Result<u64> {
        self.bend.seal(&self.inner, frontier)
    }

    fn clear(&self) -> Result<bool> {
        self.bend.clear(&self.inner)
    }

    fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary> {
        self.bend.snapshot(&self.inner, out)
    }

    fn restore_from(&self, from: &mut dyn Read) -> Result<u64> {
        self.bend.restore(&self.inner, from)
    }

    fn snapshot_keys_to(
        &self,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        self.bend.snapshot_keys(&self.inner, keys, out)
    }

    fn restore_keys_from(&self, from: &mut dyn Read) -> Result<u64> {
        self.bend.restore_keys(&self.inner, from)
    }
}
