//! Faulty stores: spaces that are created or fixed too early.

use super::detects;
use crate::edited::edit;
use crate::faulty_store::Faults;
use mainstay_model::{SpaceEntry, SpaceOptions, StateWrite, VersionKind, Wrote};

#[test]
fn spaces_that_are_made_of_nothing() {
    // Creates a space on any read or write.
    let faults = || {
        Faults::default()
            .write(|inner, writes| {
                if inner.info()?.is_none() {
                    inner.declare(SpaceOptions::default())?;
                }
                inner.write(writes)
            })
            .look(|inner, keys| {
                if inner.info()?.is_none() {
                    inner.declare(SpaceOptions::default())?;
                }
                inner.look(keys)
            })
    };
    let cases = [
        "versions::nothing_is_read_of_nothing",
        "batch::of_nothing_is_nothing",
        "batch::two_kinds_make_nothing",
        "input::empty_key",
        "merging::moved_makes_no_space",
    ];
    detects(faults, &cases);
}

#[test]
fn kinds_that_are_fixed_too_soon() {
    // Fixes the version kind on writes without a version.
    let faults = || {
        Faults::default()
            .write(|inner, writes| {
                let wrote = inner.write(writes.clone())?;
                if writes.iter().any(|write| write.version().is_none()) {
                    let kind = inner.info()?.and_then(|info| info.options.versions);
                    edit(inner, |space| {
                        space.head.space.options.versions = kind.or(Some(VersionKind::U64));
                    });
                }
                Ok(wrote)
            })
            .declare(|inner, options| {
                let is_new = inner.info()?.is_none();
                let versions = options.versions.or(is_new.then_some(VersionKind::U64));
                inner.declare(SpaceOptions { versions, ..options })
            })
    };
    let cases = [
        "append::leaves_the_kind_open",
        "declare::position_leaves_the_kind_open",
        "declare::open_kind_is_fixed_later",
        "subsets::open_kind_is_fixed",
        "programs::of_writes_in_order",
    ];
    detects(faults, &cases);
}

#[test]
fn nothing_that_is_taken_for_none() {
    // Treats an empty value as a deletion, and position zero as stale.
    let faults = || {
        Faults::default().write(|inner, writes| match &writes[..] {
            [StateWrite::Put { key, value, version }] if value.is_empty() => {
                inner.write(vec![StateWrite::delete(&key[..], *version)])
            }
            [StateWrite::Advance { position: 0, .. }] => Ok(vec![Wrote::Stale]),
            _ => inner.write(writes),
        })
    };
    let cases = ["versions::empty_state_is_one", "positions::zero_is_one"];
    detects(faults, &cases);
}

#[test]
fn logs_and_positions_that_are_sealed() {
    // Removes logs and positions when sealing.
    let faults = || {
        Faults::default().seal(|inner, frontier| {
            let sealed = inner.seal(frontier)?;
            edit(inner, |space| {
                space.entries.retain(|_, entry| {
                    matches!(entry, SpaceEntry::State { .. } | SpaceEntry::Waiting(_))
                });
            });
            Ok(sealed)
        })
    };
    let cases = ["seal::logs_stay", "seal::positions_stay", "programs::of_newest_wins"];
    detects(faults, &cases);
}

#[test]
fn logs_that_go_with_the_state() {
    // Removes the log of a key when its state is deleted.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let wrote = inner.write(writes.clone())?;
            for write in &writes {
                if let StateWrite::Delete { key, .. } = write {
                    edit(inner, |space| {
                        let is_item = |entry: &SpaceEntry| matches!(entry, SpaceEntry::Item { .. });
                        space
                            .entries
                            .retain(|_, entry| !is_item(entry) || entry.key() != Some(key));
                    });
                }
            }
            Ok(wrote)
        })
    };
    let cases = ["append::log_and_state_are_apart", "seal::logs_stay"];
    detects(faults, &cases);
}

/// Overwrites a newer state when an overtaken write is settled, or leaves the settled write waiting.
fn settling_otherwise(overtaken: bool) -> Faults {
    Faults::default().write(move |inner, mut writes| {
        for write in &mut writes {
            if let StateWrite::Merge { settles, .. } = write
                && !overtaken
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
    })
}

#[test]
fn settling_that_settles_otherwise() {
    detects(|| settling_otherwise(true), &["merging::overtaken_is_settled"]);
    let cases = ["merging::settles_what_waits", "programs::of_merges_in_order"];
    detects(|| settling_otherwise(false), &cases);
}
