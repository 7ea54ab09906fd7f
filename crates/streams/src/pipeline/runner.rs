//! Operator runner: deduplicates items, advances event time, fires windows and deletes expired states.
//!
//! ```text
//!   item --known by its time?--> skipped
//!     |
//!     '--> watermark rises --> all due states fire, of any key: by end, then by key
//!            '--> the item is applied to its key's state
//!                   '--> some expired states are deleted, at the item's version
//! ```
//!
//! Firing reads states and writes none: the watermark, which is written with the batch, records which windows
//! have fired. Therefore firing needs no item and works for any number of keys. A fired window leaves its
//! state with the key's next item. A state whose windows have all fired is deleted with any later item,
//! because a deletion needs a version. Each item deletes at most a fixed number of states, so the state does
//! not depend on batch boundaries.

use super::batch_states::{BatchStates, read_state};
use crate::files::with_context;
use crate::operator::{ApplyContext, EventTime, Operator};
use crate::output::Cause;
use crate::position;
use crate::sink::SinkSet;
use crate::time::{Timers, Watermark};
use mainstay_model::{Code, Error, KeyedState, LogicalTime, Result, StateWrite, Version};
use std::collections::BTreeMap;

/// The number of states that are read at once for firing.
const FIRE_BATCH_KEYS: usize = 1_024;
/// The number of expired states deleted per item. An item creates at most one state that will expire, so none
/// are left behind.
const EXPIRED_PER_ITEM: usize = 2;
/// The number of expired states that are read at once.
const EXPIRED_READ_KEYS: usize = 256;
/// The page size for rebuilding the timers.
const PAGE_STATES: usize = 1_000;

/// An item with its key.
pub(crate) struct KeyedItem<I> {
    pub(crate) key: Vec<u8>,
    pub(crate) item: I,
    pub(crate) time: LogicalTime,
    /// The index of the source, and the position after the item in it.
    pub(crate) source: usize,
    pub(crate) position: u64,
}

/// The result of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemOutcome {
    Applied,
    Late,
    /// It was applied before.
    Skipped,
    /// Its key belongs to another shard.
    OtherShard,
}

/// An operator with its event-time state.
pub(crate) struct Runner<P: Operator> {
    operator: P,
    /// Versions below it are sealed, and older tombstones are dropped.
    frontier: Option<Version>,
    watermark: Watermark,
    late: u64,
    timers: Timers,
}

impl<P: Operator> Runner<P> {
    pub(crate) fn new(operator: P) -> Runner<P> {
        let watermark = Watermark::new(0);
        Runner { operator, frontier: None, watermark, late: 0, timers: Timers::default() }
    }

    pub(crate) fn operator(&self) -> &P {
        &self.operator
    }

    pub(crate) fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// The number of late items since the beginning.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Sets the frontier below which versions are sealed.
    pub(crate) fn seal(&mut self, frontier: Option<Version>) {
        self.frontier = frontier;
    }

    /// Restores the event-time state from a store.
    pub(crate) fn recover(
        &mut self,
        store: &dyn KeyedState,
        positions: &BTreeMap<String, u64>,
    ) -> Result<()> {
        let at = |name: String| positions.get(&name).copied().unwrap_or(0);
        self.seal(store.info()?.and_then(|info| info.frontier));
        self.late = at(position::late(self.operator.name()));
        self.timers = Timers::default();
        let Some(event) = self.operator.event_time() else { return Ok(()) };
        self.watermark = Watermark::new(event.lateness_ms());
        self.watermark.advance_to(at(position::watermark(self.operator.name())));
        rebuild_timers(event, store, self.watermark.at_ms(), &mut self.timers)
    }

    /// The watermark and the number of late items, to be written with the states.
    pub(crate) fn position_writes(&self) -> Vec<StateWrite> {
        if self.operator.event_time().is_none() {
            return Vec::new();
        }
        let name = self.operator.name();
        vec![
            StateWrite::advance(&position::watermark(name), self.watermark.at_ms()),
            StateWrite::advance(&position::late(name), self.late),
        ]
    }

    /// Applies an item, unless it was applied before.
    pub(crate) fn process(
        &mut self,
        item: &KeyedItem<P::Item>,
        states: &mut BatchStates<'_, P::State>,
        sinks: &mut SinkSet<P::Out>,
    ) -> Result<ItemOutcome> {
        if self.is_duplicate(item.time, states.slot(&item.key)?.version) {
            return Ok(ItemOutcome::Skipped);
        }
        if let Some(event) = self.operator.event_time() {
            let event_ms =
                event.event_ms(&item.item).map_err(|error| self.item_error(item, &error))?;
            // Fire before the item is applied, because applying drops the windows that the watermark has
            // passed.
            self.advance_to(self.watermark.after(event_ms), states, sinks)?;
        }
        let outcome = self.apply(item, states, sinks)?;
        self.delete_expired(item.time, states)?;
        Ok(outcome)
    }

    /// Skips an item of another shard's key. It raises the watermark too, so that all shards have the same
    /// event time.
    pub(crate) fn skip(
        &mut self,
        item: &KeyedItem<P::Item>,
        states: &mut BatchStates<'_, P::State>,
        sinks: &mut SinkSet<P::Out>,
    ) -> Result<ItemOutcome> {
        if let Some(event) = self.operator.event_time() {
            let event_ms =
                event.event_ms(&item.item).map_err(|error| self.item_error(item, &error))?;
            self.advance_to(self.watermark.after(event_ms), states, sinks)?;
            self.delete_expired(item.time, states)?;
        }
        Ok(ItemOutcome::OtherShard)
    }

