//! `clear`: drops the space.

use super::TestSpace;
use mainstay_model::{SpaceOptions, VersionKind, Wrote};

/// `clear` returns whether the space existed.
pub fn says_whether_there_was_one(s: &TestSpace<'_>) {
    assert_eq!(s.store().clear(), Ok(false));
    s.declare(SpaceOptions::default());
    assert_eq!(s.store().clear(), Ok(true));
    assert_eq!(s.store().clear(), Ok(false));
}

/// `clear` removes states, tombstones, the frontier and positions.
pub fn removes_everything(s: &TestSpace<'_>) {
    s.put("a", "v", 5);
    s.delete("b", 6);
    s.advance("source", 7);
    s.seal(3);
    s.store().clear().unwrap();
    s.is_undeclared();
    s.is_absent("a");
    s.is_absent("b");
    assert_eq!(s.states(), []);
    assert!(s.positions().is_empty());
    assert_eq!(s.snapshot(), s.other("never was").snapshot());
}

/// After `clear`, the space can be declared with other options.
pub fn space_may_be_another_afterwards(s: &TestSpace<'_>) {
    s.put("k", "v", 5);
    s.seal(9);
    s.store().clear().unwrap();
    assert!(s.declare(SpaceOptions::default().versions(VersionKind::U64).groups(3)));
    assert_eq!(s.put("k", "early", 1), Wrote::Applied);
    s.holds("k", "early", 1);
}

/// `clear` removes the logs.
/// Requires: Appends.
pub fn logs_go_too(s: &TestSpace<'_>) {
    s.append("k", "1", "item");
    s.store().clear().unwrap();
    assert_eq!(s.items("k"), []);
    assert!(s.append("k", "1", "again"));
}

/// `clear` does not affect other spaces.
pub fn others_stay(s: &TestSpace<'_>) {
    let other = s.other("space/");
    s.put("k", "v", 5);
    other.put("k", "w", 5);
    s.store().clear().unwrap();
    other.holds("k", "w", 5);
}
