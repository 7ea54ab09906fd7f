//! `delete`: a write like any other, whose version is remembered.

use crate::keyed_stand::KeyedStand;
use mainstay_model::Wrote;

/// What is deleted is not to be seen.
pub fn deleted_is_gone(s: &KeyedStand<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(3));
        s.put("other", "v", at(3));
        assert_eq!(s.delete("k", at(4)), Wrote::Applied);
        s.is_deleted("k", at(4));
        assert_eq!(s.states(), [("other".to_owned(), "v".to_owned())]);
    });
}

/// What is not newer than the state deletes nothing.
pub fn not_newer_is_stale(s: &KeyedStand<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(7));
        for number in [0, 6, 7] {
            assert_eq!(s.unchanged(|| s.delete("k", at(number))), Wrote::Stale);
        }
        s.holds("k", "v", at(7));
    });
}

/// What was put before the deletion and comes behind it does not bring the key back.
pub fn version_is_remembered(s: &KeyedStand<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(3));
        s.delete("k", at(9));
        for number in [3, 4, 8, 9] {
            assert_eq!(s.unchanged(|| s.put("k", "late", at(number))), Wrote::Stale);
        }
        s.is_deleted("k", at(9));
    });
}

/// A key that never was can be deleted: what is older than that comes too late.
pub fn of_nothing_is_remembered(s: &KeyedStand<'_>) {
    assert_eq!(s.delete("k", 5), Wrote::Applied);
    s.is_deleted("k", 5);
    assert_eq!(s.put("k", "late", 4), Wrote::Stale);
    assert_eq!(s.states(), []);
}

/// Something newer brings the key back.
pub fn newer_brings_it_back(s: &KeyedStand<'_>) {
    s.put("k", "old", 3);
    s.delete("k", 5);
    assert_eq!(s.put("k", "new", 6), Wrote::Applied);
    s.holds("k", "new", 6);
    assert_eq!(s.delete("k", 5), Wrote::Stale);
    s.holds("k", "new", 6);
}

/// Told again it is stale; a newer one is remembered instead.
pub fn twice_is_once(s: &KeyedStand<'_>) {
    s.delete("k", 5);
    assert_eq!(s.unchanged(|| s.delete("k", 5)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.delete("k", 4)), Wrote::Stale);
    assert_eq!(s.delete("k", 8), Wrote::Applied);
    assert_eq!(s.put("k", "late", 7), Wrote::Stale);
    s.is_deleted("k", 8);
}
