//! `ping` and `close`.

use super::{TestRuns, event};
use mainstay_model::{Code, FetchOptions};

/// `ping` returns true while the store is open.
pub fn ping_is_true_while_open(s: &TestRuns<'_>) {
    assert!(s.ok(s.ping()));
    s.append(event("r", "RunStarted"));
    assert!(s.ok(s.ping()));
}

/// After `close`, every operation fails with `Closed`, but `ping` returns false without an error.
pub fn closed_says_so(s: &TestRuns<'_>) {
    s.append(event("r", "RunStarted"));
    s.ok(s.close());
    assert!(!s.ok(s.ping()));
    s.refused(s.append_event(event("r", "RunPaused")), Code::Closed);
    s.refused(s.fetch_events("r", FetchOptions::default()), Code::Closed);
    s.refused(s.get_snapshot("r"), Code::Closed);
    s.refused(s.project_snapshot("r"), Code::Closed);
    s.refused(s.snapshot_at("r", 1), Code::Closed);
    s.refused(s.get("r"), Code::Closed);
}

/// Closing twice succeeds.
pub fn closing_again_is_nothing(s: &TestRuns<'_>) {
    s.ok(s.close());
    s.ok(s.close());
}
