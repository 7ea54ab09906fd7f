//! Guards: preconditions for running a transaction's steps.

use super::{keyed, outbox, runs};
use crate::base::fault_points::{self, InjectedFault};
use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace::{self, CELLS, Key, OUTBOX, RECORDS};
use crate::mvcc::recent_writes::RecentWrites;
use crate::mvcc::view::{Origin, View};
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{Code, Contract, Error, Fields, Guard, Name, Result, Revision, Stamp, codec};
use std::collections::BTreeMap;

/// Returns whether all guards hold in the writer's view. Range guards are checked together, in one scan of
/// the recent writes. The scan is short if the caller has checked the ranges before.
pub(crate) fn all_hold(
    view: &View<'_>,
    trail: &RecentWrites,
    checked: Option<&CheckedRanges>,
    guards: &[Guard],
) -> Result<bool> {
    // By now, the branch name may belong to a different branch.
    let checked = checked.filter(|checked| checked.branch == view.branch());
    if checked.is_some_and(|checked| !checked.held) {
        return Ok(false);
    }
    let mut ranges = Ranges::default();
    for guard in guards {
        let is_checked = checked.is_some() && matches!(guard, Guard::RangeUnchanged { .. });
        let holds = match guard {
            Guard::RangeUnchanged { expires, .. } if is_checked => still_lives(*expires, view.now),
            guard => holds(view, guard, &mut ranges)?,
        };
        if !holds {
            return Ok(false);
        }
    }
    let since_checked = checked.map(|checked| checked.written_since(trail));
    let written = since_checked.unwrap_or(Some(false)).ok_or_else(too_old)?;
    Ok(!written && !ranges.any_written(trail, Revision::MAX).ok_or_else(too_old)?)
}

