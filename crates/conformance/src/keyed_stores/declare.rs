//! `declare`: how a space is, once and for all.

use crate::check::refused;
use crate::keyed_stand::{KeyedStand, time};
use mainstay_model::{Code, SpaceInfo, SpaceOptions, VersionKind, Wrote};

/// The first to declare it is told so, and it is as it was declared.
pub fn says_whether_it_is_new(s: &KeyedStand<'_>) {
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

/// What was declared otherwise is not this space.
pub fn otherwise_is_refused(s: &KeyedStand<'_>) {
    let options = SpaceOptions::default().versions(VersionKind::U64);
    s.declare(options);
    let others = [options.versions(VersionKind::Time), options.groups(127)];
    for other in others {
        s.unchanged(|| refused(s.space().declare(other), Code::SpaceExists));
    }
}

/// Whether writes wait is part of it.
pub fn ordered_otherwise_is_refused(s: &KeyedStand<'_>) {
    s.declare(SpaceOptions::default());
    s.unchanged(|| {
        refused(s.space().declare(SpaceOptions::default().ordered()), Code::SpaceExists)
    });
    let ordered = s.declared("ordered", SpaceOptions::default().ordered());
    refused(ordered.space().declare(SpaceOptions::default()), Code::SpaceExists);
    assert!(ordered.info().options.ordered);
}

/// Whether a function merges is part of it.
pub fn merged_otherwise_is_refused(s: &KeyedStand<'_>) {
    s.declare(SpaceOptions::default());
    s.unchanged(|| refused(s.space().declare(SpaceOptions::default().merged()), Code::SpaceExists));
    let merged = s.declared("merged", SpaceOptions::default().merged());
    refused(merged.space().declare(SpaceOptions::default()), Code::SpaceExists);
    assert!(merged.info().options.merged);
}

/// What nobody declared is so by its first write: newest wins.
pub fn first_write_declares(s: &KeyedStand<'_>) {
    s.put("k", "v", 5);
    let options = SpaceOptions::default().versions(VersionKind::U64);
    assert_eq!(s.info(), SpaceInfo { options, frontier: None });
    assert!(!s.declare(options));
    refused(s.space().declare(options.versions(VersionKind::Time)), Code::SpaceExists);
}

/// What has no version leaves the kind of versions open.
pub fn position_leaves_the_kind_open(s: &KeyedStand<'_>) {
    s.advance("source", 3);
    assert_eq!(s.info(), SpaceInfo { options: SpaceOptions::default(), frontier: None });
    assert_eq!(s.put("k", "v", time(1, 1)), Wrote::Applied);
    assert_eq!(s.info().options.versions, Some(VersionKind::Time));
}

/// A kind that is open is that of the first who asks for one.
pub fn open_kind_is_fixed_later(s: &KeyedStand<'_>) {
    s.declare(SpaceOptions::default());
    assert_eq!(s.info().options.versions, None);
    assert!(!s.declare(SpaceOptions::default().versions(VersionKind::Time)));
    assert_eq!(s.info().options.versions, Some(VersionKind::Time));
    refused(s.space().put(b"k", b"v", 5.into()), Code::InvalidVersion);
    let other = SpaceOptions::default().versions(VersionKind::U64);
    refused(s.space().declare(other), Code::SpaceExists);
}

/// A declared kind binds the first write, too.
pub fn kind_binds(s: &KeyedStand<'_>) {
    s.declare(SpaceOptions::default().versions(VersionKind::Time));
    s.unchanged(|| refused(s.space().put(b"k", b"v", 5.into()), Code::InvalidVersion));
    assert_eq!(s.put("k", "v", time(5, 0)), Wrote::Applied);
}

/// A number of groups that makes no sense makes no space.
pub fn groups_are_checked(s: &KeyedStand<'_>) {
    for groups in [0, 32_769, u32::MAX] {
        let options = SpaceOptions::default().groups(groups);
        refused(s.space().declare(options), Code::InvalidArgument);
    }
    s.is_undeclared();
    assert!(s.declare(SpaceOptions::default().groups(32_768)));
}
