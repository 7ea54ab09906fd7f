//! Staged restore of a run, which stays hidden until it is complete.
//!
//! ```text
//!   begin     the name is taken, as if the run had been deleted; hidden head { generation, 0 }
//!   continue  events after the hidden head's last one, batch by batch     without a head, readers do not find them
//!   end       the hidden head becomes the run's head, in one write        the run is complete
//! ```
//!
//! After a crash, the next restore finds the remains, and they are deleted like those of a deleted run.

use super::append::{FeedEvents, RunWriter, check_kept};
use super::delete;
use super::head::{self, RunHead, RunState};
use crate::apply::key_state::{load_with, remove, remove_quietly};
use crate::key::keyspace::STATES;
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{CanonicalEvent, Code, Error, Name, Result, Revision, Stamp, Value};

/// A batch of a run in a staged restore.
pub(super) struct StagedEvents<'p> {
    pub run: &'p Name,
    pub metadata: Option<&'p Value>,
    pub created: Option<Stamp>,
    pub events: &'p [CanonicalEvent],
    /// Revision of the transaction that began the restore. `None`: this transaction begins it.
    pub begun: Option<Revision>,
    /// Whether this batch completes the run.
    pub ends: bool,
}

impl RunWriter<'_> {
    /// Writes a batch. Returns the number of new events.
    pub fn restore_hidden(&mut self, piece: &StagedEvents<'_>) -> Result<u64> {
        let run = piece.run;
        if head::meet(self.view, self.overlay, run)?.head.is_some() {
            return Err(exists(run));
        }
        let there = meet(self.view, self.overlay, run)?.head;
        let head = piece.goes_on(there, self.revision)?;
        // A command that fails must have written nothing, so all checks come first.
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

    /// Creates a hidden generation of the run, and schedules the deletion of an earlier one.
    fn begin(&mut self, piece: &StagedEvents<'_>, left: Option<RunHead>) -> Result<()> {
        let run = piece.run;
        if let Some(left) = left {
            delete::mark(self.view.index, self.overlay, self.view.branch(), run, left.generation)?;
        }
        let name = head::meet(self.view, self.overlay, run)?;
        if !name.is_deleted() && !piece.ends {
            // A concurrent append fails with `RunNotFound` and does not create the run.
            remove_quietly(self.overlay, name.seen)?;
        }
        let met = meet(self.view, self.overlay, run)?;
        let created = piece.created;
        let created = created.unwrap_or(self.view.now);
        self.make(run, met, created, piece.metadata, FeedEvents::Nothing)
    }

    /// Makes the hidden generation of the run visible.
    fn show(&mut self, run: &Name) -> Result<()> {
        let hidden = meet(self.view, self.overlay, run)?;
        let Some(head) = hidden.head else { return Err(over(run)) };
        let name = head::meet(self.view, self.overlay, run)?;
        head::put(self.overlay, name.seen, &RunHead { shown: self.revision, ..head })?;
        remove(self.overlay, hidden.seen)
    }
}

impl StagedEvents<'_> {
    /// Returns the hidden head to continue from, or `None` if this batch begins the restore.
    fn goes_on(&self, there: Option<RunHead>, revision: Revision) -> Result<Option<RunHead>> {
        let there_at = there.map(|head| head.generation);
        match self.begun {
            // A generation is identified by the revision that created it, so one transaction cannot create
            // two of them.
            None if there_at == Some(revision) => Err(over(self.run)),
            None => Ok(None),
            begun if begun == there_at => Ok(there),
            Some(_) => Err(over(self.run)),
        }
    }
}

/// Abandons the staged restore of a run.
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

/// Returns the hidden head of a run.
pub(crate) fn find(view: &View<'_>, overlay: &WriteSet, run: &Name) -> Result<Option<RunHead>> {
    Ok(meet(view, overlay, run)?.head)
}

/// Returns whether the transaction that deleted a run also began to restore it: the run is being rewound.
pub(crate) fn is_being_rewound(view: &View<'_>, run: &Name, deleted: Revision) -> Result<bool> {
    let hidden = find(view, &WriteSet::default(), run)?;
    Ok(hidden.is_some_and(|head| head.generation == deleted))
}

/// Loads the hidden generation of a run.
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
