//! Runs as a reducer sees them: never behind.
//!
//! ```text
//!   keeper --state at n--.
//!                        v
//!   store --events > n--> fold --> state of now      more than 256 events folded: kept for the next one
//! ```

use crate::keeper::StateKeeper;
use crate::reducer::AnyReducer;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{FetchOptions, KeptState, PageSize, Result, RunStore};
use std::sync::Arc;

/// A state is kept anew when so many events came since the one that is kept.
pub const KEEP_AFTER_EVENTS: u64 = 256;

/// In a long fold the state is kept so often, so that what is interrupted goes on from there.
const KEEP_EVERY_EVENTS: u64 = 10_000;

/// The runs of a store as one reducer sees them.
///
/// States are kept only where a store is monotone: elsewhere an event may appear before the one that a kept state
/// ends with, and so all events are folded each time.
#[derive(Clone)]
pub struct Reduced {
    store: Arc<dyn RunStore>,
    keeper: Arc<dyn StateKeeper>,
    reducer: Arc<dyn AnyReducer>,
}

/// A fold under way.
struct Folding {
    state: KeptState,
    /// Events since the state that is kept.
    since_kept: u64,
    /// Events in all.
    events: u64,
}

impl Reduced {
    /// Looks at a store through a reducer.
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

    /// What the reducer makes of all events of a run, and the last of them; nothing where there is none.
    pub async fn snapshot(&self, run: &str) -> Result<Option<KeptState>> {
        let folding = self.fold(run).await?;
        if folding.since_kept > KEEP_AFTER_EVENTS {
            self.keep(run, &folding.state).await?;
        }
        Ok(Some(folding.state).filter(|state| state.seq > 0))
    }

    /// Keeps the state of now; gives how many events were folded for it.
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
        let (name, version) = (self.reducer.name(), self.reducer.version());
        let kept = match self.keeps() {
            true => self.keeper.kept(run, name, version).await?,
            false => None,
        };
        match kept {
            Some(kept) if self.is_of_this_log(run, kept.seq).await? => Ok(kept),
            _ => Ok(KeptState { seq: 0, state: self.reducer.initial(run)? }),
        }
    }

    /// Whether the event that a state ends with is there: the run may have been deleted since.
    async fn is_of_this_log(&self, run: &str, seq: u64) -> Result<bool> {
        let last = FetchOptions::after(seq.saturating_sub(1)).limit(1);
        let found = self.store.fetch_events(run, last).await?;
        Ok(found.first().is_some_and(|event| event.run_seq == seq))
    }

    async fn keep(&self, run: &str, state: &KeptState) -> Result<()> {
        if !self.keeps() {
            return Ok(());
        }
        let (name, version) = (self.reducer.name(), self.reducer.version());
        self.keeper.keep(run, name, version, state.clone()).await
    }

    fn keeps(&self) -> bool {
        self.store.capabilities().monotone
    }
}
