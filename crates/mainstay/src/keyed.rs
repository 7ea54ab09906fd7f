//! Keyed stream state: spaces of versioned keys with idempotent writes.

use crate::backend::Backend;
use mainstay_client::{AsyncKeyed, AsyncKeyedAt, ConnectionPool, wait};
use mainstay_engine::read::pinned_snapshot::PinnedSnapshot;
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_model::build::{StateCommands, check_state_read, state_transaction};
use mainstay_model::{
    Answer, At, Code, CompactString, Durability, Item, Kept, Name, Page, Receipt, Result, Revision,
    SpaceInfo, SpaceOptions, State, StateCommand, StatePage, StateWrite, Version, WaitingEntry,
    Wrote,
};
use std::sync::Arc;

mod changes;
#[cfg(any(test, fuzzing))]
mod mend;
mod restoring;
mod store;

#[cfg(any(test, fuzzing))]
pub(crate) use mend::{mend, mend_blocks};

/// A space of keyed state on one branch.
///
/// It implements [`KeyedState`](crate::KeyedState), the interface that operators, snapshots and checkpoints
/// use.
///
/// ```
/// use mainstay::{Database, Wrote};
/// let counts = Database::memory()?.keyed("counts")?;
/// // The version is the item's offset in its source: a redelivered item is counted once.
/// assert_eq!(counts.put("user-7", "1", 17)?, Wrote::Applied);
/// assert_eq!(counts.put("user-7", "2", 17)?, Wrote::Stale);
/// let state = counts.get("user-7")?.expect("it is there");
/// assert_eq!((state.value.as_slice(), state.version), (&b"1"[..], 17.into()));
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyed {
    place: Backend,
    branch: CompactString,
    space: Name,
    durability: Option<Durability>,
}

impl Keyed {
    pub(crate) fn on(place: Backend, branch: &str, space: &str) -> Result<Keyed> {
        let space = Name::new(space)?;
        Ok(Keyed { place, branch: branch.into(), space, durability: None })
    }

    /// The name of the space.
    pub fn name(&self) -> &str {
        self.space.as_str()
    }

    /// Sets the durability of writes through this handle. Operators do not need an fsync per batch: after a
    /// crash, states and positions are those of one moment, and the source replays the items after it.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Keyed {
        self.durability = Some(durability);
        self
    }

    fn there(&self, link: &Arc<ConnectionPool>) -> AsyncKeyed {
        AsyncKeyed::new(link.clone(), &self.branch, self.space.clone(), self.durability)
    }

    fn receive(&self, command: StateCommand, durability: Option<Durability>) -> Result<Receipt> {
        let transaction = state_transaction(&self.branch, command, durability);
        match &self.place {
            Backend::Local(core) => core.sequencer.execute(transaction),
            Backend::Remote(link) => link.execute_and_wait(&transaction),
        }
    }

    fn run(&self, command: StateCommand) -> Result<Answer> {
        self.receive(command, self.durability)?.into_first()
    }

    /// Executes a read-only command, for callers that build commands as values. Fails with
    /// `InvalidArgument` if the command writes. Retries at a newer snapshot if retention trimmed the one it
    /// read.
    pub fn read(&self, command: StateCommand) -> Result<Answer> {
        check_state_read(&command)?;
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).read(command)),
        };
        loop {
            match Snapshot::new(core, &self.branch, At::Latest)?.state(&command) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                other => return other,
            }
        }
    }

    fn ask(&self) -> StateCommands<'_> {
        StateCommands(&self.space)
    }

    /// Declares the space with its options. Returns whether it is new. Fails with `SpaceExists` if it
    /// exists with other options.
    pub fn declare(&self, options: SpaceOptions) -> Result<bool> {
        self.run(StateCommand::Declare { space: self.space.clone(), options })?.into_did()
    }

    /// Returns the options and the frontier of the space, or `None` before it is declared or written.
    pub fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(self.ask().info())?.into_state()?.into_info()
    }

    /// Writes a key's state if `version` is newer than the key's version. Returns whether the write was
    /// applied, was stale, or waits.
    pub fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        version: impl Into<Version>,
    ) -> Result<Wrote> {
        self.write_one(StateWrite::put(key.as_ref(), value.as_ref(), version))
    }

    /// Deletes a key's state if `version` is newer than the key's version. The version is kept, so that
    /// older writes stay stale.
    pub fn delete(&self, key: impl AsRef<[u8]>, version: impl Into<Version>) -> Result<Wrote> {
        self.write_one(StateWrite::delete(key.as_ref(), version))
    }

    /// Appends an item to a key's log unless the log already has an item with this id. Returns whether it
    /// was appended.
    pub fn append_unique(
        &self,
        key: impl AsRef<[u8]>,
        id: impl AsRef<[u8]>,
        item: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let append = StateWrite::append(key.as_ref(), id.as_ref(), item.as_ref());
        Ok(self.write_one(append)?.took_effect())
    }

    /// Applies several writes atomically. Returns the outcome of each.
    ///
    /// ```
    /// use mainstay::{Database, StateWrite};
    /// let counts = Database::memory()?.keyed("counts")?;
    /// // States and their position in the source are written together, or not at all.
    /// counts.write(vec![StateWrite::put("a", "1", 7), StateWrite::advance("orders", 8)])?;
    /// assert_eq!(counts.positions()?, [("orders".to_owned(), 8)]);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        self.run(StateCommand::Write { space: self.space.clone(), writes })?
            .into_state()?
            .into_wrote()
    }

    fn write_one(&self, write: StateWrite) -> Result<Wrote> {
        self.write(vec![write])?.first().copied().ok_or_else(Answer::mismatch)
    }

    /// Returns a key's state, or `None` if the key is absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        Ok(self.look(&[key.as_ref()])?.pop().flatten().and_then(Kept::into_state))
    }

    /// Returns the entries of several keys from one snapshot, including the versions of deleted keys.
    pub fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        self.read(self.ask().look(keys))?.into_state()?.into_kept()
    }

    /// Scans keys in byte order with their states: at most `limit` keys that begin with `prefix` and sort
    /// after `after`. A page ends early if it becomes large.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        self.read(self.ask().scan(prefix, after, limit))?.into_state()?.into_states()
    }

    /// Lists the items of a key's log in the order of their ids: at most `limit` items after the id
    /// `after`.
    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(self.ask().items(key, after, limit))?.into_state()?.into_items()
    }

    /// Lists the offsets of sources and sinks, in byte order of their names.
    pub fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })?
            .into_state()?
            .into_positions()
    }

    /// Lists the waiting writes with versions below `below`, in order.
    pub fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        self.read(self.ask().waiting(below, limit))?.into_state()?.into_waiting()
    }

    /// Seals all versions below `frontier` (a watermark). Waiting writes with such a version are applied in
    /// order. Later writes with such a version are stale. Returns the number of writes that had waited.
    ///
    /// Sealing runs in several transactions. After a crash the frontier may have risen only in part;
    /// sealing again continues from there.
    pub fn seal(&self, frontier: impl Into<Version>) -> Result<u64> {
        let frontier = frontier.into();
        let mut all = 0;
        loop {
            let (settled, done) =
                self.run(self.ask().seal(frontier))?.into_state()?.into_sealed()?;
            all += settled;
            if done {
                return Ok(all);
            }
        }
    }

    /// Removes the space with its entire content. Returns whether it existed.
    pub fn clear(&self) -> Result<bool> {
        self.run(StateCommand::Drop { space: self.space.clone() })?.into_did()
    }

    /// Opens a view of the space at one point in time. The view pins that revision until it is dropped, for
    /// at most one hour.
    pub fn at(&self, at: At) -> Result<KeyedAt> {
        let space = self.space.clone();
        Ok(match &self.place {
            Backend::Local(core) => {
                KeyedAt::here(space, PinnedSnapshot::new(core, &self.branch, at)?)
            }
            Backend::Remote(link) => KeyedAt::there(space, wait(self.there(link).at(at))?),
        })
    }
}

