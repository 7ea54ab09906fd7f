//! Deferred deletion: a large run or space disappears at once, and its data is deleted later in batches.
//!
//! ```text
//!   mark: write a marker     0e | branch u32 BE | run 00 | generation           a generation of a run
//!                            0e | branch u32 BE | 00 | space 00 | generation    a generation of a space
//!   reap: marker --> delete keys of that generation in batches; the marker stores the progress --> delete the marker
//! ```
//!
//! No run's name begins with a NUL, so the 00 byte tells a space from a run.

use crate::key::entry::{self, DELETED, QUIET};
use crate::key::keyspace::{self, ALERTS, EVENT_KEYS, EVENTS, KEYED, Key, MAIN_ID, REAPS, STATES};
use crate::key::{run_keys, state_keys};
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::{Index, NEWEST};
use mainstay_model::{Answer, Result};
use std::ops::Bound;

/// Key spaces with data of a deleted run, in the order in which they are emptied.
pub(crate) const LEFT_BY_RUNS: [u8; 4] = [EVENTS, EVENT_KEYS, STATES, ALERTS];

/// Byte that marks a space in the marker's key.
const OF_A_SPACE: u8 = 0;

/// Returns the key of the marker for a deleted generation of a run.
pub(crate) fn run(branch: u32, run: &str, generation: u64) -> Key {
    marker(branch, &[&run_keys::life(run, generation)])
}

/// Returns the key of the marker for a deleted generation of a space.
pub(crate) fn space(branch: u32, space: &str, generation: u64) -> Key {
    marker(branch, &[&[OF_A_SPACE], &state_keys::life(space, generation)])
}

/// Returns whether a marker belongs to a space.
pub(crate) fn is_of_a_space(marker: &[u8]) -> bool {
    let own = keyspace::key(REAPS, MAIN_ID, b"").len();
    let branch = size_of::<u32>();
    marker.get(own + branch) == Some(&OF_A_SPACE)
}

fn marker(branch: u32, parts: &[&[u8]]) -> Key {
    let mut marker = keyspace::key(REAPS, MAIN_ID, &branch.to_be_bytes());
    parts.iter().for_each(|part| marker.extend_from_slice(part));
    marker
}

/// Schedules the deletion by writing its marker.
pub(crate) fn mark(index: &Index, overlay: &mut WriteSet, marker: &Key) -> Result<()> {
    let hash = index.current.hash(marker);
    let payload = Payload::Bytes(b"");
    let write = Write { flags: 0, counter: 1, writes: 1, expires: None, prior: None, payload };
    overlay.write(marker.clone(), hash, write)
}

/// Deletes up to `limit` keys of marked generations. Returns their number, plus one if any marker was written.
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
    // The marker counts too, so that a caller that repeats until 0 does not stop too early.
    Ok(Answer::Count((limit - left) as u64 + u64::from(!overlay.is_empty())))
}

fn again(counter: u64, flags: u8, payload: &[u8]) -> Write<'_> {
    let payload = Payload::Bytes(payload);
    Write { flags, counter: counter + 1, writes: 1, expires: None, prior: None, payload }
}

/// Deletes some keys of one generation. Returns the last deleted key if more keys may follow.
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
        // Continues after the last batch. In a key space that is finished already, this range is empty.
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
