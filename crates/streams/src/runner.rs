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

use crate::calendar::Calendar;
use crate::files::within;
use crate::operator::{EventTime, Moment, Operator};
use crate::outlet::Outlet;
use crate::output::Cause;
use crate::position;
use crate::watermark::Watermark;
use crate::working::{Working, read_state};
use mainstay_model::{Code, Error, KeyedState, LogicalTime, Result, StateWrite, Version};
use std::collections::BTreeMap;

/// The number of states that are read at once for firing.
const GUESTS: usize = 1_024;
/// The number of expired states deleted per item. An item creates at most one state that will expire, so none
/// are left behind.
const DELETED_PER_ITEM: usize = 2;
/// The number of expired states that are read at once.
const DELETED_AHEAD: usize = 256;
/// The page size for rebuilding the calendar.
const PAGE: usize = 1_000;

/// An item with its key.
pub(crate) struct Keyed<I> {
    pub(crate) key: Vec<u8>,
    pub(crate) item: I,
    pub(crate) time: LogicalTime,
    /// The index of the source, and the position after the item in it.
    pub(crate) source: usize,
    pub(crate) position: u64,
}

/// The result of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Applied,
    Late,
    /// It was applied before.
    Skipped,
    /// Its key belongs to another shard.
    Passed,
}

/// An operator with its event-time state.
pub(crate) struct Runner<P: Operator> {
    operator: P,
    /// Versions below it are sealed, and older tombstones are dropped.
    sealed: Option<Version>,
    watermark: Watermark,
    late: u64,
    calendar: Calendar,
}

impl<P: Operator> Runner<P> {
    pub(crate) fn new(operator: P) -> Runner<P> {
        let watermark = Watermark::new(0);
        Runner { operator, sealed: None, watermark, late: 0, calendar: Calendar::default() }
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
        self.sealed = frontier;
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
        self.calendar = Calendar::default();
        let Some(event) = self.operator.event_time() else { return Ok(()) };
        self.watermark = Watermark::new(event.lateness_ms());
        self.watermark.advance_to(at(position::watermark(self.operator.name())));
        read_calendar(event, store, self.watermark.at_ms(), &mut self.calendar)
    }

