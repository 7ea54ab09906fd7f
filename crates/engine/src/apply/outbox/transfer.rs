//! Transfer of messages and requests to clients from one branch to another, in a merge.
//!
//! ```text
//!   the source's layers but `main`              the target
//!     m | id  messages          --those that it lacks, as they were written-->  m | id, c | id, with new numbers
//!     c | id  requests to clients                                               and on `main` into mailboxes
//!     n       the last number of those
//!
//!     o | m or c | id                    -> branch, number: where it was written first
//!     k | m or c | branch                -> up to which number of that branch it knows all
//!     x | branch | id                    -> nothing: a message up to that number that was left behind with its run
//! ```
//!
//! Numbers of a branch rise, and a merge covers everything that its source knows. So one number says how much a branch knows of
//! another: everything up to it but for what is left behind, and nothing after it. A fork knows by its layers everything that it
//! inherits. Messages on `main` are on their way already, and are brought nowhere.
//!
//! A message that was appended with an event comes with that event: where the target has the event already it is not
//! brought, and where the run stays as it is on the target, it is left behind until a later merge brings the run. So are other
//! messages of such a run. A message whose event is gone from its branch, since the run was deleted there, comes by its number.

use super::{Counts, Letter, Of, Outbox, State, place, take_state};
use crate::apply::runs::has_event;
use crate::apply::sessions::Desk;
use crate::catalog::{Catalog, Layers};
use crate::index::{Index, NEWEST};
use crate::overlay::Overlay;
use crate::spaces::{MAIN_ID, OUTBOX};
use crate::view::{Step, View};
use crate::work::Budget;
use mainstay_model::{
    Code, Command, Error, Name, OutboxCommand, Result, Revision, SessionCommand, Stamp, Value,
    put_text, take_text,
};
use smallvec::smallvec;
use std::collections::BTreeSet;

type Place = super::Place;

/// The number of a branch, and a number that was given there.
type Written = (u32, u64);

/// No branch has this number.
const NOBODY: u32 = u32::MAX;

/// Messages and requests have numbers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
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

/// Something that one branch has to send and another lacks.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub sort: Sort,
    /// The revision that wrote it where it lies.
    pub revision: Revision,
    /// The layer that it lies in.
    layer: (u32, Revision),
    /// Its number there.
    pub id: u64,
    origin: Written,
    /// The run and the key of the event that a message was appended with, if the source has that event.
    event: Option<(Name, String)>,
    /// Whether an earlier merge left it behind.
    pub is_late: bool,
}

/// The content of a message or a request.
pub(crate) enum Content {
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

/// A transfer from one branch to another, each with its layers.
pub(crate) struct Transfer<'t> {
    pub index: &'t Index,
    pub from: &'t Layers,
    pub into: &'t Layers,
    pub now: Stamp,
    pub budget: Budget<'t>,
}

/// The merge that a transfer is part of.
pub(crate) struct Bringing<'b> {
    pub desk: &'b Desk<'b>,
    /// Runs that the source changed, and that the target gets.
    pub brought_runs: &'b BTreeSet<String>,
    /// Runs that stay as they are on the target.
    pub left_runs: &'b BTreeSet<String>,
}

