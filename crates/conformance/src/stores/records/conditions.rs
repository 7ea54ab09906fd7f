//! Writes and deletions that are conditional on the counter or on existence.
//!
//! Requires: CounterConditions.

use super::TestRecords;
use crate::assertions::write;
use mainstay_model::{Code, Condition};

/// A write with the current counter succeeds.
pub fn right_counter_writes(s: &TestRecords<'_>) {
    let counter = s.ok(s.set_field("k", "a", "1".into()));
    let next = s.ok(s.write(write("k", &[("a", "2")]).when_counter(Some(counter))));
    assert!(next.is_some_and(|next| next > counter), "{next:?}");
    s.holds("k", &[("a", "2")]);
}

/// A write with another counter writes nothing.
pub fn stale_counter_loses(s: &TestRecords<'_>) {
    let old = s.ok(s.set_field("k", "a", "1".into()));
    let counter = s.ok(s.set_field("k", "a", "2".into()));
    for other in [old, counter + 1, 0, u64::MAX >> 1] {
        let write = write("k", &[("a", "3")]).when_counter(Some(other));
        assert_eq!(s.ok(s.write(write)), None, "{other}");
    }
    s.holds("k", &[("a", "2")]);
    assert_eq!(s.counter("k"), counter);
}

/// A write that expects a counter of a missing record writes nothing.
pub fn counter_of_nothing_loses(s: &TestRecords<'_>) {
    assert_eq!(s.ok(s.write(write("k", &[("a", "1")]).when_counter(Some(1)))), None);
    s.is_gone("k");
}

/// A write that expects absence creates the record once.
pub fn absence_makes_it_once(s: &TestRecords<'_>) {
    let make = |value| write("k", &[("a", value)]).when_counter(None);
    assert!(s.ok(s.write(make("1"))).is_some());
    assert_eq!(s.ok(s.write(make("2"))), None);
    s.holds("k", &[("a", "1")]);
    s.ok(s.delete("k"));
    assert!(s.ok(s.write(make("3"))).is_some(), "a deleted record is absent");
}

/// A counter from before a deletion never matches again.
/// Requires: LastingCounters.
pub fn stale_counter_loses_across_deletion(s: &TestRecords<'_>) {
    let before = s.ok(s.set_field("k", "a", "1".into()));
    s.ok(s.delete("k"));
    let stale = || write("k", &[("a", "2")]).when_counter(Some(before));
    assert_eq!(s.ok(s.write(stale())), None);
    s.ok(s.set_field("k", "a", "1".into()));
    assert_eq!(s.ok(s.write(stale())), None);
    s.holds("k", &[("a", "1")]);
}

/// A write with the condition `Exists` creates nothing.
pub fn existence_is_a_condition(s: &TestRecords<'_>) {
    let update = || write("k", &[("a", "2")]).when(Condition::Exists);
    assert_eq!(s.ok(s.write(update())), None);
    s.is_gone("k");
    s.ok(s.set_field("k", "a", "1".into()));
    assert!(s.ok(s.write(update())).is_some());
    s.holds("k", &[("a", "2")]);
}

/// A deletion can be conditional on the counter.
pub fn delete_on_the_counter(s: &TestRecords<'_>) {
    let old = s.ok(s.set_field("k", "a", "1".into()));
    let counter = s.ok(s.set_field("k", "a", "2".into()));
    let delete = |is| s.ok(s.delete_when("k", vec![Condition::Counter { is }]));
    assert!(!delete(Some(old)) && !delete(None));
    s.holds("k", &[("a", "2")]);
    assert!(delete(Some(counter)));
    s.is_gone("k");
}

/// Invalid input is refused regardless of the stored state, even if a condition fails.
pub fn bad_writes_are_refused_whatever_is_there(s: &TestRecords<'_>) {
    let twice = write("k", &[("a", "1"), ("a", "2")]).when_counter(Some(7));
    s.refused(s.write(twice), Code::InvalidField);
}
