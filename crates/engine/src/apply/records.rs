//! Records: fields with bytes under a key, a counter, an expiry.
//!
//! ```text
//!   key --see--> fields as they are --conditions hold?--> fields as they become --> one version
//!                                    \--no--> the answer says so, nothing is written
//! ```
//!
//! A record without fields is gone: taking the last one out is its deletion.

use super::keys::{
    self, Seen, check_limit, expiry, lapse, may_expire, remove, see, see_with, set_expiry,
};
use super::search::{Search, record};
use crate::entry::Head;
use crate::overlay::{Overlay, Payload};
use crate::spaces::RECORDS;
use crate::view::View;
use mainstay_model::{
    Answer, Code, Condition, Error, ExpireOnly, Field, FieldValue, Fields, Name, Record,
    RecordCommand, RecordPage, RecordPick, RecordWrite, Result, Revision, Scales, SmallVec, Stamp,
    Ttl, Where,
};

/// Runs a command on a record, in the transaction that gets this revision.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut Overlay,
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
        _ => Err(Error::new(Code::Unsupported, "this version does not know that record command")),
    }
}

/// Refuses a name that a record has.
pub(crate) fn refuse(view: &View<'_>, overlay: &Overlay, name: &Name) -> Result<()> {
    match is_there(view, overlay, name)? {
        false => Ok(()),
        true => Err(wrong_type(name)),
    }
}

#[cold]
pub(super) fn wrong_type(name: &Name) -> Error {
    Error::new(Code::WrongType, format!("`{name}` is a record: this is for cells"))
}

/// Whether there is a record of this name.
pub(super) fn is_there(view: &View<'_>, overlay: &Overlay, name: &Name) -> Result<bool> {
    // Most databases that cells are asked of have no records, and then nothing is looked up.
    if !view.index.has_records() && overlay.is_empty() {
        return Ok(false);
    }
    see(view, overlay, RECORDS, name).map(|seen| seen.live)
}

/// When the record of a name expires, if there is one.
pub(super) fn expires(view: &View<'_>, overlay: &Overlay, name: &Name) -> Result<Option<Stamp>> {
    match is_there(view, overlay, name)? {
        false => Ok(None),
        true => see(view, overlay, RECORDS, name).map(|seen| seen.expires),
    }
}

/// Removes the record of a name that becomes something else.
pub(super) fn make_way(view: &View<'_>, overlay: &mut Overlay, name: &Name) -> Result<()> {
    if !is_there(view, overlay, name)? {
        return Ok(());
    }
    let seen = see(view, overlay, RECORDS, name)?;
    remove(overlay, seen)
}

/// What is known of a record, and its fields if it lives.
pub(super) fn see_fields(
    view: &View<'_>,
    overlay: &Overlay,
    key: &Name,
) -> Result<(Seen, Option<Fields>)> {
    see_with(view, overlay, RECORDS, key, Fields::decode)
}

fn write(
    view: &View<'_>,
    overlay: &mut Overlay,
    write: &RecordWrite,
    revision: Revision,
) -> Result<Answer> {
    check_changes(&write.set, &write.clear, write.replace)?;
    let (seen, old) = see_fields(view, overlay, &write.key)?;
    let expires = expiry(view.now, write.ttl, seen.expires)?;
    if !hold(&write.when, &write.key, &seen, old.as_ref())? {
        return Ok(Answer::MaybeCounter(None));
    }
    let (was_there, old) = (old.is_some(), old.unwrap_or_default());
    let moment = Moment { now: view.now, revision };
    let fields = changed(&write.key, &old, write.replace, &write.set, &write.clear, moment)?;
    if !was_there && fields.is_empty() {
        // Nothing was taken out of nothing.
        return Ok(Answer::MaybeCounter(None));
    }
    put(overlay, seen, &fields, expires).map(|counter| Answer::MaybeCounter(Some(counter)))
}

/// What only the writer knows.
#[derive(Clone, Copy)]
struct Moment {
    now: Stamp,
    revision: Revision,
}

/// The fields as they become.
fn changed(
    key: &Name,
    old: &Fields,
    replace: bool,
    set: &[(Field, FieldValue)],
    clear: &[Field],
    moment: Moment,
) -> Result<Fields> {
    let mut fields = if replace { Fields::default() } else { old.clone() };
    clear.iter().for_each(|field| drop(fields.remove(field)));
    for (field, value) in set {
        fields.insert(field.clone(), value_of(value, field, key, old, moment)?);
    }
    Ok(fields)
}

