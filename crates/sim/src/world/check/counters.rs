//! Check: counters and runs have no gaps.

use super::{ALL, number, told};
use crate::drill::Outcome;
use crate::world::operation::{RUNS, run};
use mainstay::{Database, HistoryEntry};

/// Checks the counter of all operations, and every run.
pub fn check(db: &Database, sequence: &[HistoryEntry]) -> Outcome<()> {
    for (place, version) in sequence.iter().enumerate() {
        let expected = place as i64 + 1;
        if number(version) != expected || version.counter != place as u64 + 1 || version.writes != 1
        {
            return Err(format!("the counter has {version:?} in place {expected}"));
        }
    }
    for run in (0..RUNS).map(run) {
        let events = db.runs().fetch(&run, 0, ALL).map_err(told("a run"))?;
        for (place, event) in events.iter().enumerate() {
            if event.run_seq != place as u64 + 1 {
                return Err(format!("`{run}` has event {} in place {place}", event.run_seq));
            }
        }
    }
    Ok(())
}
