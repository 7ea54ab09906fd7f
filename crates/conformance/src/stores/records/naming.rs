//! Input validation: invalid names and fields, and size limits of records.

use super::TestRecords;
use crate::assertions::{fields, write};
use mainstay_model::{Code, ErrorKind, Fields};

/// Every operation refuses an invalid key, and nothing is written.
pub fn bad_keys_are_refused(s: &TestRecords<'_>) {
    let long = "n".repeat(1025);
    let one = fields(&[("a", "1")]);
    for bad in ["", "a\0b", "_mainstay/x", long.as_str()] {
        s.refused(s.get(bad), Code::InvalidName);
        s.refused(s.get_field(bad, "a"), Code::InvalidName);
        s.refused(s.put(bad, &one, None), Code::InvalidName);
        s.refused(s.replace(bad, &one, None), Code::InvalidName);
        s.refused(s.set_field(bad, "a", "1".into()), Code::InvalidName);
        s.refused(s.set_fields(bad, &one), Code::InvalidName);
        s.refused(s.clear_field(bad, "a"), Code::InvalidName);
        s.refused(s.compare_and_swap(bad, "a", b"1", "2".into()), Code::InvalidName);
        s.refused(s.delete(bad), Code::InvalidName);
        s.refused(s.delete_when(bad, vec![]), Code::InvalidName);
        s.refused(s.expire(bad, mainstay_model::Ttl::Keep), Code::InvalidName);
    }
    assert_eq!(s.ok(s.count("", &[])), 0);
}

/// Keys and field names of the maximum length are accepted.
pub fn longest_names_are_taken(s: &TestRecords<'_>) {
    let key = "n".repeat(1024);
    let field = "f".repeat(1024);
    s.ok(s.set_field(&key, &field, "1".into()));
    assert_eq!(s.ok(s.get_field(&key, &field)), Some(b"1".to_vec()));
    assert_eq!(s.found("nnn", &[]), [key]);
}

/// Every operation refuses a field name that is too long.
pub fn bad_fields_are_refused(s: &TestRecords<'_>) {
    let longer = "f".repeat(1025);
    s.refused(s.set_field("k", &longer, "1".into()), Code::InvalidField);
    s.refused(s.get_field("k", &longer), Code::InvalidField);
    s.refused(s.clear_field("k", &longer), Code::InvalidField);
    s.refused(s.compare_and_swap("k", &longer, b"1", "2".into()), Code::InvalidField);
    s.is_gone("k");
}

/// A field that occurs twice in a write is refused, whether it is set twice or set and cleared.
pub fn field_twice_is_refused(s: &TestRecords<'_>) {
    s.refused(s.write(write("k", &[("a", "1"), ("b", "1"), ("a", "2")])), Code::InvalidField);
    let both = write("k", &[("b", "1"), ("a", "1")]).clear("a").unwrap();
    s.refused(s.write(both), Code::InvalidField);
    s.is_gone("k");
}

/// A record above the store's size limit is refused, and the old one stays.
pub fn too_large_leaves_what_was(s: &TestRecords<'_>) {
    let limit = s.can().record_limit_bytes;
    let half = vec![b'x'; limit / 2];
    s.ok(s.set_field("k", "a", half.as_slice().into()));
    assert_eq!(s.ok(s.get_field("k", "a")).as_deref(), Some(half.as_slice()));
    let more = vec![b'x'; limit - limit / 2];
    for field in ["b", "c"] {
        let error = s.wait(s.set_field("k", field, more.as_slice().into())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    }
    let record = s.ok(s.get("k")).unwrap();
    assert_eq!((record.fields.len(), record.counter), (1, s.counter("k")));
    s.ok(s.set_field("k", "a", "small".into()));
    s.holds("k", &[("a", "small")]);
}

/// A record above the store's limit of fields is refused.
pub fn too_many_fields_are_refused(s: &TestRecords<'_>) {
    let limit = s.can().record_limit_fields;
    let many = |count: usize| Fields::of((0..count).map(|n| (format!("f{n}"), ""))).unwrap();
    s.ok(s.put("k", &many(limit), None));
    let error = s.wait(s.set_field("k", "one more", "".into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    s.ok(s.set_field("k", "f7", "x".into()));
    assert_eq!(s.ok(s.get("k")).unwrap().fields.len(), limit);
}
