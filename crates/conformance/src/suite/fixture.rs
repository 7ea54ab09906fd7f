//! Test fixtures: how a store is opened, and control over its clock.

use super::test_store::block_on;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Factory of stores, implemented by each store under test. Each case gets its own fixture, so that no
/// case sees the writes of another.
pub trait Fixture<S: ?Sized>: Send + Sync {
    /// Returns the store with this name, initially empty and, for keyed state, undeclared. Repeated
    /// calls return the same store. Cases of records and of runs use only one.
    fn open(&self, name: &str) -> Arc<S>;

    /// Advances the store's time. A manual clock is moved; with any other clock, this sleeps.
    fn pass_ms(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }

    /// Returns whether the store uses a manual clock, which moves only when the test advances it.
    fn has_manual_clock(&self) -> bool {
        false
    }

    /// Waits until all acknowledged writes are visible, for stores where that takes longer.
    fn settle(&self) {}

    /// Returns whether the fixture can close all stores and open them again.
    fn can_reopen(&self) -> bool {
        false
    }

    /// Closes all stores and opens them again. Handles from before are stale: callers open their stores
    /// again.
    fn reopen(&self) {}

    /// Drives a future to completion. Stores that need an async runtime override this.
    fn drive(&self, task: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        block_on(task);
    }
}

/// A fixture whose store is wrapped, for example by a fault.
pub struct Wrapped<F, S: ?Sized> {
    fixture: F,
    store: Arc<S>,
}

impl<S: ?Sized, F: Fixture<S>> Wrapped<F, S> {
    /// Wraps the store of a fixture.
    pub fn new(fixture: F, wrap: impl FnOnce(Arc<S>) -> Arc<S>) -> Wrapped<F, S> {
        let store = wrap(fixture.open(super::test_store::NAME));
        Wrapped { fixture, store }
    }
}

impl<S: ?Sized + Send + Sync, F: Fixture<S>> Fixture<S> for Wrapped<F, S> {
    fn open(&self, _: &str) -> Arc<S> {
        self.store.clone()
    }

    fn pass_ms(&self, ms: u64) {
        self.fixture.pass_ms(ms);
    }

    fn has_manual_clock(&self) -> bool {
        self.fixture.has_manual_clock()
    }

    fn settle(&self) {
        self.fixture.settle();
    }

    fn drive(&self, task: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        self.fixture.drive(task);
    }
}
