//! Rate limit per user: while flushes fall behind, the requests of each user are taken at a limited rate.
//!
//! ```text
//!   write buffer in use:  empty ............ 2/5 ......... 3/5 ......... 4/5 ......... full: all writers wait
//!   rate of each user:    unlimited         full rate     a quarter     a sixteenth
//! ```
//!
//! A flood of writes from one user therefore never fills the write buffer, and the few writes of another
//! user do not wait for a flush. The algorithm is GCRA (generic cell rate algorithm): a single timestamp
//! says until when past bytes have used up the rate.

use mainstay::{Clock, Database, SystemClock};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The burst tolerance: a user may be ahead of its rate by this much time.
const BURST_US: u64 = 50_000;
/// The longest delay of a request. It is limited because leases and sessions have to be renewed.
const WAIT_LIMIT_US: u64 = 2_000_000;
/// The longest time that a large write waits for flushes.
pub const FLUSH_WAIT_LIMIT: Duration = Duration::from_micros(WAIT_LIMIT_US);
/// Flushes are behind once this part of the write buffer is in use.
const FIRST_STEP: f64 = 0.4;
/// Each further step of the backlog divides the rate by this.
const STEP_FACTOR: u64 = 4;

/// Waits while flushes are behind, at most [`FLUSH_WAIT_LIMIT`]. A write of megabytes takes much of the
/// write buffer at once, and small writes of other clients must not wait for it.
pub fn await_flushes(db: &Database) {
    db.wait_for_flushes(FIRST_STEP, FLUSH_WAIT_LIMIT);
}

/// Returns whether flushes are behind.
pub fn flushes_are_behind(db: &Database) -> bool {
    db.flush_backlog() >= FIRST_STEP
}

/// The rate limiter of one user. Clones of a user share it.
pub struct Pace {
    /// `None` if the user is not limited, because it is the only one.
    bytes_per_second: Option<u64>,
    clock: SystemClock,
    /// The time until which past bytes have used up the rate (the theoretical arrival time of GCRA).
    passed_us: AtomicU64,
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace")
            .field("bytes_per_second", &self.bytes_per_second)
            .finish_non_exhaustive()
    }
}

impl Pace {
    /// Creates a limiter with this rate at the first step of the backlog. `None` never limits.
    pub fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, clock: SystemClock::new(), passed_us: AtomicU64::new(0) }
    }

    /// Charges bytes of requests. The backlog ranges from 0 to 1; at 1 all writers wait.
    pub fn take(&self, bytes: usize, backlog: f64) {
        let Some(rate) = self.rate(backlog) else { return };
        let cost_us = (bytes as u64).saturating_mul(1_000_000) / rate;
        let now_us = self.clock.monotonic_us();
        let add = |passed_us: u64| {
            Some(passed_us.max(now_us).saturating_add(cost_us).min(now_us + WAIT_LIMIT_US))
        };
        // The closure never returns `None`, so the update always succeeds.
        let _ = self.passed_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the delay until more may be taken, at most a few seconds; `None` without a delay.
    pub fn wait(&self, backlog: f64) -> Option<Duration> {
        self.rate(backlog)?;
        let passed_us = self.passed_us.load(Ordering::Relaxed);
        if passed_us == 0 {
            return None;
        }
        let ahead_us = passed_us.saturating_sub(self.clock.monotonic_us());
        (ahead_us > BURST_US).then(|| Duration::from_micros(ahead_us - BURST_US))
    }

    fn rate(&self, backlog: f64) -> Option<u64> {
        let divisor = match backlog {
            backlog if backlog < FIRST_STEP => return None,
            backlog if backlog < 0.6 => 1,
            backlog if backlog < 0.8 => STEP_FACTOR,
            _ => STEP_FACTOR * STEP_FACTOR,
        };
        self.bytes_per_second.map(|rate| (rate / divisor).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_flood_waits_and_only_while_flushes_fall_behind() {
        let pace = Pace::new(Some(1 << 20));
        pace.take(1 << 30, 0.2);
        assert_eq!(pace.wait(0.8), None, "there was room");
        pace.take(1 << 10, 0.8);
        assert_eq!(pace.wait(0.8), None, "that is little");
        pace.take(1 << 19, 0.4);
        let first = pace.wait(0.4).unwrap();
        pace.take(1 << 18, 0.6);
        let second = pace.wait(0.6).unwrap();
        assert!(first > Duration::from_millis(400), "{first:?}");
        assert!(second > first + Duration::from_millis(900), "a quarter of the rate: {second:?}");
        pace.take(1 << 30, 0.8);
        assert!(pace.wait(0.8).unwrap() <= Duration::from_secs(2), "a bounded wait");
        assert_eq!(pace.wait(0.2), None, "there is room again");
    }

    #[test]
    fn a_user_alone_is_never_limited() {
        let pace = Pace::new(None);
        pace.take(usize::MAX, 1.0);
        assert_eq!(pace.wait(1.0), None);
    }
}
