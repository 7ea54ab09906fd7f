//! Opening and crash recovery: loads the index, replays the log, and rebuilds a damaged index.
//!
//! ```text
//!   DATABASE, LOCK  ->  index (stores + MARK)  ->  replay the log behind the mark
//!                         | damaged?
//!                         v
//!                       the log reaches back to revision 1: rebuild from the log
//!                       it reaches back to a verified base: fill from the base, replay from there
//!                       else refuse
//! ```

use crate::apply::expire;
use crate::base::clock::Clock;
use crate::base::fault_points::{self, InjectedFault};
use crate::base::metrics::Metrics;
use crate::base::sync::RwLock;
use crate::commit::executor::SharedState;
use crate::commit::sequencer::SEALED_LIMIT;
use crate::fs::error::io_error;
use crate::key::keyspace::{CELLS, KEYED, RECORDS};
use crate::key::version::Version;
use crate::lifecycle::background;
use crate::lifecycle::database_file::{self, DatabaseFile};
use crate::lifecycle::options::Options;
use crate::log::{self, DatabaseId, DurableElsewhere, Files, Log, LogOptions, LogWriter, TornTail};
use crate::mvcc::catalog::Catalog;
use crate::mvcc::dead_names::DeadNames;
use crate::mvcc::recent_writes::RecentWrites;
use crate::storage::flush_mark::FlushMark;
use crate::storage::index::{Index, IndexParts};
use crate::storage::lsm::{Store, StoreOptions};
use crate::storage::reclassify;
use crate::storage::retention_class::{self, RetentionClasses, RetentionRules};
use crate::storage::tombstone_gc::TombstoneGc;
use mainstay_model::{Code, Error, Result, Revision, Stamp};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

/// The divisor of the memory for write buffers: one active buffer, the sealed ones, and a third of the
/// total. That third is for the work of a flush and for allocator fragmentation between versions of
/// different lifetimes.
const BUFFERS: usize = SEALED_LIMIT + 4;

/// The segment size of a log in memory.
const MEMORY_SEGMENT_BYTES: u64 = 1 << 20;

/// A verified copy of the database that an index can be filled from.
pub trait RebuildSource: Send + Sync {
    fn database(&self) -> [u8; 16];
    fn revision(&self) -> Revision;
    /// Fails unless the copy is of this database.
    fn check_owner(&self, database: [u8; 16]) -> Result<()>;
    /// Fails unless the log continues where the copy ends.
    fn check_reach(&self, log: &log::LogReport) -> Result<()>;
    /// Fails if the copies have diverged. Copies of a database share one id, so if the log holds the
    /// copy's revision, it must be the same revision.
    fn check_history(&self, files: &dyn Files) -> Result<()>;
    /// Builds an index from the copy. The index in the directory is kept under another name.
    fn fill(&self, directory: &Path, options: &StoreOptions) -> Result<()>;
}

/// Opens and verifies a source.
pub(crate) type OpenRebuildSource = Arc<dyn Fn() -> Result<Box<dyn RebuildSource>> + Send + Sync>;

/// The files and the identity of a database.
pub(crate) struct DatabasePlace {
    pub files: Arc<dyn Files>,
    pub database: [u8; 16],
    /// The index's directory; `None` in memory.
    pub index: Option<PathBuf>,
    pub identity: Option<DatabaseFile>,
    /// The source that an empty directory is filled from.
    pub base: Option<Box<dyn RebuildSource>>,
}

/// The end of a log after recovery.
#[derive(Default)]
pub(crate) struct LogEnd {
    pub last: Revision,
    pub stamp: Stamp,
    pub chain: u32,
    pub cut: Option<TornTail>,
    pub replayed: u64,
}

/// Returns a nonzero number that is very unlikely to be used by another opening. It is derived from the
/// clock, so that a simulated clock gives the same log from the same seed.
fn owner_of(clock: &dyn Clock) -> u64 {
    let moment = clock.wall_us().rotate_left(32) ^ clock.monotonic_us();
    // Spreads the bits (SplitMix64), so that similar times give very different numbers.
    let mixed = (moment ^ (moment >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)).max(1)
}

