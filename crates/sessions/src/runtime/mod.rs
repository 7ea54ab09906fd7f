//! Runtime interface of a client: time and background tasks.

pub(crate) mod backoff;
pub(crate) mod select;
pub(crate) mod timer_thread;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

/// A background task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time and background tasks for a client. [`TimerThread`](crate::TimerThread) is self-contained. Callers can
/// adapt their own runtime, and tests use one with simulated time.
///
/// ```
/// use mainstay_sessions::{TimerThread, Runtime};
/// use std::time::Duration;
/// let runtime = TimerThread::start()?;
/// let before = runtime.now_us();
/// mainstay::remote::wait(runtime.sleep(Duration::from_millis(1)));
/// assert!(runtime.now_us() >= before + 1_000);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub trait Runtime: Send + Sync {
    /// Microseconds since a fixed point in time. Never decreases.
    fn now_us(&self) -> u64;

    /// Returns a future that completes after `time`.
    fn sleep(&self, time: Duration) -> Task;

    /// Runs a task in the background, at most until the runtime ends.
    fn spawn(&self, task: Task);

    /// Returns a random, globally unique, non-zero number. A simulation generates it from its seed.
    fn unique(&self) -> u64 {
        RandomState::new().hash_one(0).max(1)
    }
}
