//! Fault injection for keyed state stores: a wrapper that overrides single operations of a correct store.

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

/// The arguments of a page read: a key prefix or a key, a cursor and a limit.
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

    /// Returns the same request with a valid limit.
    pub fn clamped(self) -> Self {
        Wanted { limit: clamp(self.limit), ..self }
    }
}

/// Clamps a page limit to the valid range.
pub fn clamp(limit: usize) -> usize {
    limit.clamp(1, PAGE_LIMIT)
}

/// A fault: each method can override an operation of the inner store.
pub trait Bend: Send + Sync {
    fn capabilities(&self, inner: KeyedCapabilities) -> KeyedCapabilities {
        inner
    }

    fn declare(&self, inner: &dyn KeyedState, options: SpaceOptions) -> Result<bool> {
        inner.declare(options)
    }

    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        inner.write(writes)
    }

    fn look(&self, inner: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        inner.look(keys)
    }

    fn scan(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<StatePage> {
        wanted.scan(inner)
    }

    fn items(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<Vec<Item>> {
        wanted.items(inner)
    }

    fn waiting(
        &self,
        inner: &dyn KeyedState,
        below: Option<Version>,
        limit: usize,
    ) -> Result<Vec<WaitingEntry>> {
        inner.waiting(below, limit)
    }

    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        inner.seal(frontier)
    }

    fn clear(&self, inner: &dyn KeyedState) -> Result<bool> {
        inner.clear()
    }

    fn snapshot(&self, inner: &dyn KeyedState, out: &mut dyn Write) -> Result<SnapshotSummary> {
        inner.snapshot_to(out)
    }

    fn restore(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        inner.restore_from(from)
    }

    fn snapshot_keys(
        &self,
        inner: &dyn KeyedState,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        inner.snapshot_keys_to(keys, out)
    }

    fn restore_keys(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        inner.restore_keys_from(from)
    }
}

/// A store with a fault.
struct Bent<B> {
    inner: MemoryState,
    bend: B,
}

/// Creates a faulty space.
type Make = dyn Fn() -> Arc<dyn KeyedState> + Send + Sync;

/// A world of faulty spaces.
pub struct Before {
    make: Box<Make>,
    spaces: Mutex<HashMap<String, Arc<dyn KeyedState>>>,
    /// Whether the world can be reopened and, if so, whether its data survives.
    reopens: Option<bool>,
}

impl Before {
    /// Creates a world in which each space gets its own instance of the fault.
    pub fn bent<B: Bend + 'static>(bend: impl Fn() -> B + Send + Sync + 'static) -> Before {
        let make = move || -> Arc<dyn KeyedState> {
            Arc::new(Bent { inner: MemoryState::new(), bend: bend() })
        };
        Before { make: Box::new(make), spaces: Mutex::default(), reopens: None }
    }

    /// Makes the world reopenable without data loss.
    pub fn keeping_all(mut self) -> Before {
        self.reopens = Some(true);
        self
    }

    /// Makes the world reopenable with loss of all data.
    pub fn losing_all(mut self) -> Before {
        self.reopens = Some(false);
        self
    }
}

impl KeyedWorld for Before {
    fn space(&self, name: &str) -> Arc<dyn KeyedState> {
        // A failed case may have poisoned the lock.
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
