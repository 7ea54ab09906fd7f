//! Cells: named values with compare-and-swap.
//!
//! ```text
//!   absent --write--> live (counter + 1) --delete--> deleted (counter + 1) --write--> live ...
//!                       |  its time comes
//!                       v
//!                     lapsed: absent for everyone; the next write or sweep first counts the expiry
//! ```

use crate::entry::{DELETED, EXPIRED, Head, LAPSED};
use crate::overlay::{Overlay, Payload, Write};
use crate::spaces::{CELLS, Key};
use crate::view::{Origin, View};
use mainstay_model::limits::PAGE_LIMIT;
use mainstay_model::{
    Answer, CellCommand, Code, Error, Name, Number, Page, Result, Stamp, Ttl, Value, Versioned,
    codec,
};

/// What is known of a cell before a write.
pub(super) struct Seen {
    pub key: Key,
    pub hash: u64,
    counter: u64,
    pub live: bool,
    pub lapsed: bool,
    pub expires: Option<Stamp>,
    /// The expiry whose marker stands in this branch's own layer.
    marked: Option<Stamp>,
}

/// Runs a command on a cell.
pub(crate) fn run(view: &View<'_>, overlay: &mut Overlay, command: &CellCommand) -> Result<Answer> {
    match command {
        CellCommand::Init { name, value } => init(view, overlay, name, value),
        CellCommand::Set { name, value, ttl } => {
            let seen = see(view, overlay, name)?;
            let expires = expiry(view.now, *ttl, seen.expires)?;
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
        _ => Err(Error::new(Code::Unsupported, "this version does not know that cell command")),
    }
}

pub(super) fn see(view: &View<'_>, overlay: &Overlay, name: &Name) -> Result<Seen> {
    let (key, hash) = view.key(CELLS, name.as_bytes());
    let found = view.find(overlay, &key, hash, |head, _| Ok(head))?;
    Ok(seen(key, hash, found, view.now))
}

/// What is known of a cell, and what it holds if it is live.
pub(super) fn see_with<T>(
    view: &View<'_>,
    overlay: &Overlay,
    name: &Name,
    mut read: impl FnMut(&[u8]) -> Result<T>,
) -> Result<(Seen, Option<T>)> {
    let (key, hash) = view.key(CELLS, name.as_bytes());
    let read = |head: Head, payload: &[u8]| match head.is_live(view.now) {
        true => Ok((head, Some(read(payload)?))),
        false => Ok((head, None)),
    };
    let found = view.find(overlay, &key, hash, read)?;
    let (found, held) = match found {
        Some(((head, held), origin)) => (Some((head, origin)), held),
        None => (None, None),
    };
    Ok((seen(key, hash, found, view.now), held))
}

fn seen(key: Key, hash: u64, found: Option<(Head, Origin)>, now: Stamp) -> Seen {
    let Some((head, origin)) = found else {
        let (live, lapsed) = (false, false);
        return Seen { key, hash, counter: 0, live, lapsed, expires: None, marked: None };
    };
    let live = head.is_live(now);
    Seen {
        key,
        hash,
        counter: head.counter,
        live,
        lapsed: head.is_lapsed(now),
        expires: head.expires.filter(|_| live),
        marked: head.expires.filter(|_| origin == Origin::Own && !head.is_deleted()),
    }
}

impl Seen {
    /// The write that follows, counting an expiry that came due before it.
    pub fn write<'a>(&self, flags: u8, expires: Option<Stamp>, payload: Payload<'a>) -> Write<'a> {
        let writes = 1 + u64::from(self.lapsed);
        let flags = flags | if self.lapsed { LAPSED } else { 0 };
        let counter = self.counter + writes;
        Write { flags, counter, writes, expires, prior: self.marked, payload }
    }
}

/// Writes a value; gives the new counter.
pub(super) fn put(
    overlay: &mut Overlay,
    seen: Seen,
    value: &Value,
    expires: Option<Stamp>,
) -> Result<u64> {
    let start = overlay.stage(|out| codec::encode(value, out))?;
    let write = seen.write(0, expires, Payload::Staged(start));
    let counter = write.counter;
    overlay.write(seen.key, seen.hash, write)?;
    Ok(counter)
}

fn init(view: &View<'_>, overlay: &mut Overlay, name: &Name, value: &Value) -> Result<Answer> {
    let seen = see(view, overlay, name)?;
    if seen.live {
        // The value is checked all the same: bad input is an error whatever is stored.
        value.check()?;
        return Ok(Answer::Counter(seen.counter));
    }
    put(overlay, seen, value, None).map(Answer::Counter)
}

