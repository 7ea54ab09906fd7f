//! `delete`: a versioned write that leaves a tombstone.

use super::TestSpace;
use mainstay_model::Wrote;

/// A deleted key is absent from reads and scans.
pub fn deleted_is_gone(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(3));
        s.put("other", "v", at(3));
        assert_eq!(s.delete("k", at(4)), Wrote::Applied);
        s.is_deleted("k", at(4));
        assert_eq!(s.states(), [("other".to_owned(), "v".to_owned())]);
    });
}

/// A deletion that is not newer than the state is stale.
pub fn not_newer_is_stale(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(7));
        for number in [0, 6, 7] {
            assert_eq!(s.unchanged(|| s.delete("k", at(number))), Wrote::Stale);
        }
        s.holds("k", "v", at(7));
    });
}

/// A late put with a version not above the tombstone's does not revive the key.
pub fn version_is_remembered(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(3));
        s.delete("k", at(9));
        for number in [3, 4, 8, 9] {
            assert_eq!(s.unchanged(|| s.put("k", "late", at(number))), Wrote::Stale);
        }
        s.is_deleted("k", at(9));
    });
}

/// Deleting a key that never existed leaves a tombstone, so that older writes are stale.
pub fn of_nothing_is_remembered(s: &TestSpace<'_>) {
    assert_eq!(s.delete("k", 5), Wrote::Applied);
    s.is_deleted("k", 5);
    assert_eq!(s.put("k", "late", 4), Wrote::Stale);
    assert_eq!(s.states(), []);
}

/// A newer put revives the key.
pub fn newer_brings_it_back(s: &TestSpace<'_>) {
    s.put("k", "old", 3);
    s.delete("k", 5);
    assert_eq!(s.put("k", "new", 6), Wrote::Applied);
    s.holds("k", "new", 6);
    assert_eq!(s.delete("k", 5), Wrote::Stale);
    s.holds("k", "new", 6);
}

/// A repeated deletion is stale, and a newer one replaces the tombstone.
pub fn twice_is_once(s: &TestSpace<'_>) {
    s.delete("k", 5);
    assert_eq!(s.unchanged(|| s.delete("k", 5)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.delete("k", 4)), Wrote::Stale);
    assert_eq!(s.delete("k", 8), Wrote::Applied);
    assert_eq!(s.put("k", "late", 7), Wrote::Stale);
    s.is_deleted("k", 8);
}
