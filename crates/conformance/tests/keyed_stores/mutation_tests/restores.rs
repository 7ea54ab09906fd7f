//! Faulty stores: wrong restores.

use super::detects;
use crate::edited::{Edited, edit};
use crate::faulty_store::Faults;
use mainstay_model::{Code, Error, KeyedState, Result, SpaceEntry, Version};
use std::io::Read;

pub(super) fn all(from: &mut dyn Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A read error ends the input, like its end.
    let _ = from.read_to_end(&mut bytes);
    bytes
}

#[test]
fn restores_that_add() {
    // Adds to the space instead of replacing it.
    let faults = || Faults::default().restore_from(|inner, from| inner.restore_keys_from(from));
    let cases = [
        "restore::replaces_everything",
        "restore::replay_goes_on_behind",
        "restore::replaces_the_declaration",
        "restore::of_nothing_leaves_nothing",
        "restore::part_of_a_space_is_refused",
        "restore::of_many_blocks",
        "restore::overtaken_is_as_it_was",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn restores_that_take_anything() {
    // Accepts invalid snapshots by dropping their frontier.
    let faults = || {
        Faults::default().restore_from(|inner, from| {
            let bytes = all(from);
            inner.restore(&bytes).or_else(|error| {
                let (Some(mut space), true) = Edited::read(&bytes) else { return Err(error) };
                space.head.space.frontier = None;
                space.put_back(inner);
                Ok(space.entries.len() as u64)
            })
        })
    };
    let cases = ["restore::waiting_below_the_frontier_is_refused"];
    detects(faults, &cases);
}

#[test]
fn additions_that_overwrite() {
    // Overwrites newer entries instead of keeping them.
    let faults = || {
        Faults::default().restore_keys_from(|inner, from| {
            let bytes = all(from);
            let added = inner.restore_keys(&bytes)?;
            let taken = Edited::read(&bytes).0.unwrap();
            edit(inner, |space| taken.entries.into_values().for_each(|entry| space.set(entry)));
            Ok(added)
        })
    };
    let cases = [
        "subsets::never_lowers_a_version",
        "subsets::deletions_travel",
        "subsets::what_waits_travels",
        "subsets::overtaken_does_not_travel",
        "subsets::logs_travel",
        "subsets::whole_snapshot_may_be_added",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

/// Applies the readable entries of a damaged snapshot.
fn apply_readable(inner: &dyn KeyedState, bytes: &[u8]) {
    if let (Some(taken), false) = Edited::read(bytes) {
        edit(inner, |space| taken.entries.into_values().for_each(|entry| space.set(entry)));
    }
}

#[test]
fn restores_that_are_half_done() {
    // Applies entries before the whole snapshot is verified.
    let faults = || {
        Faults::default()
            .restore_from(|inner, from| {
                let bytes = all(from);
                apply_readable(inner, &bytes);
                inner.restore(&bytes)
            })
            .restore_keys_from(|inner, from| {
                let bytes = all(from);
                apply_readable(inner, &bytes);
                inner.restore_keys(&bytes)
            })
    };
    let cases = [
        "damage::every_end_that_is_missing",
        "damage::every_byte_that_is_another",
        "damage::something_behind_the_end",
        "damage::of_some_keys",
        "damage::in_a_later_block",
        "damage::failing_reader",
    ];
    detects(faults, &cases);
}

/// Encodes the readable entries of a snapshot as a valid one.
fn repaired(from: &mut dyn Read) -> Result<Vec<u8>> {
    let damaged = || Error::new(Code::CorruptData, "damaged");
    let taken = Edited::read(&all(from)).0.ok_or_else(damaged)?;
    let mut bytes = Vec::new();
    taken.write_to(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn damage_that_is_not_found() {
    // Accepts damaged snapshots if their entries can be decoded.
    let faults = || Faults::default().restore_from(|inner, from| inner.restore(&repaired(from)?));
    let cases = [
        "damage::every_end_that_is_missing",
        "damage::every_byte_that_is_another",
        "damage::something_behind_the_end",
        "damage::in_a_later_block",
        "damage::failing_reader",
        "damage::nonsense_with_right_checksums",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn restores_that_empty_first() {
    // Clears the space before it verifies the snapshot.
    let faults = || {
        Faults::default().restore_from(|inner, from| {
            inner.clear()?;
            // Long enough for other threads to read the empty space.
            std::thread::sleep(std::time::Duration::from_micros(200));
            inner.restore_from(from)
        })
    };
    let cases = [
        "damage::foreign_bytes",
        "damage::every_byte_that_is_another",
        "damage::nonsense_with_right_checksums",
        "restore::part_of_a_space_is_refused",
        "races::restores_are_seen_whole",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn parts_that_are_taken_for_the_whole() {
    // Accepts snapshots of selected keys and incremental snapshots as full ones.
    let faults = || {
        Faults::default()
            .restore_from(|inner, from| {
                let bytes = all(from);
                match Edited::read(&bytes) {
                    (Some(mut taken), true) => {
                        taken.head.some_keys = false;
                        taken.head.changes = false;
                        taken.put_back(inner);
                        Ok(taken.entries.len() as u64)
                    }
                    _ => inner.restore(&bytes),
                }
            })
            .restore_keys_from(|inner, from| {
                let bytes = all(from);
                match Edited::read(&bytes) {
                    (Some(mut taken), true) => {
                        taken.head.changes = false;
                        // Takes the target's options, whatever space the keys come from.
                        if let Some(info) = inner.info()? {
                            taken.head.space = info;
                        }
                        taken.entries.retain(|_, entry| {
                            entry.version().map(|version| version.kind())
                                == taken.head.space.options.versions
                        });
                        let mut bytes = Vec::new();
                        taken.write_to(&mut bytes)?;
                        inner.restore_keys(&bytes)
                    }
                    _ => inner.restore_keys(&bytes),
                }
            })
    };
    let cases = [
        "restore::part_of_a_space_is_refused",
        "subsets::other_spaces_do_not_fit",
        "subsets::ordered_spaces_do_not_fit",
        "subsets::changes_are_refused",
    ];
    detects(faults, &cases);
}

#[test]
fn frontiers_that_travel() {
    // Restores the frontier of the source, and drops entries below the target's frontier.
    let faults = || {
        Faults::default().restore_keys_from(|inner, from| {
            let bytes = all(from);
            let (Some(mut taken), true) = Edited::read(&bytes) else {
                return inner.restore_keys(&bytes);
            };
            if let Some(frontier) = inner.info()?.and_then(|info| info.frontier) {
                let is_open = |entry: &SpaceEntry| entry.version() >= Some(frontier);
                taken.entries.retain(|_, entry| is_open(entry));
            }
            let mut bytes = Vec::new();
            taken.write_to(&mut bytes)?;
            let added = inner.restore_keys(&bytes)?;
            let frontier: Option<Version> = taken.head.space.frontier;
            edit(inner, |space| {
                space.head.space.frontier = space.head.space.frontier.max(frontier);
            });
            Ok(added)
        })
    };
    let cases = [
        "subsets::below_the_frontier_is_taken",
        "subsets::waiting_below_the_frontier_is_applied",
        "subsets::new_space_takes_the_declaration",
        "subsets::whole_snapshot_may_be_added",
    ];
    detects(faults, &cases);
}

#[test]
fn clearing_that_keeps_something() {
    // Clears only the states.
    let faults = || {
        Faults::default().clear(|inner| {
            if inner.info()?.is_none() {
                return Ok(false);
            }
            edit(inner, |space| {
                space.entries.retain(|_, entry| !matches!(entry, SpaceEntry::State { .. }));
            });
            Ok(true)
        })
    };
    let cases = [
        "clear::says_whether_there_was_one",
        "clear::removes_everything",
        "clear::space_may_be_another_afterwards",
        "clear::logs_go_too",
    ];
    detects(faults, &cases);
}
