//! Records: fields with bytes under a key, a counter, an expiry.
//!
//! ```text
//!   key --load--> current fields --conditions hold?--> new fields --> one version
//!                                 \--no--> a negative answer, nothing is written
//! ```
//!
//! A record without fields does not exist: removing its last field deletes it.

use super::key_state::{
    self, KeyState, checked_expiry, expire_lazily, expiry, load, load_with, may_expire, remove,
    set_expiry,
};
use super::search::{Search, record, text};
use crate::key::entry::EntryHeader;
use crate::key::keyspace::RECORDS;
use crate::mvcc::catalog::Layers;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, WriteSet};
use mainstay_model::limits::check_conditions;
use mainstay_model::{
    Answer, Change, Changed, Code, Condition, Error, ExpireOnly, Field, FieldValue, Fields, Found,
    Name, Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordPick, RecordWrite, Result,
    Revision, Scales, SmallVec, Stamp, Ttl, Where, check_scan,
};
use std::borrow::Cow;

/// Runs a command on a record, in the transaction that commits at this revision.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    command: &RecordCommand,
    revision: Revision,
) -> Result<Answer> {
    match command {
        RecordCommand::Write(write) => self::write(view, overlay, write, revision),
        RecordCommand::Delete { key, when } => delete(view, overlay, key, when),
        RecordCommand::Expire { key, ttl, only } => expire(view, overlay, key, *ttl, *only),
        RecordCommand::Restore { key, fields, counter, expires } => {
            restore(view, overlay, key, fields.as_ref(), *counter, *expires)
        }
        RecordCommand::Get { key, fields } => {
            get(view, overlay, key, fields.as_deref()).map(Answer::Record)
        }
        RecordCommand::Scan { prefix, filters, after, limit } => {
            scan(view, overlay, prefix, filters, after.as_deref(), *limit)
                .map(|(page, _)| Answer::Records(page))
        }
        RecordCommand::Pick(pick) => self::pick(view, overlay, pick, revision),
        RecordCommand::Count { prefix, filters } => {
            count(view, overlay, prefix, filters).map(|(count, _)| Answer::Count(count))
        }
        RecordCommand::History { key, limit, before } => {
            history(view, overlay, key, *limit, *before).map(Answer::RecordHistory)
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that record command")),
    }
}

/// Returns the versions of a record, newest first.
pub(crate) fn history(
    view: &View<'_>,
    overlay: &WriteSet,
    key: &Name,
    limit: usize,
    before: Option<u64>,
) -> Result<Vec<RecordHistoryEntry>> {
    let mut scales = Scales::default();
    key_state::history(view, overlay, (RECORDS, key), limit, before, |head, payload| {
        let fields = if head.is_deleted() { None } else { Some(Fields::decode(payload)?) };
        scales.add_fields(fields.as_ref())?;
        let EntryHeader { counter, writes, stamp, revision, expires, .. } = head;
        Ok(RecordHistoryEntry { counter, writes, fields, stamp, revision, expires })
    })
}

/// Fails with `WrongType` if a record has this name.
pub(crate) fn refuse(view: &View<'_>, overlay: &WriteSet, name: &Name) -> Result<()> {
    if is_there(view, overlay, name)? { Err(wrong_type(name)) } else { Ok(()) }
}

#[cold]
pub(super) fn wrong_type(name: &Name) -> Error {
    Error::new(Code::WrongType, format!("`{name}` is a record: this is for cells"))
}

/// Returns whether a record has this name.
pub(super) fn is_there(view: &View<'_>, overlay: &WriteSet, name: &Name) -> Result<bool> {
    // Most databases with cells have no records. Then the lookup is skipped.
    if !view.index.has_records() && overlay.is_empty() {
        return Ok(false);
    }
    load(view, overlay, RECORDS, name).map(|seen| seen.live)
}

/// Returns the expiry of the record with this name, if the record exists.
pub(super) fn expires(view: &View<'_>, overlay: &WriteSet, name: &Name) -> Result<Option<Stamp>> {
    if is_there(view, overlay, name)? {
        load(view, overlay, RECORDS, name).map(|seen| seen.expires)
    } else {
        Ok(None)
    }
}

/// Removes the record of a name that becomes a cell.
pub(super) fn make_way(view: &View<'_>, overlay: &mut WriteSet, name: &Name) -> Result<()> {
    if !is_there(view, overlay, name)? {
        return Ok(());
    }
    let seen = load(view, overlay, RECORDS, name)?;
    remove(overlay, seen)
}

/// Loads the state of a record, and its encoded fields if it is live.
pub(super) fn see_fields(
    view: &View<'_>,
    overlay: &WriteSet,
    key: &Name,
) -> Result<(KeyState, Option<Vec<u8>>)> {
    load_with(view, overlay, RECORDS, key.as_bytes(), |payload| Ok(payload.to_vec()))
}

fn write(
    view: &View<'_>,
    overlay: &mut WriteSet,
    write: &RecordWrite,
    revision: Revision,
) -> Result<Answer> {
    write.check()?;
    let (seen, old) = see_fields(view, overlay, &write.key)?;
    let old = old.as_deref();
    let expires = expiry(view, write.ttl, seen.expires)?;
    if !hold(&write.when, &write.key, &seen, old)? {
        return Ok(Answer::MaybeCounter(None));
    }
    let moment = WriterContext { now: view.now, revision };
    let values = values(&write.key, old, &write.set, moment)?;
    if old.is_none() && values.iter().all(Option::is_none) {
        // Removing fields from a missing record writes nothing.
        return Ok(Answer::MaybeCounter(None));
    }
    let changes = changes(&write.set, &values, &write.clear);
    let old = old.filter(|_| !write.replace);
    let (counter, _) = put(overlay, seen, old, &changes, expires)?;
    Ok(Answer::MaybeCounter(Some(counter)))
}

/// Values that only the writer knows.
#[derive(Clone, Copy)]
struct WriterContext {
    now: Stamp,
    revision: Revision,
}

/// The new value of a field. `None` removes the field.
type Becomes<'v> = Option<Cow<'v, [u8]>>;

/// Returns the new values of fields, in the order of `set`.
fn values<'v>(
    key: &Name,
    old: Option<&[u8]>,
    set: &'v [(Field, FieldValue)],
    moment: WriterContext,
) -> Result<SmallVec<[Becomes<'v>; 16]>> {
    let held = find_all(old, set.iter().filter_map(looked_at))?;
    let mut held = held.into_iter();
    let become_value = |pair: &'v (Field, FieldValue)| {
        let held = if looked_at(pair).is_some() { held.next().flatten() } else { None };
        value_of(&pair.1, &pair.0, key, held, moment)
    };
    set.iter().map(become_value).collect()
}

