//! Append to runs: gives each event the next sequence number, once per idempotency key.
//!
//! ```text
//!   event --key known?--> yes: the first event's sequence, nothing is written
//!            |no
//!            v
//!   head { last n } --> event n + 1, its key, the head { last n + 1 }     three writes, whatever n is
//! ```

use super::super::outbox::{self, transfer};
use super::fold::{FoldStep, Folds, fresh};
use super::head::{self, RunHead, RunState};
use super::read::RunEvents;
use super::staged_restore;
use crate::key::entry::QUIET;
use crate::key::keyspace::{ALERTS, EVENT_KEYS, EVENTS, Key, STATES};
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use mainstay_model::codec::{get_varint, put_varint};
use mainstay_model::limits::VALUE_LIMIT_BYTES;
use mainstay_model::{
    Appended, CanonicalEvent, Code, Error, Instant, Name, NewEvent, Result, Revision, Stamp, Value,
    codec, event_id,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest event: data of the largest size, plus room for its other fields.
const EVENT_LIMIT_BYTES: usize = VALUE_LIMIT_BYTES + (512 << 10);

/// Maximal overhead of an event beside its own bytes and names.
const BESIDE_BYTES: usize = 1024;

/// Writes to runs, in the transaction that commits at this revision.
pub(super) struct RunWriter<'w> {
    pub view: &'w View<'w>,
    pub overlay: &'w mut WriteSet,
    pub folds: &'w mut Folds,
    pub revision: Revision,
}

/// An event that is being appended.
struct EnteringEvent<'e> {
    run: &'e Name,
    /// The key of its idempotency-key entry, and the hash of that key.
    key: (Key, u64),
    event_type: &'e str,
    step: Option<&'e str>,
    attempt: Option<&'e str>,
    /// Start of its staged bytes.
    start: usize,
    /// Range of all staged bytes that is independent of where the event is stored. The tip hashes this range.
    said: Range<usize>,
    told: FeedEvents,
    /// Number of bytes that are written with it, beside its own.
    beside: usize,
}

/// Selects the feed events of an append.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedEvents {
    All,
    /// The event existed before, and its alert was reported then.
    NoAlerts,
    /// The run is not visible yet.
    Nothing,
}

