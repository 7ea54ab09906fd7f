//! `restore`: replaces the whole space by a snapshot.

use super::{TestSpace, keys, time};
use crate::assertions::{done, refused};
use mainstay_model::{
    Code, SnapshotHead, SnapshotWriter, SpaceEntry, SpaceInfo, SpaceOptions, VersionKind,
    WaitingEntry, Wrote,
};

/// A restored space equals the original, byte by byte.
pub fn brings_everything_back(s: &TestSpace<'_>) {
    let full = s.filled("full");
    let snapshot = full.snapshot();
    let entries = full.store().snapshot_to(&mut std::io::sink()).unwrap().entries;
    assert_eq!(s.restore(&snapshot), entries);
    assert_eq!(s.snapshot(), snapshot);
    assert_eq!(s.info(), full.info());
    assert_eq!(s.states(), full.states());
    assert_eq!(s.waiting(), full.waiting());
    assert_eq!(s.positions(), full.positions());
    for key in ["a", "ab", "b", "c", "d"] {
        assert_eq!(s.kept(key), full.kept(key), "{key}");
    }
}

/// `restore` restores the logs too.
/// Requires: Appends.
pub fn brings_logs_back(s: &TestSpace<'_>) {
    let full = s.filled("full");
    s.append("a", "2", "goes");
    s.restore(&full.snapshot());
    assert_eq!(s.items("a"), full.items("a"));
    assert_eq!(s.items("log"), full.items("log"));
    assert!(!s.append("log", "0", "again"));
    assert!(s.append("a", "2", "new"));
}

/// `restore` removes old contents, including newer versions and greater positions.
pub fn replaces_everything(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.put("k", "from", 3);
    from.advance("orders", 3);
    s.put("k", "newer", 9);
    s.put("gone", "v", 9);
    s.delete("deleted", 9);
    s.advance("orders", 9);
    s.advance("other", 9);
    s.seal(7);
    s.restore(&from.snapshot());
    assert_eq!(s.seen(), from.seen());
    s.holds("k", "from", 3);
    s.is_absent("gone");
    s.is_absent("deleted");
    assert_eq!(s.positions().into_iter().collect::<Vec<_>>(), [("orders".to_owned(), 3)]);
    assert_eq!(s.info().frontier, None);
}

/// Replay from a checkpoint: writes in the checkpoint are stale, and later ones are applied again.
pub fn replay_goes_on_behind(s: &TestSpace<'_>) {
    let tell = |s: &TestSpace<'_>, n: u64| s.put(&format!("k{}", n % 3), &n.to_string(), n);
    (0..10).for_each(|n| assert_eq!(tell(s, n), Wrote::Applied));
    let checkpoint = s.snapshot();
    (10..20).for_each(|n| assert_eq!(tell(s, n), Wrote::Applied));
    let end = s.seen();
    s.restore(&checkpoint);
    (5..10).for_each(|n| assert_eq!(s.unchanged(|| tell(s, n)), Wrote::Stale));
    (10..20).for_each(|n| assert_eq!(tell(s, n), Wrote::Applied));
    assert_eq!(s.seen(), end);
}

/// `restore` replaces the options of the space, including the version kind.
pub fn replaces_the_declaration(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().versions(VersionKind::Time).groups(9);
    let from = s.declared("from", options);
    from.put("k", "v", time(1, 2));
    s.put("k", "v", 9);
    s.restore(&from.snapshot());
    assert_eq!(s.info().options, options);
    assert_eq!(s.put("k", "w", time(1, 3)), Wrote::Applied);
    refused(s.store().put(b"k", b"w", 10.into()), Code::InvalidVersion);
}

/// In an ordered space, waiting writes and the frontier are restored.
/// Requires: Ordered.
pub fn brings_back_what_waits(s: &TestSpace<'_>) {
    let full = s.filled("full");
    s.put("x", "v", 1);
    s.restore(&full.snapshot());
    assert_eq!(s.waits(), full.waits());
    assert_eq!(s.info().frontier, Some(4.into()));
    assert_eq!(s.put("new", "late", 3), Wrote::Stale);
    assert_eq!(s.put("d", "again", 5), Wrote::Stale);
    assert_eq!(s.seal(7), 3);
    s.holds("a", "waits", 6);
    s.holds("d", "waits", 5);
}

/// Restored tombstones are discarded by the next seal, as in the original space.
pub fn deleted_is_forgotten_later(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.delete("k", 5);
    s.restore(&from.snapshot());
    assert_eq!(s.put("k", "late", 4), Wrote::Stale);
    s.is_deleted("k", 5);
    s.seal(6);
    s.is_absent("k");
}

