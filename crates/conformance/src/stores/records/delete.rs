//! Deletions, and the counters across them.

use super::{LIFE_MS, TestRecords};
use crate::assertions::{fields, filter};
use mainstay_model::{Test, Ttl};

/// A deletion returns whether the record existed.
pub fn says_whether_it_was_there(s: &TestRecords<'_>) {
    assert!(!s.ok(s.delete("k")));
    s.ok(s.set_field("k", "a", "1".into()));
    assert!(s.ok(s.delete("k")));
    assert!(!s.ok(s.delete("k")));
}

/// A deleted record is absent from every read.
pub fn deleted_is_invisible_everywhere(s: &TestRecords<'_>) {
    s.fill(&[("k", "1"), ("l", "1")]);
    s.ok(s.delete("k"));
    s.is_gone("k");
    assert_eq!(s.ok(s.get_field("k", "f")), None);
    assert_eq!(s.found("", &[filter("f", Test::Eq, "1")]), ["l"]);
    assert_eq!(s.ok(s.count("", &[])), 1);
}

/// A record created again after a deletion has none of the old fields.
pub fn made_anew_has_no_old_fields(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    s.ok(s.delete("k"));
    s.ok(s.set_field("k", "c", "3".into()));
    s.holds("k", &[("c", "3")]);
}

/// The counter rises with every write, even one of equal fields, and a write returns the new counter.
pub fn counters_rise(s: &TestRecords<'_>) {
    let mut last = 0;
    for _ in 0..5 {
        let counter = s.ok(s.put("k", &fields(&[("a", "1")]), None));
        assert!(counter > last, "{counter} behind {last}");
        assert_eq!(s.counter("k"), counter);
        last = counter;
    }
}

/// Reads do not change counters.
pub fn reading_counts_nothing(s: &TestRecords<'_>) {
    let counter = s.ok(s.set_field("k", "a", "1".into()));
    s.ok(s.get_field("k", "a"));
    s.found("", &[]);
    assert_eq!(s.counter("k"), counter);
}

/// The counter survives a deletion.
/// Requires: LastingCounters.
pub fn counters_survive_deletion(s: &TestRecords<'_>) {
    let before = s.ok(s.set_field("k", "a", "1".into()));
    s.ok(s.delete("k"));
    let anew = s.ok(s.set_field("k", "a", "1".into()));
    assert!(anew > before, "{anew} behind {before}");
    s.ok(s.clear_field("k", "a"));
    assert!(s.ok(s.set_field("k", "a", "1".into())) > anew);
}

/// The counter survives an expiry.
/// Requires: LastingCounters, Ttl.
pub fn counters_survive_expiry(s: &TestRecords<'_>) {
    let before = s.ok(s.put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(LIFE_MS))));
    s.pass_ms(LIFE_MS + 1);
    assert!(s.ok(s.set_field("k", "a", "1".into())) > before);
}