impl FeedEvents {
    fn event(self, payload: Payload<'_>) -> Write<'_> {
        let flags = if self == FeedEvents::Nothing { QUIET } else { 0 };
        Write { flags, ..fresh(payload) }
    }

    fn alert(self, payload: Payload<'_>) -> Write<'_> {
        let flags = if self == FeedEvents::All { 0 } else { QUIET };
        Write { flags, ..fresh(payload) }
    }
}

impl RunWriter<'_> {
    /// Appends an event.
    pub fn append(&mut self, event: &NewEvent, expected: Option<u64>) -> Result<Appended> {
        event.check()?;
        let run = Name::new(&event.run_id)?;
        let key = event.key()?;
        let met = self.meet(&run)?;
        let head = met.head.unwrap_or_else(|| RunHead::new(self.revision, self.view.now));
        let place = self.place(&run, &head, &key);
        if let Some(first) = self.first(&run, &head, &place)? {
            return Ok(repeated(&first, event));
        }
        let last_seq = met.head.map_or(0, |head| head.last_seq);
        if let Some(expected) = expected.filter(|expected| *expected != last_seq) {
            return Err(moved(&run, expected, last_seq));
        }
        let now = Instant::of_us(self.view.now);
        let id = match &event.event_id {
            Some(id) => id.clone(),
            None => event_id(self.view.now, run.as_str(), &key),
        };
        let (start, said) = self.overlay.stage(|out| event.encode(&id, &key, &now, out))?;
        let event_type = event.event_type.as_str();
        let step = event.step_id.as_deref();
        let attempt = event.logical_attempt_id.as_deref();
        let told = FeedEvents::All;
        let beside = message_bytes(event);
        let entering = EnteringEvent {
            run: &run,
            key: place,
            event_type,
            step,
            attempt,
            start,
            said,
            told,
            beside,
        };
        let run_seq = self.enter(met, head, entering)?;
        match &event.message {
            // Its room was checked before the event was written, so event and message are written together or
            // not at all.
            Some(message) => {
                outbox::put_with_event(self.view, self.overlay, message, run.as_str(), &key)?;
            }
            None => transfer::no_message(self.view, self.overlay, run.as_str(), &key)?,
        }
        Ok(Appended {
            run_seq,
            idempotent: false,
            persisted: true,
            conflict: false,
            event_id: id,
            persisted_at: now,
        })
    }

    /// Creates a run with its first events.
    pub fn bootstrap(
        &mut self,
        run: &Name,
        metadata: &Value,
        events: &[NewEvent],
    ) -> Result<Vec<Appended>> {
        let met = self.meet(run)?;
        if met.head.is_some() {
            let message = format!("run `{run}` exists: append to it, or take another name");
            return Err(Error::new(Code::RunExists, message));
        }
        // A command that fails must have written nothing, so all events are checked first.
        let events = checked(run, events)?;
        let size = |event: &NewEvent| {
            event.event_data.weight_bytes() + BESIDE_BYTES + message_bytes(event)
        };
        let sizes = events.iter().map(size);
        let names = events.len() * 8 * run.as_bytes().len();
        self.overlay.check_room(metadata.weight_bytes() + names + sizes.sum::<usize>())?;
        self.make(run, met, self.view.now, Some(metadata), FeedEvents::All)?;
        events.iter().map(|event| self.append(event, None)).collect()
    }

    /// Writes events of another store with their sequence numbers. Returns the number of new ones.
    pub fn restore(
        &mut self,
        run: &Name,
        metadata: Option<&Value>,
        created: Option<Stamp>,
        events: &[CanonicalEvent],
    ) -> Result<u64> {
        let met = head::meet(self.view, self.overlay, run)?;
        check_kept(run, met.head.map_or(0, |head| head.last_seq), events)?;
        // A command that fails must have written nothing, so all checks come first.
        self.check_room_for(run, metadata, events)?;
        self.check_restored(run, met.head.as_ref(), events)?;
        if met.head.is_none() {
            staged_restore::give_up(self.view, self.overlay, run, self.revision)?;
            self.make(run, met, created.unwrap_or(self.view.now), metadata, FeedEvents::All)?;
        }
        let mut written = 0;
        for event in events {
            let met = head::meet(self.view, self.overlay, run)?;
            written += u64::from(self.restore_one(run, met, event, FeedEvents::NoAlerts)?);
        }
        Ok(written)
    }

    /// Fails if the events exceed the limits of a transaction.
    pub fn check_room_for(
        &self,
        run: &Name,
        metadata: Option<&Value>,
        events: &[CanonicalEvent],
    ) -> Result<()> {
        let sizes = events.iter().map(|event| event.weight_bytes() + BESIDE_BYTES);
        let names = (events.len() + 1) * 8 * run.as_bytes().len();
        let metadata = metadata.map_or(0, |value| value.weight_bytes() + BESIDE_BYTES);
        self.overlay.check_room(metadata + names + sizes.sum::<usize>())
    }

    /// Refuses events that contradict the stored events or each other.
    pub fn check_restored(
        &self,
        run: &Name,
        head: Option<&RunHead>,
        events: &[CanonicalEvent],
    ) -> Result<()> {
        let mut keys = BTreeMap::new();
        let mut scratch = Vec::new();
        let now = Instant::of_us(self.view.now);
        let last_seq = head.map_or(0, |head| head.last_seq);
        for event in events {
            let place = head.map(|head| self.place(run, head, &event.idempotency_key));
            let there = head.zip(place).map(|(head, place)| self.first(run, head, &place));
            let there = there.transpose()?.flatten().map(|first| first.run_seq);
            let told = keys.insert(event.idempotency_key.as_str(), event.run_seq);
            match there.or(told) {
                Some(seq) if seq != event.run_seq => return Err(elsewhere(run, event, seq)),
                None if event.run_seq <= last_seq => return Err(taken(run, event.run_seq)),
                _ => {}
            }
            scratch.clear();
            event.encode(&now, &mut scratch)?;
            check_event(run.as_str(), scratch.len())?;
        }
        Ok(())
    }

    /// Writes a restored event after the head's last one. Returns whether it was new.
    pub fn restore_one(
        &mut self,
        run: &Name,
        met: RunState,
        event: &CanonicalEvent,
        told: FeedEvents,
    ) -> Result<bool> {
        let Some(head) = met.head else { return Err(deleted(run)) };
        let place = self.place(run, &head, &event.idempotency_key);
        if let Some(first) = self.first(run, &head, &place)? {
            return if first.run_seq == event.run_seq {
                Ok(false)
            } else {
                Err(elsewhere(run, event, first.run_seq))
            };
        }
        if event.run_seq <= head.last_seq {
            return Err(taken(run, event.run_seq));
        }
        let now = Instant::of_us(self.view.now);
        let (start, said) = self.overlay.stage(|out| event.encode(&now, out))?;
        let event_type = event.event_type.as_str();
        let step = event.step_id.as_deref();
        let attempt = event.logical_attempt_id.as_deref();
        let beside = 0;
        let entering =
            EnteringEvent { run, key: place, event_type, step, attempt, start, said, told, beside };
        self.enter(met, head, entering)?;
        Ok(true)
    }

    /// Appends an event of another branch, unless the run has its idempotency key. Returns whether it was
    /// appended.
    pub fn take_over(&mut self, run: &Name, event: &CanonicalEvent) -> Result<bool> {
        let met = head::meet(self.view, self.overlay, run)?;
        let head = met.head.unwrap_or_else(|| RunHead::new(self.revision, self.view.now));
        let place = self.place(run, &head, &event.idempotency_key);
        if self.first(run, &head, &place)?.is_some() {
            return Ok(false);
        }
        let now = Instant::of_us(self.view.now);
        let (start, said) = self.overlay.stage(|out| event.encode(&now, out))?;
        let event_type = event.event_type.as_str();
        let step = event.step_id.as_deref();
        let attempt = event.logical_attempt_id.as_deref();
        let told = FeedEvents::All;
        let beside = 0;
        let entering =
            EnteringEvent { run, key: place, event_type, step, attempt, start, said, told, beside };
        self.enter(met, head, entering)?;
        // If the event has a message, the merge transfers that later.
        transfer::no_message(self.view, self.overlay, run.as_str(), &event.idempotency_key)?;
        Ok(true)
    }

    /// Writes the head and the creation metadata of a new run.
    pub fn make(
        &mut self,
        run: &Name,
        met: RunState,
        created: Stamp,
        metadata: Option<&Value>,
        told: FeedEvents,
    ) -> Result<()> {
        let mut head = RunHead::new(self.revision, created);
        if let Some(metadata) = metadata {
            let (start, ()) = self.overlay.stage(|out| codec::encode(metadata, out))?;
            // The tip covers the metadata, because runs with different metadata are different runs.
            head.tip = tip(0, self.overlay.staged(start), None);
            let (key, hash) =
                self.view.key(EVENTS, &run_keys::at(run.as_str(), head.generation, 0));
            self.overlay.write(key, hash, told.event(Payload::Staged(start)))?;
        }
        head::put(self.overlay, met.seen, &head)
    }

    /// Stores the state of a user's reducer.
    pub fn keep(
        &mut self,
        run: &Name,
        reducer: &str,
        (version, seq): (u64, u64),
        state: &Value,
    ) -> Result<bool> {
        let Some(head) = self.meet(run)?.head else { return Ok(false) };
        if reducer.is_empty() || reducer.len() > mainstay_model::NAME_LIMIT_BYTES {
            let message = "the name of a reducer has 1 to 1,024 bytes";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if seq > head.last_seq {
            let message = format!("run `{run}` has no event {seq} yet, it is at {}", head.last_seq);
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let there = super::kept(self.view, self.overlay, run, reducer, version, None)?;
        if there.is_some_and(|there| there.seq > seq) {
            return Ok(false);
        }
        let (start, ()) = self.overlay.stage(|out| {
            put_varint(out, version);
            put_varint(out, seq);
            codec::encode(state, out)
        })?;
        let place = run_keys::state(run.as_str(), head.generation, reducer);
        let (key, hash) = self.view.key(STATES, &place);
        self.overlay.write(key, hash, fresh(Payload::Staged(start)))?;
        Ok(true)
    }

    /// Loads a run. Fails if it was deleted.
    fn meet(&self, run: &Name) -> Result<RunState> {
        let met = head::meet(self.view, self.overlay, run)?;
        if met.is_deleted() { Err(deleted(run)) } else { Ok(met) }
    }

    /// Returns the key of an idempotency-key entry, and its hash.
    fn place(&self, run: &Name, head: &RunHead, key: &str) -> (Key, u64) {
        self.view.key(EVENT_KEYS, &run_keys::key(run.as_str(), head.generation, key))
    }

    /// Returns the event that has this idempotency key already.
    fn first(
        &self,
        run: &Name,
        head: &RunHead,
        (place, hash): &(Key, u64),
    ) -> Result<Option<CanonicalEvent>> {
        let Some((seq, _)) = self.view.find(self.overlay, place, *hash, |_, mut payload| {
            Ok(get_varint(&mut payload).unwrap_or_default())
        })?
        else {
            return Ok(None);
        };
        let log =
            RunEvents { view: self.view, overlay: self.overlay, run, generation: head.generation };
        log.find(seq, |entry, payload| {
            CanonicalEvent::decode(payload, run.as_str(), seq, entry.stamp)
        })
    }

    /// Writes an event whose bytes are staged, its idempotency key and the head.
    fn enter(&mut self, met: RunState, head: RunHead, event: EnteringEvent<'_>) -> Result<u64> {
        let run = event.run.as_str();
        // The event must fit with its key, the head and an alert before any of them is written.
        let bytes = self.overlay.staged(event.start).len();
        let room = check_event(run, bytes).and_then(|()| {
            let beside = BESIDE_BYTES + event.beside + 4 * run.len() + event.key.0.len();
            self.overlay.check_room(beside)
        });
        if let Err(error) = room {
            self.overlay.take_back(event.start);
            return Err(error);
        }
        let said = &self.overlay.staged(0)[event.said.clone()];
        let seq = head.last_seq + 1;
        let tip = tip(head.tip, said, event.step);
        let (key, hash) = self.view.key(EVENTS, &run_keys::at(run, head.generation, seq));
        self.overlay.write(key, hash, event.told.event(Payload::Staged(event.start)))?;
        let (place, hash) = event.key;
        let mut number = Vec::with_capacity(10);
        put_varint(&mut number, seq);
        self.overlay.write(place, hash, fresh(Payload::Bytes(&number)))?;
        let step = FoldStep {
            run: event.run,
            head_key: &met.seen.key,
            event_type: event.event_type,
            step: event.step,
            attempt: event.attempt,
        };
        let (next, illegal) = step.fold(self.view, self.overlay, self.folds, &head, tip)?;
        if let Some(why) = illegal {
            let (key, hash) = self.view.key(ALERTS, &run_keys::at(run, head.generation, seq));
            self.overlay.write(key, hash, event.told.alert(Payload::Bytes(why.as_bytes())))?;
        }
        head::put(self.overlay, met.seen, &next)?;
        Ok(seq)
    }
}

fn check_event(run: &str, bytes: usize) -> Result<()> {
    if bytes <= EVENT_LIMIT_BYTES {
        return Ok(());
    }
    let message =
        format!("an event of run `{run}` has {bytes} bytes, {EVENT_LIMIT_BYTES} are the most");
    Err(Error::new(Code::ValueTooLarge, message))
}

/// Returns the maximal room that the message of an event takes.
fn message_bytes(event: &NewEvent) -> usize {
    let Some(message) = &event.message else { return 0 };
    let key = event.idempotency_key.as_ref().map_or(BESIDE_BYTES, String::len);
    let names = 4 * event.run_id.len() + 2 * key + outbox::MESSAGE_BESIDE_BYTES;
    message.subject.len() + message.payload.len() + names + BESIDE_BYTES
}

/// Returns the hash over the run's events after one more event.
pub(crate) fn tip(before: u64, said: &[u8], step: Option<&str>) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before.to_le_bytes()).update(said).update(step.unwrap_or_default().as_bytes());
    let hash = hasher.finalize();
    hash.as_bytes().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the answer to an event whose idempotency key is known.
fn repeated(first: &CanonicalEvent, event: &NewEvent) -> Appended {
    Appended {
        run_seq: first.run_seq,
        idempotent: true,
        persisted: false,
        conflict: !first.says_the_same(event),
        event_id: first.event_id.clone(),
        persisted_at: first.persisted_at.clone().unwrap_or_else(|| first.emitted_at.clone()),
    }
}

/// Checks events of one run, and fills in the run and the idempotency key of each.
fn checked(run: &Name, events: &[NewEvent]) -> Result<Vec<NewEvent>> {
    let one = |event: &NewEvent| {
        let mut event = event.clone();
        if event.run_id.is_empty() {
            event.run_id = run.as_str().to_owned();
        }
        if event.run_id != run.as_str() {
            let message = format!("an event of run `{}` among those of `{run}`", event.run_id);
            return Err(Error::new(Code::InvalidArgument, message));
        }
        event.check()?;
        event.idempotency_key = Some(event.key()?);
        Ok(event)
    };
    events.iter().map(one).collect()
}

/// Refuses events of another run, and gaps in the sequence.
pub(super) fn check_kept(run: &Name, last_seq: u64, events: &[CanonicalEvent]) -> Result<()> {
    let mut next = last_seq + 1;
    for event in events {
        event.check()?;
        let CanonicalEvent { run_id, run_seq, .. } = event;
        if *run_id != run.as_str() || *run_seq == 0 || *run_seq > next {
            let message = format!(
                "event {run_seq} of run `{run_id}` cannot be restored to run `{run}`, whose next one is {next}"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        next = next.max(run_seq + 1);
    }
    Ok(())
}

#[cold]
pub(super) fn deleted(run: &Name) -> Error {
    let message = format!("run `{run}` was deleted: take another name, or restore it");
    Error::new(Code::RunNotFound, message)
}

#[cold]
fn moved(run: &Name, expected: u64, last_seq: u64) -> Error {
    let message = format!(
        "run `{run}` is at {last_seq} and not at {expected}: fetch what came since, and decide again"
    );
    Error::new(Code::SequenceMoved, message)
}

#[cold]
fn elsewhere(run: &Name, event: &CanonicalEvent, there: u64) -> Error {
    let message = format!(
        "event {} of run `{run}` cannot be restored: its key is that of event {there}",
        event.run_seq
    );
    Error::new(Code::RunExists, message)
}

#[cold]
fn taken(run: &Name, seq: u64) -> Error {
    let message = format!("event {seq} of run `{run}` cannot be restored: there is another one");
    Error::new(Code::RunExists, message)
}
