//! Deleting: a run is gone at once, what it leaves goes in pieces.
//!
//! ```text
//!   delete: the head says so, and a marker waits -- 0e | branch u32 BE | run 00 | generation
//!   reap:   marker --> events, keys, states, alerts, some at a time; the marker remembers how far --> the marker goes
//! ```

use super::{head, hidden, places};
use crate::apply::keys::remove;
use crate::entry::{self, DELETED};
use crate::index::{Index, NEWEST};
use crate::overlay::{Overlay, Payload, Write};
use crate::spaces::{self, ALERTS, EVENT_KEYS, EVENTS, Key, MAIN_ID, REAPS, STATES};
use crate::view::View;
use mainstay_model::{Answer, Code, Error, Name, Result, Revision};
use std::ops::Bound;

/// What a run leaves, in the order in which it goes.
pub(super) const LEFT: [u8; 4] = [EVENTS, EVENT_KEYS, STATES, ALERTS];

/// Deletes a run; says whether there was one.
pub(super) fn delete(
    view: &View<'_>,
    overlay: &mut Overlay,
    run: &Name,
    revision: Revision,
) -> Result<bool> {
    let met = head::meet(view, overlay, run)?;
    let Some(head) = met.head else {
        // What a restoring that was broken off has left goes, too.
        hidden::give_up(view, overlay, run, revision)?;
        return Ok(false);
    };
    if head.generation == revision {
        // Its life is known by the revision that made it: a further one could not be told from it.
        let message = format!("run `{run}` was made in the same transaction: delete it in another");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    mark(view.index, overlay, view.branch(), run, head.generation)?;
    remove(overlay, met.seen)?;
    Ok(true)
}

/// Lets what a life of a run has left go.
pub(crate) fn mark(
    index: &Index,
    overlay: &mut Overlay,
    branch: u32,
    run: &Name,
    generation: u64,
) -> Result<()> {
    let key = marker(branch, run.as_str(), generation);
    let hash = index.current.hash(&key);
    overlay.write(key, hash, super::fold::fresh(Payload::Bytes(b"")))
}

/// Where the marker of a life that is over waits.
pub(super) fn marker(branch: u32, run: &str, generation: u64) -> Key {
    let mut name = branch.to_be_bytes().to_vec();
    name.extend_from_slice(&places::life(run, generation));
    spaces::key(REAPS, MAIN_ID, &name)
}

/// Deletes what runs have left, at most so many keys; says how many.
pub(crate) fn reap(index: &Index, overlay: &mut Overlay, limit: usize) -> Result<Answer> {
    let from = spaces::key(REAPS, MAIN_ID, b"");
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

/// Deletes some of what one life of a run has left; gives the last key if more may follow.
fn reap_one(
    index: &Index,
    overlay: &mut Overlay,
    marker: &[u8],
    progress: &[u8],
    left: &mut usize,
) -> Result<Option<Vec<u8>>> {
    let Some(name) = spaces::split(marker).map(|(_, _, name)| name) else { return Ok(None) };
    let Some((branch, life)) = name.split_first_chunk::<4>() else { return Ok(None) };
    let branch = u32::from_be_bytes(*branch);
    let mut reached = Key::from_slice(progress);
    for space in LEFT {
        let from = spaces::key(space, branch, life);
        let Some(end) = spaces::after_prefix(&from) else { continue };
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
            overlay.write(reached.clone(), hash, again(head.counter, DELETED, b""))?;
        }
    }
    Ok(None)
}
