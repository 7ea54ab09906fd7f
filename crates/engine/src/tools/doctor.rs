//! The doctor: checks the integrity of a database without changing it, and salvages a damaged one on request.
//!
//! ```text
//!   DATABASE, log, index, runs --check-> Report --judge--> Verdict, cure
//!                                                       | only in `salvage`, under the lock
//!                                                       v
//!                            nothing is deleted: damaged files are renamed to `...damaged...`
//! ```

pub mod checks;
mod diagnose;
mod fault;
mod hardlinked_store;
mod index;
mod log_suffix;
mod report_display;
mod runs;
mod salvage;

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

/// The findings of an inspection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The directory of the database.
    pub directory: PathBuf,
    /// The database's id.
    pub database: DatabaseId,
    /// The newest format that this program reads. The database's format is not newer.
    pub format: u32,
    /// Whether a process has the database open, so that it may change during the inspection.
    pub in_use: bool,
    /// The log, checked frame by frame.
    pub log: LogReport,
    /// The index, checked file by file.
    pub index: IndexReport,
    /// Runs, the outbox, keyed state and sessions, checked for consistency.
    pub runs: RunsReport,
    /// The overall result.
    pub verdict: Verdict,
    /// The findings, in sentences; empty for a healthy database.
    pub findings: Vec<String>,
    /// The recommended next step.
    pub advice: String,
    cure: Cure,
}

/// The overall result of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It opens and holds everything. A torn tail that a crash left counts as healthy.
    Healthy,
    /// The next open repairs it automatically and loses nothing.
    Mends,
    /// Opening is or will be refused; `salvage` keeps as much as possible.
    Salvage,
    /// It opens, but its runs, keyed state, sessions or outbox are inconsistent.
    Disagrees,
    /// More than one program wrote, or could. It opens, but transactions that one of them acknowledged
    /// may be lost.
    Contested,
    /// It was written by a newer version of this program.
    Newer,
    /// Neither the log nor the index suffices: restore a backup.
    Beyond,
}

impl Report {
    /// Returns whether no action is needed.
    pub fn is_healthy(&self) -> bool {
        self.verdict == Verdict::Healthy
    }

    /// Returns whether the index could be rebuilt from the log alone.
    pub fn can_rebuild(&self) -> bool {
        diagnose::can_rebuild(&self.log, &self.index)
    }
}

/// Inspects the database in a directory without changing it.
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
    // The shared locks are held during the inspection, so that no process starts writing meanwhile.
    let found = database_file::look_at_use(directory)?;
    let mut report = look(directory, id, found.is_open)?;
    if found.lost_lock_file {
        diagnose::add_lost_lock(&mut report);
    }
    Ok(report)
}

/// Inspects a database to which no process writes; the caller ensures that.
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

/// Skipped for files that are damaged or may change meanwhile, because inconsistencies would only
/// follow from that.
fn look_at_runs(directory: &Path, verdict: Verdict, in_use: bool) -> Result<RunsReport> {
    match (verdict, in_use) {
        (_, true) => Ok(RunsReport::skipped("the database is open in a process")),
        // Any error here is reported and not returned, because the rest of the report is still useful.
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

/// Returns the last revision that the log holds without a gap; `None` if it holds none.
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
