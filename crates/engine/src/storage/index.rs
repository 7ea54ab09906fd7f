//! The index: every retained version of every key, updated by committed effects only.
//!
//! ```text
//!   put ----> current (newest of each key) ----------------> point reads
//!        \--> active buffer --seal--> sealed buffers ------> scans
//!                                        | flush (background)
//!                                        v
//!                            a store per retention class --> older versions, everything else
//! ```
//!
//! All stores are filled up to the same revision, which becomes the flush mark. After a crash, the log is
//! replayed from there. Acknowledging a write never syncs the index.

use crate::base::fault_points::{self, InjectedFault};
use crate::base::metrics::SearchCounters;
use crate::key::entry;
use crate::key::keyspace::{self, CELLS, EVENT_KEYS, KEYED, OUTBOX, RECORDS, RUNS, SPACES};
use crate::key::version::Version;
use crate::storage::dead_ranges::DeadRangeCache;
use crate::storage::event_key_bloom::EventKeyBloom;
use crate::storage::flush_mark::FlushMark;
use crate::storage::index_def::{IndexDef, IndexDefs};
use crate::storage::lsm::Store;
use crate::storage::memtable::Memtable;
use crate::storage::retention_class::{self, RetentionClass, RetentionClasses};
use crate::storage::scan::{Scan, StoreRows};
use crate::storage::timestamp_index::{TimestampIndex, TimestampSnapshot};
use crate::storage::version_cache::{CacheLookup, VersionCache};
use mainstay_model::{Code, Error, Result, Revision, Stamp};
use parking_lot::{Mutex, RwLock};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// A revision above all others, for the writer, which reads everything executed.
pub const NEWEST: Revision = (1 << 62) - 1;

pub struct Index {
    pub classes: RetentionClasses,
    stores: Vec<Store>,
    /// Per class: reads below this revision are refused.
    floors: Vec<AtomicU64>,
    /// Per class: the floor in the durable flush mark. Compaction may drop shadowed versions below it.
    trim_floors: Vec<AtomicU64>,
    pub current: VersionCache,
    /// Idempotency keys of runs created since open.
    known: EventKeyBloom,
    tables: RwLock<Arc<Tables>>,
    times: TimestampIndex,
    /// The stores hold all revisions up to this one.
    flushed: AtomicU64,
    /// The highest revision found in any store at open.
    reach: Revision,
    pub buffer_bytes: usize,
    database: [u8; 16],
    /// The directory of the flush mark; `None` for an index in memory.
    directory: Option<PathBuf>,
    /// Serializes writers of the mark.
    marking: Mutex<()>,
    /// True if cells may exist: one was written since open, or the stores may hold some.
    has_cells: AtomicBool,
    /// The same for records.
    has_records: AtomicBool,
    has_runs: AtomicBool,
    has_keyed: AtomicBool,
    /// The secondary indexes over records, as of the newest executed transaction.
    declared: RwLock<IndexDefs>,
    /// Ranges of their entries that are dead.
    pub graves: DeadRangeCache,
    /// Counters of their use.
    pub searches: SearchCounters,
    /// The offset in microseconds that converts a wall-clock time to a stamp. Zero unless the two are far
    /// apart.
    pub wall_offset_us: AtomicI64,
}

/// The active buffer and the sealed ones.
pub struct Tables {
    pub active: Arc<Memtable>,
    /// Sealed buffers with their last revision, oldest first.
    pub sealed: Vec<(Arc<Memtable>, Revision)>,
}

impl Tables {
    fn all(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.sealed.iter().map(|(table, _)| table).chain([&self.active])
    }
}

pub struct IndexParts {
    pub classes: RetentionClasses,
    pub stores: Vec<Store>,
    pub mark: FlushMark,
    pub directory: Option<PathBuf>,
    pub cache_bytes: usize,
    pub buffer_bytes: usize,
}

/// The highest revision in any store. The system store is excluded, because its timestamp blocks have numbers
/// of their own.
pub(crate) fn reach(stores: &[Store], times: &TimestampIndex) -> Revision {
    let others = stores.iter().enumerate().filter(|(class, _)| *class != retention_class::SYSTEM);
    others.filter_map(|(_, store)| store.highest()).fold(times.reach(), Revision::max)
}

