//! Guards: what must hold for a transaction's steps to run.

use super::{keyed, outbox, runs};
use crate::entry::{self, Head};
use crate::overlay::Overlay;
use crate::planted::{self, Bug};
use crate::spaces::{self, CELLS, Key, OUTBOX, RECORDS};
use crate::trail::Trail;
use crate::view::{Origin, View};
use mainstay_model::{Code, Contract, Error, Fields, Guard, Name, Result, Revision, Stamp, codec};

/// Whether a guard holds for the writer's view.
pub(crate) fn holds(
    view: &View<'_>,
    trail: &Trail,
    checked: Revision,
    guard: &Guard,
) -> Result<bool> {
    let nothing = Overlay::default();
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
        Guard::Field { key, field, is } => {
            let read = |_, payload: &[u8]| Ok(Fields::find(payload, field)?.map(<[u8]>::to_vec));
            Ok(live(view, RECORDS, key, read)?.flatten() == *is)
        }
        Guard::Unchanged { contract, name, since, expires } => {
            let (key, hash) = key(view, *contract, name)?;
            if view.index.check_reach(&key, *since).is_err() {
                // A deletion since then may be gone without a trace.
                return Err(too_old());
            }
            let found = view.find(&nothing, &key, hash, |head, _| Ok(head))?;
            // Inherited versions are fixed by the fork: only the own layer can change.
            let unwritten = match found {
                Some((newest, Origin::Own)) if newest.revision > *since => {
                    is_only_swept(view, &key, hash, &newest, *since)?
                }
                _ => true,
            };
            Ok(unwritten && still_lives(*expires, view.now))
        }
        Guard::Event { run, key, is } => Ok(runs::seq_of(view, &nothing, run, key)? == *is),
        Guard::RangeUnchanged { since, expires, .. } => {
            let range = Range::of(guard, view.branch())?;
            let since = (*since).max(checked);
            let seen = |key: &[u8]| !planted::is(Bug::GuardRangeForgotten) && range.contains(key);
            let written = trail.any(since, Revision::MAX, seen);
            Ok(!written.ok_or_else(too_old)? && still_lives(*expires, view.now))
        }
        Guard::StateVersion { space, key, is } => {
            let reader = keyed::read::Reader::open(view, &nothing, space)?;
            Ok(reader.kept(key)?.map(|kept| kept.version) == *is)
        }
        Guard::StateUnchanged { space, place, since } => {
            keyed::guard::holds(view, trail, space, place, *since)?.ok_or_else(too_old)
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that guard")),
    }
}

/// Where that stands which changes whenever what has this name does.
pub(crate) fn key(view: &View<'_>, contract: Contract, name: &Name) -> Result<(Key, u64)> {
    Ok(match contract {
        Contract::Outbox => view.key(OUTBOX, &outbox::standing(name)?),
        other => view.key(spaces::of(other)?, name.as_bytes()),
    })
}

/// Whether nothing has been written since a revision but that a time was over. Who found the key gone, or does
/// not mind its expiry, is not to be told of it by the sweep.
fn is_only_swept(
    view: &View<'_>,
    key: &Key,
    hash: u64,
    newest: &Head,
    since: Revision,
) -> Result<bool> {
    if !newest.is_sweep() {
        return Ok(false);
    }
    let mut head = |entry: &[u8]| Ok(entry::parse(entry)?.0);
    let then: Option<Result<Head>> = view.index.entry(hash, key, since, false, &mut head)?;
    // Nothing came between, and what there was had to go.
    Ok(then
        .transpose()?
        .is_some_and(|then| then.counter + 1 == newest.counter && then.is_lapsed(newest.stamp)))
}

/// Looks at what lives under a name.
fn live<T>(
    view: &View<'_>,
    space: u8,
    name: &Name,
    mut read: impl FnMut(Head, &[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let (key, hash) = view.key(space, name.as_bytes());
    let found = view.find(&Overlay::default(), &key, hash, |head, payload| {
        head.is_live(view.now).then(|| read(head, payload)).transpose()
    })?;
    Ok(found.and_then(|(found, _)| found))
}

fn still_lives(expires: Option<Stamp>, now: Stamp) -> bool {
    expires.is_none_or(|expires| expires > now)
}

/// Checks the range guards up to a revision, outside the writer; those that fail say so early.
pub(crate) fn ranges_hold(
    guards: &[Guard],
    branch: u32,
    trail: &Trail,
    upto: Revision,
) -> Result<bool> {
    let mut ranges: Vec<Range> = Vec::new();
    for guard in guards {
        if let Guard::RangeUnchanged { .. } = guard {
            ranges.push(Range::of(guard, branch)?);
        }
    }
    let Some(oldest) = ranges.iter().map(|range| range.since).min() else { return Ok(true) };
    let forgets = planted::is(Bug::GuardRangeForgotten);
    let seen = |key: &[u8]| !forgets && ranges.iter().any(|range| range.contains(key));
    let written = trail.any(oldest, upto, seen);
    Ok(!written.ok_or_else(too_old)?)
}

/// A range of names as the trail shows them.
struct Range {
    from: spaces::Key,
    prefix: spaces::Key,
    upto: Option<spaces::Key>,
    since: Revision,
}

impl Range {
    fn of(guard: &Guard, branch: u32) -> Result<Range> {
        let Guard::RangeUnchanged { contract, prefix, after, upto, since, .. } = guard else {
            return Err(Error::new(Code::InvalidArgument, "a guard that is on no range"));
        };
        let space = spaces::of(*contract)?;
        let key = |name: &str| spaces::key(space, branch, name.as_bytes());
        let (from, prefix) = (key(after.as_deref().unwrap_or("")), key(prefix));
        Ok(Range { from, prefix, upto: upto.as_deref().map(key), since: *since })
    }

    fn contains(&self, key: &[u8]) -> bool {
        key.starts_with(&self.prefix)
            && key > self.from.as_slice()
            && self.upto.as_ref().is_none_or(|upto| key <= upto.as_slice())
    }
}

#[cold]
fn too_old() -> Error {
    let message = "the transaction's snapshot is older than the writes the database remembers: \
                   begin again";
    Error::new(Code::SnapshotTooOld, message)
}
