//! Head of a run: the small record that an append reads, whatever the length of the run.
//!
//! ```text
//!   format (1) | generation | last sequence | status u8 | flags u8 | created | tip u64 LE | kept at | kept bytes
//!     [ | shown at ] [ | attempts u64 LE ]     if the flags say so
//! ```

use super::super::key_state::{KeyState, load_with};
use crate::key::keyspace::{self, RUNS};
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, WriteSet};
use mainstay_model::codec::{get_varint, put_varint};
use mainstay_model::{
    Code, Error, Name, Result, Revision, RunInfo, RunSnapshot, RunStatus, Stamp, Value,
};

const FORMAT: u8 = 1;
const INCONSISTENT: u8 = 1;
const SHOWN: u8 = 2;
const ATTEMPTS: u8 = 4;

/// The head of a run, in the format above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunHead {
    /// The revision that created the run.
    pub generation: u64,
    pub last_seq: u64,
    pub status: RunStatus,
    pub inconsistent: bool,
    pub created: Stamp,
    /// Hash over all events. Runs with equal tips have had equal events.
    pub tip: u64,
    /// Sequence number of the last stored snapshot. 0: none.
    pub kept_seq: u64,
    /// Size of that snapshot, in bytes.
    pub kept_bytes: u64,
    /// The revision that made the run visible, if it was restored while it was hidden. 0: visible from the
    /// beginning.
    pub shown: Revision,
    /// Hash over the attempts that events named, which the tip does not cover. 0: no event named one, or an
    /// earlier program version wrote the events.
    pub attempts: u64,
}