impl Index {
    pub fn new(parts: IndexParts) -> Result<Index> {
        let times =
            TimestampIndex::load(&parts.stores[retention_class::SYSTEM], parts.mark.revision)?;
        let floors = || parts.mark.classes.iter().map(|class| AtomicU64::new(class.1)).collect();
        let (floors, trim_floors) = (floors(), floors());
        // After a crash, the store may hold keys beyond the flush mark.
        let keys =
            parts.classes.of_space(EVENT_KEYS).filter_map(|class| parts.stores[class].highest());
        let since = keys.fold(parts.mark.revision, Revision::max);
        let reach = reach(&parts.stores, &times);
        let seed = u64::from_le_bytes(parts.mark.database[..8].try_into().unwrap_or_default());
        Ok(Index {
            classes: parts.classes,
            stores: parts.stores,
            floors,
            trim_floors,
            current: VersionCache::new(parts.cache_bytes, seed),
            known: EventKeyBloom::new(since),
            tables: RwLock::new(Arc::new(Tables { active: Arc::default(), sealed: Vec::new() })),
            times,
            flushed: AtomicU64::new(parts.mark.revision),
            reach,
            buffer_bytes: parts.buffer_bytes,
            database: parts.mark.database,
            directory: parts.directory,
            marking: Mutex::new(()),
            has_cells: AtomicBool::new(true),
            has_records: AtomicBool::new(true),
            has_runs: AtomicBool::new(true),
            has_keyed: AtomicBool::new(true),
            declared: RwLock::default(),
            graves: DeadRangeCache::default(),
            searches: SearchCounters::default(),
            wall_offset_us: AtomicI64::new(0),
        })
    }

    pub fn tables(&self) -> Arc<Tables> {
        self.tables.read().clone()
    }

    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    pub fn database(&self) -> [u8; 16] {
        self.database
    }

    /// The highest revision found in any store at open. An interrupted flush leaves later revisions there
    /// than the flush mark states.
    pub fn reach(&self) -> Revision {
        self.reach
    }

    pub fn flushed(&self) -> Revision {
        // Pairs with the `AcqRel` in `write_mark`: the stores and the mark hold this revision.
        self.flushed.load(Ordering::Acquire)
    }

    /// Reads the newest entry of a key that is not newer than `at`.
    ///
    /// `fresh` means that `at` is the newest visible revision, so that an entry read from a store may be
    /// cached as the current one.
    #[inline]
    pub fn entry<T>(
        &self,
        hash: u64,
        key: &[u8],
        at: Revision,
        fresh: bool,
        mut read: impl FnMut(&[u8]) -> T,
    ) -> Result<Option<T>> {
        match self.current.lookup(hash, key, at, |version| read(version.entry())) {
            CacheLookup::Found(found) => Ok(Some(found)),
            CacheLookup::Elsewhere => self.stored(hash, key, at, fresh, read),
        }
    }

    /// The size of a key's entry, 0 if it has none; `None` if only a store read could tell.
    pub fn size_in_memory(&self, hash: u64, key: &[u8], at: Revision) -> Option<usize> {
        match self.current.lookup(hash, key, at, |version| version.entry().len()) {
            CacheLookup::Found(size) => Some(size),
            CacheLookup::Elsewhere => self.known.definitely_absent(hash, key).then_some(0),
        }
    }

    fn stored<T>(
        &self,
        hash: u64,
        key: &[u8],
        at: Revision,
        fresh: bool,
        mut read: impl FnMut(&[u8]) -> T,
    ) -> Result<Option<T>> {
        if self.known.definitely_absent(hash, key) {
            return Ok(None);
        }
        self.current.hits.miss();
        let Some(entry) = self.stores[self.classes.of(key)].get(key, at)? else { return Ok(None) };
        if fresh {
            self.current.put_clean(hash, Version::new(key, &entry), at);
        }
        Ok(Some(read(&entry)))
    }

