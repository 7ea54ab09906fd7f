//! Faulty stores: keys that are not treated as opaque bytes.

use super::bites;
use crate::bent::{Before, Bend, Wanted};
use mainstay_model::{
    Kept, KeySelection, KeyedState, Result, SnapshotSummary, StatePage, StateWrite, Wrote,
};
use std::io::Write;

fn key_of(write: &mut StateWrite) -> Option<&mut Vec<u8>> {
    match write {
        StateWrite::Put { key, .. }
        | StateWrite::Delete { key, .. }
        | StateWrite::Append { key, .. }
        | StateWrite::Merge { key, .. } => Some(key),
        _ => None,
    }
}

/// Truncates keys at the first zero byte.
struct EndsAtZero;

fn ended(key: &[u8]) -> &[u8] {
    let end = key.iter().skip(1).position(|byte| *byte == 0);
    end.map_or(key, |end| &key[..=end])
}

impl Bend for EndsAtZero {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for write in &mut writes {
            if let Some(key) = key_of(write) {
                *key = ended(key).to_vec();
            }
            if let StateWrite::Append { id, .. } = write {
                *id = ended(id).to_vec();
            }
        }
        inner.write(writes)
    }

    fn look(&self, inner: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        inner.look(&keys.iter().map(|key| ended(key)).collect::<Vec<_>>())
    }
}

#[test]
fn keys_that_end_at_a_zero() {
    let cases = [
        "versions::any_bytes_survive",
        "append::any_bytes_survive",
        "ordered::keys_of_any_bytes_wait",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(|| EndsAtZero), &cases);
}

/// Truncates long keys.
struct Cuts;

impl Bend for Cuts {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for key in writes.iter_mut().filter_map(key_of) {
            key.truncate(1_023);
        }
        inner.write(writes)
    }
}

#[test]
fn keys_that_are_cut() {
    bites(|| Before::bent(|| Cuts), &["input::longest_key", "input::key_that_is_too_long"]);
}

/// Uses one version for all keys.
struct OneVersion;

impl Bend for OneVersion {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        let states = inner.scan(b"", None, 100_000)?.states;
        let newest = states.into_iter().map(|(_, state)| state.version).max();
        match &writes[..] {
            [StateWrite::Put { version, .. }] if newest >= Some(*version) => Ok(vec![Wrote::Stale]),
            _ => inner.write(writes),
        }
    }
}

#[test]
fn versions_that_all_keys_share() {
    let cases =
        ["versions::keys_are_independent", "scan::goes_in_byte_order", "programs::of_newest_wins"];
    bites(|| Before::bent(|| OneVersion), &cases);
}

/// Concatenates keys and item IDs, so that different pairs can be equal.
struct OneLog;

impl Bend for OneLog {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for write in &mut writes {
            if let StateWrite::Append { key, id, .. } = write {
                let both = [&key[..], &id[..]].concat();
                *key = both[..1].to_vec();
                *id = both[1..].to_vec();
            }
        }
        inner.write(writes)
    }
}

#[test]
fn logs_that_run_into_each_other() {
    let cases = ["append::keys_have_logs_of_their_own", "programs::of_newest_wins"];
    bites(|| Before::bent(|| OneLog), &cases);
}

/// Computes the end of a prefix range by incrementing the last byte, which overflows at 0xff.
struct Overflows;

impl Bend for Overflows {
    fn scan(&self, inner: &dyn KeyedState, wanted: Wanted<'_>) -> Result<StatePage> {
        match wanted.of {
            [.., 0xff] => Ok(StatePage::default()),
            _ => wanted.scan(inner),
        }
    }
}

#[test]
fn prefixes_that_overflow() {
    bites(|| Before::bent(|| Overflows), &["scan::highest_prefix_ends_nowhere"]);
}

/// Ignores the key selection and returns all keys.
struct TakesAll;

impl Bend for TakesAll {
    fn snapshot_keys(
        &self,
        inner: &dyn KeyedState,
        _keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        inner.snapshot_keys_to(&KeySelection::Prefix(Vec::new()), out)
    }
}

#[test]
fn selections_of_all_keys() {
    let cases = [
        "subsets::keys_are_selected",
        "subsets::logs_travel",
        "subsets::groups_move_without_loss",
        "programs::of_writes_in_order",
    ];
    bites(|| Before::bent(|| TakesAll), &cases);
}
