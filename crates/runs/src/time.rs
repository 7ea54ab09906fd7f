//! Injected time: this crate never reads the machine's clock itself.

use mainstay_model::Stamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The future of a sleep.
pub type Sleeping<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A clock with timers.
pub trait Time: Send + Sync {
    /// Microseconds since 1970, by the clock that stamps events.
    fn now_us(&self) -> Stamp;

    /// Completes after this time.
    fn sleep(&self, ms: u64) -> Sleeping<'_>;
}

/// The time of a program on tokio, with a custom clock function.
pub struct TokioTime<C>(pub C);

impl<C: Fn() -> Stamp + Send + Sync> Time for TokioTime<C> {
    fn now_us(&self) -> Stamp {
        (self.0)()
    }

    fn sleep(&self, ms: u64) -> Sleeping<'_> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// A manual clock for tests and simulations.
pub struct HandTime {
    now_us: AtomicU64,
    moved: Notify,
}

impl HandTime {
    /// Creates a clock at this time.
    pub fn at_us(now_us: Stamp) -> Arc<HandTime> {
        Arc::new(HandTime { now_us: AtomicU64::new(now_us), moved: Notify::new() })
    }

    /// Advances the clock and wakes the sleepers whose time has come.
    pub fn pass_ms(&self, ms: u64) {
        // Synchronizes with the load in `now_us`: a sleeper that is woken must see the new time.
        self.now_us.fetch_add(ms * 1_000, Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Time for HandTime {
    fn now_us(&self) -> Stamp {
        // Synchronizes with the `fetch_add` in `pass_ms`.
        self.now_us.load(Ordering::SeqCst)
    }

    fn sleep(&self, ms: u64) -> Sleeping<'_> {
        let until_us = self.now_us().saturating_add(ms.saturating_mul(1_000));
        Box::pin(async move {
            loop {
                // Register before the check, so that no advance is missed.
                let mut moved = std::pin::pin!(self.moved.notified());
                moved.as_mut().enable();
                if self.now_us() >= until_us {
                    return;
                }
                moved.await;
            }
        })
    }
}
