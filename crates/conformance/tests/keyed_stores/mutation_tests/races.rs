//! Faulty stores: operations that are not atomic.

use super::detects;
use crate::edited::{Edited, edit};
use crate::faulty_store::Faults;
use mainstay_model::{KeyedState, Result, SpaceEntry, StateWrite, WaitingEntry, Wrote};
use std::thread::sleep;
use std::time::Duration;

/// Sleeps long enough for other threads to read the old state.
fn dawdle() {
    sleep(Duration::from_millis(3));
}

/// Returns whether the correct store would apply a write.
fn is_new(inner: &dyn KeyedState, write: &StateWrite) -> Result<bool> {
    match write {
        StateWrite::Put { key, version, .. } => {
            let kept = inner.look(&[key])?.pop().flatten();
            let waits = inner.waiting(None, 100_000)?;
            Ok(kept.is_none_or(|kept| kept.version < *version)
                && !waits.iter().any(|one| one.key == *key && one.version == *version))
        }
        StateWrite::Append { key, id, .. } => {
            let items = inner.items(key, None, 100_000)?;
            Ok(items.iter().all(|item| item.id != *id))
        }
        StateWrite::Advance { source, position } => {
            Ok(inner.positions()?.get(source).is_none_or(|held| held < position))
        }
        _ => Ok(true),
    }
}

/// The entry that a write makes.
fn entry(write: StateWrite, is_ordered: bool) -> Option<SpaceEntry> {
    match write {
        StateWrite::Put { key, value, version } if is_ordered => {
            Some(SpaceEntry::Waiting(WaitingEntry { key, version, value: Some(value) }))
        }
        StateWrite::Put { key, value, version } => {
            Some(SpaceEntry::State { key, version, value: Some(value) })
        }
        StateWrite::Append { key, id, item } => Some(SpaceEntry::Item { key, id, item }),
        StateWrite::Advance { source, position } => Some(SpaceEntry::Position { source, position }),
        _ => None,
    }
}
#[test]
fn writes_that_look_first() {
    // Checks the version first and writes later.
    let faults = || {
        Faults::default().write(|inner, writes| {
            let [write] = &writes[..] else { return inner.write(writes) };
            if !is_new(inner, write)? {
                return Ok(vec![Wrote::Stale]);
            }
            dawdle();
            let wrote = inner.write(writes.clone())?;
            let options = inner.info()?.map(|info| info.options);
            let is_ordered = options.is_some_and(|options| options.ordered);
            match entry(write.clone(), is_ordered) {
                Some(entry) if wrote == [Wrote::Stale] => {
                    edit(inner, |space| space.set(entry));
                    Ok(vec![if is_ordered { Wrote::Waiting } else { Wrote::Applied }])
                }
                _ => Ok(wrote),
            }
        })
    };
    let cases = [
        "races::highest_version_wins",
        "races::one_of_a_version_wins",
        "races::one_that_waits_wins",
        "races::one_item_of_an_id",
        "races::furthest_position_stands",
    ];
    detects(faults, &cases);
}

#[test]
fn merges_that_are_forced() {
    // Applies a merge result even if the state has changed since it was read.
    let faults = || {
        Faults::default().write(|inner, writes| {
            if let [StateWrite::Merge { key, value: Some(value), version, settles, .. }] =
                &writes[..]
                && settles.is_empty()
            {
                dawdle();
                if inner.write(writes.clone())? == [Wrote::Moved] {
                    edit(inner, |space| space.set_state(key, *version, Some(value)));
                }
                return Ok(vec![Wrote::Applied]);
            }
            inner.write(writes)
        })
    };
    detects(faults, &["races::merging_loses_nothing"]);
}

#[test]
fn merges_that_overtake() {
    // Ignores writes that started to wait after the merge function ran.
    let faults = || {
        Faults::default().write(|inner, mut writes| {
            if writes.iter().any(|write| matches!(write, StateWrite::Merge { .. })) {
                dawdle();
            }
            writes.retain(|write| !matches!(write, StateWrite::AllSettled { .. }));
            inner.write(writes)
        })
    };
    let cases = ["merging::unseen_is_a_conflict", "races::sealing_merges_lose_nothing"];
    detects(faults, &cases);
}

#[test]
fn seals_that_lose_something() {
    // Applies the waiting writes of a moment before the frontier rises, so that newer ones are lost.
    let faults = || {
        Faults::default().seal(|inner, frontier| {
            let before = Edited::of(inner);
            dawdle();
            let sealed = inner.seal(frontier)?;
            edit(inner, |space| {
                let is_known =
                    |key: &[u8]| before.entries.values().any(|entry| entry.key() == Some(key));
                space.entries.retain(|_, entry| match entry {
                    SpaceEntry::State { key, .. } => is_known(key),
                    _ => true,
                });
            });
            Ok(sealed)
        })
    };
    detects(faults, &["races::sealing_loses_nothing"]);
}

#[test]
fn writes_that_are_seen_half_way() {
    // Applies the writes of a batch, and the entries of a restore, one by one.
    let faults = || {
        Faults::default()
            .write(|inner, writes| {
                let one = |write| {
                    let wrote = inner.write(vec![write])?[0];
                    sleep(Duration::from_micros(200));
                    Ok(wrote)
                };
                writes.into_iter().map(one).collect()
            })
            .restore_from(|inner, from| {
                let mut bytes = Vec::new();
                from.read_to_end(&mut bytes).unwrap();
                let Some(taken) = Edited::read(&bytes).0 else { return inner.restore(&bytes) };
                if inner.info()?.is_some() {
                    for entry in taken.entries.into_values() {
                        edit(inner, |space| space.set(entry));
                        sleep(Duration::from_micros(200));
                    }
                }
                inner.restore(&bytes)
            })
    };
    let cases = [
        "races::batches_are_seen_whole",
        "races::snapshots_are_of_one_moment",
        "races::restores_are_seen_whole",
    ];
    detects(faults, &cases);
}

#[test]
fn reads_of_two_moments() {
    // Reads the keys of one call, and the entries of one snapshot, at different times.
    let faults = || {
        Faults::default()
            .look(|inner, keys| {
                let one = |key: &&[u8]| {
                    let kept = inner.look(&[*key])?;
                    sleep(Duration::from_micros(200));
                    Ok(kept.into_iter().next().flatten())
                };
                keys.iter().map(one).collect()
            })
            .snapshot_to(|inner, out| {
                let first = Edited::of(inner);
                sleep(Duration::from_micros(200));
                let mut then = Edited::of(inner);
                for entry in first.entries.into_values().take(1) {
                    then.set(entry);
                }
                then.write_to(out)
            })
    };
    let cases = [
        "races::batches_are_seen_whole",
        "races::snapshots_are_of_one_moment",
        "races::restores_are_seen_whole",
    ];
    detects(faults, &cases);
}
