//! Faulty stores: wrong snapshots.

use super::bites;
use crate::bent::{Before, Bend};
use crate::edited::Edited;
use mainstay_model::{KeySelection, KeyedState, Result, SnapshotSummary, SpaceEntry, key_group};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Adds a counter to each snapshot, so that no two are equal.
#[derive(Default)]
struct Stamped(AtomicU64);

impl Bend for Stamped {
    fn snapshot(&self, inner: &dyn KeyedState, out: &mut dyn Write) -> Result<SnapshotSummary> {
        let mut edited = Edited::of(inner);
        let position = self.0.fetch_add(1, Ordering::Relaxed);
        edited.set(SpaceEntry::Position { source: "made".to_owned(), position });
        edited.write_to(out)
    }
}

#[test]
fn snapshots_with_a_stamp() {
    let cases = [
        "snapshot::is_the_same_again",
        "snapshot::bytes_are_these",
        "snapshot::of_nothing_has_no_entries",
        "snapshot::has_everything",
        "restore::own_snapshot_changes_nothing",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(Stamped::default), &cases);
}

/// Omits part of the space from snapshots.
struct Omits(fn(&mut Edited));

impl Bend for Omits {
    fn snapshot(&self, inner: &dyn KeyedState, out: &mut dyn Write) -> Result<SnapshotSummary> {
        let mut edited = Edited::of(inner);
        (self.0)(&mut edited);
        edited.write_to(out)
    }
}

#[track_caller]
fn omitting(omit: fn(&mut Edited), cases: &[&str]) {
    bites(|| Before::bent(move || Omits(omit)), cases);
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

/// Ignores write errors, and returns a wrong summary.
struct Deaf;

impl Bend for Deaf {
    fn snapshot(&self, inner: &dyn KeyedState, out: &mut dyn Write) -> Result<SnapshotSummary> {
        let mut bytes = Vec::new();
        let summary = inner.snapshot_to(&mut bytes)?;
        let _ = out.write_all(&bytes);
        Ok(SnapshotSummary { entries: summary.entries + 1, ..summary })
    }
}

#[test]
fn writers_that_fail_unheard() {
    let cases = ["snapshot::failing_writer_is_told", "snapshot::summary_is_right"];
    bites(|| Before::bent(|| Deaf), &cases);
}

/// Computes the group of a key differently, and includes positions in snapshots of selected keys.
struct OtherGroups;

impl Bend for OtherGroups {
    fn snapshot_keys(
        &self,
        inner: &dyn KeyedState,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        let mut edited = Edited::of(inner);
        edited.head.some_keys = true;
        let is_one = |key: &[u8]| match keys {
            KeySelection::Groups { of, groups } => groups.contains(&(key_group(key, *of) / 2)),
            others => others.contains(key),
        };
        edited.entries.retain(|_, entry| entry.key().is_none_or(is_one));
        edited.write_to(out)
    }
}

#[test]
fn groups_that_are_others() {
    let cases = [
        "subsets::positions_stay_behind",
        "subsets::groups_move_without_loss",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(|| OtherGroups), &cases);
}
