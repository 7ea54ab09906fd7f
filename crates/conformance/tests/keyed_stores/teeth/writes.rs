//! Faulty stores: wrong writes.

use super::bites;
use crate::bent::{Before, Bend};
use crate::edited::edit;
use mainstay_model::{
    Code, KeyedCapabilities, KeyedState, Result, SpaceEntry, SpaceOptions, StateWrite, Version,
    WaitingEntry, Wrote,
};

fn version_of(inner: &dyn KeyedState, key: &[u8]) -> Option<Version> {
    inner.look(&[key]).unwrap().pop().flatten().map(|kept| kept.version)
}

/// Applies a write whose version equals the current one.
struct TakesEqual;

impl Bend for TakesEqual {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        match &writes[..] {
            [StateWrite::Put { key, value, version }]
                if version_of(inner, key) == Some(*version) =>
            {
                edit(inner, |space| space.set_state(key, *version, Some(value)));
                Ok(vec![Wrote::Applied])
            }
            _ => inner.write(writes),
        }
    }
}

#[test]
fn equal_versions_that_are_applied() {
    let cases = [
        "versions::told_again_is_stale",
        "versions::equal_with_another_value_is_stale",
        "versions::lowest_and_highest",
        "restore::replay_goes_on_behind",
        "races::one_of_a_version_wins",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(|| TakesEqual), &cases);
}

/// Applies every write, regardless of its version.
struct TakesOlder;

impl Bend for TakesOlder {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        match &writes[..] {
            [StateWrite::Put { key, value, version }] if inner.info()?.is_some() => {
                let wrote = inner.write(writes.clone())?;
                if wrote == [Wrote::Stale] {
                    edit(inner, |space| space.set_state(key, *version, Some(value)));
                    return Ok(vec![Wrote::Applied]);
                }
                Ok(wrote)
            }
            _ => inner.write(writes),
        }
    }
}

#[test]
fn older_versions_that_are_applied() {
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
    bites(|| Before::bent(|| TakesOlder), &cases);
}

/// Returns `Applied` for every write.
struct SaysApplied;

impl Bend for SaysApplied {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        Ok(vec![Wrote::Applied; inner.write(writes)?.len()])
    }
}

#[test]
fn stale_writes_that_say_nothing() {
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
    bites(|| Before::bent(|| SaysApplied), &cases);
}

/// Keeps no tombstones.
struct ForgetsDeletions;

impl Bend for ForgetsDeletions {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        let wrote = inner.write(writes.clone())?;
        for (write, wrote) in writes.iter().zip(&wrote) {
            if let (StateWrite::Delete { key, .. }, Wrote::Applied) = (write, wrote) {
                edit(inner, |space| space.forget(key));
            }
        }
        Ok(wrote)
    }
}

#[test]
fn deletions_that_are_forgotten() {
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
    bites(|| Before::bent(|| ForgetsDeletions), &cases);
}

/// Applies the writes of a batch one by one, without atomicity.
struct OneByOne;

impl Bend for OneByOne {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        writes.into_iter().map(|write| Ok(inner.write(vec![write])?[0])).collect()
    }
}

#[test]
fn batches_that_are_none() {
    let cases = [
        "batch::bad_write_writes_nothing",
        "batch::other_kind_writes_nothing",
        "batch::two_kinds_make_nothing",
        "batch::positions_go_with_states",
        "ordered::batch_sees_what_waits",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(|| OneByOne), &cases);
}

/// Compares every write of a batch with the state before the batch, so that the last write of a key
/// wins.
struct Blind;

impl Bend for Blind {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
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
    }
}

#[test]
fn batches_that_do_not_see_themselves() {
    let cases = ["batch::sees_what_is_before", "ordered::batch_sees_what_waits"];
    bites(|| Before::bent(|| Blind), &cases);
}

/// Converts logical times to numbers.
struct MixesKinds;

fn as_number(version: Version) -> Version {
    match version {
        Version::Time(time) => time.epoch.into(),
        number => number,
    }
}

