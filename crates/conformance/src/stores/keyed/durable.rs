//! Durability: acknowledged writes survive a reopen.
//!
//! Requires: Durable.

use super::TestSpace;
use mainstay_model::Wrote;

/// States, versions, tombstones, positions and the frontier survive a reopen.
pub fn everything_is_there_again(s: &TestSpace<'_>) {
    s.put("a", "v", 5);
    s.delete("b", 6);
    s.put("c", "v", 7);
    s.advance("source", 8);
    s.seal(6);
    let before = s.seen();
    let s = s.reopened();
    assert_eq!(s.seen(), before);
    s.holds("a", "v", 5);
    s.is_deleted("b", 6);
}

/// A write repeated after a reopen is stale.
pub fn told_again_is_stale(s: &TestSpace<'_>) {
    s.put("a", "v", 5);
    s.delete("b", 6);
    let s = s.reopened();
    assert_eq!(s.unchanged(|| s.put("a", "w", 5)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.put("b", "w", 6)), Wrote::Stale);
    assert_eq!(s.put("a", "w", 6), Wrote::Applied);
}

/// A restored space keeps the restored contents after a reopen.
pub fn restored_stays(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.put("k", "from", 3);
    s.put("k", "before", 9);
    s.put("gone", "before", 9);
    s.restore(&from.snapshot());
    let before = s.seen();
    let s = s.reopened();
    assert_eq!(s.seen(), before);
    s.holds("k", "from", 3);
}
