//! Fold of a run's events into a snapshot, by the built-in reducer of all runs.
//!
//! ```text
//!   stored snapshot at 256 --apply events 257, 258, ... in order--> snapshot at any of them
//! ```
//!
//! The transaction that appends every 256th event stores a snapshot. A large snapshot is stored less often,
//! so that it costs at most 64 bytes per event. So a read folds at most 255 events, or a number that is
//! proportional to the size of a large snapshot.

use super::head::RunHead;
use crate::base::work::Exempt;
use crate::key::keyspace::{Key, STATES};
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use hashbrown::HashMap;
use mainstay_model::{Judgement, Name, Result, RunSnapshot, peek_event, reduce_parts};

/// Number of events between two stored snapshots.
pub(crate) const KEEP_EVENTS: u64 = 256;
/// Maximal cost of stored snapshots, in bytes per event.
const KEEP_BYTES: u64 = 64;
/// Larger snapshots are not stored, because they would not fit into a transaction beside its own writes.
pub(crate) const KEEP_LIMIT_BYTES: usize = 16 << 20;
/// Number of events between two measurements of a snapshot's size.
const WEIGH_EVENTS: u64 = 64;
/// Memory limit of each half of the cache, in bytes.
const HALF_BYTES: usize = 32 << 20;

/// Cache of the newest snapshots of runs, so that the writer need not fold the events again.
///
/// A snapshot follows from the events, and the head's tip and hash of attempts identify these. So a snapshot
/// that is cached under a tip is right in any case, even if a transaction was undone or abandoned in between.
#[derive(Default)]
pub struct Folds {
    pub young: HashMap<Key, RememberedFold>,
    pub old: HashMap<Key, RememberedFold>,
    pub young_bytes: usize,
    /// Hits and misses of the cache.
    pub counts: FoldCounts,
}

/// Hits and misses of the cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldCounts {
    /// Appends that found the snapshot of their run in the cache.
    pub remembered: u64,
    /// Appends that had to fold the events again.
    pub anew: u64,
    /// Snapshots that were stored.
    pub kept: u64,
}

pub struct RememberedFold {
    generation: u64,
    tip: u64,
    attempts: u64,
    /// Memory that the snapshot took when it was last measured.
    bytes: usize,
    snapshot: RunSnapshot,
}

impl Folds {
    /// Takes a snapshot and its size out of the cache, if it belongs to this head.
    fn take(&mut self, key: &Key, head: &RunHead) -> Option<(RunSnapshot, usize)> {
        let young = self.young.remove(key);
        self.young_bytes -= young.as_ref().map_or(0, |young| young.bytes);
        let remembered = young.or_else(|| self.old.remove(key))?;
        let is_same = remembered.generation == head.generation
            && remembered.tip == head.tip
            && remembered.attempts == head.attempts
            && remembered.snapshot.last_event_seq == head.last_seq;
        is_same.then_some((remembered.snapshot, remembered.bytes))
    }

    /// Returns an upper bound of the cache's memory.
    pub fn held_bytes(&self) -> usize {
        let old = if self.old.is_empty() { 0 } else { HALF_BYTES };
        self.young_bytes + old
    }

    /// Drops the snapshot of a run that is deleted. If the transaction is abandoned, the next append folds
    /// the events again.
    pub(super) fn forget(&mut self, key: &Key) {
        self.old.remove(key);
        self.young_bytes -= self.young.remove(key).map_or(0, |young| young.bytes);
    }

    /// Caches the snapshot of a head.
    fn put(&mut self, key: Key, head: &RunHead, snapshot: RunSnapshot, bytes: Option<usize>) {
        let RunHead { generation, tip, attempts, .. } = *head;
        // The size is not measured with every event, because that is slow for a large snapshot.
        let weighed = bytes.filter(|_| !head.last_seq.is_multiple_of(WEIGH_EVENTS));
        let bytes = weighed.unwrap_or_else(|| 256 + key.len() + snapshot.weight_bytes());
        self.young_bytes += bytes;
        self.young.insert(key, RememberedFold { generation, tip, attempts, bytes, snapshot });
        if self.young_bytes > HALF_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

/// Applies an event that is about to be written to the run's snapshot, and stores the snapshot from time to
/// time.
pub(super) struct FoldStep<'s> {
    pub run: &'s Name,
    pub head_key: &'s Key,
    pub event_type: &'s str,
    pub step: Option<&'s str>,
    pub attempt: Option<&'s str>,
}

impl FoldStep<'_> {
    /// Returns the next head, and the reason if the event is illegal. `head` is the previous head, `tip` that
    /// of the next one.
    pub fn fold(
        &self,
        view: &View<'_>,
        overlay: &mut WriteSet,
        folds: &mut Folds,
        head: &RunHead,
        tip: u64,
    ) -> Result<(RunHead, Option<String>)> {
        let (mut snapshot, bytes) = match folds.take(self.head_key, head) {
            Some((snapshot, bytes)) => {
                folds.counts.remembered += 1;
                (snapshot, Some(bytes))
            }
            None => {
                folds.counts.anew += 1;
                // The first fold of a transaction does not count against the budget: otherwise no event could
                // ever be appended to a run that needs a longer fold.
                let view = view.uncounted_once(Exempt::Fold);
                (self::upto(&view, overlay, self.run, head, head.last_seq)?, None)
            }
        };
        let mut next = RunHead { last_seq: head.last_seq + 1, tip, ..*head };
        next.note_attempt(self.attempt);
        let FoldStep { event_type, step, attempt, .. } = *self;
        let judgement = reduce_parts(&mut snapshot, next.last_seq, event_type, step, attempt);
        next.follow(&snapshot);
        if is_due(&next) {
            keep(view, overlay, self.run, &mut next, &snapshot)?;
            folds.counts.kept += u64::from(next.kept_seq == next.last_seq);
        }
        folds.put(self.head_key.clone(), &next, snapshot, bytes);
        let illegal = match judgement {
            Judgement::Illegal(why) => Some(why),
            _ => None,
        };
        Ok((next, illegal))
    }
}

