//! Key state shared by all contracts: load a key, write it, delete it, expire it.
//!
//! ```text
//!   key --load--> KeyState { counter, live, lapsed, expires } --write--> the next version with its counter
//! ```

use crate::base::fault_points::{self, InjectedFault};
use crate::key::entry::{self, DELETED, EXPIRED, EntryHeader, LAPSED, QUIET};
use crate::key::keyspace::{self, Key};
use crate::mvcc::dead_names::DeadWalk;
use crate::mvcc::view::{Origin, View};
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use mainstay_model::limits::check_page;
use mainstay_model::{Code, Error, ExpireOnly, Name, Page, Result, Stamp, Ttl};
use std::sync::atomic::Ordering;

/// The state of a key before a write.
pub(crate) struct KeyState {
    pub key: Key,
    pub hash: u64,
    pub counter: u64,
    pub live: bool,
    pub lapsed: bool,
    /// The version belongs to an ancestor branch. Its expiry is reported only on that branch.
    pub inherited: bool,
    pub expires: Option<Stamp>,
    /// The expiry whose marker is in this branch's own layer.
    pub marked: Option<Stamp>,
}

/// Loads the state of a key.
pub(super) fn load(
    view: &View<'_>,
    overlay: &WriteSet,
    space: u8,
    name: &Name,
) -> Result<KeyState> {
    let (key, hash) = view.key(space, name.as_bytes());
    let found = view.find(overlay, &key, hash, |head, _| Ok(head))?;
    Ok(seen(key, hash, found, view.now))
}

/// Loads the state of a key, and decodes its payload if it is live.
pub(super) fn load_with<T>(
    view: &View<'_>,
    overlay: &WriteSet,
    space: u8,
    name: &[u8],
    mut read: impl FnMut(&[u8]) -> Result<T>,
) -> Result<(KeyState, Option<T>)> {
    let (key, hash) = view.key(space, name);
    let read = |head: EntryHeader, payload: &[u8]| {
        if head.is_live(view.now) { Ok((head, Some(read(payload)?))) } else { Ok((head, None)) }
    };
    let found = view.find(overlay, &key, hash, read)?;
    let (found, held) = match found {
        Some(((head, held), origin)) => (Some((head, origin)), held),
        None => (None, None),
    };
    Ok((seen(key, hash, found, view.now), held))
}

fn seen(key: Key, hash: u64, found: Option<(EntryHeader, Origin)>, now: Stamp) -> KeyState {
    let Some((head, origin)) = found else {
        let live = false;
        let lapsed = false;
        let inherited = false;
        return KeyState {
            key,
            hash,
            counter: 0,
            live,
            lapsed,
            inherited,
            expires: None,
            marked: None,
        };
    };
    let live = head.is_live(now);
    let forgets = fault_points::is(InjectedFault::CounterLostOnDelete);
    KeyState {
        key,
        hash,
        counter: if forgets && head.is_deleted() { 0 } else { head.counter },
        live,
        lapsed: head.is_lapsed(now),
        inherited: matches!(origin, Origin::Inherited(_)),
        expires: head.expires.filter(|_| live),
        marked: head.expires.filter(|_| origin == Origin::Own && !head.is_deleted()),
    }
}

impl KeyState {
    /// Returns the next write. If the key expired before it, the write counts the expiry too.
    pub fn write<'a>(&self, flags: u8, expires: Option<Stamp>, payload: Payload<'a>) -> Write<'a> {
        let writes = 1 + u64::from(self.lapsed);
        let flags = flags | if self.lapsed && !self.inherited { LAPSED } else { 0 };
        let counter = self.counter + writes;
        Write { flags, counter, writes, expires, prior: self.marked, payload }
    }
}

/// Deletes a live key.
pub(super) fn remove(overlay: &mut WriteSet, seen: KeyState) -> Result<()> {
    remove_as(overlay, seen, DELETED)
}

/// Deletes a live key without a feed event.
pub(super) fn remove_quietly(overlay: &mut WriteSet, seen: KeyState) -> Result<()> {
    remove_as(overlay, seen, DELETED | QUIET)
}

fn remove_as(overlay: &mut WriteSet, seen: KeyState, flags: u8) -> Result<()> {
    let write = seen.write(flags, None, Payload::Bytes(b""));
    overlay.write(seen.key, seen.hash, write)
}

