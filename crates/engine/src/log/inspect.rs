//! The doctor's look at a log: reads everything, changes nothing.

use std::fmt;

use mainstay_model::{Code, Error, Result, Revision, Stamp};

use super::DatabaseId;
use super::failure::{damage, io_failure};
use super::files::Files;
use super::frame::{Frame, FrameHeader};
use super::scan_segments::{self, SegmentScan};
use super::scanner::find_heads;
use super::segment::HEADER_BYTES;

/// What a log holds, and the first thing that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// The database it belongs to, when a header could be read.
    pub database: Option<DatabaseId>,
    /// The segments that were checked, oldest first, each up to the problem.
    pub segments: Vec<SegmentReport>,
    /// Segments that were not checked because they come after the problem.
    pub unchecked: Vec<String>,
    /// A newest segment whose creation was cut off; the next open removes it.
    pub unfinished: Option<String>,
    /// The first problem.
    pub problem: Option<Problem>,
    /// The highest revision seen behind the problem: those up to it may be lost.
    pub seen_behind: Option<Revision>,
}

/// One segment of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub file: String,
    /// The first revision in it.
    pub first_revision: Revision,
    /// The last good revision in it, `None` when there is none.
    pub last_revision: Option<Revision>,
    /// The number of good frames.
    pub frames: u64,
    /// The bytes in use, the header included.
    pub bytes: u64,
    /// The bytes of the file.
    pub size_bytes: u64,
    /// The number of the opening that made it; 0 by programs that had none.
    pub owner: u64,
}

/// Something in the log that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem.
    pub code: Code,
    /// The file it is in.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
    /// The first revision that cannot be read.
    pub expected: Revision,
    /// Whether a crash explains it, so that opening the log cuts it off.
    pub torn: bool,
}

impl Problem {
    /// The error with which opening the log is refused.
    pub(crate) fn refusal(&self) -> Error {
        if self.code == Code::CorruptLog {
            return damage(&self.file, self.offset, &self.what);
        }
        let message = format!("{} cannot be read: {}; use a newer program", self.file, self.what);
        Error::new(self.code, message)
    }
}

impl LogReport {
    /// How many revisions behind the problem may be lost, as far as they can still be seen.
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

/// Visits the sound frames from the one with a revision on, and some before it.
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

/// The stamp of a revision as the log has it; nothing if it is not in there.
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

/// What the headers alone say.
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

/// Looks for frames behind the problem, whatever surrounds them.
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