    /// The watermark and the number of late items, to be written with the states.
    pub(crate) fn advances(&self) -> Vec<StateWrite> {
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
    pub(crate) fn take(
        &mut self,
        item: &Keyed<P::Item>,
        working: &mut Working<'_, P::State>,
        outlet: &mut Outlet<P::Out>,
    ) -> Result<Taken> {
        if self.is_known(item.time, working.slot(&item.key)?.version) {
            return Ok(Taken::Skipped);
        }
        if let Some(event) = self.operator.event_time() {
            let event_ms = event.event_ms(&item.item).map_err(|error| self.at(item, &error))?;
            // Fire before the item is applied, because applying drops the windows that the watermark has
            // passed.
            self.advance_to(self.watermark.after(event_ms), working, outlet)?;
        }
        let taken = self.apply(item, working, outlet)?;
        self.delete_some(item.time, working)?;
        Ok(taken)
    }

    /// Skips an item of another shard's key. It raises the watermark too, so that all shards have the same
    /// event time.
    pub(crate) fn pass(
        &mut self,
        item: &Keyed<P::Item>,
        working: &mut Working<'_, P::State>,
        outlet: &mut Outlet<P::Out>,
    ) -> Result<Taken> {
        if let Some(event) = self.operator.event_time() {
            let event_ms = event.event_ms(&item.item).map_err(|error| self.at(item, &error))?;
            self.advance_to(self.watermark.after(event_ms), working, outlet)?;
            self.delete_some(item.time, working)?;
        }
        Ok(Taken::Passed)
    }

    /// Returns whether an item with this time was already applied to a key with this version.
    fn is_known(&self, time: LogicalTime, version: Option<LogicalTime>) -> bool {
        let is_sealed = self.sealed.is_some_and(|sealed| Version::from(time) < sealed);
        is_sealed || version.is_some_and(|version| time <= version)
    }

    fn apply(
        &mut self,
        item: &Keyed<P::Item>,
        working: &mut Working<'_, P::State>,
        outlet: &mut Outlet<P::Out>,
    ) -> Result<Taken> {
        let Keyed { key, item: value, time, .. } = item;
        let slot = working.slot(key)?;
        if let Some(due) = self.due(slot.state.as_ref()) {
            self.calendar.clear(key, due);
        }
        let moment = Moment { time: *time, watermark_ms: self.watermark.at_ms() };
        let applied = self.operator.apply(slot.state.take(), value, moment);
        let applied = applied.map_err(|error| self.at(item, &error))?;
        if let Some(due) = self.due(applied.state.as_ref()) {
            self.calendar.set(key, due);
        }
        slot.put(applied.state, *time);
        outlet.push(self.operator.name(), key, Cause::Item(*time), applied.outputs)?;
        self.late += u64::from(applied.late);
        Ok(if applied.late { Taken::Late } else { Taken::Applied })
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
        working: &Working<'_, P::State>,
        outlet: &mut Outlet<P::Out>,
    ) -> Result<()> {
        let Some(event) = self.operator.event_time() else { return Ok(()) };
        let mut guests = BTreeMap::new();
        while let Some((end_ms, key)) = self.calendar.first(to_ms) {
            if working.peek(key).is_none() && !guests.contains_key(key) {
                let unknown = self.calendar.due(to_ms).filter(|key| working.peek(key).is_none());
                guests = working.guests(&unknown.take(GUESTS).collect::<Vec<_>>())?;
            }
            let held =
                working.peek(key).map_or_else(|| guests.get(key), |slot| slot.state.as_ref());
            let state = held.ok_or_else(|| written_by_another(key))?;
            for (version, value) in event.fire(state, *end_ms)? {
                outlet.push(self.operator.name(), key, Cause::Window(version), vec![value])?;
            }
            let next_ms = event.next_end_ms(state, *end_ms);
            self.calendar.fired(next_ms);
        }
        self.watermark.advance_to(to_ms);
        Ok(())
    }

    /// Deletes some expired states whose keys got no item since.
    fn delete_some(
        &mut self,
        time: LogicalTime,
        working: &mut Working<'_, P::State>,
    ) -> Result<()> {
        if self.operator.event_time().is_none() {
            return Ok(());
        }
        let over = self.calendar.over().take(DELETED_PER_ITEM);
        let keys: Vec<Vec<u8>> = over.map(<[u8]>::to_vec).collect();
        if keys.iter().any(|key| working.peek(key).is_none()) {
            working.load(self.calendar.over().take(DELETED_AHEAD))?;
        }
        for key in keys {
            let slot = working.slot(&key)?;
            // A key from another shard may be ahead of the items, so it waits until they catch up.
            if slot.version.is_some_and(|version| version < time) {
                slot.put(None, time);
                self.calendar.clear(&key, None);
            }
        }
        Ok(())
    }

    #[cold]
    fn at(&self, item: &Keyed<P::Item>, error: &Error) -> Error {
        let name = self.operator.name();
        let key = item.key.escape_ascii();
        let time = item.time;
        within(format_args!("operator `{name}`, key {key}, time {time}"), error)
    }
}

/// Reads all states to rebuild the calendar.
fn read_calendar<I, S: serde::de::DeserializeOwned, O>(
    event: &dyn EventTime<I, S, O>,
    store: &dyn KeyedState,
    watermark_ms: u64,
    calendar: &mut Calendar,
) -> Result<()> {
    let mut after = None;
    loop {
        let page = store.scan(&[], after.as_deref(), PAGE)?;
        for (key, state) in &page.states {
            let state: S = read_state(key, &state.value)?;
            calendar.set(key, event.next_end_ms(&state, watermark_ms));
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

#[cold]
fn written_by_another(key: &[u8]) -> Error {
    let message = format!(
        "the state of key {} is gone, and this pipeline did not delete it: a space has one pipeline that writes",
        key.escape_ascii()
    );
    Error::new(Code::Conflict, message)
}
