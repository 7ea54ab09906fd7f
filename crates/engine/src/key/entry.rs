//! Entry format: the header and payload stored for one version of a key.
//!
//! ```text
//!  0      1          9        17
//!  | flags | revision | stamp | counter | writes | [expires] | payload ...
//!    u8      u64 LE     u64 LE  varint    varint   u64 LE
//! ```
//!
//! The revision has a fixed offset because compaction reads it there. Deletions are entries too. They keep
//! the counter, so that a stale compare-and-swap cannot succeed.

use crate::base::clock::{Clock, SystemClock};
use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Error, Result, Revision, Stamp, codec};

/// The entry is a tombstone: the key is absent from this version on.
pub const DELETED: u8 = 1;
/// The entry has an expiry time.
pub(crate) const EXPIRES: u8 = 2;
/// The tombstone was written because the expiry time was reached.
pub(crate) const EXPIRED: u8 = 4;
/// The previous value expired just before this write, in the same transaction.
pub(crate) const LAPSED: u8 = 8;

/// The feed skips this entry, because another event covers it.
pub(crate) const QUIET: u8 = 16;

/// Returns the error for an internal record, such as a branch's, that cannot be decoded.
#[cold]
pub(crate) fn damaged_record(kind: &str) -> Error {
    Error::new(Code::CorruptData, format!("the record of a {kind} cannot be read"))
}

/// The header of an entry: everything about a version except its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    pub flags: u8,
    pub revision: Revision,
    pub stamp: Stamp,
    pub counter: u64,
    /// Number of writes that were merged into this version.
    pub writes: u64,
    pub expires: Option<Stamp>,
}

impl EntryHeader {
    pub fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    /// Returns whether the key exists for a reader at time `now`.
    pub fn is_live(&self, now: Stamp) -> bool {
        let now = if fault_points::is(InjectedFault::ExpiryByWallClock) {
            SystemClock::new().wall_us()
        } else {
            now
        };
        !self.is_deleted() && self.expires.is_none_or(|expires| expires > now)
    }

    /// Returns whether the expiry time has passed but no tombstone was written yet.
    pub fn is_lapsed(&self, now: Stamp) -> bool {
        !self.is_deleted() && self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns whether this entry is only an expiry. A tombstone that merges several writes is not one,
    /// because it tells only that the last of them was an expiry.
    pub fn is_sweep(&self) -> bool {
        self.flags & EXPIRED != 0 && self.writes == 1
    }

    /// Appends the encoded entry. The `EXPIRES` flag is derived from `expires`.
    #[inline]
    pub fn write(&self, payload: &[u8], out: &mut Vec<u8>) {
        let flags = self.flags & !EXPIRES | if self.expires.is_some() { EXPIRES } else { 0 };
        out.push(flags);
        out.extend_from_slice(&self.revision.to_le_bytes());
        out.extend_from_slice(&self.stamp.to_le_bytes());
        codec::put_varint(out, self.counter);
        codec::put_varint(out, self.writes);
        if let Some(expires) = self.expires {
            out.extend_from_slice(&expires.to_le_bytes());
        }
        out.extend_from_slice(payload);
    }
}

/// Splits an entry into its header and payload.
#[inline]
pub fn parse(entry: &[u8]) -> Result<(EntryHeader, &[u8])> {
    try_parse(entry).ok_or_else(damaged)
}

#[inline]
fn try_parse(entry: &[u8]) -> Option<(EntryHeader, &[u8])> {
    let (&flags, rest) = entry.split_first()?;
    let (revision, rest) = rest.split_first_chunk::<8>()?;
    let (stamp, mut rest) = rest.split_first_chunk::<8>()?;
    let counter = codec::get_varint(&mut rest)?;
    let writes = codec::get_varint(&mut rest)?;
    let expires = if flags & EXPIRES != 0 {
        let (expires, tail) = rest.split_first_chunk::<8>()?;
        rest = tail;
        Some(u64::from_le_bytes(*expires))
    } else {
        None
    };
    let revision = u64::from_le_bytes(*revision);
    let stamp = u64::from_le_bytes(*stamp);
    Some((EntryHeader { flags, revision, stamp, counter, writes, expires }, rest))
}

#[cold]
fn damaged() -> Error {
    Error::new(Code::CorruptData, "a stored entry cannot be read: run `mainstay doctor`")
}

/// Reads the revision of an entry without parsing the rest.
#[inline]
pub fn revision_of(entry: &[u8]) -> Revision {
    match entry.get(1..9).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => u64::from_le_bytes(bytes),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_as_it_was() {
        for expires in [None, Some(77)] {
            let flags = LAPSED | if expires.is_some() { EXPIRES } else { 0 };
            let head = EntryHeader {
                flags,
                revision: 9,
                stamp: u64::MAX,
                counter: 300,
                writes: 2,
                expires,
            };
            let mut bytes = Vec::new();
            head.write(b"payload", &mut bytes);
            assert_eq!(parse(&bytes).unwrap(), (head, &b"payload"[..]));
            assert_eq!(revision_of(&bytes), 9);
            for cut in 0..bytes.len() - 7 {
                assert!(parse(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
