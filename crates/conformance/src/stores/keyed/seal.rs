//! `seal`: closes versions below the frontier, applies waiting writes in version order, discards tombstones.

use super::{TestSpace, merge, time};
use crate::assertions::refused;
use mainstay_model::{Code, SpaceOptions, StateWrite, VersionKind, Wrote};

fn ordered<'w>(s: &TestSpace<'w>) -> TestSpace<'w> {
    s.declared("ordered", SpaceOptions::default().ordered())
}

/// The newest version below the frontier becomes the state, regardless of arrival order.
/// Requires: Ordered.
pub fn applies_in_order_of_versions(s: &TestSpace<'_>) {
    let s = ordered(s);
    for version in [3, 1, 4, 2] {
        s.put("k", &format!("v{version}"), version);
    }
    assert_eq!(s.seal(3), 2);
    s.holds("k", "v2", 2);
    assert_eq!(s.waits(), [("k".to_owned(), 3.into()), ("k".to_owned(), 4.into())]);
    assert_eq!(s.seal(10), 2);
    s.holds("k", "v4", 4);
    assert_eq!(s.waiting(), []);
}

/// A deletion between two puts affects only the older put.
/// Requires: Ordered.
pub fn deletions_have_their_place(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "three", 3);
    s.delete("k", 2);
    s.put("k", "one", 1);
    s.put("gone", "one", 1);
    s.delete("gone", 4);
    assert_eq!(s.seal(2), 2);
    s.holds("k", "one", 1);
    assert_eq!(s.seal(4), 2);
    s.holds("k", "three", 3);
    s.holds("gone", "one", 1);
    assert_eq!(s.seal(5), 1);
    assert_eq!(s.states(), [("k".to_owned(), "three".to_owned())]);
}

/// Logical times are sealed in order, like numbers.
/// Requires: Ordered.
pub fn times_are_sealed_in_order(s: &TestSpace<'_>) {
    let s = ordered(s);
    for (epoch, round) in [(2, 0), (1, 300), (1, 2)] {
        s.put("k", &format!("{epoch}.{round}"), time(epoch, round));
    }
    assert_eq!(s.seal(time(1, 300)), 1);
    s.holds("k", "1.2", time(1, 2));
    assert_eq!(s.seal(time(2, 0)), 1);
    s.holds("k", "1.300", time(1, 300));
    assert_eq!(s.info().frontier, Some(time(2, 0)));
}

/// A waiting write that is older than the state is counted and dropped.
/// Requires: Ordered, Merged.
pub fn overtaken_is_dropped(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "late", 3);
    s.write(vec![merge("k", Some("newer"), 7, None, &[])]);
    assert_eq!(s.seal(5), 1);
    s.holds("k", "newer", 7);
    assert_eq!(s.waiting(), []);
}

/// A frontier that is not greater than the current one changes nothing.
pub fn not_further_does_nothing(s: &TestSpace<'_>) {
    s.put("k", "v", 3);
    assert_eq!(s.seal(5), 0);
    s.delete("k", 9);
    for frontier in [0, 4, 5] {
        assert_eq!(s.unchanged(|| s.seal(frontier)), 0);
    }
    assert_eq!(s.info().frontier, Some(5.into()));
}

/// Repeating a seal applies nothing.
/// Requires: Ordered.
pub fn told_again_applies_nothing(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "v", 3);
    assert_eq!(s.seal(4), 1);
    assert_eq!(s.unchanged(|| s.seal(4)), 0);
}

/// In a space that is not ordered, writes below the frontier are stale too.
pub fn closes_versions_where_newest_wins(s: &TestSpace<'_>) {
    s.put("k", "v", 3);
    s.seal(5);
    assert_eq!(s.unchanged(|| s.put("k", "late", 4)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.put("new", "late", 4)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.delete("k", 4)), Wrote::Stale);
    assert_eq!(s.put("new", "v", 5), Wrote::Applied);
    s.holds("k", "v", 3);
}

/// Tombstones below the frontier are discarded, because late writes are stale anyway.
pub fn forgets_what_was_deleted(s: &TestSpace<'_>) {
    s.put("a", "v", 1);
    s.delete("a", 3);
    s.delete("b", 4);
    s.delete("c", 5);
    s.put("d", "v", 1);
    s.seal(5);
    s.is_absent("a");
    s.is_absent("b");
    s.is_deleted("c", 5);
    s.holds("d", "v", 1);
    assert_eq!(s.put("a", "late", 4), Wrote::Stale);
    assert_eq!(s.put("a", "new", 5), Wrote::Applied);
}

/// A key that was deleted and written again is kept.
pub fn keeps_what_came_back(s: &TestSpace<'_>) {
    s.delete("k", 2);
    s.put("k", "v", 3);
    s.delete("twice", 1);
    s.delete("twice", 8);
    s.seal(5);
    s.holds("k", "v", 3);
    s.is_deleted("twice", 8);
    s.seal(9);
    s.is_absent("twice");
    s.holds("k", "v", 3);
}

/// In an ordered space, the tombstone of a sealed deletion is discarded at once.
/// Requires: Ordered.
pub fn forgets_what_it_deletes(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "v", 1);
    s.delete("k", 2);
    assert_eq!(s.seal(3), 2);
    s.is_absent("k");
    assert_eq!(s.put("k", "new", 3), Wrote::Waiting);
}

/// Sealing an undeclared space creates it and fixes its version kind.
pub fn fixes_the_kind(s: &TestSpace<'_>) {
    assert_eq!(s.seal(time(1, 2)), 0);
    assert_eq!(s.info().options.versions, Some(VersionKind::Time));
    assert_eq!(s.info().frontier, Some(time(1, 2)));
    refused(s.store().put(b"k", b"v", 9.into()), Code::InvalidVersion);
    refused(s.store().seal(9.into()), Code::InvalidVersion);
    assert_eq!(s.put("k", "late", time(1, 1)), Wrote::Stale);
}

/// Positions have no version, so the frontier does not affect them.
pub fn positions_stay(s: &TestSpace<'_>) {
    s.advance("source", 2);
    s.seal(100);
    assert_eq!(s.positions()["source"], 2);
    assert_eq!(s.advance("source", 3), Wrote::Applied);
    assert_eq!(s.positions()["source"], 3);
}

/// Logs have no version, so the frontier does not affect them.
/// Requires: Appends.
pub fn logs_stay(s: &TestSpace<'_>) {
    s.append("k", "1", "item");
    s.delete("k", 2);
    s.seal(100);
    assert_eq!(s.items("k"), [("1".to_owned(), "item".to_owned())]);
    assert!(s.append("k", "2", "item"));
}

/// A seal applies many waiting writes.
/// Requires: Ordered, Atomic.
pub fn of_many(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.write(
        (0..3_000)
            .map(|n| StateWrite::put(format!("k{}", n % 700), n.to_string(), 5_000 - n))
            .collect(),
    );
    assert_eq!(s.seal(2_001 + 500), 500);
    assert_eq!(s.seal(6_000), 2_500);
    // The lowest number has the highest version.
    for n in 0..700 {
        s.holds(&format!("k{n}"), &n.to_string(), 5_000 - n);
    }
    assert_eq!(s.waiting(), []);
}
