//! The write-ahead log: all committed transactions, in order.
//!
//! ```text
//!   sequencer ─ FrameBuffer, Chain ─► frames ─ LogWriter::write, LogWriter::sync
//!                                              │
//!   log-…001.seg        log-…420.seg           ▼ log-…913.seg          log-next.tmp
//!  ┌──────┬─────────┐  ┌──────┬─────────┐  ┌──────┬──────┬───────┐    ┌───────────┐
//!  │header│ frames… │─►│header│ frames… │─►│header│frames│ zeros │    │ reserved  │
//!  └──────┴─────────┘  └──────┴─────────┘  └──────┴──────┴───────┘    └───────────┘
//!     ▲ trim removes      │ chain: every frame's checksum continues      ▲ prepare makes,
//!     │ whole segments    ▼ the one before, across segments              │ the writer renames
//!                       LogReader (any number, up to the published revision)
//! ```
//!
//! - A segment is synced before the next one exists, so only the newest can have a torn tail.
//! - Every frame records the highest revision that was synced when it was written. A bad frame is damage, and
//!   opening the log is refused, if a later frame proves it synced. Without such proof it is a torn tail and
//!   is cut off.
//! - Segments are never reused, and a cut tail is overwritten with zeros. So no bytes after the last frame
//!   can be mistaken for a frame.
//!
//! The formats are described in [`frame`] and [`segment`], the recovery rules in [`recover`].

mod failure;
pub mod files;
pub mod frame;
mod frame_verifier;
pub mod inspect;
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
mod mend;
pub mod reader;
pub mod recover;
mod salvage;
mod scan_segments;
mod scanner;
pub mod segment;
#[cfg(test)]
mod tests;
pub mod transactions;
mod varint;
pub mod writer;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::base::fault_points::{self, InjectedFault};
use mainstay_model::{Code, Error, Result, Revision};
use parking_lot::{Mutex, RwLock};

pub use files::{DiskFiles, File, Files, MemoryFiles};
pub use frame::{Chain, Frame, FrameBuffer, FramePayload};
pub use frame_verifier::{FrameVerifier, LOOSE_HEAD_BYTES};
pub use inspect::{LogReport, Problem, SegmentReport, inspect, stamp_in, visit};
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub use mend::{mend, mend_header, read_header, segment_name};
pub use reader::LogReader;
pub use recover::{RecoveredLog, TornTail};
pub use salvage::salvage;
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub use transactions::Transactions;
pub use writer::LogWriter;

use failure::{io_failure, sync_failure};
use scan_segments::SegmentScan;
use segment::{Header, Segment};

/// Maximum bytes per [`LogWriter::write`], and so the maximum frame size.
pub const WRITE_LIMIT_BYTES: usize = 1 << 30;

/// The 16-byte unique id of a database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub [u8; 16]);

impl DatabaseId {
    /// Initial value for the checksums of frame headers.
    fn seed(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The revisions whose effects are known to be durable in the index. The log itself was synced that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableElsewhere {
    /// All effects up to this revision are durable there.
    pub all: Revision,
    /// Some effects up to this revision are durable there, because a flush was interrupted.
    pub some: Revision,
}

impl From<Revision> for DurableElsewhere {
    fn from(all: Revision) -> DurableElsewhere {
        DurableElsewhere { all, some: all }
    }
}

/// Log configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a full segment, allocated when the segment is created.
    pub segment_bytes: u64,
    /// The number of this database opening, for the headers of segments that it creates; 0: none, as in
    /// earlier versions.
    pub owner: u64,
}

impl LogOptions {
    /// The smallest segment.
    pub const MIN_SEGMENT_BYTES: u64 = 4096;
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 64 * 1024 * 1024, owner: 0 }
    }
}

/// Handle to the log of one database: creates readers, trims, prepares segments. Cheap to clone and to share.
#[derive(Clone)]
pub struct Log {
    shared: Arc<LogShared>,
}

impl Log {
    /// Creates a new log in a directory that holds none.
    pub fn create(
        files: Arc<dyn Files>,
        id: DatabaseId,
        first: Revision,
        options: LogOptions,
    ) -> Result<(Log, LogWriter)> {
        segment::check_options(&options)?;
        clear_unused(&*files, &id)?;
        let owner = options.owner;
        let header = Header { database: id, first, previous: first, chain: 0, owner };
        let size = options.segment_bytes.min(FIRST_SEGMENT_BYTES);
        let file = segment::prefill_file(&*files, segment::PREPARED, size)?;
        segment::install(&*files, &*file, &header)?;
        let segment = Arc::new(Segment::new(&header, size));
        segment.set_end(segment::HEADER_BYTES);
        let shared = Arc::new(LogShared::new(files, id, options, vec![segment.clone()]));
        let writer = LogWriter::new(shared.clone(), file, segment, header.chain);
        Ok((Log { shared }, writer))
    }