/// Returns the field that a value is computed from.
fn looked_at((field, value): &(Field, FieldValue)) -> Option<&Field> {
    match value {
        FieldValue::Sum { .. } => Some(field),
        FieldValue::Copy { of } => Some(of),
        _ => None,
    }
}

/// Changes of a record's fields, sorted by name.
pub(super) type FieldChanges<'c> = SmallVec<[Change<'c>; 16]>;

fn changes<'c>(
    set: &'c [(Field, FieldValue)],
    values: &'c [Becomes<'_>],
    clear: &'c [Field],
) -> FieldChanges<'c> {
    let set =
        set.iter().zip(values).map(|((field, _), value)| (field.as_bytes(), value.as_deref()));
    let mut changes: FieldChanges<'c> = set.collect();
    changes.extend(clear.iter().map(|field| (field.as_bytes(), None)));
    in_order(&mut changes);
    changes
}

/// Sorts changes by name. Of several changes of one name, the last one wins.
pub(super) fn in_order(changes: &mut FieldChanges<'_>) {
    if changes.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    changes.reverse();
    changes.sort_by_key(|change| change.0);
    changes.dedup_by(|later, first| later.0 == first.0);
}

/// Returns the key of the first record that passes.
fn first(view: &View<'_>, overlay: &WriteSet, pick: &RecordPick) -> Result<Option<Name>> {
    pick.check()?;
    let own = Layers::from_slice(&view.layers[..1]);
    let layers = if pick.own { &own } else { view.layers };
    let view = &View { layers, ..*view };
    let search = Search { view, overlay, prefix: &pick.prefix, filters: &pick.filters };
    search.first(pick.by.as_ref())?.map(|key| Name::new(&key)).transpose()
}

