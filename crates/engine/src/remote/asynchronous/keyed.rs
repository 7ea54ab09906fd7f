//! Keyed state of a served database.

use super::remote_snapshot::RemoteSnapshot;
use crate::handle::keyed::{Ask, only_read, transaction};
use crate::remote::connection_pool::ConnectionPool;
use crate::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, At, CompactString, Durability, Item, Kept, Name, Result, Revision, SpaceInfo,
    SpaceOptions, State, StateCommand, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use std::sync::Arc;

/// A space of keyed state on a branch.
///
/// ```no_run
/// # async fn example() -> mainstay::Result<()> {
/// let counts = mainstay::remote::connect_async("127.0.0.1:7379").await?.keyed("counts")?;
/// counts.put("user-7", "1", 17).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncKeyed {
    link: Arc<ConnectionPool>,
    branch: CompactString,
    space: Name,
    durability: Option<Durability>,
}

impl AsyncKeyed {
    pub(crate) fn new(
        link: Arc<ConnectionPool>,
        branch: &str,
        space: Name,
        durability: Option<Durability>,
    ) -> AsyncKeyed {
        AsyncKeyed { link, branch: branch.into(), space, durability }
    }

    pub(crate) fn on(link: Arc<ConnectionPool>, branch: &str, space: &str) -> Result<AsyncKeyed> {
        Ok(AsyncKeyed::new(link, branch, Name::new(space)?, None))
    }

    /// The same space; what is written by this handle is as durable as this when it is acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> AsyncKeyed {
        self.durability = Some(durability);
        self
    }

    pub(crate) async fn read(&self, command: StateCommand) -> Result<Answer> {
        only_read(&command)?;
        seen(self.link.look(&self.branch, ReadOp::State(command)).await?)
    }

    async fn run(&self, command: StateCommand) -> Result<Answer> {
        self.link.execute(&transaction(&self.branch, command, self.durability)).await?.into_first()
    }

    /// Declares the space; says whether it is new.
    pub async fn declare(&self, options: SpaceOptions) -> Result<bool> {
        self.run(StateCommand::Declare { space: self.space.clone(), options }).await?.into_did()
    }

    /// What is known of the space; nothing before it is declared or written to.
    pub async fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(Ask(&self.space).info()).await?.into_state()?.into_info()
    }

    /// Writes, all or nothing; says what became of each.
    pub async fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        self.run(StateCommand::Write { space: self.space.clone(), writes })
            .await?
            .into_state()?
            .into_wrote()
    }

    async fn write_one(&self, write: StateWrite) -> Result<Wrote> {
        self.write(vec![write]).await?.first().copied().ok_or_else(Answer::mismatch)
    }

    /// Writes a key's state if the version is newer than the key's.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        version: impl Into<Version>,
    ) -> Result<Wrote> {
        self.write_one(StateWrite::put(key.as_ref(), value.as_ref(), version)).await
    }

    /// Deletes a key's state if the version is newer than the key's; the version is remembered.
    pub async fn delete(
        &self,
        key: impl AsRef<[u8]>,
        version: impl Into<Version>,
    ) -> Result<Wrote> {
        self.write_one(StateWrite::delete(key.as_ref(), version)).await
    }

    /// Adds an item to a key's log; says whether the log had none of this id.
    pub async fn append_unique(
        &self,
        key: impl AsRef<[u8]>,
        id: impl AsRef<[u8]>,
        item: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let append = StateWrite::append(key.as_ref(), id.as_ref(), item.as_ref());
        Ok(self.write_one(append).await?.took_effect())
    }

    /// A key's state.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        Ok(self.look(&[key.as_ref()]).await?.pop().flatten().and_then(Kept::into_state))
    }

    /// What is known of keys, deleted ones included, all as of one moment.
    pub async fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        self.read(Ask(&self.space).look(keys)).await?.into_state()?.into_kept()
    }

    /// Keys in byte order with their states.
    pub async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StatePage> {
        self.read(Ask(&self.space).scan(prefix, after, limit)).await?.into_state()?.into_states()
    }

    /// Items of a key's log behind one of them, in the order of their ids.
    pub async fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(Ask(&self.space).items(key, after, limit)).await?.into_state()?.into_items()
    }

    /// How far sources were read and sinks written.
    pub async fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })
            .await?
            .into_state()?
            .into_positions()
    }

    /// Writes that wait, with versions below one where that is said, in the order in which they are sealed.
    pub async fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        self.read(Ask(&self.space).waiting(below, limit)).await?.into_state()?.into_waiting()
    }

    /// Closes all versions below the frontier; gives how many writes had waited.
    pub async fn seal(&self, frontier: impl Into<Version>) -> Result<u64> {
        let (frontier, mut all) = (frontier.into(), 0);
        loop {
            let (settled, done) =
                self.run(Ask(&self.space).seal(frontier)).await?.into_state()?.into_sealed()?;
            all += settled;
            if done {
                return Ok(all);
            }
        }
    }

    /// Removes the space and everything in it; says whether there was one.
    pub async fn clear(&self) -> Result<bool> {
        self.run(StateCommand::Drop { space: self.space.clone() }).await?.into_did()
    }

    /// The space as it was, for as long as the view lives (an hour at most).
    pub async fn at(&self, at: At) -> Result<AsyncKeyedAt> {
        let held = RemoteSnapshot::new(&self.link, &self.branch, at).await?;
        Ok(AsyncKeyedAt { space: self.space.clone(), held })
    }
}

/// A space as of one point in time.
#[derive(Clone)]
pub struct AsyncKeyedAt {
    space: Name,
    held: Arc<RemoteSnapshot>,
}

impl AsyncKeyedAt {
    pub(super) fn new(space: Name, held: Arc<RemoteSnapshot>) -> AsyncKeyedAt {
        AsyncKeyedAt { space, held }
    }

    /// The revision it shows.
    pub fn revision(&self) -> Revision {
        self.held.revision
    }

    pub(crate) async fn read(&self, command: StateCommand) -> Result<Answer> {
        seen(self.held.look(ReadOp::State(command)).await?)
    }

    /// What was known of the space.
    pub async fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(Ask(&self.space).info()).await?.into_state()?.into_info()
    }

    /// Items that a key's log had, in the order of their ids.
    pub async fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(Ask(&self.space).items(key, after, limit)).await?.into_state()?.into_items()
    }

    /// How far sources had been read.
    pub async fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })
            .await?
            .into_state()?
            .into_positions()
    }

    /// What a key's state was.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let found = self
            .read(Ask(&self.space).look(&[key.as_ref()]))
            .await?
            .into_state()?
            .into_kept()?
            .pop();
        Ok(found.flatten().and_then(Kept::into_state))
    }

    /// Keys in byte order with what their states were.
    pub async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StatePage> {
        self.read(Ask(&self.space).scan(prefix, after, limit)).await?.into_state()?.into_states()
    }
}

pub(super) fn seen(seen: ReadReply) -> Result<Answer> {
    match seen {
        ReadReply::State(answer) => Ok(Answer::State(answer)),
        ReadReply::Names(page) => Ok(Answer::Names(page)),
        _ => Err(Answer::mismatch()),
    }
}
