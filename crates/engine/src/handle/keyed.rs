//! Keyed state: spaces of keys with versions, written exactly once.

use crate::handle::backend::Backend;
use crate::read::pinned_snapshot::PinnedSnapshot;
use crate::read::snapshot::Snapshot;
use crate::remote::{AsyncKeyed, AsyncKeyedAt, ConnectionPool, wait};
use mainstay_model::{
    Answer, At, Code, CompactString, Durability, Error, Item, Kept, Name, Page, Receipt, Result,
    Revision, SpaceInfo, SpaceOptions, State, StateCommand, StateKey, StatePage, StateWrite,
    Transaction, Version, WaitingEntry, Wrote,
};
use std::sync::Arc;

mod changes;
#[cfg(any(test, fuzzing))]
mod mend;
mod restoring;
mod store;

#[cfg(any(test, fuzzing))]
pub(crate) use mend::{mend, mend_blocks};

/// How many entries are sealed in one transaction.
pub(crate) const SEAL_PIECE: usize = 10_000;

/// A space of keyed state on a branch.
///
/// It is a [`KeyedState`](crate::KeyedState): operators, snapshots and checkpoints are written against that.
///
/// ```
/// use mainstay::{Database, Wrote};
/// let counts = Database::memory()?.keyed("counts")?;
/// // The version is where the item stands in its source: told again, it is counted once.
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

    /// The same space; what is written by this handle is as durable as this when it is acknowledged. Operators need no
    /// sync for every batch: a crash leaves the states and positions of one moment, and what is behind them comes again.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Keyed {
        self.durability = Some(durability);
        self
    }

    fn there(&self, link: &Arc<ConnectionPool>) -> AsyncKeyed {
        AsyncKeyed::new(link.clone(), &self.branch, self.space.clone(), self.durability)
    }

    fn receive(&self, command: StateCommand, durability: Option<Durability>) -> Result<Receipt> {
        let transaction = transaction(&self.branch, command, durability);
        match &self.place {
            Backend::Local(core) => core.sequencer.execute(transaction),
            Backend::Remote(link) => link.execute_and_wait(&transaction),
        }
    }

    fn run(&self, command: StateCommand) -> Result<Answer> {
        self.receive(command, self.durability)?.into_first()
    }

    /// Answers a command that only reads, for those who have commands as values. What retention passed by meanwhile
    /// is looked at again.
    pub fn read(&self, command: StateCommand) -> Result<Answer> {
        only_read(&command)?;
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

    fn ask(&self) -> Ask<'_> {
        Ask(&self.space)
    }

    /// Declares the space; says whether it is new. One that is there has to be asked for as it is.
    pub fn declare(&self, options: SpaceOptions) -> Result<bool> {
        self.run(StateCommand::Declare { space: self.space.clone(), options })?.into_did()
    }

    /// What is known of the space; nothing before it is declared or written to.
    pub fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(self.ask().info())?.into_state()?.into_info()
    }

    /// Writes a key's state if the version is newer than the key's.
    pub fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        version: impl Into<Version>,
    ) -> Result<Wrote> {
        self.write_one(StateWrite::put(key.as_ref(), value.as_ref(), version))
    }

    /// Deletes a key's state if the version is newer than the key's; the version is remembered.
    pub fn delete(&self, key: impl AsRef<[u8]>, version: impl Into<Version>) -> Result<Wrote> {
        self.write_one(StateWrite::delete(key.as_ref(), version))
    }

    /// Adds an item to a key's log; says whether the log had none of this id.
    pub fn append_unique(
        &self,
        key: impl AsRef<[u8]>,
        id: impl AsRef<[u8]>,
        item: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let append = StateWrite::append(key.as_ref(), id.as_ref(), item.as_ref());
        Ok(self.write_one(append)?.took_effect())
    }

    /// Writes, all or nothing; says what became of each.
    ///
    /// ```
    /// use mainstay::{Database, StateWrite};
    /// let counts = Database::memory()?.keyed("counts")?;
    /// // States, and the position in the source that they belong to: never one without the other.
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

    /// A key's state.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        Ok(self.look(&[key.as_ref()])?.pop().flatten().and_then(Kept::into_state))
    }

    /// What is known of keys, deleted ones included, all as of one moment.
    pub fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        self.read(self.ask().look(keys))?.into_state()?.into_kept()
    }

    /// Keys in byte order with their states: those that begin with `prefix` and come behind `after`. A page ends
    /// early where it becomes large.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        self.read(self.ask().scan(prefix, after, limit))?.into_state()?.into_states()
    }

    /// Items of a key's log behind one of them, in the order of their ids.
    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(self.ask().items(key, after, limit))?.into_state()?.into_items()
    }

    /// How far sources were read and sinks written, in byte order of their names.
    pub fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })?
            .into_state()?
            .into_positions()
    }

    /// Writes that wait with versions below one, in order.
    pub fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        self.read(self.ask().waiting(below, limit))?.into_state()?.into_waiting()
    }

    /// Closes all versions below the frontier: what waited with one of them is applied, in order, and what comes later
    /// with such a version is stale. Gives how many writes had waited. It goes in pieces: a crash leaves a frontier that
    /// has risen in part, and sealing again goes on.
    pub fn seal(&self, frontier: impl Into<Version>) -> Result<u64> {
        let (frontier, mut all) = (frontier.into(), 0);
        loop {
            let (settled, done) =
                self.run(self.ask().seal(frontier))?.into_state()?.into_sealed()?;
            all += settled;
            if done {
                return Ok(all);
            }
        }
    }

    /// Removes the space and everything in it; says whether there was one.
    pub fn clear(&self) -> Result<bool> {
        self.run(StateCommand::Drop { space: self.space.clone() })?.into_did()
    }

    /// The space as it was, for as long as the view lives (an hour at most).
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

