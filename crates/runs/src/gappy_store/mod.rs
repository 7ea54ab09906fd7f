//! In-memory run store for tests that imitates distributed stores: burned sequence numbers and late-visible
//! events.
//!
//! ```text
//!   append --> number --> events  1 2 . 4 5 .          . burned: never filled
//!                            held       4              held: stored, acknowledged, not visible yet
//!                            |
//!   fetch <------------------'  1 2 5                   show(4) -> 1 2 4 5
//! ```

mod run_log;

use crate::clock::AsyncClock;
use mainstay_model::limits::check_page;
use mainstay_model::{
    Answering, Appended, CanonicalEvent, Code, Error, FetchOptions, Name, NewEvent, Result,
    RunCapabilities, RunFilter, RunInfo, RunPage, RunStore, Stamp, Value,
};
use parking_lot::Mutex;
use run_log::RunLog;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;

/// The largest payload of an event, in bytes.
const PAYLOAD_LIMIT_BYTES: usize = 1 << 20;

/// Automatic faults of a gappy store. Zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapBehaviour {
    /// Skips a number before each n-th append.
    pub skip_every: u64,
    /// Hides each n-th event until it is made visible.
    pub hide_every: u64,
}

/// An in-memory store with gaps, some of them permanent, and late events.
///
/// It is for tests of projectors and of readers that must not rely on more than the contract guarantees.
pub struct GappyStore {
    time: Arc<dyn AsyncClock>,
    state: Mutex<StoreState>,
    visibility_changed: Notify,
}

#[derive(Default)]
struct StoreState {
    is_closed: bool,
    behaviour: GapBehaviour,
    /// The largest page in bytes; `None` for no limit.
    answer_limit_bytes: Option<usize>,
    /// The number of events written, from which event ids are made.
    sequence: u64,
    runs: BTreeMap<String, RunLog>,
}

impl GappyStore {
    /// Creates an empty store whose events get their storage times from `time`.
    pub fn new(time: Arc<dyn AsyncClock>) -> GappyStore {
        GappyStore::with_behaviour(time, GapBehaviour::default())
    }

    /// Creates an empty store that burns numbers and holds back events automatically.
    pub fn with_behaviour(time: Arc<dyn AsyncClock>, behaviour: GapBehaviour) -> GappyStore {
        let state = StoreState { behaviour, ..StoreState::default() };
        GappyStore { time, state: Mutex::new(state), visibility_changed: Notify::new() }
    }

    /// Burns sequence numbers of a run, which no event will ever have.
    pub fn skip_numbers(&self, run: &str, count: u64) {
        self.state.lock().log(run, self.time.now_us()).skip_numbers(count);
    }

    /// Holds back the next event of a run.
    pub fn hide_next(&self, run: &str) {
        self.state.lock().log(run, self.time.now_us()).hide_next = true;
    }

    /// The events of a run that are held back.
    pub fn hidden(&self, run: &str) -> Vec<u64> {
        let state = self.state.lock();
        state.runs.get(run).map_or_else(Vec::new, |log| log.hidden.iter().copied().collect())
    }

    /// Shows an event that was held back. Returns whether it was.
    pub fn make_visible(&self, run: &str, seq: u64) -> bool {
        let was_hidden =
            self.state.lock().runs.get_mut(run).is_some_and(|log| log.hidden.remove(&seq));
        self.visibility_changed.notify_waiters();
        was_hidden
    }

    /// Shows all events that are held back.
    pub fn make_all_visible(&self) {
        self.state.lock().runs.values_mut().for_each(|log| log.hidden.clear());
        self.visibility_changed.notify_waiters();
    }

    /// Rejects pages whose events are larger than this in total, as networked stores do.
    pub fn limit_answers(&self, bytes: usize) {
        self.state.lock().answer_limit_bytes = Some(bytes);
    }

    /// Changes the state and wakes the waiting readers.
    fn change<T>(&self, change: impl FnOnce(&mut StoreState, Stamp) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        state.check_open()?;
        let result = change(&mut state, self.time.now_us());
        drop(state);
        self.visibility_changed.notify_waiters();
        result
    }

    fn read<T>(&self, run: &str, read: impl FnOnce(&RunLog) -> T) -> Result<Option<T>> {
        Name::new(run)?;
        let state = self.state.lock();
        state.check_open()?;
        Ok(state.runs.get(run).filter(|log| !log.is_deleted).map(read))
    }

