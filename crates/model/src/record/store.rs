//! The `RecordStore` trait: the async interface of record stores (the engine, Redis, NATS and others).
//!
//! ```text
//!   get, put, set_field, compare_and_swap, ...        provided methods
//!        |
//!   get_some  write  delete_when  expire  scan        required methods
//!        |
//!   embedded engine, remote engine, Redis, NATS, ...  capabilities() lists the missing features
//! ```

use super::{
    Capabilities, Condition, Field, FieldValue, Fields, IndexInfo, Record, RecordHistoryEntry,
    RecordPage, RecordPick, RecordWrite, Where,
};
use crate::limits::{PAGE_DEFAULT, check_filters, check_page};
use crate::{Code, Error, Name, Result, Ttl};
use std::future::Future;
use std::pin::Pin;

/// A boxed future of a store's result.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A store of records. It is shared as `Arc<dyn RecordStore>` and works on any async runtime or none.
///
/// All stores give the same guarantees. A write checks its conditions and applies its changes in one atomic
/// step. An expired record is invisible to all operations. A scan is in byte order of the keys, and filters
/// apply before the limit. Features that a store may lack are in its [`Capabilities`]; a missing one returns
/// `Unsupported`. The suite in `mainstay-conformance` checks both.
///
/// Nothing happens until a future is awaited. Dropping it discards the result, but the operation may still be
/// executed. An error of the kind `UnknownOutcome` means that the operation may or may not have been
/// executed.
///
/// ```
/// use mainstay_model::{RecordStore, RecordWrite, Result};
/// /// Of any number of workers one gets the task.
/// async fn claim(store: &dyn RecordStore, task: &str, worker: &str) -> Result<bool> {
///     let claim = RecordWrite::to(task)?
///         .when_field("state", "pending")?
///         .set("state", "claimed")?
///         .set("worker", worker)?;
///     Ok(store.write(claim).await?.is_some())
/// }
/// ```
pub trait RecordStore: Send + Sync {
    /// The store's capabilities. They do not change while the store is open.
    fn capabilities(&self) -> Capabilities;

    /// Reads a record with all its fields, or with those of `wanted` that exist.
    fn get_some<'a>(
        &'a self,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>>;