    /// Opens a log whose effects are durable elsewhere up to `known`.
    ///
    /// Calls `visit`, in order, with every frame that holds a revision above `known.all`. It first verifies
    /// the chain from the segment that holds `known.all` on. Cuts a torn tail. Refuses damage without
    /// changing anything. All returned revisions are on stable storage.
    pub fn open(
        files: Arc<dyn Files>,
        id: DatabaseId,
        known: impl Into<DurableElsewhere>,
        options: LogOptions,
        visit: &mut dyn FnMut(&Frame<'_>) -> Result<()>,
    ) -> Result<(Log, LogWriter, RecoveredLog)> {
        segment::check_options(&options)?;
        let (shared, writer, recovered) =
            recover::recover(files, id, known.into(), options, visit)?;
        Ok((Log { shared }, writer, recovered))
    }

    /// Sets a guard that runs before any file is created or renamed, and whose error prevents it. Set once,
    /// at open.
    pub fn guard_with(&self, guard: impl Fn() -> Result<()> + Send + Sync + 'static) {
        let _ = self.shared.guard.set(Box::new(guard));
    }

    /// The revision up to which everything is certainly durable, according to the segment names: a segment is
    /// synced before the next one gets its name.
    pub fn certain(files: &dyn Files) -> std::io::Result<Revision> {
        let names = files.list()?;
        let newest = names.iter().filter_map(|name| segment::parse_name(name)).max();
        Ok(newest.unwrap_or(0).saturating_sub(1))
    }

    /// The oldest revision still held.
    pub fn first_revision(&self) -> Revision {
        self.shared.first()
    }

    /// Opens a reader for all frames with a revision above `after`.
    pub fn reader(&self, after: Revision) -> Result<LogReader> {
        LogReader::open(self.shared.clone(), after)
    }

    /// Removes whole segments that end before `keep_from`. Returns the bytes freed.
    ///
    /// Keeps the newest segment, and the segment that holds the newest revision.
    pub fn trim(&self, keep_from: Revision) -> Result<u64> {
        let _alone = self.shared.trimming.lock();
        let mut freed = 0;
        while let Some(segment) = self.shared.pop_ending_before(keep_from) {
            if let Err(error) = self.shared.files.remove(&segment.name) {
                let failure = io_failure("removing", &segment.name, &error);
                self.shared.push_oldest(segment);
                return Err(failure);
            }
            // Remove oldest first and sync each removal, so that a power failure cannot leave a gap in the
            // middle.
            let synced = fault_points::unless(InjectedFault::NoSyncOfRemovedSegments, || {
                self.shared.files.sync_dir()
            });
            synced.map_err(|error| sync_failure("the directory of the log", &error))?;
            freed += segment.size();
        }
        Ok(freed)
    }

    /// Total size of the segment files in bytes.
    pub fn bytes(&self) -> u64 {
        self.shared.segments.read().iter().map(|segment| segment.size()).sum()
    }

    /// The first revision and the size of each segment, oldest first.
    pub fn segments(&self) -> Vec<(Revision, u64)> {
        let segments = self.shared.segments.read();
        segments.iter().map(|segment| (segment.first, segment.size())).collect()
    }

    /// Allocates and fills the next segment in advance, so that the writer only has to rename it. To be
    /// called from a background thread after a segment was started. Does nothing if one is already prepared.
    pub fn prepare(&self) -> Result<()> {
        let _one = self.shared.preparing.lock();
        if self.shared.prepared.lock().is_some() {
            return Ok(());
        }
        self.shared.check_guard()?;
        let newest = self.shared.segments.read().back().map_or(0, |segment| segment.size());
        let size = self.shared.next_size(newest);
        let file = segment::prefill_file(&*self.shared.files, segment::FILLING, size)?;
        // The writer takes the file under this lock, so the name and the handle change together.
        let mut prepared = self.shared.prepared.lock();
        let renamed = self.shared.files.rename(segment::FILLING, segment::PREPARED);
        renamed.map_err(|error| io_failure("naming", segment::PREPARED, &error))?;
        *prepared = Some((file, size));
        Ok(())
    }

    /// Writes to a temporary file and removes it, to find out whether the disk is full.
    pub fn probe_space(&self) -> Result<()> {
        let _one = self.shared.preparing.lock();
        self.shared.check_guard()?;
        let probe = segment::FILLING;
        segment::make_file(&*self.shared.files, probe, PROBE_BYTES, |file| {
            files::write_zeros(file, 0, PROBE_BYTES)
        })?;
        let removed = self.shared.files.remove(probe);
        removed.map_err(|error| io_failure("removing", probe, &error))
    }
}

/// Bytes written to find out whether the disk is full.
const PROBE_BYTES: u64 = 1 << 20;

/// Checks that the directory holds no log, and removes the leftovers of a `create` that crashed.
fn clear_unused(files: &dyn Files, id: &DatabaseId) -> Result<()> {
    let survey = SegmentScan::read(files, Some(id))?;
    if survey.segments.is_empty() && survey.problem.is_none() {
        return survey.remove_unfinished(files);
    }
    let message = format!(
        "the directory holds a log already, with {}: open it, or choose another place",
        survey.names.join(", ")
    );
    Err(Error::new(Code::InvalidArgument, message))
}

/// The size of a database's first segment, so that a small database stays small.
const FIRST_SEGMENT_BYTES: u64 = 4 << 20;

/// State shared by the writer, the readers and the handle.
struct LogShared {
    files: Arc<dyn Files>,
    id: DatabaseId,
    options: LogOptions,
    /// Oldest first, never empty.
    segments: RwLock<VecDeque<Arc<Segment>>>,
    first: AtomicU64,
    /// The revision after the last one written.
    next: AtomicU64,
    /// The next segment's file and its size.
    prepared: Mutex<Option<(Arc<dyn File>, u64)>>,
    /// Serializes `prepare` and `probe_space`, which use the same temporary file.
    preparing: Mutex<()>,
    trimming: Mutex<()>,
    /// Fails if the directory is no longer the one that was opened.
    guard: OnceLock<Box<dyn Fn() -> Result<()> + Send + Sync>>,
}

impl LogShared {
    fn new(
        files: Arc<dyn Files>,
        id: DatabaseId,
        options: LogOptions,
        segments: Vec<Arc<Segment>>,
    ) -> LogShared {
        let first = segments.first().map_or(0, |segment| segment.first);
        let next = segments.last().map_or(0, |segment| segment.first);
        LogShared {
            files,
            id,
            options,
            segments: RwLock::new(segments.into()),
            first: AtomicU64::new(first),
            next: AtomicU64::new(next),
            prepared: Mutex::new(None),
            preparing: Mutex::new(()),
            trimming: Mutex::new(()),
            guard: OnceLock::new(),
        }
    }

