//! Crash recovery of the log.
//!
//! | found | result |
//! |---|---|
//! | zeros after the last frame | a clean end |
//! | a bad frame in the newest segment, without proof that it was synced | a torn tail: zeroed, reported |
//! | a bad frame or an end, although a later frame, a later segment or the caller proves it was synced | refused |
//! | a newest segment without header and content | its creation was interrupted: removed, reported |
//! | a missing or foreign segment, a damaged header, a gap in revisions | refused |
//! | a newer format version | refused |
//! | a prepared file | removed |
//!
//! Nothing is changed before everything is checked, so a refusal leaves the files untouched.

use std::sync::Arc;

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Error, Result, Revision, Stamp};

use super::failure::{damage, io_failure, sync_failure};
use super::files::{File, Files, read_full};
use super::frame::Frame;
use super::inspect::Problem;
use super::scan_segments::{self, FrameWalk, SegmentScan, Unfinished};
use super::scanner::{Scanned, Scanner, last_used_byte, zero_tail};
use super::segment::{HEADER_BYTES, Segment};
use super::{DatabaseId, DurableElsewhere, Log, LogOptions, LogShared, LogWriter};

/// The result of opening a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredLog {
    /// The last revision in the log. If the log is empty, the revision before its first.
    pub last_revision: Revision,
    /// Its stamp, 0 when the log is empty.
    pub last_stamp: Stamp,
    /// The oldest revision in the log.
    pub first_revision: Revision,
    /// The torn tail that was cut off, if any.
    pub cut: Option<TornTail>,
    /// The crc of the last frame, which the next frame continues.
    pub chain: u32,
}

/// A torn tail that was cut off. Nothing in it had been acknowledged as synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// File name.
    pub file: String,
    /// Byte offset at which the tail began.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Description of the defect.
    pub reason: String,
}

