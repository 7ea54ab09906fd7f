//! Missing capabilities: the store refuses with `Unsupported` and names the capability.
//!
//! It must not do something weaker instead.

use crate::run_stand::{RunStand, event, keyed};
use mainstay_model::{RunFilter, RunStatus, Value};

fn unchanged(s: &RunStand<'_>, asked: impl FnOnce()) {
    s.append(event("r", "RunStarted"));
    asked();
    assert_eq!(s.only("r").event_type, "RunStarted", "something was written");
}

/// Batches of several events.
pub fn batches(s: &RunStand<'_>) {
    unchanged(s, || s.unsupported(s.append_batch(vec![keyed("r", "k", "")]), "batches"));
}

/// Appends conditional on the last sequence number.
pub fn expected_seq(s: &RunStand<'_>) {
    unchanged(s, || {
        let last = s.events("r")[0].run_seq;
        s.unsupported(s.append_expecting(keyed("r", "k", ""), last), "expected_seq");
    });
}

/// Creation of a run with metadata and events.
pub fn bootstrap(s: &RunStand<'_>) {
    let made = s.bootstrap("r", Value::Null, vec![event("r", "RunStarted")]);
    s.unsupported(made, "bootstrap");
    s.is_unknown("r");
}

/// Listing runs.
pub fn listing(s: &RunStand<'_>) {
    s.unsupported(s.list(&RunFilter::default(), None, 10), "listing");
}

/// Listing runs with filters other than the name.
pub fn listing_filters(s: &RunStand<'_>) {
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
pub fn deletion(s: &RunStand<'_>) {
    unchanged(s, || s.unsupported(s.delete_run("r"), "deletion"));
}

/// Restoring archived events.
pub fn restoring(s: &RunStand<'_>) {
    unchanged(s, || {
        let mut event = s.only("r");
        event.run_seq += 1;
        event.idempotency_key = "other".into();
        s.unsupported(s.restore(vec![event]), "restoring");
    });
}

/// Waiting for an event.
pub fn tail_wakes(s: &RunStand<'_>) {
    s.unsupported(s.wait_for("r", 0, 0), "tail_wakes");
}
