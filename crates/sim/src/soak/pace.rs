//! An open-loop schedule: the start time of each operation, independent of the completion of earlier ones.
//!
//! ```text
//!   scheduled        |----|----|----|----|----|----|      one gap after the other, from the start
//!   started          |----|-----------|-|-|--|----|       a stall delays some: their latency counts from the scheduled
//!                               ^ backlog                 start, so that none is left out (no coordinated omission)
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// An operation that is this late is skipped and counted, so that the backlog is bounded.
const LATE_LIMIT_US: u64 = 10_000_000;

/// Gives out start times, one after the other.
pub(super) struct Pace {
    start_us: u64,
    end_us: u64,
    /// The rate in operations per second.
    rate: u64,
    given: AtomicU64,
    shed: AtomicU64,
}

impl Pace {
    pub fn new(start_us: u64, end_us: u64, rate: u64) -> Pace {
        let given = AtomicU64::new(0);
        let shed = AtomicU64::new(0);
        Pace { start_us, end_us, rate: rate.max(1), given, shed }
    }

    /// Returns the scheduled start of the next operation; `None` at the end of the schedule.
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

    /// Returns how many operations should have started but have not.
    pub fn backlog(&self, now_us: u64) -> u64 {
        let passed_us = now_us.min(self.end_us).saturating_sub(self.start_us);
        (passed_us * self.rate / 1_000_000).saturating_sub(self.given.load(Ordering::Relaxed))
    }

    /// Returns how many operations were skipped.
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
        // Half a minute later, operations of the first twenty seconds are too late.
        assert_eq!(pace.next(30_000_000), Some(20_000_000));
        assert_eq!((pace.shed(), pace.backlog(30_000_000)), (199, 99));
    }
}