    fn page(&self, run: &str, options: FetchOptions) -> Result<Vec<CanonicalEvent>> {
        check_page(options.limit)?;
        let page = |log: &RunLog| {
            log.visible(options.after_seq).take(options.limit).cloned().collect::<Vec<_>>()
        };
        let page = self.read(run, page)?.unwrap_or_default();
        let bytes: usize = page.iter().map(CanonicalEvent::weight_bytes).sum();
        match self.state.lock().answer_limit_bytes {
            Some(limit) if bytes > limit => Err(page_too_large(bytes, limit)),
            _ => Ok(page),
        }
    }

    fn has_events_after(&self, run: &str, after_seq: u64) -> Result<bool> {
        let is_present = self.read(run, |log| log.visible(after_seq).next().is_some())?;
        Ok(is_present.unwrap_or(false))
    }
}

#[cold]
fn page_too_large(bytes: usize, limit: usize) -> Error {
    let message = format!("a page has {bytes} bytes, {limit} are the most: ask for fewer events");
    Error::new(Code::TransactionTooLarge, message)
}

impl StoreState {
    fn check_open(&self) -> Result<()> {
        if self.is_closed {
            Err(Error::new(Code::Closed, "the store was closed: open another one"))
        } else {
            Ok(())
        }
    }

    fn log(&mut self, run: &str, now_us: Stamp) -> &mut RunLog {
        self.runs.entry(run.to_owned()).or_insert_with(|| RunLog::new(now_us))
    }

    /// Checks everything about an event before anything is written. Returns its idempotency key.
    fn check(&self, event: &NewEvent) -> Result<String> {
        CAPABILITIES.check_event(event)?;
        if event.message.is_some() {
            let message = "this store has no outbox: append the event without its message";
            return Err(Error::new(Code::Unsupported, message));
        }
        self.check_not_deleted(&event.run_id)?;
        event.key()
    }

    fn check_not_deleted(&self, run: &str) -> Result<()> {
        if !self.runs.get(run).is_some_and(|log| log.is_deleted) {
            return Ok(());
        }
        let message =
            format!("run `{run}` was deleted: append to one of another name, or restore it first");
        Err(Error::new(Code::RunNotFound, message))
    }

    fn append_all(&mut self, events: Vec<NewEvent>, now_us: Stamp) -> Result<Vec<Appended>> {
        let check_event = |(position, event): (usize, &NewEvent)| {
            self.check(event).map_err(|error| error.at_position(position))
        };
        let keys = events.iter().enumerate().map(check_event).collect::<Result<Vec<_>>>()?;
        Ok(events
            .into_iter()
            .zip(keys)
            .map(|(event, key)| self.append(event, key, now_us))
            .collect())
    }

    fn append(&mut self, event: NewEvent, key: String, now_us: Stamp) -> Appended {
        if let Some(first) = self.log(&event.run_id, now_us).existing(&key, &event) {
            return first;
        }
        self.sequence += 1;
        let sequence = self.sequence;
        let behaviour = self.behaviour;
        let is_due = |interval: u64| interval > 0 && sequence.is_multiple_of(interval);
        let log = self.log(&event.run_id, now_us);
        log.skip_numbers(u64::from(is_due(behaviour.skip_every)));
        log.hide_next |= is_due(behaviour.hide_every);
        log.append(event, key, sequence, now_us)
    }

    fn append_expecting(
        &mut self,
        event: NewEvent,
        expected_seq: u64,
        now_us: Stamp,
    ) -> Result<Appended> {
        let key = self.check(&event)?;
        let log = self.runs.get(&event.run_id);
        if let Some(first) = log.and_then(|log| log.existing(&key, &event)) {
            return Ok(first);
        }
        let last_seq = log.map_or(0, RunLog::last_seq);
        if last_seq == expected_seq {
            return Ok(self.append(event, key, now_us));
        }
        let message = format!(
            "the last event of run `{}` is {last_seq}, not {expected_seq}: read what came since and try again",
            event.run_id
        );
        Err(Error::new(Code::SequenceMoved, message))
    }

