//! `snapshot_keys` and `restore_keys`: copying selected keys between spaces without lowering any version.

use super::{TestSpace, invalid, keys, merge, time};
use crate::assertions::refused;
use mainstay_model::{
    Code, KeySelection, SnapshotHead, SnapshotWriter, SpaceInfo, SpaceOptions, VersionKind, Wrote,
    key_group,
};

fn names(s: &TestSpace<'_>) -> Vec<String> {
    s.states().into_iter().map(|(key, _)| key).collect()
}

/// Keys can be selected by name, by prefix and by group.
pub fn keys_are_selected(s: &TestSpace<'_>) {
    let all = ["a", "user-1", "user-2", "user-3", "z"];
    for key in all {
        s.put(key, key, 1);
    }
    let group = key_group(b"user-2", 128);
    let in_group: Vec<&str> =
        all.into_iter().filter(|key| key_group(key.as_bytes(), 128) == group).collect();
    let cases: [(KeySelection, &[&str]); 5] = [
        (keys(&["z", "a", "none"]), &["a", "z"]),
        (keys(&[]), &[]),
        (KeySelection::Prefix(b"user-".to_vec()), &["user-1", "user-2", "user-3"]),
        (KeySelection::Prefix(vec![]), &all),
        (KeySelection::Groups { of: 128, groups: group..group + 1 }, &in_group),
    ];
    for (place, (selection, expected)) in cases.into_iter().enumerate() {
        let to = s.other(&format!("to {place}"));
        assert_eq!(to.restore_keys(&s.snapshot_keys(&selection)), expected.len() as u64);
        assert_eq!(names(&to), expected, "{selection:?}");
    }
}

/// Equal selections of equal states have equal bytes, which differ from a full snapshot.
pub fn bytes_are_the_same_again(s: &TestSpace<'_>) {
    let s = s.filled("full");
    let all = KeySelection::Prefix(vec![]);
    assert_eq!(s.snapshot_keys(&all), s.snapshot_keys(&all));
    assert_ne!(s.snapshot_keys(&all), s.snapshot());
}

/// Positions belong to the whole space and are not copied.
pub fn positions_stay_behind(s: &TestSpace<'_>) {
    s.put("k", "v", 1);
    s.advance("orders", 9);
    let to = s.other("to");
    to.advance("orders", 3);
    to.restore_keys(&s.snapshot_keys(&KeySelection::Prefix(vec![])));
    assert_eq!(to.positions()["orders"], 3);
}

/// Only newer versions are applied; older ones and other keys are left alone.
pub fn never_lowers_a_version(s: &TestSpace<'_>) {
    let from = s.other("from");
    for (key, version) in [("newer", 9), ("older", 3), ("equal", 5), ("new", 1)] {
        from.put(key, "from", version);
    }
    for key in ["newer", "older", "equal", "stays"] {
        s.put(key, "here", 5);
    }
    let snapshot = from.snapshot_keys(&KeySelection::Prefix(vec![]));
    assert_eq!(s.restore_keys(&snapshot), 2);
    s.holds("newer", "from", 9);
    s.holds("older", "here", 5);
    s.holds("equal", "here", 5);
    s.holds("new", "from", 1);
    s.holds("stays", "here", 5);
    assert_eq!(s.unchanged(|| s.restore_keys(&snapshot)), 0, "twice is once");
}

/// Tombstones are copied too.
pub fn deletions_travel(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.delete("a", 5);
    from.put("b", "from", 5);
    from.delete("c", 5);
    s.put("a", "here", 3);
    s.delete("b", 7);
    assert_eq!(s.restore_keys(&from.snapshot_keys(&keys(&["a", "b", "c"]))), 2);
    s.is_deleted("a", 5);
    s.is_deleted("b", 7);
    s.is_deleted("c", 5);
    assert_eq!(s.put("c", "late", 4), Wrote::Stale);
    s.seal(6);
    s.is_absent("c");
}

/// Waiting writes are copied; an existing one of the same version is kept.
/// Requires: Ordered.
pub fn what_waits_travels(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().ordered();
    let from = s.declared("from", options);
    let to = s.declared("to", options);
    from.put("k", "from", 5);
    from.put("k", "from", 6);
    from.put("other", "from", 6);
    to.put("k", "here", 6);
    let snapshot = from.snapshot_keys(&keys(&["k"]));
    assert_eq!(to.restore_keys(&snapshot), 1);
    assert_eq!(to.unchanged(|| to.restore_keys(&snapshot)), 0);
    assert_eq!(to.waits(), [("k".to_owned(), 5.into()), ("k".to_owned(), 6.into())]);
    to.seal(6);
    to.holds("k", "from", 5);
    to.seal(7);
    to.holds("k", "here", 6);
}

