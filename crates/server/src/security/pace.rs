//! The pace of a user: while flushes fall behind, each user's requests are taken at a limited rate.
//!
//! ```text
//!   room for unflushed writes:  free ............ 2/5 ......... 3/5 ......... 4/5 ......... full: all writers wait
//!   rate of each user:          unlimited         all of it     a quarter     a sixteenth
//! ```
//!
//! So a flood of one user's writes never fills the room, and the few writes of another user do not wait for a flush. This is
//! the generic cell rate algorithm: one number says until when the bytes of the past have used up the rate.

use mainstay::{Clock, Database, SystemClock};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A user may be ahead of its rate by this much time.
const BURST_US: u64 = 50_000;
/// Nobody waits longer for one request: leases and sessions have to be kept alive.
const WAIT_LIMIT_US: u64 = 2_000_000;
/// And no large write waits longer for flushes.
pub const FLUSH_WAIT_LIMIT: Duration = Duration::from_micros(WAIT_LIMIT_US);
/// From this part of the room on flushes are behind.
const FIRST_STEP: f64 = 0.4;
/// Each step of the backlog divides the rate by this.
const STEP_FACTOR: u64 = 4;

/// Waits while flushes are behind, [`FLUSH_WAIT_LIMIT`] at most: a write of megabytes takes much of the room at once, and whoever
/// writes little must not wait for it.
pub fn await_flushes(db: &Database) {
    db.wait_for_flushes(FIRST_STEP, FLUSH_WAIT_LIMIT);
}

/// Whether flushes are behind.
pub fn flushes_are_behind(db: &Database) -> bool {
    db.flush_backlog() >= FIRST_STEP
}

/// The rate of one user. Clones of a user share it.
pub struct Pace {
    /// Nothing where there is nobody to leave room to.
    bytes_per_second: Option<u64>,
    clock: SystemClock,
    /// When the bytes that were taken have passed at the rate of their time.
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
    /// With this rate at the first step; without one it is never limited.
    pub fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, clock: SystemClock::new(), passed_us: AtomicU64::new(0) }
    }

    /// Takes bytes of requests; the backlog goes from 0 to 1, where all writers wait.
    pub fn take(&self, bytes: usize, backlog: f64) {
        let Some(rate) = self.rate(backlog) else { return };
        let cost_us = (bytes as u64).saturating_mul(1_000_000) / rate;
        let now_us = self.clock.monotonic_us();
        let add = |passed_us: u64| {
            Some(passed_us.max(now_us).saturating_add(cost_us).min(now_us + WAIT_LIMIT_US))
        };
        // The closure never refuses.
        let _ = self.passed_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// How long to wait before more is taken, a few seconds at most; nothing where it may go on.
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
