//! Repair of a damaged log: ends it before the damage and keeps the removed part in separate files.

use std::fmt;
use std::io;

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Result, Revision};

use super::failure::{io_failure, sync_failure};
use super::files::{Files, read_full};
use super::inspect::{LogReport, Problem, inspect};
use super::scan_segments;
use super::scanner::zero_tail;
use super::segment::HEADER_BYTES;

/// The result of repairing a damaged log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSalvageReport {
    /// The inspection report before the repair.
    pub before: LogReport,
    /// The last revision of the repaired log, `None` if the log is empty.
    pub last_revision: Option<Revision>,
    /// The files with the removed data, `<segment>.damaged`.
    pub kept: Vec<String>,
    /// The number of revisions that may be lost, as far as they could still be seen.
    pub revisions_lost: u64,
}

/// Ends the log before its first problem. A torn tail counts as a problem.
///
/// The damaged segment and those after it are kept as `<segment>.damaged`. A log without problems is not
/// changed. A log of a newer format is refused.
pub fn salvage(files: &dyn Files) -> Result<LogSalvageReport> {
    let before = inspect(files)?;
    let mut kept = Vec::new();
    if let Some(problem) = &before.problem {
        if problem.code == Code::NewerFormat {
            return Err(problem.refusal());
        }
        kept = take_out(files, problem, &later_names(files, problem)?)?;
    }
    Ok(LogSalvageReport {
        last_revision: before.last_revision(),
        revisions_lost: before.revisions_at_risk(),
        before,
        kept,
    })
}

/// The segments after the damaged one, newest first.
fn later_names(files: &dyn Files, problem: &Problem) -> Result<Vec<String>> {
    let names = scan_segments::SegmentScan::read(files, None)?.names;
    Ok(names.into_iter().rev().take_while(|name| *name != problem.file).collect())
}

/// Copies the damaged segment, moves later segments aside newest first, then cuts. After a crash at any step,
/// the log is either still refused or intact.
fn take_out(files: &dyn Files, problem: &Problem, later: &[String]) -> Result<Vec<String>> {
    let file = &problem.file;
    let failed = |error| io_failure("salvaging", file, &error);
    let mut kept = Vec::new();
    let whole = problem.offset < HEADER_BYTES;
    if !whole {
        kept.push(copy_aside(files, file).map_err(failed)?);
    }
    let moved = later.iter().chain(whole.then_some(file));
    for name in moved {
        let aside = free_name(files, name).map_err(failed)?;
        files.rename(name, &aside).map_err(failed)?;
        let synced = fault_points::unless(InjectedFault::NoSyncOfMovedSegment, || files.sync_dir());
        synced.map_err(|error| sync_failure("the directory of the log", &error))?;
        kept.push(aside);
    }
    if !whole {
        let damaged = files.open(file).map_err(failed)?;
        zero_tail(&*damaged, problem.offset).map_err(failed)?;
        let synced = fault_points::unless(InjectedFault::NoSyncOfCut, || damaged.sync());
        synced.map_err(|error| sync_failure(file, &error))?;
    }
    kept.sort_unstable();
    Ok(kept)
}

/// Copies a file. The copy is renamed into place only when it is complete and synced.
fn copy_aside(files: &dyn Files, name: &str) -> io::Result<String> {
    let part = format!("{name}.part");
    match files.remove(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let from = files.open(name)?;
    let to = files.create(&part)?;
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = 0;
    loop {
        let read = read_full(&*from, &mut buffer, offset)?;
        if read == 0 {
            break;
        }
        to.write_at(&buffer[..read], offset)?;
        offset += read as u64;
    }
    fault_points::unless(InjectedFault::NoSyncOfSalvagedCopy, || to.sync())?;
    let aside = free_name(files, name)?;
    files.rename(&part, &aside)?;
    fault_points::unless(InjectedFault::NoSyncOfSalvagedCopyName, || files.sync_dir())?;
    Ok(aside)
}

/// `<name>.damaged`, with a number appended if that name is taken.
fn free_name(files: &dyn Files, name: &str) -> io::Result<String> {
    let taken = files.list()?;
    let plain = format!("{name}.damaged");
    let numbered = (2u64..).map(|number| format!("{plain}.{number}"));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    Ok(names.find(|name| !taken.contains(name)).unwrap_or(plain))
}

impl fmt::Display for LogSalvageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.before)?;
        if self.before.problem.is_none() {
            return write!(f, "nothing had to be done");
        }
        match self.last_revision {
            Some(last) => writeln!(f, "the log now ends with revision {last}")?,
            None => writeln!(f, "no revision of the log could be kept")?,
        }
        writeln!(f, "what was taken out is kept in {}", self.kept.join(", "))?;
        write!(f, "revisions that may be lost: {}", self.revisions_lost)
    }
}
