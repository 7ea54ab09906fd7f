//! Time as it is handed in: nothing here asks the machine.

use mainstay_model::Stamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The end of a sleep.
pub type Sleeping<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What time it is, and waiting for another.
pub trait Time: Send + Sync {
    /// Microseconds since 1970, by the clock that events are stamped with.
    fn now_us(&self) -> Stamp;

    /// Ends when so much time has gone by.
    fn sleep(&self, ms: u64) -> Sleeping<'_>;
}

/// The time of a program that runs on tokio: whoever makes it says what clock it reads.
pub struct TokioTime<C>(pub C);

impl<C: Fn() -> Stamp + Send + Sync> Time for TokioTime<C> {
    fn now_us(&self) -> Stamp {
        (self.0)()
    }

    fn sleep(&self, ms: u64) -> Sleeping<'_> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// A time that stands still until it is moved; for tests and simulations.
pub struct HandTime {
    now_us: AtomicU64,
    moved: Notify,
}

impl HandTime {
    /// A time that stands at this moment.
    pub fn at_us(now_us: Stamp) -> Arc<HandTime> {
        Arc::new(HandTime { now_us: AtomicU64::new(now_us), moved: Notify::new() })
    }

    /// Lets time go by; those who sleep until then wake.
    pub fn pass_ms(&self, ms: u64) {
        self.now_us.fetch_add(ms * 1_000, Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Time for HandTime {
    fn now_us(&self) -> Stamp {
        self.now_us.load(Ordering::SeqCst)
    }

    fn sleep(&self, ms: u64) -> Sleeping<'_> {
        let until_us = self.now_us().saturating_add(ms.saturating_mul(1_000));
        Box::pin(async move {
            loop {
                // Who is listed before it looks misses no move.
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
