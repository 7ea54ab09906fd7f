//! Clocks: the only file that asks the machine for the time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of wall-clock and monotonic time.
pub trait Clock: Send + Sync {
    /// Wall clock: microseconds since the Unix epoch. It may jump.
    fn wall_us(&self) -> u64;
    /// Monotonic clock: microseconds since some fixed moment. It never goes back.
    fn monotonic_us(&self) -> u64;
}

/// The operating system's clocks.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the one file that asks the machine")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one file that asks the machine")]
    fn wall_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only on request, for tests and simulations.
pub struct ManualClock {
    now: Mutex<(u64, u64)>,
}

impl ManualClock {
    /// Creates a clock whose wall clock shows `wall_us` and whose monotonic clock shows zero.
    pub fn new(wall_us: u64) -> Arc<ManualClock> {
        Arc::new(ManualClock { now: Mutex::new((wall_us, 0)) })
    }

    fn lock(&self) -> MutexGuard<'_, (u64, u64)> {
        // A panic of another thread leaves both numbers whole.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let mut now = self.lock();
        *now = (now.0.saturating_add(by), now.1.saturating_add(by));
    }

    /// Sets the wall clock, as an operator or an NTP server would.
    pub fn set_wall(&self, wall_us: u64) {
        self.lock().0 = wall_us;
    }
}

impl Clock for ManualClock {
    fn wall_us(&self) -> u64 {
        self.lock().0
    }

    fn monotonic_us(&self) -> u64 {
        self.lock().1
    }
}
