//! Records of a served database.

use super::remote_snapshot::RemoteSnapshot;
use crate::handle::records::{always, field_names, filled, only_value};
use crate::remote::connection_pool::ConnectionPool;
use crate::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, At, Command, CompactString, Condition, ExpireOnly, Field, FieldValue, Fields, Name,
    Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordWrite, Result, Revision, Ttl,
    Where,
};
use std::sync::Arc;

/// The records of a branch.
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
    pub(crate) fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncRecords {
        AsyncRecords { link, branch: branch.into() }
    }

    pub(crate) fn into_parts(self) -> (Arc<ConnectionPool>, CompactString) {
        (self.link, self.branch)
    }

    async fn look(&self, read: ReadOp) -> Result<ReadReply> {
        self.link.look(&self.branch, read).await
    }

    async fn run(&self, command: impl Into<Command>) -> Result<Answer> {
        self.link.run(&self.branch, command.into()).await
    }

    /// A record with its fields, counter and expiry.
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, None).await
    }

    /// A record with those of these fields that it has.
    pub async fn get_fields(&self, key: &str, fields: &[&str]) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, Some(&field_names(fields)?)).await
    }

    /// A record with those of these fields that it has, or with all of them. Names of fields are any
    /// bytes here.
    pub async fn get_some(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        seen_record(self.look(get(key, wanted)).await?)
    }

    /// What one field holds.
    pub async fn get_field(&self, key: &str, field: &str) -> Result<Option<Vec<u8>>> {
        Ok(only_value(self.get_fields(key, &[field]).await?))
    }

    /// Puts fields in and leaves the others; gives the new counter. A time to live is set where one is
    /// given, else the expiry stays.
    pub async fn put(&self, key: &str, fields: &Fields, ttl: Option<Ttl>) -> Result<u64> {
        self.write(filled(key, fields, ttl)?).await.and_then(always)
    }

    /// Puts fields in and drops all others; gives the new counter.
    pub async fn replace(&self, key: &str, fields: &Fields, ttl: Option<Ttl>) -> Result<u64> {
        self.write(filled(key, fields, ttl)?.replace()).await.and_then(always)
    }

    /// Puts one field in and leaves the expiry; gives the new counter.
    pub async fn set_field(
        &self,
        key: &str,
        field: &str,
        value: impl Into<FieldValue>,
    ) -> Result<u64> {
        self.write(RecordWrite::to(key)?.set(field, value)?).await.and_then(always)
    }

    /// Puts several fields in and leaves the expiry; gives the new counter.
    pub async fn set_fields(&self, key: &str, fields: &Fields) -> Result<u64> {
        self.put(key, fields, None).await
    }

    /// Takes a field out; says whether there was a record. One without fields is gone.
    pub async fn clear_field(&self, key: &str, field: &str) -> Result<bool> {
        Ok(self.write(RecordWrite::to(key)?.clear(field)?).await?.is_some())
    }

    /// Puts a field in if it has the expected bytes; says whether it did. A record or field that is not
    /// there is not made.
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

    /// Writes as told, in one step; gives the new counter, or nothing when a condition does not hold.
    ///
    /// The error `Fenced` says that a [`Condition::Fence`] does not: what the caller held is no longer
    /// its own.
    pub async fn write(&self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write).await?.into_maybe_counter()
    }

    /// Deletes; says whether the record existed. Its counter goes on.
    pub async fn delete(&self, key: &str) -> Result<bool> {
        self.delete_when(key, Vec::new()).await
    }

    /// Deletes if all conditions hold; says whether it did.
    pub async fn delete_when(&self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when }).await?.into_did()
    }

    /// Changes a record's time to live; says whether the record exists.
    pub async fn expire(&self, key: &str, ttl: Ttl) -> Result<bool> {
        let (key, only) = (Name::new(key)?, ExpireOnly::Always);
        self.run(RecordCommand::Expire { key, ttl, only }).await?.into_did()
    }

    /// Records in byte order of their keys: those that begin with `prefix`, pass all filters, and come
    /// behind `after`.
    pub async fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        seen_records(self.look(scan(prefix, filters, after, limit)).await?)
    }

    /// How many records there are that begin with `prefix` and pass all filters.
    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        seen_count(self.look(count(prefix, filters)).await?)
    }

    /// The versions of a record, newest first, deletions included; `before` leaves out counters from
    /// it on.
    pub async fn history(
        &self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        seen_history(self.look(history(key, limit, before)?).await?)
    }

    /// The records as they were, for as long as the view lives (an hour at most).
    pub async fn at(&self, at: At) -> Result<AsyncRecordsAt> {
        RemoteSnapshot::new(&self.link, &self.branch, at).await.map(AsyncRecordsAt)
    }
}

/// The records of a branch as of one point in time.
///
/// The server holds the view, on a connection of its own: when that breaks, the view is gone.
#[derive(Clone)]
pub struct AsyncRecordsAt(pub(super) Arc<RemoteSnapshot>);

impl AsyncRecordsAt {
    /// The revision it shows.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// A record with its fields, counter and expiry.
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, None).await
    }

    /// A record with those of these fields that it had.
    pub async fn get_fields(&self, key: &str, fields: &[&str]) -> Result<Option<Record>> {
        self.get_some(&Name::new(key)?, Some(&field_names(fields)?)).await
    }

    /// A record with those of these fields that it had, or with all of them. Names of fields are any
    /// bytes here.
    pub async fn get_some(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        seen_record(self.0.look(get(key, wanted)).await?)
    }

    /// Records in byte order of their keys.
    pub async fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        seen_records(self.0.look(scan(prefix, filters, after, limit)).await?)
    }

    /// How many records there are that begin with `prefix` and pass all filters.
    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        seen_count(self.0.look(count(prefix, filters)).await?)
    }

    /// The versions of a record up to here, newest first.
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
    let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
    let after = after.map(str::to_owned);
    ReadOp::Records(RecordCommand::Scan { prefix, filters, after, limit })
}

fn count(prefix: &str, filters: &[Where]) -> ReadOp {
    let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
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
