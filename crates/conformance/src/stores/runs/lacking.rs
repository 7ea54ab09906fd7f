//! Missing capabilities: the store refuses with `Unsupported` and names the capability.
//!
//! It must not do something weaker instead.

use super::{TestRuns, event, keyed};
use mainstay_model::{RunFilter, RunStatus, Value};

fn unchanged(s: &TestRuns<'_>, asked: impl FnOnce()) {
    s.append(event("r", "RunStarted"));
    asked();
    assert_eq!(s.only("r").event_type, "RunStarted", "something was written");
}

/// Batches of several events.
/// Lacks: Batches.
pub fn batches(s: &TestRuns<'_>) {
    unchanged(s, || s.unsupported(s.append_batch(vec![keyed("r", "k", "")]), "batches"));
}

/// Appends conditional on the last sequence number.
/// Lacks: ExpectedSeq.
pub fn expected_seq(s: &TestRuns<'_>) {
    unchanged(s, || {
        let last = s.events("r")[0].run_seq;
        s.unsupported(s.append_expecting(keyed("r", "k", ""), last), "expected_seq");
    });
}

/// Creation of a run with metadata and events.
/// Lacks: Bootstrap.
pub fn bootstrap(s: &TestRuns<'_>) {
    let made = s.bootstrap("r", Value::Null, vec![event("r", "RunStarted")]);
    s.unsupported(made, "bootstrap");
    s.is_unknown("r");
}

/// Listing runs.
/// Lacks: Listing.
pub fn listing(s: &TestRuns<'_>) {
    s.unsupported(s.list(&RunFilter::default(), None, 10), "listing");
}

/// Listing runs with filters other than the name.
/// Requires: Listing.
/// Lacks: ListingFilters.
pub fn listing_filters(s: &TestRuns<'_>) {
    let filters = [
        RunFilter::default().status(RunStatus::Failed),
        RunFilter { created_from: Some(1), ..RunFilter::default() },
        RunFilter { updated_before: Some(1), ..RunFilter::default() },
    ];
    for filter in filters {
        s.unsupported(s.list(&filter, None, 10), "listing");
    }
}

/// Deletion of runs.
/// Lacks: Deletion.
pub fn deletion(s: &TestRuns<'_>) {
    unchanged(s, || s.unsupported(s.delete_run("r"), "deletion"));
}

/// Restoring archived events.
/// Lacks: Restoring.
pub fn restoring(s: &TestRuns<'_>) {
    unchanged(s, || {
        let mut event = s.only("r");
        event.run_seq += 1;
        event.idempotency_key = "other".into();
        s.unsupported(s.restore(vec![event]), "restoring");
    });
}

/// Waiting for an event.
/// Lacks: TailWakes.
pub fn tail_wakes(s: &TestRuns<'_>) {
    s.unsupported(s.wait_for("r", 0, 0), "tail_wakes");
}
