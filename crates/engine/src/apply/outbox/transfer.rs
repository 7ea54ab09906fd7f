//! Transfer of outbox messages and client requests between branches, during a merge.
//!
//! ```text
//!   the source's layers without `main`          the target
//!     m | id  messages          --those that it lacks, as they were written-->  m | id, c | id, with new numbers
//!     c | id  requests to clients                                               and on `main` into mailboxes
//!     n       the last request number
//!
//!     e | run 00 | key of an event       -> branch, number: the message of that event; empty: it has none
//!     o | m or c | id                    -> branch, number: where the item was written first
//!     i | branch | number                -> branch, number: the copy here of the message first written there
//!     k | m or c | branch                -> number: all items of that branch up to it are known here
//! ```
//!
//! A message that was appended with an event belongs to that event. A merge transfers it where it appends the
//! event, and nowhere else. So messages of events need no record of earlier merges, except on branches whose
//! runs were rewound: these have `i`.
//!
//! All other items are transferred by number. Numbers of a branch increase, and a merge covers everything
//! that its source knows. So one number tells how much a branch knows of another: everything up to it and
//! nothing after it. A fork knows everything that it inherits, through its layers.
//!
//! Messages on `main` are being delivered already, so they are not transferred. Thus `main` has no `e`, `i`
//! and `o`: an event is appended there once. If its run was deleted and restored without the event, the event
//! is new again, as it is when it is appended again.

use super::{Counts, MessageContent, MessageOrigin, MessageState, Outbox, place, take_state};
use crate::apply::runs::seq_of;
use crate::apply::sessions::SessionContext;
use crate::base::work::Budget;
use crate::key::keyspace::{MAIN_ID, OUTBOX};
use crate::mvcc::catalog::{Catalog, Layers};
use crate::mvcc::view::{NameStep, View};
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::{Index, NEWEST};
use mainstay_model::{
    Code, Command, Error, Name, OutboxCommand, Result, Revision, SessionCommand, Stamp, Value,
    put_text, take_text,
};
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};

type Place = super::Place;

/// A branch id, and a number assigned on that branch.
type Written = (u32, u64);

/// Not the id of any branch.
const NOBODY: u32 = u32::MAX;

/// Kinds of transferred items. Messages and requests are numbered separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    Message,
    /// A request to the client of a session.
    Request,
}

impl Sort {
    const ALL: [Sort; 2] = [Sort::Message, Sort::Request];

    fn kind(self) -> u8 {
        match self {
            Sort::Message => b'm',
            Sort::Request => b'c',
        }
    }

    fn of(kind: u8) -> Option<Sort> {
        Sort::ALL.into_iter().find(|sort| sort.kind() == kind)
    }
}

/// An item that the source has to send and the target lacks.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub sort: Sort,
    /// The revision that wrote the item to its layer.
    pub revision: Revision,
    /// The layer that holds the item.
    layer: (u32, Revision),
    /// The number of the item in that layer.
    pub id: u64,
    origin: Written,
    /// The event that a message was appended with.
    event: Option<Event>,
    /// The target's copy of the message, if it got there before its event was rewound there.
    lies: Option<Written>,
}

/// An event that has a message.
#[derive(Clone, Debug)]
pub struct Event {
    run: Name,
    key: String,
    /// Sequence number of the event in the source.
    seq: u64,
    /// Where the message is.
    lies: Written,
}

impl Event {
    /// Returns an event of a branch, if it has a message on that branch that is not being delivered yet.
    pub fn of(view: &View<'_>, run: &Name, key: &str, seq: u64) -> Result<Option<Event>> {
        let lies = message_at(view, &WriteSet::default(), &event_place(run.as_str(), key))?;
        Ok(lies.map(|lies| Event { run: run.clone(), key: key.to_owned(), seq, lies }))
    }
}

/// The content of a message or a request.
pub enum Content {
    Message {
        subject: String,
        run: Option<String>,
        payload: Vec<u8>,
        dead: Option<String>,
        event: Option<String>,
    },
    Request {
        session: Name,
        payload: Vec<u8>,
    },
}

/// A transfer between two branches, each given by its layers.
pub struct Transfer<'t> {
    pub index: &'t Index,
    pub from: &'t Layers,
    pub into: &'t Layers,
    pub now: Stamp,
    pub budget: Budget<'t>,
}

