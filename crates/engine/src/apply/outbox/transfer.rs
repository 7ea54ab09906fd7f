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
//!     i | branch | number                -> its number here: the way back from where it was written first
//!     x | run 00 | branch | number       -> nothing: a message that was written first there and that a merge left behind
//! ```
//!
//! Numbers of a branch rise, and a merge covers everything that its source knows. So one number says how much a branch knows of
//! another: everything up to it but for the messages left behind, and nothing after it. A fork knows by its layers everything
//! that it inherits. Messages on `main` are on their way already, and are brought nowhere.
//!
//! A message that was appended with an event comes with that event: a merge that does not bring the event leaves the message
//! behind, and the merge that brings it brings both. A message whose run was deleted on its branch comes by its number. So
//! do messages of a run that have no event, unless the run stays as it is on the target: then they are left behind, with all later
//! ones, until a merge brings the run.

use super::{Counts, Letter, Of, Outbox, State, place, take_state};
use crate::apply::runs::{has_event, last_seq_of};
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
use std::collections::{BTreeMap, BTreeSet};

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
    /// The run that a message is of.
    run: Option<Name>,
    /// The key of the event that it was appended with.
    event: Option<String>,
    link: Link,
    /// Whether an earlier merge left it behind.
    is_left: bool,
    /// Whether messages of its run wait in its layer for a merge that brings the run.
    is_blocked: bool,
    /// Whether a later message of its layer was appended with the same event, which was rewound in between.
    is_superseded: bool,
}

/// How a message stands to the event that it was appended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// It was appended with none.
    None,
    /// The source has it, and the target does not.
    InSource,
    /// The target has it.
    InTarget,
    /// The run goes on without it in the source: it was rewound.
    Lost,
    /// The run is gone from the source.
    RunGone,
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
    pub runs: &'b MergedRuns,
}

/// The runs that the source of a merge changed.
#[derive(Default)]
pub(crate) struct MergedRuns {
    /// Those that the target gets.
    pub brought: BTreeSet<String>,
    /// Those that stay as they are on the target.
    pub kept: BTreeSet<String>,
}

