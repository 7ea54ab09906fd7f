//! Read-only verification of a whole log, for the doctor.

use std::fmt;

use mainstay_model::{Code, Error, Result, Revision, Stamp};

use super::DatabaseId;
use super::failure::{damage, io_failure};
use super::files::Files;
use super::frame::{Frame, FrameHeader};
use super::scan_segments::{self, SegmentScan};
use super::scanner::find_heads;
use super::segment::HEADER_BYTES;

/// The content of a log and its first problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// The database id, if a header could be read.
    pub database: Option<DatabaseId>,
    /// The segments that were checked, oldest first, each up to the problem.
    pub segments: Vec<SegmentReport>,
    /// Segments that were not checked because they come after the problem.
    pub unchecked: Vec<String>,
    /// The newest segment, if a crash interrupted its creation. The next open removes it.
    pub unfinished: Option<String>,
    /// The first problem.
    pub problem: Option<Problem>,
    /// The highest revision seen after the problem: revisions up to it may be lost.
    pub seen_behind: Option<Revision>,
}

/// One segment of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// File name.
    pub file: String,
    /// The first revision in it.
    pub first_revision: Revision,
    /// The last good revision in it, `None` if it has none.
    pub last_revision: Option<Revision>,
    /// Number of good frames.
    pub frames: u64,
    /// Bytes in use, the header included.
    pub bytes: u64,
    /// File size in bytes.
    pub size_bytes: u64,
    /// Number of the database opening that created it; 0 for segments of earlier versions, which had none.
    pub owner: u64,
}

/// A place in the log whose bytes differ from those written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error code, such as `CorruptLog` or `NewerFormat`.
    pub code: Code,
    /// The file it is in.
    pub file: String,
    /// Byte offset in the file.
    pub offset: u64,
    /// Description of the problem.
    pub what: String,
    /// The first revision that cannot be read.
    pub expected: Revision,
    /// True if a crash explains the problem, so that opening the log cuts it off.
    pub torn: bool,
}

impl Problem {
    /// The error that opening the log returns for this problem.
    pub(crate) fn refusal(&self) -> Error {
        if self.code == Code::CorruptLog {
            return damage(&self.file, self.offset, &self.what);
        }
        let message = format!("{} cannot be read: {}; use a newer program", self.file, self.what);
        Error::new(self.code, message)
    }
}

impl LogReport {
    /// The number of revisions after the problem that may be lost, as far as they can still be seen.
    pub fn revisions_at_risk(&self) -> u64 {
        match (&self.problem, self.seen_behind) {
            (Some(problem), Some(seen)) => (seen + 1).saturating_sub(problem.expected),
            _ => 0,
        }
    }

    /// The last good revision before the problem or the end.
    pub fn last_revision(&self) -> Option<Revision> {
        self.segments.iter().rev().find_map(|segment| segment.last_revision)
    }
}

/// Reads and checks the whole log.
pub fn inspect(files: &dyn Files) -> Result<LogReport> {
    let survey = SegmentScan::read(files, None)?;
    let mut report = start(&survey);
    if !survey.segments.is_empty() {
        let reports = &mut report.segments;
        let walk = scan_segments::walk(files, &survey, 0, &mut |at, place, frame| {
            reports[at].frames += 1;
            reports[at].last_revision = Some(frame.last_revision());
            reports[at].bytes = place.offset + frame.size() as u64;
            Ok(())
        })?;
        if walk.problem.is_some() {
            report.segments.truncate(walk.at + 1);
            report.problem = walk.problem;
        }
    }
    report.unchecked = survey.names[report.segments.len()..].to_vec();
    report.unchecked.retain(|name| Some(name) != report.unfinished.as_ref());
    report.seen_behind = look_behind(files, &survey, &report)?;
    Ok(report)
}

