//! Reference model (oracle) of the engine, written for readability and not for speed.
//!
//! ```text
//!   Oracle ── Line (a branch) ── cells:   name -> versions, oldest first
//!                |             ├ records: key -> versions, oldest first
//!                |             ├ logs:    run -> versions, oldest first
//!                |             ├ spaces:  space of keyed state -> versions, oldest first
//!                |             └ outbox:  messages and their delivery state
//!                └ a fork copies the versions up to the fork point, so reads need no parent
//! ```
//!
//! A transaction runs on a full copy of its branch, which replaces the branch on commit and is dropped
//! on failure. The model defines the semantics. If the engine differs from it, one of the two has a bug.

mod branches;
mod cells;
mod interactive;
pub mod keyed;
mod logs;
mod outbox;
mod past;
mod records;
mod run;
mod space_merge;
mod spaces;
mod strings;
#[cfg(test)]
mod tests;
mod transaction;
mod versions;

pub use branches::{Change, ChangedOn};
pub use cells::Cells;
pub use interactive::Open;
pub use logs::{Log, Logs};
pub use outbox::Outbox;
pub use records::Records;
pub use space_merge::is_of_spaces;
pub use spaces::{Space, Spaces};
pub use versions::{Version, Versions};

use past::Past;
use run::Run;

use mainstay_model::{
    At, Code, Error, Fields, MAIN, OutboxAnswer, OutboxCommand, Page, Receipt, Record, RecordPage,
    RequestId, Result, Revision, RunAnswer, RunCommand, Stamp, Value, Versioned, Where,
};
use std::collections::BTreeMap;

/// A whole database in plain maps.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Wall-clock time in microseconds. The test advances it together with the engine's clock.
    pub wall: u64,
    revision: Revision,
    first: Revision,
    last_stamp: Stamp,
    stamps: BTreeMap<Revision, Stamp>,
    names: BTreeMap<String, u32>,
    lines: BTreeMap<u32, Line>,
    next_id: u32,
    tags: BTreeMap<String, (u32, Revision)>,
    receipts: BTreeMap<RequestId, Receipt>,
}

/// The state of a branch.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// All versions of all cells.
    pub cells: Cells,
    /// All versions of all records.
    pub records: Records,
    /// All versions of all runs.
    pub logs: Logs,
    /// All versions of all spaces of keyed state.
    pub spaces: Spaces,
    /// The outbox messages in their current state.
    pub outbox: Outbox,
}

/// A branch: its origin and a full copy of its state.
#[derive(Clone, Debug)]
pub struct Line {
    /// The parent branch; `None` for `main`.
    pub parent: Option<u32>,
    /// The newest revision that the branch shares with its parent.
    pub fork_revision: Revision,
    /// The revision that created the branch.
    pub created: Revision,
    /// The number of forks between the branch and `main`.
    pub depth: usize,
    /// The state of the branch.
    pub state: State,
    /// The revisions of other branches that it contains.
    past: Past,
}

/// A point in time to read at: a revision, and the time for judging expiry.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The newest visible revision.
    pub revision: Revision,
    /// The time at which expiry is judged.
    pub now: Stamp,
}

