//! Transactional outbox: messages that commit with a transaction and are delivered later.
//!
//! ```text
//!   09 | branch | h                    -> last id, pending, dead
//!                 m | id u64 BE        -> subject, run, written at, payload      written once
//!                 s | id u64 BE        -> tries, due, the run's next message, failure, token, key of its event
//!                 q | due u64 BE | id  -> nothing                                queue of claimable messages
//!                 r | run              -> the run's last message
//!                 d | id u64 BE        -> nothing                                dead letters
//!                 c, n, e, o, i, k     transfer between branches: see `transfer`
//! ```
//!
//! Only the first message of a run is in the queue. When it leaves, the next one enters. So a claim takes due
//! messages from the front of the queue and never skips a blocked one. A lease is a later due time: a message
//! that is not acknowledged by then is claimed again.
//!
//! Commands see only the branch's own layer, so inherited messages are not pending in a fork. Messages of a
//! branch wait until it is merged into `main`. Only `main` delivers, unless branches are served too.

pub mod transfer;

use crate::base::work::Exempt;
use crate::key::entry::DELETED;
use crate::key::keyspace::{Key, MAIN_ID, OUTBOX, PREFIX_BYTES};
use crate::mvcc::catalog::Layers;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use hashbrown::HashMap;
use mainstay_model::codec::{get_varint, put_varint};
use mainstay_model::{
    Answer, CLAIM_LIMIT, Code, Error, EventMessage, FAILURE_LIMIT_BYTES, Failed, LEASE_LIMIT_MS,
    Message, Name, OutboxAnswer, OutboxCommand, OutboxState, Result, Scales, Stamp, TRIES_LIMIT,
    put_text, take_text,
};
use smallvec::{SmallVec, smallvec};

pub(crate) type Place = SmallVec<[u8; 32]>;

/// Maximal overhead of an event's message beside its own bytes. It includes the rewritten state of the run's
/// previous message.
pub(crate) const MESSAGE_BESIDE_BYTES: usize = FAILURE_LIMIT_BYTES + (4 << 10);

/// A claim ends once its messages exceed this many bytes.
const CLAIM_LIMIT_BYTES: usize = 32 << 20;

/// For each branch, a due time before which its queue is empty. Scans start there to skip tombstones.
/// This is only an optimization.
pub(crate) type Fronts = HashMap<u32, Stamp>;

/// Runs a command on a branch's outbox.
pub(crate) fn run(
    view: &View<'_>,
    overlay: &mut WriteSet,
    fronts: &mut Fronts,
    command: &OutboxCommand,
) -> Result<Answer> {
    command.check()?;
    let own: Layers = smallvec![view.layers[0]];
    let view = &View { layers: &own, ..*view };
    let mut outbox = Outbox { view, overlay };
    let answer = |answer| Answer::Outbox(Box::new(answer));
    Ok(match command {
        OutboxCommand::Put { subject, payload, run } => {
            let run = run.as_ref().map(|run| run.as_str());
            answer(OutboxAnswer::Put(outbox.put(
                subject,
                payload,
                MessageOrigin { run, event: None },
            )?))
        }
        OutboxCommand::Claim { limit, lease_ms } => {
            answer(OutboxAnswer::Messages(outbox.claim(fronts, *limit, *lease_ms)?))
        }
        OutboxCommand::Ack { ids } => Answer::Count(outbox.ack(ids)?),
        OutboxCommand::AckHeld { token, ids } => {
            outbox.check_held(ids, *token)?;
            Answer::Count(outbox.ack(ids)?)
        }
        OutboxCommand::Fail { id, message, backoff_ms, tries } => {
            answer(OutboxAnswer::Failed(outbox.fail(*id, message, *backoff_ms, *tries)?))
        }
        OutboxCommand::FailHeld { token, id, message, backoff_ms, tries } => {
            outbox.check_held(&[*id], *token)?;
            answer(OutboxAnswer::Failed(outbox.fail(*id, message, *backoff_ms, *tries)?))
        }
        OutboxCommand::Dead { after, limit } => {
            answer(OutboxAnswer::Messages(outbox.dead(*after, *limit)?))
        }
        OutboxCommand::Replay { id } => Answer::Did(outbox.replay(*id)?),
        OutboxCommand::Look => answer(OutboxAnswer::State(outbox.look(fronts)?)),
        OutboxCommand::Restore { subject, payload, run, dead, event } => {
            let run = run.as_ref().map(|run| run.as_str().to_owned());
            if let Some((run, key)) = run.as_deref().zip(event.as_deref()) {
                outbox.detach(run, key)?;
            }
            let subject = subject.clone();
            let payload = payload.clone();
            let dead = dead.clone();
            let event = event.clone();
            let content = transfer::Content::Message { subject, run, payload, dead, event };
            answer(OutboxAnswer::Put(outbox.restore(&content)?))
        }
        _ => return Err(Error::new(Code::Unsupported, "this version does not know that command")),
    })
}

