//! Lists the segments and verifies their frames, read-only. Shared by recovery and the doctor.

use std::sync::Arc;

use mainstay_model::{Code, Result, Revision, Stamp};

use super::DatabaseId;
use super::failure::io_failure;
use super::files::{File, Files, read_full};
use super::frame::Frame;
use super::inspect::Problem;
use super::scanner::{Scanned, Scanner, find_heads, last_used_byte};
use super::segment::{self, FILLING, FramePosition, HEADER_BYTES, Header, HeaderFault, PREPARED};

/// Size of a read.
const CHUNK_BYTES: usize = 1024 * 1024;

/// A segment file with a valid header.
pub(super) struct SegmentFile {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) header: Header,
}

/// A newest segment whose creation was interrupted.
pub(super) struct Unfinished {
    pub(super) name: String,
    pub(super) first: Revision,
    pub(super) size: u64,
}

/// The files of a log, from their names and headers.
pub(super) struct SegmentScan {
    /// Oldest first, up to the first problem.
    pub(super) segments: Vec<SegmentFile>,
    /// It cannot hold acknowledged data: the header is synced before anything else is written.
    pub(super) unfinished: Option<Unfinished>,
    /// Prepared files that never became segments.
    pub(super) prepared: Vec<&'static str>,
    pub(super) problem: Option<Problem>,
    /// The names of all segments, including those from the problem on.
    pub(super) names: Vec<String>,
}

impl SegmentScan {
    /// Reads names and headers. Without `id`, the oldest segment determines the database id.
    pub(super) fn read(files: &dyn Files, id: Option<&DatabaseId>) -> Result<SegmentScan> {
        let listed = files.list().map_err(|e| io_failure("listing", "the log", &e))?;
        let prepared = [PREPARED, FILLING]
            .into_iter()
            .filter(|name| listed.iter().any(|listed| listed == name))
            .collect();
        let mut names: Vec<String> =
            listed.into_iter().filter(|name| segment::parse_name(name).is_some()).collect();
        names.sort_unstable();
        let mut survey =
            SegmentScan { segments: Vec::new(), unfinished: None, prepared, problem: None, names };
        for at in 0..survey.names.len() {
            survey.add(files, at, id)?;
            if survey.problem.is_some() {
                break;
            }
        }
        Ok(survey)
    }

    /// Removes an unfinished segment and prepared files. No sync is needed: if they reappear, the next open
    /// removes them.
    pub(super) fn remove_unfinished(&self, files: &dyn Files) -> Result<()> {
        let unfinished = self.unfinished.as_ref().map(|unfinished| unfinished.name.as_str());
        for name in unfinished.into_iter().chain(self.prepared.iter().copied()) {
            files.remove(name).map_err(|error| io_failure("removing", name, &error))?;
        }
        Ok(())
    }

