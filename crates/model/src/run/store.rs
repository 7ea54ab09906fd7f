//! The `RunStore` trait: the async interface of run stores (the engine and other event stores).
//!
//! ```text
//!   get_snapshot, project_snapshot, snapshot_at, get    provided: fetch events and fold them
//!        |
//!   append_event  fetch_events  ping  close             required methods
//!   append_batch  append_expecting  bootstrap  list
//!   delete_run  restore  wait_for                       optional: capabilities() lists the supported ones
//!        |
//!   embedded engine, remote engine, Postgres, DynamoDB, ...
//! ```
//!
//! No operation changes or deletes a single event.

use super::{
    Appended, CanonicalEvent, NewEvent, PageSize, RunCapabilities, RunFilter, RunInfo, RunPage,
    RunSnapshot, reduce,
};
use crate::limits::PAGE_DEFAULT;
use crate::record::lacking;
use crate::{Answering, Result, Stamp, Value};

/// A page of a run's events.
///
/// ```
/// use mainstay_model::FetchOptions;
/// assert_eq!(FetchOptions::default(), FetchOptions { after_seq: 0, limit: 1_000 });
/// assert_eq!(FetchOptions::after(7).limit(10), FetchOptions { after_seq: 7, limit: 10 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// The cursor: fetches only events after this one.
    pub after_seq: u64,
    /// The page size.
    pub limit: usize,
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions { after_seq: 0, limit: PAGE_DEFAULT }
    }
}

impl FetchOptions {
    /// Fetches events after this one.
    pub fn after(after_seq: u64) -> FetchOptions {
        FetchOptions { after_seq, ..FetchOptions::default() }
    }

    /// Sets the page size.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> FetchOptions {
        self.limit = limit;
        self
    }
}

/// A store of runs. It is shared as `Arc<dyn RunStore>` and works on any async runtime or none.
///
/// All stores give the same guarantees: a run has at most one event per key, sequence numbers strictly
/// increase, events are read in order, and they never change. Features that a store may lack are in its
/// [`RunCapabilities`]; a missing one returns `Unsupported`. The suite in `mainstay-conformance` checks both.
///
/// Nothing happens until a future is awaited. Dropping it discards the result, but the operation may still be
/// executed. A retried append is idempotent.
///
/// ```
/// use mainstay_model::{NewEvent, Result, RunStore};
/// /// Records that a step is done; a retry after a crash is the same event.
/// async fn done(store: &dyn RunStore, run: &str, step: &str) -> Result<u64> {
///     let event = NewEvent::new(run, "StepCompleted").step(step).plan("3");
///     Ok(store.append_event(event).await?.run_seq)
/// }
/// ```
pub trait RunStore: Send + Sync {
    /// The store's capabilities. They do not change while the store is open.
    fn capabilities(&self) -> RunCapabilities;

    /// Appends an event. If the run already has an event with its key, returns that event instead. A missing
    /// run is created; a deleted run is the error `RunNotFound`. [`RunCapabilities::check_event`] rejects
    /// invalid events.
    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended>;

    /// Fetches events of a run in sequence order. An unknown run has no events.
    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>>;

    /// Returns whether the store is reachable. A closed or unreachable store is `false` and not an error.
    fn ping(&self) -> Answering<'_, bool>;

    /// Closes the store for all its handles. Acknowledged writes stay. Afterwards everything except
    /// [`RunStore::ping`] and `close` returns `Closed`.
    fn close(&self) -> Answering<'_, ()>;

    /// Returns the run's snapshot by the default reducer, from a stored state if one exists; `None` for an
    /// unknown run.
    fn get_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        self.project_snapshot(run)
    }

    /// Computes the run's snapshot from the first event on, without any stored state.
    fn project_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        self.snapshot_at(run, u64::MAX)
    }

    /// Computes the run's snapshot up to and including an event; `None` if the run has no event up to there.
    fn snapshot_at<'a>(&'a self, run: &'a str, seq: u64) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move { Ok(fold(self, run, seq).await?.map(|folded| folded.snapshot)) })
    }

    /// Returns a run's metadata and status.
    fn get<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunInfo>> {
        Box::pin(async move { Ok(fold(self, run, u64::MAX).await?.map(Folded::into_info)) })
    }

    /// Appends several events atomically. Returns one result per event.
    fn append_batch(&self, events: Vec<NewEvent>) -> Answering<'_, Vec<Appended>> {
        let _ = events;
        lacking(self.capabilities().lacks("batches", "appending several events in one step"))
    }

    /// Appends an event if the run's last sequence number is `expected_seq` (0 for no events), otherwise
    /// fails with `SequenceMoved`. If the run already has an event with its key, returns that event, so that
    /// a retry is safe.
    fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Answering<'_, Appended> {
        let _ = (event, expected_seq);
        lacking(self.capabilities().lacks("expected_seq", "an append on the last sequence"))
    }

    /// Creates a run with metadata and its first events. Fails with `RunExists` if it exists.
    fn bootstrap<'a>(
        &'a self,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        let _ = (run, metadata, events);
        lacking(self.capabilities().lacks("bootstrap", "making a run with its first events"))
    }

    /// Lists runs in byte order of their names: those that match, after `after`, the `next` of the previous
    /// page. [`RunCapabilities::check_list`] rejects invalid arguments.
    fn list<'a>(
        &'a self,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        let _ = (filter, after, limit);
        lacking(self.capabilities().lacks("listing", "a list of runs"))
    }

    /// Deletes a whole run. Returns whether it existed. Afterwards nothing can be appended to it.
    fn delete_run<'a>(&'a self, run: &'a str) -> Answering<'a, bool> {
        let _ = run;
        lacking(self.capabilities().lacks("deletion", "deleting a run"))
    }

    /// Writes archived events with their sequence numbers, ids, keys and times. Existing events are skipped.
    /// A deleted run becomes visible again.
    fn restore(&self, events: Vec<CanonicalEvent>) -> Answering<'_, ()> {
        let _ = events;
        lacking(self.capabilities().lacks("restoring", "writing events as an archive kept them"))
    }

    /// Waits until the run has an event after `after_seq`, or for `wait_ms`. Returns whether it has one. A
    /// store may fail with `SequenceMoved` if the existing run does not even have event `after_seq`.
    fn wait_for<'a>(&'a self, run: &'a str, after_seq: u64, wait_ms: u64) -> Answering<'a, bool> {
        let _ = (run, after_seq, wait_ms);
        lacking(self.capabilities().lacks("tail_wakes", "waiting for an event"))
    }
}

