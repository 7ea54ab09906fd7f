//! The interface of a store of keyed state: in memory, the engine's own, and whatever else keeps versions by key.
//!
//! ```text
//!   put  delete  append_unique  get  snapshot  restore         provided
//!        |
//!   declare  info  write  look  scan  seal  clear               what a store has to do
//!   items  positions  waiting
//!   snapshot_to  restore_from  snapshot_keys_to  restore_keys_from
//! ```
//!
//! It blocks: an operator is a loop that waits for its state, and snapshots are streams.

use super::{
    Item, Kept, KeySelection, KeyedCapabilities, SnapshotMark, SnapshotSummary, SnapshotTaken,
    SpaceInfo, SpaceOptions, State, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use crate::{Code, Error, Result};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// One space of keyed state, applied exactly once: a write with a version that is not newer than its key's is a no-op
/// that says so. It is used as `Arc<dyn KeyedState>`, by several threads.
///
/// What a store may lack is in its [`KeyedCapabilities`]. The suite in `mainstay-conformance` checks both.
///
/// ```
/// use mainstay_model::{KeyedState, Result};
/// /// Counts an order; told again after a crash it is counted once.
/// fn count(state: &dyn KeyedState, customer: &str, offset: u64) -> Result<bool> {
///     let count = match state.get(customer.as_bytes())? {
///         Some(seen) => seen.value[0] + 1,
///         None => 1,
///     };
///     Ok(state.put(customer.as_bytes(), &[count], offset.into())?.took_effect())
/// }
/// ```
pub trait KeyedState: Send + Sync {
    /// What the store can do. It is the same for as long as the store is open.
    fn capabilities(&self) -> KeyedCapabilities;

    /// Declares the space; says whether it was not declared before. One that was, also by a write, has to be
    /// asked for as it is, or the error is `SpaceExists`.
    fn declare(&self, options: SpaceOptions) -> Result<bool>;

    /// What is known of the space; nothing before it is declared or written to.
    fn info(&self) -> Result<Option<SpaceInfo>>;

    /// Writes, all or nothing, one behind the other; says what became of each.
    fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>>;

    /// What is known of keys, deleted ones included, all as of one moment.
    fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>>;

    /// Keys in byte order with their states: those that begin with `prefix` and come behind `after`. A page ends early
    /// where it becomes large.
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage>;

    /// Items of a key's log behind one of them, in the order of their ids.
    fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>>;

    /// How far sources were read and sinks written, by their names.
    fn positions(&self) -> Result<BTreeMap<String, u64>>;

    /// Writes that wait with versions below one, in order of versions, then of keys.
    fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>>;

    /// Closes all versions below the frontier: what waited with one of them is applied, in order, deleted keys of before
    /// are forgotten, and what comes later with such a version is stale. Gives how many writes had waited. A frontier
    /// that is not further does nothing.
    ///
    /// Where a function merges, it has to be settled before by whoever has the function
    /// ([`Merging`](super::Merging)); else the error is `Conflict`.
    fn seal(&self, frontier: Version) -> Result<u64>;

    /// Puts all that was acknowledged on stable storage, where that is not done with each write. A store that keeps nothing
    /// has nothing to do.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Removes the space and everything in it; says whether there was one.
    fn clear(&self) -> Result<bool>;

    /// Writes a snapshot of all there is, as of one moment. Equal states give equal bytes.
    fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary>;

    /// Writes a snapshot of what has changed since an earlier one, as of one moment that is on stable storage, or of all
    /// there is: where none is named, or where nobody knows any more what has changed. The answer says which, and why.
    fn snapshot_since(
        &self,
        since: Option<&SnapshotMark>,
        out: &mut dyn Write,
    ) -> Result<SnapshotTaken> {
        let why = since.map(|_| "this store does not know what has changed");
        Ok(SnapshotTaken { summary: self.snapshot_to(out)?, mark: None, is_full: true, why })
    }

    /// Replaces everything by what a snapshot says, or, if that is damaged, nothing. Gives how many entries it had.
    fn restore_from(&self, from: &mut dyn Read) -> Result<u64>;

    /// Writes a snapshot of some keys, as of one moment. Positions are not in it.
    fn snapshot_keys_to(&self, keys: &KeySelection, out: &mut dyn Write)
    -> Result<SnapshotSummary>;

    /// Adds what a snapshot of some keys says to what is there, and never lowers a version; if it is damaged, nothing.
    /// Gives how many entries were new.
    fn restore_keys_from(&self, from: &mut dyn Read) -> Result<u64>;

    /// Writes a key's state if the version is newer than the key's.
    fn put(&self, key: &[u8], value: &[u8], version: Version) -> Result<Wrote> {
        one(self.write(vec![StateWrite::put(key, value, version)])?)
    }

    /// Deletes a key's state if the version is newer than the key's; the version is remembered.
    fn delete(&self, key: &[u8], version: Version) -> Result<Wrote> {
        one(self.write(vec![StateWrite::delete(key, version)])?)
    }

    /// Adds an item to a key's log; says whether the log had none of this id.
    fn append_unique(&self, key: &[u8], id: &[u8], item: &[u8]) -> Result<bool> {
        let wrote = one(self.write(vec![StateWrite::append(key, id, item)])?)?;
        Ok(wrote.took_effect())
    }

    /// A key's state.
    fn get(&self, key: &[u8]) -> Result<Option<State>> {
        let mut kept = self.look(&[key])?;
        Ok(kept.pop().flatten().and_then(Kept::into_state))
    }

    /// All there is, as bytes.
    fn snapshot(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.snapshot_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces everything by what a snapshot says, or, if that is damaged, nothing.
    fn restore(&self, mut bytes: &[u8]) -> Result<u64> {
        self.restore_from(&mut bytes)
    }

    /// Some keys, as bytes.
    fn snapshot_keys(&self, keys: &KeySelection) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.snapshot_keys_to(keys, &mut bytes)?;
        Ok(bytes)
    }

    /// Adds what a snapshot of some keys says to what is there.
    fn restore_keys(&self, mut bytes: &[u8]) -> Result<u64> {
        self.restore_keys_from(&mut bytes)
    }
}

fn one(wrote: Vec<Wrote>) -> Result<Wrote> {
    wrote.first().copied().ok_or_else(|| {
        Error::new(Code::Unsupported, "the store answered to none of the writes it was given")
    })
}
