//! The log writer: appends frames, starts new segments, syncs.

use std::io;
use std::sync::Arc;

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Error, Result, Revision};

use super::failure::{foreign_segment, io_failure, left_behind, sync_failure};
use super::files::File;
use super::frame::ALIGN;
use super::segment::{self, FramePosition, HEADER_BYTES, Header, PREPARED, Segment};
use super::{LogShared, WRITE_LIMIT_BYTES};

/// Appends to the log. Each log has exactly one writer.
pub struct LogWriter {
    shared: Arc<LogShared>,
    file: Arc<dyn File>,
    segment: Arc<Segment>,
    /// Offset of the next frame in the segment.
    offset: u64,
    /// Frames that end beyond this offset go into the next segment.
    capacity: u64,
    next: Revision,
    chain: u32,
    /// The error that stops all writes until the log is opened again.
    broken: Option<Error>,
}

impl LogWriter {
    /// Continues at the end of the newest segment.
    pub(super) fn new(
        shared: Arc<LogShared>,
        file: Arc<dyn File>,
        segment: Arc<Segment>,
        chain: u32,
    ) -> LogWriter {
        let offset = segment.end();
        let capacity = segment.size();
        let next = shared.next();
        LogWriter { shared, file, segment, offset, capacity, next, chain, broken: None }
    }

    /// The last revision written. If the log is empty, the revision before its first.
    pub fn end(&self) -> Revision {
        self.next.saturating_sub(1)
    }

    /// The crc of the last frame written.
    #[cfg(test)]
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// Appends frames with the revisions `first..=last`; `chain` is the crc of the last of them.
    ///
    /// On an error none of it is in the log, unless removing the partial write failed too. In that case and
    /// after a failed sync, the writer refuses everything until the log is opened again. After
    /// [`Code::DiskFull`] the same revisions can be written again once the disk has space.
    pub fn write(
        &mut self,
        frames: &[u8],
        first: Revision,
        last: Revision,
        chain: u32,
    ) -> Result<()> {
        self.check(frames, first, last)?;
        self.make_room(frames.len() as u64, first)?;
        if let Err(error) = self.file.write_at(frames, self.offset) {
            return Err(self.cut_back(&error));
        }
        self.segment.note(FramePosition { first, offset: self.offset, chain: self.chain });
        self.offset += frames.len() as u64;
        self.next = last + 1;
        self.chain = chain;
        // The end is published before the revision: a reader that sees the revision may read up to this end.
        self.segment.set_end(self.offset);
        self.shared.set_next(self.next);
        Ok(())
    }

    /// Returns whether the next segment should be prepared: half of this one is used.
    pub fn wants_next(&self) -> bool {
        self.offset > self.capacity / 2
    }

    /// Syncs everything written to stable storage.
    pub fn sync(&mut self) -> Result<()> {
        self.check_whole()?;
        let synced = fault_points::unless(InjectedFault::NoSyncOfLog, || self.file.sync());
        synced.map_err(|error| self.break_with(sync_failure(&self.segment.name, &error)))
    }