/// Opens the log and replays it into the index behind the mark. Creates the log if none exists.
pub(crate) fn open_log(
    place: &DatabasePlace,
    options: &Options,
    index: &Index,
    restored: bool,
) -> Result<(Log, LogWriter, LogEnd)> {
    let mark = index.flushed();
    // A flush that was cut short may have brought revisions behind the mark into some stores. If the
    // log has lost them, they would reappear later, and only in part. So the log must reach that far.
    let reach =
        if fault_points::is(InjectedFault::LostComesBack) { mark } else { index.reach().max(mark) };
    let segment_bytes = match place.index {
        Some(_) => options.segment_bytes,
        // A log in memory preallocates nothing.
        None => options.segment_bytes.min(MEMORY_SEGMENT_BYTES),
    };
    let files = place.files.clone();
    let id = DatabaseId(place.database);
    let options = LogOptions { segment_bytes, owner: owner_of(&*options.clock) };
    if !has_segments(place)? {
        if reach > 0 && !restored {
            return Err(missing_log(reach));
        }
        let (log, writer) = Log::create(files, id, mark + 1, options)?;
        return Ok((log, writer, LogEnd { last: mark, ..LogEnd::default() }));
    }
    let certain = Log::certain(&*files).map_err(|error| log_error(&error))?;
    let mut replay = LogReplay { index, replayed: 0, certain };
    let visit = &mut |frame: &log::Frame<'_>| replay.frame(frame, mark);
    let known = DurableElsewhere { all: mark, some: reach };
    let (log, writer, found) = Log::open(files, id, known, options, visit)?;
    let last = found.last_revision.max(mark);
    // Everything replayed is on stable storage now.
    flush(index, last)?;
    let log::RecoveredLog { last_stamp: stamp, chain, cut, .. } = found;
    Ok((log, writer, LogEnd { last, stamp, chain, cut, replayed: replay.replayed }))
}

/// Builds the state shared by the executor and readers, over an index that holds everything up to
/// `last`.
pub(crate) fn new_state(
    index: Index,
    catalog: Catalog,
    last: Revision,
    options: &Options,
) -> Result<SharedState> {
    let next_expiry = expire::next_due(&index, 0)?.unwrap_or(Stamp::MAX);
    let sealed = AtomicUsize::new(index.tables().sealed.len());
    Ok(SharedState {
        index,
        catalog: RwLock::new(catalog),
        trail: RecentWrites::new(last),
        dead_names: DeadNames::default(),
        next_expiry: AtomicU64::new(next_expiry),
        reaps: AtomicBool::new(true),
        fronts: Mutex::default(),
        sessions: Mutex::default(),
        time_offset_us: AtomicU64::new(0),
        serves_branches: options.serve_branches,
        sealed,
        large_writes: AtomicU64::new(0),
        figures: Metrics::default(),
    })
}

/// Locks the directory. If it holds no database yet and a base is configured, reserves it under the
/// base's id.
pub(crate) fn claim(
    directory: &Path,
    options: &Options,
) -> Result<(DatabaseFile, Option<Box<dyn RebuildSource>>)> {
    match &options.base {
        Some(open_base) if database_file::read(directory)?.is_none() => {
            let base = open_base()?;
            Ok((DatabaseFile::reserve(directory, base.database())?, Some(base)))
        }
        _ => Ok((DatabaseFile::claim(directory)?, None)),
    }
}

/// An index, and how it was obtained.
pub(crate) struct OpenedIndex {
    pub index: Index,
    /// The reason for a rebuild; `None` if the index was opened as it was.
    pub rebuilt: Option<String>,
    /// The revision of the base that the index was filled from, if any.
    pub base: Option<Revision>,
    /// True if only the base exists, so that the log starts behind it.
    pub restored: bool,
}