/// Writes the message of an event that is appended to a run with this idempotency key.
pub(crate) fn put_with_event(
    view: &View<'_>,
    overlay: &mut WriteSet,
    message: &EventMessage,
    run: &str,
    key: &str,
) -> Result<u64> {
    let own: Layers = smallvec![view.layers[0]];
    let view = &View { layers: &own, ..*view };
    let of = MessageOrigin { run: Some(run), event: Some(key) };
    Outbox { view, overlay }.put(&message.subject, &message.payload, of)
}

/// Refuses delivery from a branch other than `main`, unless branches are served.
pub(crate) fn check_served(
    view: &View<'_>,
    command: &OutboxCommand,
    branch: &str,
    serves: bool,
) -> Result<()> {
    if command.delivers() && view.branch() != MAIN_ID && !serves {
        Err(transfer::not_served(branch))
    } else {
        Ok(())
    }
}

pub(crate) struct Outbox<'o> {
    pub(crate) view: &'o View<'o>,
    pub(crate) overlay: &'o mut WriteSet,
}

/// Counters of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub(crate) last_id: u64,
    pub(crate) pending: u64,
    pub(crate) dead: u64,
}

impl Counts {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        for number in [self.last_id, self.pending, self.dead] {
            put_varint(&mut bytes, number);
        }
        bytes
    }

    pub fn decode(mut rest: &[u8]) -> Option<Counts> {
        let rest = &mut rest;
        let last_id = get_varint(rest)?;
        let pending = get_varint(rest)?;
        Some(Counts { last_id, pending, dead: get_varint(rest)? })
    }
}

/// Delivery state of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageState {
    pub(crate) tries: u32,
    pub(crate) due: Stamp,
    /// The run's next message. 0: none yet.
    pub(crate) next: u64,
    pub(crate) is_dead: bool,
    /// Whether the message is part of a run's sequence, so that later messages of the run wait for it.
    pub(crate) is_first: bool,
    pub(crate) failure: Option<String>,
    /// Fencing token: the timestamp of the transaction that claimed the message last. 0: never claimed, or
    /// the lease was given up.
    pub(crate) token: Stamp,
    /// The idempotency key of the event that the message was appended with.
    pub(crate) event: Option<String>,
}

impl MessageState {
    /// Returns whether the message was claimed, so that it may have been delivered. A message that waits
    /// behind another one of its run was not claimed. Removing it would let the messages after it overtake
    /// that other one.
    fn was_taken(&self) -> bool {
        self.is_dead || self.tries > 0
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        put_varint(&mut bytes, u64::from(self.tries));
        put_varint(&mut bytes, self.due);
        put_varint(&mut bytes, self.next);
        bytes.push(u8::from(self.is_dead) | u8::from(self.is_first) << 1);
        put_text(self.failure.as_deref().unwrap_or_default(), &mut bytes);
        put_varint(&mut bytes, self.token);
        if let Some(event) = &self.event {
            put_text(event, &mut bytes);
        }
        bytes
    }
}

/// The run of a message, and the key of the event that the message was appended with.
#[derive(Clone, Copy, Default)]
struct MessageOrigin<'o> {
    run: Option<&'o str>,
    event: Option<&'o str>,
}

pub(crate) struct MessageContent {
    pub(crate) subject: String,
    pub(crate) run: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) written: Stamp,
}

