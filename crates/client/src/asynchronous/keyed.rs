//! Async client: keyed state of a served database.

use super::remote_snapshot::RemoteSnapshot;
use crate::connection_pool::ConnectionPool;
use mainstay_model::build::{StateCommands, check_state_read, state_transaction};
use mainstay_model::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, At, CompactString, Durability, Item, Kept, Name, Result, Revision, SpaceInfo,
    SpaceOptions, State, StateCommand, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use std::sync::Arc;

/// A space of keyed state on one branch.
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
    #[doc(hidden)]
    pub fn new(
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

    /// Sets the durability of writes through this handle. Operators do not need an fsync per batch: after a
    /// crash, states and positions are those of one moment, and the source replays the items after it.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> AsyncKeyed {
        self.durability = Some(durability);
        self
    }

    #[doc(hidden)]
    pub async fn read(&self, command: StateCommand) -> Result<Answer> {
        check_state_read(&command)?;
        seen(self.link.look(&self.branch, ReadOp::State(command)).await?)
    }

    async fn run(&self, command: StateCommand) -> Result<Answer> {
        self.link
            .execute(&state_transaction(&self.branch, command, self.durability))
            .await?
            .into_first()
    }

    /// Declares the space with its options. Returns whether it is new. Fails with `SpaceExists` if it
    /// exists with other options.
    pub async fn declare(&self, options: SpaceOptions) -> Result<bool> {
        self.run(StateCommand::Declare { space: self.space.clone(), options }).await?.into_did()
    }

    /// Returns the options and the frontier of the space, or `None` before it is declared or written.
    pub async fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(StateCommands(&self.space).info()).await?.into_state()?.into_info()
    }

    /// Applies several writes atomically. Returns the outcome of each.
    pub async fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        self.run(StateCommand::Write { space: self.space.clone(), writes })
            .await?
            .into_state()?
            .into_wrote()
    }

    async fn write_one(&self, write: StateWrite) -> Result<Wrote> {
        self.write(vec![write]).await?.first().copied().ok_or_else(Answer::mismatch)
    }

    /// Writes a key's state if `version` is newer than the key's version. Returns whether the write was
    /// applied, was stale, or waits.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        version: impl Into<Version>,
    ) -> Result<Wrote> {
        self.write_one(StateWrite::put(key.as_ref(), value.as_ref(), version)).await
    }

    /// Deletes a key's state if `version` is newer than the key's version. The version is kept, so that
    /// older writes stay stale.
    pub async fn delete(
        &self,
        key: impl AsRef<[u8]>,
        version: impl Into<Version>,
    ) -> Result<Wrote> {
        self.write_one(StateWrite::delete(key.as_ref(), version)).await
    }

    /// Appends an item to a key's log unless the log already has an item with this id. Returns whether it
    /// was appended.
    pub async fn append_unique(
        &self,
        key: impl AsRef<[u8]>,
        id: impl AsRef<[u8]>,
        item: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let append = StateWrite::append(key.as_ref(), id.as_ref(), item.as_ref());
        Ok(self.write_one(append).await?.took_effect())
    }

    /// Returns a key's state, or `None` if the key is absent.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        Ok(self.look(&[key.as_ref()]).await?.pop().flatten().and_then(Kept::into_state))
    }

    /// Returns the entries of several keys from one snapshot, including the versions of deleted keys.
    pub async fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        self.read(StateCommands(&self.space).look(keys)).await?.into_state()?.into_kept()
    }

    /// Scans keys in byte order with their states: at most `limit` keys that begin with `prefix` and sort
    /// after `after`. A page ends early if it becomes large.
    pub async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StatePage> {
        self.read(StateCommands(&self.space).scan(prefix, after, limit))
            .await?
            .into_state()?
            .into_states()
    }

    /// Lists the items of a key's log in the order of their ids: at most `limit` items after the id
    /// `after`.
    pub async fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(StateCommands(&self.space).items(key, after, limit))
            .await?
            .into_state()?
            .into_items()
    }

    /// Lists the offsets of sources and sinks, in byte order of their names.
    pub async fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })
            .await?
            .into_state()?
            .into_positions()
    }

    /// Lists the waiting writes with versions below `below`, in order.
    pub async fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        self.read(StateCommands(&self.space).waiting(below, limit))
            .await?
            .into_state()?
            .into_waiting()
    }

    /// Seals all versions below `frontier` (a watermark). Waiting writes with such a version are applied in
    /// order. Later writes with such a version are stale. Returns the number of writes that had waited.
    ///
    /// Sealing runs in several transactions. After a crash the frontier may have risen only in part;
    /// sealing again continues from there.
    pub async fn seal(&self, frontier: impl Into<Version>) -> Result<u64> {
        let frontier = frontier.into();
        let mut all = 0;
        loop {
            let (settled, done) = self
                .run(StateCommands(&self.space).seal(frontier))
                .await?
                .into_state()?
                .into_sealed()?;
            all += settled;
            if done {
                return Ok(all);
            }
        }
    }

    /// Removes the space with its entire content. Returns whether it existed.
    pub async fn clear(&self) -> Result<bool> {
        self.run(StateCommand::Drop { space: self.space.clone() }).await?.into_did()
    }

    /// Opens a view of the space at one point in time. The view pins that revision until it is dropped, for
    /// at most one hour.
    pub async fn at(&self, at: At) -> Result<AsyncKeyedAt> {
        let held = RemoteSnapshot::new(&self.link, &self.branch, at).await?;
        Ok(AsyncKeyedAt { space: self.space.clone(), held })
    }
}

