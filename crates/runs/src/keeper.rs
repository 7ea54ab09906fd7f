//! Stores for reducer states, so that not all events are folded again.

use mainstay::{Database, Durability};
use mainstay_model::{Answering, KeptState, Name, RunCommand, Transaction};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Stores the states of reducers. A stored state may be lost, because it can be recomputed from the events.
pub trait StateKeeper: Send + Sync {
    /// Returns the newest stored state of a run by a reducer of this version.
    fn kept<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>>;

    /// Stores a state. A state of an earlier event does not replace one of a later event.
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

/// An in-memory store with the newest state of each run, reducer and version.
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

/// Stores states next to their runs in the engine. They are deleted with the run, and a fork inherits them.
///
/// Only the newest state of each run and reducer is stored. A state of another version replaces it.
#[derive(Clone)]
pub struct EngineKeeper {
    db: Database,
    branch: String,
}

impl EngineKeeper {
    /// Creates a store on a branch of a database.
    pub fn on(db: &Database, branch: &str) -> EngineKeeper {
        EngineKeeper { db: db.clone(), branch: branch.to_owned() }
    }
}

impl StateKeeper for EngineKeeper {
    fn kept<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>> {
        Box::pin(async move { self.db.branch(&self.branch)?.runs().kept(run, reducer, version) })
    }

    fn keep<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
        state: KeptState,
    ) -> Answering<'a, ()> {
        Box::pin(async move {
            let run = Name::new(run)?;
            let reducer = reducer.to_owned();
            let KeptState { seq, state } = state;
            let keep = RunCommand::Keep { run, reducer, version, seq, state };
            // The state can be recomputed from the events, so the write need not wait for an fsync.
            let transaction = Transaction::on(&self.branch).step(keep);
            self.db.submit(transaction.durability(Durability::Memory)).await.map(drop)
        })
    }
}
