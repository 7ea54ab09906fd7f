//! Encodes and decodes the records of an export.

use super::keyed;
use crate::apply::outbox::transfer::Content;
use crate::apply::runs;
use crate::key::entry::{self, EntryHeader};
use crate::storage::index_def::IndexDef;
use mainstay_model::{
    CanonicalEvent, CellCommand, Command, Field, Fields, IndexCommand, Name, RecordCommand, Result,
    Revision, RunCommand, Value, codec,
};
use std::collections::BTreeMap;

pub(super) const MAGIC: &[u8; 8] = b"MSTEXPT1";
pub(super) const FORMAT: i64 = 1;
pub(super) const HEAD: u8 = 1;
pub(super) const VERSION: u8 = 2;
pub(super) const TAG: u8 = 3;
pub(super) const RECORD_VERSION: u8 = 4;
pub(super) const INDEX: u8 = 5;
pub(super) const EVENT: u8 = 6;
pub(super) const ENTRY: u8 = 7;
pub(super) const SPACE: u8 = 8;
pub(super) const END: u8 = 9;
pub(super) const MESSAGE: u8 = 10;
pub(super) const REQUEST: u8 = 11;
pub(super) const TOMBSTONE: u8 = 12;

/// Returns whether a record of this kind belongs to the transaction of its revision.
pub(super) fn is_version(kind: u8) -> bool {
    matches!(kind, VERSION | RECORD_VERSION | EVENT | ENTRY | SPACE | MESSAGE | REQUEST | TOMBSTONE)
}

pub(super) fn index(declared: &IndexDef) -> Result<Vec<u8>> {
    let fields = Value::Array(
        declared.fields.iter().map(|field| Value::Bytes(field.as_bytes().to_vec())).collect(),
    );
    let index = Value::Object(BTreeMap::from([
        ("fields".to_owned(), fields),
        ("prefix".to_owned(), Value::from(declared.prefix.as_str())),
    ]));
    let mut bytes = Vec::new();
    codec::encode(&index, &mut bytes)?;
    Ok(bytes)
}

/// Returns the command that declares an index as it was.
pub(super) fn index_of(body: &[u8]) -> Option<IndexCommand> {
    let Ok(Value::Object(index)) = codec::decode(body) else { return None };
    let Value::Array(fields) = index.get("fields")? else { return None };
    let fields = fields
        .iter()
        .map(|field| Field::new(field.as_bytes()?).ok())
        .collect::<Option<Vec<_>>>()?;
    Some(IndexCommand::Add { prefix: index.get("prefix")?.as_str()?.to_owned(), fields })
}

pub(super) fn head(branch: &str, revision: Revision) -> Result<Vec<u8>> {
    let head = Value::Object(BTreeMap::from([
        ("branch".to_owned(), Value::from(branch)),
        ("format".to_owned(), Value::Int(FORMAT)),
        ("revision".to_owned(), Value::Int(revision as i64)),
    ]));
    let mut bytes = Vec::new();
    codec::encode(&head, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn source_of(body: &[u8]) -> Option<String> {
    let Ok(Value::Object(head)) = codec::decode(body) else { return None };
    head.get("branch")?.as_str().map(str::to_owned)
}

pub(super) fn version_of(kind: u8, body: &[u8]) -> Option<(Revision, Command)> {
    let (revision, rest) = body.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (name, entry) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    if matches!(kind, ENTRY | SPACE) {
        let command =
            if kind == SPACE { keyed::space_of(name, entry) } else { keyed::entry_of(name, entry) };
        return Some((u64::from_le_bytes(*revision), command?.into()));
    }
    if matches!(kind, MESSAGE | REQUEST) {
        return Some((u64::from_le_bytes(*revision), Content::command(name, entry)?));
    }
    if kind == TOMBSTONE {
        let run = Name::new(std::str::from_utf8(name).ok()?).ok()?;
        return Some((u64::from_le_bytes(*revision), RunCommand::Tombstone { run }.into()));
    }
    let (head, payload) = entry::parse(entry).ok()?;
    if kind == EVENT {
        return Some((u64::from_le_bytes(*revision), event_of(name, &head, payload)?.into()));
    }
    let name = Name::new(std::str::from_utf8(name).ok()?).ok()?;
    let EntryHeader { counter, expires, .. } = head;
    let lives = !head.is_deleted();
    let command = if kind == RECORD_VERSION {
        let fields = if lives { Some(Fields::decode(payload).ok()?) } else { None };
        RecordCommand::Restore { key: name, fields, counter, expires }.into()
    } else {
        let value = if lives { Some(codec::decode(payload).ok()?) } else { None };
        CellCommand::Restore { name, value, counter, expires }.into()
    };
    Some((u64::from_le_bytes(*revision), command))
}

/// Returns the command that restores an event, or a run with its creation data.
fn event_of(name: &[u8], head: &EntryHeader, payload: &[u8]) -> Option<RunCommand> {
    let end = name.iter().position(|byte| *byte == 0)?;
    let run = std::str::from_utf8(&name[..end]).ok()?;
    let seq = u64::from_be_bytes(name[end + 1..].try_into().ok()?);
    let restored = Name::new(run).ok()?;
    if seq == 0 {
        let (created, metadata) = runs::made_of(payload)?;
        let created = Some(created);
        let events = Vec::new();
        return Some(RunCommand::Restore { run: restored, metadata, created, events });
    }
    let events = vec![CanonicalEvent::decode(payload, run, seq, head.stamp).ok()?];
    Some(RunCommand::Restore { run: restored, metadata: None, created: None, events })
}

pub(super) fn tag_of(body: &[u8]) -> Option<Name> {
    let (_, name) = body.split_first_chunk::<8>()?;
    Name::new(std::str::from_utf8(name).ok()?).ok()
}
