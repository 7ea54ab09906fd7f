//! History: old versions of records.
//!
//! Requires: History.

use super::TestRecords;
use crate::assertions::fields;
use mainstay_model::Code;

/// Versions are ordered newest first, with fields and counter.
pub fn newest_first(s: &TestRecords<'_>) {
    let first = s.ok(s.set_field("k", "a", "1".into()));
    let second = s.ok(s.set_field("k", "b", "2".into()));
    let versions = s.ok(s.history("k", 10, None));
    let counters: Vec<u64> = versions.iter().map(|version| version.counter).collect();
    assert_eq!(counters, [second, first]);
    assert_eq!(versions[0].fields, Some(fields(&[("a", "1"), ("b", "2")])));
    assert_eq!(versions[1].fields, Some(fields(&[("a", "1")])));
    assert!(versions[0].stamp > versions[1].stamp);
}

/// A deletion is an entry without fields. A record that was never written has no history.
pub fn deletions_are_entries(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    s.ok(s.delete("k"));
    let versions = s.ok(s.history("k", 10, None));
    let gone: Vec<bool> = versions.iter().map(|version| version.fields.is_none()).collect();
    assert_eq!(gone, [true, false]);
    assert_eq!(s.ok(s.history("never", 10, None)), []);
}

/// Paging returns every version once.
pub fn pages_give_everything_once(s: &TestRecords<'_>) {
    for n in 0..7 {
        s.ok(s.set_field("k", "n", n.to_string().into()));
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = s.ok(s.history("k", 3, before));
        let Some(last) = page.last() else { break };
        before = Some(last.counter);
        seen.extend(page.into_iter().filter_map(|version| version.fields));
    }
    let seen: Vec<&str> = seen.iter().filter_map(|fields| fields.text("n")).collect();
    assert_eq!(seen, ["6", "5", "4", "3", "2", "1", "0"]);
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(s: &TestRecords<'_>) {
    for limit in [0, 100_001] {
        s.refused(s.history("k", limit, None), Code::InvalidLimit);
    }
}
