//! Faulty stores: wrong writes.

use super::detects;
use crate::edited::edit;
use crate::faulty_store::Faults;
use mainstay_model::{
    Code, KeyedCapabilities, KeyedState, SpaceEntry, SpaceOptions, StateWrite, Version,
    WaitingEntry, Wrote,
};

fn version_of(inner: &dyn KeyedState, key: &[u8]) -> Option<Version> {
    inner.look(&[key]).unwrap().pop().flatten().map(|kept| kept.version)
}

#[test]
fn equal_versions_that_are_applied() {
    // Applies a write whose version equals the current one.
    let faults = || {
        Faults::default().write(|inner, writes| match &writes[..] {
            [StateWrite::Put { key, value, version }]
                if version_of(inner, key) == Some(*version) =>
            {
                edit(inner, |space| space.set_state(key, *version, Some(value)));
                Ok(vec![Wrote::Applied])
            }
            _ => inner.write(writes),
        })
    };
    let cases = [
        "versions::told_again_is_stale",
        "versions::equal_with_another_value_is_stale",
        "versions::lowest_and_highest",
        "restore::replay_goes_on_behind",
        "races::one_of_a_version_wins",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn older_versions_that_are_applied() {
    // Applies every write, regardless of its version.
    let faults = || {
        Faults::default().write(|inner, writes| match &writes[..] {
            [StateWrite::Put { key, value, version }] if inner.info()?.is_some() => {
                let wrote = inner.write(writes.clone())?;
                if wrote == [Wrote::Stale] {
                    edit(inner, |space| space.set_state(key, *version, Some(value)));
                    return Ok(vec![Wrote::Applied]);
                }
                Ok(wrote)
            }
            _ => inner.write(writes),
        })
    };
    let cases = [
        "versions::older_is_stale",
        "versions::epochs_come_before_rounds",
        "delete::version_is_remembered",
        "delete::of_nothing_is_remembered",
        "seal::closes_versions_where_newest_wins",
        "seal::forgets_what_was_deleted",
        "races::highest_version_wins",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn stale_writes_that_say_nothing() {
    // Returns `Applied` for every write.
    let faults = || {
        Faults::default()
            .write(|inner, writes| Ok(vec![Wrote::Applied; inner.write(writes)?.len()]))
    };
    let cases = [
        "versions::told_again_is_stale",
        "delete::not_newer_is_stale",
        "batch::answers_per_position",
        "ordered::put_waits",
        "append::first_of_an_id_stays",
        "positions::only_rise",
        "merging::moved_changes_nothing",
        "races::one_item_of_an_id",
    ];
    detects(faults, &cases);
}

#[test]
fn deletions_that_are_forgotten() {
    // Keeps no tombstones.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let wrote = inner.write(writes.clone())?;
            for (write, wrote) in writes.iter().zip(&wrote) {
                if let (StateWrite::Delete { key, .. }, Wrote::Applied) = (write, wrote) {
                    edit(inner, |space| space.forget(key));
                }
            }
            Ok(wrote)
        })
    };
    let cases = [
        "delete::deleted_is_gone",
        "delete::version_is_remembered",
        "delete::of_nothing_is_remembered",
        "delete::twice_is_once",
        "versions::look_answers_as_asked",
        "snapshot::bytes_are_these",
        "restore::deleted_is_forgotten_later",
        "subsets::deletions_travel",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn batches_that_are_none() {
    // Applies the writes of a batch one by one, without atomicity.
    let faults = || {
        Faults::default().write(|inner, writes| {
            writes.into_iter().map(|write| Ok(inner.write(vec![write])?[0])).collect()
        })
    };
    let cases = [
        "batch::bad_write_writes_nothing",
        "batch::other_kind_writes_nothing",
        "batch::two_kinds_make_nothing",
        "batch::positions_go_with_states",
        "ordered::batch_sees_what_waits",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn batches_that_do_not_see_themselves() {
    // Compares every write of a batch with the state before the batch, so that the last write of a key
    // wins.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let before: Vec<Option<Version>> =
                writes.iter().map(|write| version_of(inner, write.key().unwrap_or(b"-"))).collect();
            let mut wrote = inner.write(writes.clone())?;
            for ((write, before), wrote) in writes.iter().zip(before).zip(&mut wrote) {
                if let StateWrite::Put { key, value, version } = write
                    && *wrote == Wrote::Stale
                    && before.is_none_or(|before| before < *version)
                {
                    edit(inner, |space| space.set_state(key, *version, Some(value)));
                    *wrote = Wrote::Applied;
                }
            }
            Ok(wrote)
        })
    };
    let cases = ["batch::sees_what_is_before", "ordered::batch_sees_what_waits"];
    detects(faults, &cases);
}

fn as_number(version: Version) -> Version {
    match version {
        Version::Time(time) => time.epoch.into(),
        number => number,
    }
}

#[test]
fn kinds_that_are_mixed() {
    // Converts logical times to numbers.
    let faults = || {
        Faults::default()
            .write(|inner, mut writes| {
                for write in &mut writes {
                    match write {
                        StateWrite::Put { version, .. }
                        | StateWrite::Delete { version, .. }
                        | StateWrite::Merge { version, .. } => *version = as_number(*version),
                        _ => {}
                    }
                }
                inner.write(writes)
            })
            .seal(|inner, frontier| inner.seal(as_number(frontier)))
    };
    let cases = [
        "versions::first_one_fixes_the_kind",
        "versions::epochs_come_before_rounds",
        "batch::other_kind_writes_nothing",
        "batch::two_kinds_make_nothing",
        "declare::kind_binds",
        "merging::kind_is_checked",
        "ordered::kind_is_checked",
        "seal::fixes_the_kind",
        "races::one_kind_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn positions_and_items_that_are_replaced() {
    // Overwrites positions and items with the last write.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let wrote = inner.write(writes.clone())?;
            edit(inner, |space| {
                for write in writes {
                    match write {
                        StateWrite::Append { key, id, item } => {
                            space.set(SpaceEntry::Item { key, id, item });
                        }
                        StateWrite::Advance { source, position } => {
                            space.set(SpaceEntry::Position { source, position });
                        }
                        _ => {}
                    }
                }
            });
            Ok(wrote)
        })
    };
    let cases = [
        "positions::only_rise",
        "append::first_of_an_id_stays",
        "append::batch_sees_what_is_before",
        "programs::of_newest_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn waiting_that_is_replaced() {
    // Replaces a waiting write by a later one with the same version.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let waiting = inner.waiting(None, 100_000)?;
            match &writes[..] {
                [StateWrite::Put { key, value, version }]
                    if waiting.iter().any(|one| (&one.key, one.version) == (key, *version)) =>
                {
                    let key = key.clone();
                    let value = Some(value.clone());
                    let entry = WaitingEntry { key, version: *version, value };
                    edit(inner, |space| space.set(SpaceEntry::Waiting(entry)));
                    Ok(vec![Wrote::Waiting])
                }
                _ => inner.write(writes),
            }
        })
    };
    let cases = [
        "ordered::told_twice_waits_once",
        "races::one_that_waits_wins",
        "programs::of_writes_in_order",
    ];
    detects(faults, &cases);
}

