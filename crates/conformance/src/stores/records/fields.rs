//! Operations on single fields.

use super::TestRecords;
use crate::assertions::{field, fields, name};

/// Setting a field creates or overwrites it, and creates the record if needed.
pub fn set_field_upserts(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    s.ok(s.set_field("k", "b", "2".into()));
    s.ok(s.set_field("k", "a", "3".into()));
    s.holds("k", &[("a", "3"), ("b", "2")]);
    s.ok(s.set_fields("k", &fields(&[("b", "4"), ("c", "5")])));
    s.holds("k", &[("a", "3"), ("b", "4"), ("c", "5")]);
}

/// `get_field` reads one field; a missing field is `None`, an empty one is not.
pub fn get_field_reads_one(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("e", "")]), None));
    assert_eq!(s.ok(s.get_field("k", "a")), Some(b"1".to_vec()));
    assert_eq!(s.ok(s.get_field("k", "e")), Some(Vec::new()));
    assert_eq!(s.ok(s.get_field("k", "A")), None);
    assert_eq!(s.ok(s.get_field("l", "a")), None);
}

/// `get_some` returns the wanted fields that exist. If none exists, the record is returned without
/// fields.
pub fn get_some_reads_those_asked_for(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2"), ("c", "3")]), None));
    let key = name("k");
    let wanted = [field("c"), field("x"), field("a")];
    let some = s.ok(s.get_some(&key, Some(&wanted))).unwrap();
    assert_eq!(some.fields, fields(&[("a", "1"), ("c", "3")]));
    assert_eq!(some.counter, s.counter("k"));
    let none = s.ok(s.get_some(&key, Some(&[]))).unwrap();
    assert!(none.fields.is_empty());
    assert_eq!(s.ok(s.get_some(&name("l"), Some(&wanted))), None);
}

/// A cleared field is removed, and the others stay.
pub fn cleared_is_gone(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    assert!(s.ok(s.clear_field("k", "a")));
    s.holds("k", &[("b", "2")]);
    assert!(s.ok(s.clear_field("k", "a")), "there is a record, if not the field");
    s.holds("k", &[("b", "2")]);
}

/// Clearing the last field deletes the record.
pub fn last_field_gone_is_the_record_gone(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1")]), None));
    assert!(s.ok(s.clear_field("k", "a")));
    s.is_gone("k");
    assert_eq!(s.found("", &[]), [] as [&str; 0]);
    assert!(!s.ok(s.delete("k")));
}

/// Clearing a field of a missing record returns false and creates nothing.
pub fn clearing_of_nothing_says_so(s: &TestRecords<'_>) {
    assert!(!s.ok(s.clear_field("k", "a")));
    s.is_gone("k");
}
