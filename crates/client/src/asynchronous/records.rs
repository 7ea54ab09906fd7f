//! Async client: records of a served database.

use super::remote_snapshot::RemoteSnapshot;
use crate::connection_pool::ConnectionPool;
use mainstay_model::build::field_names;
use mainstay_model::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, At, Command, CompactString, Condition, ExpireOnly, Field, FieldValue, Fields, Name,
    Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordWrite, Result, Revision, Ttl,
    Where,
};
use std::sync::Arc;

/// The records of one branch.
///
/// ```no_run
/// # async fn example() -> mainstay::Result<()> {
/// let records = mainstay::remote::connect_async("127.0.0.1:7379").await?.records();
/// assert!(records.compare_and_swap("tasks.17", "state", "pending", "claimed").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncRecords {
    link: Arc<ConnectionPool>,
    branch: CompactString,
}

impl AsyncRecords {
    #[doc(hidden)]
    pub fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncRecords {
        AsyncRecords { link, branch: branch.into() }
    }

    #[doc(hidden)]
    pub fn into_parts(self) -> (Arc<ConnectionPool>, CompactString) {
        (self.link, self.branch)
    }

    async fn look(&self, read: ReadOp) -> Result<ReadReply> {
        self.link.look(&self.branch, read).await
    }

    async fn run(&self, command: impl Into<Command>) -> Result<Answer> {
        self.link.run(&self.branch, command.into()).await
    }

    /// Returns a record with its fields, counter and expiry, or `None` if it is absent.
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, None).await
    }

    /// Returns a record with only those of the given fields that it has, or `None` if the record is absent.
    pub async fn get_fields(&self, key: &str, fields: &[&str]) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, Some(&field_names(fields)?)).await
    }

    /// Returns a record with only those of the `wanted` fields that it has, or with all fields if `wanted`
    /// is `None`. Field names may be any bytes here.
    pub async fn get_some(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        seen_record(self.look(get(key, wanted)).await?)
    }

    /// Returns the bytes of one field, or `None` if the record or the field is absent.
    pub async fn get_field(&self, key: &str, field: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_fields(key, &[field]).await?.and_then(Record::only_value))
    }

    /// Sets fields and keeps the others. Returns the new counter. Sets the time to live if `ttl` is given;
    /// otherwise the expiry is unchanged.
    pub async fn put(&self, key: &str, fields: &Fields, ttl: Option<Ttl>) -> Result<u64> {
        self.write(RecordWrite::of(key, fields, ttl)?).await.and_then(RecordWrite::done)
    }

    /// Replaces all fields by the given ones. Returns the new counter.
    pub async fn replace(&self, key: &str, fields: &Fields, ttl: Option<Ttl>) -> Result<u64> {
        self.write(RecordWrite::of(key, fields, ttl)?.replace()).await.and_then(RecordWrite::done)
    }

    /// Sets one field and keeps the expiry. Returns the new counter.
    pub async fn set_field(
        &self,
        key: &str,
        field: &str,
        value: impl Into<FieldValue>,
    ) -> Result<u64> {
        self.write(RecordWrite::to(key)?.set(field, value)?).await.and_then(RecordWrite::done)
    }

    /// Sets several fields and keeps the expiry. Returns the new counter.
    pub async fn set_fields(&self, key: &str, fields: &Fields) -> Result<u64> {
        self.put(key, fields, None).await
    }

    /// Removes a field. Returns whether the record existed. A record without fields is deleted.
    pub async fn clear_field(&self, key: &str, field: &str) -> Result<bool> {
        Ok(self.write(RecordWrite::to(key)?.clear(field)?).await?.is_some())
    }

    /// Compare-and-swap on one field: sets it if it holds exactly the `expected` bytes. Returns whether it
    /// was set. An absent record or field never matches and is not created.
    pub async fn compare_and_swap(
        &self,
        key: &str,
        field: &str,
        expected: impl AsRef<[u8]>,
        new: impl Into<FieldValue>,
    ) -> Result<bool> {
        let write = RecordWrite::to(key)?.when_field(field, expected)?.set(field, new)?;
        Ok(self.write(write).await?.is_some())
    }

    /// Applies a conditional write in one atomic step. Returns the new counter, or `None` if a condition
    /// does not hold.
    ///
    /// Fails with `Fenced` if a [`Condition::Fence`] does not hold: the caller's fencing token is stale.
    pub async fn write(&self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write).await?.into_maybe_counter()
    }

    /// Deletes a record. Returns whether it existed. Its counter continues if the record is written again.
    pub async fn delete(&self, key: &str) -> Result<bool> {
        self.delete_when(key, Vec::new()).await
    }

    /// Deletes a record if all conditions hold. Returns whether it was deleted.
    pub async fn delete_when(&self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when }).await?.into_did()
    }

    /// Changes a record's time to live. Returns whether the record exists.
    pub async fn expire(&self, key: &str, ttl: Ttl) -> Result<bool> {
        let key = Name::new(key)?;
        let only = ExpireOnly::Always;
        self.run(RecordCommand::Expire { key, ttl, only }).await?.into_did()
    }

    /// Scans records in byte order of their keys: at most `limit` records that begin with `prefix`, pass
    /// all filters, and sort after `after`.
    pub async fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        seen_records(self.look(scan(prefix, filters, after, limit)).await?)
    }

    /// Counts the records whose keys begin with `prefix` and that pass all filters.
    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        seen_count(self.look(count(prefix, filters)).await?)
    }

    /// Lists the versions of a record, newest first, including deletions. With `before`, only versions with
    /// a smaller counter are listed.
    pub async fn history(
        &self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        seen_history(self.look(history(key, limit, before)?).await?)
    }

    /// Opens a view of the records at one point in time. The view pins that revision until it is dropped,
    /// for at most one hour.
    pub async fn at(&self, at: At) -> Result<AsyncRecordsAt> {
        RemoteSnapshot::new(&self.link, &self.branch, at).await.map(AsyncRecordsAt)
    }
}

