//! Scans: key order, cursors, limits, snapshot isolation of a page.

use super::TestRecords;
use crate::assertions::{filter, keys_of};
use mainstay_model::{Code, RecordPage, Test};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Records are sorted by key bytes and returned with fields and counters.
pub fn goes_in_key_order(s: &TestRecords<'_>) {
    s.fill(&[
        ("b", "2"),
        ("é", "6"),
        ("a", "1"),
        ("B", "0"),
        ("ba", "3"),
        ("b/1", "2"),
        ("z", "5"),
    ]);
    assert_eq!(s.found("", &[]), ["B", "a", "b", "b/1", "ba", "z", "é"]);
    let page = s.ok(s.scan("a", &[], None, 10));
    let (_, record) = &page.records[0];
    assert_eq!((record.fields.text("f"), record.counter), (Some("1"), s.counter("a")));
    assert_eq!(page.next, None);
}

/// Only keys with the prefix are returned, and pattern characters have no special meaning.
pub fn keeps_to_the_prefix(s: &TestRecords<'_>) {
    s.fill(&[("a", "1"), ("a/1", "1"), ("a/2", "1"), ("ab", "1"), ("b", "1"), ("a*", "1")]);
    assert_eq!(s.found("a/", &[]), ["a/1", "a/2"]);
    assert_eq!(s.found("a*", &[]), ["a*"]);
    assert_eq!(s.found("?", &[]), [] as [&str; 0]);
    assert_eq!(s.found("[a]", &[]), [] as [&str; 0]);
    assert_eq!(s.found("%", &[]), [] as [&str; 0]);
    assert_eq!(s.found("a_", &[]), [] as [&str; 0]);
}

/// Following the cursor returns each record exactly once.
pub fn cursor_gives_everything_once(s: &TestRecords<'_>) {
    let keys: Vec<String> = (0..25).map(|n| format!("k{n:02}")).collect();
    for key in &keys {
        s.ok(s.set_field(key, "f", "1".into()));
    }
    for limit in [1, 4, 5, 25, 26] {
        assert_eq!(pages(s, limit), keys, "{limit}");
    }
}

fn pages(s: &TestRecords<'_>, limit: usize) -> Vec<String> {
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = s.ok(s.scan("k", &[], after.as_deref(), limit));
        assert!(page.records.len() <= limit, "{} at once", page.records.len());
        seen.extend(page.records.into_iter().map(|(key, _)| key));
        after = page.next;
        if after.is_none() {
            return seen;
        }
    }
}

/// A cursor is exclusive, and its record may have been deleted.
pub fn cursor_outlives_its_record(s: &TestRecords<'_>) {
    s.fill(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let page = s.ok(s.scan("", &[], None, 2));
    let next = page.next.expect("there is more");
    assert_eq!(next, "b");
    s.ok(s.delete("b"));
    s.fill(&[("aa", "1"), ("ba", "1")]);
    let rest = s.ok(s.scan("", &[], Some(&next), 9));
    assert_eq!(keys_of(&rest), ["ba", "c"]);
}

/// A cursor outside the prefix is refused.
pub fn cursor_of_another_scan_is_refused(s: &TestRecords<'_>) {
    s.fill(&[("a/1", "1"), ("b/1", "1")]);
    s.refused(s.scan("a/", &[], Some("b/1"), 9), Code::InvalidArgument);
    s.refused(s.scan("a/", &[], Some(""), 9), Code::InvalidArgument);
}

/// Filters are evaluated before the limit, so pages are full.
pub fn filters_come_before_the_limit(s: &TestRecords<'_>) {
    for n in 0..40 {
        let state = if n % 10 == 9 { "stuck" } else { "done" };
        s.ok(s.set_field(&format!("k{n:02}"), "f", state.into()));
    }
    let stuck = [filter("f", Test::Eq, "stuck")];
    let page = s.ok(s.scan("k", &stuck, None, 3));
    assert_eq!((keys_of(&page), page.next.as_deref()), (vec!["k09", "k19", "k29"], Some("k29")));
    let rest = s.ok(s.scan("k", &stuck, Some("k29"), 3));
    assert_eq!((keys_of(&rest), rest.next.as_deref()), (vec!["k39"], None));
}

/// A page that ends with the last match has no cursor.
pub fn no_cursor_behind_the_last_match(s: &TestRecords<'_>) {
    s.fill(&[("a", "x"), ("b", "x"), ("c", "y")]);
    let page = s.ok(s.scan("", &[filter("f", Test::Eq, "x")], None, 2));
    assert_eq!((keys_of(&page), page.next.as_deref()), (vec!["a", "b"], None));
}

/// Page limits and numbers of filters are checked.
pub fn limits_are_checked(s: &TestRecords<'_>) {
    for limit in [0, 100_001] {
        s.refused(s.scan("", &[], None, limit), Code::InvalidLimit);
    }
    assert_eq!(s.ok(s.scan("", &[], None, 100_000)).records.len(), 0);
    let filters = |count| vec![filter("f", Test::Eq, "1"); count];
    s.ok(s.scan("", &filters(64), None, 1));
    s.refused(s.scan("", &filters(65), None, 1), Code::InvalidArgument);
    s.refused(s.count("", &filters(65)), Code::InvalidArgument);
}

/// `count` returns the total of a scan, beyond one page too.
pub fn count_agrees_with_scan(s: &TestRecords<'_>) {
    assert_eq!(s.ok(s.count("", &[])), 0);
    s.fill(&[("a", "1"), ("b", "2"), ("ba", "30"), ("c", "x")]);
    assert_eq!(s.ok(s.count("", &[])), 4);
    assert_eq!(s.ok(s.count("b", &[])), 2);
    assert_eq!(s.ok(s.count("", &[filter("f", Test::Gt, "1")])), 2);
    assert_eq!(s.ok(s.count("x", &[])), 0);
}

/// A page shows one snapshot. The writer always writes `a` before `b`, so no page may show `b` ahead.
/// Requires: Snapshots.
pub fn page_is_of_one_time(s: &TestRecords<'_>) {
    s.fill(&[("a", "0"), ("b", "0")]);
    let rounds = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_both_until(s, &rounds, &done));
        let mut leads = Vec::new();
        while !writer.is_finished() && (leads.len() < 60 || rounds.load(Ordering::Relaxed) < 30) {
            leads.push(lead(&s.ok(s.scan("", &[], None, 10))));
        }
        // Stops the writer before any assertion can fail. Pairs with the `Acquire` load in
        // `write_both_until`.
        done.store(true, Ordering::Release);
        writer.join().expect("the writer failed");
        let apart: Vec<&i64> = leads.iter().filter(|lead| !(0..=1).contains(*lead)).collect();
        assert!(apart.is_empty(), "in pages `a` was ahead of `b` by {apart:?}");
    });
}

fn write_both_until(s: &TestRecords<'_>, rounds: &AtomicU64, done: &AtomicBool) {
    // Pairs with the `Release` store of the reader. The flag publishes no other data.
    while !done.load(Ordering::Acquire) {
        let n = (rounds.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        s.fill(&[("a", &n), ("b", &n)]);
    }
}

/// The difference between the first and the second record's value.
fn lead(page: &RecordPage) -> i64 {
    let at = |n: usize| page.records[n].1.fields.text("f").unwrap().parse::<i64>().unwrap();
    at(0) - at(1)
}
