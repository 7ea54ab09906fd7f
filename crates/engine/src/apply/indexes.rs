//! Secondary indexes over records: maintained by the transaction that writes the record, backfilled in
//! batches.
//!
//! ```text
//!   effects on records --follow--> delete the old entry and add the new one, in the same transaction
//!   existing records   --fill----> entries, in batches; the last batch marks the index as ready
//! ```
//!
//! Each layer of a branch has entries for its own records, so that each layer can be scanned alone.

use super::branches::BranchContext;
use crate::apply::expire::SWEEP_LIMIT;
use crate::base::work::Budget;
use crate::key::entry::{self, DELETED};
use crate::key::keyspace::{self, ENTRIES, Key, RECORDS};
use crate::key::order_preserving;
use crate::mvcc::catalog::Layers;
use crate::mvcc::view::{Origin, View};
use crate::mvcc::write_set::{Effect, Payload, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use crate::storage::index_def::IndexDef;
use mainstay_model::limits::{ENTRIES_LIMIT_BYTES, INDEX_LIMIT, INDEX_LIMIT_FIELDS};
use mainstay_model::{
    Answer, Code, Error, Field, IndexCommand, NAME_LIMIT_BYTES, Result, Revision, SmallVec,
};
use std::ops::Bound;

/// Largest key of an index entry.
const ENTRY_LIMIT_BYTES: usize = keyspace::PREFIX_BYTES
    + 4
    + INDEX_LIMIT_FIELDS * order_preserving::LIMIT_BYTES
    + NAME_LIMIT_BYTES;
// The index entries of one sweep must fit into one transaction, because no caller is there to retry with
// fewer keys.
const _: () = assert!(SWEEP_LIMIT * INDEX_LIMIT * ENTRY_LIMIT_BYTES <= ENTRIES_LIMIT_BYTES);

/// Runs a command on indexes.
pub(crate) fn run(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    command: &IndexCommand,
) -> Result<Answer> {
    match command {
        IndexCommand::Add { prefix, fields } => add(context, overlay, prefix, fields),
        IndexCommand::Drop { id } => drop_index(context, overlay, *id),
        IndexCommand::Fill { id, limit } => fill(context, overlay, *id, *limit),
        _ => Err(Error::new(Code::Unsupported, "this version does not know that index command")),
    }
}

fn add(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    prefix: &str,
    fields: &[Field],
) -> Result<Answer> {
    check(prefix, fields)?;
    let all = context.index.declared();
    if let Some(same) = all.iter().find(|one| one.prefix == prefix && one.fields == fields) {
        let message = format!("index {} is over the same prefix and fields already", same.id);
        return Err(Error::new(Code::IndexExists, message));
    }
    if all.len() >= INDEX_LIMIT {
        let message = format!("there are {INDEX_LIMIT} indexes, which is the most: drop one first");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let declared = IndexDef {
        id: context.catalog.next_index(),
        prefix: prefix.to_owned(),
        fields: fields.to_vec(),
        created: context.revision,
        // Without records, no backfill is needed.
        ready: (!context.index.has_records()).then_some(context.revision),
        filled_to: Vec::new(),
        filled: 0,
        dropped: None,
    };
    context.write(overlay, &declared.key(), &declared.encode())?;
    Ok(Answer::Count(u64::from(declared.id)))
}

fn check(prefix: &str, fields: &[Field]) -> Result<()> {
    let invalid = |message: String| Err(Error::new(Code::InvalidArgument, message));
    if fields.is_empty() || fields.len() > INDEX_LIMIT_FIELDS {
        return invalid(format!("an index is over 1 to {INDEX_LIMIT_FIELDS} fields"));
    }
    if fields.iter().enumerate().any(|(place, field)| fields[..place].contains(field)) {
        return invalid("a field stands twice in the index".to_owned());
    }
    if prefix.len() > NAME_LIMIT_BYTES {
        return invalid(format!("the prefix is longer than {NAME_LIMIT_BYTES} bytes"));
    }
    Ok(())
}

fn find(context: &BranchContext<'_>, id: u32) -> Result<IndexDef> {
    let all = context.index.declared();
    let found = all.iter().find(|one| one.id == id).cloned();
    found.ok_or_else(|| {
        Error::new(Code::IndexNotFound, format!("there is no index {id}: list them"))
    })
}

fn drop_index(context: &BranchContext<'_>, overlay: &mut WriteSet, id: u32) -> Result<Answer> {
    let Ok(declared) = find(context, id) else { return Ok(Answer::Did(false)) };
    let dropped = IndexDef { dropped: Some(context.revision), ..declared };
    context.write(overlay, &dropped.key(), &dropped.encode())?;
    Ok(Answer::Did(true))
}

/// Backfills up to `limit` records. When no records are left, the index is ready.
fn fill(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    id: u32,
    limit: usize,
) -> Result<Answer> {
    let mut declared = find(context, id)?;
    if declared.ready.is_some() {
        return Ok(Answer::Did(false));
    }
    let mut from = if declared.filled_to.is_empty() {
        Some(Bound::Included(keyspace::key(RECORDS, 0, declared.prefix.as_bytes())))
    } else {
        Some(Bound::Excluded(Key::from_slice(&declared.filled_to)))
    };
    let mut left = limit;
    while let Some(begin) = from {
        from = fill_from(context, overlay, &mut declared, begin, &mut left)?.map(Bound::Included);
    }
    let more = left == 0;
    if !more {
        declared.ready = Some(context.revision);
    }
    context.write(overlay, &declared.key(), &declared.encode())?;
    Ok(Answer::Did(more))
}

/// Backfills records from a key on, until one that the index does not cover. Returns the key to continue at.
fn fill_from(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    declared: &mut IndexDef,
    from: Bound<Key>,
    left: &mut usize,
) -> Result<Option<Key>> {
    let from = from.as_ref().map(|key| key.as_slice());
    for row in context.index.scan(from, Bound::Excluded(&[RECORDS + 1]), NEWEST).take(*left) {
        let row = row?;
        *left -= 1;
        declared.filled += 1;
        declared.filled_to = row.key().to_vec();
        let Some((_, branch, key)) = keyspace::split(row.key()) else { continue };
        if !declared.covers(key) {
            let branch = branch + u32::from(key > declared.prefix.as_bytes());
            return Ok(Some(keyspace::key(RECORDS, branch, declared.prefix.as_bytes())));
        }
        let (head, payload) = entry::parse(row.entry())?;
        if !head.is_deleted() {
            let name = declared.name_of(key, payload)?;
            put_entry(context.index, overlay, branch, name.as_deref(), 0, context.revision)?;
        }
    }
    Ok(None)
}

/// The index entry that a record had on a branch, and its new one.
struct Move {
    branch: u32,
    was: Option<Vec<u8>>,
    is: Option<Vec<u8>>,
}

/// Names of a record's index entries, one for each index that covers it.
type EntryNames = SmallVec<[Option<Vec<u8>>; 8]>;

/// Adds the index entries that a transaction's records need, and deletes those that became obsolete.
pub(crate) fn follow(
    index: &Index,
    layers_of: impl Fn(u32) -> Layers,
    overlay: &mut WriteSet,
    revision: Revision,
) -> Result<()> {
    let all = index.declared();
    if all.is_empty() {
        return Ok(());
    }
    // Handles one record at a time, because the entry names of all records together may need far more memory
    // than the records.
    for place in 0..overlay.effects().len() {
        let moves = moves(index, &all, &layers_of, overlay, &overlay.effects()[place])?;
        for Move { branch, was, is } in moves {
            put_entry(index, overlay, branch, was.as_deref(), DELETED, revision)?;
            put_entry(index, overlay, branch, is.as_deref(), 0, revision)?;
        }
    }
    Ok(())
}

/// Returns the index entries that a write changes.
fn moves(
    index: &Index,
    all: &[IndexDef],
    layers_of: impl Fn(u32) -> Layers,
    overlay: &WriteSet,
    effect: &Effect,
) -> Result<SmallVec<[Move; 4]>> {
    let mut moves = SmallVec::new();
    let Some((RECORDS, branch, key)) = keyspace::split(&effect.key) else { return Ok(moves) };
    let covering: SmallVec<[&IndexDef; 8]> = all.iter().filter(|one| one.covers(key)).collect();
    if covering.is_empty() {
        return Ok(moves);
    }
    let layers = layers_of(branch);
    let view = View { index, layers: &layers, now: 0, fresh: false, budget: Budget::Unlimited };
    let names = |deleted: bool, payload: &[u8]| {
        if deleted {
            Ok(covering.iter().map(|_| None).collect())
        } else {
            covering.iter().map(|one| one.name_of(key, payload)).collect::<Result<EntryNames>>()
        }
    };
    let (was, own) = match view
        .find_stored(&effect.key, effect.hash, |head, payload| names(head.is_deleted(), payload))?
    {
        Some((was, origin)) => (was, origin == Origin::Own),
        None => (names(true, b"")?, false),
    };
    let is = names(effect.flags & DELETED != 0, overlay.payload(effect))?;
    for (was, is) in was.into_iter().zip(is) {
        if was != is || !own {
            let was = was.filter(|was| Some(was) != is.as_ref());
            moves.push(Move { branch, was, is });
        }
    }
    Ok(moves)
}

fn put_entry(
    index: &Index,
    overlay: &mut WriteSet,
    branch: u32,
    name: Option<&[u8]>,
    flags: u8,
    revision: Revision,
) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    let key = keyspace::key(ENTRIES, branch, name);
    let hash = index.current.hash(&key);
    let payload = Payload::Bytes(b"");
    if flags & DELETED == 0 {
        index.graves.invalidate(&key, revision);
    }
    let write = Write { flags, counter: 1, writes: 1, expires: None, prior: None, payload };
    overlay.write_entry(key, hash, write)
}
