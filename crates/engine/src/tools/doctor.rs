//! The doctor: looks at a database without changing a byte, and salvages one when asked to.
//!
//! ```text
//!   DATABASE, log, index, runs --look--> Report --judge--> Verdict, cure
//!                                                       | only in `salvage`, under the lock
//!                                                       v
//!                            nothing is deleted: what goes is renamed to `...damaged...`
//! ```

pub(crate) mod checks;
#[cfg(test)]
mod corruption_fixture;
mod diagnose;
mod fault;
mod hardlinked_store;
mod index;
mod log_suffix;
mod report_display;
mod runs;
mod salvage;
#[cfg(test)]
mod sessions_tests;
#[cfg(test)]
mod spaces_tests;
#[cfg(test)]
mod tests;

use crate::lifecycle::database_file::{self, FORMAT};
use crate::log::{self, DatabaseId, DiskFiles};
use crate::storage::reclassify;
use diagnose::Cure;
use mainstay_model::{Code, Error, Result, Revision};
use std::path::{Path, PathBuf};

pub use crate::log::{LogReport, Problem, SegmentReport};
pub use fault::Fault;
pub(crate) use fault::Faults;
pub use index::{IndexReport, IndexState, StoreReport};
pub use runs::RunsReport;
pub use salvage::{SalvageReport, salvage};

/// What a look at a database found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Where the database is.
    pub directory: PathBuf,
    /// Its id.
    pub database: DatabaseId,
    /// The newest format that this program reads; that of the database is not above it.
    pub format: u32,
    /// Whether a process has it open, so that it may change while it is looked at.
    pub in_use: bool,
    /// The log, checked frame by frame.
    pub log: LogReport,
    /// The index, checked file by file.
    pub index: IndexReport,
    /// Runs, the outbox, keyed state and sessions, checked for whether what belongs together agrees.
    pub runs: RunsReport,
    /// What it comes to.
    pub verdict: Verdict,
    /// What was found, in sentences; empty when all is well.
    pub findings: Vec<String>,
    /// What to do.
    pub advice: String,
    cure: Cure,
}

/// What a look at a database comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It opens and holds everything; a torn end that a crash left counts as well.
    Healthy,
    /// The next open repairs it by itself and loses nothing.
    Mends,
    /// Opening is refused, or will be; `salvage` keeps what can be kept.
    Salvage,
    /// It opens, but what it holds of runs, keyed state, sessions or the outbox does not agree with itself.
    Disagrees,
    /// More than one program wrote, or can: it opens, but what one of them has acknowledged may be gone.
    Contested,
    /// It was written by a newer program.
    Newer,
    /// Neither log nor index suffices: restore a backup.
    Beyond,
}

impl Report {
    /// Whether nothing needs to be done.
    pub fn is_healthy(&self) -> bool {
        self.verdict == Verdict::Healthy
    }

    /// Whether the index could be built again from the log alone.
    pub fn can_rebuild(&self) -> bool {
        diagnose::can_rebuild(&self.log, &self.index)
    }
}

/// Looks at the database in a directory; changes nothing.
///
/// ```
/// let directory = tempfile::tempdir().unwrap();
/// mainstay::Database::open(directory.path())?.cells().set("a", 1)?;
/// let report = mainstay::doctor::inspect(directory.path())?;
/// assert!(report.is_healthy(), "{report}");
/// # Ok::<(), mainstay::Error>(())
/// ```
pub fn inspect(directory: &Path) -> Result<Report> {
    let id = database_file::read(directory)?.ok_or_else(|| not_a_database(directory))?;
    // Held while looking, so that nobody begins to write meanwhile.
    let found = database_file::look_at_use(directory)?;
    let mut report = look(directory, id, found.is_open)?;
    if found.lost_lock_file {
        diagnose::add_lost_lock(&mut report);
    }
    Ok(report)
}

/// Looks while the caller sees to it that nobody writes.
fn look(directory: &Path, id: [u8; 16], in_use: bool) -> Result<Report> {
    let log = look_at_log(&directory.join("log"))?;
    let index = index::look(&reclassify::settled(&directory.join("index")), &id)?;
    let mut diagnosis = diagnose::judge(&directory.join("log"), &DatabaseId(id), &log, &index);
    let runs = look_at_runs(directory, diagnosis.verdict, in_use)?;
    diagnose::add_faults(&mut diagnosis, (&log, &index), &runs);
    diagnose::add_writers(&mut diagnosis, &log);
    Ok(Report {
        directory: directory.to_owned(),
        database: DatabaseId(id),
        format: FORMAT,
        in_use,
        log,
        index,
        runs,
        verdict: diagnosis.verdict,
        findings: diagnosis.findings,
        advice: diagnosis.advice.replace("DIR", &directory.display().to_string()),
        cure: diagnosis.cure,
    })
}

/// What is damaged, or changes meanwhile, is not looked at: what does not agree there follows from that.
fn look_at_runs(directory: &Path, verdict: Verdict, in_use: bool) -> Result<RunsReport> {
    match (verdict, in_use) {
        (_, true) => Ok(RunsReport::skipped("the database is open in a process")),
        // Whatever keeps it from looking, the rest of the report is worth having.
        (Verdict::Healthy, _) => {
            Ok(runs::look(directory).unwrap_or_else(|error| RunsReport::failed(&error)))
        }
        _ => Ok(RunsReport::skipped("its files have to be sound first")),
    }
}

fn look_at_log(directory: &Path) -> Result<LogReport> {
    if directory.exists() {
        return log::inspect(&DiskFiles::read_only(directory));
    }
    Ok(LogReport {
        database: None,
        segments: Vec::new(),
        unchecked: Vec::new(),
        unfinished: None,
        problem: None,
        seen_behind: None,
    })
}

/// The last revision that the log holds without a gap; nothing when it holds none.
fn log_end(log: &LogReport) -> Option<Revision> {
    log.last_revision()
}

fn not_a_database(directory: &Path) -> Error {
    let what = match directory.metadata() {
        Err(_) => "does not exist or cannot be looked into",
        Ok(found) if !found.is_dir() => "is a file, not a directory",
        Ok(_) => "is not a Mainstay database: it has no file DATABASE",
    };
    let message = format!(
        "{} {what}; nothing was touched, give the directory that the database was opened with",
        directory.display()
    );
    Error::new(Code::ForeignDirectory, message)
}
