//! Cold archive: moves old, finished runs from the database to compressed files.
//!
//! ```text
//!   list: ended, old enough --> a view of the run, pinned
//!                                  |  1 compute: count, SHA-256 of the lines, snapshot hash
//!                                  |  2 write: gzip JSON Lines, under a name made of that hash; fsync
//!                                  |  3 read back: every event, the count, both hashes
//!                                  v
//!              4 delete, in a transaction that checks that the run has not changed --changed--> it stays
//! ```
//!
//! A run's file is `archive/<branch>/<year>/<month>/<day>/<run>.<last event>.<hash>.jsonl.gz`, by the day of
//! its last event. The name is derived from the content, so a round that crashed anywhere is simply repeated
//! and finds or writes the same file. No file is ever overwritten by another run, or by another life of the
//! same run. Each run has its own file, so that it can be imported alone and waits for no other run of its
//! day.
//!
//! | line | content |
//! |---|---|
//! | first | `archiveVersion`, `contractVersion`, `runId`, `branch`, `status`, `lastEventSeq`, `inconsistent`, `createdUs`, `metadata` |
//! | between | one event each, in camelCase; values that JSON cannot represent are encoded as usual (`{"$bytes": …}`) |
//! | last | `count` of the events, `sha256` of all lines before it, `snapshotHash` of the run's snapshot |
//!
//! Nothing is deleted before it was written and read back. Stored states of user reducers are not archived,
//! because they can be recomputed from the events.

mod archiver;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod import;
mod line;
mod name;
mod read;
mod run_events;
mod settings;
mod store;
mod write;

pub use archiver::{Archiver, ArchiverStats};
pub use import::ImportReport;
pub use name::ArchivedRun;
pub use read::Contents;
pub use settings::{ArchiveSettings, StoreSettings};
pub use store::ArchiveStore;

use crate::threads;
use mainstay::{
    Answer, Branch, Code, Database, Error, ErrorKind, Name, Result, RunAnswer, RunCommand,
    RunFilter, RunInfo, Stamp,
};
use serde::Serialize;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The page size for listing runs.
const PAGE: usize = 1_000;

/// An archive of the runs of one branch. Clones share the archive.
///
/// The interface is blocking: use it on a thread that may block, not in an async task.
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
pub struct Archive(Arc<ArchiveShared>);

struct ArchiveShared {
    db: Database,
    store: ArchiveStore,
    settings: ArchiveSettings,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// The result of archiving a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run does not exist.
    Missing,
    /// The run changed in the meantime. It stays, and the next round checks it again.
    Changed,
    /// The run is in the archive and no longer in the database.
    Archived {
        /// The archived file.
        run: ArchivedRun,
        /// The number of events.
        events: u64,
    },
}

/// The totals of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArchiveReport {
    /// The number of runs that were due.
    pub due: u64,
    /// The number of runs archived and deleted.
    pub archived: u64,
    /// The number of their events.
    pub events: u64,
    /// The size of their files, in bytes.
    pub bytes: u64,
    /// The number of runs that changed or were deleted in the meantime.
    pub changed: u64,
    /// The number of runs that failed. They stay in the database.
    pub failed: u64,
    /// The error of the last failed run.
    pub last_error: Option<String>,
}

impl Archive {
    /// Opens the archive in the configured store.
    pub fn open(
        db: &Database,
        store: &StoreSettings,
        settings: ArchiveSettings,
    ) -> Result<Archive> {
        Archive::new(db, ArchiveStore::open(store)?, settings)
    }

    /// Creates an archive on an open store.
    pub fn new(db: &Database, store: ArchiveStore, settings: ArchiveSettings) -> Result<Archive> {
        settings.check()?;
        let db = db.clone();
        let runtime = Some(threads::runtime()?);
        Ok(Archive(Arc::new(ArchiveShared { db, store, settings, runtime })))
    }

    /// Archives all due runs. A failed run stays, is counted and does not stop the others.
    pub fn round(&self) -> Result<ArchiveReport> {
        let mut report = ArchiveReport::default();
        self.each_due(&mut |run| {
            report.add(self.archive(&run.run_id));
            Ok(true)
        })?;
        Ok(report)
    }

    /// Archives one run, whatever its age and status.
    pub fn archive(&self, run: &str) -> Result<Outcome> {
        let branch = self.branch()?;
        let view = branch.runs().at(mainstay::At::Latest)?;
        let Some(info) = view.get(run)? else { return Ok(Outcome::Missing) };
        let (run, contents) = self.block_on(self.write(&view, &info))?;
        Ok(if self.delete(&branch, &info)? {
            Outcome::Archived { run, events: contents.count }
        } else {
            Outcome::Changed
        })
    }

    /// Calls `visit` with each due run until it returns `false`. A caller that archives these runs performs a
    /// [`round`](Archive::round) of its own.
    pub fn each_due(&self, visit: &mut dyn FnMut(&RunInfo) -> Result<bool>) -> Result<()> {
        let runs = self.branch()?.runs();
        let filter = self.filter()?;
        let mut after: Option<String> = None;
        loop {
            let page = runs.list(&filter, after.as_deref(), PAGE)?;
            let is_due = |run: &&RunInfo| !self.0.settings.only_ended || run.status.is_terminal();
            for run in page.runs.iter().filter(is_due) {
                if !visit(run)? {
                    return Ok(());
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The filter for runs whose last event is old enough.
    fn filter(&self) -> Result<RunFilter> {
        let age_us = self.0.settings.older_than_ms.saturating_mul(1000);
        let before: Stamp = self.0.db.now_us()?.saturating_sub(age_us);
        let prefix = &self.0.settings.runs_prefix;
        Ok(RunFilter { updated_before: Some(before), ..RunFilter::of(prefix) })
    }

    /// Deletes a run if it has not changed since it was read. A concurrent write keeps the run.
    fn delete(&self, branch: &Branch, expected: &RunInfo) -> Result<bool> {
        branch.transaction(|t| {
            let get = RunCommand::Get { run: Name::new(&expected.run_id)? };
            match info(t.run(get)?)? {
                Some(current) if current.revision == expected.revision => {
                    t.delete_run(&expected.run_id)
                }
                _ => Ok(false),
            }
        })
    }

    fn branch(&self) -> Result<Branch> {
        self.0.db.branch(&self.0.settings.branch)
    }

    fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.0.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(Error::new(Code::Closed, "the archive is closed")),
        }
    }
}

impl Drop for ArchiveShared {
    fn drop(&mut self) {
        // The last handle may be dropped in a context that must not block.
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

/// Returns whether the database or the archive is closed.
fn is_closed(error: &Error) -> bool {
    error.kind() == ErrorKind::Closed
}
