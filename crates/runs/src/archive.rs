//! The archive: whole runs that have ended and are old enough leave the database for files.
//!
//! ```text
//!   list: ended, old enough --> a view of the run, pinned
//!                                  |  1 add up: count, SHA-256 of the lines, projection
//!                                  |  2 write: gzip JSON Lines, under a name made of that hash; sync
//!                                  |  3 read back: every event, the count, both hashes
//!                                  v
//!              4 delete, in a transaction that finds the run as it was read --changed--> it stays
//! ```
//!
//! A run's file lies at `archive/<branch>/<year>/<month>/<day>/<run>.<last event>.<hash>.jsonl.gz`, by the day on which its
//! last event was stored. The name is made of what the file holds: a round that died anywhere is simply done again and meets or
//! makes the same file, and no file is ever written over by another run's, or by another life of the same run. One run a file,
//! so that none waits for the others of its day and one can be brought back alone.
//!
//! | line | holds |
//! |---|---|
//! | first | `archiveVersion`, `contractVersion`, `runId`, `branch`, `status`, `lastEventSeq`, `inconsistent`, `createdUs`, `metadata` |
//! | between | an event each, in camelCase; values that JSON has not are written as everywhere (`{"$bytes": …}`) |
//! | last | `count` of the events, `sha256` of all lines before it, `snapshotHash` of what they add up to |
//!
//! Nothing is deleted that was not written and read back. What reducers of users kept is not archived: it is made of the
//! events.

mod archiver;
mod events;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod import;
mod line;
mod name;
mod read;
mod settings;
mod store;
mod write;

pub use archiver::{Archiver, ArchiverFigures};
pub use import::Imported;
pub use name::ArchivedRun;
pub use read::Contents;
pub use settings::{ArchiveSettings, StoreSettings};
pub use store::ArchiveStore;

use crate::worker;
use mainstay::{
    Answer, Branch, Code, Database, Error, ErrorKind, Name, Result, RunAnswer, RunCommand,
    RunFilter, RunInfo, Stamp,
};
use serde::Serialize;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// How many runs are listed together.
const PAGE: usize = 1_000;

/// An archive of the runs of one branch. Clones are the same archive.
///
/// It blocks: it is to be used on a thread that may wait, not inside of an async task.
///
/// ```
/// use mainstay::{Database, NewEvent};
/// use mainstay_runs::archive::{Archive, ArchiveSettings, StoreSettings};
/// # let directory = tempfile::tempdir().unwrap();
/// let db = Database::memory()?;
/// for kind in ["RunStarted", "RunCompleted"] {
///     db.runs().append(NewEvent::new("order-7", kind).plan("1"))?;
/// }
/// let store = StoreSettings::Directory { path: directory.path().to_owned() };
/// let settings = ArchiveSettings { older_than_ms: 0, ..ArchiveSettings::default() };
/// let archive = Archive::open(&db, &store, settings)?;
/// assert_eq!(archive.round()?.archived, 1);
/// assert_eq!(db.runs().get("order-7")?, None);
///
/// let archived = archive.find("order-7")?.expect("it is there");
/// assert_eq!(archive.import(&archived)?.written, 2);
/// assert_eq!(db.runs().fetch("order-7", 0, 10)?.len(), 2);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    db: Database,
    store: ArchiveStore,
    settings: ArchiveSettings,
    /// Nothing only while it is dropped.
    runtime: Option<Runtime>,
}

/// What became of a run that was to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is no such run.
    Missing,
    /// It changed meanwhile: it stays, and is looked at again the next time.
    Changed,
    /// It is in the archive and no longer in the database.
    Archived {
        /// Where it is.
        run: ArchivedRun,
        /// How many events it has.
        events: u64,
    },
}

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArchiveReport {
    /// Runs that were due.
    pub due: u64,
    /// Runs that were archived and deleted.
    pub archived: u64,
    /// The events of those.
    pub events: u64,
    /// What their files take.
    pub bytes: u64,
    /// Runs that changed or went meanwhile.
    pub changed: u64,
    /// Runs that could not be archived: they stay.
    pub failed: u64,
    /// Why the last of those could not.
    pub last_error: Option<String>,
}

