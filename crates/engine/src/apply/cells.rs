//! Cells: named values with compare-and-swap.
//!
//! ```text
//!   absent --write--> live (counter + 1) --delete--> deleted (counter + 1) --write--> live ...
//!                       |  its expiry time passes
//!                       v
//!                     lapsed: absent for all readers; the next write or sweep counts the expiry first
//! ```

use super::key_state::{
    self, KeyState, checked_expiry, expire_lazily, expiry, load, load_with, remove, set_expiry,
};
use super::strings::whole;
use crate::base::fault_points::{self, InjectedFault};
use crate::key::entry::EntryHeader;
use crate::key::keyspace::CELLS;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, WriteSet};
use mainstay_model::{
    Answer, CellCommand, Code, Error, HistoryEntry, Name, Number, Page, Result, Scales, Stamp, Ttl,
    Value, Versioned, codec,
};

/// Runs a command on a cell.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    command: &CellCommand,
) -> Result<Answer> {
    match command {
        CellCommand::Init { name, value } => init(view, overlay, name, value),
        CellCommand::Set { name, value, ttl } => {
            let seen = load(view, overlay, CELLS, name)?;
            let expires = expiry(view, *ttl, seen.expires)?;
            put(overlay, seen, value, expires).map(Answer::Counter)
        }
        CellCommand::Cas { name, expected, value } => cas(view, overlay, name, *expected, value),
        CellCommand::Delete { name, counter } => delete(view, overlay, name, *counter),
        CellCommand::Incr { name, by } => incr(view, overlay, name, *by),
        CellCommand::Expire { name, ttl } => expire(view, overlay, name, *ttl),
        CellCommand::Restore { name, value, counter, expires } => {
            restore(view, overlay, name, value.as_ref(), *counter, *expires)
        }
        CellCommand::Get { name } => get(view, overlay, name).map(Answer::Cell),
        CellCommand::List { prefix, after, limit } => {
            list(view, overlay, prefix, after.as_deref(), *limit).map(Answer::Names)
        }
        CellCommand::History { name, limit, before } => {
            history(view, overlay, name, *limit, *before).map(Answer::History)
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that cell command")),
    }
}

/// Writes a value and returns the new counter.
pub(super) fn put(
    overlay: &mut WriteSet,
    seen: KeyState,
    value: &Value,
    expires: Option<Stamp>,
) -> Result<u64> {
    let (start, ()) = overlay.stage(|out| codec::encode(value, out))?;
    let write = seen.write(0, expires, Payload::Staged(start));
    let counter = write.counter;
    overlay.write(seen.key, seen.hash, write)?;
    Ok(counter)
}

fn init(view: &View<'_>, overlay: &mut WriteSet, name: &Name, value: &Value) -> Result<Answer> {
    let seen = load(view, overlay, CELLS, name)?;
    if seen.live {
        // Checks the value in any case: bad input is an error whether or not the cell exists.
        value.check()?;
        return Ok(Answer::Counter(seen.counter));
    }
    put(overlay, seen, value, None).map(Answer::Counter)
}

fn cas(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    expected: Option<u64>,
    value: &Value,
) -> Result<Answer> {
    let seen = load(view, overlay, CELLS, name)?;
    let holds = match expected {
        _ if fault_points::is(InjectedFault::CasAlwaysWins) => true,
        Some(counter) => seen.live && seen.counter == counter,
        None => !seen.live,
    };
    if !holds {
        value.check()?;
        return Ok(Answer::MaybeCounter(None));
    }
    let expires = seen.expires;
    let counter = put(overlay, seen, value, expires)?;
    Ok(Answer::MaybeCounter(Some(counter)))
}

fn delete(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    counter: Option<u64>,
) -> Result<Answer> {
    let seen = load(view, overlay, CELLS, name)?;
    if seen.lapsed {
        expire_lazily(overlay, seen)?;
        return Ok(Answer::Did(false));
    }
    if !seen.live || counter.is_some_and(|counter| counter != seen.counter) {
        return Ok(Answer::Did(false));
    }
    remove(overlay, seen)?;
    Ok(Answer::Did(true))
}

fn incr(view: &View<'_>, overlay: &mut WriteSet, name: &Name, by: Number) -> Result<Answer> {
    let (seen, value) = load_with(view, overlay, CELLS, name.as_bytes(), codec::decode)?;
    let value = sum(number_of(value.unwrap_or(Value::Int(0))), by, name)?;
    let expires = seen.expires;
    let counter = put(overlay, seen, &value, expires)?;
    Ok(Answer::Number { value, counter })
}

/// Converts a text that is a plain integer to that integer, as `INCR` does.
fn number_of(value: Value) -> Value {
    match &value {
        Value::String(_) | Value::Bytes(_) => whole(&value.as_text()).map_or(value, Value::Int),
        _ => value,
    }
}

/// Adds two numbers. Integers stay integers. If either side is a float, the sum is a float.
fn sum(value: Value, by: Number, name: &Name) -> Result<Value> {
    let overflow = || {
        let message = format!("adding to `{name}` leaves the range of its number");
        Error::new(Code::Overflow, message)
    };
    // An integer is added to a float only if it converts exactly. Otherwise a different number would be
    // added.
    let exact = |n: i64| {
        let float = n as f64;
        if float as i128 == i128::from(n) { Ok(float) } else { Err(rounded(n, name)) }
    };
    let float = |a: f64, b: f64| match a + b {
        sum if !sum.is_finite() && a.is_finite() && b.is_finite() => Err(overflow()),
        sum => Ok(Value::Float(sum)),
    };
    match (value, by) {
        (Value::Int(a), Number::Int(b)) => a.checked_add(b).map(Value::Int).ok_or_else(overflow),
        (Value::Int(a), Number::Float(b)) => float(exact(a)?, b),
        (Value::Float(a), Number::Int(b)) => float(a, exact(b)?),
        (Value::Float(a), Number::Float(b)) => float(a, b),
        (other, _) => {
            let message = format!("`{name}` holds {}, not a number", other.type_name());
            Err(Error::new(Code::NotANumber, message))
        }
    }
}

#[cold]
fn rounded(n: i64, name: &Name) -> Error {
    let message = format!("adding to `{name}` would round {n}, which is no 64-bit float");
    Error::new(Code::Overflow, message)
}

fn expire(view: &View<'_>, overlay: &mut WriteSet, name: &Name, ttl: Ttl) -> Result<Answer> {
    let (seen, payload) =
        load_with(view, overlay, CELLS, name.as_bytes(), |payload| Ok(payload.to_vec()))?;
    let expires = expiry(view, ttl, seen.expires)?;
    let Some(payload) = payload else { return Ok(Answer::Did(false)) };
    set_expiry(overlay, seen, &payload, expires)?;
    Ok(Answer::Did(true))
}

/// Writes a version from an export.
fn restore(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    value: Option<&Value>,
    counter: u64,
    expires: Option<Stamp>,
) -> Result<Answer> {
    let seen = load(view, overlay, CELLS, name)?;
    let expires = match (value, expires) {
        (Some(_), Some(stamp)) => Some(checked_expiry(stamp)?),
        _ => None,
    };
    let (start, ()) = match value {
        Some(value) => overlay.stage(|out| codec::encode(value, out))?,
        None => overlay.stage(|_| Ok(()))?,
    };
    let counter = key_state::restore(overlay, seen, start, value.is_none(), counter, expires)?;
    Ok(Answer::Counter(counter))
}

/// Reads a cell.
pub(crate) fn get(view: &View<'_>, overlay: &WriteSet, name: &Name) -> Result<Option<Versioned>> {
    let (key, hash) = view.key(CELLS, name.as_bytes());
    let read = |head: EntryHeader, payload: &[u8]| {
        if !head.is_live(view.now) {
            return Ok(None);
        }
        let value = codec::decode(payload)?;
        let EntryHeader { counter, stamp, revision, expires, .. } = head;
        Ok(Some(Versioned { value, counter, stamp, revision, expires }))
    };
    Ok(view.find(overlay, &key, hash, read)?.and_then(|(cell, _)| cell))
}

/// Returns the versions of a cell, newest first.
pub(crate) fn history(
    view: &View<'_>,
    overlay: &WriteSet,
    name: &Name,
    limit: usize,
    before: Option<u64>,
) -> Result<Vec<HistoryEntry>> {
    let mut scales = Scales::default();
    key_state::history(view, overlay, (CELLS, name), limit, before, |head, payload| {
        let value = if head.is_deleted() { None } else { Some(codec::decode(payload)?) };
        scales.add_value(value.as_ref())?;
        let EntryHeader { counter, writes, stamp, revision, expires, .. } = head;
        Ok(HistoryEntry { counter, writes, value, stamp, revision, expires })
    })
}

/// Lists names in byte order.
pub(crate) fn list(
    view: &View<'_>,
    overlay: &WriteSet,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page> {
    list_until(view, overlay, prefix, after, limit).map(|(page, _)| page)
}

/// Lists names, and returns the earliest expiry among those names that other transactions wrote.
pub(crate) fn list_until(
    view: &View<'_>,
    overlay: &WriteSet,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<(Page, Option<Stamp>)> {
    key_state::names(view, overlay, (CELLS, &[]), (prefix, after), limit)
}
