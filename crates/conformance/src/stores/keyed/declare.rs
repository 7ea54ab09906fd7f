//! `declare`: fixes the options of a space permanently.

use super::{TestSpace, time};
use crate::assertions::refused;
use mainstay_model::{Code, SpaceInfo, SpaceOptions, VersionKind, Wrote};

/// The first declaration returns true and sets the options; an equal one returns false.
pub fn says_whether_it_is_new(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().versions(VersionKind::Time).groups(7);
    s.is_undeclared();
    assert!(s.declare(options));
    assert_eq!(s.info(), SpaceInfo { options, frontier: None });
    assert!(!s.unchanged(|| s.declare(options)));
    assert!(
        !s.unchanged(|| s.declare(SpaceOptions::default().groups(7))),
        "any kind was asked for"
    );
}

/// A declaration with other options is refused.
pub fn otherwise_is_refused(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().versions(VersionKind::U64);
    s.declare(options);
    let others = [options.versions(VersionKind::Time), options.groups(127)];
    for other in others {
        s.unchanged(|| refused(s.store().declare(other), Code::SpaceExists));
    }
}

/// The `ordered` option cannot be changed.
/// Requires: Ordered.
pub fn ordered_otherwise_is_refused(s: &TestSpace<'_>) {
    s.declare(SpaceOptions::default());
    s.unchanged(|| {
        refused(s.store().declare(SpaceOptions::default().ordered()), Code::SpaceExists)
    });
    let ordered = s.declared("ordered", SpaceOptions::default().ordered());
    refused(ordered.store().declare(SpaceOptions::default()), Code::SpaceExists);
    assert!(ordered.info().options.ordered);
}

/// The `merged` option cannot be changed.
/// Requires: Merged.
pub fn merged_otherwise_is_refused(s: &TestSpace<'_>) {
    s.declare(SpaceOptions::default());
    s.unchanged(|| refused(s.store().declare(SpaceOptions::default().merged()), Code::SpaceExists));
    let merged = s.declared("merged", SpaceOptions::default().merged());
    refused(merged.store().declare(SpaceOptions::default()), Code::SpaceExists);
    assert!(merged.info().options.merged);
}

/// The first write to an undeclared space declares it with default options (newest version wins).
pub fn first_write_declares(s: &TestSpace<'_>) {
    s.put("k", "v", 5);
    let options = SpaceOptions::default().versions(VersionKind::U64);
    assert_eq!(s.info(), SpaceInfo { options, frontier: None });
    assert!(!s.declare(options));
    refused(s.store().declare(options.versions(VersionKind::Time)), Code::SpaceExists);
}

/// A write without a version leaves the version kind open.
pub fn position_leaves_the_kind_open(s: &TestSpace<'_>) {
    s.advance("source", 3);
    assert_eq!(s.info(), SpaceInfo { options: SpaceOptions::default(), frontier: None });
    assert_eq!(s.put("k", "v", time(1, 1)), Wrote::Applied);
    assert_eq!(s.info().options.versions, Some(VersionKind::Time));
}

/// An open version kind is fixed by the first declaration or write that has one.
pub fn open_kind_is_fixed_later(s: &TestSpace<'_>) {
    s.declare(SpaceOptions::default());
    assert_eq!(s.info().options.versions, None);
    assert!(!s.declare(SpaceOptions::default().versions(VersionKind::Time)));
    assert_eq!(s.info().options.versions, Some(VersionKind::Time));
    refused(s.store().put(b"k", b"v", 5.into()), Code::InvalidVersion);
    let other = SpaceOptions::default().versions(VersionKind::U64);
    refused(s.store().declare(other), Code::SpaceExists);
}

/// A declared version kind also applies to the first write.
pub fn kind_binds(s: &TestSpace<'_>) {
    s.declare(SpaceOptions::default().versions(VersionKind::Time));
    s.unchanged(|| refused(s.store().put(b"k", b"v", 5.into()), Code::InvalidVersion));
    assert_eq!(s.put("k", "v", time(5, 0)), Wrote::Applied);
}

/// A declaration with an invalid number of groups is refused and creates no space.
pub fn groups_are_checked(s: &TestSpace<'_>) {
    for groups in [0, 32_769, u32::MAX] {
        let options = SpaceOptions::default().groups(groups);
        refused(s.store().declare(options), Code::InvalidArgument);
    }
    s.is_undeclared();
    assert!(s.declare(SpaceOptions::default().groups(32_768)));
}
