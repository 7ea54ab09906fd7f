//! A store under test with blocking, panicking helpers. Each contract adds helpers of its own.

use super::{Contract, Fixture};
use crate::assertions::{self, PATIENCE};
use mainstay_model::{Answering, Code};
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Time to live of records in cases. It is long enough to read the record on a store without a manual
/// clock.
pub const LIFE_MS: u64 = 2_000;

/// Number of threads in a race.
pub const RACERS: usize = 8;

/// Name of the store that most cases use.
pub(super) const NAME: &str = "space";

/// The store of a fixture.
pub struct TestStore<'f, S: ?Sized> {
    fixture: &'f dyn Fixture<S>,
    store: Arc<S>,
}

impl<S: ?Sized> Deref for TestStore<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.store
    }
}

impl<'f, S: Contract + ?Sized> TestStore<'f, S> {
    /// The default store of a fixture.
    pub fn of(fixture: &'f dyn Fixture<S>) -> TestStore<'f, S> {
        TestStore { fixture, store: fixture.open(NAME) }
    }

    /// Another store of the same fixture.
    pub fn other(&self, name: &str) -> TestStore<'f, S> {
        TestStore { fixture: self.fixture, store: self.fixture.open(name) }
    }

    /// Closes and reopens the fixture and returns its default store.
    pub fn reopened(&self) -> TestStore<'f, S> {
        self.fixture.reopen();
        TestStore::of(self.fixture)
    }

    /// The store without the helpers, for calls that may fail.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The capabilities of the store.
    pub fn can(&self) -> S::Capabilities {
        self.store.can()
    }

    /// Advances the store's time.
    pub fn pass_ms(&self, ms: u64) {
        self.fixture.pass_ms(ms);
    }

    /// Waits until all acknowledged writes are visible.
    pub fn settle(&self) {
        self.fixture.settle();
    }

    /// Waits for the result of a future.
    pub fn wait<T: Send>(&self, answer: impl Future<Output = T> + Send) -> T {
        let mut answered = None;
        self.fixture.drive(Box::pin(async { answered = Some(answer.await) }));
        answered.expect("a fixture drives tasks to their end")
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
        assertions::refused(self.wait(answer), code);
    }

    /// Waits for an error of kind `Invalid`.
    #[track_caller]
    pub fn invalid<T: Send>(&self, answer: Answering<'_, T>) {
        assertions::invalid(self.wait(answer));
    }

    /// Waits for an `Unsupported` error that names the missing capability.
    #[track_caller]
    pub fn unsupported<T: Send>(&self, answer: Answering<'_, T>, capability: &str) {
        assertions::unsupported(self.wait(answer), capability);
    }

    /// Runs `run` on `RACERS` threads, started together by a barrier, and returns all results.
    pub fn together<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
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
}

/// Waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Drives a future to completion on the current thread.
pub(super) fn block_on(task: impl Future<Output = ()>) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut task = pin!(task);
    while task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        thread::park_timeout(PATIENCE);
    }
}
