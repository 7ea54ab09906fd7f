//! Reads the log while it is being written, for feeds, watches and followers.

use std::io;
use std::sync::Arc;

use mainstay_model::{Code, Error, Result, Revision};

use super::LogShared;
use super::failure::{damage, io_failure};
use super::frame::OwnedFrame;
use super::scanner::{Scanned, Scanner};
use super::segment::{FramePosition, Segment};

/// Size of a read.
const CHUNK_BYTES: usize = 64 * 1024;

/// A cursor over the frames above one revision, in order. Readers and the writer never wait for each other.
pub struct LogReader {
    shared: Arc<LogShared>,
    segment: Arc<Segment>,
    scanner: Scanner,
    after: Revision,
    /// The crc of the frame before the one returned last.
    before: u32,
}

impl LogReader {
    pub(super) fn open(shared: Arc<LogShared>, after: Revision) -> Result<LogReader> {
        let next = after.saturating_add(1);
        if next > shared.next() {
            let message = format!(
                "revision {after} is in the future, the log ends at {}",
                shared.next().saturating_sub(1)
            );
            return Err(Error::new(Code::FutureRevision, message));
        }
        let segment = shared.segment_of(next).ok_or_else(|| trimmed(&shared, next))?;
        let place = segment.place_of(next);
        let scanner = open_scanner(&shared, &segment, place, next, trimmed)?;
        Ok(LogReader { shared, segment, scanner, after, before: place.chain })
    }

    /// Returns the next frame if its last revision is at most `upto`; `None` if no such frame is written yet.
    ///
    /// The first frame may also hold revisions up to the one after which the reader was opened.
    pub fn next(&mut self, upto: Revision) -> Result<Option<OwnedFrame>> {
        self.check_place()?;
        loop {
            let next = self.shared.next();
            let place = self.scanner.place();
            if place.first > upto || place.first >= next {
                return Ok(None);
            }
            // Bytes before the end are complete and final, so buffered bytes stay valid.
            let limit = self.segment.end();
            match self.scanner.peek(limit).map_err(|error| self.unreadable(&error))? {
                Scanned::Head(head) if head.last() > upto => return Ok(None),
                Scanned::Head(head) => {
                    let taken = self.scanner.take(head, limit);
                    let taken = taken.map_err(|e| io_failure("reading", &self.segment.name, &e))?;
                    let frame =
                        taken.map_err(|what| damage(&self.segment.name, place.offset, what))?;
                    self.segment.note(place);
                    self.before = place.chain;
                    if head.last() > self.after {
                        return Ok(Some(frame.to_owned_frame()));
                    }
                }
                Scanned::End => self.enter_next_segment()?,
                Scanned::Bad(what) => return Err(damage(&self.segment.name, place.offset, what)),
            }
        }
    }

    /// The crc that the checksum of the last returned frame continues.
    pub fn chain_before(&self) -> u32 {
        self.before
    }

    /// The first revision that the next frame delivers.
    pub fn position(&self) -> Revision {
        self.scanner.place().first.max(self.after.saturating_add(1))
    }

    fn check_place(&self) -> Result<()> {
        if self.position() < self.shared.first() {
            return Err(lagged(&self.shared, self.position()));
        }
        Ok(())
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        io_failure("reading", &self.segment.name, error)
    }

    /// Continues in the segment that starts with the next revision.
    fn enter_next_segment(&mut self) -> Result<()> {
        let place = self.scanner.place();
        let found = self.shared.segment_of(place.first);
        // Check after the lookup: if a trim removed the segment, that is reported, and not damage.
        self.check_place()?;
        let segment =
            found.filter(|found| found.first == place.first && found.first > self.segment.first);
        let Some(segment) = segment else {
            let what = format!("the frame with revision {} is missing", place.first);
            return Err(damage(&self.segment.name, place.offset, &what));
        };
        if segment.chain != place.chain {
            let what = "it does not continue the segment before it";
            return Err(damage(&segment.name, 0, what));
        }
        let start = segment.place_of(segment.first);
        self.scanner = open_scanner(&self.shared, &segment, start, place.first, lagged)?;
        self.segment = segment;
        Ok(())
    }
}

/// Opens a segment for scanning; `gone` builds the error if a trim has removed it.
fn open_scanner(
    shared: &LogShared,
    segment: &Segment,
    place: FramePosition,
    next: Revision,
    gone: fn(&LogShared, Revision) -> Error,
) -> Result<Scanner> {
    let opened = shared.files.open(&segment.name);
    if next < shared.first() {
        return Err(gone(shared, next));
    }
    let file = opened.map_err(|error| io_failure("opening", &segment.name, &error))?;
    Ok(Scanner::new(file, shared.id.seed(), place, CHUNK_BYTES))
}

fn trimmed(shared: &LogShared, revision: Revision) -> Error {
    let message = format!(
        "revision {revision} is no longer in the log, it starts at revision {}",
        shared.first()
    );
    Error::new(Code::HistoryTrimmed, message)
}

fn lagged(shared: &LogShared, revision: Revision) -> Error {
    let message = format!(
        "the log was trimmed past revision {revision} before it was read: resume at revision {}",
        shared.first()
    );
    Error::new(Code::Lagged, message)
}
