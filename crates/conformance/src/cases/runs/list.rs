//! Lists of runs: byte order, filters by prefix, status and time, pages.

use super::{note, of_run, tell};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, RunFilter, RunStatus};

fn listed(w: &TestDb, filter: &RunFilter) -> Vec<String> {
    let page = w.runs().list(filter, None, 1_000).unwrap();
    assert_eq!(page.next, None);
    page.runs.into_iter().map(|run| run.run_id).collect()
}

fn filled(w: &TestDb) {
    for run in ["b/2", "a", "b/1", "b", "é", "B"] {
        w.runs().append(of_run(run, "RunStarted")).unwrap();
    }
}

/// Runs are sorted by bytes; deleted and missing runs do not count towards the limit.
pub fn in_byte_order(w: &mut TestDb) {
    assert!(listed(w, &RunFilter::default()).is_empty());
    filled(w);
    w.runs().delete("b").unwrap();
    w.cells().set("aa", 1).unwrap();
    assert_eq!(listed(w, &RunFilter::default()), ["B", "a", "b/1", "b/2", "é"]);
}

/// Runs can be filtered by prefix, for example one per tenant.
pub fn by_prefix(w: &mut TestDb) {
    filled(w);
    assert_eq!(listed(w, &RunFilter::of("b/")), ["b/1", "b/2"]);
    assert_eq!(listed(w, &RunFilter::of("b")), ["b", "b/1", "b/2"]);
    assert!(listed(w, &RunFilter::of("c")).is_empty());
}

/// The status filter uses the current status.
pub fn by_status(w: &mut TestDb) {
    filled(w);
    w.runs().bootstrap("new", 1, vec![]).unwrap();
    tell(w, "a", &["RunCompleted"]);
    tell(w, "b", &["RunPaused"]);
    let of = |status| listed(w, &RunFilter::default().status(status));
    assert_eq!(of(RunStatus::Completed), ["a"]);
    assert_eq!(of(RunStatus::Paused), ["b"]);
    assert_eq!(of(RunStatus::Pending), ["new"]);
    assert_eq!(of(RunStatus::Running), ["B", "b/1", "b/2", "é"]);
    tell(w, "b", &["RunResumed"]);
    assert_eq!(of(RunStatus::Running).len(), 5);
}

/// Runs can be filtered by creation time and by the time of the last event. `from` is inclusive,
/// `before` is exclusive.
pub fn by_time(w: &mut TestDb) {
    let mut times = Vec::new();
    for run in ["a", "b", "c"] {
        w.pass_ms(10);
        times.push(w.wall_us());
        w.runs().append(note(run, 1)).unwrap();
    }
    w.pass_ms(10);
    w.runs().append(note("a", 2)).unwrap();
    let all = RunFilter::default;
    let created = RunFilter { created_from: Some(times[1]), ..all() };
    assert_eq!(listed(w, &created), ["b", "c"]);
    assert_eq!(listed(w, &RunFilter { created_before: Some(times[2]), ..created }), ["b"]);
    let updated = RunFilter { updated_from: Some(times[2]), ..all() };
    assert_eq!(listed(w, &updated), ["a", "c"]);
    assert_eq!(listed(w, &RunFilter { updated_before: Some(w.wall_us()), ..updated }), ["c"]);
}

/// Filters are evaluated before the limit, and paging returns every run once.
pub fn pages_give_everything_once(w: &mut TestDb) {
    for number in 0..40 {
        let run = format!("r{number:02}");
        tell(w, &run, if number % 3 == 0 { &["RunApproved"] } else { &["RunStarted"] });
    }
    let filter = RunFilter::of("r").status(RunStatus::Approved);
    for limit in [1, 3, 13, 14, 15] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = w.runs().list(&filter, after.as_deref(), limit).unwrap();
            seen.extend(page.runs.into_iter().map(|run| run.run_id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: Vec<_> = (0..40).step_by(3).map(|number| format!("r{number:02}")).collect();
        assert_eq!(seen, expected, "{limit}");
    }
}

/// A listed run has all of its info except the metadata.
pub fn tells_what_is_known(w: &mut TestDb) {
    w.runs()
        .bootstrap("r", "large", vec![of_run("r", "RunApproved"), of_run("r", "RunApproved")])
        .unwrap();
    tell(w, "r", &["RunApproved"]);
    let mut told = w.runs().get("r").unwrap().unwrap();
    let listed = w.runs().list(&RunFilter::default(), None, 9).unwrap().runs.remove(0);
    assert_eq!((told.metadata.take(), told.inconsistent), (Some("large".into()), true));
    assert_eq!(listed, told);
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(w: &mut TestDb) {
    refused(w.runs().list(&RunFilter::default(), None, 0), Code::InvalidLimit);
    refused(w.runs().list(&RunFilter::default(), None, 100_001), Code::InvalidLimit);
}