impl Archive {
    /// Opens an archive where the settings say that it is.
    pub fn open(
        db: &Database,
        store: &StoreSettings,
        settings: ArchiveSettings,
    ) -> Result<Archive> {
        Archive::new(db, ArchiveStore::open(store)?, settings)
    }

    /// An archive on a store that is open.
    pub fn new(db: &Database, store: ArchiveStore, settings: ArchiveSettings) -> Result<Archive> {
        settings.check()?;
        let (db, runtime) = (db.clone(), Some(worker::runtime()?));
        Ok(Archive(Arc::new(Inner { db, store, settings, runtime })))
    }

    /// Archives all runs that are due. One that cannot be archived stays, holds up no other, and is counted.
    pub fn round(&self) -> Result<ArchiveReport> {
        let mut report = ArchiveReport::default();
        self.each_due(&mut |run| {
            report.add(self.archive(&run.run_id));
            Ok(true)
        })?;
        Ok(report)
    }

    /// Archives one run, whatever its age and state.
    pub fn archive(&self, run: &str) -> Result<Outcome> {
        let branch = self.branch()?;
        let view = branch.runs().at(mainstay::At::Latest)?;
        let Some(info) = view.get(run)? else { return Ok(Outcome::Missing) };
        let (run, contents) = self.wait(self.write(&view, &info))?;
        Ok(match self.delete(&branch, &info)? {
            true => Outcome::Archived { run, events: contents.count },
            false => Outcome::Changed,
        })
    }

    /// Shows each run that is due to a function, until it says that it is enough. What it archives of them is a
    /// [`round`](Archive::round) of its own.
    pub fn each_due(&self, work: &mut dyn FnMut(&RunInfo) -> Result<bool>) -> Result<()> {
        let (runs, filter) = (self.branch()?.runs(), self.filter()?);
        let mut after: Option<String> = None;
        loop {
            let page = runs.list(&filter, after.as_deref(), PAGE)?;
            let is_due = |run: &&RunInfo| !self.0.settings.only_ended || run.status.is_terminal();
            for run in page.runs.iter().filter(is_due) {
                if !work(run)? {
                    return Ok(());
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Runs whose last event is old enough.
    fn filter(&self) -> Result<RunFilter> {
        let age_us = self.0.settings.older_than_ms.saturating_mul(1000);
        let before: Stamp = self.0.db.now_us()?.saturating_sub(age_us);
        let prefix = &self.0.settings.runs_prefix;
        Ok(RunFilter { updated_before: Some(before), ..RunFilter::of(prefix) })
    }

    /// Deletes a run if it is as it was; whoever writes to it meanwhile keeps it.
    fn delete(&self, branch: &Branch, seen: &RunInfo) -> Result<bool> {
        branch.transaction(|t| {
            let get = RunCommand::Get { run: Name::new(&seen.run_id)? };
            match info(t.run(get)?)? {
                Some(now) if now.revision == seen.revision => t.delete_run(&seen.run_id),
                _ => Ok(false),
            }
        })
    }

    fn branch(&self) -> Result<Branch> {
        self.0.db.branch(&self.0.settings.branch)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.0.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Error::new(Code::Closed, "the archive is closed")),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last handle may be dropped where nothing may wait.
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl ArchiveReport {
    fn add(&mut self, outcome: Result<Outcome>) {
        self.due += 1;
        match outcome {
            Ok(Outcome::Archived { run, events }) => {
                self.archived += 1;
                self.events += events;
                self.bytes += run.size_bytes;
            }
            Ok(Outcome::Missing | Outcome::Changed) => self.changed += 1,
            Err(error) => {
                self.failed += 1;
                self.last_error = Some(error.to_string());
            }
        }
    }
}

fn info(answer: Answer) -> Result<Option<RunInfo>> {
    if let Answer::Run(answer) = answer
        && let RunAnswer::Info(info) = *answer
    {
        return Ok(info);
    }
    let message = "the database answered something else than was asked: are both of one version?";
    Err(Error::new(Code::Unsupported, message))
}

/// Whether nothing can be done any more.
fn is_over(error: &Error) -> bool {
    error.kind() == ErrorKind::Closed
}
