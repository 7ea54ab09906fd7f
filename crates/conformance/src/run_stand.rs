//! Where a case of stores of runs runs: a store of any kind, and whoever lets time go by for it.

use crate::stand::{self, wait};
use mainstay_model::{
    Answering, Appended, CanonicalEvent, Code, ErrorKind, FetchOptions, NewEvent, RunCapabilities,
    RunFilter, RunSnapshot, RunStore, reduce,
};
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

/// The most events that a case looks at in one page.
const ALL: usize = 100_000;

/// Whoever brings a store of runs to the suite. Each case gets a world of its own.
pub trait RunWorld: Send + Sync {
    /// The store, without a run in it. Asked again it is the same one.
    fn store(&self) -> Arc<dyn RunStore>;

    /// Lets milliseconds go by for the store: a clock in the hand is moved, any other is waited for.
    fn pass_ms(&self, ms: u64);

    /// Waits until all that was acknowledged is to be seen, where that takes longer.
    fn settle(&self) {}

    /// Whether the store's clock stands still unless time is let go by.
    fn has_clock_in_hand(&self) -> bool {
        false
    }

    /// Drives a task to its end: for stores that need a runtime, on that.
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

    /// A tail shows what is on stable storage.
    fn settle(&self) {
        // A database that was closed has nothing to wait for.
        let _ = self.db().sync();
    }

    fn has_clock_in_hand(&self) -> bool {
        true
    }
}

/// A store as cases use it: what it answers is waited for.
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

/// An event of a plan, which has a key by that.
pub fn event(run: &str, event_type: &str) -> NewEvent {
    NewEvent::new(run, event_type).plan("1")
}

/// An event with a key and something that belongs to it.
pub fn keyed(run: &str, key: &str, data: &str) -> NewEvent {
    NewEvent::new(run, "Tick").with_key(key).value(data)
}

/// What events add up to.
pub fn folded(run: &str, events: &[CanonicalEvent]) -> RunSnapshot {
    let mut snapshot = RunSnapshot::new(run);
    for event in events {
        reduce(&mut snapshot, event);
    }
    snapshot
}

impl<'w> RunStand<'w> {
    /// The store of a world.
    pub fn of(world: &'w dyn RunWorld) -> RunStand<'w> {
        RunStand { world, store: world.store() }
    }

    /// What the store can do.
    pub fn can(&self) -> RunCapabilities {
        self.store.capabilities()
    }

    /// Lets time go by.
    pub fn pass_ms(&self, ms: u64) {
        self.world.pass_ms(ms);
    }

    /// Waits until all that was acknowledged is to be seen.
    pub fn settle(&self) {
        self.world.settle();
    }

    /// Waits for an answer.
    pub fn wait<T: Send>(&self, answer: impl Future<Output = T> + Send) -> T {
        let mut answered = None;
        self.world.drive(Box::pin(async { answered = Some(answer.await) }));
        answered.expect("a world drives tasks to their end")
    }

    /// Waits for an answer that is no error.
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

    /// Waits for an error that says what was wrong with what was asked.
    #[track_caller]
    pub fn invalid<T: Send>(&self, answer: Answering<'_, T>) {
        match self.wait(answer) {
            Ok(_) => panic!("it was accepted"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
        }
    }

    /// Waits for an error that says which capability is lacking.
    #[track_caller]
    pub fn unsupported<T: Send>(&self, answer: Answering<'_, T>, capability: &str) {
        crate::check::unsupported(self.wait(answer), capability);
    }

    /// Appends an event that is taken.
    #[track_caller]
    pub fn append(&self, event: NewEvent) -> Appended {
        self.ok(self.append_event(event))
    }

    /// Appends events of these types, with keys by their places.
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

    /// Asserts that there is no such run.
    #[track_caller]
    pub fn is_unknown(&self, run: &str) {
        assert_eq!(self.events(run), [], "{run}");
        assert_eq!(self.ok(self.get(run)), None, "{run}");
    }

    /// The names of the runs that pass.
    #[track_caller]
    pub fn listed(&self, filter: &RunFilter) -> Vec<String> {
        self.settle();
        let page = self.ok(self.list(filter, None, 1_000));
        page.runs.into_iter().map(|run| run.run_id).collect()
    }

    /// Runs the same thing on several threads at once and gives what each answered.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        stand::together(run)
    }
}
