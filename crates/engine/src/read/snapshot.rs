//! MVCC snapshots: one branch at one revision, read without blocking writers.

use crate::apply::{cells, hashes, key_state, keyed, names, outbox, records, runs};
use crate::base::work::{Budget, WorkMeter};
use crate::key::keyspace::{CELLS, KEYED, OUTBOX, RECORDS, RUNS};
use crate::lifecycle::engine::Engine;
use crate::mvcc::catalog::Layers;
use crate::mvcc::dead_names::DeadWalk;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::limits::check_page;
use mainstay_model::{
    Answer, At, CanonicalEvent, Code, Error, Field, HashCommand, HistoryEntry, KeyCommand, Name,
    OutboxCommand, Page, Record, RecordHistoryEntry, RecordPage, Result, Revision, RunAnswer,
    RunCommand, Stamp, StateCommand, StateKey, Versioned, Where,
};
use std::sync::Arc;

/// A branch at a revision.
pub struct Snapshot {
    pub core: Arc<Engine>,
    pub branch: u32,
    pub layers: Layers,
    pub revision: Revision,
    pub now: Stamp,
    /// Whether this was the newest revision when the snapshot was taken.
    pub fresh: bool,
    /// The work limits of the transaction that reads it; `None` for plain reads.
    pub work: Option<WorkMeter>,
}

impl Snapshot {
    pub fn new(core: &Arc<Engine>, branch: &str, at: At) -> Result<Snapshot> {
        core.check_open()?;
        let (revision, now) = core.resolve(at)?;
        let (branch, layers) = core.layers(branch, revision)?;
        let fresh = at == At::Latest;
        Ok(Snapshot { core: core.clone(), branch, layers, revision, now, fresh, work: None })
    }

