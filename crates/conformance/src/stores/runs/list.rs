//! `list`: order, cursors, filters of runs.

use super::{TestRuns, event, keyed};
use mainstay_model::{Code, NewEvent, RunFilter, RunStatus};

fn fill(s: &TestRuns<'_>, runs: &[&str]) {
    for run in runs {
        s.append(event(run, "RunStarted"));
    }
    s.settle();
}

/// Runs are sorted by the bytes of their names.
/// Requires: Listing.
pub fn goes_in_name_order(s: &TestRuns<'_>) {
    fill(s, &["b", "é", "a", "B", "ba", "b/1", "z"]);
    assert_eq!(s.listed(&RunFilter::default()), ["B", "a", "b", "b/1", "ba", "z", "é"]);
    let page = s.ok(s.list(&RunFilter::default(), None, 7));
    assert_eq!(page.next, None);
    assert_eq!((page.runs[0].status, page.runs[0].metadata.clone()), (RunStatus::Running, None));
}

/// Only names with the prefix are listed, and pattern characters have no special meaning.
/// Requires: Listing.
pub fn keeps_to_the_prefix(s: &TestRuns<'_>) {
    fill(s, &["a", "a/1", "a/2", "ab", "b", "a*"]);
    assert_eq!(s.listed(&RunFilter::of("a/")), ["a/1", "a/2"]);
    assert_eq!(s.listed(&RunFilter::of("a*")), ["a*"]);
    for nothing in ["?", "[a]", "%", "a_", "c"] {
        assert_eq!(s.listed(&RunFilter::of(nothing)), [] as [&str; 0], "{nothing}");
    }
}

/// Following the cursor returns each run exactly once, and the cursor's run need not exist.
/// Requires: Listing.
pub fn cursor_gives_everything_once(s: &TestRuns<'_>) {
    let runs: Vec<String> = (0..25).map(|n| format!("r{n:02}")).collect();
    fill(s, &runs.iter().map(String::as_str).collect::<Vec<_>>());
    for limit in [1, 4, 5, 25, 26] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = s.ok(s.list(&RunFilter::of("r"), after.as_deref(), limit));
            assert!(page.runs.len() <= limit, "{} at once", page.runs.len());
            seen.extend(page.runs.into_iter().map(|run| run.run_id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, runs, "{limit}");
    }
    let page = s.ok(s.list(&RunFilter::of("r"), Some("r22x"), 9));
    assert_eq!(page.runs.len(), 2);
}

/// A limit of zero or above 100,000 is refused.
/// Requires: Listing.
pub fn limits_are_checked(s: &TestRuns<'_>) {
    for limit in [0, 100_001] {
        s.refused(s.list(&RunFilter::default(), None, limit), Code::InvalidLimit);
    }
    assert_eq!(s.ok(s.list(&RunFilter::default(), None, 100_000)).runs, []);
}

/// The status filter uses the current status.
/// Requires: ListingFilters.
pub fn by_status(s: &TestRuns<'_>) {
    fill(s, &["a", "b", "c"]);
    s.append(event("b", "RunFailed"));
    s.append(keyed("d", "k", ""));
    let of = |status| s.listed(&RunFilter::default().status(status));
    assert_eq!(of(RunStatus::Running), ["a", "c"]);
    assert_eq!(of(RunStatus::Failed), ["b"]);
    assert_eq!(of(RunStatus::Pending), ["d"]);
    assert_eq!(of(RunStatus::Paused), [] as [&str; 0]);
    s.append(event("a", "RunPaused"));
    assert_eq!(s.listed(&RunFilter::default().status(RunStatus::Paused)), ["a"]);
}

/// Runs can be filtered by creation time and by the time of the last event.
/// Requires: ListingFilters, ManualClock.
pub fn by_time(s: &TestRuns<'_>) {
    for run in ["a", "b", "c"] {
        fill(s, &[run]);
        s.pass_ms(1_000);
    }
    let made = s.ok(s.get("b")).unwrap().created;
    let from = RunFilter { created_from: Some(made), ..RunFilter::default() };
    assert_eq!(s.listed(&from), ["b", "c"]);
    let before = RunFilter { created_before: Some(made), ..RunFilter::default() };
    assert_eq!(s.listed(&before), ["a"]);
    s.append(event("a", "RunPaused"));
    let written = s.ok(s.get("a")).unwrap().updated;
    let from = RunFilter { updated_from: Some(written), ..RunFilter::default() };
    assert_eq!(s.listed(&from), ["a"]);
    let before = RunFilter { updated_before: Some(written), ..RunFilter::default() };
    assert_eq!(s.listed(&before), ["b", "c"]);
}

/// Filters are evaluated before the limit, so pages are full. The page with the last match has no
/// cursor.
/// Requires: ListingFilters.
pub fn filters_come_before_the_limit(s: &TestRuns<'_>) {
    for n in 0..40 {
        let event_type = if n % 10 == 9 { "RunFailed" } else { "RunStarted" };
        s.append(NewEvent::new(&format!("r{n:02}"), event_type).plan("1"));
    }
    s.settle();
    let failed = RunFilter::of("r").status(RunStatus::Failed);
    let page = s.ok(s.list(&failed, None, 3));
    let names: Vec<&str> = page.runs.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["r09", "r19", "r29"], Some("r29")));
    let rest = s.ok(s.list(&failed, Some("r29"), 3));
    assert_eq!((rest.runs.len(), rest.next.as_deref()), (1, None));
}
