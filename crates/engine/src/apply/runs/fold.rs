//! Folding: what the events of a run add up to, by the reducer that all runs have.
//!
//! ```text
//!   kept snapshot at 256 --events 257, 258, ... one after the other--> snapshot at any of them
//! ```
//!
//! A snapshot is kept at every 256th event, by the transaction that appends it; of a large one, as seldom as
//! keeping it costs no more than 64 bytes an event. So a read folds at most 255 events, or, of a large snapshot, a
//! number that stands to its size.

use super::head::RunHead;
use crate::base::work::Exempt;
use crate::key::keyspace::{Key, STATES};
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use hashbrown::HashMap;
use mainstay_model::{Judgement, Name, Result, RunSnapshot, peek_event, reduce_parts};

/// How many events lie between two snapshots that are kept.
pub(crate) const KEEP_EVENTS: u64 = 256;
/// What keeping may cost, in bytes an event.
const KEEP_BYTES: u64 = 64;
/// Larger snapshots are not kept: they would not fit into a transaction beside what it is for.
pub(crate) const KEEP_LIMIT_BYTES: usize = 16 << 20;
/// How many events lie between two times that a snapshot is weighed.
const WEIGH_EVENTS: u64 = 64;
/// How much memory half of the remembered snapshots take.
const HALF_BYTES: usize = 32 << 20;

/// The newest snapshots of runs that are appended to, so that the writer need not fold them anew.
///
/// A snapshot follows from the events, and the tip of a head, with its hash of attempts, tells them: what is remembered under a tip is right
/// wherever it is met, whatever was undone or given up in between.
#[derive(Default)]
pub(crate) struct Folds {
    young: HashMap<Key, RememberedFold>,
    old: HashMap<Key, RememberedFold>,
    young_bytes: usize,
    /// How they served.
    pub counts: FoldCounts,
}

/// How remembered snapshots served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoldCounts {
    /// Appends that found the snapshot of their run.
    pub remembered: u64,
    /// Appends that folded it anew.
    pub anew: u64,
    /// Snapshots that were kept.
    pub kept: u64,
}

struct RememberedFold {
    generation: u64,
    tip: u64,
    attempts: u64,
    /// What it takes, as of when it was last weighed.
    bytes: usize,
    snapshot: RunSnapshot,
}

impl Folds {
    /// Takes a snapshot out, with what it takes, if it is that of a head.
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

    /// The memory that they take, at most.
    pub fn held_bytes(&self) -> usize {
        let old = if self.old.is_empty() { 0 } else { HALF_BYTES };
        self.young_bytes + old
    }

    /// Forgets the snapshot of a run that is deleted. If its transaction is given up, it is folded anew.
    pub(super) fn forget(&mut self, key: &Key) {
        self.old.remove(key);
        self.young_bytes -= self.young.remove(key).map_or(0, |young| young.bytes);
    }

    /// Remembers the snapshot of a head.
    fn put(&mut self, key: Key, head: &RunHead, snapshot: RunSnapshot, bytes: Option<usize>) {
        let RunHead { generation, tip, attempts, .. } = *head;
        // A large one is not weighed with every event.
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

/// Adds an event that is about to be written to what its run has come to, and keeps that from time to time.
pub(super) struct FoldStep<'s> {
    pub run: &'s Name,
    pub head_key: &'s Key,
    pub event_type: &'s str,
    pub step: Option<&'s str>,
    pub attempt: Option<&'s str>,
}

impl FoldStep<'_> {
    /// Gives the head that follows, and why the event is illegal if it is. `head` is the one before, `tip` the next
    /// one's.
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
                // However long the run is: an event that cannot be appended today could never be.
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

/// Whether it is time to keep a snapshot.
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
    // Keeping is only to save time: where it cannot be done, whoever folds, folds from the one before.
    if bytes.len() > KEEP_LIMIT_BYTES {
        // Asked again when as many events have come as it would cost.
        (head.kept_seq, head.kept_bytes) = (head.last_seq, bytes.len() as u64);
        return Ok(());
    }
    if overlay.check_room(2 * bytes.len()).is_err() {
        return Ok(());
    }
    let place = run_keys::snapshot(run.as_str(), head.generation, head.last_seq);
    let (key, hash) = view.key(STATES, &place);
    overlay.write(key, hash, fresh(Payload::Bytes(&bytes)))?;
    (head.kept_seq, head.kept_bytes) = (head.last_seq, bytes.len() as u64);
    Ok(())
}

/// A write of something that is written once.
pub(super) fn fresh(payload: Payload<'_>) -> Write<'_> {
    Write { flags: 0, counter: 1, writes: 1, expires: None, prior: None, payload }
}

/// What the events up to one of them add up to.
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

/// What all events up to one of them add up to, none of what is kept being looked at.
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
        let (step, attempt) = (event.step.as_deref(), event.attempt.as_deref());
        reduce_parts(snapshot, seq, &event.event_type, step, attempt);
        Ok(true)
    })
}

/// The last snapshot that was kept up to an event by the reducer as it is now. One of an earlier reducer may differ from what
/// the events add up to, and so may all before it.
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

#[cfg(test)]
mod tests {
    use crate::{Database, NewEvent};

    /// How many snapshots are remembered, and what they take.
    fn remembered(db: &Database) -> (usize, usize) {
        let core = db.here("a test").unwrap();
        core.sequencer.with_exec(|exec| {
            exec.with_folds(|folds| (folds.young.len() + folds.old.len(), folds.young_bytes))
        })
    }

    /// They stayed until 64 MiB were full, and pushed out those of runs that live.
    #[test]
    fn what_is_remembered_of_a_run_goes_with_it() {
        let db = Database::memory().unwrap();
        let append = |number: u64| {
            db.runs()
                .append(NewEvent::new(&format!("run/{number:02}"), "Noted").with_key("a"))
                .unwrap()
        };
        (0..50).for_each(|number| drop(append(number)));
        let (count, bytes) = remembered(&db);
        assert!(count == 50 && bytes > 0);
        (1..50).for_each(|number| assert!(db.runs().delete(&format!("run/{number:02}")).unwrap()));
        assert_eq!(remembered(&db), (1, bytes / 50));
        assert!(!db.runs().delete("run/none").unwrap());
    }
}
