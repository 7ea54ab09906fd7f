//! Key layout: the table of all key spaces.
//!
//! ```text
//!  | space u8 | branch u32 BE | name ... |
//! ```
//!
//! | space | holds | name |
//! |---|---|---|
//! | 0x01 | cells | the cell's name |
//! | 0x02 | records | the record's key |
//! | 0x03 | heads of runs | the run |
//! | 0x04 | events of runs | run, 0x00, generation u64 BE, sequence u64 BE |
//! | 0x05 | idempotency keys of events | run, 0x00, generation u64 BE, key |
//! | 0x06 | entries of indexes over records | index u32 BE, values of its fields, the record's key |
//! | 0x07 | run snapshots, reducer states | run, 0x00, generation u64 BE, 0x00 and sequence u64 BE, or 0x01 and reducer |
//! | 0x08 | alerts: events that are invalid after those before them | run, 0x00, generation u64 BE, sequence u64 BE |
//! | 0x09 | the outbox | a byte for the kind, then an id, a time or a run |
//! | 0x0a | spaces of keyed state | the space |
//! | 0x0b | entries of keyed state | space, 0x00, generation u64 BE, a byte for the kind, then a key, a version, an id or a source |
//! | 0x0c | sessions | the session |
//! | 0x0d | responses of sessions, and messages to their clients | session, 0x00, `R` and a slot or `S` and a number, u64 BE |
//! | 0x0e | deferred deletes | branch u32 BE, run, 0x00, generation u64 BE; for a space the same after a 0x00 |
//! | 0x0f | declarations of indexes | id u32 BE |
//! | 0x10 | branches | id u32 BE |
//! | 0x11 | tags | the tag's name |
//! | 0x12 | receipts of named requests | the request id |
//! | 0x13 | pending expiries | stamp u64 BE, then the key that expires |
//! | 0x14 | merges | into u32 BE, from u32 BE, into revision u64 BE |
//! | 0x15 | stamps of revisions | first revision u64 BE |
//!
//! Key spaces from 0x0c on belong to the whole database, not to a branch. Their branch is 0, and only their
//! newest version is used.

use mainstay_model::{Code, Contract, Error, Result};
use smallvec::SmallVec;

/// Cells.
pub const CELLS: u8 = 0x01;
/// Records.
pub const RECORDS: u8 = 0x02;
/// Entries of indexes over records.
pub const ENTRIES: u8 = 0x06;
/// Heads of runs: the newest state of each run.
pub const RUNS: u8 = 0x03;
/// Events of runs.
pub const EVENTS: u8 = 0x04;
/// Idempotency keys of events.
pub const EVENT_KEYS: u8 = 0x05;
/// Snapshots of runs, and states of users' reducers.
pub const STATES: u8 = 0x07;
/// Alerts: events that are invalid after those before them.
pub const ALERTS: u8 = 0x08;
/// Outbox messages and their bookkeeping.
pub const OUTBOX: u8 = 0x09;
/// Spaces of keyed state.
pub const SPACES: u8 = 0x0a;
/// Entries of keyed state.
pub const KEYED: u8 = 0x0b;
/// Key spaces of user data on branches. Of a run only the head is listed, because it changes with every write
/// to the run.
pub(crate) const DATA: [u8; 5] = [CELLS, RECORDS, RUNS, SPACES, KEYED];
/// Sessions. The first key space that belongs to the whole database.
pub const SESSIONS: u8 = 0x0c;
/// Responses of sessions, and messages to their clients.
pub const SESSION_DATA: u8 = 0x0d;
/// Deferred deletes: dropped runs and spaces whose data remains.
pub const REAPS: u8 = 0x0e;
/// Declarations of indexes over records.
pub(crate) const INDEXES: u8 = 0x0f;
/// The branches of the database.
pub const BRANCHES: u8 = 0x10;
/// Tags: pinned revisions.
pub(crate) const TAGS: u8 = 0x11;
/// Receipts of requests that have an id.
pub const RECEIPTS: u8 = 0x12;
/// Pending expiries, by time.
pub(crate) const EXPIRIES: u8 = 0x13;
/// The merges between branches.
pub(crate) const MERGES: u8 = 0x14;
/// Timestamps of revisions.
pub const TIMES: u8 = 0x15;