    fn bootstrap(
        &mut self,
        run: &str,
        metadata: Value,
        events: Vec<NewEvent>,
        now_us: Stamp,
    ) -> Result<Vec<Appended>> {
        Name::new(run)?;
        metadata.check()?;
        if let Some(other) = events.iter().find(|event| event.run_id != run) {
            let message = format!("an event of run `{}` in the bootstrap of `{run}`", other.run_id);
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.check_not_deleted(run)?;
        if self.runs.contains_key(run) {
            let message = format!("there is a run `{run}`: append to it, or take another name");
            return Err(Error::new(Code::RunExists, message));
        }
        let appended = self.append_all(events, now_us)?;
        self.log(run, now_us).metadata = Some(metadata);
        Ok(appended)
    }

    fn restore(&mut self, events: Vec<CanonicalEvent>, now_us: Stamp) -> Result<()> {
        for event in &events {
            Name::new(&event.run_id)?;
            event.check_version()?;
        }
        for event in events {
            let log = self.log(&event.run_id, now_us);
            if log.is_deleted {
                *log = RunLog::new(now_us);
            }
            log.restore(event);
        }
        Ok(())
    }

    fn list(&self, filter: &RunFilter, after: Option<&str>, limit: usize) -> RunPage {
        let begin = filter.prefix.as_str().max(after.unwrap_or_default()).to_owned();
        let runs_after = self
            .runs
            .range(begin..)
            .filter(|(run, log)| after.is_none_or(|after| run.as_str() > after) && !log.is_deleted);
        let matching = runs_after.take_while(|(run, _)| run.starts_with(&filter.prefix));
        let infos = matching.map(|(run, log)| RunInfo { metadata: None, ..log.info(run) });
        let mut runs: Vec<RunInfo> =
            infos.filter(|info| filter.passes(info)).take(limit + 1).collect();
        let has_more = runs.len() > limit;
        runs.truncate(limit);
        let next = runs.last().filter(|_| has_more).map(|last| last.run_id.clone());
        RunPage { runs, next }
    }
}

/// The capabilities: all except the two that this store is meant to lack.
const CAPABILITIES: RunCapabilities = RunCapabilities {
    contiguous: false,
    monotone: false,
    payload_limit_bytes: PAYLOAD_LIMIT_BYTES,
    ..RunCapabilities::all("gappy")
};

impl RunStore for GappyStore {
    fn capabilities(&self) -> RunCapabilities {
        CAPABILITIES
    }

    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended> {
        Box::pin(async move {
            self.change(|state, now_us| {
                let key = state.check(&event)?;
                Ok(state.append(event, key, now_us))
            })
        })
    }

    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        Box::pin(async move { self.page(run, options) })
    }

    fn ping(&self) -> Answering<'_, bool> {
        Box::pin(async move { Ok(!self.state.lock().is_closed) })
    }

    fn close(&self) -> Answering<'_, ()> {
        Box::pin(async move {
            self.state.lock().is_closed = true;
            self.visibility_changed.notify_waiters();
            Ok(())
        })
    }

    fn append_batch(&self, events: Vec<NewEvent>) -> Answering<'_, Vec<Appended>> {
        Box::pin(async move { self.change(|state, now_us| state.append_all(events, now_us)) })
    }

    fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Answering<'_, Appended> {
        Box::pin(async move {
            self.change(|state, now_us| state.append_expecting(event, expected_seq, now_us))
        })
    }

    fn bootstrap<'a>(
        &'a self,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        Box::pin(async move {
            self.change(|state, now_us| state.bootstrap(run, metadata, events, now_us))
        })
    }

    fn get<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunInfo>> {
        Box::pin(async move { self.read(run, |log| log.info(run)) })
    }

    fn list<'a>(
        &'a self,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        Box::pin(async move {
            CAPABILITIES.check_list(filter, limit)?;
            let state = self.state.lock();
            state.check_open()?;
            Ok(state.list(filter, after, limit))
        })
    }

    fn delete_run<'a>(&'a self, run: &'a str) -> Answering<'a, bool> {
        Box::pin(async move {
            Name::new(run)?;
            self.change(|state, _| Ok(state.runs.get_mut(run).is_some_and(RunLog::delete)))
        })
    }

    fn restore(&self, events: Vec<CanonicalEvent>) -> Answering<'_, ()> {
        Box::pin(async move { self.change(|state, now_us| state.restore(events, now_us)) })
    }

    fn wait_for<'a>(&'a self, run: &'a str, after_seq: u64, wait_ms: u64) -> Answering<'a, bool> {
        Box::pin(async move {
            let mut timeout = pin!(self.time.sleep(wait_ms));
            loop {
                // Register before the check, so that no event is missed.
                let mut visibility_changed = pin!(self.visibility_changed.notified());
                visibility_changed.as_mut().enable();
                if self.has_events_after(run, after_seq)? {
                    return Ok(true);
                }
                if timed_out(visibility_changed, timeout.as_mut()).await {
                    return self.has_events_after(run, after_seq);
                }
            }
        })
    }
}

/// Waits for either future. Returns whether it was the second.
async fn timed_out(first: impl Future<Output = ()>, second: impl Future<Output = ()>) -> bool {
    let mut first = pin!(first);
    let mut second = pin!(second);
    std::future::poll_fn(|context| {
        if second.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        first.as_mut().poll(context).map(|()| false)
    })
    .await
}
