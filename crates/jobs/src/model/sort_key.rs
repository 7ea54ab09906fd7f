//! Queue order as one decimal number, so that a single index yields the next job.
//!
//! ```text
//!   ready    | 2^31 - 1 - priority | 17 digits: microseconds of run_at or of submission |
//!   waiting  | 10^28 + run_at in milliseconds |
//! ```
//!
//! Jobs that wait for their `run_at` sort after all ready jobs, in order of time. So a claim never scans
//! them, and due jobs are the first part of that range. Their future rank is stored in a second field, so
//! that they become ready without being read.

use crate::model::job::field;
use mainstay::{RecordWrite, Result, Stamp};

/// First rank of waiting jobs, after the last ready one.
const FIRST_WAITING: u128 = 10_u128.pow(28);
/// Distance between two priorities, larger than any time in microseconds.
const PRIORITY_STEP: u128 = 10_u128.pow(17);

/// The rank of a ready job.
pub(crate) fn ready(priority: i32, since_us: u64) -> String {
    let order = u128::from(i32::MAX.abs_diff(priority));
    (order * PRIORITY_STEP + u128::from(since_us).min(PRIORITY_STEP - 1)).to_string()
}

/// The rank of a job that waits for its time.
pub(crate) fn waiting(run_at_ms: u64) -> String {
    (FIRST_WAITING + u128::from(run_at_ms)).to_string()
}

/// Position of a job in the queue.
pub(crate) struct SortKey {
    rank: String,
    /// Its rank once it is due, if it waits for that.
    ready_rank: Option<String>,
}

impl SortKey {
    /// A position that is ready from `run_at_ms` on, or from now on.
    pub fn of(priority: i32, run_at_ms: Option<u64>, now_us: Stamp) -> SortKey {
        let since_us = run_at_ms.map_or(now_us, |run_at_ms| run_at_ms.saturating_mul(1000));
        let ready_rank = ready(priority, since_us);
        match run_at_ms.filter(|run_at_ms| *run_at_ms > now_us / 1000) {
            Some(run_at_ms) => SortKey { rank: waiting(run_at_ms), ready_rank: Some(ready_rank) },
            None => SortKey { rank: ready_rank, ready_rank: None },
        }
    }

    /// Sets the rank fields in a job's record.
    pub fn apply_to(self, write: RecordWrite) -> Result<RecordWrite> {
        let write = write.set(field::RANK, self.rank)?;
        match self.ready_rank {
            Some(ready_rank) => write.set(field::READY_RANK, ready_rank),
            None => write.clear(field::READY_RANK),
        }
    }
}

/// The exclusive upper bound of all ready ranks.
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