/// Waiting writes that are not newer than the target's state are not copied.
/// Requires: Ordered.
pub fn overtaken_does_not_travel(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().ordered();
    let from = s.declared("from", options);
    let to = s.declared("to", options);
    from.put("k", "from", 5);
    to.put("k", "here", 7);
    to.seal(8);
    let snapshot = from.snapshot_keys(&keys(&["k"]));
    assert_eq!(to.unchanged(|| to.restore_keys(&snapshot)), 0);
}

/// Logs are copied with their keys; an existing item is kept.
/// Requires: Appends.
pub fn logs_travel(s: &TestSpace<'_>) {
    let from = s.other("from");
    for (key, id) in [("a", "1"), ("a", "2"), ("ab", "3"), ("b", "4")] {
        from.append(key, id, "from");
    }
    s.append("a", "2", "here");
    assert_eq!(s.restore_keys(&from.snapshot_keys(&keys(&["a", "ab"]))), 2);
    let pair = |id: &str, item: &str| (id.to_owned(), item.to_owned());
    assert_eq!(s.items("a"), [pair("1", "from"), pair("2", "here")]);
    assert_eq!(s.items("ab"), [pair("3", "from")]);
    assert_eq!(s.items("b"), []);
}

/// Versions below the target's frontier are accepted, because the source applied them in time.
pub fn below_the_frontier_is_taken(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.put("k", "from", 3);
    s.put("here", "here", 8);
    s.seal(7);
    assert_eq!(s.restore_keys(&from.snapshot_keys(&keys(&["k"]))), 1);
    s.holds("k", "from", 3);
    assert_eq!(s.info().frontier, Some(7.into()));
    assert_eq!(s.put("k", "late", 6), Wrote::Stale);
}

/// Waiting writes below the target's frontier are applied at once, in version order.
/// Requires: Ordered.
pub fn waiting_below_the_frontier_is_applied(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().ordered();
    let from = s.declared("from", options);
    let to = s.declared("to", options);
    for version in [4, 3, 8] {
        from.put("k", &format!("from {version}"), version);
    }
    from.put("gone", "from", 3);
    from.delete("gone", 4);
    from.put("late", "from", 3);
    to.put("late", "here", 6);
    to.seal(7);
    to.restore_keys(&from.snapshot_keys(&keys(&["k", "gone", "late"])));
    to.holds("k", "from 4", 4);
    to.is_absent("gone");
    to.holds("late", "here", 6);
    assert_eq!(to.waits(), [("k".to_owned(), 8.into())]);
    assert_eq!(to.seal(9), 1);
    to.holds("k", "from 8", 8);
}

/// In a merged space, waiting writes below the target's frontier fail the whole restore, because only
/// the function could apply them.
/// Requires: Ordered, Merged.
pub fn merged_below_the_frontier_is_a_conflict(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().ordered().merged();
    let from = s.declared("from", options);
    let to = s.declared("to", options);
    from.write(vec![merge("k", Some("from"), 9, None, &[])]);
    from.put("k", "waits", 10);
    from.put("other", "waits", 6);
    // Larger than the batches that a store writes, so an implementation that writes before checking
    // would fail.
    from.write(vec![merge("large", Some(&"v".repeat(5 << 20)), 9, None, &[])]);
    to.seal(7);
    let some = from.snapshot_keys(&keys(&["k", "other", "large"]));
    to.unchanged(|| refused(to.store().restore_keys(&some), Code::Conflict));
    assert_eq!(to.restore_keys(&from.snapshot_keys(&keys(&["k"]))), 2);
}

/// A waiting write older than a deletion is not applied, even though the tombstone was discarded.
/// Requires: Ordered, Merged.
pub fn overtaken_below_the_frontier_is_dropped(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().ordered();
    let from = s.declared("from", options);
    let to = s.declared("to", options);
    from.put("k", "late", 3);
    from.write(vec![merge("k", None, 5, None, &[])]);
    to.seal(7);
    to.restore_keys(&from.snapshot_keys(&keys(&["k"])));
    to.is_absent("k");
    assert_eq!(to.waiting(), []);
}

/// A tombstone below the target's frontier deletes the key and is then discarded.
pub fn deletions_below_the_frontier_leave_nothing(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.delete("k", 3);
    from.delete("newer", 3);
    from.delete("open", 9);
    s.put("k", "here", 2);
    s.put("newer", "here", 4);
    s.seal(7);
    s.restore_keys(&from.snapshot_keys(&KeySelection::Prefix(vec![])));
    s.is_absent("k");
    s.holds("newer", "here", 4);
    s.is_deleted("open", 9);
}

