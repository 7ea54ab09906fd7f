//! `clear`: the space is gone.

use crate::keyed_stand::KeyedStand;
use mainstay_model::{SpaceOptions, VersionKind, Wrote};

/// There is one, or there is not.
pub fn says_whether_there_was_one(s: &KeyedStand<'_>) {
    assert_eq!(s.space().clear(), Ok(false));
    s.declare(SpaceOptions::default());
    assert_eq!(s.space().clear(), Ok(true));
    assert_eq!(s.space().clear(), Ok(false));
}

/// Nothing of it is left: no state, no version, no frontier, no position.
pub fn removes_everything(s: &KeyedStand<'_>) {
    s.put("a", "v", 5);
    s.delete("b", 6);
    s.advance("source", 7);
    s.seal(3);
    s.space().clear().unwrap();
    s.is_undeclared();
    s.is_absent("a");
    s.is_absent("b");
    assert_eq!(s.states(), []);
    assert!(s.positions().is_empty());
    assert_eq!(s.snapshot(), s.other("never was").snapshot());
}

/// What comes behind it may be otherwise.
pub fn space_may_be_another_afterwards(s: &KeyedStand<'_>) {
    s.put("k", "v", 5);
    s.seal(9);
    s.space().clear().unwrap();
    assert!(s.declare(SpaceOptions::default().versions(VersionKind::U64).groups(3)));
    assert_eq!(s.put("k", "early", 1), Wrote::Applied);
    s.holds("k", "early", 1);
}

/// A log goes with it.
pub fn logs_go_too(s: &KeyedStand<'_>) {
    s.append("k", "1", "item");
    s.space().clear().unwrap();
    assert_eq!(s.items("k"), []);
    assert!(s.append("k", "1", "again"));
}

/// Other spaces stay.
pub fn others_stay(s: &KeyedStand<'_>) {
    let other = s.other("space/");
    s.put("k", "v", 5);
    other.put("k", "w", 5);
    s.space().clear().unwrap();
    other.holds("k", "w", 5);
}