/// Opens the index. If it is damaged, rebuilds it from the log, or from a base and the log, and reports
/// the reason.
pub(crate) fn open_index(
    place: &mut DatabasePlace,
    options: &Options,
    purger: &Arc<TombstoneGc>,
) -> Result<OpenedIndex> {
    if let Some(base) = restores(place, options)? {
        let index = fill_index(place, options, purger, &*base)?;
        return Ok(OpenedIndex {
            index,
            rebuilt: None,
            base: Some(base.revision()),
            restored: true,
        });
    }
    let why = match try_index(place, options, purger, false) {
        Ok(index) => return Ok(OpenedIndex { index, rebuilt: None, base: None, restored: false }),
        Err(error) if error.code() == Code::CorruptIndex => error,
        Err(error) => return Err(error),
    };
    let report = log::inspect(&*place.files)?;
    if let Some(problem) = report.problem.as_ref().filter(|problem| !problem.torn) {
        // Log and index are both damaged, so nothing may be discarded.
        return Err(problem.refusal());
    }
    check_end(place, &report)?;
    let first = report.segments.first().map(|segment| segment.first_revision);
    let rebuilt = Some(why.message().to_owned());
    if first == Some(1) {
        let index = try_index(place, options, purger, true)?;
        return Ok(OpenedIndex { index, rebuilt, base: None, restored: false });
    }
    let begins = first.map_or("is empty".to_owned(), |first| format!("begins at revision {first}"));
    let Some(open_base) = &options.base else { return Err(no_base(&why, &begins)) };
    let unfit = |error: Error| {
        let message =
            format!("{}; the log {begins}, and the base: {}", why.message(), error.message());
        Error::new(error.code(), message)
    };
    let base = open_base().map_err(unfit)?;
    let fits = base.check_owner(place.database).and_then(|()| base.check_reach(&report));
    fits.and_then(|()| base.check_history(&*place.files)).map_err(unfit)?;
    let index = fill_index(place, options, purger, &*base)?;
    Ok(OpenedIndex { index, rebuilt, base: Some(base.revision()), restored: false })
}

/// Fails if the log ends before the damaged index's mark. Everything up to the mark was synced, so such
/// a log has lost its end, torn or not.
fn check_end(place: &DatabasePlace, log: &log::LogReport) -> Result<()> {
    let Some(index) = &place.index else { return Ok(()) };
    let mark = match FlushMark::read(&reclassify::settled(index)) {
        Err(error) if error.code() == Code::CorruptIndex => None,
        mark => mark?,
    };
    let marked =
        mark.filter(|mark| mark.database == place.database).map_or(0, |mark| mark.revision);
    if let Some(problem) = log.problem.as_ref().filter(|problem| problem.expected <= marked) {
        return Err(problem.refusal());
    }
    let Some(newest) = log.segments.last() else { return Ok(()) };
    let end = log.last_revision().unwrap_or(newest.first_revision.saturating_sub(1));
    if end >= marked {
        return Ok(());
    }
    let message = format!(
        "the log ends at revision {end}, but the index, which is damaged, was marked with revision {marked}; \
         nothing was changed, run `mainstay doctor`"
    );
    Err(Error::new(Code::CorruptLog, message))
}

/// Returns the verified base if neither a log nor an index exists.
fn restores(
    place: &mut DatabasePlace,
    options: &Options,
) -> Result<Option<Box<dyn RebuildSource>>> {
    if let Some(base) = place.base.take() {
        if has_segments(place)? {
            check_left(place, &*base)?;
        }
        return Ok(Some(base));
    }
    let (Some(open_base), Some(directory)) = (&options.base, &place.index) else { return Ok(None) };
    if has_segments(place)? || !matches!(FlushMark::read(directory), Ok(None)) {
        return Ok(None);
    }
    let base = open_base()?;
    base.check_owner(place.database)?;
    Ok(Some(base))
}

/// Accepts only the log that an interrupted restore leaves: empty, and beginning behind the base.
fn check_left(place: &DatabasePlace, base: &dyn RebuildSource) -> Result<()> {
    let log = log::inspect(&*place.files)?;
    let next = base.revision() + 1;
    if log.database == Some(DatabaseId(place.database))
        && log.problem.is_none()
        && log.last_revision().is_none()
        && log.segments.iter().all(|segment| segment.first_revision == next)
    {
        return Ok(());
    }
    let message = "the directory has a log but no file DATABASE: put the file back, or restore to \
                   an empty directory; nothing was touched";
    Err(Error::new(Code::ForeignDirectory, message))
}

fn has_segments(place: &DatabasePlace) -> Result<bool> {
    let names = place.files.list().map_err(|e| log_error(&e))?;
    Ok(names.iter().any(|name| name.ends_with(".seg")))
}

/// Fills a new index from a base and opens it.
fn fill_index(
    place: &DatabasePlace,
    options: &Options,
    purger: &Arc<TombstoneGc>,
    base: &dyn RebuildSource,
) -> Result<Index> {
    if let Some(directory) = &place.index {
        base.fill(directory, &store_options(options, purger))?;
    }
    try_index(place, options, purger, false)
}