/// Returns the key of the first record that passes, and the record's expiry if another transaction wrote it.
pub(crate) fn next(
    view: &View<'_>,
    overlay: &WriteSet,
    pick: &RecordPick,
) -> Result<Option<(Name, Option<Stamp>)>> {
    let Some(key) = first(view, overlay, pick)? else { return Ok(None) };
    let (full, hash) = view.key(RECORDS, key.as_bytes());
    let own = overlay.find(hash, &full).is_some();
    let ends = view.find(overlay, &full, hash, |head, _| Ok(head.expires))?;
    Ok(Some((key, ends.and_then(|(ends, _)| ends).filter(|_| !own))))
}

/// Writes to the first record that passes.
fn pick(
    view: &View<'_>,
    overlay: &mut WriteSet,
    pick: &RecordPick,
    revision: Revision,
) -> Result<Answer> {
    // An invalid time to live is refused, whether or not a record is found.
    expiry(view, pick.ttl, None)?;
    let Some(key) = first(view, overlay, pick)? else { return Ok(Answer::Picked(None)) };
    let (seen, old) = see_fields(view, overlay, &key)?;
    let expires = expiry(view, pick.ttl, seen.expires)?;
    let moment = WriterContext { now: view.now, revision };
    let values = values(&key, old.as_deref(), &pick.set, moment)?;
    let changes = changes(&pick.set, &values, &pick.clear);
    let (counter, _) = put(overlay, seen, old.as_deref(), &changes, expires)?;
    let fields = match see_fields(view, overlay, &key)? {
        (_, Some(fields)) => Fields::decode(&fields)?,
        (_, None) => Fields::default(),
    };
    let record = Record { fields, counter, stamp: view.now, revision, expires };
    Ok(Answer::Picked(Some(Box::new((key.as_str().to_owned(), record)))))
}

/// Applies changes to a record and writes it. Returns the new counter and a summary of the changes.
pub(super) fn put(
    overlay: &mut WriteSet,
    seen: KeyState,
    old: Option<&[u8]>,
    changes: &[Change<'_>],
    expires: Option<Stamp>,
) -> Result<(u64, Changed)> {
    let (start, changed) = overlay.stage(|out| Fields::change(old, changes, out))?;
    Ok((put_staged(overlay, seen, start, changed, expires)?, changed))
}

/// Writes a record that is staged from `start` on, and returns the new counter. A record without fields is
/// deleted.
pub(super) fn put_staged(
    overlay: &mut WriteSet,
    seen: KeyState,
    start: usize,
    changed: Changed,
    expires: Option<Stamp>,
) -> Result<u64> {
    let write = seen.write(0, expires, Payload::Staged(start));
    let counter = write.counter;
    match changed.count {
        0 => {
            overlay.take_back(start);
            remove(overlay, seen)?;
        }
        _ => overlay.write(seen.key, seen.hash, write)?,
    }
    Ok(counter)
}

/// Returns the new value of a field that holds `held`.
fn value_of<'v>(
    value: &'v FieldValue,
    field: &Field,
    key: &Name,
    held: Option<&[u8]>,
    moment: WriterContext,
) -> Result<Becomes<'v>> {
    let text = match value {
        FieldValue::Bytes(bytes) => return Ok(Some(Cow::Borrowed(bytes))),
        FieldValue::Copy { .. } => return Ok(held.map(|held| Cow::Owned(held.to_vec()))),
        FieldValue::Revision => moment.revision.to_string(),
        FieldValue::Millis { plus } => millis(moment.now).saturating_add(*plus).to_string(),
        FieldValue::Sum { by } => sum(held, *by, field, key)?.to_string(),
        _ => {
            let message = "this version does not know what that field is to become";
            return Err(Error::new(Code::Unsupported, message));
        }
    };
    Ok(Some(Cow::Owned(text.into_bytes())))
}

