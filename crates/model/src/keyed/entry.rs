//! Entry encoding of keyed state, shared by stores, snapshots and checkpoints.
//!
//! ```text
//!   entry      place                                  payload
//!   state      00 | key                               version's length, with bit 80 if deleted | version | state
//!   waiting    01 | version | key                     00, or 80 for a deletion             | state
//!   item       02 | key's length u16 BE | key | id    the item
//!   position   04 | source                            u64 BE
//! ```
//!
//! Entries sort by their places. Keys are in byte order. Waiting writes sort by version first, because they
//! are sealed in version order. Kind 03 is reserved for stores, which use it to find deleted states.

use super::{STATE_KEY_LIMIT_BYTES, Version, VersionKind};
use crate::wire::fields;
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The place of an entry: its sort key in a space.
pub type EntryPlace = SmallVec<[u8; 48]>;

/// The flag in a payload's first byte that marks a deletion.
const DELETED: u8 = 0x80;

/// The kinds of entries, in snapshot order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EntryKind {
    /// States of keys.
    State = 0,
    /// Waiting writes.
    Waiting = 1,
    /// Items of logs.
    Item = 2,
    /// Positions of sources and sinks.
    Position = 4,
}

impl EntryKind {
    /// All kinds, in order.
    pub const ALL: [EntryKind; 4] =
        [EntryKind::State, EntryKind::Waiting, EntryKind::Item, EntryKind::Position];

    /// The place of a key's state.
    pub fn state(key: &[u8]) -> EntryPlace {
        placed(EntryKind::State, &[key])
    }

    /// The place of a waiting write.
    pub fn waiting(version: Version, key: &[u8]) -> EntryPlace {
        placed(EntryKind::Waiting, &[&version.to_bytes(), key])
    }

    /// The place of an item in a key's log. With an empty id, the prefix of all items of the key.
    pub fn item(key: &[u8], id: &[u8]) -> EntryPlace {
        placed(EntryKind::Item, &[&(key.len() as u16).to_be_bytes(), key, id])
    }

    /// The place of a position.
    pub fn position(source: &str) -> EntryPlace {
        placed(EntryKind::Position, &[source.as_bytes()])
    }
}

fn placed(kind: EntryKind, parts: &[&[u8]]) -> EntryPlace {
    let mut place = EntryPlace::new();
    place.push(kind as u8);
    parts.iter().for_each(|part| place.extend_from_slice(part));
    place
}

/// An entry of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SpaceEntry {
    /// A key's state or its tombstone.
    State {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The version of its last write.
        version: Version,
        /// The state; `None` for a tombstone.
        #[serde(with = "fields::maybe_bytes")]
        value: Option<Vec<u8>>,
    },
    /// A write that waits until its version is sealed.
    Waiting(WaitingEntry),
    /// An item of a key's log.
    Item {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The item's id.
        #[serde(with = "fields::bytes")]
        id: Vec<u8>,
        /// The item.
        #[serde(with = "fields::bytes")]
        item: Vec<u8>,
    },
    /// The position of a source or sink.
    Position {
        /// The name of the source or sink.
        source: String,
        /// The position.
        position: u64,
    },
    /// In an incremental snapshot: the key and its version were dropped.
    NoState {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
    },
    /// In an incremental snapshot: the waiting write was removed.
    NotWaiting {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The version of the write.
        version: Version,
    },
}

/// A write that waits until its version is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingEntry {
    /// The key.
    #[serde(with = "fields::bytes")]
    pub key: Vec<u8>,
    /// The version of the write.
    pub version: Version,
    /// The state; `None` for a deletion.
    #[serde(with = "fields::maybe_bytes")]
    pub value: Option<Vec<u8>>,
}

impl SpaceEntry {
    /// The kind of the entry, also if the entry is a removal.
    pub fn kind(&self) -> EntryKind {
        match self {
            SpaceEntry::State { .. } | SpaceEntry::NoState { .. } => EntryKind::State,
            SpaceEntry::Waiting(_) | SpaceEntry::NotWaiting { .. } => EntryKind::Waiting,
            SpaceEntry::Item { .. } => EntryKind::Item,
            SpaceEntry::Position { .. } => EntryKind::Position,
        }
    }

