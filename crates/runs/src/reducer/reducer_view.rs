//! Runs seen through a reducer, always up to date.
//!
//! ```text
//!   state store --state at n--.
//!                             v
//!   run store --events > n--> fold --> current state     more than 256 events folded: stored for the next read
//! ```

use super::AnyReducer;
use super::reducer_state_store::ReducerStateStore;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{FetchOptions, KeptState, PageSize, Result, RunStore};
use std::sync::Arc;

/// A state is stored after this many events since the last stored one.
pub const STORE_AFTER_EVENTS: u64 = 256;

/// The interval, in events, at which a long fold stores its state, so that an interrupted fold can continue.
const STORE_EVERY_EVENTS: u64 = 10_000;

/// The runs of a store seen through one reducer.
///
/// States are stored only for monotone stores. In other stores an event may appear before the last event of a
/// stored state, so all events are folded each time.
#[derive(Clone)]
pub struct ReducerView {
    store: Arc<dyn RunStore>,
    states: Arc<dyn ReducerStateStore>,
    reducer: Arc<dyn AnyReducer>,
}

/// A fold in progress.
struct FoldState {
    state: KeptState,
    /// Events since the stored state.
    since_stored: u64,
    /// Events in total.
    events: u64,
}

impl ReducerView {
    /// Combines a store and a reducer.
    pub fn new(
        store: Arc<dyn RunStore>,
        states: Arc<dyn ReducerStateStore>,
        reducer: Arc<dyn AnyReducer>,
    ) -> ReducerView {
        ReducerView { store, states, reducer }
    }

    pub(crate) fn store(&self) -> &dyn RunStore {
        &*self.store
    }

    /// Returns the reducer's state after all events of a run, with the last event; `None` for a run without
    /// events.
    pub async fn snapshot(&self, run: &str) -> Result<Option<KeptState>> {
        let fold = self.fold(run).await?;
        if fold.since_stored > STORE_AFTER_EVENTS {
            self.store_state(run, &fold.state).await?;
        }
        Ok(Some(fold.state).filter(|state| state.seq > 0))
    }

    /// Stores the current state. Returns the number of events folded for it.
    pub async fn refresh(&self, run: &str) -> Result<u64> {
        let fold = self.fold(run).await?;
        if fold.since_stored > 0 {
            self.store_state(run, &fold.state).await?;
        }
        Ok(fold.events)
    }

    async fn fold(&self, run: &str) -> Result<FoldState> {
        let mut fold =
            FoldState { state: self.load_or_initial(run).await?, since_stored: 0, events: 0 };
        let mut size = PageSize::upto(PAGE_DEFAULT);
        loop {
            let page = size.fetch(&*self.store, run, fold.state.seq).await?;
            let Some(last) = page.last() else { return Ok(fold) };
            let state = std::mem::take(&mut fold.state.state);
            fold.state = KeptState { seq: last.run_seq, state: self.reducer.fold(state, &page)? };
            fold.since_stored += page.len() as u64;
            fold.events += page.len() as u64;
            if fold.since_stored >= STORE_EVERY_EVENTS {
                self.store_state(run, &fold.state).await?;
                fold.since_stored = 0;
            }
        }
    }

    async fn load_or_initial(&self, run: &str) -> Result<KeptState> {
        let name = self.reducer.name();
        let version = self.reducer.version();
        let stored =
            if self.stores_states() { self.states.load(run, name, version).await? } else { None };
        match stored {
            Some(stored) if self.is_current(run, stored.seq).await? => Ok(stored),
            _ => Ok(KeptState { seq: 0, state: self.reducer.initial(run)? }),
        }
    }

    /// Returns whether the last event of a state still exists, because the run may have been deleted since.
    async fn is_current(&self, run: &str, seq: u64) -> Result<bool> {
        let last = FetchOptions::after(seq.saturating_sub(1)).limit(1);
        let events = self.store.fetch_events(run, last).await?;
        Ok(events.first().is_some_and(|event| event.run_seq == seq))
    }

    async fn store_state(&self, run: &str, state: &KeptState) -> Result<()> {
        if !self.stores_states() {
            return Ok(());
        }
        let name = self.reducer.name();
        let version = self.reducer.version();
        self.states.store(run, name, version, state.clone()).await
    }

    fn stores_states(&self) -> bool {
        self.store.capabilities().monotone
    }
}
