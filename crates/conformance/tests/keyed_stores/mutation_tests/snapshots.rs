//! Faulty stores: wrong snapshots.

use super::detects;
use crate::edited::Edited;
use crate::faulty_store::Faults;
use mainstay_model::{KeySelection, SnapshotSummary, SpaceEntry, key_group};
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn snapshots_with_a_stamp() {
    // Adds a counter to each snapshot, so that no two are equal.
    let faults = || {
        let count = AtomicU64::new(0);
        Faults::default().snapshot_to(move |inner, out| {
            let mut edited = Edited::of(inner);
            let position = count.fetch_add(1, Ordering::Relaxed);
            edited.set(SpaceEntry::Position { source: "made".to_owned(), position });
            edited.write_to(out)
        })
    };
    let cases = [
        "snapshot::is_the_same_again",
        "snapshot::bytes_are_these",
        "snapshot::of_nothing_has_no_entries",
        "snapshot::has_everything",
        "restore::own_snapshot_changes_nothing",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

/// Tests snapshots that omit part of the space.
#[track_caller]
fn omitting(omit: fn(&mut Edited), cases: &[&str]) {
    let faults = move || {
        Faults::default().snapshot_to(move |inner, out| {
            let mut edited = Edited::of(inner);
            omit(&mut edited);
            edited.write_to(out)
        })
    };
    detects(faults, cases);
}

fn drop_entries(space: &mut Edited, is_dropped: fn(&SpaceEntry) -> bool) {
    space.entries.retain(|_, entry| !is_dropped(entry));
}

#[test]
fn snapshots_without_deleted_keys() {
    let omit = |space: &mut Edited| {
        drop_entries(space, |entry| matches!(entry, SpaceEntry::State { value: None, .. }));
    };
    let cases = [
        "snapshot::has_everything",
        "snapshot::bytes_are_these",
        "restore::deleted_is_forgotten_later",
        "restore::brings_everything_back",
        "programs::of_newest_wins",
    ];
    omitting(omit, &cases);
}

#[test]
fn snapshots_without_what_waits() {
    let omit = |space: &mut Edited| {
        drop_entries(space, |entry| matches!(entry, SpaceEntry::Waiting(_)));
    };
    let cases = [
        "snapshot::has_everything",
        "restore::brings_back_what_waits",
        "programs::of_writes_in_order",
    ];
    omitting(omit, &cases);
}

#[test]
fn snapshots_without_logs() {
    let omit = |space: &mut Edited| {
        drop_entries(space, |entry| matches!(entry, SpaceEntry::Item { .. }));
    };
    let cases = ["snapshot::has_everything", "restore::brings_logs_back"];
    omitting(omit, &cases);
}

#[test]
fn snapshots_without_positions() {
    let omit = |space: &mut Edited| {
        drop_entries(space, |entry| matches!(entry, SpaceEntry::Position { .. }));
    };
    let cases = [
        "snapshot::has_everything",
        "snapshot::bytes_are_these",
        "snapshot::summary_is_right",
        "restore::replaces_everything",
        "races::snapshots_are_of_one_moment",
    ];
    omitting(omit, &cases);
}

#[test]
fn snapshots_without_the_frontier() {
    let cases = [
        "snapshot::has_everything",
        "snapshot::bytes_are_these",
        "restore::brings_back_what_waits",
    ];
    omitting(|space| space.head.space.frontier = None, &cases);
}

#[test]
fn writers_that_fail_unheard() {
    // Ignores write errors, and returns a wrong summary.
    let faults = || {
        Faults::default().snapshot_to(|inner, out| {
            let mut bytes = Vec::new();
            let summary = inner.snapshot_to(&mut bytes)?;
            let _ = out.write_all(&bytes);
            Ok(SnapshotSummary { entries: summary.entries + 1, ..summary })
        })
    };
    let cases = ["snapshot::failing_writer_is_told", "snapshot::summary_is_right"];
    detects(faults, &cases);
}

#[test]
fn groups_that_are_others() {
    // Computes the group of a key differently, and includes positions in snapshots of selected keys.
    let faults = || {
        Faults::default().snapshot_keys_to(|inner, keys, out| {
            let mut edited = Edited::of(inner);
            edited.head.some_keys = true;
            let is_one = |key: &[u8]| match keys {
                KeySelection::Groups { of, groups } => groups.contains(&(key_group(key, *of) / 2)),
                others => others.contains(key),
            };
            edited.entries.retain(|_, entry| entry.key().is_none_or(is_one));
            edited.write_to(out)
        })
    };
    let cases = [
        "subsets::positions_stay_behind",
        "subsets::groups_move_without_loss",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}
