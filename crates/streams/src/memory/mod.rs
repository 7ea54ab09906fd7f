//! In-memory implementation of keyed state.
//!
//! ```text
//!   writes --all checked--> Space, under one lock
//!   snapshot: the lock is held while the space is copied (copies share the bytes); then the snapshot is written
//!   restore:  a snapshot is read to its end, and only then replaces the space
//! ```

mod seal;
mod snapshot_encode;
mod snapshot_load;
mod space;
mod states;
mod write;

use mainstay_model::limits::{TRANSACTION_LIMIT_COMMANDS, check_page};
use mainstay_model::{
    Code, Error, Item, Kept, KeySelection, KeyedCapabilities, KeyedState, Result, SnapshotHead,
    SnapshotSummary, SpaceInfo, SpaceOptions, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use parking_lot::RwLock;
use snapshot_load::SnapshotLoad;
use space::Space;
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// An in-memory space of keyed state: for tests, for state restored from checkpoints, and as the reference
/// implementation for other stores.
///
/// ```
/// use mainstay_model::{KeyedState, Wrote};
/// use mainstay_streams::MemoryState;
/// let state = MemoryState::new();
/// assert_eq!(state.put(b"user-7", b"3", 17.into())?, Wrote::Applied);
/// // A retry after a crash changes nothing.
/// assert_eq!(state.put(b"user-7", b"3", 17.into())?, Wrote::Stale);
///
/// let copy = MemoryState::new();
/// copy.restore(&state.snapshot()?)?;
/// assert_eq!(copy.get(b"user-7")?.unwrap().value, b"3");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Default)]
pub struct MemoryState {
    space: RwLock<Space>,
}

impl MemoryState {
    /// An empty, undeclared space.
    pub fn new() -> MemoryState {
        MemoryState::default()
    }
}

/// Rejects batches that are larger than any store accepts.
fn check_count(count: usize) -> Result<()> {
    if count <= TRANSACTION_LIMIT_COMMANDS {
        return Ok(());
    }
    let message =
        format!("{count} keys at once: {TRANSACTION_LIMIT_COMMANDS} are the most; make it several");
    Err(Error::new(Code::TransactionTooLarge, message))
}

impl KeyedState for MemoryState {
    fn capabilities(&self) -> KeyedCapabilities {
        KeyedCapabilities {
            atomic: true,
            ordered: true,
            merged: true,
            appends: true,
            ..KeyedCapabilities::none("memory")
        }
    }

    fn declare(&self, options: SpaceOptions) -> Result<bool> {
        options.check()?;
        self.space.write().declare(options)
    }

    fn info(&self) -> Result<Option<SpaceInfo>> {
        Ok(self.space.read().info)
    }

    fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        check_count(writes.len())?;
        let mut space = self.space.write();
        space.check(&writes)?;
        Ok(writes.into_iter().map(|write| space.apply(write)).collect())
    }

    fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        check_count(keys.len())?;
        let space = self.space.read();
        Ok(keys.iter().map(|key| space.states.get(key)).collect())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        check_page(limit)?;
        Ok(self.space.read().states.scan(prefix, after, limit))
    }

    fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        check_page(limit)?;
        Ok(self.space.read().items(key, after, limit))
    }

    fn positions(&self) -> Result<BTreeMap<String, u64>> {
        Ok(self.space.read().positions.clone())
    }

    fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        check_page(limit)?;
        self.space.read().waiting(below, limit)
    }

    fn seal(&self, frontier: Version) -> Result<u64> {
        self.space.write().seal(frontier)
    }

    fn clear(&self) -> Result<bool> {
        let cleared = std::mem::take(&mut *self.space.write());
        Ok(cleared.info.is_some())
    }

    fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary> {
        let space = self.space.read();
        let encoded = space.encode(&SnapshotHead::all(space.info()), |_| true)?;
        // The output may be slow, so release the lock before writing.
        drop(space);
        encoded.write_to(out)
    }

    fn restore_from(&self, from: &mut dyn Read) -> Result<u64> {
        let snapshot = SnapshotLoad::read(from)?;
        let entries = snapshot.entries;
        let restored = snapshot.into_space()?;
        // The old space may be large: it is dropped after the lock is released.
        let _replaced = std::mem::replace(&mut *self.space.write(), restored);
        Ok(entries)
    }

    fn snapshot_keys_to(
        &self,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        let space = self.space.read();
        let encoded = space.encode(&SnapshotHead::some(space.info()), |key| keys.contains(key))?;
        drop(space);
        encoded.write_to(out)
    }

    fn restore_keys_from(&self, from: &mut dyn Read) -> Result<u64> {
        let snapshot = SnapshotLoad::read(from)?;
        snapshot.add_to(&mut self.space.write())
    }
}