    fn check_guard(&self) -> Result<()> {
        self.guard.get().map_or(Ok(()), |guard| guard())
    }

    /// The size of the segment after one of this size: sizes grow by 4 up to the configured size.
    fn next_size(&self, size: u64) -> u64 {
        size.saturating_mul(4).max(FIRST_SEGMENT_BYTES).min(self.options.segment_bytes)
    }

    fn first(&self) -> Revision {
        // Pairs with the `Release` stores in `push_oldest` and `pop_ending_before`.
        self.first.load(Ordering::Acquire)
    }

    fn next(&self) -> Revision {
        // Pairs with the `Release` in `set_next`: a reader that sees a revision also sees the segment end
        // that covers it.
        self.next.load(Ordering::Acquire)
    }

    fn set_next(&self, next: Revision) {
        // Publishes the segment and its end, stored before, to readers that load `next`.
        self.next.store(next, Ordering::Release);
    }

    /// The segment that holds this revision, or will hold it.
    fn segment_of(&self, revision: Revision) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.first <= revision);
        after.checked_sub(1).and_then(|at| segments.get(at)).cloned()
    }

    fn push_newest(&self, segment: Arc<Segment>) {
        self.segments.write().push_back(segment);
    }

    fn push_oldest(&self, segment: Arc<Segment>) {
        let mut segments = self.segments.write();
        // Pairs with the `Acquire` in `first`.
        self.first.store(segment.first, Ordering::Release);
        segments.push_front(segment);
    }

    /// Removes the oldest segment from the list if all of it lies before `keep_from`.
    fn pop_ending_before(&self, keep_from: Revision) -> Option<Arc<Segment>> {
        let mut segments = self.segments.write();
        let second = segments.get(1)?.first;
        // An empty newest segment has no stamp yet, so the segment before it is kept as well.
        if second > keep_from || second >= self.next() {
            return None;
        }
        // Publish the new start before the file is removed, so that readers report a trim and not damage.
        self.first.store(second, Ordering::Release);
        segments.pop_front()
    }
}
