//! Names of keyed-state entries in feeds and diffs.
//!
//! ```text
//!   space                 the declaration of a space
//!   space/key             a state, or its deletion
//!   space/key#id          an item of a log
//!   space@source          a position
//!   space/key?version     a waiting write: only in diffs
//! ```

use super::space::Declaration;
use super::write::{damaged, position_of};
use crate::apply::three_way_diff::ThreeWayEntry;
use crate::key::keyspace::KEYED;
use crate::key::state_keys;
use mainstay_model::{
    ChangeKind, EntryKind, EntryRef, Result, Revision, Value, Version, VersionKind, take_state,
};
use std::fmt::Write;

/// The feed's description of an entry.
pub(crate) struct FeedName {
    pub key: String,
    pub kind: ChangeKind,
    pub value: Option<Value>,
}

/// Describes a written entry. Returns `None` for entries that are not visible.
pub(crate) fn entry(name: &[u8], payload: &[u8]) -> Result<Option<FeedName>> {
    let Some((space, _, place)) = state_keys::split(name) else { return Ok(None) };
    let (kind, value) = match place.first() {
        Some(0) => match take_state(payload).ok_or_else(damaged)? {
            (version, Some(state)) => (ChangeKind::Set, Some(object(version, Some(state)))),
            (version, None) => (ChangeKind::Deleted, Some(object(version, None))),
        },
        Some(2) => (ChangeKind::Appended, Some(value_of(payload))),
        Some(4) => (ChangeKind::Set, Some(number(position_of(payload)?))),
        _ => return Ok(None),
    };
    Ok(key(space, place, payload, None).map(|key| FeedName { key, kind, value }))
}

/// Describes an entry that was removed without a tombstone: a state that was deleted below the frontier.
pub(crate) fn gone(name: &[u8]) -> Option<FeedName> {
    let (space, _, place) = state_keys::split(name)?;
    let (kind, key) = place.split_first()?;
    let mut shown = format!("{space}/");
    put(key, &mut shown);
    let told = FeedName { key: shown, kind: ChangeKind::Deleted, value: None };
    (*kind == EntryKind::State as u8).then_some(told)
}

/// Describes a space's declaration. Returns `None` if the space does not exist yet.
pub(crate) fn space(
    payload: &[u8],
    revision: Revision,
) -> Result<Option<(ChangeKind, Option<Value>)>> {
    let declared = Declaration::decode(payload)?;
    if !declared.is_there {
        return Ok(None);
    }
    let restored = declared.restored && declared.shown == revision;
    let kind = if restored { ChangeKind::Restored } else { ChangeKind::Set };
    Ok(Some((kind, Some(declared.info.to_value()))))
}

/// Returns the payload of an entry as a value, or `None` if it is invalid.
pub fn held(name: &[u8], payload: &[u8]) -> Option<Value> {
    let (_, _, place) = state_keys::split(name)?;
    match place.first()? {
        0 => take_state(payload).map(|(version, state)| object(version, state)),
        1 => Some(payload.get(1..).filter(|_| payload[0] == 0).map_or(Value::Null, value_of)),
        4 => position_of(payload).ok().map(number),
        _ => Some(value_of(payload)),
    }
}

/// Returns the name of an entry in a diff. Returns `None` for entries that only help to find others.
pub fn difference(triple: &ThreeWayEntry) -> Option<String> {
    if triple.space != KEYED {
        return Some(String::from_utf8_lossy(&triple.name).into_owned());
    }
    let [base, a, b] = triple.kinds;
    let sides = [(&triple.a, a), (&triple.b, b), (&triple.base, base)];
    let found = sides.into_iter().find_map(|(side, kind)| Some((side.payload.as_deref()?, kind)));
    let (payload, kind) = found?;
    let (space, _, place) = state_keys::split(&triple.name)?;
    key(space, place, payload, kind)
}

/// A waiting write has its version in its place, and only the kind of versions tells how long that version
/// is. All other entries are self-describing.
fn key(space: &str, place: &[u8], payload: &[u8], kind: Option<VersionKind>) -> Option<String> {
    let kinds = [kind, Some(VersionKind::U64), Some(VersionKind::Time)];
    let read = |kind| EntryRef::from_parts(place, Some(payload), kind).ok();
    let mut shown = space.to_owned();
    match kinds.into_iter().find_map(read)? {
        EntryRef::State { key, .. } => {
            shown.push('/');
            put(key, &mut shown);
        }
        EntryRef::Item { key, id, .. } => {
            shown.push('/');
            put(key, &mut shown);
            shown.push('#');
            put(id, &mut shown);
        }
        EntryRef::Position { source, .. } => {
            shown.push('@');
            shown.push_str(source);
        }
        EntryRef::Waiting { key, version, .. } => {
            shown.push('/');
            put(key, &mut shown);
            // Writing to a string cannot fail.
            let _ = write!(shown, "?{version}");
        }
        EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => return None,
    }
    Some(shown)
}

/// Appends text unchanged and escapes other bytes.
fn put(bytes: &[u8], out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => {
            let _ = write!(out, "{}", bytes.escape_ascii());
        }
    }
}

fn object(version: Version, state: Option<&[u8]>) -> Value {
    let version = ("version".to_owned(), Value::from(version.to_string()));
    let state = state.map(|state| ("value".to_owned(), value_of(state)));
    Value::Object([version].into_iter().chain(state).collect())
}

fn value_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text.to_owned()),
        Err(_) => Value::Bytes(bytes.to_vec()),
    }
}

/// Returns a position as an integer, or as text if it exceeds an `i64`.
fn number(position: u64) -> Value {
    i64::try_from(position).map_or_else(|_| Value::from(position.to_string()), Value::Int)
}
