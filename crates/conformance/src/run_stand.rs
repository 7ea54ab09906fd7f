//! Test fixture for run stores: a store of any implementation, and control over its clock.

use crate::stand::{self, wait};
use mainstay_model::{
    Answering, Appended, CanonicalEvent, Code, ErrorKind, FetchOptions, NewEvent, RunCapabilities,
    RunFilter, RunSnapshot, RunStore, reduce,
};
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

/// Page limit that no case reaches.
const ALL: usize = 100_000;

/// Factory of a run store, implemented by each store under test. Each case gets its own world.
pub trait RunWorld: Send + Sync {
    /// Returns the store, initially without runs. Repeated calls return the same store.
    fn store(&self) -> Arc<dyn RunStore>;

    /// Advances the store's time. A manual clock is moved; with any other clock, this sleeps.
    fn pass_ms(&self, ms: u64);

    /// Waits until all acknowledged writes are visible, for stores where that takes longer.
    fn settle(&self) {}

    /// Returns whether the store uses a manual clock, which moves only when the test advances it.
    fn has_clock_in_hand(&self) -> bool {
        false
    }

    /// Drives a future to completion. Stores that need an async runtime override this.
    fn drive(&self, task: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        wait(task);
    }
}

impl RunWorld for crate::World {
    fn store(&self) -> Arc<dyn RunStore> {
        Arc::new(self.db().runs())
    }

    fn pass_ms(&self, ms: u64) {
        crate::World::pass_ms(self, ms);
    }

    /// A tail shows only durable events, so this syncs.
    fn settle(&self) {
        // A closed database has nothing to wait for.
        let _ = self.db().sync();
    }

    fn has_clock_in_hand(&self) -> bool {
        true
    }
}

/// A run store with blocking, panicking helpers.
pub struct RunStand<'w> {
    world: &'w dyn RunWorld,
    store: Arc<dyn RunStore>,
}

impl Deref for RunStand<'_> {
    type Target = dyn RunStore;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// An event with a plan, from which its idempotency key is derived.
pub fn event(run: &str, event_type: &str) -> NewEvent {
    NewEvent::new(run, event_type).plan("1")
}

/// An event with an idempotency key and data.
pub fn keyed(run: &str, key: &str, data: &str) -> NewEvent {
    NewEvent::new(run, "Tick").with_key(key).value(data)
}

/// Folds events into a run snapshot.
pub fn folded(run: &str, events: &[CanonicalEvent]) -> RunSnapshot {
    let mut snapshot = RunSnapshot::new(run);
    for event in events {
        reduce(&mut snapshot, event);
    }
    snapshot
}

impl<'w> RunStand<'w> {
    /// Wraps the store of a world.
    pub fn of(world: &'w dyn RunWorld) -> RunStand<'w> {
        RunStand { world, store: world.store() }
    }

    /// The capabilities of the store.
    pub fn can(&self) -> RunCapabilities {
        self.store.capabilities()
    }

    /// Advances the store's time.
    pub fn pass_ms(&self, ms: u64) {
        self.world.pass_ms(ms);
    }

    /// Waits until all acknowledged writes are visible.
    pub fn settle(&self) {
        self.world.settle();
    }

    /// Waits for the result of a future.
    pub fn wait<T: Send>(&self, answer: impl Future<Output = T> + Send) -> T {
        let mut answered = None;
        self.world.drive(Box::pin(async { answered = Some(answer.await) }));
        answered.expect("a world drives tasks to their end")
    }

    /// Waits for a result that must not be an error.
    #[track_caller]
    pub fn ok<T: Send>(&self, answer: Answering<'_, T>) -> T {
        match self.wait(answer) {
            Ok(answer) => answer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for an error with this code.
    #[track_caller]
    pub fn refused<T: Send>(&self, answer: Answering<'_, T>, code: Code) {
        crate::check::refused(self.wait(answer), code);
    }

    /// Waits for an error of kind `Invalid`.
    #[track_caller]
    pub fn invalid<T: Send>(&self, answer: Answering<'_, T>) {
        match self.wait(answer) {
            Ok(_) => panic!("it was accepted"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
        }
    }

    /// Waits for an `Unsupported` error that names the missing capability.
    #[track_caller]
    pub fn unsupported<T: Send>(&self, answer: Answering<'_, T>, capability: &str) {
        crate::check::unsupported(self.wait(answer), capability);
    }

    /// Appends an event, which must succeed.
    #[track_caller]
    pub fn append(&self, event: NewEvent) -> Appended {
        self.ok(self.append_event(event))
    }

    /// Appends events of these types, each with an optional step. Their positions are their idempotency
    /// keys.
    #[track_caller]
    pub fn tell(&self, run: &str, types: &[(&str, Option<&str>)]) -> Vec<Appended> {
        let one = |(place, (event_type, step)): (usize, &(&str, Option<&str>))| {
            let event = NewEvent::new(run, event_type).with_key(&format!("{place}"));
            self.append(step.iter().fold(event, |event, step| event.step(step)))
        };
        types.iter().enumerate().map(one).collect()
    }

    /// All events of a run.
    #[track_caller]
    pub fn events(&self, run: &str) -> Vec<CanonicalEvent> {
        self.settle();
        self.ok(self.fetch_events(run, FetchOptions::default().limit(ALL)))
    }

    /// The only event of a run.
    #[track_caller]
    pub fn only(&self, run: &str) -> CanonicalEvent {
        let mut events = self.events(run);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// Asserts that a run does not exist.
    #[track_caller]
    pub fn is_unknown(&self, run: &str) {
        assert_eq!(self.events(run), [], "{run}");
        assert_eq!(self.ok(self.get(run)), None, "{run}");
    }

    /// The names of the runs that match a filter.
    #[track_caller]
    pub fn listed(&self, filter: &RunFilter) -> Vec<String> {
        self.settle();
        let page = self.ok(self.list(filter, None, 1_000));
        page.runs.into_iter().map(|run| run.run_id).collect()
    }

    /// Runs `run` on `RACERS` threads at once and returns all results.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        stand::together(run)
    }
}
