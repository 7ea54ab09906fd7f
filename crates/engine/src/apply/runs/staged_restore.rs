//! Restoring a run that nobody sees before it is whole.
//!
//! ```text
//!   begins  the name is taken, as if the run had been deleted; hidden head { generation, 0 }
//!   goes on events behind the hidden head's, piece after piece         no head: nobody finds them
//!   ends    the hidden head becomes the run's head, in one write       all of it is there
//! ```
//!
//! What a crash leaves is found by whoever begins again, and goes as the life of a deleted run does.

use super::append::{FeedEvents, RunWriter, check_kept};
use super::delete;
use super::head::{self, RunHead, RunState};
use crate::apply::key_state::{load_with, remove, remove_quietly};
use crate::key::keyspace::STATES;
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{CanonicalEvent, Code, Error, Name, Result, Revision, Stamp, Value};

/// A piece of a run that is restored where nobody sees it.
pub(super) struct StagedEvents<'p> {
    pub run: &'p Name,
    pub metadata: Option<&'p Value>,
    pub created: Option<Stamp>,
    pub events: &'p [CanonicalEvent],
    /// The transaction that began; nothing: this one does.
    pub begun: Option<Revision>,
    /// Whether the run is whole with it.
    pub ends: bool,
}

impl RunWriter<'_> {
    /// Writes a piece; says how many of its events were not there.
    pub fn restore_hidden(&mut self, piece: &StagedEvents<'_>) -> Result<u64> {
        let run = piece.run;
        if head::meet(self.view, self.overlay, run)?.head.is_some() {
            return Err(exists(run));
        }
        let there = meet(self.view, self.overlay, run)?.head;
        let head = piece.goes_on(there, self.revision)?;
        // A command that fails has written nothing: what can be wrong is looked at first.
        check_kept(run, head.map_or(0, |head| head.last_seq), piece.events)?;
        self.check_room_for(run, piece.metadata, piece.events)?;
        self.check_restored(run, head.as_ref(), piece.events)?;
        if head.is_none() {
            self.begin(piece, there)?;
        }
        let mut written = 0;
        for event in piece.events {
            let met = meet(self.view, self.overlay, run)?;
            written += u64::from(self.restore_one(run, met, event, FeedEvents::Nothing)?);
        }
        if piece.ends {
            self.show(run)?;
        }
        Ok(written)
    }

    /// Makes a hidden life of the run; what another one left goes.
    fn begin(&mut self, piece: &StagedEvents<'_>, left: Option<RunHead>) -> Result<()> {
        let run = piece.run;
        if let Some(left) = left {
            delete::mark(self.view.index, self.overlay, self.view.branch(), run, left.generation)?;
        }
        let name = head::meet(self.view, self.overlay, run)?;
        if !name.is_deleted() && !piece.ends {
            // Whoever appends meanwhile is told that there is no such run, and makes none.
            remove_quietly(self.overlay, name.seen)?;
        }
        let (met, created) = (meet(self.view, self.overlay, run)?, piece.created);
        let created = created.unwrap_or(self.view.now);
        self.make(run, met, created, piece.metadata, FeedEvents::Nothing)
    }

    /// Makes the hidden life of a run the one that all see.
    fn show(&mut self, run: &Name) -> Result<()> {
        let hidden = meet(self.view, self.overlay, run)?;
        let Some(head) = hidden.head else { return Err(over(run)) };
        let name = head::meet(self.view, self.overlay, run)?;
        head::put(self.overlay, name.seen, &RunHead { shown: self.revision, ..head })?;
        remove(self.overlay, hidden.seen)
    }
}

impl StagedEvents<'_> {
    /// The hidden head that it goes on from; nothing where it begins.
    fn goes_on(&self, there: Option<RunHead>, revision: Revision) -> Result<Option<RunHead>> {
        let there_at = there.map(|head| head.generation);
        match self.begun {
            // Its life is known by the revision that made it: a further one could not be told from it.
            None if there_at == Some(revision) => Err(over(self.run)),
            None => Ok(None),
            begun if begun == there_at => Ok(there),
            Some(_) => Err(over(self.run)),
        }
    }
}

/// Gives up what was restored of a run that nobody sees.
pub(super) fn give_up(
    view: &View<'_>,
    overlay: &mut WriteSet,
    run: &Name,
    revision: Revision,
) -> Result<()> {
    let met = meet(view, overlay, run)?;
    let Some(head) = met.head.filter(|head| head.generation != revision) else { return Ok(()) };
    delete::mark(view.index, overlay, view.branch(), run, head.generation)?;
    remove(overlay, met.seen)
}

/// The head of a run that nobody sees yet.
pub(crate) fn find(view: &View<'_>, overlay: &WriteSet, run: &Name) -> Result<Option<RunHead>> {
    Ok(meet(view, overlay, run)?.head)
}

/// Whether the transaction that deleted a run began to restore it: it is being rewound.
pub(crate) fn is_being_rewound(view: &View<'_>, run: &Name, deleted: Revision) -> Result<bool> {
    let hidden = find(view, &WriteSet::default(), run)?;
    Ok(hidden.is_some_and(|head| head.generation == deleted))
}

/// The life of a run that nobody sees yet.
fn meet(view: &View<'_>, overlay: &WriteSet, run: &Name) -> Result<RunState> {
    let place = run_keys::hidden(run.as_str());
    let (seen, head) = load_with(view, overlay, STATES, &place, RunHead::decode)?;
    Ok(RunState { seen, head })
}

#[cold]
fn exists(run: &Name) -> Error {
    let message = format!("run `{run}` exists: delete it before it is restored, or leave it");
    Error::new(Code::RunExists, message)
}

#[cold]
fn over(run: &Name) -> Error {
    let message = format!(
        "this restoring of run `{run}` is over, or another one has begun since: begin it again"
    );
    Error::new(Code::Fenced, message)
}
