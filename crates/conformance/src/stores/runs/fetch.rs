//! `fetch_events`: order, start position, pages.

use super::{TestRuns, keyed};
use mainstay_model::{CanonicalEvent, Code, FetchOptions};
use std::sync::atomic::{AtomicBool, Ordering};

fn fill(s: &TestRuns<'_>, count: u64) -> Vec<u64> {
    let seqs = (0..count).map(|n| s.append(keyed("r", &n.to_string(), "")).run_seq).collect();
    s.settle();
    seqs
}

fn seqs(events: &[CanonicalEvent]) -> Vec<u64> {
    events.iter().map(|event| event.run_seq).collect()
}

/// Fetching a missing run returns no events and no error.
pub fn unknown_run_is_empty(s: &TestRuns<'_>) {
    assert_eq!(s.ok(s.fetch_events("r", FetchOptions::default())), []);
    assert_eq!(s.ok(s.fetch_events("r", FetchOptions::after(7))), []);
    s.is_unknown("r");
}

/// Events are ordered by sequence number.
pub fn goes_in_order(s: &TestRuns<'_>) {
    let told = fill(s, 30);
    assert_eq!(seqs(&s.events("r")), told);
}

/// The start position is exclusive.
pub fn after_is_exclusive(s: &TestRuns<'_>) {
    let told = fill(s, 5);
    for (place, seq) in told.iter().enumerate() {
        let behind = s.ok(s.fetch_events("r", FetchOptions::after(*seq)));
        assert_eq!(seqs(&behind), told[place + 1..]);
    }
    let all = s.ok(s.fetch_events("r", FetchOptions::after(told[0] - 1)));
    assert_eq!(seqs(&all), told);
}

/// Paging returns every event exactly once.
pub fn pages_give_everything_once(s: &TestRuns<'_>) {
    let told = fill(s, 25);
    for limit in [1, 4, 5, 25, 26] {
        let mut seen = Vec::new();
        let mut after = 0;
        loop {
            let options = FetchOptions::after(after).limit(limit);
            let page = s.ok(s.fetch_events("r", options));
            assert!(page.len() <= limit, "{} at once", page.len());
            let Some(last) = page.last() else { break };
            after = last.run_seq;
            seen.extend(seqs(&page));
        }
        assert_eq!(seen, told, "{limit}");
    }
}

/// Fetching after the last event returns no events and no error.
pub fn beyond_the_end_is_empty(s: &TestRuns<'_>) {
    let last = *fill(s, 3).last().unwrap();
    for after in [last, last + 1, last + 1_000_000, u64::MAX - 1] {
        assert_eq!(s.ok(s.fetch_events("r", FetchOptions::after(after))), []);
    }
}

/// A limit of zero or above 100,000 is refused. The default is 1,000.
pub fn limits_are_checked(s: &TestRuns<'_>) {
    for run in ["r", "unknown"] {
        for limit in [0, 100_001] {
            let options = FetchOptions::default().limit(limit);
            s.refused(s.fetch_events(run, options), Code::InvalidLimit);
        }
    }
    let told = fill(s, 1_001);
    assert_eq!(seqs(&s.ok(s.fetch_events("r", FetchOptions::default()))), told[..1_000]);
    let largest = FetchOptions::default().limit(100_000);
    assert_eq!(s.ok(s.fetch_events("r", largest)).len(), 1_001);
}

/// A reader never sees a smaller sequence number appear later: each result starts with all events seen
/// before.
/// Requires: Monotone.
pub fn seen_is_never_overtaken(s: &TestRuns<'_>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| look_until(s, &done));
        s.together(|n| {
            for i in 0..40 {
                s.append(keyed("r", &format!("{n}.{i}"), ""));
            }
        });
        // Pairs with the `Acquire` load in `look_until`.
        done.store(true, Ordering::Release);
        reader.join().expect("the reader saw something");
    });
}

fn look_until(s: &TestRuns<'_>, done: &AtomicBool) {
    let mut seen = Vec::new();
    loop {
        // Pairs with the `Release` store after all appends: if it is set, the fetch below sees all of
        // them.
        let is_last = done.load(Ordering::Acquire);
        let all = FetchOptions::default().limit(100_000);
        let now = seqs(&s.ok(s.fetch_events("r", all)));
        assert!(now.starts_with(&seen), "{now:?} after {seen:?}");
        seen = now;
        if is_last {
            return;
        }
    }
}