/// Returns whether a guard holds. Ranges that must be unwritten are only added to `ranges`, for one common
/// check.
fn holds(view: &View<'_>, guard: &Guard, ranges: &mut Ranges) -> Result<bool> {
    let nothing = WriteSet::default();
    match guard {
        Guard::Counter { name, is } => {
            Ok(live(view, CELLS, name, |head, _| Ok(head.counter))? == *is)
        }
        Guard::Record { key, is } => {
            Ok(live(view, RECORDS, key, |head, _| Ok(head.counter))? == *is)
        }
        Guard::Value { name, is } => {
            Ok(live(view, CELLS, name, |_, payload| codec::decode(payload))? == *is)
        }
        Guard::Field { key, field, is } => Ok(live(view, RECORDS, key, |_, payload| {
            Ok(Fields::find(payload, field)?.map(<[u8]>::to_vec))
        })?
        .flatten()
            == *is),
        Guard::Unchanged { contract, name, since, expires } => {
            let (key, hash) = key(view, *contract, name)?;
            if view.index.check_reach(&key, *since).is_err() {
                // Compaction may have removed a tombstone written since then.
                return Err(too_old());
            }
            let found = view.find(&nothing, &key, hash, |head, _| Ok(head))?;
            // Versions inherited from a parent are fixed at the fork. Only the branch's own layer can change.
            let unwritten = match found {
                Some((newest, Origin::Own)) if newest.revision > *since => {
                    is_only_swept(view, &key, hash, &newest, *since)?
                }
                _ => true,
            };
            Ok(unwritten && still_lives(*expires, view.now))
        }
        Guard::Event { run, key, is } => Ok(runs::seq_of(view, &nothing, run, key)? == *is),
        Guard::RangeUnchanged { expires, .. } => {
            ranges.add_guard(guard, view.branch())?;
            Ok(still_lives(*expires, view.now))
        }
        Guard::StateVersion { space, key, is } => {
            let reader = keyed::read::SpaceReader::open(view, &nothing, space)?;
            Ok(reader.kept(key)?.map(|kept| kept.version) == *is)
        }
        Guard::StateUnchanged { space, place, since } => {
            keyed::guard::holds(view, ranges, space, place, *since)?.ok_or_else(too_old)
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that guard")),
    }
}

/// Returns the key, and its hash, whose entry changes with every write under this name.
pub(crate) fn key(view: &View<'_>, contract: Contract, name: &Name) -> Result<(Key, u64)> {
    Ok(match contract {
        Contract::Outbox => view.key(OUTBOX, &outbox::standing(name)?),
        other => view.key(keyspace::of(other)?, name.as_bytes()),
    })
}

/// Returns whether the only write since a revision is the sweep's tombstone for an expired key. A reader that
/// found the key expired, or that ignores expiry, must not get a conflict because of the sweep.
fn is_only_swept(
    view: &View<'_>,
    key: &Key,
    hash: u64,
    newest: &EntryHeader,
    since: Revision,
) -> Result<bool> {
    if !newest.is_sweep() {
        return Ok(false);
    }
    let mut head = |entry: &[u8]| Ok(entry::parse(entry)?.0);
    let then: Option<Result<EntryHeader>> = view.index.entry(hash, key, since, false, &mut head)?;
    // No write came between, and the earlier version had really expired.
    Ok(then
        .transpose()?
        .is_some_and(|then| then.counter + 1 == newest.counter && then.is_lapsed(newest.stamp)))
}

/// Reads the live entry of a name.
fn live<T>(
    view: &View<'_>,
    space: u8,
    name: &Name,
    mut read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let (key, hash) = view.key(space, name.as_bytes());
    let found = view.find(&WriteSet::default(), &key, hash, |head, payload| {
        head.is_live(view.now).then(|| read(head, payload)).transpose()
    })?;
    Ok(found.and_then(|(found, _)| found))
}

fn still_lives(expires: Option<Stamp>, now: Stamp) -> bool {
    expires.is_none_or(|expires| expires > now)
}

/// Range guards of a transaction, checked up to a published revision before the transaction reaches the
/// writer.
pub struct CheckedRanges {
    branch: u32,
    upto: Revision,
    /// Whether all ranges were unwritten. A range guard that fails once fails forever.
    held: bool,
    stretches: RangeCover,
}

impl CheckedRanges {
    /// Checks all range guards. Returns `None` if the transaction has none.
    pub fn new(
        guards: &[Guard],
        branch: u32,
        trail: &RecentWrites,
        upto: Revision,
    ) -> Result<Option<CheckedRanges>> {
        let mut ranges = Ranges::default();
        for guard in guards.iter().filter(|guard| matches!(guard, Guard::RangeUnchanged { .. })) {
            ranges.add_guard(guard, branch)?;
        }
        let Some(oldest) = ranges.oldest() else { return Ok(None) };
        let stretches = ranges.stretches();
        let written = stretches.any_written(trail, oldest, upto).ok_or_else(too_old)?;
        Ok(Some(CheckedRanges { branch, upto, held: !written, stretches }))
    }

    pub fn held(&self) -> bool {
        self.held
    }

    fn written_since(&self, trail: &RecentWrites) -> Option<bool> {
        self.stretches.any_written(trail, self.upto, Revision::MAX)
    }
}

/// Key ranges, each with a revision since which none of its keys may have been written.
#[derive(Default)]
pub(crate) struct Ranges(Vec<GuardedRange>);

/// A half-open key range: `from` is included, `to` is not.
struct GuardedRange {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    since: Revision,
}

impl Ranges {
    fn add_guard(&mut self, guard: &Guard, branch: u32) -> Result<()> {
        let Guard::RangeUnchanged { contract, prefix, after, upto, since, .. } = guard else {
            return Err(Error::new(Code::InvalidArgument, "a guard that is on no range"));
        };
        let space = keyspace::of(*contract)?;
        let key = |name: &str| keyspace::key(space, branch, name.as_bytes());
        let after = after.as_deref().map(key);
        let upto = upto.as_deref().map(key);
        self.add(&key(prefix), after.as_deref(), upto.as_deref(), *since);
        Ok(())
    }

    /// Adds the keys that begin with `prefix`, after `after` and up to and including `upto`.
    pub fn add(
        &mut self,
        prefix: &[u8],
        after: Option<&[u8]>,
        upto: Option<&[u8]>,
        since: Revision,
    ) {
        // The smallest key after a given key is that key followed by a zero byte.
        let behind = |key: &[u8]| [key, &[0]].concat();
        let from = after.map(behind).unwrap_or_default().max(prefix.to_vec());
        let to = [keyspace::after_prefix(prefix), upto.map(behind)].into_iter().flatten().min();
        if to.as_ref().is_none_or(|to| from < *to) {
            self.0.push(GuardedRange { from, to, since });
        }
    }

    /// Returns whether any key was written after its range's revision, up to `upto`. Returns `None` if the
    /// recent writes do not reach back. Scans the recent writes once, for any number of ranges.
    pub fn any_written(&self, trail: &RecentWrites, upto: Revision) -> Option<bool> {
        let Some(oldest) = self.oldest() else { return Some(false) };
        trail.reaches(oldest).then(|| self.stretches())?.any_written(trail, oldest, upto)
    }

    fn oldest(&self) -> Option<Revision> {
        self.0.iter().map(|range| range.since).min()
    }

    fn stretches(&self) -> RangeCover {
        let mut ends: Vec<(&[u8], bool, Revision)> = Vec::with_capacity(2 * self.0.len());
        for GuardedRange { from, to, since } in &self.0 {
            ends.push((from, true, *since));
            ends.extend(to.as_ref().map(|to| (to.as_slice(), false, *since)));
        }
        ends.sort_unstable();
        let mut covering: BTreeMap<Revision, usize> = BTreeMap::new();
        let mut stretches: Vec<(Vec<u8>, Option<Revision>)> = Vec::new();
        for (key, begins, since) in ends {
            let count = covering.entry(since).or_default();
            *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                covering.remove(&since);
            }
            let oldest = covering.keys().next().copied();
            match stretches.last_mut() {
                Some((first, since)) if first == key => *since = oldest,
                _ => stretches.push((key.to_vec(), oldest)),
            }
        }
        RangeCover(stretches)
    }
}