impl Transfer<'_> {
    /// Everything that the target lacks, in the order in which it was written, and of the messages that merges left behind those of
    /// the runs that the source changed. Where that is more than `limit`, some more than that.
    pub fn missing(&self, limit: usize, changed_runs: &BTreeSet<String>) -> Result<Vec<Outgoing>> {
        let mut found = Vec::new();
        if !self.index.has_runs() {
            // Nothing is looked for where no outbox ever was.
            return Ok(found);
        }
        self.each_left(changed_runs, |one| {
            found.push(one);
            found.len() <= limit
        })?;
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
        supersede(&mut found);
        self.block(&mut found)?;
        Ok(found)
    }

    /// Visits the messages of these runs that merges left behind and that may come, until `visit` says that it is enough.
    fn each_left(
        &self,
        runs: &BTreeSet<String>,
        mut visit: impl FnMut(Outgoing) -> bool,
    ) -> Result<()> {
        if self.left(self.into, b"x", 1)?.is_empty() {
            return Ok(());
        }
        for run in runs {
            for (_, origin) in self.left(self.into, &left_run(run), usize::MAX)? {
                for layer in off_main(self.from) {
                    if let Some(one) = self.waiting(layer, origin)?
                        && !visit(one)
                    {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// A message that a merge left behind, by where it was written first, if it lies in a layer and waits for its run.
    fn waiting(&self, layer: (u32, Revision), origin: Written) -> Result<Option<Outgoing>> {
        let alone: Layers = smallvec![layer];
        let id = match layer.0 == origin.0 {
            true => Some(origin.1),
            false => self.read(&alone, &own_place(origin), |bytes, _| number(bytes))?,
        };
        let Some(id) = id else { return Ok(None) };
        let written = self.read(&alone, &place(b'm', id), |_, revision| Some(revision))?;
        let Some(revision) = written else { return Ok(None) };
        let one = self.outgoing(&alone, Sort::Message, id, revision)?;
        Ok(one.filter(|one| one.is_left && matches!(one.link, Link::None | Link::InSource)))
    }

    /// Finds the messages without an event that have to wait behind others of their run.
    fn block(&self, found: &mut [Outgoing]) -> Result<()> {
        let mut known: BTreeMap<(u32, String), bool> = BTreeMap::new();
        for one in found.iter_mut().filter(|one| one.link == Link::None && !one.is_left) {
            let Some(run) = &one.run else { continue };
            let key = (one.layer.0, run.as_str().to_owned());
            one.is_blocked = match known.get(&key) {
                Some(is_blocked) => *is_blocked,
                None => {
                    let is_blocked = self.has_waiting(one.layer, run)?;
                    known.insert(key, is_blocked);
                    is_blocked
                }
            };
        }
        Ok(())
    }

    /// Visits everything in a layer behind the number that the target knows of it, if the target lacks it, until `visit` says that
    /// it is enough.
    fn each_behind(
        &self,
        layer: (u32, Revision),
        sort: Sort,
        mut visit: impl FnMut(Outgoing) -> bool,
    ) -> Result<()> {
        let after = place(sort.kind(), self.known(sort, layer.0)?);
        let (alone, nothing): (Layers, _) = (smallvec![layer], Overlay::default());
        let view = self.view(&alone);
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
        let (run, event) = match sort {
            Sort::Message => self.run_and_event(alone, id)?,
            Sort::Request => (None, None),
        };
        let is_left = run.as_ref().map_or(Ok(false), |run| self.is_left(run, origin))?;
        if !is_left && origin.1 <= self.known(sort, origin.0)? {
            return Ok(None);
        }
        let link = self.link(run.as_ref(), event.as_deref())?;
        Ok(Some(Outgoing {
            sort,
            revision,
            layer,
            id,
            origin,
            run,
            event,
            link,
            is_left,
            is_blocked: false,
            is_superseded: false,
        }))
    }

    /// The run of a message and the key of the event that it was appended with.
    fn run_and_event(&self, alone: &Layers, id: u64) -> Result<(Option<Name>, Option<String>)> {
        let state = self.read(alone, &place(b's', id), |mut rest, _| take_state(&mut rest))?;
        let run = self.read(alone, &place(Sort::Message.kind(), id), |mut rest, _| {
            take_text(&mut rest)?;
            take_text(&mut rest)
        })?;
        let run = run.filter(|run| !run.is_empty()).map(|run| Name::new(&run)).transpose()?;
        Ok((run, state.and_then(|state| state.event)))
    }

    fn link(&self, run: Option<&Name>, event: Option<&str>) -> Result<Link> {
        let Some((run, key)) = run.zip(event) else { return Ok(Link::None) };
        let (from, into) = (self.view(self.from), self.view(self.into));
        let nothing = Overlay::default();
        Ok(match () {
            () if has_event(&into, &nothing, run, key)? => Link::InTarget,
            () if has_event(&from, &nothing, run, key)? => Link::InSource,
            () if last_seq_of(&from, &nothing, run)?.is_some() => Link::Lost,
            () => Link::RunGone,
        })
    }

    /// The messages that merges into a branch left behind, at places with this prefix, at most so many: their runs, and
    /// where they were written first.
    fn left(&self, layers: &Layers, prefix: &[u8], limit: usize) -> Result<Vec<(String, Written)>> {
        let (view, nothing, mut found) = (self.view(layers), Overlay::default(), Vec::new());
        let mut walk = view.walk(&nothing, OUTBOX, prefix, None);
        while let Some(step) = walk.next()?.filter(|_| found.len() < limit) {
            if !step.head.is_deleted() {
                found.push(split_left(step.name()).ok_or_else(super::damaged)?);
            }
        }
        Ok(found)
    }

    fn is_left(&self, run: &Name, origin: Written) -> Result<bool> {
        let place = left_place(run.as_str(), origin);
        Ok(self.read(self.into, &place, |_, _| Some(()))?.is_some())
    }

    /// Whether messages of a run in a layer wait for a merge that brings the run.
    fn has_waiting(&self, layer: (u32, Revision), run: &Name) -> Result<bool> {
        for (_, origin) in self.left(self.into, &left_run(run.as_str()), usize::MAX)? {
            if self.waiting(layer, origin)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
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
                Ok(whole.map(|(letter, state)| message(letter, state)))
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
            if one.is_superseded {
                self.forget_left(overlay, one)?;
            } else if !self.comes(one, bringing.runs, Some(overlay))? {
                self.leave(overlay, one)?;
            } else if let Some(content) = self.content(one)? {
                dropped += u64::from(!self.write(overlay, one, content, bringing.desk)?);
                self.forget_left(overlay, one)?;
            }
        }
        self.learn(overlay)?;
        Ok(dropped)
    }

    /// Whether a merge brings this; `merged` has the runs that it has brought. A difference asks before there is a merge.
    pub fn comes(
        &self,
        one: &Outgoing,
        runs: &MergedRuns,
        merged: Option<&Overlay>,
    ) -> Result<bool> {
        let Some(run) = &one.run else { return Ok(true) };
        let (is_brought, is_kept) =
            (runs.brought.contains(run.as_str()), runs.kept.contains(run.as_str()));
        Ok(match (one.link, merged) {
            (Link::InTarget | Link::Lost, _) => false,
            (Link::InSource, Some(merged)) => {
                let key = one.event.as_deref().unwrap_or_default();
                has_event(&self.view(self.into), merged, run, key)?
            }
            (Link::InSource, None) => is_brought,
            (Link::RunGone, _) => !one.is_left && !is_kept,
            (Link::None, _) if one.is_left => is_brought,
            (Link::None, _) => !is_kept && (is_brought || !one.is_blocked),
        })
    }

    /// Remembers a message that stays behind.
    fn leave(&self, overlay: &mut Overlay, one: &Outgoing) -> Result<()> {
        let Some(run) = one.run.as_ref().filter(|_| !one.is_left) else { return Ok(()) };
        let place = left_place(run.as_str(), one.origin);
        self.target(overlay, |outbox| outbox.set(&place, 0, b""))
    }

    /// A message that was left behind is left no longer.
    fn forget_left(&self, overlay: &mut Overlay, one: &Outgoing) -> Result<()> {
        let Some(run) = one.run.as_ref().filter(|_| one.is_left) else { return Ok(()) };
        let place = left_place(run.as_str(), one.origin);
        self.target(overlay, |outbox| outbox.remove(&place))
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
                false => {
                    outbox.set(&origin_place(one.sort, id), 0, &written(one.origin))?;
                    match one.sort {
                        Sort::Message => outbox.set(&own_place(one.origin), 0, &id.to_be_bytes()),
                        Sort::Request => Ok(()),
                    }
                }
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
        let mut raised = BTreeMap::new();
        for (sort, branch, upto) in knows {
            let known = self.known(sort, branch)?;
            // Its own numbers it knows by itself.
            if branch == self.into[0].0 || upto <= known {
                continue;
            }
            let place = known_place(sort, branch);
            self.target(overlay, |outbox| outbox.set(&place, 0, &upto.to_be_bytes()))?;
            if sort == Sort::Message {
                raised.insert(branch, known);
            }
        }
        self.learn_left(overlay, &raised)
    }

    /// Messages behind the numbers that the target knew before, by branch, are left behind there if the source left them.
    fn learn_left(&self, overlay: &mut Overlay, raised: &BTreeMap<u32, u64>) -> Result<()> {
        if raised.is_empty() {
            return Ok(());
        }
        for (run, origin) in self.left(self.from, b"x", usize::MAX)? {
            if raised.get(&origin.0).is_some_and(|known| origin.1 > *known) {
                let place = left_place(&run, origin);
                self.target(overlay, |outbox| outbox.set(&place, 0, b""))?;
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

/// An event that was rewound and appended again has the message that it was appended with last.
fn supersede(found: &mut [Outgoing]) {
    let mut last: BTreeMap<(Option<Name>, Option<String>), u32> = BTreeMap::new();
    for one in found.iter_mut().rev() {
        if !matches!(one.link, Link::InSource | Link::RunGone) {
            continue;
        }
        let event = (one.run.clone(), one.event.clone());
        match last.get(&event) {
            Some(layer) => {
                one.link = Link::Lost;
                // Elsewhere it may still be the last one.
                one.is_superseded = *layer == one.layer.0;
            }
            None => drop(last.insert(event, one.layer.0)),
        }
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
    let mut found = transfer.missing(usize::MAX, &BTreeSet::new())?;
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

fn own_place(origin: Written) -> Place {
    let mut place: Place = smallvec![b'i'];
    place.extend_from_slice(&written(origin));
    place
}

fn left_run(run: &str) -> Place {
    let mut place: Place = smallvec![b'x'];
    place.extend_from_slice(run.as_bytes());
    place.push(0);
    place
}

fn left_place(run: &str, origin: Written) -> Place {
    let mut place = left_run(run);
    place.extend_from_slice(&written(origin));
    place
}

fn split_left(name: &[u8]) -> Option<(String, Written)> {
    let (run, origin) = name.get(1..)?.split_last_chunk::<12>()?;
    let run = std::str::from_utf8(run.strip_suffix(&[0])?).ok()?.to_owned();
    Some((run, written_of(origin)?))
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
