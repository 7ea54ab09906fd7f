//! `fetch`: ascending events after a sequence number, up to a limit.

use super::note;
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Runs};

fn filled(w: &TestDb) -> Runs {
    w.runs().append_batch((1..=10).map(|number| note("r", number)).collect()).unwrap();
    w.runs()
}

fn sequences(runs: &Runs, after: u64, limit: usize) -> Vec<u64> {
    runs.fetch("r", after, limit).unwrap().iter().map(|event| event.run_seq).collect()
}

/// Fetching an unknown run returns no events and no error.
pub fn unknown_run_is_empty(w: &mut TestDb) {
    assert!(w.runs().fetch("r", 0, 10).unwrap().is_empty());
    w.runs().bootstrap("s", 1, vec![]).unwrap();
    assert!(w.runs().fetch("s", 0, 10).unwrap().is_empty());
}

/// Events are ascending, and the start position is exclusive.
pub fn after_is_exclusive(w: &mut TestDb) {
    let runs = filled(w);
    assert_eq!(sequences(&runs, 0, 100), (1..=10).collect::<Vec<_>>());
    assert_eq!(sequences(&runs, 7, 100), [8, 9, 10]);
    assert_eq!(sequences(&runs, 9, 100), [10]);
}

/// Fetching after the last event returns nothing, for any position.
pub fn behind_the_last_is_nothing(w: &mut TestDb) {
    let runs = filled(w);
    for after in [10, 11, 1 << 40, u64::MAX - 1, u64::MAX] {
        assert!(sequences(&runs, after, 100).is_empty(), "{after}");
    }
}

/// The limit keeps the first events.
pub fn limit_keeps_the_first(w: &mut TestDb) {
    let runs = filled(w);
    assert_eq!(sequences(&runs, 0, 3), [1, 2, 3]);
    assert_eq!(sequences(&runs, 8, 3), [9, 10]);
}

/// Paging returns every event once, for any page size.
pub fn pages_give_everything_once(w: &mut TestDb) {
    let runs = filled(w);
    for limit in 1..=11 {
        let mut seen = Vec::new();
        let mut after = 0;
        while let Some(last) = sequences(&runs, after, limit).last().copied() {
            seen.extend(sequences(&runs, after, limit));
            after = last;
        }
        assert_eq!(seen, (1..=10).collect::<Vec<_>>());
    }
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(w: &mut TestDb) {
    let runs = filled(w);
    refused(runs.fetch("r", 0, 0), Code::InvalidLimit);
    refused(runs.fetch("r", 0, 100_001), Code::InvalidLimit);
    assert_eq!(runs.fetch("r", 0, 100_000).unwrap().len(), 10);
}

/// Reads write nothing, even for a missing run.
pub fn looking_writes_nothing(w: &mut TestDb) {
    let runs = filled(w);
    writes_nothing(w.db(), || {
        runs.fetch("r", 0, 9).unwrap();
        runs.fetch("absent", 0, 9).unwrap();
        runs.snapshot("absent").unwrap();
        runs.project("r").unwrap();
    });
    assert!(runs.get("absent").unwrap().is_none());
}