/// A waiting write that is older than the state is restored unchanged.
/// Requires: Ordered, Merged.
pub fn overtaken_is_as_it_was(s: &TestSpace<'_>) {
    let from = s.declared("from", SpaceOptions::default().ordered());
    from.put("k", "late", 3);
    from.write(vec![super::merge("k", Some("newer"), 7, None, &[])]);
    s.restore(&from.snapshot());
    assert_eq!(s.seen(), from.seen());
    assert_eq!(s.seal(9), 1);
    s.holds("k", "newer", 7);
}

/// Restoring an empty snapshot leaves an empty, declared space.
pub fn of_nothing_leaves_nothing(s: &TestSpace<'_>) {
    let nothing = s.other("nothing").snapshot();
    s.put("k", "v", 3);
    assert_eq!(s.restore(&nothing), 0);
    assert_eq!(s.states(), []);
    assert_eq!(s.snapshot(), nothing);
    assert_eq!(s.info(), SpaceInfo { options: SpaceOptions::default(), frontier: None });
}

/// Restoring the space's own snapshot changes nothing, however often.
pub fn own_snapshot_changes_nothing(s: &TestSpace<'_>) {
    let s = s.filled("full");
    let snapshot = s.snapshot();
    s.unchanged(|| s.restore(&snapshot));
    s.unchanged(|| s.restore(&snapshot));
}

/// Builds a valid snapshot with contents that no store would write.
fn made(options: SpaceOptions, frontier: u64, entries: &[SpaceEntry]) -> Vec<u8> {
    let options = options.versions(VersionKind::U64);
    let head = SnapshotHead::all(SpaceInfo { options, frontier: Some(frontier.into()) });
    let mut writer = SnapshotWriter::new(Vec::new(), &head).unwrap();
    for entry in entries {
        let mut payload = Vec::new();
        entry.put_payload(&mut payload);
        writer.push(&entry.place(), Some(&payload)).unwrap();
    }
    writer.finish().unwrap().1
}

/// A snapshot with a waiting write below its frontier is refused, because the write would never be
/// applied.
/// Requires: Ordered.
pub fn waiting_below_the_frontier_is_refused(s: &TestSpace<'_>) {
    let waits = |version: u64| {
        let key = b"k".to_vec();
        let value = Some(b"v".to_vec());
        SpaceEntry::Waiting(WaitingEntry { key, version: version.into(), value })
    };
    s.put("k", "before", 1);
    let ordered = SpaceOptions::default().ordered();
    let closed = made(ordered, 5, &[waits(4)]);
    s.unchanged(|| super::invalid(s.store().restore(&closed)));
    s.restore(&made(ordered, 5, &[waits(5)]));
    assert_eq!(s.waits(), [("k".to_owned(), 5.into())]);
}

/// Restored tombstones below the frontier are discarded, because every older version is closed anyway.
/// So a seal at that frontier has nothing to do, in any store.
pub fn deleted_below_the_frontier_is_forgotten(s: &TestSpace<'_>) {
    let deleted = |key: &str, version: u64| {
        let key = key.as_bytes().to_vec();
        SpaceEntry::State { key, version: version.into(), value: None }
    };
    let long_ago = deleted("a", 2);
    let just_now = deleted("b", 4);
    let open = deleted("c", 5);
    let options = SpaceOptions::default();
    s.restore(&made(options, 5, &[long_ago, just_now, open.clone()]));
    s.is_absent("a");
    s.is_absent("b");
    s.is_deleted("c", 5);
    assert_eq!(s.snapshot(), made(options, 5, &[open]));
    assert_eq!(s.unchanged(|| s.seal(5)), 0);
    assert_eq!(s.put("a", "late", 4), Wrote::Stale);
    s.seal(6);
    s.is_absent("c");
}

/// A snapshot of selected keys and an incremental snapshot are refused.
pub fn part_of_a_space_is_refused(s: &TestSpace<'_>) {
    let full = s.filled("full");
    let some = full.snapshot_keys(&keys(&["a"]));
    let head = SnapshotHead::changes(full.info());
    let (_, changes) = SnapshotWriter::new(Vec::new(), &head).unwrap().finish().unwrap();
    s.put("k", "v", 1);
    for part in [some, changes] {
        s.unchanged(|| super::invalid(s.store().restore(&part)));
    }
}

/// A snapshot larger than one write block can be restored.
pub fn of_many_blocks(s: &TestSpace<'_>) {
    let from = s.other("from");
    let value = "v".repeat(500);
    for n in 0..1_500 {
        from.put(&format!("k{n}"), &value, n + 1);
    }
    (0..20).for_each(|n| done(s.put(&format!("before{n}"), "v", 5_000)));
    assert_eq!(s.restore(&from.snapshot()), 1_500);
    assert_eq!(s.seen(), from.seen());
    assert_eq!(s.states().len(), 1_500);
}