    fn add(&mut self, files: &dyn Files, at: usize, id: Option<&DatabaseId>) -> Result<()> {
        let name = self.names[at].clone();
        let failed = |error| io_failure("reading", &name, &error);
        let file = open(files, &name)?;
        let size = file.len().map_err(failed)?;
        let mut bytes = [0; HEADER_BYTES as usize];
        let read = read_full(&*file, &mut bytes, 0).map_err(failed)?;
        let first = segment::parse_name(&name).unwrap_or_default();
        match Header::decode(&bytes[..read]) {
            Ok(header) => match self.header_problem(&header, first, id) {
                None => self.segments.push(SegmentFile { name, size, header }),
                Some(what) => self.refuse(name, first, Code::CorruptLog, what),
            },
            Err(HeaderFault::Newer(version)) => {
                let what = format!("it has format version {version}, this program reads up to 1");
                self.refuse(name, first, Code::NewerFormat, what);
            }
            Err(HeaderFault::Damaged) => {
                let newest = at + 1 == self.names.len();
                if newest && last_used_byte(&*file, HEADER_BYTES).map_err(failed)?.is_none() {
                    self.unfinished = Some(Unfinished { name, first, size });
                } else {
                    let what = "the header of the segment does not match its checksum".to_owned();
                    self.refuse(name, first, Code::CorruptLog, what);
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, file: String, expected: Revision, code: Code, what: String) {
        self.problem = Some(Problem { code, file, offset: 0, what, expected, torn: false });
    }

    fn header_problem(
        &self,
        header: &Header,
        first: Revision,
        id: Option<&DatabaseId>,
    ) -> Option<String> {
        let id = id.or(self.segments.first().map(|found| &found.header.database));
        if let Some(id) = id.filter(|id| **id != header.database) {
            return Some(format!("it belongs to database {}, not to {id}", header.database));
        }
        if header.first != first {
            return Some(format!("its header says it starts with revision {}", header.first));
        }
        let before = self.segments.last()?;
        (header.previous != before.header.first).then(|| {
            format!("{}, the segment before it, is missing", segment::name_of(header.previous))
        })
    }
}

pub(super) fn open(files: &dyn Files, name: &str) -> Result<Arc<dyn File>> {
    files.open(name).map_err(|error| io_failure("opening", name, &error))
}

/// The result of a walk over the frames.
pub(super) struct FrameWalk {
    /// The position of the last segment entered.
    pub(super) at: usize,
    /// The position after the last good frame.
    pub(super) end: FramePosition,
    pub(super) last_stamp: Stamp,
    pub(super) problem: Option<Problem>,
}

/// Called with the index of the segment, the position of the frame, and the frame.
pub(super) type FrameVisitor<'a> =
    &'a mut dyn FnMut(usize, FramePosition, &Frame<'_>) -> Result<()>;

/// Checks all frames from segment `from` on, up to the first problem.
pub(super) fn walk(
    files: &dyn Files,
    survey: &SegmentScan,
    from: usize,
    each: FrameVisitor<'_>,
) -> Result<FrameWalk> {
    let start = start_of(&survey.segments[from].header);
    let mut walk = FrameWalk { at: from, end: start, last_stamp: 0, problem: None };
    for at in from..survey.segments.len() {
        if at > from && !walk.enter(survey, at) {
            break;
        }
        walk.segment(files, survey, each)?;
        if walk.problem.is_some() {
            break;
        }
    }
    Ok(walk)
}

fn start_of(header: &Header) -> FramePosition {
    FramePosition { first: header.first, offset: HEADER_BYTES, chain: header.chain }
}

impl FrameWalk {
    /// Enters the next segment, which must continue the chain of the last one.
    fn enter(&mut self, survey: &SegmentScan, at: usize) -> bool {
        let found = &survey.segments[at];
        let start = start_of(&found.header);
        if start.chain == self.end.chain {
            self.at = at;
            self.end = start;
            return true;
        }
        // The frames before are valid, so the defect is in this file.
        self.end.offset = 0;
        self.fail(&found.name, "it does not continue the segment before it".into(), false);
        false
    }

    fn fail(&mut self, file: &str, what: String, torn: bool) {
        let FramePosition { first, offset, .. } = self.end;
        let file = file.to_owned();
        self.problem =
            Some(Problem { code: Code::CorruptLog, file, offset, what, expected: first, torn });
    }

    fn segment(
        &mut self,
        files: &dyn Files,
        survey: &SegmentScan,
        each: FrameVisitor<'_>,
    ) -> Result<()> {
        let found = &survey.segments[self.at];
        let failed = |error| io_failure("reading", &found.name, &error);
        let file = open(files, &found.name)?;
        let seed = found.header.database.seed();
        let mut scanner = Scanner::new(file.clone(), seed, self.end, CHUNK_BYTES);
        let bad = loop {
            match scanner.peek(u64::MAX).map_err(failed)? {
                Scanned::End => break None,
                Scanned::Bad(what) => break Some(what),
                Scanned::Head(head) => match scanner.take(head, u64::MAX).map_err(failed)? {
                    Err(what) => break Some(what),
                    Ok(frame) => {
                        let Ok(stamp) = frame.transactions().last_stamp() else {
                            let what = "the frame is whole but cannot be decoded";
                            self.fail(&found.name, what.into(), false);
                            return Ok(());
                        };
                        each(self.at, self.end, &frame)?;
                        self.last_stamp = stamp;
                    }
                },
            }
            self.end = scanner.place();
        };
        self.judge(survey, &*file, bad)
    }

    /// Distinguishes a clean end, a torn tail and damage.
    fn judge(&mut self, survey: &SegmentScan, file: &dyn File, bad: Option<&str>) -> Result<()> {
        let found = &survey.segments[self.at];
        let failed = |error| io_failure("reading", &found.name, &error);
        // The existence of the next segment proves that this one was synced to its end.
        let next = survey.names.get(self.at + 1).and_then(|name| segment::parse_name(name));
        if let Some(next) = next {
            let gap = "the next segment does not start with the revision that comes next";
            if let Some(what) = bad.or((next != self.end.first).then_some(gap)) {
                self.fail(&found.name, what.into(), false);
            }
            return Ok(());
        }
        let used = last_used_byte(file, self.end.offset).map_err(failed)?;
        let unclean = used.map(|_| "there are bytes behind the last frame");
        let Some(what) = bad.or(unclean) else {
            return Ok(());
        };
        let seed = found.header.database.seed();
        let mut witness = None;
        find_heads(file, seed, self.end.offset + 1, &mut |offset, head| {
            if head.first > self.end.first && head.synced >= self.end.first {
                witness = witness.or(Some(offset));
            }
        })
        .map_err(failed)?;
        let proof =
            witness.map(|at| format!("{what}, and the frame at byte {at} says it was synced"));
        let torn = proof.is_none();
        self.fail(&found.name, proof.unwrap_or_else(|| what.into()), torn);
        Ok(())
    }
}
