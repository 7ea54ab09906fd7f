//! The `KeyedState` trait: the interface of keyed state stores (in memory, in the engine, or third-party).
//!
//! ```text
//!   put  delete  append_unique  get  snapshot  restore         provided
//!        |
//!   declare  info  write  look  scan  seal  clear               required
//!   items  positions  waiting
//!   snapshot_to  restore_from  snapshot_keys_to  restore_keys_from
//! ```
//!
//! The interface is blocking, because an operator is a loop that waits for its state, and snapshots are
//! streams.

use super::{
    Item, Kept, KeySelection, KeyedCapabilities, SnapshotMark, SnapshotSummary, SnapshotTaken,
    SpaceInfo, SpaceOptions, State, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use crate::{Code, Error, Result};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// One space of keyed state with idempotent writes: a write whose version is not newer than its key's is a
/// no-op and returns `Stale`. Several threads share it as `Arc<dyn KeyedState>`.
///
/// [`KeyedCapabilities`] lists the features that a store may lack. The suite in `mainstay-conformance` checks
/// both.
///
/// ```
/// use mainstay_model::{KeyedState, Result};
/// /// Counts an order; a retry after a crash is not counted again.
/// fn count(state: &dyn KeyedState, customer: &str, offset: u64) -> Result<bool> {
///     let count = match state.get(customer.as_bytes())? {
///         Some(seen) => seen.value[0] + 1,
///         None => 1,
///     };
///     Ok(state.put(customer.as_bytes(), &[count], offset.into())?.took_effect())
/// }
/// ```
pub trait KeyedState: Send + Sync {
    /// The store's capabilities. They do not change while the store is open.
    fn capabilities(&self) -> KeyedCapabilities;

    /// Declares the space. Returns whether it was undeclared before. If it exists, even by a mere write, the
    /// options must match, otherwise the error is `SpaceExists`.
    fn declare(&self, options: SpaceOptions) -> Result<bool>;

    /// The options and the frontier; `None` before the space is declared or written to.
    fn info(&self) -> Result<Option<SpaceInfo>>;

    /// Applies a batch of writes atomically, in order. Returns the result of each.
    fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>>;

    /// Reads the states of keys from one snapshot, including tombstones.
    fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>>;

    /// Scans keys in byte order with their states: those with `prefix`, after `after`. A page may end early
    /// if it becomes large.
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage>;

    /// Reads the items of a key's log after `after`, in the order of their ids.
    fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>>;

    /// The positions of all sources and sinks, by name.
    fn positions(&self) -> Result<BTreeMap<String, u64>>;

    /// Reads the waiting writes with versions below `below`, ordered by version, then by key.
    fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>>;

    /// Seals all versions below the frontier: applies the waiting writes in order and drops the tombstones
    /// with these versions. A later write with a sealed version is stale. Returns the number of waiting
    /// writes. A frontier that does not advance is a no-op.
    ///
    /// In a merged space, the owner of the merge function must settle the waiting writes first
    /// ([`Merging`](super::Merging)). Otherwise the error is `Conflict`.
    fn seal(&self, frontier: Version) -> Result<u64>;

    /// Makes all acknowledged writes durable, if the store does not do so with each write. A store in memory
    /// has nothing to do.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Removes the space with all its entries. Returns whether it existed.
    fn clear(&self) -> Result<bool>;

    /// Writes a full snapshot as of one point in time. Equal states give equal bytes.
    fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary>;

    /// Writes an incremental snapshot of the changes since `since`, as of one durable point in time. Writes a
    /// full snapshot if `since` is `None` or the store no longer knows the changes. The result says which,
    /// and why.
    fn snapshot_since(
        &self,
        since: Option<&SnapshotMark>,
        out: &mut dyn Write,
    ) -> Result<SnapshotTaken> {
        let why = since.map(|_| "this store does not know what has changed");
        Ok(SnapshotTaken { summary: self.snapshot_to(out)?, mark: None, is_full: true, why })
    }

    /// Replaces the whole state by a snapshot, atomically: a damaged snapshot changes nothing. Returns the
    /// number of entries.
    fn restore_from(&self, from: &mut dyn Read) -> Result<u64>;

    /// Writes a snapshot of some keys as of one point in time, without positions.
    fn snapshot_keys_to(&self, keys: &KeySelection, out: &mut dyn Write)
    -> Result<SnapshotSummary>;

    /// Merges a snapshot of some keys into the state without lowering a version. A damaged snapshot changes
    /// nothing. Returns the number of new entries.
    fn restore_keys_from(&self, from: &mut dyn Read) -> Result<u64>;

    /// Writes a key's state if the version is newer than the key's.
    fn put(&self, key: &[u8], value: &[u8], version: Version) -> Result<Wrote> {
        one(self.write(vec![StateWrite::put(key, value, version)])?)
    }

    /// Deletes a key's state if the version is newer than the key's. A tombstone keeps the version.
    fn delete(&self, key: &[u8], version: Version) -> Result<Wrote> {
        one(self.write(vec![StateWrite::delete(key, version)])?)
    }

    /// Adds an item to a key's log. Returns whether the id was new.
    fn append_unique(&self, key: &[u8], id: &[u8], item: &[u8]) -> Result<bool> {
        let wrote = one(self.write(vec![StateWrite::append(key, id, item)])?)?;
        Ok(wrote.took_effect())
    }

    /// A key's state.
    fn get(&self, key: &[u8]) -> Result<Option<State>> {
        let mut kept = self.look(&[key])?;
        Ok(kept.pop().flatten().and_then(Kept::into_state))
    }

    /// Returns a full snapshot as bytes.
    fn snapshot(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.snapshot_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the whole state by a snapshot, atomically: a damaged snapshot changes nothing.
    fn restore(&self, mut bytes: &[u8]) -> Result<u64> {
        self.restore_from(&mut bytes)
    }

    /// Returns a snapshot of some keys as bytes.
    fn snapshot_keys(&self, keys: &KeySelection) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.snapshot_keys_to(keys, &mut bytes)?;
        Ok(bytes)
    }

    /// Merges a snapshot of some keys into the state.
    fn restore_keys(&self, mut bytes: &[u8]) -> Result<u64> {
        self.restore_keys_from(&mut bytes)
    }
}

fn one(wrote: Vec<Wrote>) -> Result<Wrote> {
    wrote.first().copied().ok_or_else(|| {
        Error::new(Code::Unsupported, "the store answered to none of the writes it was given")
    })
}