/// A new space takes the options of the snapshot but not its frontier.
pub fn new_space_takes_the_declaration(s: &TestSpace<'_>) {
    let options = SpaceOptions::default().versions(VersionKind::Time).groups(9);
    let from = s.declared("from", options);
    from.put("k", "v", time(1, 2));
    from.seal(time(2, 0));
    s.restore_keys(&from.snapshot_keys(&keys(&["k"])));
    assert_eq!(s.info(), SpaceInfo { options, frontier: None });
    assert_eq!(s.put("new", "v", time(1, 0)), Wrote::Applied);
}

/// An open version kind is fixed to the snapshot's kind.
pub fn open_kind_is_fixed(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.put("k", "v", time(1, 2));
    s.advance("source", 1);
    s.restore_keys(&from.snapshot_keys(&keys(&["k"])));
    assert_eq!(s.info().options.versions, Some(VersionKind::Time));
}

/// Keys of a space with other options or another version kind are refused.
pub fn other_spaces_do_not_fit(s: &TestSpace<'_>) {
    let all = KeySelection::Prefix(vec![]);
    s.put("k", "here", 1);
    let of_time = s.other("of time");
    of_time.put("k", "from", time(9, 9));
    let of_groups = s.declared("of groups", SpaceOptions::default().groups(9));
    of_groups.put("k", "from", 9);
    s.unchanged(|| {
        refused(s.store().restore_keys(&of_time.snapshot_keys(&all)), Code::InvalidVersion);
        refused(s.store().restore_keys(&of_groups.snapshot_keys(&all)), Code::SpaceExists);
    });
}

/// Keys cannot be copied between ordered and unordered spaces.
/// Requires: Ordered.
pub fn ordered_spaces_do_not_fit(s: &TestSpace<'_>) {
    s.put("k", "here", 1);
    let ordered = s.declared("ordered", SpaceOptions::default().ordered());
    ordered.put("k", "from", 9);
    let some = ordered.snapshot_keys(&keys(&["k"]));
    s.unchanged(|| refused(s.store().restore_keys(&some), Code::SpaceExists));
    let some = s.snapshot_keys(&keys(&["k"]));
    ordered.unchanged(|| refused(ordered.store().restore_keys(&some), Code::SpaceExists));
}

/// A full snapshot can be added too; its positions then only raise existing ones.
pub fn whole_snapshot_may_be_added(s: &TestSpace<'_>) {
    let from = s.other("from");
    from.put("k", "from", 5);
    for (source, position) in [("further", 9), ("behind", 2), ("new", 4)] {
        from.advance(source, position);
    }
    from.seal(3);
    s.put("stays", "here", 1);
    s.advance("further", 5);
    s.advance("behind", 5);
    assert_eq!(s.restore_keys(&from.snapshot()), 3);
    assert_eq!(names(s), ["k", "stays"]);
    let positions: Vec<u64> = s.positions().into_values().collect();
    assert_eq!(positions, [5, 9, 4]);
    assert_eq!(s.info().frontier, None);
}

/// An incremental snapshot is refused.
pub fn changes_are_refused(s: &TestSpace<'_>) {
    s.put("k", "v", 1);
    let head = SnapshotHead::changes(s.info());
    let (_, changes) = SnapshotWriter::new(Vec::new(), &head).unwrap().finish().unwrap();
    s.unchanged(|| invalid(s.store().restore_keys(&changes)));
}

/// Keys divided into three parts by their groups are complete and without duplicates.
pub fn groups_move_without_loss(s: &TestSpace<'_>) {
    const KEYS: u64 = 300;
    for n in 0..KEYS {
        s.put(&format!("user-{n}"), &n.to_string(), n + 1);
    }
    s.delete("user-0", 1_000);
    let whole = s.snapshot_keys(&KeySelection::Prefix(vec![]));
    let together = s.other("together");
    let mut count = 0;
    for (place, groups) in [0..40, 40..41, 41..128].into_iter().enumerate() {
        let selection = KeySelection::Groups { of: 128, groups };
        let part = s.other(&format!("part {place}"));
        count += part.restore_keys(&s.snapshot_keys(&selection));
        for key in names(&part) {
            assert!(selection.contains(key.as_bytes()), "{key} went astray");
        }
        together.restore_keys(&part.snapshot_keys(&KeySelection::Prefix(vec![])));
    }
    assert_eq!(count, KEYS);
    assert_eq!(together.snapshot_keys(&KeySelection::Prefix(vec![])), whole);
}
