//! Test fixture for record stores: a store of any implementation, and control over its clock.
//!
//! ```text
//!   StoreWorld (engine, Redis, ...) --makes--> Arc<dyn RecordStore>
//!        \--drives futures, advances the clock--> Stand --> case
//! ```

use crate::check::{PATIENCE, filter, keys_of};
use mainstay_model::{Answering, Capabilities, Code, RecordStore, Test, Where};
use std::future::Future;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Time to live of records in cases. It is long enough to read the record on a store without a manual
/// clock.
pub const LIFE_MS: u64 = 2_000;

/// Number of threads in a race.
pub const RACERS: usize = 8;

/// Factory of a record store, implemented by each store under test. Each case gets its own world, so
/// that no case sees the writes of another.
pub trait StoreWorld: Send + Sync {
    /// Returns the store, initially without records. Repeated calls return the same store.
    fn store(&self) -> Arc<dyn RecordStore>;

    /// Advances the store's time. A manual clock is moved; with any other clock, this sleeps.
    fn pass_ms(&self, ms: u64);

    /// Returns whether the store uses a manual clock, which moves only when the test advances it.
    fn has_clock_in_hand(&self) -> bool {
        false
    }

    /// Drives a future to completion. Stores that need an async runtime override this.
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

/// Waker that unparks a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Parked>) {
        self.0.unpark();
    }
}

/// Drives a future to completion on the current thread.
pub(crate) fn wait(task: impl Future<Output = ()>) {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut task = pin!(task);
    while task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        thread::park_timeout(PATIENCE);
    }
}

/// A record store with blocking, panicking helpers.
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
    /// Wraps the store of a world.
    pub fn of(world: &'w dyn StoreWorld) -> Stand<'w> {
        Stand { world, store: world.store() }
    }

    /// The capabilities of the store.
    pub fn can(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// Advances the store's time.
    pub fn pass_ms(&self, ms: u64) {
        self.world.pass_ms(ms);
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

    /// Waits for an `Unsupported` error that names the missing capability.
    #[track_caller]
    pub fn unsupported<T: Send>(&self, answer: Answering<'_, T>, capability: &str) {
        crate::check::unsupported(self.wait(answer), capability);
    }

    /// The fields of a record as pairs of strings; `None` if the record is absent.
    #[track_caller]
    pub fn shown(&self, key: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let record = self.ok(self.get(key))?;
        let pairs = record.fields.iter().map(|(name, value)| (text(name.as_bytes()), text(value)));
        Some(pairs.collect())
    }

    /// Asserts that a record has exactly these fields.
    #[track_caller]
    pub fn holds(&self, key: &str, pairs: &[(&str, &str)]) {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        assert_eq!(self.shown(key), Some(pairs.iter().map(pair).collect()), "{key}");
    }

    /// Asserts that a record is absent.
    #[track_caller]
    pub fn is_gone(&self, key: &str) {
        assert_eq!(self.shown(key), None, "{key}");
    }

    /// The counter of a record, which must exist.
    #[track_caller]
    pub fn counter(&self, key: &str) -> u64 {
        self.ok(self.get(key)).expect("the record is there").counter
    }

    /// The keys of all records that match the filters.
    #[track_caller]
    pub fn found(&self, prefix: &str, filters: &[Where]) -> Vec<String> {
        let page = self.ok(self.scan(prefix, filters, None, 1_000));
        keys_of(&page).into_iter().map(str::to_owned).collect()
    }

    /// The keys of all records whose field `f` passes the test.
    #[track_caller]
    pub fn passing(&self, test: fn(Vec<u8>) -> Test, bound: &str) -> Vec<String> {
        self.found("", &[filter("f", test, bound)])
    }

    /// Writes records with one field `f`.
    #[track_caller]
    pub fn fill(&self, records: &[(&str, &str)]) {
        for (key, value) in records {
            self.ok(self.set_field(key, "f", (*value).into()));
        }
    }

    /// Runs `run` on `RACERS` threads at once and returns all results.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        together(run)
    }
}

/// Runs `run` on `RACERS` threads, started together by a barrier, and returns all results.
pub(crate) fn together<T: Send>(run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(RACERS);
    thread::scope(|scope| {
        let one = |n| {
            let start = &start;
            let run = &run;
            scope.spawn(move || {
                start.wait();
                run(n)
            })
        };
        let threads: Vec<_> = (0..RACERS).map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("a racer failed")).collect()
    })
}
