//! Faulty stores: wrong seals.

use super::bites;
use super::restores::all;
use crate::bent::{Before, Bend};
use crate::edited::{Edited, edit};
use mainstay_model::{Code, Kept, KeyedState, Result, SpaceEntry, Version};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;

/// Returns whether a frontier is above the current one.
fn is_further(inner: &dyn KeyedState, frontier: Version) -> bool {
    let present = inner.info().unwrap().and_then(|info| info.frontier);
    present.is_none_or(|present| frontier > present)
}

/// Applies waiting writes in reverse order.
struct Backwards;

impl Bend for Backwards {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
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
    }
}

#[test]
fn seals_out_of_order() {
    let cases = [
        "seal::applies_in_order_of_versions",
        "seal::deletions_have_their_place",
        "seal::overtaken_is_dropped",
        "seal::of_many",
        "programs::of_writes_in_order",
    ];
    bites(|| Before::bent(|| Backwards), &cases);
}

/// Also closes the version equal to the frontier.
struct Inclusive;

impl Bend for Inclusive {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        match frontier {
            Version::U64(number) => inner.seal((number + 1).into()),
            time => inner.seal(time),
        }
    }
}

#[test]
fn frontiers_that_close_themselves() {
    let cases = [
        "seal::applies_in_order_of_versions",
        "seal::closes_versions_where_newest_wins",
        "seal::forgets_what_was_deleted",
        "ordered::below_the_frontier_is_stale",
        "merging::unsettled_is_a_conflict",
    ];
    bites(|| Before::bent(|| Inclusive), &cases);
}

/// Applies waiting writes but does not store the frontier.
struct LeavesOpen;

impl Bend for LeavesOpen {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        let sealed = inner.seal(frontier)?;
        edit(inner, |space| space.head.space.frontier = None);
        Ok(sealed)
    }
}

#[test]
fn frontiers_that_are_not_kept() {
    let cases = [
        "seal::closes_versions_where_newest_wins",
        "seal::fixes_the_kind",
        "seal::not_further_does_nothing",
        "ordered::below_the_frontier_is_stale",
        "merging::closed_is_stale",
        "restore::brings_back_what_waits",
    ];
    bites(|| Before::bent(|| LeavesOpen), &cases);
}

/// Lets the frontier fall.
struct Falls;

impl Bend for Falls {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        let sealed = inner.seal(frontier)?;
        edit(inner, |space| space.head.space.frontier = Some(frontier));
        Ok(sealed)
    }
}

#[test]
fn frontiers_that_fall() {
    let cases = ["seal::not_further_does_nothing", "programs::of_newest_wins"];
    bites(|| Before::bent(|| Falls), &cases);
}

/// Never discards tombstones. They are kept outside the space, because a correct store would discard
/// them.
#[derive(Default)]
struct ForgetsNothing {
    deleted: Mutex<BTreeMap<Vec<u8>, Version>>,
}

impl ForgetsNothing {
    fn remember(&self, space: Edited) {
        for entry in space.entries.into_values() {
            if let SpaceEntry::State { key, version, value: None } = entry {
                self.deleted.lock().unwrap().insert(key, version);
            }
        }
    }
}

impl Bend for ForgetsNothing {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        self.remember(Edited::of(inner));
        inner.seal(frontier)
    }

    fn restore(&self, inner: &dyn KeyedState, from: &mut dyn Read) -> Result<u64> {
        let bytes = all(from);
        let restored = inner.restore(&bytes)?;
        self.remember(Edited::read(&bytes).0.unwrap());
        Ok(restored)
    }

    fn look(&self, inner: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        let deleted = self.deleted.lock().unwrap();
        let remembered =
            |key: &[u8]| deleted.get(key).map(|version| Kept { version: *version, value: None });
        let kept = inner.look(keys)?.into_iter().zip(keys);
        Ok(kept.map(|(kept, key)| kept.or_else(|| remembered(key))).collect())
    }
}

#[test]
fn deleted_keys_that_are_never_forgotten() {
    let cases = [
        "seal::forgets_what_was_deleted",
        "seal::keeps_what_came_back",
        "restore::deleted_is_forgotten_later",
        "restore::deleted_below_the_frontier_is_forgotten",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(ForgetsNothing::default), &cases);
}

/// Discards all tombstones, even those above the frontier.
struct ForgetsAll;

impl Bend for ForgetsAll {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        let sealed = inner.seal(frontier)?;
        edit(inner, |space| {
            let is_deleted =
                |entry: &SpaceEntry| matches!(entry, SpaceEntry::State { value: None, .. });
            space.entries.retain(|_, entry| !is_deleted(entry));
        });
        Ok(sealed)
    }
}

#[test]
fn deleted_keys_that_are_forgotten_too_soon() {
    let cases = ["seal::forgets_what_was_deleted", "seal::keeps_what_came_back"];
    bites(|| Before::bent(|| ForgetsAll), &cases);
}

/// Applies waiting writes of a merged space without the merge function.
struct NeedsNoFunction;

impl Bend for NeedsNoFunction {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        match inner.seal(frontier) {
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
        }
    }
}

#[test]
fn seals_without_the_function() {
    let cases = ["merging::unsettled_is_a_conflict", "programs::of_merges_in_order"];
    bites(|| Before::bent(|| NeedsNoFunction), &cases);
}

/// Returns the wrong number of sealed writes, and always returns true from `clear`.
struct Miscounts;

impl Bend for Miscounts {
    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        Ok(inner.seal(frontier)?.min(1))
    }

    fn clear(&self, inner: &dyn KeyedState) -> Result<bool> {
        inner.clear()?;
        Ok(true)
    }
}

#[test]
fn answers_that_are_counted_wrongly() {
    let cases = [
        "seal::applies_in_order_of_versions",
        "seal::of_many",
        "clear::says_whether_there_was_one",
    ];
    bites(|| Before::bent(|| Miscounts), &cases);
}