/// Returns the value of a record's field, if the record exists.
pub(super) fn find<'o>(old: Option<&'o [u8]>, field: &Field) -> Result<Option<&'o [u8]>> {
    old.map_or(Ok(None), |old| Fields::find(old, field))
}

/// Returns the values of a record's fields, in the order of `fields`.
pub(super) fn find_all<'o, 'f>(
    old: Option<&'o [u8]>,
    fields: impl Iterator<Item = &'f Field>,
) -> Result<Found<'o>> {
    let names: SmallVec<[&[u8]; 8]> = fields.map(Field::as_bytes).collect();
    match old {
        Some(old) if !names.is_empty() => Fields::find_all(old, &names),
        _ => Ok(names.iter().map(|_| None).collect()),
    }
}

fn millis(now: Stamp) -> i64 {
    i64::try_from(now / 1000).unwrap_or(i64::MAX)
}

/// Adds to a field that holds an integer as text. A missing field counts as 0.
pub(super) fn sum(old: Option<&[u8]>, by: i64, field: &Field, key: &Name) -> Result<i64> {
    let old = match old {
        None => 0,
        Some(text) => super::strings::whole(text).ok_or_else(|| {
            let message = format!(
                "field `{field}` of `{key}` is not a whole number of 64 bits, plainly written"
            );
            Error::new(Code::NotANumber, message)
        })?,
    };
    old.checked_add(by).ok_or_else(|| {
        let message =
            format!("adding to field `{field}` of `{key}` leaves the range of its number");
        Error::new(Code::Overflow, message)
    })
}

/// Returns whether all conditions hold. A failed fence is an error.
fn hold(when: &[Condition], key: &Name, seen: &KeyState, fields: Option<&[u8]>) -> Result<bool> {
    let mut held = find_all(fields, when.iter().filter_map(Condition::field))?;
    let mut held = held.drain(..);
    let mut all = true;
    // All conditions are checked, because a failed fence takes precedence: a worker that lost its lease gets
    // `Fenced`, even if another condition fails too.
    for condition in when {
        let held = condition.field().and_then(|_| held.next()).flatten();
        all &= match condition {
            Condition::Counter { is } => fields.map(|_| seen.counter) == *is,
            Condition::Exists => fields.is_some(),
            Condition::Field { is, .. } => held == is.as_deref(),
            Condition::Fence { is, .. } if held == Some(is) => true,
            Condition::Fence { field, .. } => return Err(fenced(key, field)),
            _ => {
                let message = "this version does not know that condition";
                return Err(Error::new(Code::Unsupported, message));
            }
        };
    }
    Ok(all)
}

#[cold]
fn fenced(key: &Name, field: &Field) -> Error {
    let message = format!(
        "`{key}` is no longer held with this `{field}`: what was held has passed to another or is gone"
    );
    Error::new(Code::Fenced, message)
}

fn delete(
    view: &View<'_>,
    overlay: &mut WriteSet,
    key: &Name,
    when: &[Condition],
) -> Result<Answer> {
    check_conditions(when.len())?;
    let (seen, fields) = see_fields(view, overlay, key)?;
    let holds = hold(when, key, &seen, fields.as_deref())?;
    if seen.lapsed {
        expire_lazily(overlay, seen)?;
        return Ok(Answer::Did(false));
    }
    if !seen.live || !holds {
        return Ok(Answer::Did(false));
    }
    remove(overlay, seen)?;
    Ok(Answer::Did(true))
}