/// Returns whether a snapshot has to be stored now.
fn is_due(head: &RunHead) -> bool {
    let apart = KEEP_EVENTS.max(head.kept_bytes / KEEP_BYTES);
    head.last_seq.is_multiple_of(KEEP_EVENTS) && head.last_seq - head.kept_seq >= apart
}

fn keep(
    view: &View<'_>,
    overlay: &mut WriteSet,
    run: &Name,
    head: &mut RunHead,
    snapshot: &RunSnapshot,
) -> Result<()> {
    let mut bytes = Vec::new();
    snapshot.encode(&mut bytes);
    // Storing is only an optimization. If it is not possible, readers fold from the previous snapshot.
    if bytes.len() > KEEP_LIMIT_BYTES {
        // The next attempt comes after as many events as this size would cost.
        head.kept_seq = head.last_seq;
        head.kept_bytes = bytes.len() as u64;
        return Ok(());
    }
    if overlay.check_room(2 * bytes.len()).is_err() {
        return Ok(());
    }
    let place = run_keys::snapshot(run.as_str(), head.generation, head.last_seq);
    let (key, hash) = view.key(STATES, &place);
    overlay.write(key, hash, fresh(Payload::Bytes(&bytes)))?;
    head.kept_seq = head.last_seq;
    head.kept_bytes = bytes.len() as u64;
    Ok(())
}

/// Returns a write for a key that is written only once.
pub(super) fn fresh(payload: Payload<'_>) -> Write<'_> {
    Write { flags: 0, counter: 1, writes: 1, expires: None, prior: None, payload }
}

/// Returns the snapshot after an event.
pub(super) fn upto(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    head: &RunHead,
    seq: u64,
) -> Result<RunSnapshot> {
    let mut snapshot = match nearest(view, overlay, run, head, seq)? {
        Some(snapshot) => snapshot,
        None => RunSnapshot::new(run.as_str()),
    };
    let from = snapshot.last_event_seq;
    fold(view, overlay, run, head.generation, &mut snapshot, from, seq)?;
    Ok(snapshot)
}

/// Folds all events, without the stored snapshots.
pub(super) fn project(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    head: &RunHead,
) -> Result<RunSnapshot> {
    let mut snapshot = RunSnapshot::new(run.as_str());
    fold(view, overlay, run, head.generation, &mut snapshot, 0, head.last_seq)?;
    Ok(snapshot)
}

fn fold(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    generation: u64,
    snapshot: &mut RunSnapshot,
    after: u64,
    upto: u64,
) -> Result<()> {
    let log = super::read::RunEvents { view, overlay, run, generation };
    log.each(after, upto, |seq, _, payload| {
        let event = peek_event(payload).ok_or_else(|| super::read::damaged(run.as_str(), seq))?;
        let step = event.step.as_deref();
        let attempt = event.attempt.as_deref();
        reduce_parts(snapshot, seq, &event.event_type, step, attempt);
        Ok(true)
    })
}

/// Returns the last snapshot up to an event that the current reducer stored. A snapshot of an earlier reducer
/// may differ from the fold of the events, and so may all snapshots before it.
fn nearest(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    head: &RunHead,
    seq: u64,
) -> Result<Option<RunSnapshot>> {
    let mut at = (seq - seq % KEEP_EVENTS).min(head.kept_seq);
    while at > 0 {
        let place = run_keys::snapshot(run.as_str(), head.generation, at);
        let (key, hash) = view.key(STATES, &place);
        let read = |_, payload: &[u8]| {
            let is_current = RunSnapshot::is_current(payload);
            is_current.then(|| RunSnapshot::decode(payload, run.as_str())).transpose()
        };
        if let Some((snapshot, _)) = view.find(overlay, &key, hash, read)? {
            return Ok(snapshot);
        }
        at -= KEEP_EVENTS;
    }
    Ok(None)
}