    /// Borrows the entry.
    pub fn by_ref(&self) -> EntryRef<'_> {
        match self {
            SpaceEntry::State { key, version, value } => {
                EntryRef::State { key, version: *version, value: value.as_deref() }
            }
            SpaceEntry::Waiting(WaitingEntry { key, version, value }) => {
                EntryRef::Waiting { key, version: *version, value: value.as_deref() }
            }
            SpaceEntry::Item { key, id, item } => EntryRef::Item { key, id, item },
            SpaceEntry::Position { source, position } => {
                EntryRef::Position { source, position: *position }
            }
            SpaceEntry::NoState { key } => EntryRef::NoState { key },
            SpaceEntry::NotWaiting { key, version } => {
                EntryRef::NotWaiting { key, version: *version }
            }
        }
    }

    /// The entry's key; `None` for a position.
    pub fn key(&self) -> Option<&[u8]> {
        self.by_ref().key()
    }

    /// The entry's version, if it has one.
    pub fn version(&self) -> Option<Version> {
        match self {
            SpaceEntry::State { version, .. } | SpaceEntry::NotWaiting { version, .. } => {
                Some(*version)
            }
            SpaceEntry::Waiting(waiting) => Some(waiting.version),
            _ => None,
        }
    }

    /// Returns whether the entry is a removal.
    pub fn is_removal(&self) -> bool {
        matches!(self, SpaceEntry::NoState { .. } | SpaceEntry::NotWaiting { .. })
    }

    /// The place of the entry.
    pub fn place(&self) -> EntryPlace {
        self.by_ref().place()
    }

    /// Appends the payload to `out`. A removal has no payload.
    pub fn put_payload(&self, out: &mut Vec<u8>) {
        self.by_ref().put_payload(out);
    }

    /// Decodes the entry at a place, in a space with this version kind. Without a payload, it is a removal.
    pub fn from_parts(
        place: &[u8],
        payload: Option<&[u8]>,
        versions: Option<VersionKind>,
    ) -> Result<SpaceEntry> {
        EntryRef::from_parts(place, payload, versions).map(EntryRef::to_owned)
    }

    /// The approximate size of the entry, in bytes.
    pub fn weight_bytes(&self) -> usize {
        let held = match self {
            SpaceEntry::State { value, .. } => value.as_ref().map_or(0, Vec::len),
            SpaceEntry::Waiting(waiting) => waiting.value.as_ref().map_or(0, Vec::len),
            SpaceEntry::Item { id, item, .. } => id.len() + item.len(),
            SpaceEntry::Position { source, .. } => source.len(),
            SpaceEntry::NoState { .. } | SpaceEntry::NotWaiting { .. } => 0,
        };
        48 + self.key().map_or(0, <[u8]>::len) + held
    }
}

/// Appends the payload of a state to `out`.
pub fn put_state(version: Version, value: Option<&[u8]>, out: &mut Vec<u8>) {
    let bytes = version.to_bytes();
    out.push(bytes.len() as u8 | if value.is_some() { 0 } else { DELETED });
    out.extend_from_slice(&bytes);
    out.extend_from_slice(value.unwrap_or_default());
}

fn put_waiting(value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(if value.is_some() { 0 } else { DELETED });
    out.extend_from_slice(value.unwrap_or_default());
}

/// Decodes the version and the state of a payload; `None` if the payload is malformed.
pub fn take_state(payload: &[u8]) -> Option<(Version, Option<&[u8]>)> {
    let (&first, rest) = payload.split_first()?;
    let (version, value) = rest.split_at_checked(usize::from(first & !DELETED))?;
    let version = Version::from_bytes(version)?;
    if first & DELETED != 0 {
        value.is_empty().then_some((version, None))
    } else {
        Some((version, Some(value)))
    }
}

fn take_waiting(payload: &[u8]) -> Option<Option<&[u8]>> {
    match payload.split_first()? {
        (&DELETED, []) => Some(None),
        (0, value) => Some(Some(value)),
        _ => None,
    }
}

