//! Async client: cells of a served database.

use super::keyed::{self, AsyncKeyedAt};
use super::remote_snapshot::RemoteSnapshot;
use super::{AsyncRecordsAt, AsyncRunsAt};
use crate::connection_pool::ConnectionPool;
use mainstay_model::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, At, CellCommand, CompactString, HistoryEntry, Name, Number, Page, Result, Revision,
    StateCommand, Ttl, Value, Versioned, from_value, to_value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The cells of one branch.
#[derive(Clone)]
pub struct AsyncCells {
    link: Arc<ConnectionPool>,
    branch: CompactString,
}

impl AsyncCells {
    #[doc(hidden)]
    pub fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncCells {
        AsyncCells { link, branch: branch.into() }
    }

    async fn look(&self, read: ReadOp) -> Result<ReadReply> {
        self.link.look(&self.branch, read).await
    }

    async fn run(&self, command: CellCommand) -> Result<Answer> {
        self.link.run(&self.branch, command.into()).await
    }

    /// Returns the value of a cell, or `None` if it is absent.
    pub async fn get(&self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name).await?.map(|cell| cell.value))
    }

    /// Returns the value of a cell with its counter, stamp and revision, or `None` if the cell is absent.
    pub async fn get_versioned(&self, name: &str) -> Result<Option<Versioned>> {
        seen_cell(self.look(ReadOp::Get { name: Name::new(name)? }).await?)
    }

    /// Reads a cell and deserializes its value into `T`. Returns `None` if the cell is absent, and fails
    /// with `InvalidValue` if the value does not fit the type.
    pub async fn get_as<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        self.get(name).await?.map(from_value).transpose()
    }

    /// Serializes `value` and writes it to a cell. Returns the new counter.
    pub async fn set_as<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<u64> {
        self.set(name, to_value(value)?).await
    }

    /// Serializes `value` and writes it with compare-and-swap, as [`AsyncCells::cas`] does.
    pub async fn cas_as<T: Serialize + ?Sized>(
        &self,
        name: &str,
        expected: Option<u64>,
        value: &T,
    ) -> Result<Option<u64>> {
        self.cas(name, expected, to_value(value)?).await
    }

    /// Writes the cell only if it is absent. Returns its counter in both cases.
    pub async fn init(&self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let name = Name::new(name)?;
        let value = value.into();
        self.run(CellCommand::Init { name, value }).await?.into_counter()
    }

    /// Writes a cell and removes its time to live. Returns the new counter.
    pub async fn set(&self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear).await
    }

    /// Writes a cell with a time to live. Returns the new counter.
    pub async fn set_with(&self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let name = Name::new(name)?;
        let value = value.into();
        self.run(CellCommand::Set { name, value, ttl }).await?.into_counter()
    }

    /// Compare-and-swap: writes if the cell's counter equals `expected` (`None`: if the cell is absent).
    /// Returns the new counter, or `None` if the counter differs.
    pub async fn cas(
        &self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let name = Name::new(name)?;
        let value = value.into();
        self.run(CellCommand::Cas { name, expected, value }).await?.into_maybe_counter()
    }

    /// Deletes a cell. Returns whether it existed. Its counter continues if the cell is written again.
    pub async fn delete(&self, name: &str) -> Result<bool> {
        self.run(CellCommand::Delete { name: Name::new(name)?, counter: None }).await?.into_did()
    }

    /// Deletes a cell if its counter equals `counter`. Returns whether it was deleted.
    pub async fn delete_if(&self, name: &str, counter: u64) -> Result<bool> {
        let name = Name::new(name)?;
        let counter = Some(counter);
        self.run(CellCommand::Delete { name, counter }).await?.into_did()
    }

    /// Adds `by` to a number. Returns the sum and the new counter. Fails with `NotANumber` or `Overflow`.
    pub async fn incr(&self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let name = Name::new(name)?;
        let by = by.into();
        self.run(CellCommand::Incr { name, by }).await?.into_number()
    }

    /// Changes a cell's time to live. Returns whether the cell exists.
    pub async fn expire(&self, name: &str, ttl: Ttl) -> Result<bool> {
        self.run(CellCommand::Expire { name: Name::new(name)?, ttl }).await?.into_did()
    }

    /// Lists the versions of a cell, newest first, including deletions. With `before`, only versions with a
    /// smaller counter are listed.
    pub async fn history(
        &self,
        name: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        seen_history(self.look(ReadOp::History { name: Name::new(name)?, limit, before }).await?)
    }

    /// Lists cell names in byte order: at most `limit` names that begin with `prefix` and sort after
    /// `after`.
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        seen_names(self.look(list(prefix, after, limit)).await?)
    }

    /// Opens a view of the cells at one point in time. The view pins that revision until it is dropped, for
    /// at most one hour.
    pub async fn at(&self, at: At) -> Result<AsyncCellsAt> {
        RemoteSnapshot::new(&self.link, &self.branch, at).await.map(AsyncCellsAt)
    }
}