pub const MAIN_ID: u32 = 0;

/// Length of the prefix before the name: key space and branch.
pub const PREFIX_BYTES: usize = 5;

/// The prefix of cells on `main`.
pub const CELLS_ON_MAIN: [u8; PREFIX_BYTES] = [CELLS, 0, 0, 0, 0];

/// The prefix of records on `main`.
pub(crate) const RECORDS_ON_MAIN: [u8; PREFIX_BYTES] = [RECORDS, 0, 0, 0, 0];

/// The prefix of heads of runs on `main`.
pub(crate) const RUNS_ON_MAIN: [u8; PREFIX_BYTES] = [RUNS, 0, 0, 0, 0];

/// The prefix of spaces of keyed state on `main`.
pub(crate) const SPACES_ON_MAIN: [u8; PREFIX_BYTES] = [SPACES, 0, 0, 0, 0];

/// A full key, as the index stores it.
pub(crate) type Key = SmallVec<[u8; 48]>;

/// Returns the key space of a contract, or an error if the contract has no keys.
pub fn of(contract: Contract) -> Result<u8> {
    match contract {
        Contract::Cells => Ok(CELLS),
        Contract::Records => Ok(RECORDS),
        Contract::Runs => Ok(RUNS),
        Contract::Keyed => Ok(SPACES),
        other => {
            let message = format!("{other:?} have no keys that could be watched");
            Err(Error::new(Code::InvalidArgument, message))
        }
    }
}

/// Builds a key from its parts.
#[inline]
pub fn key(space: u8, branch: u32, name: &[u8]) -> Key {
    let mut key = Key::new();
    key.push(space);
    key.extend_from_slice(&branch.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// Returns the key of a pending expiry.
pub(crate) fn expiry_key(expires: u64, key: &[u8]) -> Key {
    let mut marker = self::key(EXPIRIES, MAIN_ID, &expires.to_be_bytes());
    marker.extend_from_slice(key);
    marker
}

/// Splits a key into key space, branch and name. Returns `None` if it is too short.
#[inline]
pub fn split(key: &[u8]) -> Option<(u8, u32, &[u8])> {
    let (prefix, name) = key.split_first_chunk::<PREFIX_BYTES>()?;
    let branch = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    Some((prefix[0], branch, name))
}

/// Returns whether the key space belongs to the whole database.
#[inline]
pub(crate) fn is_system(space: u8) -> bool {
    space >= SESSIONS
}

/// Returns whether writes to the key space are recorded for conflict detection: user data and branches.
#[inline]
pub(crate) fn is_on_trail(space: u8) -> bool {
    DATA.contains(&space) || space == BRANCHES
}

/// Returns whether the key space belongs to runs or to the outbox.
#[inline]
pub(crate) fn is_of_runs(space: u8) -> bool {
    matches!(space, RUNS | EVENTS | EVENT_KEYS | STATES | ALERTS | OUTBOX)
}

/// Returns whether keys of this space are only scanned, never looked up. The version cache holds none of
/// them.
#[inline]
pub(crate) fn is_only_walked(space: u8) -> bool {
    space == ENTRIES
}

/// Returns the smallest key after all keys that begin with `prefix`, or `None` if no such key exists.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_splits_into_what_it_was_made_of() {
        assert_eq!(split(&key(CELLS, 7, b"name")), Some((CELLS, 7, &b"name"[..])));
        assert_eq!(split(b"abc"), None);
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_of_it() {
        assert_eq!(after_prefix(b"a"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
    }
}