    /// Visits the retained entries of a key from revision `from` down, newest first, until `visit` returns
    /// false. Returns false if it was stopped.
    pub fn versions(
        &self,
        key: &[u8],
        from: Revision,
        visit: &mut impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<bool> {
        let hash = self.current.hash(key);
        let floor = self.floor(self.classes.of(key));
        let mut at = from;
        loop {
            let Some(found) = self.entry(hash, key, at, false, |entry| {
                Ok((entry::revision_of(entry), visit(entry)?))
            })?
            else {
                return Ok(true);
            };
            let (revision, more): (Revision, bool) = found?;
            // Versions shadowed at the floor are hidden, because compaction may or may not have dropped them
            // yet.
            if !more || revision <= floor || revision == 0 {
                return Ok(more);
            }
            at = revision - 1;
        }
    }

    /// Scans the keys of a range as of a revision.
    pub fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, at: Revision) -> Scan {
        let tables = self.tables();
        let buffers: Vec<_> = tables.all().cloned().collect();
        let range = |store: &Store| -> StoreRows { store.range(from, to, at) };
        // Bounded scans stay within one key space. Only a scan over everything has no start.
        let stores: Vec<_> = match from {
            Bound::Included(key) | Bound::Excluded(key) => {
                let space = key.first().copied().unwrap_or_default();
                self.classes.of_space(space).map(|class| range(&self.stores[class])).collect()
            }
            Bound::Unbounded => self.stores[retention_class::CELLS..].iter().map(range).collect(),
        };
        Scan::new(buffers.into_iter(), stores.into_iter(), from, to, at)
    }

    /// Inserts a version that was executed or replayed.
    #[inline]
    pub fn put(&self, active: &Memtable, hash: u64, version: Version) {
        match version.key().first() {
            Some(&CELLS) => self.has_cells.store(true, Ordering::Relaxed),
            Some(&RECORDS) => self.has_records.store(true, Ordering::Relaxed),
            Some(&space) if keyspace::is_of_runs(space) => {
                self.has_runs.store(true, Ordering::Relaxed);
            }
            Some(&(SPACES | KEYED)) => self.has_keyed.store(true, Ordering::Relaxed),
            Some(&space) if keyspace::is_only_walked(space) => return active.push(version),
            _ => {}
        }
        self.known.note(hash, &version);
        active.push(version.clone());
        self.current.put(hash, version);
    }

    /// Returns false only if there are certainly no cells.
    #[inline]
    pub fn has_cells(&self) -> bool {
        self.has_cells.load(Ordering::Relaxed)
    }

    /// Returns false only if there are certainly no records.
    #[inline]
    pub fn has_records(&self) -> bool {
        self.has_records.load(Ordering::Relaxed)
    }

    /// Returns false only if there are certainly no runs and no messages.
    pub fn has_runs(&self) -> bool {
        self.has_runs.load(Ordering::Relaxed)
    }

    /// Returns false only if there is certainly no keyed state.
    pub fn has_keyed(&self) -> bool {
        self.has_keyed.load(Ordering::Relaxed)
    }

    /// Returns false only if there is certainly no data of the class.
    pub fn has_any_of(&self, class: &RetentionClass) -> bool {
        (!class.is_of_records() || self.has_records())
            && (!class.is_of_runs() || self.has_runs())
            && (!class.is_of_keyed() || self.has_keyed())
    }

    /// The secondary indexes over records that writes maintain.
    #[inline]
    pub fn declared(&self) -> IndexDefs {
        self.declared.read().clone()
    }

    /// Replaces the list of secondary indexes.
    pub fn declare(&self, all: Vec<IndexDef>) {
        *self.declared.write() = Arc::new(all);
    }