impl Transfer<'_> {
    /// Everything that the target lacks, in the order in which it was written; more than `limit` of
    /// it where there is more, and then not all.
    pub fn missing(&self, limit: usize) -> Result<Vec<Outgoing>> {
        let mut found = Vec::new();
        if !self.index.has_runs() {
            // Nothing is looked for where no outbox ever was.
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
        if found.len() > limit {
            return Ok(found);
        }
        found.sort_by_key(|one| (one.revision, one.sort, one.id));
        let mut seen = BTreeSet::new();
        found.retain(|one| seen.insert((one.sort, one.origin)));
        Ok(found)
    }

    /// Visits everything in a layer that the target lacks, until `visit` says that it is enough.
    fn each_behind(
        &self,
        layer: (u32, Revision),
        sort: Sort,
        mut visit: impl FnMut(Outgoing) -> bool,
    ) -> Result<()> {
        let known = self.known(sort, layer.0)?;
        let alone: Layers = smallvec![layer];
        let (view, nothing) = (self.view(&alone), Overlay::default());
        for id in self.left_of(sort, layer.0, known)? {
            let written =
                self.read(&alone, &place(sort.kind(), id), |_, revision| Some(revision))?;
            let Some(revision) = written else { continue };
            if !self.outgoing(&alone, sort, id, revision)?.is_none_or(&mut visit) {
                return Ok(());
            }
        }
        let after = place(sort.kind(), known);
        let mut walk = view.walk(&nothing, OUTBOX, &[sort.kind()], Some(&after));
        while let Some(step) = walk.next()? {
            let Some(id) = number_of(&step) else { continue };
            if !self.outgoing(&alone, sort, id, step.head.revision)?.is_none_or(&mut visit) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One that lies in a layer, if the target lacks it.
    fn outgoing(
        &self,
        alone: &Layers,
        sort: Sort,
        id: u64,
        revision: Revision,
    ) -> Result<Option<Outgoing>> {
        let layer = alone[0];
        let origin = self.origin(alone, sort, id)?.unwrap_or((layer.0, id));
        let is_late = sort == Sort::Message && self.is_left(origin)?;
        if !is_late && origin.1 <= self.known(sort, origin.0)? {
            return Ok(None);
        }
        let event = match sort {
            Sort::Message => self.event_of(alone, id)?,
            Sort::Request => None,
        };
        if let Some((run, key)) = &event
            && has_event(&self.view(self.into), &Overlay::default(), run, key)?
        {
            return Ok(None);
        }
        Ok(Some(Outgoing { sort, revision, layer, id, origin, event, is_late }))
    }

    /// The run and the key of the event that a message was appended with, if the source has that event.
    fn event_of(&self, alone: &Layers, id: u64) -> Result<Option<(Name, String)>> {
        let state = self.read(alone, &place(b's', id), |mut rest, _| take_state(&mut rest))?;
        let Some(key) = state.and_then(|state| state.event) else { return Ok(None) };
        let run = self.read(alone, &place(Sort::Message.kind(), id), |mut rest, _| {
            take_text(&mut rest)?;
            Name::new(&take_text(&mut rest)?).ok()
        })?;
        let Some(run) = run else { return Ok(None) };
        let is_there = has_event(&self.view(self.from), &Overlay::default(), &run, &key)?;
        Ok(is_there.then_some((run, key)))
    }

    /// The messages of a branch up to a number that earlier merges left behind.
    fn left_of(&self, sort: Sort, branch: u32, upto: u64) -> Result<Vec<u64>> {
        if sort != Sort::Message || upto == 0 {
            return Ok(Vec::new());
        }
        let left = self.left(self.into, &left_prefix(branch))?;
        Ok(left.into_iter().map(|(_, id)| id).collect())
    }

    /// The messages that merges into a branch left behind, from all places with this prefix.
    fn left(&self, layers: &Layers, prefix: &[u8]) -> Result<Vec<Written>> {
        let (view, nothing, mut left) = (self.view(layers), Overlay::default(), Vec::new());
        let mut walk = view.walk(&nothing, OUTBOX, prefix, None);
        while let Some(step) = walk.next()? {
            if !step.head.is_deleted() {
                left.push(split_left(step.name()).ok_or_else(super::damaged)?);
            }
        }
        Ok(left)
    }

    fn is_left(&self, origin: Written) -> Result<bool> {
        Ok(self.read(self.into, &left_place(origin), |_, _| Some(()))?.is_some())
    }

    /// Up to which number the target knows all of a branch.
    fn known(&self, sort: Sort, branch: u32) -> Result<u64> {
        let inherited = self.into.iter().find(|(layer, _)| *layer == branch);
        let had = inherited.map_or(Ok(0), |layer| self.last(sort, *layer))?;
        Ok(had
            .max(self.read(self.into, &known_place(sort, branch), |b, _| number(b))?.unwrap_or(0)))
    }

    /// The last number that was given in a layer.
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

    /// The content of one; nothing where it is gone.
    pub fn content(&self, one: &Outgoing) -> Result<Option<Content>> {
        let alone: Layers = smallvec![one.layer];
        match one.sort {
            Sort::Message => {
                let (view, mut nothing) = (self.view(&alone), Overlay::default());
                let outbox = Outbox { view: &view, overlay: &mut nothing };
                let whole = outbox.letter(one.id)?.zip(outbox.state(one.id)?);
                // Without its event in the source it stands alone.
                let event = one.event.as_ref().map(|(_, key)| key.clone());
                Ok(whole.map(|(letter, state)| message(letter, State { event, ..state })))
            }
            Sort::Request => {
                let place = place(Sort::Request.kind(), one.id);
                let read = self.read(&alone, &place, |bytes, _| split_request(bytes))?;
                Ok(read.map(|(session, payload)| Content::Request { session, payload }))
            }
        }
    }

    /// Writes everything that is missing to the target; gives how many requests were dropped since their session is gone.
    pub fn bring(
        &self,
        overlay: &mut Overlay,
        missing: &[Outgoing],
        bringing: &Bringing<'_>,
    ) -> Result<u64> {
        let mut dropped = 0;
        for one in missing {
            let Some(content) = self.content(one)? else { continue };
            if !self.comes(overlay, one, &content, bringing)? {
                self.leave(overlay, one)?;
                continue;
            }
            dropped += u64::from(!self.write(overlay, one, content, bringing.desk)?);
            if one.is_late {
                self.target(overlay, |outbox| {
                    outbox.remove(&left_place(one.origin))?;
                    outbox.remove(&left_place((one.layer.0, one.id)))
                })?;
            }
        }
        self.learn(overlay)?;
        Ok(dropped)
    }

    /// Whether a merge that has brought its runs brings this, too.
    fn comes(
        &self,
        overlay: &Overlay,
        one: &Outgoing,
        content: &Content,
        bringing: &Bringing<'_>,
    ) -> Result<bool> {
        let Content::Message { run: Some(run), .. } = content else { return Ok(true) };
        if one.is_late && !bringing.brought_runs.contains(run) {
            return Ok(false);
        }
        match &one.event {
            Some((run, key)) => has_event(&self.view(self.into), overlay, run, key),
            None => Ok(!bringing.left_runs.contains(run)),
        }
    }

    /// Remembers a message that stays behind, by where it lies and by where it was written first.
    fn leave(&self, overlay: &mut Overlay, one: &Outgoing) -> Result<()> {
        let lies = (one.layer.0, one.id);
        self.target(overlay, |outbox| {
            outbox.set(&left_place(one.origin), 0, b"")?;
            if lies == one.origin { Ok(()) } else { outbox.set(&left_place(lies), 0, b"") }
        })
    }

    /// Writes one to the target; says whether it went anywhere.
    fn write(
        &self,
        overlay: &mut Overlay,
        one: &Outgoing,
        content: Content,
        desk: &Desk<'_>,
    ) -> Result<bool> {
        let into_main = self.into[0].0 == MAIN_ID;
        if let (Content::Request { session, payload }, true) = (&content, into_main) {
            return desk.deliver(overlay, session, payload);
        }
        self.target(overlay, |outbox| {
            let id = outbox.restore(&content)?;
            match into_main {
                // Nothing is brought from there: nobody asks.
                true => Ok(()),
                false => outbox.set(&origin_place(one.sort, id), 0, &written(one.origin)),
            }
        })?;
        Ok(true)
    }

    /// Raises the numbers that the target knows to those of the source.
    fn learn(&self, overlay: &mut Overlay) -> Result<()> {
        if !self.index.has_runs() {
            return Ok(());
        }
        let mut knows: Vec<(Sort, u32, u64)> = Vec::new();
        for layer in off_main(self.from) {
            for sort in Sort::ALL {
                knows.push((sort, layer.0, self.last(sort, layer)?));
            }
        }
        let (view, nothing) = (self.view(self.from), Overlay::default());
        let mut walk = view.walk(&nothing, OUTBOX, b"k", None);
        while let Some(step) = walk.next()? {
            let (sort, branch) = split_known(step.name()).ok_or_else(super::damaged)?;
            knows.push((sort, branch, number(step.payload()).ok_or_else(super::damaged)?));
        }
        // What the source lacks of that, the target lacks as well, unless it knew it before.
        for (branch, id) in self.left(self.from, b"x")? {
            if branch != self.into[0].0 && id > self.known(Sort::Message, branch)? {
                self.target(overlay, |outbox| outbox.set(&left_place((branch, id)), 0, b""))?;
            }
        }
        for (sort, branch, upto) in knows {
            // Its own numbers it knows by itself.
            if branch != self.into[0].0 && upto > self.known(sort, branch)? {
                let place = known_place(sort, branch);
                self.target(overlay, |outbox| outbox.set(&place, 0, &upto.to_be_bytes()))?;
            }
        }
        Ok(())
    }

    fn target<T>(
        &self,
        overlay: &mut Overlay,
        write: impl FnOnce(&mut Outbox<'_>) -> Result<T>,
    ) -> Result<T> {
        let own: Layers = smallvec![self.into[0]];
        write(&mut Outbox { view: &self.view(&own), overlay })
    }

    fn view<'v>(&'v self, layers: &'v Layers) -> View<'v> {
        let Transfer { index, now, budget, .. } = *self;
        View { index, layers, now, fresh: false, budget }
    }

    /// Reads an entry of the outbox as it was committed.
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

/// Visits everything that a branch has to send, for an export: its own, and its ancestors' but for that of `main`.
pub(crate) fn each(
    view: &View<'_>,
    mut visit: impl FnMut(&Outgoing, Content) -> Result<()>,
) -> Result<()> {
    let nobody: Layers = smallvec![(NOBODY, 0)];
    let View { index, now, budget, .. } = *view;
    let transfer = Transfer { index, from: view.layers, into: &nobody, now, budget };
    let mut found = transfer.missing(usize::MAX)?;
    if view.branch() == MAIN_ID {
        for sort in Sort::ALL {
            transfer.each_behind(view.layers[0], sort, |one| {
                found.push(one);
                true
            })?;
        }
    }
    for one in &found {
        if let Some(content) = transfer.content(one)? {
            visit(one, content)?;
        }
    }
    Ok(())
}

/// The layers that have something to send which is not on its way.
fn off_main(layers: &Layers) -> impl Iterator<Item = (u32, Revision)> {
    layers.iter().copied().filter(|(branch, _)| *branch != MAIN_ID)
}

impl Outgoing {
    /// Its place in the outbox that it lies in.
    pub fn place(&self) -> Place {
        place(self.sort.kind(), self.id)
    }

    /// The key that a difference shows it under: its number, behind the branch where another one has it.
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
    /// The run that it is of.
    pub fn run(&self) -> Option<&str> {
        match self {
            Content::Message { run, .. } => run.as_deref(),
            Content::Request { .. } => None,
        }
    }

    /// The value that a difference shows.
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
    /// As an export keeps it: of a message flags, 1 if it is dead and 2 if it was appended with an event, why it is dead, subject,
    /// run, and the event's key with flag 2; of a request its session; then the payload.
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

    /// The command that restores it from an export.
    pub fn command(place: &[u8], bytes: &[u8]) -> Option<Command> {
        match Sort::of(*place.first()?)? {
            Sort::Message => {
                let (&flags, mut rest) = bytes.split_first()?;
                let (why, subject) = (take_text(&mut rest)?, take_text(&mut rest)?);
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
    /// Writes something as it was written elsewhere; gives its number here.
    pub(super) fn restore(&mut self, content: &Content) -> Result<u64> {
        match content {
            Content::Message { subject, run, payload, dead, event } => {
                let of = Of { run: run.as_deref(), event: event.as_deref() };
                match dead {
                    None => self.put(subject, payload, of),
                    Some(why) => self.put_dead(subject, payload, of, why),
                }
            }
            Content::Request { session, payload } => self.keep(session, payload),
        }
    }

    /// Writes a message that was given up; nobody of its run waits for it.
    fn put_dead(&mut self, subject: &str, payload: &[u8], of: Of<'_>, why: &str) -> Result<u64> {
        let mut counts = self.counts()?;
        counts.last_id += 1;
        counts.dead += 1;
        let (id, due) = (counts.last_id, self.view.now);
        self.write_letter(id, subject, payload, of)?;
        let failure = Some(super::cut(why).to_owned()).filter(|why| !why.is_empty());
        let event = of.event.map(str::to_owned);
        self.set_state(id, &State { due, is_dead: true, failure, event, ..State::default() })?;
        self.set(&place(b'd', id), 0, b"")?;
        self.set_counts(counts)?;
        Ok(id)
    }

    /// Keeps a request to a client until the branch is merged; gives its number.
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

/// Keeps a request to a client on a branch; gives its number there.
pub(crate) fn keep_request(
    view: &View<'_>,
    overlay: &mut Overlay,
    session: &Name,
    payload: &[u8],
) -> Result<u64> {
    let own: Layers = smallvec![view.layers[0]];
    let view = &View { layers: &own, ..*view };
    Outbox { view, overlay }.keep(session, payload)
}

/// The request to a client that was written under a key of the outbox, for the feed.
pub(crate) fn told_request(name: &[u8], payload: &[u8]) -> Option<(u64, Name, Vec<u8>)> {
    let id = number(name.strip_prefix(&[Sort::Request.kind()])?)?;
    let (session, payload) = split_request(payload)?;
    Some((id, session, payload))
}

fn message(letter: Letter, state: State) -> Content {
    let Letter { subject, run, payload, .. } = letter;
    let dead = state.is_dead.then(|| state.failure.clone().unwrap_or_default());
    Content::Message { subject, run, payload, dead, event: state.event }
}

fn split_request(mut rest: &[u8]) -> Option<(Name, Vec<u8>)> {
    let session = Name::new(&take_text(&mut rest)?).ok()?;
    Some((session, rest.to_vec()))
}

/// The number of a message or request that a walk came by, if it is there.
fn number_of(step: &Step<'_>) -> Option<u64> {
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

fn left_prefix(branch: u32) -> Place {
    let mut place: Place = smallvec![b'x'];
    place.extend_from_slice(&branch.to_be_bytes());
    place
}

fn left_place((branch, id): Written) -> Place {
    let mut place = left_prefix(branch);
    place.extend_from_slice(&id.to_be_bytes());
    place
}

fn split_left(name: &[u8]) -> Option<Written> {
    written_of(name.get(1..)?)
}

/// Refuses whoever would deliver from a branch that is not served.
#[cold]
pub(crate) fn not_served(branch: &str) -> Error {
    let message = format!(
        "messages of branch `{branch}` are not delivered: they leave from `main`, once the branch is merged into it, \
         unless branches are served (the option `serve_branches`, of a server `database.serve_branches`)"
    );
    Error::new(Code::Unsupported, message)
}