/// Turns a passed expiry into a tombstone, on the branch that owns the version.
pub(super) fn expire_lazily(overlay: &mut WriteSet, seen: KeyState) -> Result<()> {
    if seen.inherited {
        return Ok(());
    }
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

/// Turns a passed expiry of one key into a tombstone, if the branch's own layer has its marker. Returns
/// whether it did.
pub(crate) fn expire_key_lazily(
    view: &View<'_>,
    overlay: &mut WriteSet,
    key: &[u8],
) -> Result<bool> {
    let key = Key::from_slice(key);
    let hash = view.index.current.hash(&key);
    let found = view.find(overlay, &key, hash, |head, _| Ok(head))?;
    let seen = seen(key, hash, found, view.now);
    if !seen.lapsed || seen.marked.is_none() {
        return Ok(false);
    }
    expire_lazily(overlay, seen)?;
    Ok(true)
}

/// Rewrites a live key with another expiry. Does nothing if the expiry is the same.
pub(super) fn set_expiry(
    overlay: &mut WriteSet,
    seen: KeyState,
    payload: &[u8],
    expires: Option<Stamp>,
) -> Result<()> {
    if expires == seen.expires {
        return Ok(());
    }
    let write = seen.write(0, expires, Payload::Bytes(payload));
    overlay.write(seen.key, seen.hash, write)
}

/// Highest counter that an import may set, so that later writes never overflow it.
const LAST_COUNTER: u64 = 1 << 62;

/// Latest time of an expiry: far beyond any calendar, and safe to add to.
const LAST_STAMP: u64 = 1 << 62;

/// Returns the time at which a write makes its key expire. Times given by callers are wall-clock times, and
/// the engine's timestamps may be offset from the wall clock.
pub(super) fn expiry(view: &View<'_>, ttl: Ttl, current: Option<Stamp>) -> Result<Option<Stamp>> {
    let invalid = |message: &str| Err(Error::new(Code::InvalidTtl, message));
    match ttl {
        Ttl::Clear => Ok(None),
        Ttl::Keep => Ok(current),
        Ttl::Millis(0) => invalid("a time to live of 0 ms: delete it instead"),
        Ttl::Millis(ms) => match ms.checked_mul(1000).and_then(|us| us.checked_add(view.now)) {
            Some(stamp) if stamp <= LAST_STAMP => Ok(Some(stamp)),
            _ => invalid("the time to live ends beyond the calendar"),
        },
        Ttl::Until(moment) => {
            // The time is checked before the offset is added too, because a time beyond the calendar stays
            // invalid with any offset.
            checked_expiry(moment)?;
            let offset_us = view.index.wall_offset_us.load(Ordering::Relaxed);
            checked_expiry(moment.saturating_add_signed(offset_us)).map(Some)
        }
    }
}

/// Validates the time of an expiry.
pub(super) fn checked_expiry(stamp: Stamp) -> Result<Stamp> {
    match stamp {
        ..=LAST_STAMP => Ok(stamp),
        _ => Err(Error::new(Code::InvalidTtl, "the expiry lies beyond the calendar")),
    }
}

/// Returns whether a condition on the expiry holds. No expiry counts as later than any time.
pub(super) fn may_expire(only: ExpireOnly, old: Option<Stamp>, new: Option<Stamp>) -> bool {
    let moment = |expires: Option<Stamp>| expires.unwrap_or(Stamp::MAX);
    match only {
        ExpireOnly::Always => true,
        ExpireOnly::WithoutExpiry => old.is_none(),
        ExpireOnly::WithExpiry => old.is_some(),
        ExpireOnly::Later => moment(new) > moment(old),
        ExpireOnly::Earlier => moment(new) < moment(old),
        ExpireOnly::EarlierThanThere => old.is_some() && moment(new) < moment(old),
    }
}

/// Writes a version from an export, with the payload staged from `start` on. Returns its counter.
pub(super) fn restore(
    overlay: &mut WriteSet,
    seen: KeyState,
    start: usize,
    deleted: bool,
    counter: u64,
    expires: Option<Stamp>,
) -> Result<u64> {
    if counter > LAST_COUNTER {
        return Err(Error::new(Code::InvalidArgument, "a counter beyond all that can be counted"));
    }
    // An expiry before this write has its own version in the export, so it is not counted here.
    let counter = counter.max(seen.counter + 1);
    let write = Write {
        flags: if deleted { DELETED } else { 0 },
        counter,
        writes: counter - seen.counter,
        expires,
        prior: seen.marked,
        payload: Payload::Staged(start),
    };
    overlay.write(seen.key, seen.hash, write)?;
    Ok(counter)
}

/// Returns the versions of a key with a counter below `before`, newest first: the transaction's own write,
/// then those of the branch and of its ancestors.
pub(super) fn history<T>(
    view: &View<'_>,
    overlay: &WriteSet,
    (space, name): (u8, &Name),
    limit: usize,
    before: Option<u64>,
    mut read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
) -> Result<Vec<T>> {
    check_page(limit)?;
    let mut entries = Vec::new();
    let mut add = |head: EntryHeader, payload: &[u8]| {
        if before.is_none_or(|before| head.counter < before) {
            entries.push(read(head, payload)?);
        }
        Ok(entries.len() < limit)
    };
    let (key, hash) = view.key(space, name.as_bytes());
    if let Some(effect) = overlay.find(hash, &key)
        && !add(effect.head(overlay.revision, view.now), overlay.payload(effect))?
    {
        return Ok(entries);
    }
    view.versions(space, name.as_bytes(), |entry| {
        let (head, payload) = entry::parse(entry)?;
        add(head, payload)
    })?;
    Ok(entries)
}

/// Lists the names of a key space in byte order, without those that begin with a hidden prefix. Also returns
/// the earliest expiry among the names that other transactions wrote.
pub(crate) fn names(
    view: &View<'_>,
    overlay: &WriteSet,
    space: (u8, &[String]),
    (prefix, after): (&str, Option<&str>),
    limit: usize,
) -> Result<(Page, Option<Stamp>)> {
    check_page(limit)?;
    let range = (prefix.as_bytes(), after.map(str::as_bytes));
    let found = names_within(view, overlay, None, space, range, (limit, usize::MAX))?;
    let expires = found.expires;
    Ok((found.into_page(), expires))
}

pub fn text(name: Vec<u8>) -> String {
    String::from_utf8(name)
        .unwrap_or_else(|name| String::from_utf8_lossy(name.as_bytes()).into_owned())
}

/// Names found by a scan.
#[derive(Default)]
pub struct FoundNames {
    pub names: Vec<Vec<u8>>,
    /// Where the scan ended, if more names may follow.
    pub next: Option<Vec<u8>>,
    /// Earliest expiry among the names that other transactions wrote.
    pub expires: Option<Stamp>,
    /// Number of names scanned, including dead ones.
    pub looked: usize,
}

impl FoundNames {
    pub fn into_page(self) -> Page {
        let names = self.names.into_iter().map(text).collect();
        Page { names, next: self.next.map(text) }
    }
}

/// Lists names with a prefix, after another name. Stops after `limit` live names or after `looks` scanned
/// names. In the second case `next` is the last scanned name, even if it is dead. Skips known ranges of dead
/// names in one step, and also names with a hidden prefix of the space. The transaction's own writes must not
/// lie in ranges of dead names.
pub(crate) fn names_within(
    view: &View<'_>,
    overlay: &WriteSet,
    mut dead: Option<DeadWalk<'_>>,
    (space, hidden): (u8, &[String]),
    (prefix, after): (&[u8], Option<&[u8]>),
    (limit, looks): (usize, usize),
) -> Result<FoundNames> {
    let mut found = FoundNames::default();
    let mut walk = view.walk(overlay, space, prefix, after);
    while let Some(step) = walk.next()? {
        found.looked += 1;
        if let Some(hidden) =
            hidden.iter().find(|hidden| step.name().starts_with(hidden.as_bytes()))
        {
            dead.iter_mut().for_each(DeadWalk::ends);
            // 0xff occurs in no name, so all names with this prefix sort before it.
            let behind = [hidden.as_bytes(), &[u8::MAX]].concat();
            walk = view.walk(overlay, space, prefix, Some(&behind));
            continue;
        }
        let is_last = found.looked >= looks;
        if step.head.is_live(view.now) {
            dead.iter_mut().for_each(DeadWalk::ends);
            if found.names.len() == limit {
                found.next = found.names.last().cloned();
                return Ok(found);
            }
            let theirs = step.head.expires.filter(|_| !step.own);
            found.expires = [found.expires, theirs].into_iter().flatten().min();
            found.names.push(step.name().to_vec());
        } else if let Some(dead) = &mut dead {
            let end = dead.dead(keyspace::key(space, view.branch(), step.name()).to_vec());
            if let Some(last) = end.as_deref().and_then(|end| end.get(keyspace::PREFIX_BYTES..)) {
                if !last.starts_with(prefix) {
                    break;
                }
                walk = view.walk(overlay, space, prefix, Some(last));
            }
        }
        if is_last {
            found.next = Some(step.name().to_vec());
            break;
        }
    }
    dead.iter_mut().for_each(DeadWalk::ends);
    Ok(found)
}