impl Outbox<'_> {
    fn put(&mut self, subject: &str, payload: &[u8], of: MessageOrigin<'_>) -> Result<u64> {
        let run = of.run;
        let mut counts = self.counts()?;
        counts.last_id += 1;
        counts.pending += 1;
        let id = counts.last_id;
        self.write_letter(id, subject, payload, of)?;
        let before = run.map(|run| self.last_of(run)).transpose()?.flatten();
        let due = self.view.now;
        let event = of.event.map(str::to_owned);
        let state = MessageState { due, is_first: run.is_some(), event, ..MessageState::default() };
        self.set_state(id, &state)?;
        match before {
            Some(before) => self.join(before, id)?,
            None => self.enqueue(state.due, id)?,
        }
        if let Some(run) = run {
            self.set(&of_run(run), 0, &id.to_be_bytes())?;
        }
        self.set_counts(counts)?;
        self.link(of, id)?;
        Ok(id)
    }

    /// Writes the content of a message, if the transaction has room for it and for its bookkeeping.
    fn write_letter(
        &mut self,
        id: u64,
        subject: &str,
        payload: &[u8],
        of: MessageOrigin<'_>,
    ) -> Result<()> {
        if payload.len() > mainstay_model::limits::VALUE_LIMIT_BYTES {
            let message =
                format!("a message for `{subject}` has {} bytes: too many", payload.len());
            return Err(Error::new(Code::ValueTooLarge, message));
        }
        let mut letter = Vec::with_capacity(64 + payload.len());
        put_text(subject, &mut letter);
        put_text(of.run.unwrap_or_default(), &mut letter);
        letter.extend_from_slice(payload);
        let beside = of.event.map_or(0, |key| 2 * key.len() + MESSAGE_BESIDE_BYTES);
        self.overlay.check_room(letter.len() + beside + 512)?;
        self.set(&place(b'm', id), 0, &letter)
    }

    /// Queues a message of a run behind the one before it.
    fn join(&mut self, before: u64, id: u64) -> Result<()> {
        match self.state(before)? {
            Some(mut state) => {
                state.next = id;
                self.set_state(before, &state)
            }
            None => self.enqueue(self.view.now, id),
        }
    }

    fn claim(&mut self, fronts: &mut Fronts, limit: usize, lease_ms: u64) -> Result<Vec<Message>> {
        let mut taken = Vec::new();
        let mut given_up = 0;
        let mut bytes = 0;
        // A due message may come after many deleted ones, and a claim must find it however far away it is. So
        // the first claim of a transaction does not count skipped keys against the budget. Later claims do,
        // because each scans everything that the transaction wrote.
        let view = self.view.uncounted_once(Exempt::Claim);
        // A message that becomes a dead letter on the way does not count against the limit.
        while taken.len() < limit && given_up < CLAIM_LIMIT {
            let due = self.due(&view, fronts, limit - taken.len())?;
            if due.is_empty() {
                break;
            }
            for (due, id) in due {
                if bytes > CLAIM_LIMIT_BYTES {
                    return Ok(taken);
                }
                let message = self.take(due, id, lease_ms)?;
                given_up += usize::from(message.is_none());
                bytes += message.as_ref().map_or(0, |message| message.payload.len());
                taken.extend(message);
            }
        }
        Ok(taken)
    }

    /// Claims a due message, or turns it into a dead letter if it was claimed too often.
    fn take(&mut self, due: Stamp, id: u64, lease_ms: u64) -> Result<Option<Message>> {
        let Some(mut state) = self.state(id)? else {
            self.dequeue(due, id)?;
            return Ok(None);
        };
        if state.tries >= TRIES_LIMIT {
            state.failure.get_or_insert_with(|| "its lease was over every time".to_owned());
            self.bury(id, state)?;
            return Ok(None);
        }
        self.dequeue(due, id)?;
        state.tries += 1;
        state.due = self.view.now.saturating_add(lease_ms.saturating_mul(1000));
        state.token = self.view.now;
        self.enqueue(state.due, id)?;
        self.set_state(id, &state)?;
        self.message(id, state)
    }

    /// Returns the first due messages.
    fn due(&self, view: &View<'_>, fronts: &mut Fronts, limit: usize) -> Result<Vec<(Stamp, u64)>> {
        let front = fronts.entry(self.view.branch()).or_default();
        let from = queued(*front, 0);
        let mut walk = view.walk(self.overlay, OUTBOX, b"q", Some(&from));
        let mut found = Vec::new();
        let mut passed = true;
        while let Some(step) = walk.next()?.filter(|_| found.len() < limit) {
            let Some((due, id)) = due_of(step.name()) else { continue };
            if due > self.view.now {
                break;
            }
            let gone = step.head.is_deleted();
            // Deletions of this transaction do not move the front, because they are undone if it fails.
            passed &= gone && !step.own;
            if passed {
                *front = due;
            }
            if !gone {
                found.push((due, id));
            }
        }
        Ok(found)
    }

    /// Fails with `Fenced` if the token does not hold the lease of each of these messages that exists.
    fn check_held(&self, ids: &[u64], token: Stamp) -> Result<()> {
        for &id in ids {
            let state = self.state(id)?.filter(MessageState::was_taken);
            // A message without a lease has token 0, and 0 never matches.
            if state.is_some_and(|state| state.token != token || token == 0) {
                return Err(fenced(id, token));
            }
        }
        Ok(())
    }

    fn ack(&mut self, ids: &[u64]) -> Result<u64> {
        let mut counts = self.counts()?;
        let mut gone = 0;
        for &id in ids {
            let Some(state) = self.state(id)?.filter(MessageState::was_taken) else { continue };
            if state.is_dead {
                counts.dead = counts.dead.saturating_sub(1)
            } else {
                counts.pending = counts.pending.saturating_sub(1)
            }
            self.leave(id, &state)?;
            self.unlink(id, state.event.as_deref())?;
            self.remove(&place(b's', id))?;
            self.remove(&place(b'm', id))?;
            gone += 1;
        }
        if gone > 0 {
            self.set_counts(counts)?;
        }
        Ok(gone)
    }

    fn fail(&mut self, id: u64, why: &str, backoff_ms: u64, tries: u32) -> Result<Failed> {
        let alive = self.state(id)?.filter(|state| !state.is_dead && state.was_taken());
        let Some(mut state) = alive else {
            return Ok(Failed::Unknown);
        };
        state.failure = Some(cut(why).to_owned());
        state.token = 0;
        if state.tries >= tries {
            self.bury(id, state)?;
            return Ok(Failed::Dead);
        }
        let doubled = backoff_ms.saturating_mul(1 << state.tries.saturating_sub(1).min(30));
        let wait_us = doubled.min(LEASE_LIMIT_MS) * 1000;
        self.dequeue(state.due, id)?;
        state.due = self.view.now.saturating_add(wait_us);
        self.enqueue(state.due, id)?;
        self.set_state(id, &state)?;
        Ok(Failed::Waits(state.due))
    }

    /// Turns a message into a dead letter. Its run continues without it.
    fn bury(&mut self, id: u64, mut state: MessageState) -> Result<()> {
        self.leave(id, &state)?;
        state.is_dead = true;
        state.is_first = false;
        state.next = 0;
        self.set_state(id, &state)?;
        self.set(&place(b'd', id), 0, b"")?;
        let mut counts = self.counts()?;
        counts.pending = counts.pending.saturating_sub(1);
        counts.dead += 1;
        self.set_counts(counts)
    }

    /// Removes a message from its queue, and enqueues the run's next message.
    fn leave(&mut self, id: u64, state: &MessageState) -> Result<()> {
        if state.is_dead {
            return self.remove(&place(b'd', id));
        }
        self.dequeue(state.due, id)?;
        if !state.is_first {
            return Ok(());
        }
        if let Some(mut next) = self.state(state.next)? {
            next.due = self.view.now;
            self.set_state(state.next, &next)?;
            return self.enqueue(next.due, state.next);
        }
        let run = self.letter(id)?.and_then(|letter| letter.run);
        match run {
            Some(run) if self.last_of(&run)? == Some(id) => self.remove(&of_run(&run)),
            _ => Ok(()),
        }
    }

    fn replay(&mut self, id: u64) -> Result<bool> {
        let Some(mut state) = self.state(id)?.filter(|state| state.is_dead) else {
            return Ok(false);
        };
        self.remove(&place(b'd', id))?;
        state.is_dead = false;
        state.tries = 0;
        state.due = self.view.now;
        state.token = 0;
        self.set_state(id, &state)?;
        self.enqueue(state.due, id)?;
        let mut counts = self.counts()?;
        counts.dead = counts.dead.saturating_sub(1);
        counts.pending += 1;
        self.set_counts(counts)?;
        Ok(true)
    }

    fn dead(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        let mut walk = self.view.walk(self.overlay, OUTBOX, b"d", Some(&place(b'd', after)));
        let mut found = Vec::new();
        let mut scales = Scales::default();
        while let Some(step) = walk.next()?.filter(|_| found.len() < limit) {
            let id = step.name().get(1..).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
            let Some(id) = id.filter(|_| !step.head.is_deleted()) else { continue };
            let Some(state) = self.state(id)? else { continue };
            let message = self.message(id, state)?;
            scales.add_bytes(message.as_ref().map_or(0, |message| message.payload.len()))?;
            found.extend(message);
        }
        Ok(found)
    }

    fn look(&self, fronts: &mut Fronts) -> Result<OutboxState> {
        let Counts { last_id, pending, dead } = self.counts()?;
        let front = fronts.entry(self.view.branch()).or_default();
        let mut walk = self.view.walk(self.overlay, OUTBOX, b"q", Some(&queued(*front, 0)));
        let mut oldest_due = None;
        while let Some(step) = walk.next()?.filter(|_| oldest_due.is_none()) {
            let Some((due, _)) = due_of(step.name()) else { continue };
            if step.head.is_deleted() {
                if !step.own && due <= self.view.now {
                    // The next scan starts here. Messages that are enqueued later are due later than now.
                    *front = due
                }
            } else {
                oldest_due = Some(due)
            }
        }
        Ok(OutboxState { pending, dead, last_id, oldest_due })
    }

    fn message(&self, id: u64, state: MessageState) -> Result<Option<Message>> {
        let MessageState { tries, failure, .. } = state;
        Ok(self.letter(id)?.map(|letter| {
            let MessageContent { subject, run, payload, written } = letter;
            Message { id, subject, payload, run, tries, written, failure }
        }))
    }
}

