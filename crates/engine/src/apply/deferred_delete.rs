//! Reaping: what is large is gone at once, and what it leaves goes in pieces.
//!
//! ```text
//!   mark: a marker waits     0e | branch u32 BE | run 00 | generation           a life of a run
//!                            0e | branch u32 BE | 00 | space 00 | generation    a generation of a space
//!   reap: marker --> what begins with that life, some at a time; the marker remembers how far --> the marker goes
//! ```
//!
//! No name begins with a NUL, so nobody takes a space for a run.

use crate::key::entry::{self, DELETED, QUIET};
use crate::key::keyspace::{self, ALERTS, EVENT_KEYS, EVENTS, KEYED, Key, MAIN_ID, REAPS, STATES};
use crate::key::{run_keys, state_keys};
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use mainstay_model::{Answer, Result};
use std::ops::Bound;

/// What a run leaves, in the order in which it goes.
pub(crate) const LEFT_BY_RUNS: [u8; 4] = [EVENTS, EVENT_KEYS, STATES, ALERTS];

/// What tells a space from a run.
const OF_A_SPACE: u8 = 0;

/// Where the marker of a run's life that is over waits.
pub(crate) fn run(branch: u32, run: &str, generation: u64) -> Key {
    marker(branch, &[&run_keys::life(run, generation)])
}

/// Where the marker of a space's generation that is over waits.
pub(crate) fn space(branch: u32, space: &str, generation: u64) -> Key {
    marker(branch, &[&[OF_A_SPACE], &state_keys::life(space, generation)])
}

/// Whether a marker is of a space.
pub(crate) fn is_of_a_space(marker: &[u8]) -> bool {
    let (own, branch) = (keyspace::key(REAPS, MAIN_ID, b"").len(), size_of::<u32>());
    marker.get(own + branch) == Some(&OF_A_SPACE)
}

fn marker(branch: u32, parts: &[&[u8]]) -> Key {
    let mut marker = keyspace::key(REAPS, MAIN_ID, &branch.to_be_bytes());
    parts.iter().for_each(|part| marker.extend_from_slice(part));
    marker
}

/// Lets what is over go.
pub(crate) fn mark(index: &Index, overlay: &mut WriteSet, marker: &Key) -> Result<()> {
    let hash = index.current.hash(marker);
    let payload = Payload::Bytes(b"");
    let write = Write { flags: 0, counter: 1, writes: 1, expires: None, prior: None, payload };
    overlay.write(marker.clone(), hash, write)
}

/// Deletes what was left, at most so many keys; says how many.
pub(crate) fn reap(index: &Index, overlay: &mut WriteSet, limit: usize) -> Result<Answer> {
    let from = keyspace::key(REAPS, MAIN_ID, b"");
    let end = [REAPS + 1];
    let mut left = limit;
    for row in index.scan(Bound::Included(&from), Bound::Excluded(&end), NEWEST) {
        let row = row?;
        let (head, progress) = entry::parse(row.entry())?;
        if head.is_deleted() {
            continue;
        }
        let marker = Key::from_slice(row.key());
        let reached = reap_one(index, overlay, &marker, progress, &mut left)?;
        let hash = index.current.hash(&marker);
        let write = match &reached {
            Some(reached) => again(head.counter, 0, reached),
            None => again(head.counter, DELETED, b""),
        };
        overlay.write(marker, hash, write)?;
        if left == 0 {
            break;
        }
    }
    // A marker that goes counts, too: whoever asks for more than nothing asks again.
    Ok(Answer::Count((limit - left) as u64 + u64::from(!overlay.is_empty())))
}

fn again(counter: u64, flags: u8, payload: &[u8]) -> Write<'_> {
    let payload = Payload::Bytes(payload);
    Write { flags, counter: counter + 1, writes: 1, expires: None, prior: None, payload }
}

/// Deletes some of what one life has left; gives the last key if more may follow.
fn reap_one(
    index: &Index,
    overlay: &mut WriteSet,
    marker: &[u8],
    progress: &[u8],
    left: &mut usize,
) -> Result<Option<Vec<u8>>> {
    let Some(name) = keyspace::split(marker).map(|(_, _, name)| name) else { return Ok(None) };
    let Some((branch, life)) = name.split_first_chunk::<4>() else { return Ok(None) };
    let branch = u32::from_be_bytes(*branch);
    let (left_in, life): (&[u8], &[u8]) = match life.strip_prefix(&[OF_A_SPACE]) {
        Some(life) => (&[KEYED], life),
        None => (&LEFT_BY_RUNS, life),
    };
    let mut reached = Key::from_slice(progress);
    for &space in left_in {
        let from = keyspace::key(space, branch, life);
        let Some(end) = keyspace::after_prefix(&from) else { continue };
        let from =
            if reached > from { Bound::Excluded(&reached[..]) } else { Bound::Included(&from[..]) };
        let rows = index.scan(from, Bound::Excluded(&end), NEWEST);
        for row in rows {
            if *left == 0 {
                return Ok(Some(reached.to_vec()));
            }
            let row = row?;
            let (head, _) = entry::parse(row.entry())?;
            if head.is_deleted() {
                continue;
            }
            *left -= 1;
            reached = Key::from_slice(row.key());
            let hash = index.current.hash(&reached);
            overlay.write(reached.clone(), hash, again(head.counter, DELETED | QUIET, b""))?;
        }
    }
    Ok(None)
}
