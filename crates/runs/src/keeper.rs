//! Where states of reducers are kept, so that not all events are folded again.

use mainstay::{Database, Durability};
use mainstay_model::{Answering, KeptState, Name, RunCommand, Transaction};
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

/// Keeps states beside the runs they are of, in the engine: they go when the run goes, and a fork has those of before.
///
/// The newest state of each run and reducer is kept; one of another version makes way for it.
#[derive(Clone)]
pub struct EngineKeeper {
    db: Database,
    branch: String,
}

impl EngineKeeper {
    /// A keeper on a branch of a database.
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
            let (run, reducer) = (Name::new(run)?, reducer.to_owned());
            let KeptState { seq, state } = state;
            let keep = RunCommand::Keep { run, reducer, version, seq, state };
            // It can be made again from the events: nobody has to wait for the disk.
            let transaction = Transaction::on(&self.branch).step(keep);
            self.db.submit(transaction.durability(Durability::Memory)).await.map(drop)
        })
    }
}