fn expire(
    view: &View<'_>,
    overlay: &mut WriteSet,
    key: &Name,
    ttl: Ttl,
    only: ExpireOnly,
) -> Result<Answer> {
    let (seen, payload) =
        load_with(view, overlay, RECORDS, key.as_bytes(), |payload| Ok(payload.to_vec()))?;
    let expires = expiry(view, ttl, seen.expires)?;
    let Some(payload) = payload.filter(|_| may_expire(only, seen.expires, expires)) else {
        return Ok(Answer::Did(false));
    };
    set_expiry(overlay, seen, &payload, expires)?;
    Ok(Answer::Did(true))
}

fn restore(
    view: &View<'_>,
    overlay: &mut WriteSet,
    key: &Name,
    fields: Option<&Fields>,
    counter: u64,
    expires: Option<Stamp>,
) -> Result<Answer> {
    let seen = load(view, overlay, RECORDS, key)?;
    // A record without fields does not exist, so it is restored as a deletion.
    let fields = fields.filter(|fields| !fields.is_empty());
    let expires = match (fields, expires) {
        (Some(_), Some(stamp)) => Some(checked_expiry(stamp)?),
        _ => None,
    };
    let (start, ()) = overlay.stage(|out| fields.map_or(Ok(()), |fields| fields.encode(out)))?;
    key_state::restore(overlay, seen, start, fields.is_none(), counter, expires)
        .map(Answer::Counter)
}

/// Reads a record, or some fields of it.
pub(crate) fn get(
    view: &View<'_>,
    overlay: &WriteSet,
    key: &Name,
    wanted: Option<&[Field]>,
) -> Result<Option<Record>> {
    read(view, overlay, key, |head, payload| {
        let fields = match wanted {
            Some(wanted) => Fields::decode_some(payload, wanted)?,
            None => Fields::decode(payload)?,
        };
        Ok(record(head, fields))
    })
}

/// Returns the number of a record's fields, or 0 if the record does not exist.
pub(crate) fn count_fields(view: &View<'_>, overlay: &WriteSet, key: &Name) -> Result<usize> {
    let count = read(view, overlay, key, |_, payload| Fields::count(payload))?;
    Ok(count.unwrap_or_default())
}

/// Reads from a live record.
fn read<T>(
    view: &View<'_>,
    overlay: &WriteSet,
    key: &Name,
    take: impl Fn(EntryHeader, &[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let (key, hash) = view.key(RECORDS, key.as_bytes());
    let read = |head: EntryHeader, payload: &[u8]| {
        head.is_live(view.now).then(|| take(head, payload)).transpose()
    };
    Ok(view.find(overlay, &key, hash, read)?.and_then(|(taken, _)| taken))
}

/// Returns records in byte order of their keys, and the earliest expiry among those that other transactions
/// wrote.
pub(crate) fn scan(
    view: &View<'_>,
    overlay: &WriteSet,
    prefix: &str,
    filters: &[Where],
    after: Option<&str>,
    limit: usize,
) -> Result<(RecordPage, Option<Stamp>)> {
    check_scan(prefix, filters, after, limit)?;
    let mut page = RecordPage::default();
    let mut scales = Scales::default();
    let search = Search { view, overlay, prefix, filters };
    let expires = search.each(after, limit.saturating_add(1), |key, head, payload| {
        if page.records.len() == limit {
            page.next = page.records.last().map(|(key, _)| key.clone());
            return Ok(false);
        }
        let record = record(head, Fields::decode(payload)?);
        scales.add_record(&record)?;
        page.records.push((text(key), record));
        Ok(true)
    })?;
    Ok((page, expires))
}

/// Returns the number of records that pass, and the earliest expiry among those that other transactions
/// wrote.
pub(crate) fn count(
    view: &View<'_>,
    overlay: &WriteSet,
    prefix: &str,
    filters: &[Where],
) -> Result<(u64, Option<Stamp>)> {
    Search { view, overlay, prefix, filters }.count()
}

/// Describes for people how a scan is executed.
pub(crate) fn explain(
    view: &View<'_>,
    prefix: &str,
    filters: &[Where],
    names: impl Fn(u32) -> String,
) -> String {
    Search { view, overlay: &WriteSet::default(), prefix, filters }.explain(names)
}
