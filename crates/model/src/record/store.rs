//! The interface of a store of records: the engine's own, and whatever else keeps fields with bytes.
//!
//! ```text
//!   get, put, set_field, compare_and_swap, ...        provided, in the words of users
//!        |
//!   get_some  write  delete_when  expire  scan        what a store has to do
//!        |
//!   engine here, engine there, Redis, NATS, ...       capabilities() says what each cannot
//! ```

use super::{
    Capabilities, Condition, Field, FieldValue, Fields, IndexInfo, Record, RecordHistoryEntry,
    RecordPage, RecordPick, RecordWrite, Where,
};
use crate::limits::{PAGE_DEFAULT, check_filters, check_page};
use crate::{Code, Error, Name, Result, Ttl};
use std::future::Future;
use std::pin::Pin;

/// An answer to come.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A store of records. It is used as `Arc<dyn RecordStore>`, on any async runtime or none.
///
/// What a store promises is one thing for all of them: a write is one step that looks, checks and writes; an
/// expired record is invisible everywhere; a scan goes in byte order of keys and filters before it
/// limits. What it may lack is in its [`Capabilities`], and whoever asks for that gets `Unsupported`.
/// The suite in `mainstay-conformance` checks both.
///
/// Nothing happens until an answer is awaited. One that is dropped is lost, but what was asked may be done all
/// the same. An error of the kind `UnknownOutcome` says that nobody knows.
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
    /// What the store can do. It is the same for as long as the store is open.
    fn capabilities(&self) -> Capabilities;

    /// A record with those of these fields that it has, or with all of them.
    fn get_some<'a>(
        &'a self,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>>;

    /// Writes as told, in one step; gives the new counter, or nothing when a condition does not hold, or when
    /// fields were to be taken out of a record that is not there, or its time to live to be changed. Beyond [`Capabilities::check_write`]
    /// nothing may be refused but for its size.
    fn write<'a>(&'a self, write: RecordWrite) -> Answering<'a, Option<u64>>;

    /// Deletes if all conditions hold; says whether it did.
    fn delete_when<'a>(&'a self, key: &'a str, when: Vec<Condition>) -> Answering<'a, bool>;

    /// Changes a record's time to live; says whether the record exists.
    fn expire<'a>(&'a self, key: &'a str, ttl: Ttl) -> Answering<'a, bool>;

    /// Records in byte order of their keys: those that begin with `prefix`, pass all filters, and come behind
    /// `after`, which is the `next` of the page before. [`check_scan`] says what is refused.
    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        filters: &'a [Where],
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RecordPage>;

    /// Whether the store can be asked now: `false`, and no error, when it was closed or cannot be reached.
    fn ping(&self) -> Answering<'_, bool>;

    /// Ends the use of the store, of all handles on it; what was acknowledged stays. Everything but
    /// [`RecordStore::ping`] and closing again answers `Closed` from then on.
    fn close(&self) -> Answering<'_, ()>;

    /// How many records begin with `prefix` and pass all filters: of one time where scans are
    /// snapshots.
    fn count<'a>(&'a self, prefix: &'a str, filters: &'a [Where]) -> Answering<'a, u64> {
        Box::pin(count_pages(self, prefix, filters))
    }

    /// The versions of a record, newest first, deletions included; `before` leaves out counters from it
    /// on.
    fn history<'a>(
        &'a self,
        key: &'a str,
        limit: usize,
        before: Option<u64>,
    ) -> Answering<'a, Vec<RecordHistoryEntry>> {
        let _ = (key, limit, before);
        lacking(self.capabilities().lacks("history", "the past of a record"))
    }

    /// Writes to the first record that passes, in one step: of any number of callers no two get the same.
    /// Gives its key and what it has become, or nothing where none passes.
    fn pick<'a>(&'a self, pick: RecordPick) -> Answering<'a, Option<(String, Record)>> {
        drop(pick);
        lacking(self.capabilities().lacks("picks", "finding and writing in one step"))
    }

    /// Declares an index over fields of records whose keys begin with `prefix`; gives its number. It changes
    /// what a scan costs, never what it gives.
    fn add_index<'a>(&'a self, prefix: &'a str, fields: &'a [Field]) -> Answering<'a, u32> {
        let _ = (prefix, fields);
        lacking(self.capabilities().lacks("indexes", "declaring an index"))
    }

    /// Removes an index; says whether there was one.
    fn drop_index(&self, id: u32) -> Answering<'_, bool> {
        let _ = id;
        lacking(self.capabilities().lacks("indexes", "removing an index"))
    }

    /// All indexes, as they stand.
    fn indexes(&self) -> Answering<'_, Vec<IndexInfo>> {
        lacking(self.capabilities().lacks("indexes", "the list of indexes"))
    }

    /// A record with its fields, counter and expiry.
    fn get<'a>(&'a self, key: &'a str) -> Answering<'a, Option<Record>> {
        Box::pin(async move { self.get_some(&Name::new(key)?, None).await })
    }

    /// What one field holds.
    fn get_field<'a>(&'a self, key: &'a str, field: &'a str) -> Answering<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let (key, wanted) = (Name::new(key)?, [Field::new(field)?]);
            let record = self.get_some(&key, Some(&wanted)).await?;
            Ok(record.and_then(Record::only_value))
        })
    }

    /// Puts fields in and leaves the others; gives the new counter. A time to live is set where one is given,
    /// else the expiry stays.
    fn put<'a>(&'a self, key: &'a str, fields: &'a Fields, ttl: Option<Ttl>) -> Answering<'a, u64> {
        Box::pin(
            async move { RecordWrite::done(self.write(RecordWrite::of(key, fields, ttl)?).await?) },
        )
    }

    /// Puts fields in and drops all others; gives the new counter.
    fn replace<'a>(
        &'a self,
        key: &'a str,
        fields: &'a Fields,
        ttl: Option<Ttl>,
    ) -> Answering<'a, u64> {
        let write = move || Ok(RecordWrite::of(key, fields, ttl)?.replace());
        Box::pin(async move { RecordWrite::done(self.write(write()?).await?) })
    }

    /// Puts one field in and leaves the expiry; gives the new counter.
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

    /// Puts several fields in and leaves the expiry; gives the new counter.
    fn set_fields<'a>(&'a self, key: &'a str, fields: &'a Fields) -> Answering<'a, u64> {
        self.put(key, fields, None)
    }

    /// Takes a field out; says whether there was a record. One without fields is gone.
    fn clear_field<'a>(&'a self, key: &'a str, field: &'a str) -> Answering<'a, bool> {
        Box::pin(async move {
            let write = RecordWrite::to(key)?.clear(field)?;
            Ok(self.write(write).await?.is_some())
        })
    }

    /// Puts a field in if it has the expected bytes; says whether it did. A record or field that is not there
    /// is not made.
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

    /// Deletes; says whether the record existed.
    fn delete<'a>(&'a self, key: &'a str) -> Answering<'a, bool> {
        self.delete_when(key, Vec::new())
    }
}

/// Refuses a scan that makes no sense: a page without a size, too many filters, or a cursor of another scan.
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
    let (mut count, mut after) = (0, None);
    loop {
        let page = store.scan(prefix, filters, after.as_deref(), PAGE_DEFAULT).await?;
        count += page.records.len() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(count);
        }
    }
}

/// The answer that is an error from the start.
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
