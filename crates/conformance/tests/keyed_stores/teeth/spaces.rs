//! Faulty stores: spaces that are created or fixed too early.

use super::bites;
use crate::bent::{Before, Bend};
use crate::edited::edit;
use mainstay_model::{
    Kept, KeyedState, Result, SpaceEntry, SpaceOptions, StateWrite, Version, VersionKind, Wrote,
};

/// Creates a space on any read or write.
struct Eager;

impl Bend for Eager {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        if inner.info()?.is_none() {
            inner.declare(SpaceOptions::default())?;
        }
        inner.write(writes)
    }

    fn look(&self, inner: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        if inner.info()?.is_none() {
            inner.declare(SpaceOptions::default())?;
        }
        inner.look(keys)
    }
}

#[test]
fn spaces_that_are_made_of_nothing() {
    let cases = [
        "versions::nothing_is_read_of_nothing",
        "batch::of_nothing_is_nothing",
        "batch::two_kinds_make_nothing",
        "input::empty_key",
        "merging::moved_makes_no_space",
    ];
    bites(|| Before::bent(|| Eager), &cases);
}

/// Fixes the version kind on writes without a version.
struct FixesKinds;

impl Bend for FixesKinds {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        let wrote = inner.write(writes.clone())?;
        if writes.iter().any(|write| write.version().is_none()) {
            let kind = inner.info()?.and_then(|info| info.options.versions);
            edit(inner, |space| {
                space.head.space.options.versions = kind.or(Some(VersionKind::U64));
            });
        }
        Ok(wrote)
    }

    fn declare(&self, inner: &dyn KeyedState, options: SpaceOptions) -> Result<bool> {
        let is_new = inner.info()?.is_none();
        let versions = options.versions.or(is_new.then_some(VersionKind::U64));
        inner.declare(SpaceOptions { versions, ..options })
    }
}

#[test]
fn kinds_that_are_fixed_too_soon() {
    let cases = [
        "append::leaves_the_kind_open",
        "declare::position_leaves_the_kind_open",
        "declare::open_kind_is_fixed_later",
        "subsets::open_kind_is_fixed",
        "programs::of_writes_in_order",
    ];
    bites(|| Before::bent(|| FixesKinds), &cases);
}

/// Treats an empty value as a deletion, and position zero as stale.
struct NothingIsNothing;

impl Bend for NothingIsNothing {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        match &writes[..] {
            [StateWrite::Put { key, value, version }] if value.is_empty() => {
                inner.write(vec![StateWrite::delete(&key[..], *version)])
            }
            [StateWrite::Advance { position: 0, .. }] => Ok(vec![Wrote::Stale]),
            _ => inner.write(writes),
        }
    }
}

#[test]
fn nothing_that_is_taken_for_none() {
    let cases = ["versions::empty_state_is_one", "positions::zero_is_one"];
    bites(|| Before::bent(|| NothingIsNothing), &cases);
}

/// Removes logs and positions when sealing.
struct SealsAll;

impl Bend for SealsAll {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        let sealed = inner.seal(frontier)?;
        edit(inner, |space| {
            space.entries.retain(|_, entry| {
                matches!(entry, SpaceEntry::State { .. } | SpaceEntry::Waiting(_))
            });
        });
        Ok(sealed)
    }
}

#[test]
fn logs_and_positions_that_are_sealed() {
    let cases = ["seal::logs_stay", "seal::positions_stay", "programs::of_newest_wins"];
    bites(|| Before::bent(|| SealsAll), &cases);
}

/// Removes the log of a key when its state is deleted.
struct DropsLogs;

impl Bend for DropsLogs {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        let wrote = inner.write(writes.clone())?;
        for write in &writes {
            if let StateWrite::Delete { key, .. } = write {
                edit(inner, |space| {
                    let is_item = |entry: &SpaceEntry| matches!(entry, SpaceEntry::Item { .. });
                    space.entries.retain(|_, entry| !is_item(entry) || entry.key() != Some(key));
                });
            }
        }
        Ok(wrote)
    }
}

#[test]
fn logs_that_go_with_the_state() {
    let cases = ["append::log_and_state_are_apart", "seal::logs_stay"];
    bites(|| Before::bent(|| DropsLogs), &cases);
}

/// Overwrites a newer state when an overtaken write is settled, or leaves the settled write waiting.
struct Settles {
    overtaken: bool,
}

impl Bend for Settles {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for write in &mut writes {
            if let StateWrite::Merge { settles, .. } = write
                && !self.overtaken
            {
                settles.clear();
            }
        }
        let wrote = inner.write(writes.clone())?;
        if let [StateWrite::Merge { key, value, version, read, .. }] = &writes[..]
            && *read == Some(*version)
            && wrote == [Wrote::Applied]
        {
            edit(inner, |space| space.set_state(key, *version, value.as_deref()));
        }
        Ok(wrote)
    }
}

#[test]
fn settling_that_settles_otherwise() {
    bites(|| Before::bent(|| Settles { overtaken: true }), &["merging::overtaken_is_settled"]);
    bites(
        || Before::bent(|| Settles { overtaken: false }),
        &["merging::settles_what_waits", "programs::of_merges_in_order"],
    );
}