    fn check_whole(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn break_with(&mut self, error: Error) -> Error {
        self.broken = Some(error.clone());
        error
    }

    fn check(&self, frames: &[u8], first: Revision, last: Revision) -> Result<()> {
        self.check_whole()?;
        if frames.len() > WRITE_LIMIT_BYTES {
            let message = format!(
                "{} bytes for revisions {first} to {last} are more than the log takes at once, \
                 {WRITE_LIMIT_BYTES}: use smaller transactions",
                frames.len()
            );
            return Err(Error::new(Code::TransactionTooLarge, message));
        }
        let whole = !frames.is_empty() && frames.len().is_multiple_of(ALIGN);
        if whole && first == self.next && last >= first && last < Revision::MAX {
            return Ok(());
        }
        let message = format!(
            "revisions {first} to {last} in {} bytes of frames cannot follow revision {}",
            frames.len(),
            self.end()
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn make_room(&mut self, bytes: u64, first: Revision) -> Result<()> {
        if self.offset + bytes <= self.capacity {
            return Ok(());
        }
        if self.offset > HEADER_BYTES { self.roll(bytes, first) } else { self.grow(bytes) }
    }

    /// Enlarges an empty segment for frames that exceed the usual size.
    fn grow(&mut self, bytes: u64) -> Result<()> {
        let size = self.offset + bytes;
        if let Err(error) = self.file.allocate(size) {
            // Part of the space may have been allocated. It reads as zeros, so it does no harm if truncating
            // fails.
            let _ = self.file.truncate(self.capacity);
            return Err(io_failure("reserving space for", &self.segment.name, &error));
        }
        self.capacity = size;
        self.segment.set_size(size);
        Ok(())
    }

    /// Starts the next segment with revision `first`, large enough for `bytes`.
    fn roll(&mut self, bytes: u64, first: Revision) -> Result<()> {
        // Only the newest segment may hold frames that are not durable.
        fault_points::unless(InjectedFault::NoSyncBeforeRoll, || self.sync())?;
        self.shared.check_guard()?;
        self.check_newest()?;
        let size = self.shared.next_size(self.capacity).max(HEADER_BYTES + bytes);
        let header = Header {
            database: self.shared.id,
            first,
            previous: self.segment.first,
            chain: self.chain,
            owner: self.shared.options.owner,
        };
        let (file, size) = self.new_file(size, bytes, &header)?;
        self.segment = Arc::new(Segment::new(&header, size));
        self.segment.set_end(HEADER_BYTES);
        self.file = file;
        self.offset = HEADER_BYTES;
        self.capacity = size;
        self.shared.push_newest(self.segment.clone());
        Ok(())
    }

    /// Fails if the newest segment is not the one this writer appends to, because another program has written
    /// here.
    fn check_newest(&self) -> Result<()> {
        // A failed listing does not prove another writer. Creating the new segment will show the error.
        let Ok(names) = self.shared.files.list() else { return Ok(()) };
        let newest = names.iter().filter_map(|name| segment::parse_name(name)).max();
        match newest {
            Some(first) if first == self.segment.first => Ok(()),
            newest => Err(foreign_segment(&self.segment.name, newest.map(segment::name_of))),
        }
    }

    /// Renames the prepared file, or one allocated now. Returns it with its size.
    fn new_file(&mut self, size: u64, bytes: u64, header: &Header) -> Result<(Arc<dyn File>, u64)> {
        let shared = self.shared.clone();
        // Held to the end, so that no other thread prepares a file under the same name meanwhile.
        let mut prepared = shared.prepared.lock();
        let (file, there) = match prepared.take() {
            Some(prepared) => prepared,
            None => (segment::prepare_file(&*shared.files, size)?, size),
        };
        let size = there.max(HEADER_BYTES + bytes);
        let reserved = if size > there { file.allocate(size) } else { Ok(()) };
        let reserved =
            reserved.map_err(|error| io_failure("reserving space for", PREPARED, &error));
        match reserved.and_then(|()| segment::install(&*shared.files, &*file, header)) {
            Ok(()) => Ok((file, size)),
            Err(error) if error.code() == Code::SyncFailed => Err(self.break_with(error)),
            Err(error) => {
                // If the file cannot be removed now, the next attempt removes it.
                let _ = shared.files.remove(PREPARED);
                Err(error)
            }
        }
    }

    /// Truncates a failed write, so that zeros follow the last frame again.
    fn cut_back(&mut self, error: &io::Error) -> Error {
        let failure = io_failure("writing", &self.segment.name, error);
        if let Err(error) = self.file.truncate(self.offset) {
            return self.break_with(left_behind(&self.segment.name, &error));
        }
        // If the space cannot be allocated again, the next writes allocate their blocks themselves.
        let kept = self.file.allocate(self.capacity).is_ok();
        self.segment.set_size(if kept { self.capacity } else { self.offset });
        failure
    }
}
