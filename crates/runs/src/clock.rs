//! Injected time: this crate never reads the machine's clock itself.

use mainstay_model::Stamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The future of a sleep.
pub type SleepFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A clock with timers.
pub trait AsyncClock: Send + Sync {
    /// Microseconds since 1970, by the clock that stamps events.
    fn now_us(&self) -> Stamp;

    /// Completes after this time.
    fn sleep(&self, ms: u64) -> SleepFuture<'_>;
}

/// The time of a program on tokio, with a custom clock function.
pub struct TokioClock<C>(pub C);

impl<C: Fn() -> Stamp + Send + Sync> AsyncClock for TokioClock<C> {
    fn now_us(&self) -> Stamp {
        (self.0)()
    }

    fn sleep(&self, ms: u64) -> SleepFuture<'_> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// A manual clock for tests and simulations.
pub struct ManualClock {
    now_us: AtomicU64,
    advance: Notify,
}

impl ManualClock {
    /// Creates a clock at this time.
    pub fn at_us(now_us: Stamp) -> Arc<ManualClock> {
        Arc::new(ManualClock { now_us: AtomicU64::new(now_us), advance: Notify::new() })
    }

    /// Advances the clock and wakes the sleepers whose time has come.
    pub fn pass_ms(&self, ms: u64) {
        // Synchronizes with the load in `now_us`: a sleeper that is woken must see the new time.
        self.now_us.fetch_add(ms * 1_000, Ordering::SeqCst);
        self.advance.notify_waiters();
    }
}

impl AsyncClock for ManualClock {
    fn now_us(&self) -> Stamp {
        // Synchronizes with the `fetch_add` in `pass_ms`.
        self.now_us.load(Ordering::SeqCst)
    }

    fn sleep(&self, ms: u64) -> SleepFuture<'_> {
        let until_us = self.now_us().saturating_add(ms.saturating_mul(1_000));
        Box::pin(async move {
            loop {
                // Register before the check, so that no advance is missed.
                let mut advance = std::pin::pin!(self.advance.notified());
                advance.as_mut().enable();
                if self.now_us() >= until_us {
                    return;
                }
                advance.await;
            }
        })
    }
}
