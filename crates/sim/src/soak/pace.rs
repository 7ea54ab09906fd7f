//! A schedule: when each operation is meant to begin, whether or not those before it are done.
//!
//! ```text
//!   meant to begin   |----|----|----|----|----|----|      one gap after the other, from the start
//!   begun            |----|-----------|-|-|--|----|       a stall holds some up: their latency counts from when they were
//!                               ^ backlog                 meant to begin, so that none is left out
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// An operation that is this late is left out, and counted: the backlog has a bound.
const LATE_LIMIT_US: u64 = 10_000_000;

/// Gives out beginnings, one after the other.
pub(super) struct Pace {
    start_us: u64,
    end_us: u64,
    /// Operations per second.
    rate: u64,
    given: AtomicU64,
    shed: AtomicU64,
}

impl Pace {
    pub fn new(start_us: u64, end_us: u64, rate: u64) -> Pace {
        let (given, shed) = (AtomicU64::new(0), AtomicU64::new(0));
        Pace { start_us, end_us, rate: rate.max(1), given, shed }
    }

    /// When the next operation is meant to begin; nothing when the time is over.
    pub fn next(&self, now_us: u64) -> Option<u64> {
        loop {
            let number = self.given.fetch_add(1, Ordering::Relaxed);
            let due_us = self.start_us + number * 1_000_000 / self.rate;
            if due_us >= self.end_us {
                return None;
            }
            if due_us + LATE_LIMIT_US >= now_us {
                return Some(due_us);
            }
            self.shed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many operations should have begun and have not.
    pub fn backlog(&self, now_us: u64) -> u64 {
        let passed_us = now_us.min(self.end_us).saturating_sub(self.start_us);
        (passed_us * self.rate / 1_000_000).saturating_sub(self.given.load(Ordering::Relaxed))
    }

    /// How many operations were left out.
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_come_at_the_rate_until_the_end() {
        let pace = Pace::new(1000, 1000 + 1_000_000, 100);
        let given: Vec<u64> = std::iter::from_fn(|| pace.next(0)).collect();
        assert_eq!(given.len(), 100);
        assert_eq!(given[..3], [1000, 11_000, 21_000]);
    }

    #[test]
    fn what_is_held_up_is_the_backlog_and_what_is_too_late_is_left_out() {
        let pace = Pace::new(0, 60_000_000, 10);
        assert_eq!(pace.next(0), Some(0));
        assert_eq!(pace.backlog(5_000_000), 49);
        // Half a minute later the first twenty seconds are too late.
        assert_eq!(pace.next(30_000_000), Some(20_000_000));
        assert_eq!((pace.shed(), pace.backlog(30_000_000)), (199, 99));
    }
}