/// Disjoint segments of the key space, from a sweep over the ends of all ranges. Each item is the first key of
/// a segment, and the earliest revision of the ranges that cover it. `None`: no range covers the segment.
struct RangeCover(Vec<(Vec<u8>, Option<Revision>)>);

impl RangeCover {
    fn any_written(&self, trail: &RecentWrites, since: Revision, upto: Revision) -> Option<bool> {
        trail.any_at(since, upto, |revision, key| {
            let behind = self.0.partition_point(|(first, _)| first.as_slice() <= key);
            let since = behind.checked_sub(1).and_then(|place| self.0[place].1);
            !fault_points::is(InjectedFault::GuardRangeForgotten)
                && since.is_some_and(|since| revision > since)
        })
    }
}

#[cold]
fn too_old() -> Error {
    let message = "the transaction's snapshot is older than the writes the database remembers: \
                   begin again";
    Error::new(Code::SnapshotTooOld, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(b'a'..b'd', 0..3)
    }

    type Given = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, Revision);

    fn contains((prefix, after, upto, _): &Given, key: &[u8]) -> bool {
        key.starts_with(prefix)
            && after.as_ref().is_none_or(|after| key > after.as_slice())
            && upto.as_ref().is_none_or(|upto| key <= upto.as_slice())
    }

    proptest! {
        /// One common scan must find the same writes as one scan per range.
        #[test]
        fn ranges_together_are_as_strict_as_each_alone(
            given in prop::collection::vec(
                (name(), prop::option::of(name()), prop::option::of(name()), 0..8_u64), 0..8),
            writes in prop::collection::vec(name(), 0..8),
        ) {
            let trail = RecentWrites::new(0);
            for (place, key) in writes.iter().enumerate() {
                trail.record(place as Revision + 1, [key.as_slice()].into_iter());
            }
            let mut ranges = Ranges::default();
            for (prefix, after, upto, since) in &given {
                ranges.add(prefix, after.as_deref(), upto.as_deref(), *since);
            }
            let written = |one: &Given| trail.any_between(one.3, Revision::MAX, |key| contains(one, key));
            let expected = given.iter().any(|one| written(one) == Some(true));
            let before = trail.walks();
            prop_assert_eq!(ranges.any_written(&trail, Revision::MAX), Some(expected));
            prop_assert!(trail.walks() - before <= 1);
        }
    }
}