/// A borrowed entry of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryRef<'e> {
    /// A key's state or its tombstone.
    State {
        /// The key.
        key: &'e [u8],
        /// The version of its last write.
        version: Version,
        /// The state; `None` for a tombstone.
        value: Option<&'e [u8]>,
    },
    /// A write that waits.
    Waiting {
        /// The key.
        key: &'e [u8],
        /// The version of the write.
        version: Version,
        /// The state; `None` for a deletion.
        value: Option<&'e [u8]>,
    },
    /// An item of a key's log.
    Item {
        /// The key.
        key: &'e [u8],
        /// The item's id.
        id: &'e [u8],
        /// The item.
        item: &'e [u8],
    },
    /// The position of a source or sink.
    Position {
        /// The name of the source or sink.
        source: &'e str,
        /// The position.
        position: u64,
    },
    /// The key and its version were dropped.
    NoState {
        /// The key.
        key: &'e [u8],
    },
    /// The waiting write was removed.
    NotWaiting {
        /// The key.
        key: &'e [u8],
        /// The version of the write.
        version: Version,
    },
}

impl<'e> EntryRef<'e> {
    /// Decodes the entry at a place, in a space with this version kind. Without a payload, it is a removal.
    pub fn from_parts(
        place: &'e [u8],
        payload: Option<&'e [u8]>,
        versions: Option<VersionKind>,
    ) -> Result<EntryRef<'e>> {
        read(place, payload, versions).ok_or_else(|| {
            let message = format!(
                "{} is no entry of a space whose versions are of kind {}",
                place.escape_ascii(),
                versions.map_or("none".to_owned(), |kind| kind.to_string())
            );
            Error::new(Code::CorruptData, message)
        })
    }

    /// The entry's key; `None` for a position.
    pub fn key(&self) -> Option<&'e [u8]> {
        match *self {
            EntryRef::State { key, .. }
            | EntryRef::Waiting { key, .. }
            | EntryRef::Item { key, .. }
            | EntryRef::NoState { key }
            | EntryRef::NotWaiting { key, .. } => Some(key),
            EntryRef::Position { .. } => None,
        }
    }

    /// The place of the entry.
    pub fn place(&self) -> EntryPlace {
        match *self {
            EntryRef::State { key, .. } | EntryRef::NoState { key } => EntryKind::state(key),
            EntryRef::Waiting { key, version, .. } | EntryRef::NotWaiting { key, version } => {
                EntryKind::waiting(version, key)
            }
            EntryRef::Item { key, id, .. } => EntryKind::item(key, id),
            EntryRef::Position { source, .. } => EntryKind::position(source),
        }
    }

    /// Appends the payload to `out`. A removal has no payload.
    pub fn put_payload(&self, out: &mut Vec<u8>) {
        match *self {
            EntryRef::State { version, value, .. } => put_state(version, value, out),
            EntryRef::Waiting { value, .. } => put_waiting(value, out),
            EntryRef::Item { item, .. } => out.extend_from_slice(item),
            EntryRef::Position { position, .. } => out.extend_from_slice(&position.to_be_bytes()),
            EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => {}
        }
    }

    /// Copies the entry.
    pub fn to_owned(self) -> SpaceEntry {
        let own = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
        match self {
            EntryRef::State { key, version, value } => {
                SpaceEntry::State { key: key.to_vec(), version, value: own(value) }
            }
            EntryRef::Waiting { key, version, value } => {
                let key = key.to_vec();
                let value = own(value);
                SpaceEntry::Waiting(WaitingEntry { key, version, value })
            }
            EntryRef::Item { key, id, item } => {
                SpaceEntry::Item { key: key.to_vec(), id: id.to_vec(), item: item.to_vec() }
            }
            EntryRef::Position { source, position } => {
                SpaceEntry::Position { source: source.to_owned(), position }
            }
            EntryRef::NoState { key } => SpaceEntry::NoState { key: key.to_vec() },
            EntryRef::NotWaiting { key, version } => {
                SpaceEntry::NotWaiting { key: key.to_vec(), version }
            }
        }
    }
}