/// Writes to the first record that passes.
fn pick(
    view: &View<'_>,
    overlay: &mut Overlay,
    pick: &RecordPick,
    revision: Revision,
) -> Result<Answer> {
    check_changes(&pick.set, &pick.clear, false)?;
    let search = Search { view, overlay, prefix: &pick.prefix, filters: &pick.filters };
    let Some(key) = search.first(pick.by.as_ref())? else { return Ok(Answer::Picked(None)) };
    let key = Name::new(&key)?;
    let (seen, old) = see_fields(view, overlay, &key)?;
    let expires = expiry(view.now, pick.ttl, seen.expires)?;
    let (old, moment) = (old.unwrap_or_default(), Moment { now: view.now, revision });
    let fields = changed(&key, &old, false, &pick.set, &pick.clear, moment)?;
    let counter = put(overlay, seen, &fields, expires)?;
    let record = Record { fields, counter, stamp: view.now, revision, expires };
    Ok(Answer::Picked(Some(Box::new((key.as_str().to_owned(), record)))))
}

/// Refuses what makes no sense whatever is stored.
fn check_changes(set: &[(Field, FieldValue)], clear: &[Field], replace: bool) -> Result<()> {
    let invalid = |message: &str| Err(Error::new(Code::InvalidField, message));
    if set.is_empty() && (replace || clear.is_empty()) {
        return invalid("a record has at least one field: give one, or delete the record");
    }
    if stands_twice(set, clear) {
        return invalid("a field stands twice in one write: say once what becomes of it");
    }
    Ok(())
}

/// Whether a field is set twice, or set and taken out. Sorted, since a record may have 65,536 of them.
fn stands_twice(set: &[(Field, FieldValue)], clear: &[Field]) -> bool {
    let mut set: SmallVec<[&Field; 16]> = set.iter().map(|(field, _)| field).collect();
    set.sort_unstable();
    let is_set = |field: &Field| set.binary_search(&field).is_ok();
    set.windows(2).any(|pair| pair[0] == pair[1]) || clear.iter().any(is_set)
}

/// Writes fields; gives the new counter. Without any the record goes.
pub(super) fn put(
    overlay: &mut Overlay,
    seen: Seen,
    fields: &Fields,
    expires: Option<Stamp>,
) -> Result<u64> {
    if fields.is_empty() {
        let counter = seen.write(0, None, Payload::Bytes(b"")).counter;
        remove(overlay, seen)?;
        return Ok(counter);
    }
    let start = overlay.stage(|out| fields.encode(out))?;
    let write = seen.write(0, expires, Payload::Staged(start));
    let counter = write.counter;
    overlay.write(seen.key, seen.hash, write)?;
    Ok(counter)
}

fn value_of(
    value: &FieldValue,
    field: &Field,
    key: &Name,
    old: &Fields,
    moment: Moment,
) -> Result<Vec<u8>> {
    Ok(match value {
        FieldValue::Bytes(bytes) => bytes.clone(),
        FieldValue::Revision => moment.revision.to_string().into_bytes(),
        FieldValue::Millis { plus } => {
            millis(moment.now).saturating_add(*plus).to_string().into_bytes()
        }
        FieldValue::Sum { by } => {
            sum(old.get(field.as_bytes()), *by, field, key)?.to_string().into_bytes()
        }
        _ => {
            let message = "this version does not know what that field is to become";
            return Err(Error::new(Code::Unsupported, message));
        }
    })
}

fn millis(now: Stamp) -> i64 {
    i64::try_from(now / 1000).unwrap_or(i64::MAX)
}

/// What a field says as a whole number, and more.
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

