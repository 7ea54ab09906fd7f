//! Faulty stores: keys that are not treated as opaque bytes.

use super::detects;
use crate::faulty_store::Faults;
use mainstay_model::{KeySelection, StatePage, StateWrite, Wrote};

fn key_of(write: &mut StateWrite) -> Option<&mut Vec<u8>> {
    match write {
        StateWrite::Put { key, .. }
        | StateWrite::Delete { key, .. }
        | StateWrite::Append { key, .. }
        | StateWrite::Merge { key, .. } => Some(key),
        _ => None,
    }
}

fn ended(key: &[u8]) -> &[u8] {
    let end = key.iter().skip(1).position(|byte| *byte == 0);
    end.map_or(key, |end| &key[..=end])
}

#[test]
fn keys_that_end_at_a_zero() {
    // Truncates keys at the first zero byte.
    let faults = || {
        Faults::default()
            .write(|inner, mut writes| {
                for write in &mut writes {
                    if let Some(key) = key_of(write) {
                        *key = ended(key).to_vec();
                    }
                    if let StateWrite::Append { id, .. } = write {
                        *id = ended(id).to_vec();
                    }
                }
                inner.write(writes)
            })
            .look(|inner, keys| inner.look(&keys.iter().map(|key| ended(key)).collect::<Vec<_>>()))
    };
    let cases = [
        "versions::any_bytes_survive",
        "append::any_bytes_survive",
        "ordered::keys_of_any_bytes_wait",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn keys_that_are_cut() {
    // Truncates long keys.
    let faults = || {
        Faults::default().write(|inner, mut writes| {
            for key in writes.iter_mut().filter_map(key_of) {
                key.truncate(1_023);
            }
            inner.write(writes)
        })
    };
    detects(faults, &["input::longest_key", "input::key_that_is_too_long"]);
}

#[test]
fn versions_that_all_keys_share() {
    // Uses one version for all keys.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let states = inner.scan(b"", None, 100_000)?.states;
            let newest = states.into_iter().map(|(_, state)| state.version).max();
            match &writes[..] {
                [StateWrite::Put { version, .. }] if newest >= Some(*version) => {
                    Ok(vec![Wrote::Stale])
                }
                _ => inner.write(writes),
            }
        })
    };
    let cases =
        ["versions::keys_are_independent", "scan::goes_in_byte_order", "programs::of_newest_wins"];
    detects(faults, &cases);
}

#[test]
fn logs_that_run_into_each_other() {
    // Concatenates keys and item IDs, so that different pairs can be equal.
    let faults = || {
        Faults::default().write(|inner, mut writes| {
            for write in &mut writes {
                if let StateWrite::Append { key, id, .. } = write {
                    let both = [&key[..], &id[..]].concat();
                    *key = both[..1].to_vec();
                    *id = both[1..].to_vec();
                }
            }
            inner.write(writes)
        })
    };
    let cases = ["append::keys_have_logs_of_their_own", "programs::of_newest_wins"];
    detects(faults, &cases);
}

#[test]
fn prefixes_that_overflow() {
    // Computes the end of a prefix range by incrementing the last byte, which overflows at 0xff.
    let faults = || {
        Faults::default().scan(|inner, prefix, after, limit| match prefix {
            [.., 0xff] => Ok(StatePage::default()),
            _ => inner.scan(prefix, after, limit),
        })
    };
    detects(faults, &["scan::highest_prefix_ends_nowhere"]);
}

#[test]
fn selections_of_all_keys() {
    // Ignores the key selection and returns all keys.
    let faults = || {
        Faults::default().snapshot_keys_to(|inner, _, out| {
            inner.snapshot_keys_to(&KeySelection::Prefix(Vec::new()), out)
        })
    };
    let cases = [
        "subsets::keys_are_selected",
        "subsets::logs_travel",
        "subsets::groups_move_without_loss",
        "programs::of_writes_in_order",
    ];
    detects(faults, &cases);
}