/// Checks everything, then repairs the leftovers of a crash, then opens the log.
pub(super) fn recover(
    files: Arc<dyn Files>,
    id: DatabaseId,
    known: DurableElsewhere,
    options: LogOptions,
    visit: &mut dyn FnMut(&Frame<'_>) -> Result<()>,
) -> Result<(Arc<LogShared>, LogWriter, RecoveredLog)> {
    let DurableElsewhere { all: after, some } = known;
    let survey = SegmentScan::read(&*files, Some(&id))?;
    if let Some(problem) = &survey.problem {
        return Err(problem.refusal());
    }
    let Some(oldest) = survey.segments.first() else {
        return restart(files, id, known, options, &survey);
    };
    check_reach(after, oldest.header.first)?;
    let first_revision = oldest.header.first;
    let segments: Vec<Arc<Segment>> = survey
        .segments
        .iter()
        .map(|found| Arc::new(Segment::new(&found.header, found.size)))
        .collect();
    // Start in the segment that holds `after`, because its stamp may be the last one.
    let from = survey.segments.iter().rposition(|found| found.header.first <= after).unwrap_or(0);
    let mut proven = 0;
    let walk = scan_segments::walk(&*files, &survey, from, &mut |at, place, frame| {
        segments[at].note(place);
        proven = proven.max(frame.synced_revision());
        if frame.last_revision() > after { visit(frame) } else { Ok(()) }
    })?;
    check_walk(&survey, &walk, after.max(some))?;
    let newest = segments[walk.at].clone();
    let file = scan_segments::open(&*files, &newest.name)?;
    let cut = repair(&*files, &*file, &survey, &walk)?;
    let unproven = first_above(&file, &newest, id.seed(), proven)?;
    make_durable(&*files, &*file, &newest.name, unproven, walk.end.offset)?;

    newest.set_end(walk.end.offset);
    let shared = Arc::new(LogShared::new(files, id, options, segments));
    shared.set_next(walk.end.first);
    let writer = LogWriter::new(shared.clone(), file, newest, walk.end.chain);
    let recovered = RecoveredLog {
        last_revision: walk.end.first.saturating_sub(1),
        last_stamp: walk.last_stamp,
        first_revision,
        cut,
        chain: walk.end.chain,
    };
    Ok((shared, writer, recovered))
}

fn check_reach(after: Revision, first: Revision) -> Result<()> {
    if after.saturating_add(1) >= first {
        return Ok(());
    }
    let message = format!(
        "the log starts at revision {first} and cannot be replayed after revision {after}: \
         restore a backup"
    );
    Err(Error::new(Code::HistoryTrimmed, message))
}

fn check_walk(survey: &SegmentScan, walk: &FrameWalk, synced: Revision) -> Result<()> {
    let refused =
        walk.problem.as_ref().filter(|problem| !problem.torn || synced >= problem.expected);
    if let Some(problem) = refused {
        return Err(problem.refusal());
    }
    if synced < walk.end.first {
        return Ok(());
    }
    let what = format!(
        "the log ends before revision {}, but revision {synced} was synced",
        walk.end.first
    );
    Err(damage(&survey.segments[walk.at].name, walk.end.offset, &what))
}

/// Removes the leftovers of a crash: a torn tail, a segment without a header, a prepared file.
fn repair(
    files: &dyn Files,
    file: &dyn File,
    survey: &SegmentScan,
    walk: &FrameWalk,
) -> Result<Option<TornTail>> {
    let mut cut = survey.unfinished.as_ref().map(unfinished_cut);
    if let Some(Problem { file: name, offset, what, .. }) = &walk.problem {
        let failed = |error| io_failure("cutting the torn tail of", name, &error);
        let used = last_used_byte(file, *offset).map_err(failed)?.unwrap_or(*offset);
        zero_tail(file, *offset).map_err(failed)?;
        let file = name.clone();
        let reason = what.clone();
        cut = Some(TornTail { file, offset: *offset, bytes: used - offset, reason });
    }
    if survey.unfinished.is_some() || !survey.prepared.is_empty() {
        survey.remove_unfinished(files)?;
    }
    Ok(cut)
}

fn unfinished_cut(unfinished: &Unfinished) -> TornTail {
    TornTail {
        file: unfinished.name.clone(),
        offset: 0,
        bytes: unfinished.size,
        reason: "the segment was not finished when the program or machine stopped".into(),
    }
}

/// The offset of the first frame that holds a later revision than `revision`.
fn first_above(
    file: &Arc<dyn File>,
    segment: &Segment,
    seed: u32,
    revision: Revision,
) -> Result<u64> {
    let failed = |error| io_failure("reading", &segment.name, &error);
    let place = segment.place_of(revision.saturating_add(1));
    let mut scanner = Scanner::new(file.clone(), seed, place, 64 * 1024);
    while let Scanned::Head(head) = scanner.peek(u64::MAX).map_err(failed)?
        && head.last() <= revision
        && scanner.take(head, u64::MAX).map_err(failed)?.is_ok()
    {}
    Ok(scanner.place().offset)
}

/// Makes the log durable, because the bytes read may exist only in the page cache.
///
/// After a failed fsync, the kernel may mark pages clean that never reached the disk. Frames that nothing
/// proves synced are therefore written again, with the same bytes, and then synced.
fn make_durable(files: &dyn Files, file: &dyn File, name: &str, from: u64, end: u64) -> Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = from;
    while offset < end {
        let piece = buffer.len().min((end - offset) as usize);
        let failed = |error| io_failure("rewriting the end of", name, &error);
        let read = read_full(file, &mut buffer[..piece], offset).map_err(failed)?;
        if read == 0 {
            break;
        }
        file.write_at(&buffer[..read], offset).map_err(failed)?;
        offset += read as u64;
    }
    let synced = fault_points::unless(InjectedFault::NoSyncOfRewritten, || file.sync());
    synced.map_err(|error| sync_failure(name, &error))?;
    let synced = fault_points::unless(InjectedFault::NoSyncOfRewrittenName, || files.sync_dir());
    synced.map_err(|error| sync_failure("the directory of the log", &error))
}

/// Recreates a log whose very first segment was never finished. Refuses a directory without any segment.
fn restart(
    files: Arc<dyn Files>,
    id: DatabaseId,
    known: DurableElsewhere,
    options: LogOptions,
    survey: &SegmentScan,
) -> Result<(Arc<LogShared>, LogWriter, RecoveredLog)> {
    let Some(unfinished) = &survey.unfinished else {
        let message = "the directory holds no log segment: restore it, or run `mainstay doctor`";
        return Err(Error::new(Code::CorruptLog, message));
    };
    check_reach(known.all, unfinished.first)?;
    let synced = known.all.max(known.some);
    if synced >= unfinished.first {
        let what = format!("it is empty, but revision {synced} was synced");
        return Err(damage(&unfinished.name, HEADER_BYTES, &what));
    }
    let first = unfinished.first;
    let (log, writer) = Log::create(files, id, first, options)?;
    let recovered = RecoveredLog {
        last_revision: first.saturating_sub(1),
        last_stamp: 0,
        first_revision: first,
        cut: Some(unfinished_cut(unfinished)),
        chain: 0,
    };
    Ok((log.shared, writer, recovered))
}
