//! Gathering: when many write at once, a sync waits a moment for those who are about to come.
//!
//! The clients of the last group get their answers and write again while the next sync starts without
//! them: two groups take turns and each sync carries half of what it could. So before a sync the log
//! lets the others run, for as long as more keep coming, until as many wait as were seen lately, and
//! never for longer than a fraction of what a sync costs. A lone writer never waits.

use crate::clock::{Clock, SystemClock};

/// The longest wait, as a fraction of a sync.
const SYNC_FRACTION: u64 = 2;
/// The longest wait at all.
const LIMIT_US: u64 = 300;

#[derive(Default)]
pub(crate) struct Gather {
    clock: SystemClock,
    /// How many were seen to wait at once lately.
    expected: usize,
    /// What a sync costs, lately.
    sync_us: u64,
}

impl Gather {
    /// Lets others run until enough wait, no more come, or the time is over.
    pub fn wait(&self, waiting: impl Fn() -> usize) {
        if self.expected <= 1 {
            return;
        }
        let mut count = waiting();
        if count == 0 {
            return;
        }
        let limit = (self.sync_us / SYNC_FRACTION).min(LIMIT_US);
        let start = self.clock.monotonic_us();
        while count < self.expected && self.clock.monotonic_us() - start < limit {
            std::thread::yield_now();
            count = waiting();
        }
    }

    /// Notes that a sync begins.
    pub fn begin_sync(&self) -> u64 {
        self.clock.monotonic_us()
    }

    /// Notes what the sync cost and how many it carried.
    pub fn end_sync(&mut self, begun: u64, carried: usize) {
        let cost = self.clock.monotonic_us() - begun;
        self.sync_us = (self.sync_us * 7 + cost) / 8;
        // Rises at once, falls slowly: a group that came late is still expected.
        self.expected = carried.max(self.expected - self.expected.div_ceil(8));
    }
}