impl Transfer<'_> {
    /// Returns all items that go by number and that the target lacks. Stops soon after `limit` items.
    pub fn by_number(&self, limit: usize) -> Result<Vec<Outgoing>> {
        let mut found = Vec::new();
        if !self.index.has_runs() {
            // Without any outbox entries, the scan is skipped.
            return Ok(found);
        }
        for layer in off_main(self.from) {
            for sort in Sort::ALL {
                self.each_behind(layer, sort, |one| {
                    found.push(one);
                    found.len() <= limit
                })?;
            }
        }
        Ok(found)
    }

    /// Returns the messages of a run's events that the target lacks, for a diff.
    pub fn of_run(&self, run: &Name) -> Result<Vec<Outgoing>> {
        let notes: Layers = off_main(self.from).collect();
        let mut found = Vec::new();
        if notes.is_empty() {
            return Ok(found);
        }
        let from = self.view(self.from);
        let into = self.view(self.into);
        let notes = self.view(&notes);
        let nothing = WriteSet::default();
        let prefix = event_prefix(run.as_str());
        let mut walk = notes.walk(&nothing, OUTBOX, &prefix, None);
        while let Some(step) = walk.next()? {
            let Some(lies) = message_of(step.payload())? else { continue };
            let key = step.name().get(prefix.len()..).and_then(|key| std::str::from_utf8(key).ok());
            let key = key.ok_or_else(super::damaged)?.to_owned();
            if seq_of(&into, &nothing, run, &key)?.is_none()
                && let Some(seq) = seq_of(&from, &nothing, run, &key)?
            {
                found.extend(self.of_event(Event { run: run.clone(), key, seq, lies })?);
            }
        }
        Ok(found)
    }

    /// Returns the message of an event, unless it was deleted.
    pub fn of_event(&self, event: Event) -> Result<Option<Outgoing>> {
        let (branch, id) = event.lies;
        let Some(layer) = self.from.iter().copied().find(|layer| layer.0 == branch) else {
            return Err(super::damaged());
        };
        let alone: Layers = smallvec![layer];
        let sort = Sort::Message;
        let written = self.read(&alone, &place(sort.kind(), id), |_, revision| Some(revision))?;
        let Some(revision) = written else { return Ok(None) };
        let origin = self.origin(&alone, sort, id)?.unwrap_or((branch, id));
        let event = Some(event);
        let lies = self.lies(origin)?;
        Ok(Some(Outgoing { sort, revision, layer, id, origin, event, lies }))
    }

    /// Visits the items of a layer that go by number and that the target lacks, until `visit` returns
    /// `false`.
    fn each_behind(
        &self,
        layer: (u32, Revision),
        sort: Sort,
        mut visit: impl FnMut(Outgoing) -> bool,
    ) -> Result<()> {
        let after = place(sort.kind(), self.known(sort, layer.0)?);
        let alone: Layers = smallvec![layer];
        let nothing = WriteSet::default();
        let view = self.view(&alone);
        let mut walk = view.walk(&nothing, OUTBOX, &[sort.kind()], Some(&after));
        while let Some(step) = walk.next()? {
            let Some(id) = number_of(&step) else { continue };
            if sort == Sort::Message && self.key_of_event(&alone, id)?.is_some() {
                continue;
            }
            let origin = self.origin(&alone, sort, id)?.unwrap_or((layer.0, id));
            if origin.1 <= self.known(sort, origin.0)? {
                continue;
            }
            let revision = step.head.revision;
            let event = None;
            let lies = None;
            if !visit(Outgoing { sort, revision, layer, id, origin, event, lies }) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the key of the event that a message was appended with.
    fn key_of_event(&self, alone: &Layers, id: u64) -> Result<Option<String>> {
        let state = self.read(alone, &place(b's', id), |mut rest, _| take_state(&mut rest))?;
        Ok(state.and_then(|state| state.event))
    }

    /// Returns the number up to which the target knows all items of a branch.
    fn known(&self, sort: Sort, branch: u32) -> Result<u64> {
        let inherited = self.into.iter().find(|(layer, _)| *layer == branch);
        let had = inherited.map_or(Ok(0), |layer| self.last(sort, *layer))?;
        Ok(had
            .max(self.read(self.into, &known_place(sort, branch), |b, _| number(b))?.unwrap_or(0)))
    }

    /// Returns the last number assigned in a layer.
    fn last(&self, sort: Sort, layer: (u32, Revision)) -> Result<u64> {
        let alone = smallvec![layer];
        let last = match sort {
            Sort::Message => {
                self.read(&alone, b"h", |bytes, _| Some(Counts::decode(bytes)?.last_id))
            }
            Sort::Request => self.read(&alone, b"n", |bytes, _| number(bytes)),
        };
        Ok(last?.unwrap_or(0))
    }

    fn origin(&self, layers: &Layers, sort: Sort, id: u64) -> Result<Option<Written>> {
        self.read(layers, &origin_place(sort, id), |bytes, _| written_of(bytes))
    }

    /// Returns the content of an item. Returns `None` if it was deleted or the target has it.
    pub fn content(&self, one: &Outgoing) -> Result<Option<Content>> {
        let alone: Layers = smallvec![one.layer];
        match one.sort {
            _ if one.lies.is_some() => Ok(None),
            Sort::Message => {
                let view = self.view(&alone);
                let mut nothing = WriteSet::default();
                let outbox = Outbox { view: &view, overlay: &mut nothing };
                let whole = outbox.letter(one.id)?.zip(outbox.state(one.id)?);
                Ok(whole.map(|(letter, state)| message(letter, state)))
            }
            Sort::Request => {
                let place = place(Sort::Request.kind(), one.id);
                let read = self.read(&alone, &place, |bytes, _| split_request(bytes))?;
                Ok(read.map(|(session, payload)| Content::Request { session, payload }))
            }
        }
    }

    /// Writes items to the target. Returns the number of requests that were dropped because their session is
    /// closed.
    pub fn bring(
        &self,
        overlay: &mut WriteSet,
        missing: Vec<Outgoing>,
        desk: &SessionContext<'_>,
    ) -> Result<u64> {
        let mut dropped = 0;
        for one in &in_order(missing) {
            if let (Some(event), Some(lies)) = (&one.event, one.lies) {
                let place = event_place(event.run.as_str(), &event.key);
                self.target(overlay, |outbox| outbox.set(&place, 0, &written(lies)))?;
            } else if let Some(content) = self.content(one)? {
                dropped += u64::from(!self.write(overlay, one, content, desk)?);
            }
        }
        self.learn(overlay)?;
        Ok(dropped)
    }

    /// Returns where the target has or had its copy of a message that was first written elsewhere.
    fn lies(&self, origin: Written) -> Result<Option<Written>> {
        if let Some(layer) = self.into.iter().find(|layer| layer.0 == origin.0)
            && origin.1 <= self.last(Sort::Message, *layer)?
        {
            return Ok(Some(origin));
        }
        self.read(self.into, &lies_place(origin), |bytes, _| written_of(bytes))
    }

    /// Writes an item to the target. Returns `false` if it was dropped.
    fn write(
        &self,
        overlay: &mut WriteSet,
        one: &Outgoing,
        content: Content,
        desk: &SessionContext<'_>,
    ) -> Result<bool> {
        let target = self.into[0].0;
        if let (Content::Request { session, payload }, MAIN_ID) = (&content, target) {
            return desk.deliver(overlay, session, payload);
        }
        self.target(overlay, |outbox| {
            let id = outbox.restore(&content)?;
            if target == MAIN_ID {
                return Ok(());
            }
            if one.event.is_some() {
                let lies = written((target, id));
                outbox.set(&lies_place(one.origin), 0, &lies)?;
            }
            outbox.set(&origin_place(one.sort, id), 0, &written(one.origin))
        })?;
        Ok(true)
    }

    /// Raises the numbers that the target knows to those of the source.
    fn learn(&self, overlay: &mut WriteSet) -> Result<()> {
        if !self.index.has_runs() {
            return Ok(());
        }
        let mut knows: BTreeMap<(Sort, u32), u64> = BTreeMap::new();
        let mut learn = |learnt, number: u64| {
            let upto = knows.entry(learnt).or_default();
            *upto = number.max(*upto);
        };
        // The numbers that `main` knows are not copied, because an item that reaches other branches twice
        // still reaches `main` only once. So a merge does not scan the numbers that all branches left on
        // `main`.
        for layer in off_main(self.from) {
            if self.into.iter().any(|(branch, upto)| *branch == layer.0 && *upto >= layer.1) {
                continue;
            }
            for sort in Sort::ALL {
                learn((sort, layer.0), self.last(sort, layer)?);
            }
            let alone: Layers = smallvec![layer];
            let nothing = WriteSet::default();
            let view = self.view(&alone);
            let mut walk = view.walk(&nothing, OUTBOX, b"k", None);
            while let Some(step) = walk.next()? {
                let learnt = split_known(step.name()).ok_or_else(super::damaged)?;
                learn(learnt, number(step.payload()).ok_or_else(super::damaged)?);
            }
        }
        for ((sort, branch), upto) in knows {
            // A branch needs no record of its own numbers.
            if branch != self.into[0].0 && upto > self.known(sort, branch)? {
                let place = known_place(sort, branch);
                self.target(overlay, |outbox| outbox.set(&place, 0, &upto.to_be_bytes()))?;
            }
        }
        Ok(())
    }

    fn target<T>(
        &self,
        overlay: &mut WriteSet,
        write: impl FnOnce(&mut Outbox<'_>) -> Result<T>,
    ) -> Result<T> {
        let own: Layers = smallvec![self.into[0]];
        write(&mut Outbox { view: &self.view(&own), overlay })
    }

    fn view<'v>(&'v self, layers: &'v Layers) -> View<'v> {
        let Transfer { index, now, budget, .. } = *self;
        View { index, layers, now, fresh: false, budget }
    }

    /// Reads a committed entry of the outbox.
    fn read<T>(
        &self,
        layers: &Layers,
        place: &[u8],
        mut read: impl FnMut(&[u8], Revision) -> Option<T>,
    ) -> Result<Option<T>> {
        let view = self.view(layers);
        let (key, hash) = view.key(OUTBOX, place);
        let found = view.find_stored(&key, hash, |head, payload| {
            let there = (!head.is_deleted()).then(|| read(payload, head.revision));
            there.map(|read| read.ok_or_else(super::damaged)).transpose()
        })?;
        Ok(found.and_then(|(found, _)| found))
    }
}

/// Sorts items by the order in which they were written, and removes duplicates. Messages of a run's events
/// are in the order of the events, which differs if the run was rewound.
pub fn in_order(mut found: Vec<Outgoing>) -> Vec<Outgoing> {
    found.sort_by_key(|one| (one.revision, one.sort, one.id));
    let mut seen = BTreeSet::new();
    found.retain(|one| seen.insert((one.sort, one.origin)));
    let mut of_runs: BTreeMap<Name, Vec<usize>> = BTreeMap::new();
    for (position, one) in found.iter().enumerate() {
        if let Some(event) = &one.event {
            of_runs.entry(event.run.clone()).or_default().push(position);
        }
    }
    let seq = |one: &Outgoing| one.event.as_ref().map_or(0, |event| event.seq);
    for positions in of_runs.into_values() {
        let mut messages: Vec<Outgoing> = positions.iter().map(|at| found[*at].clone()).collect();
        messages.sort_by_key(seq);
        positions.into_iter().zip(messages).for_each(|(at, message)| found[at] = message);
    }
    found
}

/// Visits all items that a branch has to send, for an export: its own and those of its ancestors except
/// `main`. Leaves out a message whose event the branch no longer has, unless the message is being delivered:
/// on `main`, or if branches are served.
pub(crate) fn each(
    view: &View<'_>,
    serves_branches: bool,
    mut visit: impl FnMut(Revision, Place, Content) -> Result<()>,
) -> Result<()> {
    let nobody: Layers = smallvec![(NOBODY, 0)];
    let View { index, now, budget, .. } = *view;
    let transfer = Transfer { index, from: view.layers, into: &nobody, now, budget };
    let is_main = view.branch() == MAIN_ID;
    for &layer in view.layers.iter().filter(|layer| is_main || layer.0 != MAIN_ID) {
        let alone: Layers = smallvec![layer];
        let nothing = WriteSet::default();
        let layer_view = transfer.view(&alone);
        for sort in Sort::ALL {
            let mut walk = layer_view.walk(&nothing, OUTBOX, &[sort.kind()], None);
            while let Some(step) = walk.next()? {
                let Some(id) = number_of(&step) else { continue };
                let revision = step.head.revision;
                let place = place(sort.kind(), id);
                let origin = (layer.0, id);
                let event = None;
                let lies = None;
                let one = Outgoing { sort, revision, layer, id, origin, event, lies };
                let Some(mut content) = transfer.content(&one)? else { continue };
                if let Content::Message { run: Some(run), event, .. } = &mut content
                    && let Some(key) = event.as_deref()
                    && !is_of_event(view, run, key, (layer.0, id))?
                {
                    if !is_main && !serves_branches {
                        continue;
                    }
                    *event = None;
                }
                visit(revision, place, content)?;
            }
        }
    }
    Ok(())
}

/// Returns whether a branch has an event, and this is the event's message.
fn is_of_event(view: &View<'_>, run: &str, key: &str, lies: Written) -> Result<bool> {
    let nothing = WriteSet::default();
    if seq_of(view, &nothing, &Name::new(run)?, key)?.is_none() {
        return Ok(false);
    }
    let message = message_at(view, &nothing, &event_place(run, key))?;
    Ok(view.branch() == MAIN_ID || message == Some(lies))
}

/// Records that an event appended on a branch has no message. Otherwise the message of a rewound event with
/// the same key would count as its message.
pub(crate) fn no_message(
    view: &View<'_>,
    overlay: &mut WriteSet,
    run: &str,
    key: &str,
) -> Result<()> {
    if view.branch() == MAIN_ID {
        return Ok(());
    }
    let place = event_place(run, key);
    match message_at(view, overlay, &place)? {
        None => Ok(()),
        Some(_) => Outbox { view, overlay }.set(&place, 0, b""),
    }
}

/// Returns where the message of an event is.
fn message_at(view: &View<'_>, overlay: &WriteSet, place: &[u8]) -> Result<Option<Written>> {
    let (key, hash) = view.key(OUTBOX, place);
    let found = view.find(overlay, &key, hash, |_, payload| message_of(payload))?;
    Ok(found.and_then(|(found, _)| found))
}

fn message_of(payload: &[u8]) -> Result<Option<Written>> {
    match payload {
        [] => Ok(None),
        lies => written_of(lies).map(Some).ok_or_else(super::damaged),
    }
}

/// Returns the layers whose items are not being delivered already: all except `main`.
fn off_main(layers: &Layers) -> impl Iterator<Item = (u32, Revision)> {
    layers.iter().copied().filter(|(branch, _)| *branch != MAIN_ID)
}

impl Outgoing {
    /// Returns the key of the item in a diff: its number, after the branch's name if another branch holds it.
    pub fn key(&self, catalog: &Catalog, side: u32, content: &Content) -> String {
        let id = self.id;
        let own = match content {
            Content::Message { .. } => id.to_string(),
            Content::Request { session, .. } => format!("{session}/{id}"),
        };
        match catalog.name_at(self.layer.0, NEWEST).filter(|_| self.layer.0 != side) {
            Some(branch) => format!("{branch}/{own}"),
            None => own,
        }
    }
}

impl Content {
    /// Returns the value of the item in a diff.
    pub fn to_value(&self) -> Value {
        let told: [(String, Value); 3] = match self {
            Content::Message { subject, run, payload, .. } => [
                ("subject".to_owned(), Value::from(subject.as_str())),
                ("payload".to_owned(), Value::Bytes(payload.clone())),
                ("run".to_owned(), run.as_deref().map_or(Value::Null, Value::from)),
            ],
            Content::Request { session, payload } => {
                let session = ("session".to_owned(), Value::from(session.as_str()));
                return Value::Object(
                    [session, ("payload".to_owned(), Value::Bytes(payload.clone()))].into(),
                );
            }
        };
        Value::Object(told.into())
    }
}

impl Content {
    /// Encodes the content for an export. A message: flags (1: dead, 2: appended with an event), the failure,
    /// subject, run, and with flag 2 the event's key. A request: its session. Then the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let payload = match self {
            Content::Message { subject, run, payload, dead, event } => {
                bytes.push(u8::from(dead.is_some()) | u8::from(event.is_some()) << 1);
                put_text(dead.as_deref().unwrap_or_default(), &mut bytes);
                put_text(subject, &mut bytes);
                put_text(run.as_deref().unwrap_or_default(), &mut bytes);
                if let Some(event) = event {
                    put_text(event, &mut bytes);
                }
                payload
            }
            Content::Request { session, payload } => {
                put_text(session.as_str(), &mut bytes);
                payload
            }
        };
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Returns the command that restores the item from an export.
    pub fn command(place: &[u8], bytes: &[u8]) -> Option<Command> {
        match Sort::of(*place.first()?)? {
            Sort::Message => {
                let (&flags, mut rest) = bytes.split_first()?;
                let why = take_text(&mut rest)?;
                let subject = take_text(&mut rest)?;
                let run = Some(take_text(&mut rest)?).filter(|run| !run.is_empty());
                let run = run.map(|run| Name::new(&run)).transpose().ok()?;
                let dead = (flags & 1 != 0).then_some(why);
                let event = if flags & 2 != 0 { Some(take_text(&mut rest)?) } else { None };
                let payload = rest.to_vec();
                Some(OutboxCommand::Restore { subject, payload, run, dead, event }.into())
            }
            Sort::Request => {
                let (session, payload) = split_request(bytes)?;
                Some(SessionCommand::Restore { session, payload }.into())
            }
        }
    }
}

impl Outbox<'_> {
    /// Writes an item of another branch or of an export. Returns its number here.
    pub(super) fn restore(&mut self, content: &Content) -> Result<u64> {
        match content {
            Content::Message { subject, run, payload, dead, event } => {
                let of = MessageOrigin { run: run.as_deref(), event: event.as_deref() };
                match dead {
                    None => self.put(subject, payload, of),
                    Some(why) => self.put_dead(subject, payload, of, why),
                }
            }
            Content::Request { session, payload } => self.keep(session, payload),
        }
    }

    /// Writes a dead letter. No message of its run waits for it.
    fn put_dead(
        &mut self,
        subject: &str,
        payload: &[u8],
        of: MessageOrigin<'_>,
        why: &str,
    ) -> Result<u64> {
        let mut counts = self.counts()?;
        counts.last_id += 1;
        counts.dead += 1;
        let id = counts.last_id;
        let due = self.view.now;
        self.write_letter(id, subject, payload, of)?;
        let failure = Some(super::cut(why).to_owned()).filter(|why| !why.is_empty());
        let event = of.event.map(str::to_owned);
        self.set_state(
            id,
            &MessageState { due, is_dead: true, failure, event, ..MessageState::default() },
        )?;
        self.set(&place(b'd', id), 0, b"")?;
        self.set_counts(counts)?;
        self.link(of, id)?;
        Ok(id)
    }

    /// Records on a branch that a message belongs to an event.
    pub(super) fn link(&mut self, of: MessageOrigin<'_>, id: u64) -> Result<()> {
        let branch = self.view.branch();
        match of.run.zip(of.event) {
            Some((run, key)) if branch != MAIN_ID => {
                self.set(&event_place(run, key), 0, &written((branch, id)))
            }
            _ => Ok(()),
        }
    }

    /// Detaches this branch's message of an event from that event. An export of `main` has several messages
    /// of one key if a run was rewound: all are being delivered, and the last one belongs to the event.
    pub(super) fn detach(&mut self, run: &str, key: &str) -> Result<()> {
        let found = message_at(self.view, self.overlay, &event_place(run, key))?;
        let Some((_, id)) = found.filter(|(branch, _)| *branch == self.view.branch()) else {
            return Ok(());
        };
        match self.state(id)? {
            Some(state) => self.set_state(id, &MessageState { event: None, ..state }),
            None => Ok(()),
        }
    }

    /// Removes the entries that tie an acknowledged message of a branch to its event and its origin.
    pub(super) fn unlink(&mut self, id: u64, event: Option<&str>) -> Result<()> {
        let branch = self.view.branch();
        if branch == MAIN_ID {
            return Ok(());
        }
        let run = self.letter(id)?.and_then(|letter| letter.run);
        if let Some((run, key)) = run.zip(event) {
            let place = event_place(&run, key);
            if message_at(self.view, self.overlay, &place)? == Some((branch, id)) {
                self.set(&place, 0, b"")?;
            }
        }
        self.remove(&origin_place(Sort::Message, id))
    }

    /// Stores a client request until the branch is merged. Returns its number.
    pub(super) fn keep(&mut self, session: &Name, payload: &[u8]) -> Result<u64> {
        let mut bytes = Vec::with_capacity(16 + session.as_bytes().len() + payload.len());
        put_text(session.as_str(), &mut bytes);
        bytes.extend_from_slice(payload);
        self.overlay.check_room(bytes.len() + 64)?;
        let id = self.read(b"n", |bytes, _| number(bytes))?.unwrap_or(0) + 1;
        self.set(&place(Sort::Request.kind(), id), 0, &bytes)?;
        self.set(b"n", 0, &id.to_be_bytes())?;
        Ok(id)
    }
}