#[cold]
fn no_base(why: &Error, begins: &str) -> Error {
    let message = format!(
        "{}; the log {begins}, so the index cannot be rebuilt from it alone: restore a backup by \
         opening with it as the base (`Options::base`), or look with `mainstay doctor`",
        why.message()
    );
    Error::new(Code::CorruptIndex, message)
}

fn try_index(
    place: &DatabasePlace,
    options: &Options,
    purger: &Arc<TombstoneGc>,
    rebuild: bool,
) -> Result<Index> {
    let us = |retention: Duration| u64::try_from(retention.as_micros()).unwrap_or(u64::MAX);
    let of = |space: u8, classes: &[(String, Option<Duration>)]| {
        classes
            .iter()
            .map(|(prefix, kept)| (space, prefix.clone(), kept.map(us)))
            .collect::<Vec<_>>()
    };
    let cells = of(CELLS, &options.classes);
    let records = of(RECORDS, &options.record_classes);
    let keyed = of(KEYED, &options.keyed_classes);
    let classes = RetentionClasses::new(&RetentionRules {
        cells: options.retention.map(us),
        records: options.record_retention.map(us),
        keyed: options.keyed_retention.map(us),
        prefixes: [cells, records, keyed].concat(),
    });
    let fresh = FlushMark {
        database: place.database,
        revision: 0,
        classes: classes.all().iter().map(|class| (class.label.clone(), 0)).collect(),
    };
    let (mark, stores) = match &place.index {
        None => (fresh, classes.all().iter().map(|_| Store::memory(purger.rule())).collect()),
        Some(directory) => {
            open_stores(place, directory, options, purger, &classes, fresh, rebuild)?
        }
    };
    Index::new(IndexParts {
        classes,
        stores,
        mark,
        directory: place.index.clone(),
        cache_bytes: usize::try_from(options.cache_bytes).unwrap_or(usize::MAX),
        buffer_bytes: options.write_buffer_bytes as usize / BUFFERS,
    })
}

fn open_stores(
    place: &DatabasePlace,
    directory: &Path,
    options: &Options,
    purger: &Arc<TombstoneGc>,
    classes: &RetentionClasses,
    fresh: FlushMark,
    rebuild: bool,
) -> Result<(FlushMark, Vec<Store>)> {
    let log_exists = has_segments(place)?;
    reclassify::settle(directory)?;
    let known = if rebuild { None } else { FlushMark::read_durably(directory)? };
    if known.is_none() && log_exists && !rebuild {
        return Err(Error::new(Code::CorruptIndex, "the index is missing its MARK file"));
    }
    if known.is_none() && directory.exists() {
        set_aside(directory)?;
    }
    make_dir(directory)?;
    let store_options = store_options(options, purger);
    let existing = known.is_some();
    let known = match known {
        Some(mark) => {
            check_mark(&mark, place)?;
            if fits(&mark, classes) {
                Some(mark)
            } else {
                Some(reclassify::migrate(directory, &store_options, &mark, classes)?)
            }
        }
        None => None,
    };
    let open =
        |class| Store::open(&directory.join(classes.directory(class)), &store_options, existing);
    let stores = (0..classes.all().len()).map(open).collect::<Result<Vec<_>>>()?;
    let mark = match known {
        Some(mark) => mark,
        None => {
            // A mark implies that the stores exist, so they must be durable first.
            let synced = fault_points::unless(InjectedFault::NoSyncOfStores, || {
                std::fs::File::open(directory)?.sync_all()
            });
            synced.map_err(|error| io_error("sync", directory, &error))?;
            fresh.write(directory)?;
            fresh
        }
    };
    Ok((mark, stores))
}

/// The options of stores that are filled before they have readers.
pub fn plain_store_options() -> StoreOptions {
    store_options(&Options::default(), &Arc::default())
}

fn store_options(options: &Options, purger: &Arc<TombstoneGc>) -> StoreOptions {
    StoreOptions {
        block_cache: Arc::new(lsm_tree::Cache::with_capacity_bytes(options.block_cache_bytes)),
        descriptors: Some(Arc::new(lsm_tree::DescriptorTable::new(256))),
        delete_scheduler: options.background.then(Arc::default),
        purge: purger.rule(),
    }
}