/// A space as of one point in time. Clones are the same view.
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

    /// The revision it shows.
    pub fn revision(&self) -> Revision {
        match &self.view {
            KeyedBackend::Here(pinned) => pinned.snapshot.revision,
            KeyedBackend::There(view) => view.revision(),
        }
    }

    /// Answers a command that only reads, for those who have commands as values.
    pub fn read(&self, command: StateCommand) -> Result<Answer> {
        only_read(&command)?;
        match &self.view {
            KeyedBackend::Here(pinned) => pinned.snapshot.state(&command),
            KeyedBackend::There(view) => wait(view.read(command)),
        }
    }

    fn ask(&self) -> Ask<'_> {
        Ask(&self.space)
    }

    /// What was known of the space.
    pub fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(self.ask().info())?.into_state()?.into_info()
    }

    /// What a key's state was.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let found = self.read(self.ask().look(&[key.as_ref()]))?.into_state()?.into_kept()?.pop();
        Ok(found.flatten().and_then(Kept::into_state))
    }

    /// Keys in byte order with what their states were.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        self.read(self.ask().scan(prefix, after, limit))?.into_state()?.into_states()
    }

    /// Items that a key's log had, in the order of their ids.
    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(self.ask().items(key, after, limit))?.into_state()?.into_items()
    }

    /// How far sources had been read.
    pub fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })?
            .into_state()?
            .into_positions()
    }
}

/// The names of spaces on a branch.
pub(crate) fn spaces(
    place: &Backend,
    branch: &str,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
    let command = StateCommand::Spaces { prefix, after, limit };
    Keyed::on(place.clone(), branch, "spaces")?.read(command)?.into_names()
}

/// Commands on one space.
pub(crate) struct Ask<'a>(pub &'a Name);

impl Ask<'_> {
    pub fn info(&self) -> StateCommand {
        StateCommand::Info { space: self.0.clone() }
    }

    pub fn look(&self, keys: &[&[u8]]) -> StateCommand {
        let keys = keys.iter().map(|key| StateKey(key.to_vec())).collect();
        StateCommand::Look { space: self.0.clone(), keys }
    }

    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> StateCommand {
        let (prefix, after) = (prefix.to_vec(), after.map(<[u8]>::to_vec));
        StateCommand::Scan { space: self.0.clone(), prefix, after, limit }
    }

    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> StateCommand {
        let (key, after) = (key.to_vec(), after.map(<[u8]>::to_vec));
        StateCommand::Items { space: self.0.clone(), key, after, limit }
    }

    pub fn waiting(&self, below: Option<Version>, limit: usize) -> StateCommand {
        StateCommand::Waiting { space: self.0.clone(), below, limit }
    }

    pub fn seal(&self, frontier: Version) -> StateCommand {
        StateCommand::Seal { space: self.0.clone(), frontier, limit: SEAL_PIECE }
    }

    pub fn dump(&self, after: Option<Vec<u8>>) -> StateCommand {
        StateCommand::Dump { space: self.0.clone(), after, limit_bytes: DUMP_BYTES }
    }
}

/// How many bytes of entries are asked for together.
const DUMP_BYTES: usize = 4 << 20;

pub(crate) fn transaction(
    branch: &str,
    command: StateCommand,
    durability: Option<Durability>,
) -> Transaction {
    Transaction { durability, ..Transaction::on(branch).step(command) }
}

pub(crate) fn only_read(command: &StateCommand) -> Result<()> {
    match command.is_read() {
        true => Ok(()),
        false => Err(Error::new(
            Code::InvalidArgument,
            "a command on keyed state that does not only read: execute it in a transaction",
        )),
    }
}
