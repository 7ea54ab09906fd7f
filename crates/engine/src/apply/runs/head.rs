//! The head of a run: what an append looks at, whatever the run's length.
//!
//! ```text
//!   format (1) | generation | last sequence | status u8 | flags u8 | made at | tip u64 LE | kept at | kept bytes
//!     [ | shown at ] [ | attempts u64 LE ]     where the flags say so
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

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunHead {
    /// The revision that made the run.
    pub generation: u64,
    pub last_seq: u64,
    pub status: RunStatus,
    pub inconsistent: bool,
    pub created: Stamp,
    /// A hash over all events: runs with equal tips have had equal events.
    pub tip: u64,
    /// The event that a snapshot was last kept at; 0: none was.
    pub kept_seq: u64,
    /// How large that one was.
    pub kept_bytes: u64,
    /// The revision that showed the run, where that is another one than its first events': it was restored where
    /// nobody saw it. 0: it was seen from the beginning.
    pub shown: Revision,
    /// A hash over the attempts that events named, which are not in the tip; 0: none did, or an earlier version wrote them.
    pub attempts: u64,
}

impl RunHead {
    /// The head of a run that is being made.
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

    /// Adds the attempt that an event names.
    pub fn note_attempt(&mut self, attempt: Option<&str>) {
        let Some(attempt) = attempt else { return };
        let hash = super::append::tip(self.attempts, attempt.as_bytes(), None);
        self.attempts = hash.max(1);
    }

    /// Takes over what the events have come to.
    pub fn follow(&mut self, snapshot: &RunSnapshot) {
        self.status = snapshot.status;
        self.inconsistent = snapshot.is_inconsistent();
    }

    /// What is known of the run, with the head's own entry.
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
    let (generation, last_seq) = (get_varint(rest)?, get_varint(rest)?);
    let (status, flags) = (RunStatus::of_number(byte(rest)?)?, byte(rest)?);
    let created = get_varint(rest)?;
    let number = |rest: &mut &[u8]| {
        let (number, tail) = rest.split_first_chunk::<8>()?;
        *rest = tail;
        Some(u64::from_le_bytes(*number))
    };
    let (tip, kept_seq, kept_bytes) = (number(rest)?, get_varint(rest)?, get_varint(rest)?);
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

/// The last event of a run that this transaction showed, by the bytes of its head.
pub(crate) fn shown_seq(head: &[u8], revision: Revision) -> Result<Option<u64>> {
    let head = RunHead::decode(head)?;
    Ok((head.shown == revision).then_some(head.last_seq))
}

/// The last event of a run, by the bytes of its head.
pub(crate) fn last_seq(head: &[u8]) -> Result<u64> {
    RunHead::decode(head).map(|head| head.last_seq)
}

/// A run as a write meets it.
pub(super) struct RunState {
    pub seen: KeyState,
    /// Its head, if it lives.
    pub head: Option<RunHead>,
}

impl RunState {
    /// Whether there was a run of this name that was deleted.
    pub fn is_deleted(&self) -> bool {
        self.head.is_none() && self.seen.counter > 0
    }
}

/// Looks a run up that is to be written.
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

/// The head of a run that lives, and the entry that it stands in.
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

/// What a run was made with.
pub(super) fn metadata(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    generation: u64,
) -> Result<Option<Value>> {
    let (key, hash) = view.key(keyspace::EVENTS, &run_keys::at(run.as_str(), generation, 0));
    let read = |_, payload: &[u8]| mainstay_model::codec::decode(payload);
    Ok(view.find(overlay, &key, hash, read)?.map(|(value, _)| value))
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
        (head.last_seq, head.tip, head.kept_seq) = (300, u64::MAX, 256);
        (head.status, head.inconsistent, head.kept_bytes) = (RunStatus::Failed, true, 1 << 40);
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        assert_eq!(RunHead::decode(&bytes).unwrap(), head);
        for cut in 0..bytes.len() {
            assert!(RunHead::decode(&bytes[..cut]).is_err());
        }
    }
}
