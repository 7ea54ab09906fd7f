//! The order of jobs as one decimal number, so that one index gives the next one.
//!
//! ```text
//!   ready    | 2^31 - 1 - priority | 17 digits: microseconds of run_at or of submission |
//!   waiting  | 10^28 + run_at in milliseconds |
//! ```
//!
//! What waits for its `run_at` stands behind everything that is ready, in order of time: whoever claims never
//! walks over it, and what has come due is the first part of it. The rank that it gets then stands beside, so that
//! it is made ready without being read.

use crate::job::field;
use mainstay::{RecordWrite, Result, Stamp};

/// Where waiting jobs begin: behind the last that is ready.
const WAITING: u128 = 10_u128.pow(28);
/// How far apart priorities are: beyond all microseconds.
const PRIORITY: u128 = 10_u128.pow(17);

/// The rank of a job that can be claimed.
pub(crate) fn ready(priority: i32, since_us: u64) -> String {
    let place = u128::from(i32::MAX.abs_diff(priority));
    (place * PRIORITY + u128::from(since_us).min(PRIORITY - 1)).to_string()
}

/// The rank of a job that waits for its time.
pub(crate) fn waiting(run_at_ms: u64) -> String {
    (WAITING + u128::from(run_at_ms)).to_string()
}

/// Where a job stands in the queue.
pub(crate) struct Place {
    rank: String,
    /// Its rank when its time has come, if it waits for that.
    ready: Option<String>,
}

impl Place {
    /// Ready from a moment on, in milliseconds, or from now on.
    pub fn of(priority: i32, run_at_ms: Option<u64>, now_us: Stamp) -> Place {
        let since_us = run_at_ms.map_or(now_us, |run_at_ms| run_at_ms.saturating_mul(1000));
        let ready = ready(priority, since_us);
        match run_at_ms.filter(|run_at_ms| *run_at_ms > now_us / 1000) {
            Some(run_at_ms) => Place { rank: waiting(run_at_ms), ready: Some(ready) },
            None => Place { rank: ready, ready: None },
        }
    }

    /// Writes it into a job's record.
    pub fn put(self, write: RecordWrite) -> Result<RecordWrite> {
        let write = write.set(field::RANK, self.rank)?;
        match self.ready {
            Some(ready) => write.set(field::READY_RANK, ready),
            None => write.clear(field::READY_RANK),
        }
    }
}

/// The bound that every job that is ready is below, and no other.
pub(crate) fn first_waiting() -> String {
    waiting(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_comes_first_then_time_then_all_that_waits() {
        let order = [
            ready(i32::MAX, 0),
            ready(5, 1_700_000_000_000_000),
            ready(5, 1_700_000_000_000_001),
            ready(0, 3),
            ready(-1, 0),
            ready(i32::MIN, u64::MAX),
            first_waiting(),
            waiting(1_700_000_000_000),
            waiting(u64::MAX),
        ];
        let numbers: Vec<u128> = order.iter().map(|rank| rank.parse().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{order:?}");
        assert!(order.iter().all(|rank| rank.len() <= 32), "an index keeps 32 digits");
    }
}