impl Oracle {
    /// Creates an empty database at this revision, with the clock at `wall`.
    pub fn new(revision: Revision, wall: u64) -> Oracle {
        let state = State::default();
        let past = Past::default();
        let main =
            Line { parent: None, fork_revision: 0, created: revision, depth: 0, state, past };
        Oracle {
            wall,
            revision,
            first: revision,
            last_stamp: 0,
            stamps: BTreeMap::new(),
            names: BTreeMap::from([(MAIN.to_owned(), 0)]),
            lines: BTreeMap::from([(0, main)]),
            next_id: 1,
            tags: BTreeMap::new(),
            receipts: BTreeMap::new(),
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision at which the database began.
    pub fn first_revision(&self) -> Revision {
        self.first
    }

    /// The timestamp of the newest transaction; zero before the first.
    pub fn last_stamp(&self) -> Stamp {
        self.last_stamp
    }

    /// The timestamp of a revision.
    pub fn stamp_of(&self, revision: Revision) -> Option<Stamp> {
        self.stamps.get(&revision).copied()
    }

    /// The timestamp of the next transaction: the clock's time, but always above the last timestamp.
    pub fn next_stamp(&self) -> Stamp {
        self.wall.max(self.last_stamp + 1)
    }

    /// The newest moment.
    pub fn latest(&self) -> Moment {
        Moment { revision: self.revision, now: self.wall.max(self.last_stamp) }
    }

    /// Resolves a point in time to a moment.
    pub fn moment(&self, at: At) -> Result<Moment> {
        match at {
            At::Latest => Ok(self.latest()),
            At::Revision(revision) if revision > self.revision => Err(future()),
            At::Revision(revision) => {
                Ok(Moment { revision, now: self.stamp_of(revision).unwrap_or(0) })
            }
            At::Stamp(stamp) if stamp > self.latest().now => Err(future()),
            At::Stamp(stamp) => Ok(Moment { revision: self.revision_at(stamp), now: stamp }),
        }
    }

    /// The newest revision with a timestamp not later than `stamp`.
    fn revision_at(&self, stamp: Stamp) -> Revision {
        let seen =
            self.stamps.iter().filter(|(_, at)| **at <= stamp).map(|(revision, _)| *revision);
        seen.max().unwrap_or(self.first)
    }

    /// The names of all branches.
    pub fn branches(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// A branch.
    pub fn line(&self, branch: &str) -> Result<&Line> {
        Ok(&self.lines[&self.id(branch)?])
    }

    fn id(&self, branch: &str) -> Result<u32> {
        self.names
            .get(branch)
            .copied()
            .ok_or_else(|| Error::new(Code::BranchNotFound, format!("no branch `{branch}`")))
    }

    /// Reads a cell at a moment.
    pub fn get(&self, branch: &str, name: &str, moment: Moment) -> Result<Option<Versioned>> {
        Ok(self.line(branch)?.state.cells.live(name, moment).map(cells::shown))
    }

    /// Reads a record at a moment.
    pub fn record(&self, branch: &str, key: &str, moment: Moment) -> Result<Option<Record>> {
        Ok(self.line(branch)?.state.records.live(key, moment).map(records::shown))
    }

    /// Executes a read-only command on runs at a moment.
    pub fn read_runs(
        &self,
        branch: &str,
        command: &RunCommand,
        moment: Moment,
    ) -> Result<RunAnswer> {
        logs::read(&self.line(branch)?.state.logs, command, moment)
    }

    /// Reads a space of keyed state at a moment.
    pub fn space(&self, branch: &str, name: &str, moment: Moment) -> Option<Space> {
        self.line(branch).ok()?.state.spaces.value(name, moment)
    }

    /// The number of events in a run.
    pub fn last_seq(&self, branch: &str, run: &str) -> u64 {
        let line = self.line(branch).ok();
        let log = line.and_then(|line| line.state.logs.value(run, self.latest()));
        log.map_or(0, |log| log.events.len() as u64)
    }

    /// The revision that wrote an event of a run to a branch.
    pub fn revision_of(&self, branch: &str, run: &str, seq: u64) -> Result<Option<Revision>> {
        Ok(logs::revision_of(&self.line(branch)?.state.logs, run, seq))
    }

    /// Executes a read-only command on the outbox.
    pub fn read_outbox(&self, branch: &str, command: &OutboxCommand) -> Result<OutboxAnswer> {
        self.line(branch)?.state.outbox.read(command)
    }

    /// Returns a page of the live records that match the filters, in byte order of their keys.
    pub fn scan(
        &self,
        branch: &str,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
        moment: Moment,
    ) -> Result<RecordPage> {
        let records = &self.line(branch)?.state.records;
        records::scan(records, prefix, filters, after, limit, moment)
    }

    /// Returns a page of the live names, in byte order.
    pub fn list(
        &self,
        branch: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        moment: Moment,
    ) -> Result<Page> {
        cells::list(&self.line(branch)?.state.cells, prefix, after, limit, moment)
    }

    /// Returns the versions of a cell up to a moment, newest first, including deletions.
    pub fn history(
        &self,
        branch: &str,
        name: &str,
        limit: usize,
        before: Option<u64>,
        moment: Moment,
    ) -> Result<Vec<Version<Value>>> {
        Ok(past(self.line(branch)?.state.cells.all(name), limit, before, moment))
    }

    /// Returns the versions of a record up to a moment, newest first, including deletions.
    pub fn record_history(
        &self,
        branch: &str,
        key: &str,
        limit: usize,
        before: Option<u64>,
        moment: Moment,
    ) -> Result<Vec<Version<Fields>>> {
        Ok(past(self.line(branch)?.state.records.all(key), limit, before, moment))
    }

    /// Deletes all expired cells and records on the branches that wrote them. Inherited ones are left
    /// alone.
    pub fn sweep(&mut self) -> u64 {
        let stamp = self.next_stamp();
        let mut swept = 0;
        for (id, line) in &mut self.lines {
            let writer = Run::new(&mut line.state, self.revision + 1, stamp, *id).writer;
            swept += line.state.cells.expire_own(writer) + line.state.records.expire_own(writer);
        }
        if swept > 0 {
            self.committed(stamp);
        }
        swept
    }

    /// Commits a transaction without a visible change.
    pub fn skip(&mut self) {
        self.committed(self.next_stamp());
    }

    /// Commits the next revision with this timestamp.
    fn committed(&mut self, stamp: Stamp) -> Revision {
        self.revision += 1;
        self.last_stamp = stamp;
        self.stamps.insert(self.revision, stamp);
        self.revision
    }
}

fn past<T: Clone>(
    versions: &[Version<T>],
    limit: usize,
    before: Option<u64>,
    moment: Moment,
) -> Vec<Version<T>> {
    let seen = versions.iter().rev().filter(|version| version.revision <= moment.revision);
    let wanted = seen.filter(|version| before.is_none_or(|before| version.counter < before));
    wanted.take(limit).cloned().collect()
}

fn future() -> Error {
    Error::new(Code::FutureRevision, "that point lies in the future")
}
