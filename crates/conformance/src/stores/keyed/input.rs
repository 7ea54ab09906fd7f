//! Input validation: invalid keys, item IDs and values are refused and write nothing.

use super::TestSpace;
use crate::assertions::refused;
use mainstay_model::limits::VALUE_LIMIT_BYTES;
use mainstay_model::{Code, STATE_KEY_LIMIT_BYTES, StateWrite, Wrote};

/// An empty key is refused.
pub fn empty_key(s: &TestSpace<'_>) {
    s.refuses(vec![StateWrite::put("", "v", 1)], Code::InvalidName);
    s.refuses(vec![StateWrite::delete("", 1)], Code::InvalidName);
    s.is_undeclared();
}

/// A key of the maximum length works in every operation.
pub fn longest_key(s: &TestSpace<'_>) {
    let key = vec![0xff; STATE_KEY_LIMIT_BYTES];
    assert_eq!(s.store().put(&key, b"v", 1.into()), Ok(Wrote::Applied));
    assert_eq!(s.store().get(&key).unwrap().unwrap().value, b"v");
    assert_eq!(s.store().scan(&key, None, 10).unwrap().states.len(), 1);
    let copy = s.other("copy");
    copy.restore(&s.snapshot());
    assert_eq!(copy.store().delete(&key, 2.into()), Ok(Wrote::Applied));
}

/// A key one byte longer than the maximum is refused.
pub fn key_that_is_too_long(s: &TestSpace<'_>) {
    let key = "k".repeat(STATE_KEY_LIMIT_BYTES + 1);
    s.refuses(vec![StateWrite::put(key.as_str(), "v", 1)], Code::InvalidName);
    s.refuses(vec![StateWrite::delete(key.as_str(), 1)], Code::InvalidName);
    s.is_undeclared();
}

/// Item IDs have the same limits as keys.
/// Requires: Appends.
pub fn ids_of_items(s: &TestSpace<'_>) {
    let longest = "i".repeat(STATE_KEY_LIMIT_BYTES);
    let long = "i".repeat(STATE_KEY_LIMIT_BYTES + 1);
    s.refuses(vec![StateWrite::append("k", "", "item")], Code::InvalidName);
    s.refuses(vec![StateWrite::append("k", long.as_str(), "item")], Code::InvalidName);
    s.refuses(vec![StateWrite::append("", "1", "item")], Code::InvalidName);
    s.is_undeclared();
    assert!(s.append(&longest, &longest, "item"));
    assert_eq!(s.items(&longest), [(longest.clone(), "item".to_owned())]);
}

/// A state of the maximum size is stored; one more byte is refused.
pub fn largest_state(s: &TestSpace<'_>) {
    let large = vec![7; VALUE_LIMIT_BYTES];
    assert_eq!(s.store().put(b"k", &large, 1.into()), Ok(Wrote::Applied));
    assert!(s.store().get(b"k").unwrap().unwrap().value == large);
    let larger = vec![7; VALUE_LIMIT_BYTES + 1];
    s.unchanged(|| refused(s.store().put(b"k", &larger, 2.into()), Code::ValueTooLarge));
}

/// An item of the maximum size is stored; one more byte is refused.
/// Requires: Appends.
pub fn largest_item(s: &TestSpace<'_>) {
    let larger = vec![7; VALUE_LIMIT_BYTES + 1];
    refused(s.store().append_unique(b"k", b"1", &larger), Code::ValueTooLarge);
    s.is_undeclared();
    assert_eq!(s.store().append_unique(b"k", b"1", &larger[1..]), Ok(true));
    assert!(s.store().items(b"k", None, 10).unwrap()[0].item == larger[1..]);
}