/// Fails if the index belongs to another database.
fn check_mark(mark: &FlushMark, place: &DatabasePlace) -> Result<()> {
    if mark.database == place.database && mark.classes.len() > retention_class::CELLS {
        return Ok(());
    }
    Err(Error::new(Code::CorruptIndex, "the index belongs to another database"))
}

/// Returns whether the index has the requested classes.
fn fits(mark: &FlushMark, classes: &RetentionClasses) -> bool {
    let asked = classes.all().iter().map(|class| class.label.as_str());
    asked.eq(mark.classes.iter().map(|class| class.0.as_str()))
}

/// Replays the log behind the mark into the index.
///
/// After a failed fsync the page cache may still return data that is not on disk. The log rewrites such
/// data, but only after everything has been replayed. Until then only data that is proven synced goes
/// into the stores. The rest is less than a segment.
struct LogReplay<'a> {
    index: &'a Index,
    replayed: u64,
    /// Everything up to this revision is proven synced.
    certain: Revision,
}

impl LogReplay<'_> {
    fn frame(&mut self, frame: &log::Frame<'_>, mark: Revision) -> Result<()> {
        self.certain = self.certain.max(frame.synced_revision());
        for transaction in frame.transactions() {
            let transaction = transaction?;
            if transaction.revision <= mark {
                continue;
            }
            let few = if fault_points::is(InjectedFault::FirstEffectOnly) { 1 } else { usize::MAX };
            let active = self.index.tables().active.clone();
            for (key, entry) in transaction.effects.take(few) {
                let hash = self.index.current.hash(key);
                self.index.put(&active, hash, Version::new(key, entry));
            }
            active.note_time(transaction.revision, transaction.stamp);
            self.replayed += 1;
            if self.index.wants_seal(&active) {
                self.index.seal(transaction.revision);
                flush(self.index, self.certain)?;
            }
        }
        Ok(())
    }
}

/// How much may stay in memory beyond the write buffers if the stores accept no more tables: the data
/// that was in memory in the process before.
const KEPT_BYTES: usize = 256 << 20;

/// Moves replayed data into the stores, before the compaction thread exists. If the stores accept no
/// more, the data stays in memory: reads are served, and writers get an error.
fn flush(index: &Index, durable: Revision) -> Result<()> {
    if index.tables().sealed.is_empty() {
        return Ok(());
    }
    background::catch_up(index);
    let limit = index.buffer_bytes * BUFFERS + KEPT_BYTES;
    let is_full = index.stores().iter().any(|store| store.check_room().is_err());
    if is_full && index.buffered_bytes() <= limit { Ok(()) } else { index.flush(durable).map(drop) }
}

/// Renames a damaged index, replacing one that was kept before.
pub(crate) fn set_aside(directory: &Path) -> Result<()> {
    let aside = directory.with_extension("damaged");
    let steps = || -> std::io::Result<()> {
        if aside.exists() {
            std::fs::remove_dir_all(&aside)?;
        }
        std::fs::rename(directory, &aside)
    };
    steps().map_err(|error| io_error("set aside", directory, &error))
}

pub(crate) fn make_dir(directory: &Path) -> Result<()> {
    let steps = || -> std::io::Result<()> {
        if directory.is_dir() {
            return Ok(());
        }
        std::fs::create_dir(directory)?;
        match directory.parent() {
            Some(parent) => fault_points::unless(InjectedFault::NoSyncOfNewDirectory, || {
                std::fs::File::open(parent)?.sync_all()
            }),
            None => Ok(()),
        }
    };
    steps().map_err(|error| io_error("make", directory, &error))
}

fn log_error(error: &std::io::Error) -> Error {
    io_error("read", Path::new("log"), error)
}

pub(crate) fn describe_cut(cut: &TornTail) -> String {
    format!("{} at byte {}: {} bytes, {}", cut.file, cut.offset, cut.bytes, cut.reason)
}

#[cold]
fn missing_log(reach: Revision) -> Error {
    let message = format!(
        "the index reaches up to revision {reach}, but the log is gone: restore its files, or look with `mainstay doctor`"
    );
    Error::new(Code::CorruptLog, message)
}
