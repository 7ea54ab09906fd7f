//! Times to live of single records.
//!
//! Requires: Ttl.

use super::{LIFE_MS, TestRecords};
use crate::assertions::{fields, filter, name};
use mainstay_model::{Code, Lifetimes, Test, Ttl};

/// Writes the record `k` with a time to live of `LIFE_MS`.
fn mortal(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(LIFE_MS))));
}

/// An expired record is immediately absent from every read.
pub fn expired_is_invisible_everywhere(s: &TestRecords<'_>) {
    mortal(s);
    s.ok(s.set_field("l", "a", "1".into()));
    s.holds("k", &[("a", "1")]);
    s.pass_ms(LIFE_MS + 1);
    s.is_gone("k");
    assert_eq!(s.ok(s.get_field("k", "a")), None);
    assert_eq!(s.ok(s.get_some(&name("k"), Some(&[]))), None);
    assert_eq!(s.found("", &[]), ["l"]);
    assert_eq!(s.found("", &[filter("a", Test::Eq, "1")]), ["l"]);
    assert_eq!(s.ok(s.count("", &[])), 1);
    assert!(!s.ok(s.delete("k")), "there is nothing to delete");
    assert!(!s.ok(s.expire("k", Ttl::Clear)), "nor to bring back");
    assert!(!s.ok(s.clear_field("k", "a")), "nor to take out");
}

/// The expiry is exact to the store's granularity.
/// Requires: ManualClock.
pub fn exact_to_the_millisecond(s: &TestRecords<'_>) {
    let Lifetimes::PerRecord { granularity_ms } = s.can().lifetimes else { return };
    mortal(s);
    let life_ms = LIFE_MS.next_multiple_of(granularity_ms);
    s.pass_ms(life_ms - 1);
    s.holds("k", &[("a", "1")]);
    s.pass_ms(1);
    s.is_gone("k");
}

/// A record contains its expiry.
pub fn expires_is_told(s: &TestRecords<'_>) {
    let Lifetimes::PerRecord { granularity_ms } = s.can().lifetimes else { return };
    mortal(s);
    let record = s.ok(s.get("k")).unwrap();
    let life_us = record.expires.unwrap() - record.stamp;
    let most_us = (LIFE_MS + granularity_ms) * 1_000;
    assert!((LIFE_MS * 1_000..=most_us).contains(&life_us), "{life_us} us");
}

/// Writes without a time to live keep the existing one.
pub fn other_writes_leave_it(s: &TestRecords<'_>) {
    mortal(s);
    s.ok(s.put("k", &fields(&[("a", "2")]), None));
    s.ok(s.set_field("k", "b", "1".into()));
    s.ok(s.set_fields("k", &fields(&[("c", "1")])));
    s.ok(s.clear_field("k", "b"));
    s.ok(s.replace("k", &fields(&[("d", "1")]), None));
    s.holds("k", &[("d", "1")]);
    s.pass_ms(LIFE_MS + 1);
    s.is_gone("k");
}

/// A swap keeps the time to live.
/// Requires: FieldConditions.
pub fn swaps_leave_it(s: &TestRecords<'_>) {
    mortal(s);
    assert!(s.ok(s.compare_and_swap("k", "a", b"1", "2".into())));
    s.pass_ms(LIFE_MS + 1);
    s.is_gone("k");
}

/// A put with a time to live replaces the old one, or removes it with `Clear`.
pub fn put_changes_it(s: &TestRecords<'_>) {
    mortal(s);
    s.ok(s.put("k", &fields(&[("a", "2")]), Some(Ttl::Millis(3 * LIFE_MS))));
    s.ok(s.put("l", &fields(&[("a", "1")]), Some(Ttl::Millis(LIFE_MS))));
    s.ok(s.put("l", &fields(&[("a", "2")]), Some(Ttl::Clear)));
    s.pass_ms(LIFE_MS + 1);
    s.holds("k", &[("a", "2")]);
    s.holds("l", &[("a", "2")]);
    assert_eq!(s.ok(s.get("l")).unwrap().expires, None);
    s.pass_ms(2 * LIFE_MS + 1);
    s.is_gone("k");
}

/// `expire` changes only the time to live.
pub fn expire_changes_it(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    assert!(s.ok(s.expire("k", Ttl::Millis(LIFE_MS))));
    mortal_twin(s);
    assert!(s.ok(s.expire("l", Ttl::Clear)));
    s.holds("k", &[("a", "1")]);
    s.pass_ms(LIFE_MS + 1);
    s.is_gone("k");
    s.holds("l", &[("a", "1")]);
    assert!(!s.ok(s.expire("never", Ttl::Millis(LIFE_MS))));
    s.is_gone("never");
}

fn mortal_twin(s: &TestRecords<'_>) {
    s.ok(s.put("l", &fields(&[("a", "1")]), Some(Ttl::Millis(LIFE_MS))));
}

/// A time to live of zero, or beyond the range of timestamps, is refused and writes nothing.
pub fn bad_times_are_refused(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    for bad in [0, u64::MAX, u64::MAX / 1_000] {
        s.refused(s.put("k", &fields(&[("a", "2")]), Some(Ttl::Millis(bad))), Code::InvalidTtl);
        s.refused(s.expire("k", Ttl::Millis(bad)), Code::InvalidTtl);
        s.refused(s.put("l", &fields(&[("a", "2")]), Some(Ttl::Millis(bad))), Code::InvalidTtl);
    }
    s.holds("k", &[("a", "1")]);
    assert_eq!(s.ok(s.get("k")).unwrap().expires, None);
    s.is_gone("l");
}

/// `Until` sets the expiry timestamp. A timestamp in the past expires the record at once.
pub fn lives_until_a_moment(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    let written = s.ok(s.get("k")).unwrap().stamp;
    assert!(s.ok(s.expire("k", Ttl::Until(written + 2 * LIFE_MS * 1_000))));
    s.holds("k", &[("a", "1")]);
    assert!(s.ok(s.expire("k", Ttl::Until(written.saturating_sub(1_000_000)))));
    s.is_gone("k");
}

/// A write to an expired record creates a new one without the old fields and without an expiry.
pub fn next_write_makes_another(s: &TestRecords<'_>) {
    mortal(s);
    s.pass_ms(LIFE_MS + 1);
    s.ok(s.set_field("k", "b", "2".into()));
    s.holds("k", &[("b", "2")]);
    assert_eq!(s.ok(s.get("k")).unwrap().expires, None);
    s.pass_ms(LIFE_MS + 1);
    s.holds("k", &[("b", "2")]);
}

/// An expired record is absent to conditions.
/// Requires: CounterConditions.
pub fn expired_is_absent_to_conditions(s: &TestRecords<'_>) {
    mortal(s);
    let counter = s.counter("k");
    s.pass_ms(LIFE_MS + 1);
    let make = |is| crate::assertions::write("k", &[("b", "1")]).when_counter(is);
    assert_eq!(s.ok(s.write(make(Some(counter)))), None);
    assert!(s.ok(s.write(make(None))).is_some());
    s.holds("k", &[("b", "1")]);
}