/// A read-only view of a branch's records at one point in time.
///
/// The server holds the view on a dedicated connection. If that connection breaks, the view is lost.
#[derive(Clone)]
pub struct AsyncRecordsAt(pub(super) Arc<RemoteSnapshot>);

impl AsyncRecordsAt {
    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Returns a record with its fields, counter and expiry, or `None` if it was absent.
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, None).await
    }

    /// Returns a record with only those of the given fields that it had, or `None` if the record was
    /// absent.
    pub async fn get_fields(&self, key: &str, fields: &[&str]) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, Some(&field_names(fields)?)).await
    }

    /// Returns a record with only those of the `wanted` fields that it had, or with all fields if `wanted`
    /// is `None`. Field names may be any bytes here.
    pub async fn get_some(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        seen_record(self.0.look(get(key, wanted)).await?)
    }

    /// Scans records in byte order of their keys: at most `limit` records that begin with `prefix`, pass
    /// all filters, and sort after `after`.
    pub async fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        seen_records(self.0.look(scan(prefix, filters, after, limit)).await?)
    }

    /// Counts the records whose keys begin with `prefix` and that pass all filters.
    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        seen_count(self.0.look(count(prefix, filters)).await?)
    }

    /// Lists the versions of a record up to this view's revision, newest first, including deletions.
    pub async fn history(
        &self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        seen_history(self.0.look(history(key, limit, before)?).await?)
    }
}

fn get(key: &Name, wanted: Option<&[Field]>) -> ReadOp {
    let fields = wanted.map(<[Field]>::to_vec);
    ReadOp::Records(RecordCommand::Get { key: key.clone(), fields })
}

fn scan(prefix: &str, filters: &[Where], after: Option<&str>, limit: usize) -> ReadOp {
    let prefix = prefix.to_owned();
    let filters = filters.to_vec();
    let after = after.map(str::to_owned);
    ReadOp::Records(RecordCommand::Scan { prefix, filters, after, limit })
}

fn count(prefix: &str, filters: &[Where]) -> ReadOp {
    let prefix = prefix.to_owned();
    let filters = filters.to_vec();
    ReadOp::Records(RecordCommand::Count { prefix, filters })
}

fn history(key: &str, limit: usize, before: Option<u64>) -> Result<ReadOp> {
    Ok(ReadOp::RecordHistory { key: Name::new(key)?, limit, before })
}

fn seen_record(seen: ReadReply) -> Result<Option<Record>> {
    match seen {
        ReadReply::Record(record) => Ok(record),
        _ => Err(Answer::mismatch()),
    }
}

fn seen_records(seen: ReadReply) -> Result<RecordPage> {
    match seen {
        ReadReply::Records(page) => Ok(page),
        _ => Err(Answer::mismatch()),
    }
}

fn seen_count(seen: ReadReply) -> Result<u64> {
    match seen {
        ReadReply::Count(count) => Ok(count),
        _ => Err(Answer::mismatch()),
    }
}

fn seen_history(seen: ReadReply) -> Result<Vec<RecordHistoryEntry>> {
    match seen {
        ReadReply::RecordHistory(entries) => Ok(entries),
        _ => Err(Answer::mismatch()),
    }
}
