//! `delete_run`: deletes a whole run.
//!
//! Requires: Deletion.

use super::{TestRuns, event, keyed};
use mainstay_model::{Code, Listings, RunFilter};

/// A deleted run is absent from every read.
pub fn deleted_is_gone_everywhere(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    assert!(s.ok(s.delete_run("r")));
    s.is_unknown("r");
    assert_eq!(s.ok(s.get_snapshot("r")), None);
    assert_eq!(s.ok(s.project_snapshot("r")), None);
    if s.can().listing >= Listings::Names {
        assert_eq!(s.listed(&RunFilter::default()), [] as [&str; 0]);
    }
}

/// Appending to a deleted run fails with `RunNotFound`, even for an event it had.
pub fn appends_are_not_found(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    s.ok(s.delete_run("r"));
    s.refused(s.append_event(event("r", "RunStarted")), Code::RunNotFound);
    s.refused(s.append_event(keyed("r", "k", "")), Code::RunNotFound);
    s.is_unknown("r");
}

/// A conditional append to a deleted run fails with `RunNotFound`.
/// Requires: ExpectedSeq.
pub fn expecting_is_not_found(s: &TestRuns<'_>) {
    let seq = s.append(event("r", "RunStarted")).run_seq;
    s.ok(s.delete_run("r"));
    for expected in [0, seq] {
        s.refused(s.append_expecting(keyed("r", "k", ""), expected), Code::RunNotFound);
    }
}

/// Deleting returns whether the run existed.
pub fn says_whether_it_was_there(s: &TestRuns<'_>) {
    assert!(!s.ok(s.delete_run("r")));
    s.append(event("r", "RunStarted"));
    assert!(s.ok(s.delete_run("r")));
    assert!(!s.ok(s.delete_run("r")));
}

/// Other runs are not deleted, even if their names begin with the deleted name.
pub fn others_stay(s: &TestRuns<'_>) {
    for run in ["r", "r/1", "r1", "q"] {
        s.append(event(run, "RunStarted"));
    }
    s.ok(s.delete_run("r"));
    for run in ["r/1", "r1", "q"] {
        s.only(run);
    }
}
