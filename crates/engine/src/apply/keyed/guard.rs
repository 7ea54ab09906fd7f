//! Guards on keyed state: detect that a place read by a transaction has changed.

use super::space;
use crate::apply::guards::Ranges;
use crate::key::keyspace::{self, KEYED, SPACES};
use crate::key::state_keys;
use crate::mvcc::view::{Origin, View};
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::Index;
use mainstay_model::{
    Answer, EntryKind, Name, Result, Revision, SpaceInfo, StateAnswer, StateCommand, StatePlace,
    StateWrite, Version,
};

/// Returns whether a place is unwritten since a revision, or `None` if the history does not reach back.
/// Publishing another generation counts as a change to every place. A range is only added to `ranges`, for
/// one common check.
pub(crate) fn holds(
    view: &View<'_>,
    ranges: &mut Ranges,
    space: &Name,
    place: &StatePlace,
    since: Revision,
) -> Result<Option<bool>> {
    let nothing = WriteSet::default();
    let Some(declared) = space::find(view, &nothing, space)? else {
        return unwritten(view, SPACES, space.as_bytes(), since);
    };
    if *place == StatePlace::Space {
        return unwritten(view, SPACES, space.as_bytes(), since);
    }
    if declared.shown > since {
        return Ok(Some(false));
    }
    let life = state_keys::life(space.as_str(), declared.generation);
    let at = |place: &[u8]| [&life[..], place].concat();
    match place {
        StatePlace::Space => Ok(Some(false)),
        // The first write since then may have fixed the kind of versions.
        StatePlace::Open(version) => {
            let info = &declared.info;
            Ok(Some(info.check_version(*version).is_ok() && !info.is_sealed(*version)))
        }
        StatePlace::Key(key) => unwritten(view, KEYED, &at(&EntryKind::state(key)), since),
        StatePlace::Item { key, id } => {
            unwritten(view, KEYED, &at(&EntryKind::item(key, id)), since)
        }
        StatePlace::Position(source) => {
            unwritten(view, KEYED, &at(&EntryKind::position(source)), since)
        }
        StatePlace::Range { prefix, after, upto } => {
            let key = |place: &[u8]| keyspace::key(KEYED, view.branch(), &at(place));
            let prefix = key(prefix);
            let after = after.as_deref().map(key);
            let upto = upto.as_deref().map(key);
            ranges.add(&prefix, after.as_deref(), upto.as_deref(), since);
            Ok(Some(true))
        }
        _ => Ok(Some(false)),
    }
}

/// Returns whether a key is unwritten since a revision, or `None` if compaction may have removed a tombstone
/// since then.
fn unwritten(view: &View<'_>, space: u8, name: &[u8], since: Revision) -> Result<Option<bool>> {
    let (key, hash) = view.key(space, name);
    let index: &Index = view.index;
    if index.check_reach(&key, since).is_err() {
        return Ok(None);
    }
    let found = view.find(&WriteSet::default(), &key, hash, |head, _| Ok(head.revision))?;
    // Versions inherited from a parent are fixed at the fork. Only the branch's own layer can change.
    Ok(Some(match found {
        Some((revision, Origin::Own)) => revision <= since,
        _ => true,
    }))
}

/// Returns the places that a command reads or that its answer depends on. A concurrent change to one of them
/// is a conflict at commit. A page depends on the keys up to its end only.
pub(crate) fn told(
    command: &StateCommand,
    declared: Option<&SpaceInfo>,
    answer: Option<&Answer>,
) -> Vec<StatePlace> {
    let upto = answer.and_then(end_of).map(|key| EntryKind::state(key).to_vec());
    let range = |prefix: &[u8], after: Option<&[u8]>| StatePlace::Range {
        prefix: prefix.to_vec(),
        after: after.map(<[u8]>::to_vec),
        upto: upto.clone(),
    };
    match command {
        StateCommand::Write { writes, .. } => {
            writes.iter().filter_map(of_write).chain(of_writes(declared, writes)).collect()
        }
        StateCommand::Look { keys, .. } => {
            keys.iter().map(|key| StatePlace::Key(key.0.clone())).collect()
        }
        StateCommand::Scan { prefix, after, .. } | StateCommand::List { prefix, after, .. } => {
            let after = after.as_deref().map(EntryKind::state);
            vec![range(&EntryKind::state(prefix), after.as_deref())]
        }
        StateCommand::Items { key, after, .. } => {
            let after = after.as_deref().map(|id| EntryKind::item(key, id));
            vec![range(&EntryKind::item(key, b""), after.as_deref())]
        }
        StateCommand::Waiting { .. } => vec![range(&state_keys::kind(EntryKind::Waiting), None)],
        StateCommand::Positions { .. } => vec![range(&state_keys::kind(EntryKind::Position), None)],
        // These commands read or depend on the whole space.
        StateCommand::Dump { .. }
        | StateCommand::Seal { .. }
        | StateCommand::Take { .. }
        | StateCommand::Replay { .. } => {
            vec![range(b"", None), StatePlace::Space]
        }
        StateCommand::Declare { .. }
        | StateCommand::Info { .. }
        | StateCommand::Drop { .. }
        | StateCommand::Abandon { .. }
        | StateCommand::Restore { .. } => vec![StatePlace::Space],
        _ => Vec::new(),
    }
}

/// Returns the last key of a page that is followed by more.
fn end_of(answer: &Answer) -> Option<&[u8]> {
    let Answer::State(answer) = answer else { return None };
    match answer.as_ref() {
        StateAnswer::States(page) => page.next.as_deref(),
        StateAnswer::Keys { next, .. } => next.as_deref(),
        _ => None,
    }
}

/// Returns the places that must stay unchanged so that the puts have the outcomes already answered. The
/// lowest version must stay open. In an ordered space, the places of waiting writes must stay free. Stale
/// writes stay stale in any case.
fn of_writes(declared: Option<&SpaceInfo>, writes: &[StateWrite]) -> Vec<StatePlace> {
    // A version that is refused now needs no guard: its refusal stays true when the space changes.
    let is_open = |version: &Version| {
        declared
            .is_none_or(|info| info.check_version(*version).is_ok() && !info.is_sealed(*version))
    };
    let versions = writes.iter().filter_map(StateWrite::version);
    let lowest = versions.filter(is_open).min();
    let mut places: Vec<_> = lowest.map(StatePlace::Open).into_iter().collect();
    if declared.is_some_and(|info| info.options.ordered) {
        places.extend(writes.iter().filter_map(of_waiting));
    }
    places
}

fn of_waiting(write: &StateWrite) -> Option<StatePlace> {
    let (StateWrite::Put { key, version, .. } | StateWrite::Delete { key, version }) = write else {
        return None;
    };
    let place = EntryKind::waiting(*version, key).to_vec();
    let prefix = place.clone();
    let upto = Some(place);
    Some(StatePlace::Range { prefix, after: None, upto })
}

fn of_write(write: &StateWrite) -> Option<StatePlace> {
    Some(match write {
        StateWrite::Put { key, .. }
        | StateWrite::Delete { key, .. }
        | StateWrite::Merge { key, .. } => StatePlace::Key(key.clone()),
        StateWrite::Append { key, id, .. } => StatePlace::Item { key: key.clone(), id: id.clone() },
        StateWrite::Advance { source, .. } => StatePlace::Position(source.clone()),
        StateWrite::AllSettled { below } => StatePlace::Range {
            prefix: state_keys::kind(EntryKind::Waiting).to_vec(),
            after: None,
            upto: Some(EntryKind::waiting(*below, b"").to_vec()),
        },
        _ => return None,
    })
}
