//! Where a case of stores runs: a store of any kind, and whoever lets time go by for it.
//!
//! ```text
//!   StoreWorld (engine, Redis, ...) --makes--> Arc<dyn RecordStore>
//!        \--drives its answers, lets time go by--> Stand --> case
//! ```

use crate::check::{PATIENCE, filter, keys_of};
use mainstay_model::{Answering, Capabilities, Code, RecordStore, Test, Where};
use std::future::Future;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// How long records live in cases: long enough to be looked at where time cannot be held.
pub const LIFE_MS: u64 = 2_000;

/// How many race each other.
pub const RACERS: usize = 8;

/// Whoever brings a store to the suite. Each case gets a world of its own, so that none sees what another
/// wrote.
pub trait StoreWorld: Send + Sync {
    /// The store, without a record in it. Asked again it is the same one.
    fn store(&self) -> Arc<dyn RecordStore>;

    /// Lets milliseconds go by for the store: a clock in the hand is moved, any other is waited for.
    fn pass_ms(&self, ms: u64);

    /// Whether the store's clock stands still unless time is let go by.
    fn has_clock_in_hand(&self) -> bool {
        false
    }

    /// Drives a task to its end: for stores that need a runtime, on that.
    fn drive(&self, task: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        wait(task);
    }
}

impl StoreWorld for crate::World {
    fn store(&self) -> Arc<dyn RecordStore> {
        Arc::new(self.records())
    }

    fn pass_ms(&self, ms: u64) {
        crate::World::pass_ms(self, ms);
    }

    fn has_clock_in_hand(&self) -> bool {
        true
    }
}

/// A thread that waits for a task.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Parked>) {
        self.0.unpark();
    }
}

/// Drives a task to its end on this thread.
pub(crate) fn wait(task: impl Future<Output = ()>) {
    let (waker, mut task) = (Waker::from(Arc::new(Parked(thread::current()))), pin!(task));
    while task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        thread::park_timeout(PATIENCE);
    }
}

/// A store as cases use it: what it answers is waited for.
pub struct Stand<'w> {
    world: &'w dyn StoreWorld,
    store: Arc<dyn RecordStore>,
}

impl Deref for Stand<'_> {
    type Target = dyn RecordStore;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl<'w> Stand<'w> {
    /// The store of a world.
    pub fn of(world: &'w dyn StoreWorld) -> Stand<'w> {
        Stand { world, store: world.store() }
    }

    /// What the store can do.
    pub fn can(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Lets time go by.
    pub fn pass_ms(&self, ms: u64) {
        self.world.pass_ms(ms);
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

    /// Waits for an error that says which capability is lacking.
    #[track_caller]
    pub fn unsupported<T: Send>(&self, answer: Answering<'_, T>, capability: &str) {
        crate::check::unsupported(self.wait(answer), capability);
    }

    /// The fields of a record as pairs of texts.
    #[track_caller]
    pub fn shown(&self, key: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let record = self.ok(self.get(key))?;
        let pairs = record.fields.iter().map(|(name, value)| (text(name.as_bytes()), text(value)));
        Some(pairs.collect())
    }

    /// Asserts what a record holds: these fields and no others.
    #[track_caller]
    pub fn holds(&self, key: &str, pairs: &[(&str, &str)]) {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        assert_eq!(self.shown(key), Some(pairs.iter().map(pair).collect()), "{key}");
    }

    /// Asserts that there is no such record.
    #[track_caller]
    pub fn is_gone(&self, key: &str) {
        assert_eq!(self.shown(key), None, "{key}");
    }

    /// The counter of a record that is there.
    #[track_caller]
    pub fn counter(&self, key: &str) -> u64 {
        self.ok(self.get(key)).expect("the record is there").counter
    }

    /// The keys of all records that pass.
    #[track_caller]
    pub fn found(&self, prefix: &str, filters: &[Where]) -> Vec<String> {
        let page = self.ok(self.scan(prefix, filters, None, 1_000));
        keys_of(&page).into_iter().map(str::to_owned).collect()
    }

    /// The keys of all records whose field `f` passes.
    #[track_caller]
    pub fn passing(&self, test: fn(Vec<u8>) -> Test, bound: &str) -> Vec<String> {
        self.found("", &[filter("f", test, bound)])
    }

    /// Puts records with one field `f`.
    #[track_caller]
    pub fn fill(&self, records: &[(&str, &str)]) {
        for (key, value) in records {
            self.ok(self.set_field(key, "f", (*value).into()));
        }
    }

    /// Runs the same thing on several threads at once and gives what each answered.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        together(run)
    }
}

/// Runs the same thing on several threads at once and gives what each answered.
pub(crate) fn together<T: Send>(run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(RACERS);
    thread::scope(|scope| {
        let one = |n| {
            let (start, run) = (&start, &run);
            scope.spawn(move || {
                start.wait();
                run(n)
            })
        };
        let threads: Vec<_> = (0..RACERS).map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("a racer failed")).collect()
    })
}