/// A read-only view of a space at one point in time. Clones share the view.
#[derive(Clone)]
pub struct KeyedAt {
    space: Name,
    view: KeyedBackend,
}

#[derive(Clone)]
enum KeyedBackend {
    Here(Arc<PinnedSnapshot>),
    There(AsyncKeyedAt),
}

impl KeyedAt {
    pub(crate) fn here(space: Name, pinned: Arc<PinnedSnapshot>) -> KeyedAt {
        KeyedAt { space, view: KeyedBackend::Here(pinned) }
    }

    pub(crate) fn there(space: Name, view: AsyncKeyedAt) -> KeyedAt {
        KeyedAt { space, view: KeyedBackend::There(view) }
    }

    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        match &self.view {
            KeyedBackend::Here(pinned) => pinned.snapshot.revision,
            KeyedBackend::There(view) => view.revision(),
        }
    }

    /// Executes a read-only command in this view, for callers that build commands as values. Fails with
    /// `InvalidArgument` if the command writes.
    pub fn read(&self, command: StateCommand) -> Result<Answer> {
        check_state_read(&command)?;
        match &self.view {
            KeyedBackend::Here(pinned) => pinned.snapshot.state(&command),
            KeyedBackend::There(view) => wait(view.read(command)),
        }
    }

    fn ask(&self) -> StateCommands<'_> {
        StateCommands(&self.space)
    }

    /// Returns the options and the frontier of the space, or `None` if it did not exist.
    pub fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(self.ask().info())?.into_state()?.into_info()
    }

    /// Returns a key's state, or `None` if the key was absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let found = self.read(self.ask().look(&[key.as_ref()]))?.into_state()?.into_kept()?.pop();
        Ok(found.flatten().and_then(Kept::into_state))
    }

    /// Scans keys in byte order with their states: at most `limit` keys that begin with `prefix` and sort
    /// after `after`.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        self.read(self.ask().scan(prefix, after, limit))?.into_state()?.into_states()
    }

    /// Lists the items of a key's log in the order of their ids: at most `limit` items after the id
    /// `after`.
    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(self.ask().items(key, after, limit))?.into_state()?.into_items()
    }

    /// Lists the offsets of sources and sinks, in byte order of their names.
    pub fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })?
            .into_state()?
            .into_positions()
    }
}

/// Lists the names of the spaces on a branch.
pub(crate) fn spaces(
    place: &Backend,
    branch: &str,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let prefix = prefix.to_owned();
    let after = after.map(str::to_owned);
    let command = StateCommand::Spaces { prefix, after, limit };
    Keyed::on(place.clone(), branch, "spaces")?.read(command)?.into_names()
}
