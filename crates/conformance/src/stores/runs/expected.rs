//! `append_expecting`: an append conditional on the last sequence number of its run.
//!
//! Requires: ExpectedSeq.

use super::{TestRuns, keyed};
use mainstay_model::Code;

/// With the current last sequence number, the event is appended.
pub fn right_sequence_appends(s: &TestRuns<'_>) {
    let mut last = 0;
    for n in 0..5 {
        let appended = s.ok(s.append_expecting(keyed("r", &n.to_string(), ""), last));
        assert!(appended.persisted && appended.run_seq > last, "{appended:?}");
        last = appended.run_seq;
    }
}

/// With any other sequence number, it fails with `SequenceMoved` and writes nothing.
pub fn moved_is_refused(s: &TestRuns<'_>) {
    let first = s.append(keyed("r", "a", "")).run_seq;
    let last = s.append(keyed("r", "b", "")).run_seq;
    for expected in [0, first, last + 1] {
        s.refused(s.append_expecting(keyed("r", "c", ""), expected), Code::SequenceMoved);
    }
    assert_eq!(s.events("r").len(), 2);
}

/// A missing run has the last sequence number 0, and a refused append does not create it.
pub fn of_nothing_is_zero(s: &TestRuns<'_>) {
    s.refused(s.append_expecting(keyed("r", "a", ""), 1), Code::SequenceMoved);
    s.is_unknown("r");
    assert!(s.ok(s.append_expecting(keyed("r", "a", ""), 0)).persisted);
}

/// A retry with the old sequence number returns the first result.
pub fn told_again_is_the_first(s: &TestRuns<'_>) {
    let first = s.ok(s.append_expecting(keyed("r", "a", ""), 0));
    let again = s.ok(s.append_expecting(keyed("r", "a", ""), 0));
    assert_eq!((again.run_seq, again.idempotent), (first.run_seq, true));
    s.only("r");
}
