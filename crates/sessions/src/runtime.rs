//! What a client runs on: time, and somebody who does what has to be done beside its callers.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

/// Something to be done that nobody waits for.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time, and hands for what is done in the background. [`OwnThread`](crate::OwnThread) is the one that needs nothing;
/// whoever has a runtime can lend it, and tests have one whose time they make themselves.
///
/// ```
/// use mainstay_sessions::{OwnThread, Runtime};
/// use std::time::Duration;
/// let runtime = OwnThread::start()?;
/// let before = runtime.now_us();
/// mainstay::remote::wait(runtime.sleep(Duration::from_millis(1)));
/// assert!(runtime.now_us() >= before + 1_000);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub trait Runtime: Send + Sync {
    /// Microseconds since some fixed moment; they never go back.
    fn now_us(&self) -> u64;

    /// Is over when so much time has passed.
    fn sleep(&self, time: Duration) -> Task;

    /// Has a task done, beside everything else. It lives for as long as the runtime does, at most.
    fn spawn(&self, task: Task);

    /// A number that no client anywhere is given twice, as far as chance allows, and that is not zero. Whoever simulates a
    /// world gives them from a seed.
    fn unique(&self) -> u64 {
        RandomState::new().hash_one(0).max(1)
    }
}
