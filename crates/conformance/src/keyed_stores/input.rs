//! What makes no sense is refused, and nothing is left of it.

use crate::check::refused;
use crate::keyed_stand::KeyedStand;
use mainstay_model::limits::VALUE_LIMIT_BYTES;
use mainstay_model::{Code, STATE_KEY_LIMIT_BYTES, StateWrite, Wrote};

/// A key has at least one byte.
pub fn empty_key(s: &KeyedStand<'_>) {
    s.refuses(vec![StateWrite::put("", "v", 1)], Code::InvalidName);
    s.refuses(vec![StateWrite::delete("", 1)], Code::InvalidName);
    s.is_undeclared();
}

/// The longest key is taken, in every place that keys have.
pub fn longest_key(s: &KeyedStand<'_>) {
    let key = vec![0xff; STATE_KEY_LIMIT_BYTES];
    assert_eq!(s.space().put(&key, b"v", 1.into()), Ok(Wrote::Applied));
    assert_eq!(s.space().get(&key).unwrap().unwrap().value, b"v");
    assert_eq!(s.space().scan(&key, None, 10).unwrap().states.len(), 1);
    let copy = s.other("copy");
    copy.restore(&s.snapshot());
    assert_eq!(copy.space().delete(&key, 2.into()), Ok(Wrote::Applied));
}

/// One byte more is too much.
pub fn key_that_is_too_long(s: &KeyedStand<'_>) {
    let key = "k".repeat(STATE_KEY_LIMIT_BYTES + 1);
    s.refuses(vec![StateWrite::put(key.as_str(), "v", 1)], Code::InvalidName);
    s.refuses(vec![StateWrite::delete(key.as_str(), 1)], Code::InvalidName);
    s.is_undeclared();
}

/// Ids of items are as keys are.
pub fn ids_of_items(s: &KeyedStand<'_>) {
    let (longest, long) =
        ("i".repeat(STATE_KEY_LIMIT_BYTES), "i".repeat(STATE_KEY_LIMIT_BYTES + 1));
    s.refuses(vec![StateWrite::append("k", "", "item")], Code::InvalidName);
    s.refuses(vec![StateWrite::append("k", long.as_str(), "item")], Code::InvalidName);
    s.refuses(vec![StateWrite::append("", "1", "item")], Code::InvalidName);
    s.is_undeclared();
    assert!(s.append(&longest, &longest, "item"));
    assert_eq!(s.items(&longest), [(longest.clone(), "item".to_owned())]);
}

/// A state of the largest size is taken; a byte more is not.
pub fn largest_state(s: &KeyedStand<'_>) {
    let large = vec![7; VALUE_LIMIT_BYTES];
    assert_eq!(s.space().put(b"k", &large, 1.into()), Ok(Wrote::Applied));
    assert!(s.space().get(b"k").unwrap().unwrap().value == large);
    let larger = vec![7; VALUE_LIMIT_BYTES + 1];
    s.unchanged(|| refused(s.space().put(b"k", &larger, 2.into()), Code::ValueTooLarge));
}

/// The same of items.
pub fn largest_item(s: &KeyedStand<'_>) {
    let larger = vec![7; VALUE_LIMIT_BYTES + 1];
    refused(s.space().append_unique(b"k", b"1", &larger), Code::ValueTooLarge);
    s.is_undeclared();
    assert_eq!(s.space().append_unique(b"k", b"1", &larger[1..]), Ok(true));
    assert!(s.space().items(b"k", None, 10).unwrap()[0].item == larger[1..]);
}