#[test]
fn waiting_that_is_none() {
    // Applies writes of ordered spaces at once.
    let faults = || {
        Faults::default()
            .declare(|inner, options| inner.declare(SpaceOptions { ordered: false, ..options }))
    };
    let cases = [
        "ordered::put_waits",
        "ordered::deletion_waits",
        "ordered::wait_in_order_of_versions_then_keys",
        "ordered::keys_of_any_bytes_wait",
        "scan::does_not_show_what_waits",
        "seal::told_again_applies_nothing",
        "declare::ordered_otherwise_is_refused",
        "merging::sealed_in_order",
    ];
    detects(faults, &cases);
}

#[test]
fn merges_with_another_state() {
    // Ignores the version that a merge has read.
    let faults = || {
        Faults::default().write(|inner, mut writes| {
            for write in &mut writes {
                if let StateWrite::Merge { key, version, read, .. } = write
                    && version_of(inner, key).is_none_or(|held| held < *version)
                {
                    *read = version_of(inner, key);
                }
            }
            inner.write(writes)
        })
    };
    let cases = [
        "merging::moved_changes_nothing",
        "merging::moved_makes_no_space",
        "merging::deletions_are_read",
        "programs::of_merges",
    ];
    detects(faults, &cases);
}

#[test]
fn puts_without_the_function() {
    // Accepts puts in merged spaces without the merge function.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let wrote = inner.write(writes.clone());
            match (&wrote, &writes[..]) {
                (Err(error), [StateWrite::Put { key, value, version }])
                    if error.code() == Code::InvalidArgument =>
                {
                    edit(inner, |space| space.set_state(key, *version, Some(value)));
                    Ok(vec![Wrote::Applied])
                }
                _ => wrote,
            }
        })
    };
    detects(faults, &["merging::plain_put_is_refused"]);
}

#[test]
fn nonsense_that_is_taken() {
    // Corrects invalid input instead of refusing it.
    let faults = || {
        Faults::default()
            .write(|inner, mut writes| {
                for write in &mut writes {
                    match write {
                        StateWrite::Put { key, value, .. }
                        | StateWrite::Append { key, item: value, .. } => {
                            key.resize(key.len().clamp(1, 1_024), b'-');
                            value.truncate(16 << 20);
                        }
                        StateWrite::Delete { key, .. } => {
                            key.resize(key.len().clamp(1, 1_024), b'-')
                        }
                        StateWrite::Advance { source, .. } => {
                            *source = format!("x{}", source.replace('\0', ""));
                            source.truncate(1_024);
                        }
                        _ => {}
                    }
                    if let StateWrite::Append { id, .. } = write {
                        id.resize(id.len().clamp(1, 1_024), b'-');
                    }
                }
                inner.write(writes)
            })
            .declare(|inner, mut options| {
                options.groups = options.groups.clamp(1, 32_768);
                match inner.declare(options) {
                    Err(error) if error.code() == Code::SpaceExists => Ok(false),
                    declared => declared,
                }
            })
    };
    let cases = [
        "input::empty_key",
        "input::key_that_is_too_long",
        "input::ids_of_items",
        "input::largest_state",
        "input::largest_item",
        "positions::names_are_checked",
        "batch::bad_write_writes_nothing",
        "declare::otherwise_is_refused",
        "declare::groups_are_checked",
        "declare::merged_otherwise_is_refused",
        "declare::first_write_declares",
        "races::one_declaration_wins",
    ];
    detects(faults, &cases);
}

#[test]
fn what_is_lacking_and_yet_taken() {
    // Claims to have no capability, but executes the operations.
    let faults = || Faults::default().capabilities(|_inner| KeyedCapabilities::none("modest"));
    let cases = ["lacking::atomic", "lacking::ordered", "lacking::merged", "lacking::appends"];
    detects(faults, &cases);
}