    /// Returns whether an item with this time was already applied to a key with this version.
    fn is_duplicate(&self, time: LogicalTime, version: Option<LogicalTime>) -> bool {
        let is_sealed = self.frontier.is_some_and(|frontier| Version::from(time) < frontier);
        is_sealed || version.is_some_and(|version| time <= version)
    }

    fn apply(
        &mut self,
        item: &KeyedItem<P::Item>,
        states: &mut BatchStates<'_, P::State>,
        sinks: &mut SinkSet<P::Out>,
    ) -> Result<ItemOutcome> {
        let KeyedItem { key, item: value, time, .. } = item;
        let slot = states.slot(key)?;
        if let Some(due) = self.due(slot.state.as_ref()) {
            self.timers.clear(key, due);
        }
        let context = ApplyContext { time: *time, watermark_ms: self.watermark.at_ms() };
        let result = self.operator.apply(slot.state.take(), value, context);
        let result = result.map_err(|error| self.item_error(item, &error))?;
        if let Some(due) = self.due(result.state.as_ref()) {
            self.timers.set(key, due);
        }
        slot.put(result.state, *time);
        sinks.push(self.operator.name(), key, Cause::Item(*time), result.outputs)?;
        self.late += u64::from(result.late);
        Ok(if result.late { ItemOutcome::Late } else { ItemOutcome::Applied })
    }

    /// The next due time of a state, or `Some(None)` if it has expired; `None` for an operator without event
    /// time.
    fn due(&self, state: Option<&P::State>) -> Option<Option<u64>> {
        let event = self.operator.event_time()?;
        Some(event.next_end_ms(state?, self.watermark.at_ms()))
    }

    /// Raises the watermark and fires all states that are due.
    pub(crate) fn advance_to(
        &mut self,
        to_ms: u64,
        states: &BatchStates<'_, P::State>,
        sinks: &mut SinkSet<P::Out>,
    ) -> Result<()> {
        let Some(event) = self.operator.event_time() else { return Ok(()) };
        let mut uncached = BTreeMap::new();
        while let Some((end_ms, key)) = self.timers.first(to_ms) {
            if states.peek(key).is_none() && !uncached.contains_key(key) {
                let missing = self.timers.due(to_ms).filter(|key| states.peek(key).is_none());
                uncached =
                    states.read_uncached(&missing.take(FIRE_BATCH_KEYS).collect::<Vec<_>>())?;
            }
            let cached =
                states.peek(key).map_or_else(|| uncached.get(key), |slot| slot.state.as_ref());
            let state = cached.ok_or_else(|| foreign_writer_error(key))?;
            for (version, value) in event.fire(state, *end_ms)? {
                sinks.push(self.operator.name(), key, Cause::Window(version), vec![value])?;
            }
            let next_ms = event.next_end_ms(state, *end_ms);
            self.timers.reschedule_first(next_ms);
        }
        self.watermark.advance_to(to_ms);
        Ok(())
    }

    /// Deletes some expired states whose keys got no item since.
    fn delete_expired(
        &mut self,
        time: LogicalTime,
        states: &mut BatchStates<'_, P::State>,
    ) -> Result<()> {
        if self.operator.event_time().is_none() {
            return Ok(());
        }
        let expired = self.timers.expired().take(EXPIRED_PER_ITEM);
        let keys: Vec<Vec<u8>> = expired.map(<[u8]>::to_vec).collect();
        if keys.iter().any(|key| states.peek(key).is_none()) {
            states.load(self.timers.expired().take(EXPIRED_READ_KEYS))?;
        }
        for key in keys {
            let slot = states.slot(&key)?;
            // A key from another shard may be ahead of the items, so it waits until they catch up.
            if slot.version.is_some_and(|version| version < time) {
                slot.put(None, time);
                self.timers.clear(&key, None);
            }
        }
        Ok(())
    }

    #[cold]
    fn item_error(&self, item: &KeyedItem<P::Item>, error: &Error) -> Error {
        let name = self.operator.name();
        let key = item.key.escape_ascii();
        let time = item.time;
        with_context(format_args!("operator `{name}`, key {key}, time {time}"), error)
    }
}

/// Reads all states to rebuild the timers.
fn rebuild_timers<I, S: serde::de::DeserializeOwned, O>(
    event: &dyn EventTime<I, S, O>,
    store: &dyn KeyedState,
    watermark_ms: u64,
    timers: &mut Timers,
) -> Result<()> {
    let mut after = None;
    loop {
        let page = store.scan(&[], after.as_deref(), PAGE_STATES)?;
        for (key, state) in &page.states {
            let state: S = read_state(key, &state.value)?;
            timers.set(key, event.next_end_ms(&state, watermark_ms));
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

#[cold]
fn foreign_writer_error(key: &[u8]) -> Error {
    let message = format!(
        "the state of key {} is gone, and this pipeline did not delete it: a space has one pipeline that writes",
        key.escape_ascii()
    );
    Error::new(Code::Conflict, message)
}
