//! Runs seen through a reducer, always up to date.
//!
//! ```text
//!   keeper --state at n--.
//!                        v
//!   store --events > n--> fold --> current state     more than 256 events folded: stored for the next read
//! ```

use crate::keeper::StateKeeper;
use crate::reducer::AnyReducer;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{FetchOptions, KeptState, PageSize, Result, RunStore};
use std::sync::Arc;

/// A state is stored after this many events since the last stored one.
pub const KEEP_AFTER_EVENTS: u64 = 256;

/// The interval, in events, at which a long fold stores its state, so that an interrupted fold can continue.
const KEEP_EVERY_EVENTS: u64 = 10_000;

/// The runs of a store seen through one reducer.
///
/// States are stored only for monotone stores. In other stores an event may appear before the last event of a
/// stored state, so all events are folded each time.
#[derive(Clone)]
pub struct Reduced {
    store: Arc<dyn RunStore>,
    keeper: Arc<dyn StateKeeper>,
    reducer: Arc<dyn AnyReducer>,
}

/// A fold in progress.
struct Folding {
    state: KeptState,
    /// Events since the stored state.
    since_kept: u64,
    /// Events in total.
    events: u64,
}

impl Reduced {
    /// Combines a store and a reducer.
    pub fn new(
        store: Arc<dyn RunStore>,
        keeper: Arc<dyn StateKeeper>,
        reducer: Arc<dyn AnyReducer>,
    ) -> Reduced {
        Reduced { store, keeper, reducer }
    }

    pub(crate) fn store(&self) -> &dyn RunStore {
        &*self.store
    }

    /// Returns the reducer's state after all events of a run, with the last event; `None` for a run without
    /// events.
    pub async fn snapshot(&self, run: &str) -> Result<Option<KeptState>> {
        let folding = self.fold(run).await?;
        if folding.since_kept > KEEP_AFTER_EVENTS {
            self.keep(run, &folding.state).await?;
        }
        Ok(Some(folding.state).filter(|state| state.seq > 0))
    }

    /// Stores the current state. Returns the number of events folded for it.
    pub async fn refresh(&self, run: &str) -> Result<u64> {
        let folding = self.fold(run).await?;
        if folding.since_kept > 0 {
            self.keep(run, &folding.state).await?;
        }
        Ok(folding.events)
    }

    async fn fold(&self, run: &str) -> Result<Folding> {
        let mut folding = Folding { state: self.begin(run).await?, since_kept: 0, events: 0 };
        let mut size = PageSize::upto(PAGE_DEFAULT);
        loop {
            let page = size.fetch(&*self.store, run, folding.state.seq).await?;
            let Some(last) = page.last() else { return Ok(folding) };
            let state = std::mem::take(&mut folding.state.state);
            folding.state =
                KeptState { seq: last.run_seq, state: self.reducer.fold(state, &page)? };
            folding.since_kept += page.len() as u64;
            folding.events += page.len() as u64;
            if folding.since_kept >= KEEP_EVERY_EVENTS {
                self.keep(run, &folding.state).await?;
                folding.since_kept = 0;
            }
        }
    }

    async fn begin(&self, run: &str) -> Result<KeptState> {
        let name = self.reducer.name();
        let version = self.reducer.version();
        let kept = if self.keeps() { self.keeper.kept(run, name, version).await? } else { None };
        match kept {
            Some(kept) if self.is_of_this_log(run, kept.seq).await? => Ok(kept),
            _ => Ok(KeptState { seq: 0, state: self.reducer.initial(run)? }),
        }
    }

    /// Returns whether the last event of a state still exists, because the run may have been deleted since.
    async fn is_of_this_log(&self, run: &str, seq: u64) -> Result<bool> {
        let last = FetchOptions::after(seq.saturating_sub(1)).limit(1);
        let found = self.store.fetch_events(run, last).await?;
        Ok(found.first().is_some_and(|event| event.run_seq == seq))
    }

    async fn keep(&self, run: &str, state: &KeptState) -> Result<()> {
        if !self.keeps() {
            return Ok(());
        }
        let name = self.reducer.name();
        let version = self.reducer.version();
        self.keeper.keep(run, name, version, state.clone()).await
    }

    fn keeps(&self) -> bool {
        self.store.capabilities().monotone
    }
}
