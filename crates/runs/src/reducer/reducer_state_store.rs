//! Stores for reducer states, so that not all events are folded again.

use mainstay::{Database, Durability};
use mainstay_model::{Answering, KeptState, Name, RunCommand, Transaction};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Stores the states of reducers. A stored state may be lost, because it can be recomputed from the events.
pub trait ReducerStateStore: Send + Sync {
    /// Returns the newest stored state of a run by a reducer of this version.
    fn load<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>>;

    /// Stores a state. A state of an earlier event does not replace one of a later event.
    fn store<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
        state: KeptState,
    ) -> Answering<'a, ()>;
}

/// Run, reducer, version.
type StateId = (String, String, u64);

/// An in-memory store with the newest state of each run, reducer and version.
#[derive(Default)]
pub struct MemoryStateStore(Mutex<BTreeMap<StateId, KeptState>>);

impl ReducerStateStore for MemoryStateStore {
    fn load<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>> {
        let id = (run.to_owned(), reducer.to_owned(), version);
        Box::pin(async move { Ok(self.0.lock().get(&id).cloned()) })
    }

    fn store<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
        state: KeptState,
    ) -> Answering<'a, ()> {
        let id = (run.to_owned(), reducer.to_owned(), version);
        Box::pin(async move {
            let mut states = self.0.lock();
            if states.get(&id).is_none_or(|current| current.seq <= state.seq) {
                states.insert(id, state);
            }
            Ok(())
        })
    }
}

/// Stores states next to their runs in the engine. They are deleted with the run, and a fork inherits them.
///
/// Only the newest state of each run and reducer is stored. A state of another version replaces it.
#[derive(Clone)]
pub struct EngineStateStore {
    db: Database,
    branch: String,
}

impl EngineStateStore {
    /// Creates a store on a branch of a database.
    pub fn on(db: &Database, branch: &str) -> EngineStateStore {
        EngineStateStore { db: db.clone(), branch: branch.to_owned() }
    }
}

impl ReducerStateStore for EngineStateStore {
    fn load<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>> {
        Box::pin(async move { self.db.branch(&self.branch)?.runs().kept(run, reducer, version) })
    }

    fn store<'a>(
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
            let command = RunCommand::Keep { run, reducer, version, seq, state };
            // The state can be recomputed from the events, so the write need not wait for an fsync.
            let transaction = Transaction::on(&self.branch).step(command);
            self.db.submit(transaction.durability(Durability::Memory)).await.map(drop)
        })
    }
}