/// Visits the valid frames from the segment that holds `from` on. The first frames may hold only earlier
/// revisions.
pub fn visit(
    files: &dyn Files,
    from: Revision,
    each: &mut dyn FnMut(&Frame<'_>) -> Result<()>,
) -> Result<()> {
    let survey = SegmentScan::read(files, None)?;
    let holds = survey.segments.iter().rposition(|found| found.header.first <= from);
    let Some(first) = holds else { return Ok(()) };
    scan_segments::walk(files, &survey, first, &mut |_, _, frame| each(frame)).map(drop)
}

/// The stamp of a revision according to the log, `None` if the log does not hold it.
pub fn stamp_in(files: &dyn Files, revision: Revision) -> Result<Option<Stamp>> {
    let mut stamp = None;
    visit(files, revision, &mut |frame| {
        for transaction in frame.transactions() {
            let transaction = transaction?;
            if transaction.revision == revision {
                stamp = Some(transaction.stamp);
            }
        }
        Ok(())
    })?;
    Ok(stamp)
}

/// Builds the report from the segment headers alone.
fn start(survey: &SegmentScan) -> LogReport {
    let segments = survey.segments.iter().map(|found| SegmentReport {
        file: found.name.clone(),
        first_revision: found.header.first,
        last_revision: None,
        frames: 0,
        bytes: HEADER_BYTES,
        size_bytes: found.size,
        owner: found.header.owner,
    });
    LogReport {
        database: survey.segments.first().map(|found| found.header.database),
        segments: segments.collect(),
        unchecked: Vec::new(),
        unfinished: survey.unfinished.as_ref().map(|unfinished| unfinished.name.clone()),
        problem: survey.problem.clone(),
        seen_behind: None,
    }
}

/// Searches for frame headers after the problem, regardless of the bytes around them.
fn look_behind(
    files: &dyn Files,
    survey: &SegmentScan,
    report: &LogReport,
) -> Result<Option<Revision>> {
    let (Some(problem), Some(database)) = (&report.problem, &report.database) else {
        return Ok(None);
    };
    let mut seen = None;
    for name in survey.names.iter().skip_while(|name| **name != problem.file) {
        let from = if *name == problem.file { problem.offset } else { 0 };
        let file = scan_segments::open(files, name)?;
        let mut note = |_, head: FrameHeader| {
            if head.last() >= problem.expected {
                seen = seen.max(Some(head.last()));
            }
        };
        let found = find_heads(&*file, database.seed(), from, &mut note);
        found.map_err(|error| io_failure("reading", name, &error))?;
    }
    Ok(seen)
}

impl fmt::Display for LogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.database {
            Some(database) => writeln!(f, "log of database {database}")?,
            None => writeln!(f, "no readable log segment")?,
        }
        self.segments.iter().try_for_each(|segment| writeln!(f, "  {segment}"))?;
        self.unchecked.iter().try_for_each(|name| writeln!(f, "  {name}: not checked"))?;
        if let Some(name) = &self.unfinished {
            writeln!(f, "  {name}: not finished, the next open removes it")?;
        }
        let Some(problem) = &self.problem else {
            return write!(f, "no problem found");
        };
        write!(f, "{problem}")?;
        match self.seen_behind {
            Some(seen) => {
                write!(f, "; behind it revisions {} to {seen} were seen", problem.expected)
            }
            None => write!(f, "; no whole frame header was seen behind it"),
        }
    }
}

impl fmt::Display for SegmentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentReport { file, first_revision, frames, bytes, size_bytes, .. } = self;
        match self.last_revision {
            Some(last) => write!(f, "{file}: revisions {first_revision} to {last}")?,
            None => write!(f, "{file}: no revisions")?,
        }
        write!(f, ", {frames} frames, {bytes} of {size_bytes} bytes used")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.torn { "torn tail, the next open cuts it" } else { "DAMAGE" };
        let Problem { file, offset, what, expected, .. } = self;
        write!(f, "{kind}: {file} at byte {offset}, where revision {expected} starts: {what}")
    }
}
