//! Redis strings on cells: same keys and entries, but Redis's rules.
//!
//! ```text
//!   cell --text--> a string or bytes as they are, everything else as JSON
//!                    |  condition, append, add
//!                    v
//!   cell <-------- text; but a number that the cell held as a number stays a number
//! ```
//!
//! Input is checked before anything is written, whatever the cell holds.

use super::cells::put;
use super::decimal::{self, Failure};
use super::key_state::{self, KeyState, expire_lazily, expiry, may_expire, remove, set_expiry};
use super::records;
use crate::key::keyspace::CELLS;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, WriteSet};
use mainstay_model::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay_model::{
    Answer, Code, Error, ExpireOnly, Name, Only, Result, Stamp, StringCommand, Ttl, Value, codec,
};

/// Runs a command on a cell by its text.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    command: &StringCommand,
) -> Result<Answer> {
    match command {
        StringCommand::Set { name, value, only, ttl } => {
            set(view, overlay, name, value, only, *ttl)
        }
        StringCommand::SetAll { pairs, only_absent } => set_all(view, overlay, pairs, *only_absent),
        StringCommand::Take { name } => take(view, overlay, name),
        StringCommand::Touch { name, ttl } => touch(view, overlay, name, *ttl),
        StringCommand::Append { name, text } => append(view, overlay, name, text),
        StringCommand::Add { name, by } => add(view, overlay, name, *by),
        StringCommand::AddFloat { name, by } => add_float(view, overlay, name, by),
        StringCommand::Expire { name, ttl, only } => expire(view, overlay, name, *ttl, *only),
        StringCommand::Persist { name } => persist(view, overlay, name),
        StringCommand::Swap { name, value, only, ttl } => {
            swap(view, overlay, name, value, only, *ttl)
        }
        StringCommand::Put { name, value, ttl } => overwrite(view, overlay, name, value, *ttl),
        StringCommand::Get { name } => get(view, overlay, name),
        _ => Err(Error::new(Code::Unsupported, "this version does not know that string command")),
    }
}

/// Loads a cell, and its value if it is live. If it is not, refuses a name that a record has. A name that is
/// both counts as a cell.
fn see_with<T>(
    view: &View<'_>,
    overlay: &WriteSet,
    name: &Name,
    read: impl FnMut(&[u8]) -> Result<T>,
) -> Result<(KeyState, Option<T>)> {
    let (seen, held) = key_state::load_with(view, overlay, CELLS, name.as_bytes(), read)?;
    if held.is_none() {
        records::refuse(view, overlay, name)?;
    }
    Ok((seen, held))
}

fn get(view: &View<'_>, overlay: &WriteSet, name: &Name) -> Result<Answer> {
    let found = super::cells::get(view, overlay, name)?;
    if found.is_none() {
        records::refuse(view, overlay, name)?;
    }
    Ok(Answer::Cell(found))
}

fn swap(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    value: &Value,
    only: &Only,
    ttl: Ttl,
) -> Result<Answer> {
    see_with(view, overlay, name, |_| Ok(()))?;
    set(view, overlay, name, value, only, ttl)
}

fn set(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    value: &Value,
    only: &Only,
    ttl: Ttl,
) -> Result<Answer> {
    let (seen, old) = key_state::load_with(view, overlay, CELLS, name.as_bytes(), codec::decode)?;
    let there = records::is_there(view, overlay, name)?;
    // A name that is both counts as a cell.
    let record = there && old.is_none();
    let kept = if ttl == Ttl::Keep { kept(view, overlay, name, &seen)? } else { None };
    let expires = expiry(view, ttl, kept)?;
    let did = match only {
        Only::Equals(_) | Only::Differs(_) if record => return Err(records::wrong_type(name)),
        Only::Absent if record => false,
        Only::Present if record => true,
        only => holds(only, old.as_ref()),
    };
    if did {
        put(overlay, seen, value, expires)?;
        if there {
            records::make_way(view, overlay, name)?;
        }
    } else {
        // Bad input is an error, whether or not the condition holds.
        value.check()?
    }
    Ok(Answer::Replaced { did, old })
}

/// Returns the expiry that a name keeps when it is overwritten, of the cell or of the record.
fn kept(
    view: &View<'_>,
    overlay: &WriteSet,
    name: &Name,
    seen: &KeyState,
) -> Result<Option<Stamp>> {
    if seen.live { Ok(seen.expires) } else { records::expires(view, overlay, name) }
}

