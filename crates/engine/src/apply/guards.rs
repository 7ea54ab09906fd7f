//! Guards: what must hold for a transaction's steps to run.

use crate::entry::Head;
use crate::overlay::Overlay;
use crate::spaces::{self, CELLS};
use crate::trail::Trail;
use crate::view::{Origin, View};
use mainstay_model::{Code, Error, Guard, Result, Revision, Stamp, codec};

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
            let (key, hash) = view.key(CELLS, name.as_bytes());
            let found = view.find(&nothing, &key, hash, |head, _| Ok(head))?;
            let live = found.map(|(head, _)| head).filter(|head| head.is_live(view.now));
            Ok(live.map(|head| head.counter) == *is)
        }
        Guard::Value { name, is } => {
            let (key, hash) = view.key(CELLS, name.as_bytes());
            let read = |head: Head, payload: &[u8]| match head.is_live(view.now) {
                true => codec::decode(payload).map(Some),
                false => Ok(None),
            };
            let found = view.find(&nothing, &key, hash, read)?;
            Ok(found.and_then(|(value, _)| value) == *is)
        }
        Guard::Unchanged { name, since, expires } => {
            let (key, hash) = view.key(CELLS, name.as_bytes());
            if view.index.check_reach(&key, *since).is_err() {
                // A deletion since then may be gone without a trace.
                return Err(too_old());
            }
            let found = view.find(&nothing, &key, hash, |head, _| Ok(head.revision))?;
            // Inherited versions are fixed by the fork: only the own layer can change.
            let newest = found.filter(|(_, origin)| *origin == Origin::Own);
            let unwritten = newest.is_none_or(|(revision, _)| revision <= *since);
            Ok(unwritten && still_lives(*expires, view.now))
        }
        Guard::RangeUnchanged { since, expires, .. } => {
            let range = Range::of(guard, view.branch());
            let since = (*since).max(checked);
            let written = trail.any(since, Revision::MAX, |key| range.contains(key));
            Ok(!written.ok_or_else(too_old)? && still_lives(*expires, view.now))
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that guard")),
    }
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
            ranges.push(Range::of(guard, branch));
        }
    }
    let Some(oldest) = ranges.iter().map(|range| range.since).min() else { return Ok(true) };
    let written = trail.any(oldest, upto, |key| ranges.iter().any(|range| range.contains(key)));
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
    fn of(guard: &Guard, branch: u32) -> Range {
        let key = |name: &str| spaces::key(CELLS, branch, name.as_bytes());
        match guard {
            Guard::RangeUnchanged { prefix, after, upto, since, .. } => Range {
                from: key(after.as_deref().unwrap_or("")),
                prefix: key(prefix),
                upto: upto.as_deref().map(key),
                since: *since,
            },
            _ => Range { from: key(""), prefix: key(""), upto: None, since: 0 },
        }
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