/// A read-only view of a branch's cells at one point in time.
///
/// The server holds the view on a dedicated connection. If that connection breaks, the view is lost.
#[derive(Clone)]
pub struct AsyncCellsAt(Arc<RemoteSnapshot>);

impl AsyncCellsAt {
    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Returns the records in the same view.
    pub fn records(&self) -> AsyncRecordsAt {
        AsyncRecordsAt(self.0.clone())
    }

    /// Returns the runs in the same view.
    pub fn runs(&self) -> AsyncRunsAt {
        AsyncRunsAt(self.0.clone())
    }

    #[doc(hidden)]
    pub fn keyed(&self, space: Name) -> AsyncKeyedAt {
        AsyncKeyedAt::new(space, self.0.clone())
    }

    #[doc(hidden)]
    pub async fn read_keyed(&self, command: StateCommand) -> Result<Answer> {
        keyed::seen(self.look(ReadOp::State(command)).await?)
    }

    async fn look(&self, read: ReadOp) -> Result<ReadReply> {
        self.0.look(read).await
    }

    /// Returns the value of a cell, or `None` if it was absent.
    pub async fn get(&self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name).await?.map(|cell| cell.value))
    }

    /// Returns the value of a cell with its counter, stamp and revision, or `None` if it was absent.
    pub async fn get_versioned(&self, name: &str) -> Result<Option<Versioned>> {
        seen_cell(self.look(ReadOp::Get { name: Name::new(name)? }).await?)
    }

    /// Lists the versions of a cell up to this view's revision, newest first, including deletions. With
    /// `before`, only versions with a smaller counter are listed.
    pub async fn history(
        &self,
        name: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        seen_history(self.look(ReadOp::History { name: Name::new(name)?, limit, before }).await?)
    }

    /// Lists cell names in byte order: at most `limit` names that begin with `prefix` and sort after
    /// `after`.
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        seen_names(self.look(list(prefix, after, limit)).await?)
    }
}

fn list(prefix: &str, after: Option<&str>, limit: usize) -> ReadOp {
    ReadOp::List { prefix: prefix.to_owned(), after: after.map(str::to_owned), limit }
}

fn seen_cell(seen: ReadReply) -> Result<Option<Versioned>> {
    match seen {
        ReadReply::Cell(cell) => Ok(cell),
        _ => Err(Answer::mismatch()),
    }
}

fn seen_names(seen: ReadReply) -> Result<Page> {
    match seen {
        ReadReply::Names(page) => Ok(page),
        _ => Err(Answer::mismatch()),
    }
}

fn seen_history(seen: ReadReply) -> Result<Vec<HistoryEntry>> {
    match seen {
        ReadReply::History(entries) => Ok(entries),
        _ => Err(Answer::mismatch()),
    }
}