impl Bend for MixesKinds {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for write in &mut writes {
            match write {
                StateWrite::Put { version, .. }
                | StateWrite::Delete { version, .. }
                | StateWrite::Merge { version, .. } => *version = as_number(*version),
                _ => {}
            }
        }
        inner.write(writes)
    }

    fn seal(&self, inner: &dyn KeyedState, frontier: Version) -> Result<u64> {
        inner.seal(as_number(frontier))
    }
}

#[test]
fn kinds_that_are_mixed() {
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
    bites(|| Before::bent(|| MixesKinds), &cases);
}

/// Overwrites positions and items with the last write.
struct LastWins;

impl Bend for LastWins {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
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
    }
}

#[test]
fn positions_and_items_that_are_replaced() {
    let cases = [
        "positions::only_rise",
        "append::first_of_an_id_stays",
        "append::batch_sees_what_is_before",
        "programs::of_newest_wins",
    ];
    bites(|| Before::bent(|| LastWins), &cases);
}

/// Replaces a waiting write by a later one with the same version.
struct ReplacesWaiting;

impl Bend for ReplacesWaiting {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
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
    }
}

#[test]
fn waiting_that_is_replaced() {
    let cases = [
        "ordered::told_twice_waits_once",
        "races::one_that_waits_wins",
        "programs::of_writes_in_order",
    ];
    bites(|| Before::bent(|| ReplacesWaiting), &cases);
}

/// Applies writes of ordered spaces at once.
struct DoesNotWait;

impl Bend for DoesNotWait {
    fn declare(&self, inner: &dyn KeyedState, options: SpaceOptions) -> Result<bool> {
        inner.declare(SpaceOptions { ordered: false, ..options })
    }
}

#[test]
fn waiting_that_is_none() {
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
    bites(|| Before::bent(|| DoesNotWait), &cases);
}

/// Ignores the version that a merge has read.
struct IgnoresRead;

impl Bend for IgnoresRead {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for write in &mut writes {
            if let StateWrite::Merge { key, version, read, .. } = write
                && version_of(inner, key).is_none_or(|held| held < *version)
            {
                *read = version_of(inner, key);
            }
        }
        inner.write(writes)
    }
}

#[test]
fn merges_with_another_state() {
    let cases = [
        "merging::moved_changes_nothing",
        "merging::moved_makes_no_space",
        "merging::deletions_are_read",
        "programs::of_merges",
    ];
    bites(|| Before::bent(|| IgnoresRead), &cases);
}

/// Accepts puts in merged spaces without the merge function.
struct NeedsNoFunction;

impl Bend for NeedsNoFunction {
    fn write(&self, inner: &dyn KeyedState, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
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
    }
}

#[test]
fn puts_without_the_function() {
    bites(|| Before::bent(|| NeedsNoFunction), &["merging::plain_put_is_refused"]);
}

/// Corrects invalid input instead of refusing it.
struct Gullible;

impl Bend for Gullible {
    fn write(&self, inner: &dyn KeyedState, mut writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        for write in &mut writes {
            match write {
                StateWrite::Put { key, value, .. }
                | StateWrite::Append { key, item: value, .. } => {
                    key.resize(key.len().clamp(1, 1_024), b'-');
                    value.truncate(16 << 20);
                }
                StateWrite::Delete { key, .. } => key.resize(key.len().clamp(1, 1_024), b'-'),
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
    }

    fn declare(&self, inner: &dyn KeyedState, mut options: SpaceOptions) -> Result<bool> {
        options.groups = options.groups.clamp(1, 32_768);
        match inner.declare(options) {
            Err(error) if error.code() == Code::SpaceExists => Ok(false),
            declared => declared,
        }
    }
}

#[test]
fn nonsense_that_is_taken() {
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
    bites(|| Before::bent(|| Gullible), &cases);
}

/// Claims to have no capability, but executes the operations.
struct Modest;

impl Bend for Modest {
    fn capabilities(&self, _inner: KeyedCapabilities) -> KeyedCapabilities {
        KeyedCapabilities::none("modest")
    }
}

#[test]
fn what_is_lacking_and_yet_taken() {
    let cases = ["lacking::atomic", "lacking::ordered", "lacking::merged", "lacking::appends"];
    bites(|| Before::bent(|| Modest), &cases);
}