/// Writes the cell, and removes the record of the same name.
fn overwrite(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    value: &Value,
    ttl: Ttl,
) -> Result<Answer> {
    let seen = key_state::load(view, overlay, CELLS, name)?;
    let kept = if ttl == Ttl::Keep { kept(view, overlay, name, &seen)? } else { None };
    let expires = expiry(view, ttl, kept)?;
    // Checked before the write: with an empty write set and no records, the lookup is skipped.
    let record = records::is_there(view, overlay, name)?;
    let counter = put(overlay, seen, value, expires)?;
    if record {
        records::make_way(view, overlay, name)?;
    }
    Ok(Answer::Counter(counter))
}

/// Returns whether a condition holds for the current value.
fn holds(only: &Only, old: Option<&Value>) -> bool {
    match only {
        Only::Always => true,
        Only::Absent => old.is_none(),
        Only::Present => old.is_some(),
        Only::Equals(value) => old.is_some_and(|old| old.as_text() == value.as_text()),
        Only::Differs(value) => old.is_none_or(|old| old.as_text() != value.as_text()),
    }
}

/// Sets all cells or none: everything that can fail is done before the first write.
fn set_all(
    view: &View<'_>,
    overlay: &mut WriteSet,
    pairs: &[(Name, Value)],
    only_absent: bool,
) -> Result<Answer> {
    let (bytes, ends) = encoded(pairs)?;
    let seen = pairs
        .iter()
        .map(|(name, _)| key_state::load(view, overlay, CELLS, name))
        .collect::<Result<Vec<KeyState>>>()?;
    let records = of_records(view, overlay, pairs)?;
    if only_absent && (!records.is_empty() || seen.iter().any(|seen| seen.live)) {
        return Ok(Answer::Did(false));
    }
    overlay.check_room(bytes.len() + seen.iter().map(|seen| seen.key.len()).sum::<usize>())?;
    let mut start = 0;
    for ((mut seen, end), (name, _)) in seen.into_iter().zip(ends).zip(pairs) {
        if overlay.find(seen.hash, &seen.key).is_some() {
            // The name may occur twice among the pairs. Then the second write continues the counter of the
            // first.
            seen = key_state::load(view, overlay, CELLS, name)?;
        }
        let write = seen.write(0, None, Payload::Bytes(&bytes[start..end]));
        overlay.write(seen.key, seen.hash, write)?;
        start = end;
    }
    for name in records {
        records::make_way(view, overlay, name)?;
    }
    Ok(Answer::Did(true))
}

/// Returns those names that belong to records.
fn of_records<'n>(
    view: &View<'_>,
    overlay: &WriteSet,
    pairs: &'n [(Name, Value)],
) -> Result<Vec<&'n Name>> {
    let mut names = Vec::new();
    for (name, _) in pairs {
        if records::is_there(view, overlay, name)? {
            names.push(name);
        }
    }
    Ok(names)
}

/// Encodes the values back to back, and returns the end of each.
fn encoded(pairs: &[(Name, Value)]) -> Result<(Vec<u8>, Vec<usize>)> {
    if pairs.len() > TRANSACTION_LIMIT_COMMANDS {
        let message = format!("{} cells at once: a transaction sets at most 100,000", pairs.len());
        return Err(Error::new(Code::TransactionTooLarge, message));
    }
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(pairs.len());
    for (_, value) in pairs {
        codec::encode(value, &mut bytes)?;
        ends.push(bytes.len());
    }
    Ok((bytes, ends))
}

fn take(view: &View<'_>, overlay: &mut WriteSet, name: &Name) -> Result<Answer> {
    let (seen, old) = see_with(view, overlay, name, codec::decode)?;
    if seen.lapsed {
        expire_lazily(overlay, seen)?;
    } else if seen.live {
        remove(overlay, seen)?;
    }
    Ok(Answer::Replaced { did: old.is_some(), old })
}

fn touch(view: &View<'_>, overlay: &mut WriteSet, name: &Name, ttl: Ttl) -> Result<Answer> {
    let (seen, payload) = see_with(view, overlay, name, copied)?;
    let expires = expiry(view, ttl, seen.expires)?;
    let Some(payload) = payload else { return Ok(Answer::Replaced { did: false, old: None }) };
    let old = Some(codec::decode(&payload)?);
    set_expiry(overlay, seen, &payload, expires)?;
    Ok(Answer::Replaced { did: true, old })
}

