//! Snapshots: one branch as of one revision, read without any lock on writers.

use crate::apply::{cells, hashes, key_state, keyed, names, outbox, records, runs};
use crate::base::work::{Budget, WorkMeter};
use crate::key::entry::EntryHeader;
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

/// A branch as of a revision.
pub(crate) struct Snapshot {
    pub core: Arc<Engine>,
    pub branch: u32,
    pub layers: Layers,
    pub revision: Revision,
    pub now: Stamp,
    /// Whether this was the newest revision when it was taken.
    pub fresh: bool,
    /// The work of a transaction that reads it; nothing where it only serves reads.
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

    /// The budget that its reads count towards.
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

    /// The names of a space.
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

    /// As many names of a space as are wanted, none with a hidden prefix, for which no more than so many are looked at.
    pub fn names_within(
        &self,
        (space, hidden): (u8, &[String]),
        range: (&[u8], Option<&[u8]>),
        most: (usize, usize),
    ) -> Result<key_state::FoundNames> {
        let (index, state) = (self.core.index(), &self.core.state);
        // A walk whose start lies before its prefix begins at the prefix, and skips the names between the two.
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

    /// A cell, to those to whom a name is one thing: a record of this name is the error `WrongType`.
    pub fn text(&self, name: &Name) -> Result<Option<Versioned>> {
        let found = self.get(name)?;
        if found.is_none() && self.core.index().has_records() {
            records::refuse(&self.view(), &WriteSet::default(), name)?;
            self.check_reach(RECORDS, name)?;
        }
        Ok(found)
    }

    /// A record, to those to whom a name is one thing: a cell of this name is the error `WrongType`.
    pub fn hash(&self, command: &HashCommand) -> Result<Answer> {
        let answer = hashes::run(&self.view(), &mut WriteSet::default(), command)?;
        self.check_reach(CELLS, command.key())?;
        self.check_reach(RECORDS, command.key())?;
        Ok(answer)
    }

    /// When an entry expires; nothing where there is none, or it does not.
    pub fn expiry(&self, space: u8, name: &Name) -> Result<Option<Stamp>> {
        let view = self.view();
        let (key, hash) = view.key(space, name.as_bytes());
        let live =
            |head: EntryHeader, _: &[u8]| Ok(head.expires.filter(|_| head.is_live(view.now)));
        let found = view.find(&WriteSet::default(), &key, hash, live)?;
        self.check_reach(space, name)?;
        Ok(found.and_then(|(expires, _)| expires))
    }

    /// The stored size of an entry; 0 where there is none. Its value is not decoded.
    pub fn stored_bytes(&self, space: u8, name: &Name) -> Result<usize> {
        let view = self.view();
        let (key, hash) = view.key(space, name.as_bytes());
        let size = |_, payload: &[u8]| Ok(payload.len());
        let found = view.find(&WriteSet::default(), &key, hash, size)?;
        Ok(found.map_or(0, |(bytes, _)| bytes))
    }

    /// The same; nothing where it is not in memory.
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

    /// How a scan would go about it.
    pub fn explain(&self, prefix: &str, filters: &[Where]) -> String {
        let catalog = self.core.state.catalog.read();
        let name = |id| catalog.name_at(id, self.revision).unwrap_or_default().to_owned();
        records::explain(&self.view(), prefix, filters, name)
    }

    pub fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let (count, _) = records::count(&self.view(), &WriteSet::default(), prefix, filters)?;
        self.core.index().check_space_reach(RECORDS, self.revision)?;
        Ok(count)
    }

    /// Answers a command on runs that only reads. Below what is kept of heads it goes by the events.
    pub fn runs(&self, command: &RunCommand) -> Result<RunAnswer> {
        let answer = runs::read(&self.view(), &WriteSet::default(), command);
        match self.core.index().check_space_reach(RUNS, self.revision) {
            Ok(()) => answer,
            Err(_) if self.fresh => Err(trimmed_meanwhile()),
            Err(_) => self.past_runs(command),
        }
    }

    /// Events of a run behind one of them: at most so many, which end with the one that makes them as large as this.
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
        // What the writer knows of the front is true of every newest snapshot, or soon.
        let mut fronts = match self.fresh {
            true => self.core.state.fronts.lock().clone(),
            false => outbox::Fronts::default(),
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

    /// A space is kept by the rules of its name, a list of spaces by those of all.
    pub fn check_state_reach(&self, command: &StateCommand) -> Result<()> {
        match command.space() {
            Some(space) => self.check_reach(KEYED, space),
            None => self.core.index().check_space_reach(KEYED, self.revision),
        }
    }

    /// Visits all entries of a space of keyed state, as a snapshot of it has them.
    pub fn each_of_space(
        &self,
        space: &Name,
        visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (view, nothing) = (self.view(), WriteSet::default());
        self.core.state.figures.keyed.count_snapshot();
        keyed::read::SpaceReader::open(&view, &nothing, space)?.each(visit)?;
        self.check_reach(KEYED, space)
    }

    /// What keys of a space take, in bytes.
    pub fn state_bytes(&self, space: &Name, keys: &[StateKey]) -> Result<usize> {
        let (view, nothing) = (self.view(), WriteSet::default());
        keyed::read::SpaceReader::open(&view, &nothing, space)?.weigh(keys)
    }

    /// The revision that brought an event of a run.
    pub fn revision_of(&self, run: &Name, seq: u64) -> Result<Option<Revision>> {
        let found = runs::revision_of(&self.view(), &WriteSet::default(), run, seq)?;
        self.check_reach(RUNS, run)?;
        Ok(found)
    }

    /// The last event of a run that there is.
    pub fn last_seq(&self, run: &Name) -> Result<Option<u64>> {
        runs::last_seq_of(&self.view(), &WriteSet::default(), run)
    }

    /// Checked after the read: history that is trimmed meanwhile is noticed as well.
    fn check_reach(&self, space: u8, name: &Name) -> Result<()> {
        let (key, _) = self.view().key(space, name.as_bytes());
        self.core.index().check_reach(&key, self.revision)
    }

    /// The versions of a cell, newest first, those of the branches it was forked from included.
    pub fn history(
        &self,
        name: &Name,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        self.check_reach(CELLS, name)?;
        cells::history(&self.view(), &WriteSet::default(), name, limit, before)
    }

    /// The versions of a record, newest first, those of the branches it was forked from included.
    pub fn record_history(
        &self,
        key: &Name,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        self.check_reach(RECORDS, key)?;
        records::history(&self.view(), &WriteSet::default(), key, limit, before)
    }

    /// Names of cells or records, each once.
    pub fn key_names(&self, command: &KeyCommand) -> Result<Answer> {
        let answer = names::read(&self.view(), &WriteSet::default(), command)?;
        for space in [CELLS, RECORDS] {
            self.core.index().check_space_reach(space, self.revision)?;
        }
        Ok(answer)
    }
}

/// What retention passed by is looked at again, newly.
#[cold]
fn trimmed_meanwhile() -> Error {
    Error::new(Code::HistoryTrimmed, "what was read has been trimmed meanwhile: read again")
}