fn read<'e>(
    place: &'e [u8],
    payload: Option<&'e [u8]>,
    versions: Option<VersionKind>,
) -> Option<EntryRef<'e>> {
    let (&kind, rest) = place.split_first()?;
    let kind = EntryKind::ALL.into_iter().find(|one| *one as u8 == kind)?;
    match kind {
        EntryKind::State => {
            let key = checked(rest)?;
            let Some(payload) = payload else { return Some(EntryRef::NoState { key }) };
            let (version, value) = take_state(payload)?;
            (Some(version.kind()) == versions).then_some(EntryRef::State { key, version, value })
        }
        EntryKind::Waiting => {
            let (version, key) = rest.split_at_checked(versions?.bytes())?;
            let version = Version::from_bytes(version)?;
            let key = checked(key)?;
            let Some(payload) = payload else { return Some(EntryRef::NotWaiting { key, version }) };
            Some(EntryRef::Waiting { key, version, value: take_waiting(payload)? })
        }
        EntryKind::Item => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            let (key, id) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            Some(EntryRef::Item { key: checked(key)?, id: checked(id)?, item: payload? })
        }
        EntryKind::Position => {
            let source = std::str::from_utf8(rest).ok()?;
            crate::check_name(source).ok()?;
            let position = u64::from_be_bytes(payload?.try_into().ok()?);
            Some(EntryRef::Position { source, position })
        }
    }
}

/// Returns a key or id if its length is valid.
fn checked(key: &[u8]) -> Option<&[u8]> {
    (1..=STATE_KEY_LIMIT_BYTES).contains(&key.len()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogicalTime;

    #[test]
    fn the_bytes_are_these() {
        let state = |value: Option<&[u8]>| SpaceEntry::State {
            key: b"k".to_vec(),
            version: 258.into(),
            value: value.map(<[u8]>::to_vec),
        };
        let waiting = |value: Option<&[u8]>| {
            let value = value.map(<[u8]>::to_vec);
            SpaceEntry::Waiting(WaitingEntry { key: b"k".to_vec(), version: 258.into(), value })
        };
        let version = [0, 0, 0, 0, 0, 0, 1, 2];
        let item = SpaceEntry::Item { key: b"k".to_vec(), id: b"i".to_vec(), item: b"v".to_vec() };
        let position = SpaceEntry::Position { source: "s".into(), position: 258 };
        let cases: [(SpaceEntry, Vec<u8>, Vec<u8>); 6] = [
            (state(Some(b"v")), b"\0k".to_vec(), [&[8], &version[..], b"v"].concat()),
            (state(None), b"\0k".to_vec(), [&[0x88], &version[..]].concat()),
            (waiting(Some(b"v")), [&[1], &version[..], b"k"].concat(), b"\0v".to_vec()),
            (waiting(None), [&[1], &version[..], b"k"].concat(), vec![0x80]),
            (item, vec![2, 0, 1, b'k', b'i'], b"v".to_vec()),
            (position, vec![4, b's'], version.to_vec()),
        ];
        for (entry, place, payload) in cases {
            let mut bytes = Vec::new();
            entry.put_payload(&mut bytes);
            assert_eq!((entry.place().as_slice(), &bytes), (&place[..], &payload), "{entry:?}");
            let kind = Some(VersionKind::U64);
            assert_eq!(SpaceEntry::from_parts(&place, Some(&payload), kind), Ok(entry));
        }
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let time = Version::Time(LogicalTime::new(1, 2));
        let mut of_time = Vec::new();
        put_state(time, Some(b"v"), &mut of_time);
        let cases: [(&[u8], Option<&[u8]>); 8] = [
            (b"", Some(b"")),
            (b"\x03k", Some(b"")),
            (b"\0k", Some(b"")),
            (b"\0k", Some(&of_time)),
            (b"\0k", Some(b"\x88\0\0\0\0\0\0\0\x01v")),
            (b"\x01short", Some(b"\0")),
            (b"\x02\0\x09k", Some(b"")),
            (b"\x04s", None),
        ];
        for (place, payload) in cases {
            let error = SpaceEntry::from_parts(place, payload, Some(VersionKind::U64));
            assert_eq!(error.unwrap_err().code(), Code::CorruptData, "{}", place.escape_ascii());
        }
    }
}