fn copied(payload: &[u8]) -> Result<Vec<u8>> {
    Ok(payload.to_vec())
}

fn append(view: &View<'_>, overlay: &mut WriteSet, name: &Name, more: &[u8]) -> Result<Answer> {
    let (seen, old) = see_with(view, overlay, name, codec::decode)?;
    let mut text = old.map_or_else(Vec::new, |old| old.as_text().into_owned());
    text.extend_from_slice(more);
    let expires = seen.expires;
    put(overlay, seen, &Value::from_text(&text), expires)?;
    Ok(Answer::Count(text.len() as u64))
}

fn add(view: &View<'_>, overlay: &mut WriteSet, name: &Name, by: i64) -> Result<Answer> {
    let (seen, old) = see_with(view, overlay, name, codec::decode)?;
    let (n, is_text) = match &old {
        Some(Value::Int(n)) => (*n, false),
        Some(other) => (whole(&other.as_text()).ok_or_else(|| not_whole(name))?, true),
        None => (0, true),
    };
    let sum = n.checked_add(by).ok_or_else(|| overflow(name))?;
    let stored = if is_text { Value::String(sum.to_string()) } else { Value::Int(sum) };
    let expires = seen.expires;
    let counter = put(overlay, seen, &stored, expires)?;
    Ok(Answer::Number { value: Value::Int(sum), counter })
}

/// Parses an integer in canonical form: no plus sign, no leading zeros.
pub(super) fn whole(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = text == "0" || digits.starts_with(|c: char| matches!(c, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

fn add_float(view: &View<'_>, overlay: &mut WriteSet, name: &Name, by: &str) -> Result<Answer> {
    let (seen, old) = see_with(view, overlay, name, codec::decode)?;
    let value = float_sum(old.as_ref(), by).map_err(|failure| match failure {
        Failure::NotANumber => not_a_number(name),
        Failure::NotFinite => overflow(name),
    })?;
    let expires = seen.expires;
    let counter = put(overlay, seen, &value, expires)?;
    Ok(Answer::Number { value, counter })
}

/// Returns the sum as it is stored: a number if the cell held a number, else text.
fn float_sum(old: Option<&Value>, by: &str) -> std::result::Result<Value, Failure> {
    let float =
        |text: String| text.parse().map_or(Err(Failure::NotANumber), |n| Ok(Value::Float(n)));
    match old {
        None => decimal::sum("0", by).map(Value::String),
        // A sum with NaN is not finite, like one with infinity. The addend is checked in any case.
        Some(Value::Float(n)) if n.is_nan() => decimal::sum("inf", by).map(Value::String),
        Some(Value::Float(n)) => decimal::sum(&n.to_string(), by).and_then(float),
        Some(Value::Int(n)) => {
            let text = decimal::sum(&n.to_string(), by)?;
            whole(text.as_bytes()).map(Value::Int).map_or_else(|| float(text), Ok)
        }
        Some(other) => {
            let text = other.as_text();
            let text = std::str::from_utf8(&text).map_err(|_| Failure::NotANumber)?;
            decimal::sum(text, by).map(Value::String)
        }
    }
}

fn expire(
    view: &View<'_>,
    overlay: &mut WriteSet,
    name: &Name,
    ttl: Ttl,
    only: ExpireOnly,
) -> Result<Answer> {
    let (seen, payload) = key_state::load_with(view, overlay, CELLS, name.as_bytes(), copied)?;
    let expires = expiry(view, ttl, seen.expires)?;
    let Some(payload) = payload.filter(|_| may_expire(only, seen.expires, expires)) else {
        return Ok(Answer::Did(false));
    };
    set_expiry(overlay, seen, &payload, expires)?;
    Ok(Answer::Did(true))
}

fn persist(view: &View<'_>, overlay: &mut WriteSet, name: &Name) -> Result<Answer> {
    expire(view, overlay, name, Ttl::Clear, ExpireOnly::WithExpiry)
}

#[cold]
fn not_whole(name: &Name) -> Error {
    let message = format!("`{name}` does not hold a whole number of 64 bits, plainly written");
    Error::new(Code::NotANumber, message)
}

#[cold]
fn not_a_number(name: &Name) -> Error {
    let message = format!("what `{name}` holds, or what is to be added to it, is not a number");
    Error::new(Code::NotANumber, message)
}

#[cold]
fn overflow(name: &Name) -> Error {
    let message = format!("adding to `{name}` leaves the range of its number");
    Error::new(Code::Overflow, message)
}
