//! `get`, `put` and `replace`.

use super::TestRecords;
use crate::assertions::{field, fields, write};
use mainstay_model::{Code, Fields, RecordWrite};

/// A record that was never written is absent.
pub fn never_written_is_absent(s: &TestRecords<'_>) {
    s.is_gone("k");
    assert_eq!(s.ok(s.get_field("k", "a")), None);
    assert_eq!(s.ok(s.count("", &[])), 0);
}

/// A put creates a record and returns its counter.
pub fn makes_a_record(s: &TestRecords<'_>) {
    let counter = s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    s.holds("k", &[("a", "1"), ("b", "2")]);
    assert_eq!(s.counter("k"), counter);
}

/// A put keeps the other fields.
pub fn merges_fields(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    s.ok(s.put("k", &fields(&[("b", "3"), ("c", "4")]), None));
    s.holds("k", &[("a", "1"), ("b", "3"), ("c", "4")]);
}

/// A replace removes the other fields.
pub fn replace_drops_other_fields(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    s.ok(s.replace("k", &fields(&[("b", "3")]), None));
    s.holds("k", &[("b", "3")]);
    s.ok(s.replace("l", &fields(&[("a", "1")]), None));
    s.holds("l", &[("a", "1")]);
}

/// A write without fields is refused, and the record stays unchanged.
pub fn of_nothing_is_refused(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1")]), None));
    let before = s.counter("k");
    s.refused(s.put("k", &Fields::default(), None), Code::InvalidField);
    s.refused(s.replace("k", &Fields::default(), None), Code::InvalidField);
    s.refused(s.write(RecordWrite::to("k").unwrap()), Code::InvalidField);
    s.holds("k", &[("a", "1")]);
    assert_eq!(s.counter("k"), before);
}

/// Field names and values can be any bytes, even empty.
pub fn bytes_survive(s: &TestRecords<'_>) {
    let all: Vec<u8> = (0..=255).collect();
    let held = Fields::of([(all.as_slice(), all.as_slice()), (b"", b"\0"), (b"e", b"")]).unwrap();
    s.ok(s.put("k", &held, None));
    assert_eq!(s.ok(s.get("k")).unwrap().fields, held);
}

/// Keys are distinct, whatever characters they contain.
pub fn records_are_independent(s: &TestRecords<'_>) {
    let keys = ["k", "K", "k ", "k.1", "k:1", "k/1", "k*", "k?", "[k]", "ké", "{k}", "k\n", "%6b"];
    for (n, key) in keys.iter().enumerate() {
        s.ok(s.set_field(key, "n", n.to_string().into()));
    }
    for (n, key) in keys.iter().enumerate() {
        s.holds(key, &[("n", &n.to_string())]);
    }
    s.ok(s.delete("k*"));
    assert_eq!(s.ok(s.count("", &[])), keys.len() as u64 - 1);
}

/// `get` returns counter and timestamp. A record without a time to live has no expiry, unless the store
/// gives one to all records.
pub fn get_tells_everything(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1")]), None));
    let record = s.ok(s.get("k")).unwrap();
    assert!(record.counter > 0 && record.stamp > 0, "{record:?}");
    let ends = matches!(s.can().lifetimes, mainstay_model::Lifetimes::PerStore { .. });
    assert_eq!(record.expires.is_some(), ends, "{record:?}");
}

/// One write can set and clear fields.
pub fn sets_and_clears_in_one(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    let both = write("k", &[("c", "3")]).clear("a").unwrap();
    assert!(s.ok(s.write(both)).is_some());
    s.holds("k", &[("b", "2"), ("c", "3")]);
    let anew = write("k", &[("d", "4")]).replace().clear("d2").unwrap();
    assert!(s.ok(s.write(anew)).is_some());
    s.holds("k", &[("d", "4")]);
    assert_eq!(s.ok(s.get("k")).unwrap().fields.get(field("d").as_bytes()), Some(&b"4"[..]));
}