    /// Applies a write atomically and returns the new counter. Returns `None` if a condition does not hold.
    /// Also returns `None` if the write only removes fields or changes the time to live and the record does
    /// not exist. Beyond [`Capabilities::check_write`], a store may refuse a write only for its size.
    fn write<'a>(&'a self, write: RecordWrite) -> Answering<'a, Option<u64>>;

    /// Deletes the record if all conditions hold. Returns whether it did.
    fn delete_when<'a>(&'a self, key: &'a str, when: Vec<Condition>) -> Answering<'a, bool>;

    /// Changes a record's time to live. Returns whether the record exists.
    fn expire<'a>(&'a self, key: &'a str, ttl: Ttl) -> Answering<'a, bool>;

    /// Scans records in byte order of their keys: those with `prefix` that match all filters, after `after`,
    /// the `next` of the previous page. [`check_scan`] rejects invalid arguments.
    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        filters: &'a [Where],
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RecordPage>;

    /// Returns whether the store is reachable. A closed or unreachable store is `false` and not an error.
    fn ping(&self) -> Answering<'_, bool>;

    /// Closes the store for all its handles. Acknowledged writes stay. Afterwards everything except
    /// [`RecordStore::ping`] and `close` returns `Closed`.
    fn close(&self) -> Answering<'_, ()>;

    /// Counts the records with `prefix` that match all filters. The count is of one point in time if scans
    /// are snapshots.
    fn count<'a>(&'a self, prefix: &'a str, filters: &'a [Where]) -> Answering<'a, u64> {
        Box::pin(count_pages(self, prefix, filters))
    }

    /// Reads the versions of a record, newest first, including deletions. `before` leaves out versions with
    /// this counter or a higher one.
    fn history<'a>(
        &'a self,
        key: &'a str,
        limit: usize,
        before: Option<u64>,
    ) -> Answering<'a, Vec<RecordHistoryEntry>> {
        let _ = (key, limit, before);
        lacking(self.capabilities().lacks("history", "the past of a record"))
    }

    /// Finds the first matching record and writes to it in one atomic step, so that two concurrent callers
    /// never get the same record. Returns its key and its new content, or `None` if no record matches.
    fn pick<'a>(&'a self, pick: RecordPick) -> Answering<'a, Option<(String, Record)>> {
        drop(pick);
        lacking(self.capabilities().lacks("picks", "finding and writing in one step"))
    }

    /// Declares a secondary index on fields of records whose keys have `prefix`. Returns its number. An index
    /// changes the cost of a scan, never its result.
    fn add_index<'a>(&'a self, prefix: &'a str, fields: &'a [Field]) -> Answering<'a, u32> {
        let _ = (prefix, fields);
        lacking(self.capabilities().lacks("indexes", "declaring an index"))
    }

    /// Removes an index. Returns whether it existed.
    fn drop_index(&self, id: u32) -> Answering<'_, bool> {
        let _ = id;
        lacking(self.capabilities().lacks("indexes", "removing an index"))
    }

    /// Lists all indexes with their state.
    fn indexes(&self) -> Answering<'_, Vec<IndexInfo>> {
        lacking(self.capabilities().lacks("indexes", "the list of indexes"))
    }

    /// Reads a record with all its fields, its counter and its expiry.
    fn get<'a>(&'a self, key: &'a str) -> Answering<'a, Option<Record>> {
        Box::pin(async move { self.get_some(&Name::new(key)?, None).await })
    }

    /// Reads the value of one field.
    fn get_field<'a>(&'a self, key: &'a str, field: &'a str) -> Answering<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let key = Name::new(key)?;
            let wanted = [Field::new(field)?];
            let record = self.get_some(&key, Some(&wanted)).await?;
            Ok(record.and_then(Record::only_value))
        })
    }

    /// Sets fields and keeps the others. Returns the new counter. It sets the time to live if one is given;
    /// otherwise the expiry stays.
    fn put<'a>(&'a self, key: &'a str, fields: &'a Fields, ttl: Option<Ttl>) -> Answering<'a, u64> {
        Box::pin(
            async move { RecordWrite::done(self.write(RecordWrite::of(key, fields, ttl)?).await?) },
        )
    }

    /// Sets fields and drops all others. Returns the new counter.
    fn replace<'a>(
        &'a self,
        key: &'a str,
        fields: &'a Fields,
        ttl: Option<Ttl>,
    ) -> Answering<'a, u64> {
        let write = move || Ok(RecordWrite::of(key, fields, ttl)?.replace());
        Box::pin(async move { RecordWrite::done(self.write(write()?).await?) })
    }

    /// Sets one field and keeps the expiry. Returns the new counter.
    fn set_field<'a>(
        &'a self,
        key: &'a str,
        field: &'a str,
        value: FieldValue,
    ) -> Answering<'a, u64> {
        Box::pin(async move {
            RecordWrite::done(self.write(RecordWrite::to(key)?.set(field, value)?).await?)
        })
    }

    /// Sets several fields and keeps the expiry. Returns the new counter.
    fn set_fields<'a>(&'a self, key: &'a str, fields: &'a Fields) -> Answering<'a, u64> {
        self.put(key, fields, None)
    }

    /// Removes a field. Returns whether the record existed. A record without fields is deleted.
    fn clear_field<'a>(&'a self, key: &'a str, field: &'a str) -> Answering<'a, bool> {
        Box::pin(async move {
            let write = RecordWrite::to(key)?.clear(field)?;
            Ok(self.write(write).await?.is_some())
        })
    }

    /// Sets a field if it has the expected bytes. Returns whether it did. It does not create a missing record
    /// or field.
    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        field: &'a str,
        expected: &'a [u8],
        new: FieldValue,
    ) -> Answering<'a, bool> {
        Box::pin(async move {
            let write = RecordWrite::to(key)?.when_field(field, expected)?.set(field, new)?;
            Ok(self.write(write).await?.is_some())
        })
    }

    /// Deletes the record. Returns whether it existed.
    fn delete<'a>(&'a self, key: &'a str) -> Answering<'a, bool> {
        self.delete_when(key, Vec::new())
    }
}

/// Rejects an invalid scan: an invalid page size, too many filters, or a cursor of another scan.
pub fn check_scan(
    prefix: &str,
    filters: &[Where],
    after: Option<&str>,
    limit: usize,
) -> Result<()> {
    check_page(limit)?;
    check_filters(filters)?;
    match after {
        Some(after) if !after.starts_with(prefix) => {
            let message = format!(
                "the cursor {after:?} is of another scan: it does not begin with {prefix:?}; pass the `next` of \
                 the page before"
            );
            Err(Error::new(Code::InvalidArgument, message))
        }
        _ => Ok(()),
    }
}

async fn count_pages<S: RecordStore + ?Sized>(
    store: &S,
    prefix: &str,
    filters: &[Where],
) -> Result<u64> {
    let mut count = 0;
    let mut after = None;
    loop {
        let page = store.scan(prefix, filters, after.as_deref(), PAGE_DEFAULT).await?;
        count += page.records.len() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(count);
        }
    }
}

/// A future that is ready with an error.
pub(crate) fn lacking<'a, T: Send + 'a>(error: Error) -> Answering<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_scan() {
        assert!(check_scan("a/", &[], Some("a/7"), 1).is_ok());
        assert!(check_scan("", &[], Some("b"), 1).is_ok());
        let other = check_scan("a/", &[], Some("b/7"), 1).unwrap_err();
        assert_eq!(other.code(), Code::InvalidArgument);
    }

    #[test]
    fn a_store_is_shared_between_threads() {
        fn shared<T: Send + Sync + ?Sized>() {}
        shared::<dyn RecordStore>();
        shared::<std::sync::Arc<dyn RecordStore>>();
    }
}