fn cas(
    view: &View<'_>,
    overlay: &mut Overlay,
    name: &Name,
    expected: Option<u64>,
    value: &Value,
) -> Result<Answer> {
    let seen = see(view, overlay, name)?;
    let holds = match expected {
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
    overlay: &mut Overlay,
    name: &Name,
    counter: Option<u64>,
) -> Result<Answer> {
    let seen = see(view, overlay, name)?;
    if seen.lapsed {
        lapse(overlay, seen)?;
        return Ok(Answer::Did(false));
    }
    if !seen.live || counter.is_some_and(|counter| counter != seen.counter) {
        return Ok(Answer::Did(false));
    }
    remove(overlay, seen)?;
    Ok(Answer::Did(true))
}

/// Deletes a cell that lives.
pub(super) fn remove(overlay: &mut Overlay, seen: Seen) -> Result<()> {
    let write = seen.write(DELETED, None, Payload::Bytes(b""));
    overlay.write(seen.key, seen.hash, write)
}

/// Turns an expiry that came due into a deletion.
pub(super) fn lapse(overlay: &mut Overlay, seen: Seen) -> Result<()> {
    let write = Write {
        flags: DELETED | EXPIRED,
        counter: seen.counter + 1,
        writes: 1,
        expires: None,
        prior: seen.marked,
        payload: Payload::Bytes(b""),
    };
    overlay.write(seen.key, seen.hash, write)
}

/// Turns the expiry of one key into a deletion, if its own layer says that it is due.
pub(crate) fn lapse_key(view: &View<'_>, overlay: &mut Overlay, key: &[u8]) -> Result<bool> {
    let key = Key::from_slice(key);
    let hash = view.index.current.hash(&key);
    let found = view.find(overlay, &key, hash, |head, _| Ok(head))?;
    let seen = seen(key, hash, found, view.now);
    if !seen.lapsed || seen.marked.is_none() {
        return Ok(false);
    }
    lapse(overlay, seen)?;
    Ok(true)
}

fn incr(view: &View<'_>, overlay: &mut Overlay, name: &Name, by: Number) -> Result<Answer> {
    let (seen, value) = see_with(view, overlay, name, codec::decode)?;
    let value = sum(value.unwrap_or(Value::Int(0)), by, name)?;
    let expires = seen.expires;
    let counter = put(overlay, seen, &value, expires)?;
    Ok(Answer::Number { value, counter })
}

/// Integers stay integers; a float on either side makes a float.
fn sum(value: Value, by: Number, name: &Name) -> Result<Value> {
    let overflow = || {
        let message = format!("adding to `{name}` leaves the range of its number");
        Error::new(Code::Overflow, message)
    };
    let float = |a: f64, b: f64| match a + b {
        sum if !sum.is_finite() && a.is_finite() && b.is_finite() => Err(overflow()),
        sum => Ok(Value::Float(sum)),
    };
    match (value, by) {
        (Value::Int(a), Number::Int(b)) => a.checked_add(b).map(Value::Int).ok_or_else(overflow),
        (Value::Int(a), Number::Float(b)) => float(a as f64, b),
        (Value::Float(a), Number::Int(b)) => float(a, b as f64),
        (Value::Float(a), Number::Float(b)) => float(a, b),
        (other, _) => {
            let message = format!("`{name}` holds {}, not a number", other.type_name());
            Err(Error::new(Code::NotANumber, message))
        }
    }
}

fn expire(view: &View<'_>, overlay: &mut Overlay, name: &Name, ttl: Ttl) -> Result<Answer> {
    let (seen, payload) = see_with(view, overlay, name, |payload| Ok(payload.to_vec()))?;
    let expires = expiry(view.now, ttl, seen.expires)?;
    let Some(payload) = payload else { return Ok(Answer::Did(false)) };
    set_expiry(overlay, seen, &payload, expires)?;
    Ok(Answer::Did(true))
}

/// Writes a live cell as it is with another expiry; with the same one, nothing.
pub(super) fn set_expiry(
    overlay: &mut Overlay,
    seen: Seen,
    payload: &[u8],
    expires: Option<Stamp>,
) -> Result<()> {
    if expires == seen.expires {
        return Ok(());
    }
    let write = seen.write(0, expires, Payload::Bytes(payload));
    overlay.write(seen.key, seen.hash, write)
}

/// Writes a version as an export kept it.
fn restore(
    view: &View<'_>,
    overlay: &mut Overlay,
    name: &Name,
    value: Option<&Value>,
    counter: u64,
    expires: Option<Stamp>,
) -> Result<Answer> {
    let seen = see(view, overlay, name)?;
    let expires = match (value, expires) {
        (Some(_), Some(stamp)) => expiry(view.now, Ttl::Until(stamp), None)?,
        _ => None,
    };
    let start = match value {
        Some(value) => overlay.stage(|out| codec::encode(value, out))?,
        None => overlay.stage(|_| Ok(()))?,
    };
    if counter > LAST_COUNTER {
        return Err(Error::new(Code::InvalidArgument, "a counter beyond all that can be counted"));
    }
    // The version says what happened: an expiry before it has a version of its own.
    let counter = counter.max(seen.counter + 1);
    let write = Write {
        flags: if value.is_some() { 0 } else { DELETED },
        counter,
        writes: counter - seen.counter,
        expires,
        prior: seen.marked,
        payload: Payload::Staged(start),
    };
    overlay.write(seen.key, seen.hash, write)?;
    Ok(Answer::Counter(counter))
}

/// The highest counter that an import may bring: writing on never overflows.
const LAST_COUNTER: u64 = 1 << 62;

/// The latest moment a stamp may name: far beyond any calendar, and safe to add to.
const LAST_STAMP: u64 = 1 << 62;

/// When a write makes its cell expire.
pub(super) fn expiry(now: Stamp, ttl: Ttl, current: Option<Stamp>) -> Result<Option<Stamp>> {
    let invalid = |message: &str| Err(Error::new(Code::InvalidTtl, message));
    match ttl {
        Ttl::Clear => Ok(None),
        Ttl::Keep => Ok(current),
        Ttl::Millis(0) => invalid("a time to live of 0 ms: delete the cell instead"),
        Ttl::Millis(ms) => match ms.checked_mul(1000).and_then(|us| us.checked_add(now)) {
            Some(stamp) if stamp <= LAST_STAMP => Ok(Some(stamp)),
            _ => invalid("the time to live ends beyond the calendar"),
        },
        Ttl::Until(stamp) if stamp <= LAST_STAMP => Ok(Some(stamp)),
        Ttl::Until(_) => invalid("the expiry lies beyond the calendar"),
    }
}

/// Reads a cell.
pub(crate) fn get(view: &View<'_>, overlay: &Overlay, name: &Name) -> Result<Option<Versioned>> {
    let (key, hash) = view.key(CELLS, name.as_bytes());
    let read = |head: Head, payload: &[u8]| {
        if !head.is_live(view.now) {
            return Ok(None);
        }
        let value = codec::decode(payload)?;
        let Head { counter, stamp, revision, expires, .. } = head;
        Ok(Some(Versioned { value, counter, stamp, revision, expires }))
    };
    Ok(view.find(overlay, &key, hash, read)?.and_then(|(cell, _)| cell))
}

/// Lists names in byte order.
pub(crate) fn list(
    view: &View<'_>,
    overlay: &Overlay,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page> {
    list_until(view, overlay, prefix, after, limit).map(|(page, _)| page)
}

/// Lists names, and says when the first of them that others wrote expires.
pub(crate) fn list_until(
    view: &View<'_>,
    overlay: &Overlay,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<(Page, Option<Stamp>)> {
    check_limit(limit)?;
    let mut walk = view.walk(overlay, CELLS, prefix.as_bytes(), after.map(str::as_bytes));
    let mut page = Page::default();
    let mut expires: Option<Stamp> = None;
    while let Some(step) = walk.next()? {
        if !step.head.is_live(view.now) {
            continue;
        }
        if page.names.len() == limit {
            page.next = page.names.last().cloned();
            break;
        }
        let theirs = step.head.expires.filter(|_| !step.own);
        expires = [expires, theirs].into_iter().flatten().min();
        page.names.push(String::from_utf8_lossy(&step.name).into_owned());
    }
    Ok((page, expires))
}

/// Refuses page sizes that make no sense.
pub(crate) fn check_limit(limit: usize) -> Result<()> {
    if (1..=PAGE_LIMIT).contains(&limit) {
        return Ok(());
    }
    let message = format!("a page has 1 to {PAGE_LIMIT} entries, not {limit}");
    Err(Error::new(Code::InvalidLimit, message))
}