/// Entries of the outbox, by place.
impl Outbox<'_> {
    pub(crate) fn read<T>(
        &self,
        place: &[u8],
        mut read: impl FnMut(&[u8], Stamp) -> Option<T>,
    ) -> Result<Option<T>> {
        let (key, hash) = self.view.key(OUTBOX, place);
        let found = self.view.find(self.overlay, &key, hash, |head, payload| {
            let there = (!head.is_deleted()).then(|| read(payload, head.stamp));
            there.map(|read| read.ok_or_else(damaged)).transpose()
        })?;
        Ok(found.and_then(|(found, _)| found))
    }

    fn set(&mut self, place: &[u8], flags: u8, payload: &[u8]) -> Result<()> {
        let (key, hash): (Key, u64) = self.view.key(OUTBOX, place);
        let payload = Payload::Bytes(payload);
        let write = Write { flags, counter: 1, writes: 1, expires: None, prior: None, payload };
        self.overlay.write(key, hash, write)
    }

    fn remove(&mut self, place: &[u8]) -> Result<()> {
        self.set(place, DELETED, b"")
    }

    fn enqueue(&mut self, due: Stamp, id: u64) -> Result<()> {
        self.set(&queued(due, id), 0, b"")
    }

    fn dequeue(&mut self, due: Stamp, id: u64) -> Result<()> {
        self.remove(&queued(due, id))
    }

    pub(crate) fn counts(&self) -> Result<Counts> {
        let found = self.read(b"h", |rest, _| Counts::decode(rest))?;
        Ok(found.unwrap_or_default())
    }

    fn set_counts(&mut self, counts: Counts) -> Result<()> {
        self.set(b"h", 0, &counts.encode())
    }

    pub(crate) fn last_of(&self, run: &str) -> Result<Option<u64>> {
        self.read(&of_run(run), |bytes, _| bytes.try_into().ok().map(u64::from_be_bytes))
    }

    pub(crate) fn letter(&self, id: u64) -> Result<Option<MessageContent>> {
        self.read(&place(b'm', id), |mut rest, written| {
            let subject = take_text(&mut rest)?;
            let run = take_text(&mut rest)?;
            let run = Some(run).filter(|run| !run.is_empty());
            Some(MessageContent { subject, run, payload: rest.to_vec(), written })
        })
    }

    pub(crate) fn state(&self, id: u64) -> Result<Option<MessageState>> {
        self.read(&place(b's', id), |mut rest, _| take_state(&mut rest))
    }

    fn set_state(&mut self, id: u64, state: &MessageState) -> Result<()> {
        self.set(&place(b's', id), 0, &state.encode())
    }
}