impl RunHead {
    /// Returns the head of a new run.
    pub fn new(generation: Revision, created: Stamp) -> RunHead {
        RunHead {
            generation,
            last_seq: 0,
            status: RunStatus::Pending,
            inconsistent: false,
            created,
            tip: 0,
            kept_seq: 0,
            kept_bytes: 0,
            shown: 0,
            attempts: 0,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_varint(out, self.generation);
        put_varint(out, self.last_seq);
        out.push(self.status.number());
        let shown = if self.shown > 0 { SHOWN } else { 0 };
        let attempts = if self.attempts > 0 { ATTEMPTS } else { 0 };
        out.push(attempts | shown | if self.inconsistent { INCONSISTENT } else { 0 });
        put_varint(out, self.created);
        out.extend_from_slice(&self.tip.to_le_bytes());
        put_varint(out, self.kept_seq);
        put_varint(out, self.kept_bytes);
        if self.shown > 0 {
            put_varint(out, self.shown);
        }
        if self.attempts > 0 {
            out.extend_from_slice(&self.attempts.to_le_bytes());
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<RunHead> {
        let mut rest = bytes;
        take(&mut rest).filter(|_| rest.is_empty()).ok_or_else(damaged)
    }

    /// Adds the attempt of an event to the hash of attempts.
    pub fn note_attempt(&mut self, attempt: Option<&str>) {
        let Some(attempt) = attempt else { return };
        let hash = super::append::tip(self.attempts, attempt.as_bytes(), None);
        self.attempts = hash.max(1);
    }

    /// Takes over the status from the snapshot.
    pub fn follow(&mut self, snapshot: &RunSnapshot) {
        self.status = snapshot.status;
        self.inconsistent = snapshot.is_inconsistent();
    }

    /// Returns the description of the run. `entry` is the header of the head's own entry.
    pub fn info(
        &self,
        run: &str,
        entry: &crate::key::entry::EntryHeader,
        metadata: Option<Value>,
    ) -> RunInfo {
        RunInfo {
            run_id: run.to_owned(),
            status: self.status,
            last_event_seq: self.last_seq,
            inconsistent: self.inconsistent,
            created: self.created,
            updated: entry.stamp,
            revision: entry.revision,
            metadata,
        }
    }
}

fn take(rest: &mut &[u8]) -> Option<RunHead> {
    let byte = |rest: &mut &[u8]| {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        Some(byte)
    };
    if byte(rest)? != FORMAT {
        return None;
    }
    let generation = get_varint(rest)?;
    let last_seq = get_varint(rest)?;
    let status = RunStatus::of_number(byte(rest)?)?;
    let flags = byte(rest)?;
    let created = get_varint(rest)?;
    let number = |rest: &mut &[u8]| {
        let (number, tail) = rest.split_first_chunk::<8>()?;
        *rest = tail;
        Some(u64::from_le_bytes(*number))
    };
    let tip = number(rest)?;
    let kept_seq = get_varint(rest)?;
    let kept_bytes = get_varint(rest)?;
    let inconsistent = flags & INCONSISTENT != 0;
    let shown = if flags & SHOWN != 0 { get_varint(rest)? } else { 0 };
    let attempts = if flags & ATTEMPTS != 0 { number(rest)? } else { 0 };
    Some(RunHead {
        generation,
        last_seq,
        status,
        inconsistent,
        created,
        tip,
        kept_seq,
        kept_bytes,
        shown,
        attempts,
    })
}

#[cold]
fn damaged() -> Error {
    Error::new(Code::CorruptData, "the head of a run cannot be read: run `mainstay doctor`")
}

/// Returns the last sequence number from the bytes of a head, if this revision made the run visible.
pub fn shown_seq(head: &[u8], revision: Revision) -> Result<Option<u64>> {
    let head = RunHead::decode(head)?;
    Ok((head.shown == revision).then_some(head.last_seq))
}

/// Returns the last sequence number from the bytes of a head.
pub fn last_seq(head: &[u8]) -> Result<u64> {
    RunHead::decode(head).map(|head| head.last_seq)
}

/// State of a run before a write.
pub(super) struct RunState {
    pub seen: KeyState,
    /// The head, if the run exists.
    pub head: Option<RunHead>,
}

impl RunState {
    /// Returns whether a run of this name existed and was deleted.
    pub fn is_deleted(&self) -> bool {
        self.head.is_none() && self.seen.counter > 0
    }
}

/// Loads a run for a write.
pub(super) fn meet(view: &View<'_>, overlay: &WriteSet, run: &Name) -> Result<RunState> {
    let (seen, head) = load_with(view, overlay, RUNS, run.as_bytes(), RunHead::decode)?;
    Ok(RunState { seen, head })
}

/// Writes a head.
pub(super) fn put(overlay: &mut WriteSet, seen: KeyState, head: &RunHead) -> Result<()> {
    let (start, ()) = overlay.stage(|out| {
        head.encode(out);
        Ok(())
    })?;
    let write = seen.write(0, None, Payload::Staged(start));
    overlay.write(seen.key, seen.hash, write)
}

/// Returns the head of a live run, and the header of its entry.
pub(crate) fn find(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
) -> Result<Option<(RunHead, crate::key::entry::EntryHeader)>> {
    let (key, hash) = view.key(RUNS, run.as_bytes());
    let found = view.find(overlay, &key, hash, |entry, payload| {
        let head = entry.is_live(view.now).then(|| RunHead::decode(payload)).transpose()?;
        Ok(head.map(|head| (head, entry)))
    })?;
    Ok(found.and_then(|(found, _)| found))
}

/// Returns the creation metadata of a run.
pub(super) fn metadata(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    generation: u64,
) -> Result<Option<Value>> {
    let (key, hash) = view.key(keyspace::EVENTS, &run_keys::at(run.as_str(), generation, 0));
    Ok(view
        .find(overlay, &key, hash, |_, payload| mainstay_model::codec::decode(payload))?
        .map(|(value, _)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_as_it_was() {
        comes_back(RunHead::new(7, u64::MAX));
        comes_back(RunHead { shown: 1 << 40, ..RunHead::new(7, u64::MAX) });
        comes_back(RunHead { shown: 1 << 40, attempts: 1, ..RunHead::new(7, u64::MAX) });
    }

    fn comes_back(mut head: RunHead) {
        head.last_seq = 300;
        head.tip = u64::MAX;
        head.kept_seq = 256;
        head.status = RunStatus::Failed;
        head.inconsistent = true;
        head.kept_bytes = 1 << 40;
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        assert_eq!(RunHead::decode(&bytes).unwrap(), head);
        for cut in 0..bytes.len() {
            assert!(RunHead::decode(&bytes[..cut]).is_err());
        }
    }
}