    pub fn view(&self) -> View<'_> {
        let budget = self.budget();
        View {
            index: self.core.index(),
            layers: &self.layers,
            now: self.now,
            fresh: self.fresh,
            budget,
        }
    }

    /// Returns the budget that its reads count towards.
    fn budget(&self) -> Budget<'_> {
        self.work.as_ref().map_or(Budget::Reader, Budget::Transaction)
    }

    pub fn get(&self, name: &Name) -> Result<Option<Versioned>> {
        let found = cells::get(&self.view(), &WriteSet::default(), name)?;
        self.check_reach(CELLS, name)?;
        Ok(found)
    }

    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        self.names(CELLS, prefix, after, limit)
    }

    /// Returns the names of a keyspace.
    pub fn names(
        &self,
        space: u8,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page> {
        check_page(limit)?;
        let range = (prefix.as_bytes(), after.map(str::as_bytes));
        let found = self.names_within((space, &[]), range, (limit, usize::MAX))?;
        Ok(found.into_page())
    }

    /// Returns up to `most.0` names of a keyspace without the hidden prefixes, and examines at most
    /// `most.1`.
    pub fn names_within(
        &self,
        (space, hidden): (u8, &[String]),
        range: (&[u8], Option<&[u8]>),
        most: (usize, usize),
    ) -> Result<key_state::FoundNames> {
        let index = self.core.index();
        let state = &self.core.state;
        // If the start lies before the prefix, the walk begins at the prefix and skips the names
        // between the two.
        let start = range.1.filter(|after| *after >= range.0);
        let start =
            start.map(|after| crate::key::keyspace::key(space, self.branch, after).to_vec());
        let at = (self.revision, self.now);
        let dead = DeadWalk::new(&state.dead_names, &state.trail, at, start);
        let nothing = WriteSet::default();
        let of = (space, hidden);
        let found = key_state::names_within(&self.view(), &nothing, Some(dead), of, range, most)?;
        index.check_space_reach(space, self.revision)?;
        Ok(found)
    }

    /// Reads a cell for a client with one namespace for cells and records. If a record has this name,
    /// fails with `WrongType`.
    pub fn text(&self, name: &Name) -> Result<Option<Versioned>> {
        let found = self.get(name)?;
        if found.is_none() && self.core.index().has_records() {
            records::refuse(&self.view(), &WriteSet::default(), name)?;
            self.check_reach(RECORDS, name)?;
        }
        Ok(found)
    }

    /// Reads a record for a client with one namespace for cells and records. If a cell has this name,
    /// fails with `WrongType`.
    pub fn hash(&self, command: &HashCommand) -> Result<Answer> {
        let answer = hashes::run(&self.view(), &mut WriteSet::default(), command)?;
        self.check_reach(CELLS, command.key())?;
        self.check_reach(RECORDS, command.key())?;
        Ok(answer)
    }

    /// Returns when an entry expires; `None` if it does not exist or does not expire.
    pub fn expiry(&self, space: u8, name: &Name) -> Result<Option<Stamp>> {
        let view = self.view();
        let (key, hash) = view.key(space, name.as_bytes());
        let found = view.find(&WriteSet::default(), &key, hash, |head, _| {
            Ok(head.expires.filter(|_| head.is_live(view.now)))
        })?;
        self.check_reach(space, name)?;
        Ok(found.and_then(|(expires, _)| expires))
    }

    /// Returns the stored size of an entry in bytes; 0 if it does not exist. Its value is not decoded.
    pub fn stored_bytes(&self, space: u8, name: &Name) -> Result<usize> {
        let view = self.view();
        let (key, hash) = view.key(space, name.as_bytes());
        let found = view.find(&WriteSet::default(), &key, hash, |_, payload| Ok(payload.len()))?;
        Ok(found.map_or(0, |(bytes, _)| bytes))
    }

    /// As `stored_bytes`, but `None` if the entry is not in memory.
    pub fn size_in_memory(&self, space: u8, name: &Name) -> Option<usize> {
        let view = self.view();
        let (key, hash) = view.key(space, name.as_bytes());
        view.size_in_memory(&key, hash)
    }

    pub fn record(&self, key: &Name, wanted: Option<&[Field]>) -> Result<Option<Record>> {
        let found = records::get(&self.view(), &WriteSet::default(), key, wanted)?;
        self.check_reach(RECORDS, key)?;
        Ok(found)
    }

    pub fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        let nothing = WriteSet::default();
        let (page, _) = records::scan(&self.view(), &nothing, prefix, filters, after, limit)?;
        self.core.index().check_space_reach(RECORDS, self.revision)?;
        Ok(page)
    }

    /// Describes how a scan would be executed.
    pub fn explain(&self, prefix: &str, filters: &[Where]) -> String {
        let catalog = self.core.state.catalog.read();
        records::explain(&self.view(), prefix, filters, |id| {
            catalog.name_at(id, self.revision).unwrap_or_default().to_owned()
        })
    }

    pub fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let (count, _) = records::count(&self.view(), &WriteSet::default(), prefix, filters)?;
        self.core.index().check_space_reach(RECORDS, self.revision)?;
        Ok(count)
    }

    /// Answers a command on runs that only reads. For a revision whose heads were trimmed, replays the
    /// events.
    pub fn runs(&self, command: &RunCommand) -> Result<RunAnswer> {
        let answer = runs::read(&self.view(), &WriteSet::default(), command);
        match self.core.index().check_space_reach(RUNS, self.revision) {
            Ok(()) => answer,
            Err(_) if self.fresh => Err(trimmed_meanwhile()),
            Err(_) => self.past_runs(command),
        }
    }

    /// Returns events of a run after `after`: at most `limit`, ending with the one that reaches
    /// `bytes`.
    pub fn events(
        &self,
        run: &Name,
        after: u64,
        (limit, bytes): (usize, usize),
    ) -> Result<Vec<CanonicalEvent>> {
        let found = runs::fetch_within(&self.view(), run, after, (limit, bytes));
        match self.core.index().check_space_reach(RUNS, self.revision) {
            Ok(()) => found,
            Err(_) if self.fresh => Err(trimmed_meanwhile()),
            Err(_) => {
                let fetch = RunCommand::Fetch { run: run.clone(), after, limit };
                self.past_runs(&fetch)?.into_events()
            }
        }
    }

    fn past_runs(&self, command: &RunCommand) -> Result<RunAnswer> {
        let revision = self.core.sequencer.published();
        let layers = self.core.state.catalog.read().layers(self.branch, revision);
        let index = self.core.index();
        let budget = self.budget();
        let now = View { index, layers: &layers, now: self.now, fresh: false, budget };
        runs::history::answer(&now, self.revision, command)
    }

    /// Answers a command on the outbox that only reads.
    pub fn outbox(&self, command: &OutboxCommand) -> Result<Answer> {
        // The writer's cached positions are valid for the newest snapshot, or will be within moments.
        let mut fronts = if self.fresh {
            self.core.state.fronts.lock().clone()
        } else {
            outbox::Fronts::default()
        };
        let mut nothing = WriteSet::default();
        let answer = outbox::run(&self.view(), &mut nothing, &mut fronts, command)?;
        self.core.index().check_space_reach(OUTBOX, self.revision)?;
        Ok(answer)
    }

    /// Answers a command on keyed state that only reads.
    pub fn state(&self, command: &StateCommand) -> Result<Answer> {
        let answer = keyed::read(&self.view(), &WriteSet::default(), command)?;
        self.check_state_reach(command)?;
        self.core.state.figures.keyed.count_read(command);
        Ok(answer)
    }

    /// Checks retention: a space by the rules for its name, a list of spaces by the rules for all.
    pub fn check_state_reach(&self, command: &StateCommand) -> Result<()> {
        match command.space() {
            Some(space) => self.check_reach(KEYED, space),
            None => self.core.index().check_space_reach(KEYED, self.revision),
        }
    }

    /// Visits all entries of a space of keyed state, as a snapshot of the space has them.
    pub fn each_of_space(
        &self,
        space: &Name,
        visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let view = self.view();
        let nothing = WriteSet::default();
        self.core.state.figures.keyed.count_snapshot();
        keyed::read::SpaceReader::open(&view, &nothing, space)?.each(visit)?;
        self.check_reach(KEYED, space)
    }

    /// Returns the size of these keys of a space, in bytes.
    pub fn state_bytes(&self, space: &Name, keys: &[StateKey]) -> Result<usize> {
        let view = self.view();
        let nothing = WriteSet::default();
        keyed::read::SpaceReader::open(&view, &nothing, space)?.weigh(keys)
    }

    /// Returns the revision that appended an event of a run.
    pub fn revision_of(&self, run: &Name, seq: u64) -> Result<Option<Revision>> {
        let found = runs::revision_of(&self.view(), &WriteSet::default(), run, seq)?;
        self.check_reach(RUNS, run)?;
        Ok(found)
    }

    /// Returns the sequence of the last event of a run.
    pub fn last_seq(&self, run: &Name) -> Result<Option<u64>> {
        runs::last_seq_of(&self.view(), &WriteSet::default(), run)
    }

    /// Called after the read, so that history trimmed during the read is noticed as well.
    fn check_reach(&self, space: u8, name: &Name) -> Result<()> {
        let (key, _) = self.view().key(space, name.as_bytes());
        self.core.index().check_reach(&key, self.revision)
    }

    /// Returns the versions of a cell, newest first, including those of the branches it was forked
    /// from.
    pub fn history(
        &self,
        name: &Name,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        self.check_reach(CELLS, name)?;
        cells::history(&self.view(), &WriteSet::default(), name, limit, before)
    }

    /// Returns the versions of a record, newest first, including those of the branches it was forked
    /// from.
    pub fn record_history(
        &self,
        key: &Name,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        self.check_reach(RECORDS, key)?;
        records::history(&self.view(), &WriteSet::default(), key, limit, before)
    }

    /// Returns names of cells or records, each once.
    pub fn key_names(&self, command: &KeyCommand) -> Result<Answer> {
        let answer = names::read(&self.view(), &WriteSet::default(), command)?;
        for space in [CELLS, RECORDS] {
            self.core.index().check_space_reach(space, self.revision)?;
        }
        Ok(answer)
    }
}

/// The error of a fresh read whose history was trimmed meanwhile. The caller reads again at a newer
/// revision.
#[cold]
fn trimmed_meanwhile() -> Error {
    Error::new(Code::HistoryTrimmed, "what was read has been trimmed meanwhile: read again")
}