/// Stores a client request on a branch. Returns its number there.
pub(crate) fn keep_request(
    view: &View<'_>,
    overlay: &mut WriteSet,
    session: &Name,
    payload: &[u8],
) -> Result<u64> {
    let own: Layers = smallvec![view.layers[0]];
    let view = &View { layers: &own, ..*view };
    Outbox { view, overlay }.keep(session, payload)
}

/// Decodes the client request written under a key of the outbox, for the feed.
pub(crate) fn told_request(name: &[u8], payload: &[u8]) -> Option<(u64, Name, Vec<u8>)> {
    let id = number(name.strip_prefix(&[Sort::Request.kind()])?)?;
    let (session, payload) = split_request(payload)?;
    Some((id, session, payload))
}

fn message(letter: MessageContent, state: MessageState) -> Content {
    let MessageContent { subject, run, payload, .. } = letter;
    let dead = state.is_dead.then(|| state.failure.clone().unwrap_or_default());
    Content::Message { subject, run, payload, dead, event: state.event }
}

fn split_request(mut rest: &[u8]) -> Option<(Name, Vec<u8>)> {
    let session = Name::new(&take_text(&mut rest)?).ok()?;
    Some((session, rest.to_vec()))
}

/// Returns the number of a scanned item, unless the item was deleted.
fn number_of(step: &NameStep<'_>) -> Option<u64> {
    step.name().get(1..).and_then(number).filter(|_| !step.head.is_deleted())
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn written((branch, id): Written) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&branch.to_be_bytes());
    bytes[4..].copy_from_slice(&id.to_be_bytes());
    bytes
}

