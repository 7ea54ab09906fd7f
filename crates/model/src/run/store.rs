//! The interface of a store of runs: the engine's own, and whatever else keeps events in order.
//!
//! ```text
//!   get_snapshot, project_snapshot, snapshot_at, get    provided: events are fetched and folded
//!        |
//!   append_event  fetch_events  ping  close             what a store has to do
//!   append_batch  append_expecting  bootstrap  list
//!   delete_run  restore  wait_for                       what it may: capabilities() says which
//!        |
//!   engine here, engine there, Postgres, DynamoDB, ...
//! ```
//!
//! There is no way to change or delete one event.

use super::{
    Appended, CanonicalEvent, NewEvent, PageSize, RunCapabilities, RunFilter, RunInfo, RunPage,
    RunSnapshot, reduce,
};
use crate::limits::PAGE_DEFAULT;
use crate::record::lacking;
use crate::{Answering, Result, Stamp, Value};

/// Which events of a run are fetched.
///
/// ```
/// use mainstay_model::FetchOptions;
/// assert_eq!(FetchOptions::default(), FetchOptions { after_seq: 0, limit: 1_000 });
/// assert_eq!(FetchOptions::after(7).limit(10), FetchOptions { after_seq: 7, limit: 10 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// Only events behind this one.
    pub after_seq: u64,
    /// At most this many.
    pub limit: usize,
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions { after_seq: 0, limit: PAGE_DEFAULT }
    }
}

impl FetchOptions {
    /// A page of events behind this one.
    pub fn after(after_seq: u64) -> FetchOptions {
        FetchOptions { after_seq, ..FetchOptions::default() }
    }

    /// At most this many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> FetchOptions {
        self.limit = limit;
        self
    }
}

/// A store of runs. It is used as `Arc<dyn RunStore>`, on any async runtime or none.
///
/// What a store promises is one thing for all of them: a run has one event of each key, sequences rise strictly, events come
/// in their order and are never changed. What it may lack is in its [`RunCapabilities`], and
/// whoever asks for that gets `Unsupported`. The suite in `mainstay-conformance` checks both.
///
/// Nothing happens until an answer is awaited. One that is dropped is lost, but what was asked may be done all
/// the same: an append is told again, and is one event.
///
/// ```
/// use mainstay_model::{NewEvent, Result, RunStore};
/// /// Says that a step is done; told again after a crash it is the same event.
/// async fn done(store: &dyn RunStore, run: &str, step: &str) -> Result<u64> {
///     let event = NewEvent::new(run, "StepCompleted").step(step).plan("3");
///     Ok(store.append_event(event).await?.run_seq)
/// }
/// ```
pub trait RunStore: Send + Sync {
    /// What the store can do. It is the same for as long as the store is open.
    fn capabilities(&self) -> RunCapabilities;

    /// Appends an event. One whose key the run has already is the first one again; a run that there is not is made, and
    /// one that was deleted is not found. [`RunCapabilities::check_event`] says what is refused.
    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended>;

    /// Events of a run in the order of their sequences; none where there is no such run.
    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>>;

    /// Whether the store can be asked now: `false`, and no error, when it was closed or cannot be reached.
    fn ping(&self) -> Answering<'_, bool>;

    /// Ends the use of the store, of all handles on it; what was acknowledged stays. Everything but
    /// [`RunStore::ping`] and closing again answers `Closed` from then on.
    fn close(&self) -> Answering<'_, ()>;

    /// What the events of a run add up to, by the reducer that all runs have: from what was kept, where something was.
    /// Nothing where there is no such run.
    fn get_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        self.project_snapshot(run)
    }

    /// The same, from the first event on: nothing that was kept is looked at.
    fn project_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        self.snapshot_at(run, u64::MAX)
    }

    /// What the events of a run up to one of them add up to; nothing where there is none.
    fn snapshot_at<'a>(&'a self, run: &'a str, seq: u64) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move { Ok(fold(self, run, seq).await?.map(|folded| folded.snapshot)) })
    }

    /// What is known of a run.
    fn get<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunInfo>> {
        Box::pin(async move { Ok(fold(self, run, u64::MAX).await?.map(Folded::into_info)) })
    }

    /// Appends several events, all or none; an answer per position.
    fn append_batch(&self, events: Vec<NewEvent>) -> Answering<'_, Vec<Appended>> {
        let _ = events;
        lacking(self.capabilities().lacks("batches", "appending several events in one step"))
    }

    /// Appends an event if this is the run's last sequence, 0 where it has none; `SequenceMoved` if not. One whose key the run
    /// has already is the first one again, so that it can be told again.
    fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Answering<'_, Appended> {
        let _ = (event, expected_seq);
        lacking(self.capabilities().lacks("expected_seq", "an append on the last sequence"))
    }

    /// Makes a run with what is known of it and its first events; `RunExists` where there is one.
    fn bootstrap<'a>(
        &'a self,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        let _ = (run, metadata, events);
        lacking(self.capabilities().lacks("bootstrap", "making a run with its first events"))
    }

    /// Runs in byte order of their names: those that pass and come behind `after`, which is the `next` of the page
    /// before. [`RunCapabilities::check_list`] says what is refused.
    fn list<'a>(
        &'a self,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        let _ = (filter, after, limit);
        lacking(self.capabilities().lacks("listing", "a list of runs"))
    }

    /// Deletes a whole run; says whether there was one. Nothing can be appended to it from then on.
    fn delete_run<'a>(&'a self, run: &'a str) -> Answering<'a, bool> {
        let _ = run;
        lacking(self.capabilities().lacks("deletion", "deleting a run"))
    }

    /// Writes events as an archive kept them, with their sequences, names, keys and times; those that are there
    /// already are left alone. A run that was deleted is there again.
    fn restore(&self, events: Vec<CanonicalEvent>) -> Answering<'_, ()> {
        let _ = events;
        lacking(self.capabilities().lacks("restoring", "writing events as an archive kept them"))
    }

    /// Waits until a run has an event behind this one, or for as long as told; says whether it has one. A store may
    /// answer `SequenceMoved` where there is a run that has not even this one.
    fn wait_for<'a>(&'a self, run: &'a str, after_seq: u64, wait_ms: u64) -> Answering<'a, bool> {
        let _ = (run, after_seq, wait_ms);
        lacking(self.capabilities().lacks("tail_wakes", "waiting for an event"))
    }
}

/// What the events of a run add up to, and when they came.
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

/// Folds the events up to one of them, page by page.
async fn fold<S: RunStore + ?Sized>(store: &S, run: &str, upto: u64) -> Result<Option<Folded>> {
    let (mut folded, mut after, mut size) = (None, 0, PageSize::upto(PAGE_DEFAULT));
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

    /// A store that can do nothing but what all can; it has many events of one run.
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
            let wanted =
                |event: &&CanonicalEvent| event.run_id == run && event.run_seq > options.after_seq;
            let page = self.0.iter().filter(wanted).take(options.limit).cloned().collect();
            Box::pin(std::future::ready(Ok(page)))
        }

        fn ping(&self) -> Answering<'_, bool> {
            Box::pin(std::future::ready(Ok(true)))
        }

        fn close(&self) -> Answering<'_, ()> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    /// What is ready at once.
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
