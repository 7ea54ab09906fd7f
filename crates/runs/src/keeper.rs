//! Where states of reducers are kept, so that not all events are folded again.

use mainstay_model::{Answering, KeptState};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Keeps what reducers have made of runs. What is kept can be lost: it is made again from the events.
pub trait StateKeeper: Send + Sync {
    /// The newest state that was kept of a run by a reducer of this version.
    fn kept<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>>;

    /// Keeps a state; one of an earlier event does not replace one of a later.
    fn keep<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
        state: KeptState,
    ) -> Answering<'a, ()>;
}

/// Run, reducer, version.
type Place = (String, String, u64);

/// A keeper in memory: it has all states that it was given, the newest of each run, reducer and version.
#[derive(Default)]
pub struct MemoryKeeper(Mutex<BTreeMap<Place, KeptState>>);

impl StateKeeper for MemoryKeeper {
    fn kept<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>> {
        let place = (run.to_owned(), reducer.to_owned(), version);
        Box::pin(async move { Ok(self.0.lock().get(&place).cloned()) })
    }

    fn keep<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
        state: KeptState,
    ) -> Answering<'a, ()> {
        let place = (run.to_owned(), reducer.to_owned(), version);
        Box::pin(async move {
            let mut states = self.0.lock();
            if states.get(&place).is_none_or(|old| old.seq <= state.seq) {
                states.insert(place, state);
            }
            Ok(())
        })
    }
}