fn written_of(bytes: &[u8]) -> Option<Written> {
    let (branch, id) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*branch), number(id)?))
}

fn origin_place(sort: Sort, id: u64) -> Place {
    let mut place: Place = smallvec![b'o', sort.kind()];
    place.extend_from_slice(&id.to_be_bytes());
    place
}

fn known_place(sort: Sort, branch: u32) -> Place {
    let mut place: Place = smallvec![b'k', sort.kind()];
    place.extend_from_slice(&branch.to_be_bytes());
    place
}

fn split_known(name: &[u8]) -> Option<(Sort, u32)> {
    let (head, branch) = name.split_first_chunk::<2>()?;
    Some((Sort::of(head[1])?, u32::from_be_bytes(branch.try_into().ok()?)))
}

fn lies_place(origin: Written) -> Place {
    let mut place: Place = smallvec![b'i'];
    place.extend_from_slice(&written(origin));
    place
}

fn event_prefix(run: &str) -> Place {
    let mut place: Place = smallvec![b'e'];
    place.extend_from_slice(run.as_bytes());
    place.push(0);
    place
}

fn event_place(run: &str, key: &str) -> Place {
    let mut place = event_prefix(run);
    place.extend_from_slice(key.as_bytes());
    place
}

/// Returns the error for delivery from a branch that is not served.
#[cold]
pub(crate) fn not_served(branch: &str) -> Error {
    let message = format!(
        "messages of branch `{branch}` are not delivered: they leave from `main`, once the branch is merged into it, \
         unless branches are served (the option `serve_branches`, of a server `database.serve_branches`)"
    );
    Error::new(Code::Unsupported, message)
}
