//! What feeds and comparisons tell of keyed state, in words.
//!
//! ```text
//!   space                 how a space is declared
//!   space/key             a state, or that it was deleted
//!   space/key#id          an item of a log
//!   space@source          a position
//!   space/key?version     a write that waits: seen by comparisons alone
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

/// What is told of an entry.
pub(crate) struct FeedName {
    pub key: String,
    pub kind: ChangeKind,
    pub value: Option<Value>,
}

/// What is told of an entry that was written; nothing of one that nobody sees yet.
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

/// What is told of an entry that is gone without a trace: a state that was deleted below the frontier.
pub(crate) fn gone(name: &[u8]) -> Option<FeedName> {
    let (space, _, place) = state_keys::split(name)?;
    let (kind, key) = place.split_first()?;
    let mut shown = format!("{space}/");
    put(key, &mut shown);
    let told = FeedName { key: shown, kind: ChangeKind::Deleted, value: None };
    (*kind == EntryKind::State as u8).then_some(told)
}

/// What is told of a space's declaration; nothing of one that is only on its way.
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

/// What an entry holds, as a value; nothing for what is none.
pub(crate) fn held(name: &[u8], payload: &[u8]) -> Option<Value> {
    let (_, _, place) = state_keys::split(name)?;
    match place.first()? {
        0 => take_state(payload).map(|(version, state)| object(version, state)),
        1 => Some(payload.get(1..).filter(|_| payload[0] == 0).map_or(Value::Null, value_of)),
        4 => position_of(payload).ok().map(number),
        _ => Some(value_of(payload)),
    }
}

/// What a name is called among differences; nothing for what only helps to find others.
pub(crate) fn difference(triple: &ThreeWayEntry) -> Option<String> {
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

/// What waits has its version in its place, and only the kind of versions tells where that ends; what else there is says
/// its kind itself.
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
            // Writing to a string does not fail.
            let _ = write!(shown, "?{version}");
        }
        EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => return None,
    }
    Some(shown)
}

/// Text as it is; other bytes escaped.
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

/// A position; one beyond all integers as its text.
fn number(position: u64) -> Value {
    i64::try_from(position).map_or_else(|_| Value::from(position.to_string()), Value::Int)
}