/// Truncates a text to the stored length, on a character boundary.
fn cut(text: &str) -> &str {
    let mut ends = (0..=text.len().min(FAILURE_LIMIT_BYTES)).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

pub fn take_state(rest: &mut &[u8]) -> Option<MessageState> {
    let tries = u32::try_from(get_varint(rest)?).ok()?;
    let due = get_varint(rest)?;
    let next = get_varint(rest)?;
    let (&flags, tail) = rest.split_first()?;
    *rest = tail;
    let failure = Some(take_text(rest)?).filter(|text| !text.is_empty());
    let is_dead = flags & 1 != 0;
    let is_first = flags & 2 != 0;
    // Entries from before the introduction of tokens have none.
    let token = if rest.is_empty() { 0 } else { get_varint(rest)? };
    let event = if rest.is_empty() { None } else { Some(take_text(rest)?) };
    Some(MessageState { tries, due, next, is_dead, is_first, failure, token, event })
}

pub(crate) fn place(kind: u8, id: u64) -> Place {
    let mut place = smallvec![kind];
    place.extend_from_slice(&id.to_be_bytes());
    place
}

/// Returns the id of a message as a name, for interfaces that take names.
pub(crate) fn name(id: u64) -> Result<Name> {
    Name::new(&id.to_string())
}

/// Returns the place of a message's delivery state, which changes with every claim, acknowledgment, failure
/// and replay.
pub(crate) fn standing(name: &Name) -> Result<Place> {
    let id = name.as_str().parse().map_err(|_| {
        let message = format!("messages are known by their numbers, `{name}` is none");
        Error::new(Code::InvalidArgument, message)
    })?;
    Ok(place(b's', id))
}

fn of_run(run: &str) -> Place {
    let mut place = smallvec![b'r'];
    place.extend_from_slice(run.as_bytes());
    place
}

pub(crate) fn queued(due: Stamp, id: u64) -> Place {
    let mut place = smallvec![b'q'];
    place.extend_from_slice(&due.to_be_bytes());
    place.extend_from_slice(&id.to_be_bytes());
    place
}

pub(crate) fn due_of(name: &[u8]) -> Option<(Stamp, u64)> {
    let (due, id) = name.get(1..)?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*due), u64::from_be_bytes(id.try_into().ok()?)))
}

/// Returns whether a key of the outbox is that of a dead letter.
pub(crate) fn is_grave(key: &[u8]) -> bool {
    key.get(PREFIX_BYTES) == Some(&b'd')
}

/// Decodes the message written under a key of the outbox, for the feed.
pub fn told(name: &[u8], payload: &[u8]) -> Option<(u64, String, Option<String>, Vec<u8>)> {
    let id = name.strip_prefix(b"m")?.try_into().ok().map(u64::from_be_bytes)?;
    let mut rest = payload;
    let subject = take_text(&mut rest)?;
    let run = take_text(&mut rest)?;
    Some((id, subject, Some(run).filter(|run| !run.is_empty()), rest.to_vec()))
}

#[cold]
fn fenced(id: u64, token: Stamp) -> Error {
    let message = format!(
        "message {id} is no longer held with token {token}: its lease was over and it was claimed again, or given up; \
         leave it to whoever has it"
    );
    Error::new(Code::Fenced, message)
}

#[cold]
fn damaged() -> Error {
    Error::new(Code::CorruptData, "an entry of the outbox cannot be read: run `mainstay doctor`")
}