    /// Finds out which kinds of data exist.
    pub fn look_for_kinds(&self) -> Result<()> {
        let kinds: [(&[u8], &AtomicBool); 4] = [
            (&[CELLS], &self.has_cells),
            (&[RECORDS], &self.has_records),
            (&[RUNS, OUTBOX], &self.has_runs),
            (&[SPACES, KEYED], &self.has_keyed),
        ];
        for (spaces, has) in kinds {
            let mut any = false;
            for &space in spaces {
                let from = [space];
                let to = [space + 1];
                let first = self.scan(Bound::Included(&from), Bound::Excluded(&to), NEWEST).next();
                any |= first.transpose()?.is_some();
            }
            has.store(any, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns whether the active buffer is full.
    pub fn wants_seal(&self, active: &Memtable) -> bool {
        active.bytes() >= self.buffer_bytes
    }

    /// Seals the active buffer, whose last revision is `last`, and returns a new active buffer.
    pub fn seal(&self, last: Revision) -> Arc<Memtable> {
        let mut tables = self.tables.write();
        let mut sealed = tables.sealed.clone();
        sealed.push((tables.active.clone(), last));
        let active = Arc::new(Memtable::like(&tables.active));
        *tables = Arc::new(Tables { active: active.clone(), sealed });
        active
    }

    /// Flushes the sealed buffers up to a durable revision into the stores. Returns the number of buffers and
    /// their bytes.
    ///
    /// Flushing several at once makes fewer and larger tables, which reduces the work of compaction.
    pub fn flush(&self, durable: Revision) -> Result<(usize, u64)> {
        let tables = self.tables();
        let ready = tables.sealed.iter().take_while(|(_, last)| *last <= durable);
        let ready: Vec<(&Memtable, Revision)> =
            ready.map(|(table, last)| (table.as_ref(), *last)).collect();
        let Some(&(_, last)) = ready.last() else { return Ok((0, 0)) };
        let buffers: Vec<&Memtable> = ready.iter().map(|(table, _)| *table).collect();
        let sorted = Memtable::sorted(&buffers);
        let points: Vec<_> = buffers.iter().flat_map(|table| table.times()).collect();
        self.fill_stores(&sorted, &points, last)?;
        self.write_mark(last)?;
        self.current.settle(&sorted, last);
        let mut tables = self.tables.write();
        self.times.settle(&points, last);
        let sealed = tables.sealed[ready.len()..].to_vec();
        *tables = Arc::new(Tables { active: tables.active.clone(), sealed });
        let bytes: usize = buffers.iter().map(|table| table.bytes()).sum();
        Ok((ready.len(), bytes as u64))
    }

    fn fill_stores(
        &self,
        sorted: &[Version],
        points: &[(Revision, Stamp)],
        last: Revision,
    ) -> Result<()> {
        let number = self.stores[retention_class::SYSTEM].highest().unwrap_or(0).max(last) + 1;
        let times = TimestampIndex::blocks(points, last, number);
        let mut by_class: Vec<Vec<&Version>> = self.stores.iter().map(|_| Vec::new()).collect();
        for version in sorted {
            by_class[self.classes.of(version.key())].push(version);
        }
        // The key space of stamps is the last one, so their blocks keep the versions sorted.
        by_class[retention_class::SYSTEM].extend(&times);
        let filled = || by_class.iter().zip(&self.stores).filter(|(own, _)| !own.is_empty());
        // Check all stores first. Otherwise every retry of a failed flush would ingest the same versions
        // again into the stores that accepted them.
        filled().try_for_each(|(_, store)| store.check_room())?;
        for (own, store) in filled() {
            store.ingest(own.iter().map(|it| (it.key(), it.revision(), it.entry())))?;
        }
        Ok(())
    }

    fn write_mark(&self, revision: Revision) -> Result<()> {
        let _one = self.marking.lock();
        // The mark never goes back, even if several threads write it.
        let revision = revision.max(self.flushed());
        let floors: Vec<Revision> = (0..self.floors.len()).map(|class| self.floor(class)).collect();
        if let Some(directory) = &self.directory {
            let class = |(class, floor): (&retention_class::RetentionClass, &Revision)| {
                (class.label.clone(), *floor)
            };
            let classes = self.classes.all().iter().zip(&floors).map(class).collect();
            let revision = revision + u64::from(fault_points::is(InjectedFault::MarkTooFar));
            FlushMark { database: self.database, revision, classes }.write(directory)?;
        }
        // Pairs with the `Acquire` in `flushed`: the stores and the mark are written before.
        self.flushed.fetch_max(revision, Ordering::AcqRel);
        for (trimmed, floor) in self.trim_floors.iter().zip(floors) {
            // Pairs with the `Acquire` in `trim_floor`: compaction sees a floor only after the mark holds it.
            trimmed.fetch_max(floor, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Undoes everything executed after a revision.
    pub fn undo(&self, after: Revision) {
        // Dead entries may become live again.
        self.graves.forget(after);
        let mut tables = self.tables.write();
        let flushed = self.flushed();
        let all: Vec<_> = tables.all().cloned().collect();
        for table in all.iter().rev() {
            for version in table.undo(after) {
                self.current.undo(&version, flushed);
            }
        }
        // Their revisions will be assigned again, so no sealed buffer may claim to hold them.
        let sealed =
            tables.sealed.iter().map(|(table, last)| (table.clone(), (*last).min(after))).collect();
        *tables = Arc::new(Tables { active: tables.active.clone(), sealed });
    }

    /// The oldest readable revision of a class.
    pub fn floor(&self, class: usize) -> Revision {
        // Pairs with the `AcqRel` in `set_floor`.
        self.floors[class].load(Ordering::Acquire)
    }

    /// The revision below which compaction may drop shadowed versions of a class: the durable mark holds it.
    pub fn trim_floor(&self, class: usize) -> Revision {
        // Pairs with the `AcqRel` in `write_mark`: the durable mark holds this floor.
        self.trim_floors[class].load(Ordering::Acquire)
    }

    /// The oldest revision at which some data can be read.
    pub fn data_floor_min(&self) -> Revision {
        self.data_classes().map(|class| self.floor(class)).min().unwrap_or(0)
    }

    /// The classes that hold user data. Classes of records, runs and keyed state count only if such data may
    /// exist.
    fn data_classes(&self) -> impl Iterator<Item = usize> {
        let all = self.classes.all();
        let counts = |class: &usize| {
            if all[*class].is_of_entries() { false } else { self.has_any_of(&all[*class]) }
        };
        (retention_class::CELLS..all.len()).filter(counts)
    }

    /// The oldest revision at which some data can be read even after a crash.
    pub fn data_trim_floor_min(&self) -> Revision {
        self.data_classes().map(|class| self.trim_floor(class)).min().unwrap_or(0)
    }

    /// The oldest revision at which all data can be read.
    pub fn data_floor(&self) -> Revision {
        self.data_classes().map(|class| self.floor(class)).max().unwrap_or(0)
    }

    /// Raises the floor of a class: from now on, reads below it are refused.
    pub fn set_floor(&self, class: usize, floor: Revision) {
        // Pairs with the `Acquire` in `floor`.
        self.floors[class].fetch_max(floor, Ordering::AcqRel);
    }

    /// Writes the floors to the mark durably, before any version below them is dropped.
    pub fn keep_floors(&self) -> Result<()> {
        self.write_mark(self.flushed())
    }

    /// Fails if `at` is below the floor of the key's class.
    pub fn check_reach(&self, key: &[u8], at: Revision) -> Result<()> {
        check_floor(self.floor(self.classes.of(key)), at)
    }

    /// Fails if `at` is below the floors of all data.
    pub fn check_any_reach(&self, at: Revision) -> Result<()> {
        check_floor(self.data_floor_min(), at)
    }

    /// Fails if `at` is below any floor of a key space.
    pub fn check_space_reach(&self, space: u8, at: Revision) -> Result<()> {
        check_floor(self.space_floor(space), at)
    }

    /// The oldest revision at which everything in a key space can be read.
    pub fn space_floor(&self, space: u8) -> Revision {
        self.classes.of_space(space).map(|class| self.floor(class)).max().unwrap_or(0)
    }

    /// Fails if `at` is below the floor of any data.
    pub fn check_all_reach(&self, at: Revision) -> Result<()> {
        check_floor(self.data_floor(), at)
    }

    /// The newest revision with a stamp at or before `stamp`.
    pub fn revision_at(&self, stamp: Stamp) -> Result<Revision> {
        self.with_times(|times, buffers, store| times.revision_at(stamp, buffers, store))
    }

    /// The stamp of a revision; `None` before the first revision with a known stamp.
    pub fn stamp_of(&self, revision: Revision) -> Result<Option<Stamp>> {
        self.with_times(|times, buffers, store| times.stamp_of(revision, buffers, store))
    }

    /// A snapshot of all known stamps.
    pub fn times(&self) -> TimestampSnapshot {
        self.with_times(|times, buffers, _| times.picture(buffers))
    }

    /// The first revision with a known stamp.
    pub fn first_time(&self) -> Option<(Revision, Stamp)> {
        self.with_times(|times, buffers, _| times.first(buffers))
    }

    /// Drops the stamps before a revision, in whole blocks only.
    pub fn forget_times(&self, before: Revision) {
        // Readers hold this lock, so after acquiring it once no reader can see the dropped blocks.
        let _tables = self.tables.write();
        self.times.forget(before);
    }

    fn with_times<T>(&self, read: impl FnOnce(&TimestampIndex, &[&Memtable], &Store) -> T) -> T {
        // The lock keeps a flush from moving points between the buffers and the directory.
        let tables = self.tables.read();
        let buffers: Vec<&Memtable> = tables.all().map(Arc::as_ref).collect();
        read(&self.times, &buffers, &self.stores[retention_class::SYSTEM])
    }

    /// Bytes of versions that are not yet in the stores.
    pub fn buffered_bytes(&self) -> usize {
        self.tables().all().map(|table| table.bytes()).sum()
    }
}

fn check_floor(floor: Revision, at: Revision) -> Result<()> {
    if at >= floor {
        return Ok(());
    }
    let message = format!("revision {at} is no longer kept: history begins at revision {floor}");
    Err(Error::new(Code::HistoryTrimmed, message))
}