/// Whether all conditions hold; a fence that does not is an error.
fn hold(when: &[Condition], key: &Name, seen: &Seen, fields: Option<&Fields>) -> Result<bool> {
    // A fence is told first: whoever lost its lease need not hear that something else does not hold.
    for condition in when {
        if let Condition::Fence { field, is } = condition
            && fields.and_then(|fields| fields.get(field.as_bytes())) != Some(is)
        {
            return Err(fenced(key, field));
        }
    }
    let holds = |condition: &Condition| match condition {
        Condition::Counter { is } => Ok(fields.map(|_| seen.counter) == *is),
        Condition::Exists => Ok(fields.is_some()),
        Condition::Field { field, is } => {
            Ok(fields.and_then(|fields| fields.get(field.as_bytes())) == is.as_deref())
        }
        Condition::Fence { .. } => Ok(true),
        _ => Err(Error::new(Code::Unsupported, "this version does not know that condition")),
    };
    for condition in when {
        if !holds(condition)? {
            return Ok(false);
        }
    }
    Ok(true)
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
    overlay: &mut Overlay,
    key: &Name,
    when: &[Condition],
) -> Result<Answer> {
    let (seen, fields) = see_fields(view, overlay, key)?;
    let holds = hold(when, key, &seen, fields.as_ref())?;
    if seen.lapsed {
        lapse(overlay, seen)?;
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
    overlay: &mut Overlay,
    key: &Name,
    ttl: Ttl,
    only: ExpireOnly,
) -> Result<Answer> {
    let (seen, payload) = see_with(view, overlay, RECORDS, key, |payload| Ok(payload.to_vec()))?;
    let expires = expiry(view.now, ttl, seen.expires)?;
    let Some(payload) = payload.filter(|_| may_expire(only, seen.expires, expires)) else {
        return Ok(Answer::Did(false));
    };
    set_expiry(overlay, seen, &payload, expires)?;
    Ok(Answer::Did(true))
}

fn restore(
    view: &View<'_>,
    overlay: &mut Overlay,
    key: &Name,
    fields: Option<&Fields>,
    counter: u64,
    expires: Option<Stamp>,
) -> Result<Answer> {
    let seen = see(view, overlay, RECORDS, key)?;
    // A record without fields is gone.
    let fields = fields.filter(|fields| !fields.is_empty());
    let expires = match (fields, expires) {
        (Some(_), Some(stamp)) => expiry(view.now, Ttl::Until(stamp), None)?,
        _ => None,
    };
    let start = overlay.stage(|out| fields.map_or(Ok(()), |fields| fields.encode(out)))?;
    keys::restore(overlay, seen, start, fields.is_none(), counter, expires).map(Answer::Counter)
}

/// Reads a record, or some fields of it.
pub(crate) fn get(
    view: &View<'_>,
    overlay: &Overlay,
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

/// How many fields a record has; none where there is no record.
pub(crate) fn count_fields(view: &View<'_>, overlay: &Overlay, key: &Name) -> Result<usize> {
    let count = read(view, overlay, key, |_, payload| Fields::count(payload))?;
    Ok(count.unwrap_or_default())
}

/// What is taken from a record that lives.
fn read<T>(
    view: &View<'_>,
    overlay: &Overlay,
    key: &Name,
    take: impl Fn(Head, &[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let (key, hash) = view.key(RECORDS, key.as_bytes());
    let read = |head: Head, payload: &[u8]| {
        head.is_live(view.now).then(|| take(head, payload)).transpose()
    };
    Ok(view.find(overlay, &key, hash, read)?.and_then(|(taken, _)| taken))
}

/// Records in byte order of their keys, and when the first of them that others wrote expires.
pub(crate) fn scan(
    view: &View<'_>,
    overlay: &Overlay,
    prefix: &str,
    filters: &[Where],
    after: Option<&str>,
    limit: usize,
) -> Result<(RecordPage, Option<Stamp>)> {
    check_limit(limit)?;
    let (mut page, mut scales) = (RecordPage::default(), Scales::default());
    let search = Search { view, overlay, prefix, filters };
    let expires = search.each(after, |key, record| {
        if page.records.len() == limit {
            page.next = page.records.last().map(|(key, _)| key.clone());
            return Ok(false);
        }
        scales.add_record(&record)?;
        page.records.push((key, record));
        Ok(true)
    })?;
    Ok((page, expires))
}

/// How many records there are, and when the first of them that others wrote expires.
pub(crate) fn count(
    view: &View<'_>,
    overlay: &Overlay,
    prefix: &str,
    filters: &[Where],
) -> Result<(u64, Option<Stamp>)> {
    let mut count = 0;
    let search = Search { view, overlay, prefix, filters };
    let expires = search.each(None, |_, _| {
        count += 1;
        Ok(true)
    })?;
    Ok((count, expires))
}

/// How a scan goes about it, for people.
pub(crate) fn explain(
    view: &View<'_>,
    prefix: &str,
    filters: &[Where],
    names: impl Fn(u32) -> String,
) -> String {
    Search { view, overlay: &Overlay::default(), prefix, filters }.explain(names)
}
