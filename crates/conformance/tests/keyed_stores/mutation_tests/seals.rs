//! Faulty stores: wrong seals.

use super::detects;
use super::restores::all;
use crate::edited::{Edited, edit};
use crate::faulty_store::Faults;
use mainstay_model::{Code, Kept, KeyedState, SpaceEntry, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Returns whether a frontier is above the current one.
fn is_further(inner: &dyn KeyedState, frontier: Version) -> bool {
    let present = inner.info().unwrap().and_then(|info| info.frontier);
    present.is_none_or(|present| frontier > present)
}

#[test]
fn seals_out_of_order() {
    // Applies waiting writes in reverse order.
    let faults = || {
        Faults::default().seal(|inner, frontier| {
            if !is_further(inner, frontier) || inner.info()?.is_none() {
                return inner.seal(frontier);
            }
            let mut due = 0;
            edit(inner, |space| {
                for entry in space.take_waiting(frontier).into_iter().rev() {
                    space.set_state(&entry.key, entry.version, entry.value.as_deref());
                    due += 1;
                }
            });
            Ok(inner.seal(frontier)? + due)
        })
    };
    let cases = [
        "seal::applies_in_order_of_versions",
        "seal::deletions_have_their_place",
        "seal::overtaken_is_dropped",
        "seal::of_many",
        "programs::of_writes_in_order",
    ];
    detects(faults, &cases);
}

#[test]
fn frontiers_that_close_themselves() {
    // Also closes the version equal to the frontier.
    let faults = || {
        Faults::default().seal(|inner, frontier| match frontier {
            Version::U64(number) => inner.seal((number + 1).into()),
            time => inner.seal(time),
        })
    };
    let cases = [
        "seal::applies_in_order_of_versions",
        "seal::closes_versions_where_newest_wins",
        "seal::forgets_what_was_deleted",
        "ordered::below_the_frontier_is_stale",
        "merging::unsettled_is_a_conflict",
    ];
    detects(faults, &cases);
}

#[test]
fn frontiers_that_are_not_kept() {
    // Applies waiting writes but does not store the frontier.
    let faults = || {
        Faults::default().seal(|inner, frontier| {
            let sealed = inner.seal(frontier)?;
            edit(inner, |space| space.head.space.frontier = None);
            Ok(sealed)
        })
    };
    let cases = [
        "seal::closes_versions_where_newest_wins",
        "seal::fixes_the_kind",
        "seal::not_further_does_nothing",
        "ordered::below_the_frontier_is_stale",
        "merging::closed_is_stale",
        "restore::brings_back_what_waits",
    ];
    detects(faults, &cases);
}

#[test]
fn frontiers_that_fall() {
    // Lets the frontier fall.
    let faults = || {
        Faults::default().seal(|inner, frontier| {
            let sealed = inner.seal(frontier)?;
            edit(inner, |space| space.head.space.frontier = Some(frontier));
            Ok(sealed)
        })
    };
    let cases = ["seal::not_further_does_nothing", "programs::of_newest_wins"];
    detects(faults, &cases);
}

/// Tombstones by key.
type Tombstones = Mutex<BTreeMap<Vec<u8>, Version>>;

fn remember(tombstones: &Tombstones, space: Edited) {
    for entry in space.entries.into_values() {
        if let SpaceEntry::State { key, version, value: None } = entry {
            tombstones.lock().unwrap().insert(key, version);
        }
    }
}

#[test]
fn deleted_keys_that_are_never_forgotten() {
    // Never discards tombstones. They are kept outside the space, because a correct store would discard
    // them.
    let faults = || {
        let sealed: Arc<Tombstones> = Arc::default();
        let restored = sealed.clone();
        let looked = sealed.clone();
        Faults::default()
            .seal(move |inner, frontier| {
                remember(&sealed, Edited::of(inner));
                inner.seal(frontier)
            })
            .restore_from(move |inner, from| {
                let bytes = all(from);
                let count = inner.restore(&bytes)?;
                remember(&restored, Edited::read(&bytes).0.unwrap());
                Ok(count)
            })
            .look(move |inner, keys| {
                let deleted = looked.lock().unwrap();
                let remembered = |key: &[u8]| {
                    deleted.get(key).map(|version| Kept { version: *version, value: None })
                };
                let kept = inner.look(keys)?.into_iter().zip(keys);
                Ok(kept.map(|(kept, key)| kept.or_else(|| remembered(key))).collect())
            })
    };
    let cases = [
        "seal::forgets_what_was_deleted",
        "seal::keeps_what_came_back",
        "restore::deleted_is_forgotten_later",
        "restore::deleted_below_the_frontier_is_forgotten",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn deleted_keys_that_are_forgotten_too_soon() {
    // Discards all tombstones, even those above the frontier.
    let faults = || {
        Faults::default().seal(|inner, frontier| {
            let sealed = inner.seal(frontier)?;
            edit(inner, |space| {
                let is_deleted =
                    |entry: &SpaceEntry| matches!(entry, SpaceEntry::State { value: None, .. });
                space.entries.retain(|_, entry| !is_deleted(entry));
            });
            Ok(sealed)
        })
    };
    let cases = ["seal::forgets_what_was_deleted", "seal::keeps_what_came_back"];
    detects(faults, &cases);
}

#[test]
fn seals_without_the_function() {
    // Applies waiting writes of a merged space without the merge function.
    let faults = || {
        Faults::default().seal(|inner, frontier| match inner.seal(frontier) {
            Err(error) if error.code() == Code::Conflict => {
                let mut due = 0;
                edit(inner, |space| {
                    for entry in space.take_waiting(frontier) {
                        space.set_state(&entry.key, entry.version, entry.value.as_deref());
                        due += 1;
                    }
                });
                Ok(inner.seal(frontier)? + due)
            }
            sealed => sealed,
        })
    };
    let cases = ["merging::unsettled_is_a_conflict", "programs::of_merges_in_order"];
    detects(faults, &cases);
}

#[test]
fn answers_that_are_counted_wrongly() {
    // Returns the wrong number of sealed writes, and always returns true from `clear`.
    let faults = || {
        Faults::default().seal(|inner, frontier| Ok(inner.seal(frontier)?.min(1))).clear(|inner| {
            inner.clear()?;
            Ok(true)
        })
    };
    let cases = [
        "seal::applies_in_order_of_versions",
        "seal::of_many",
        "clear::says_whether_there_was_one",
    ];
    detects(faults, &cases);
}