/// A folded snapshot with the times of the first and last event.
struct Folded {
    snapshot: RunSnapshot,
    created: Stamp,
    updated: Stamp,
}

impl Folded {
    fn add(mut self, event: &CanonicalEvent) -> Folded {
        reduce(&mut self.snapshot, event);
        self.updated = event.stored_us();
        self
    }

    fn into_info(self) -> RunInfo {
        RunInfo {
            status: self.snapshot.status,
            last_event_seq: self.snapshot.last_event_seq,
            inconsistent: self.snapshot.is_inconsistent(),
            created: self.created,
            updated: self.updated,
            revision: 0,
            metadata: None,
            run_id: self.snapshot.run_id,
        }
    }
}

/// Folds the events up to `upto`, page by page.
async fn fold<S: RunStore + ?Sized>(store: &S, run: &str, upto: u64) -> Result<Option<Folded>> {
    let mut folded = None;
    let mut after = 0;
    let mut size = PageSize::upto(PAGE_DEFAULT);
    loop {
        let page = size.fetch(store, run, after).await?;
        for event in page.iter().take_while(|event| event.run_seq <= upto) {
            let stored = event.stored_us();
            let so_far = folded.take().unwrap_or_else(|| Folded {
                snapshot: RunSnapshot::new(run),
                created: stored,
                updated: stored,
            });
            folded = Some(so_far.add(event));
        }
        match page.last() {
            Some(last) if last.run_seq < upto => after = last.run_seq,
            _ => return Ok(folded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instant, RunStatus};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// A store with no optional capability, and many events of one run.
    struct Plain(Vec<CanonicalEvent>);

    impl RunStore for Plain {
        fn capabilities(&self) -> RunCapabilities {
            RunCapabilities::none("plain")
        }

        fn append_event(&self, _: NewEvent) -> Answering<'_, Appended> {
            lacking(self.capabilities().lacks("writing", "an append"))
        }

        fn fetch_events<'a>(
            &'a self,
            run: &'a str,
            options: FetchOptions,
        ) -> Answering<'a, Vec<CanonicalEvent>> {
            let page = self
                .0
                .iter()
                .filter(|event| event.run_id == run && event.run_seq > options.after_seq)
                .take(options.limit)
                .cloned()
                .collect();
            Box::pin(std::future::ready(Ok(page)))
        }

        fn ping(&self) -> Answering<'_, bool> {
            Box::pin(std::future::ready(Ok(true)))
        }

        fn close(&self) -> Answering<'_, ()> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    /// Returns the result of a future that is ready at once.
    fn now<T>(answer: impl Future<Output = T>) -> T {
        match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn event(seq: u64) -> CanonicalEvent {
        let kind = ["Tick", "RunStarted"][usize::from(seq == 3)];
        let stored = Instant::of_us(seq * 1_000_000);
        NewEvent::new("r", kind).stored(seq, format!("e{seq}"), format!("k{seq}"), stored)
    }

    #[test]
    fn snapshots_are_folded_page_by_page() {
        let store = Plain((1..=2_500).map(|n| event(2 * n + 1)).collect());
        let store: &dyn RunStore = &store;
        let snapshot = now(store.get_snapshot("r")).unwrap().unwrap();
        assert_eq!((snapshot.last_event_seq, snapshot.status), (5_001, RunStatus::Running));
        let early = now(store.snapshot_at("r", 2_004)).unwrap().unwrap();
        assert_eq!(early.last_event_seq, 2_003);
        assert_eq!(now(store.snapshot_at("r", 2)).unwrap(), None);
        assert_eq!(now(store.project_snapshot("other")).unwrap(), None);
        let info = now(store.get("r")).unwrap().unwrap();
        assert_eq!((info.created, info.updated), (3_000_000, 5_001_000_000));
        assert_eq!((info.status, info.last_event_seq), (RunStatus::Running, 5_001));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let store = Plain(Vec::new());
        let words = [
            (now(store.append_batch(vec![])).unwrap_err(), "`batches`"),
            (now(store.append_expecting(NewEvent::default(), 0)).unwrap_err(), "`expected_seq`"),
            (now(store.bootstrap("r", Value::Null, vec![])).unwrap_err(), "`bootstrap`"),
            (now(store.list(&RunFilter::default(), None, 1)).unwrap_err(), "`listing`"),
            (now(store.delete_run("r")).unwrap_err(), "`deletion`"),
            (now(store.restore(vec![])).unwrap_err(), "`restoring`"),
            (now(store.wait_for("r", 0, 1)).unwrap_err(), "`tail_wakes`"),
        ];
        for (error, named) in words {
            assert!(error.message().contains(named), "{error}");
        }
    }

    #[test]
    fn a_store_is_shared_between_threads() {
        fn shared<T: Send + Sync + ?Sized>() {}
        shared::<dyn RunStore>();
        shared::<std::sync::Arc<dyn RunStore>>();
    }
}