/// A read-only view of a space at one point in time. The server holds it on a dedicated connection; if that
/// connection breaks, the view is lost.
#[derive(Clone)]
pub struct AsyncKeyedAt {
    space: Name,
    held: Arc<RemoteSnapshot>,
}

impl AsyncKeyedAt {
    pub(super) fn new(space: Name, held: Arc<RemoteSnapshot>) -> AsyncKeyedAt {
        AsyncKeyedAt { space, held }
    }

    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        self.held.revision
    }

    #[doc(hidden)]
    pub async fn read(&self, command: StateCommand) -> Result<Answer> {
        seen(self.held.look(ReadOp::State(command)).await?)
    }

    /// Returns the options and the frontier of the space, or `None` if it did not exist.
    pub async fn info(&self) -> Result<Option<SpaceInfo>> {
        self.read(StateCommands(&self.space).info()).await?.into_state()?.into_info()
    }

    /// Lists the items of a key's log in the order of their ids: at most `limit` items after the id
    /// `after`.
    pub async fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        self.read(StateCommands(&self.space).items(key, after, limit))
            .await?
            .into_state()?
            .into_items()
    }

    /// Lists the offsets of sources and sinks, in byte order of their names.
    pub async fn positions(&self) -> Result<Vec<(String, u64)>> {
        self.read(StateCommand::Positions { space: self.space.clone() })
            .await?
            .into_state()?
            .into_positions()
    }

    /// Returns a key's state, or `None` if the key was absent.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let found = self
            .read(StateCommands(&self.space).look(&[key.as_ref()]))
            .await?
            .into_state()?
            .into_kept()?
            .pop();
        Ok(found.flatten().and_then(Kept::into_state))
    }

    /// Scans keys in byte order with their states: at most `limit` keys that begin with `prefix` and sort
    /// after `after`.
    pub async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StatePage> {
        self.read(StateCommands(&self.space).scan(prefix, after, limit))
            .await?
            .into_state()?
            .into_states()
    }
}

pub(super) fn seen(seen: ReadReply) -> Result<Answer> {
    match seen {
        ReadReply::State(answer) => Ok(Answer::State(answer)),
        ReadReply::Names(page) => Ok(Answer::Names(page)),
        _ => Err(Answer::mismatch()),
    }
}
