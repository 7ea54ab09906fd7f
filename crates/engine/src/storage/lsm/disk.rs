//! The store on disk: an LSM tree without lsm-tree's own memtable, journal and garbage collection.

use std::collections::HashSet;
use std::fs;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::fault_points::{self, InjectedFault};
use lsm_tree::compaction::Leveled;
use lsm_tree::table::filter::standard_bloom::Builder as BloomFilter;
use lsm_tree::{AbstractTree, AnyTree, Guard, InternalValue, Table, Tree, ValueType};
use mainstay_model::{Code, Error, Result, Revision};
use parking_lot::{Mutex, RwLock};

use super::compaction_filter::RetentionFilterFactory;
use super::delete_scheduler::{DeleteScheduler, OPEN_FILES, Unlisted};
use super::early_sync::EarlySync;
use super::failure::{corrupt, io_failure, tree_failure};
use super::manifest::{self, CurrentVersion, FoundTree};
use super::orphan_tables::OrphanTables;
use super::table_options::{self, LEVEL_TABLES, TABLE_BYTES};
use super::version::{OrderChecker, REVISION_LIMIT, check_key};
use super::{Entries, Slice, StoreOptions, bounds};

/// Revision r is stored with sequence number r + 2^40. lsm-tree numbers its own versions of the table list
/// from 0, and picks the list for a read by sequence number. So every read must lie above all of them.
const NUMBER_BASE: u64 = 1 << 40;

/// Lies between the numbers of table lists and those of entries. So lsm-tree drops lists that no reader uses,
/// but never drops an entry by itself. Its own rule compares the sequence number of the shadowed entry,
/// instead of that of the entry that shadows it, and so loses entries that reads above the watermark need.
const WATERMARK: u64 = 1 << 39;

/// lsm-tree's manifest counts the runs of a level in one byte and does not report an overflow.
pub(super) const MOST_RUNS: usize = 250;

/// An immutable snapshot of the tree's table list.
struct ListedTables {
    /// The number of the list; newer lists have larger numbers.
    id: u64,
    /// Finds the newest version of a key below a sequence number.
    find: Box<Find>,
}

type Find = dyn Fn(&[u8], u64) -> lsm_tree::Result<Option<Slice>> + Send + Sync;

/// An LSM tree in a directory.
pub struct DiskStore {
    tree: Tree,
    /// lsm-tree blocks all its readers while it syncs a new table list. Readers of this copy never wait for
    /// that.
    lookup: RwLock<Arc<ListedTables>>,
    /// Earlier lists that readers may still use. Dropping the last reference deletes the files of compacted
    /// tables, which takes milliseconds. This reference keeps that work away from readers.
    stale_lookups: Mutex<Vec<Arc<ListedTables>>>,
    delete_scheduler: Option<Arc<DeleteScheduler>>,
    dir: PathBuf,
    table_bytes: u64,
    floor: Arc<AtomicU64>,
    due: AtomicBool,
    litter: Arc<OrphanTables>,
    /// A failure may have left `current` naming a list that the tree does not know.
    astray: AtomicBool,
    /// The number of consecutive failed compactions, and the last error.
    failed: Mutex<Option<(u32, Error)>>,
    /// The last known content of `current`.
    current: Mutex<Option<CurrentVersion>>,
    /// Serializes ingests, because tables must enter the tree in order.
    ingesting: Mutex<()>,
    /// Serializes compactions, because purging relies on it. Lock order: `ingesting` first, then this one.
    compacting: Mutex<()>,
}

impl DiskStore {
    /// Opens or creates the store; see [`Store::open`](super::Store::open).
    pub fn open(dir: &Path, options: &StoreOptions, expect_existing: bool) -> Result<DiskStore> {
        DiskStore::open_sized(dir, options, expect_existing, TABLE_BYTES)
    }

    /// Opens with another table size: small tables let a test fill all levels.
    pub(super) fn open_sized(
        dir: &Path,
        options: &StoreOptions,
        expect_existing: bool,
        table_bytes: u64,
    ) -> Result<DiskStore> {
        match manifest::inspect(dir, expect_existing)? {
            FoundTree::Nothing => create_directory(dir)?,
            // Sync first, because the tree deletes the tables that this list does not name.
            FoundTree::Tree => {
                fault_points::unless(InjectedFault::NoSyncOfReadTables, || manifest::keep(dir))?
            }
        }
        DiskStore::open_found(dir, options, table_bytes)
    }

    /// See [`Store::open_copy`](super::Store::open_copy).
    pub fn open_copy(dir: &Path, options: &StoreOptions) -> Result<DiskStore> {
        manifest::inspect(dir, true)?;
        DiskStore::open_found(dir, options, TABLE_BYTES)
    }

    /// Opens a store that was inspected, or creates one in an empty directory.
    fn open_found(dir: &Path, options: &StoreOptions, table_bytes: u64) -> Result<DiskStore> {
        let floor = Arc::new(AtomicU64::new(0));
        let litter = Arc::<OrphanTables>::default();
        let early_sync = EarlySync::new(dir.join(manifest::TABLES), litter.clone());
        let factory = RetentionFilterFactory {
            floor: floor.clone(),
            purge: AssertUnwindSafe(options.purge.clone()),
            early_sync: AssertUnwindSafe(early_sync),
        };
        let tree = open_tree(table_options::config(dir, options, factory), dir)?;
        let store = DiskStore {
            lookup: RwLock::new(Arc::new(ListedTables::of(&tree))),
            stale_lookups: Mutex::default(),
            delete_scheduler: options.delete_scheduler.clone(),
            tree,
            dir: dir.to_owned(),
            table_bytes,
            floor,
            due: AtomicBool::new(true),
            litter,
            astray: AtomicBool::new(false),
            failed: Mutex::default(),
            current: Mutex::default(),
            ingesting: Mutex::default(),
            compacting: Mutex::default(),
        };
        store.list_tables();
        store.learn_current();
        Ok(store)
    }

    /// See [`Store::get`](super::Store::get).
    pub fn get(&self, key: &[u8], at: Revision) -> Result<Option<Slice>> {
        check_key(key)?;
        let lookup = self.lookup.read().clone();
        (lookup.find)(key, read_bound(at)).map_err(|error| self.failure(error, "reading"))
    }

    /// See [`Store::range`](super::Store::range).
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, at: Revision) -> Entries {
        let Some(bounds) = bounds::normalise(from, to) else {
            return Box::new(std::iter::empty());
        };
        let dir = self.dir.clone();
        let items = self.tree.range::<&[u8], _>(bounds, read_bound(at), None);
        Box::new(items.map(move |item| {
            item.into_inner().map_err(|error| tree_failure(error, "reading", &dir))
        }))
    }

    /// See [`Store::ingest`](super::Store::ingest).
    pub fn ingest<'a>(
        &self,
        versions: impl Iterator<Item = (&'a [u8], Revision, &'a [u8])>,
    ) -> Result<()> {
        let mut versions = versions.peekable();
        if versions.peek().is_none() {
            return Ok(());
        }
        let _one = self.ingesting.lock();
        self.check_room()?;
        let written = self.write_tables(versions).and_then(|tables| self.register(&tables));
        if written.is_err()
            && let Some(_idle) = self.compacting.try_lock()
        {
            self.sweep();
        }
        written
    }

    /// See [`Store::check_room`](super::Store::check_room).
    pub fn check_room(&self) -> Result<()> {
        if self.l0_runs() < MOST_RUNS { Ok(()) } else { Err(self.too_many_runs()) }
    }

    #[cold]
    fn too_many_runs(&self) -> Error {
        let runs = self.l0_runs();
        let directory = self.dir.display();
        let (code, why) = match &*self.failed.lock() {
            Some((_, error)) => (error.code(), format!("it fails: {error}")),
            None => (Code::QueueFull, "it has not come yet".to_owned()),
        };
        let message = format!(
            "the index in {directory} has {runs} layers of tables and takes no more before they are compacted, and {why}"
        );
        Error::new(code, message)
    }

    /// Runs one round of leveled compaction; see [`Store::compact`](super::Store::compact).
    ///
    /// The strategy takes at most fifty tables of its target size out of a level. It does nothing if the
    /// table to merge first is larger than that, which happens because all versions of a key are in one
    /// table. Larger target sizes, up to the one that keeps the level sizes unchanged, let it take more and
    /// prefer level 0. If even that is too small, everything is compacted.
    pub fn compact(&self, floor: Revision, runs: u8) -> Result<u64> {
        let is_deep = self.l0_runs() >= runs.max(1).into();
        // Without a backlog in level 0, one attempt is enough.
        for runs in [runs.max(1), LEVEL_TABLES as u8, 1] {
            let compacted = self.compact_with(floor, || self.compact_level(runs))?;
            if compacted.is_some() || !is_deep {
                return Ok(compacted.unwrap_or(0));
            }
        }
        self.compact_all(floor)
    }

    /// One round of the leveled strategy, in which level 0 is due once it has `runs` runs.
    fn compact_level(&self, runs: u8) -> lsm_tree::Result<()> {
        // The strategy sizes the first level as target size times `runs`. That product must stay constant.
        let table_bytes = self.table_bytes * LEVEL_TABLES / u64::from(runs);
        let strategy = Leveled::default().with_l0_threshold(runs);
        let strategy = strategy.with_table_target_size(table_bytes);
        self.tree.compact(Arc::new(strategy), WATERMARK)
    }

    /// See [`Store::compact_all`](super::Store::compact_all).
    pub fn compact_all(&self, floor: Revision) -> Result<u64> {
        if self.tree.table_count() == 0 {
            return Ok(0);
        }
        Ok(self
            .compact_with(floor, || self.tree.major_compact(self.table_bytes, WATERMARK))?
            .unwrap_or(0))
    }

    /// Returns whether tables were added or moved since a compaction last found nothing to do.
    pub fn compaction_due(&self) -> bool {
        // Pairs with the `Release` stores in `register` and `compact_once`.
        self.due.load(Ordering::Acquire)
    }

    /// See [`Store::l0_runs`](super::Store::l0_runs).
    pub fn l0_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    /// See [`Store::failed_compactions`](super::Store::failed_compactions).
    pub fn failed_compactions(&self) -> u32 {
        self.failed.lock().as_ref().map_or(0, |failed| failed.0)
    }

    /// See [`Store::disk_bytes`](super::Store::disk_bytes).
    pub fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }

    /// See [`Store::entries`](super::Store::entries).
    pub fn entries(&self) -> u64 {
        self.tree.approximate_len() as u64
    }

    /// See [`Store::highest`](super::Store::highest).
    pub fn highest(&self) -> Option<Revision> {
        let number = self.tree.get_highest_persisted_seqno()?;
        Some(number.saturating_sub(NUMBER_BASE))
    }

    /// Bytes of filters and block indexes that stay in memory outside the block cache.
    pub fn pinned_bytes(&self) -> usize {
        self.tree.pinned_filter_size() + self.tree.pinned_block_index_size()
    }

    /// Simulates a compaction that reads the table list before an ingest and publishes it afterwards.
    #[cfg(test)]
    pub(super) fn refresh_late(&self, ingest: impl FnOnce()) {
        let early = ListedTables::of(&self.tree);
        ingest();
        self.replace_lookup(early);
    }

    #[cfg(test)]
    pub(super) fn tables_per_level(&self) -> Vec<usize> {
        (0..).map_while(|level| self.tree.level_table_count(level)).collect()
    }

    /// Writes the versions into tables that are not visible yet.
    ///
    /// lsm-tree syncs each finished table file and then its directory. [`EarlySync`] syncs parts of the file
    /// before.
    fn write_tables<'a>(
        &self,
        versions: impl Iterator<Item = (&'a [u8], Revision, &'a [u8])>,
    ) -> Result<Vec<Table>> {
        let mut checker = OrderChecker::default();
        let mut early_sync = EarlySync::new(self.dir.join(manifest::TABLES), self.litter.clone());
        let mut refused = None;
        let items = versions.map(|(key, revision, entry)| {
            if let Err(error) = checker.check(key, revision, entry) {
                refused = Some(error);
                return Err(lsm_tree::Error::Unrecoverable);
            }
            early_sync.add(key.len() + entry.len())?;
            let number = revision + NUMBER_BASE;
            Ok(InternalValue::from_components(key, entry, number, ValueType::Value))
        });
        let written = self.tree.flush_to_tables(items);
        match (refused, written) {
            (Some(error), _) => Err(error),
            (None, Ok(written)) => Ok(written.map(|(tables, _)| tables).unwrap_or_default()),
            (None, Err(error)) => Err(self.failure(error, "writing")),
        }
    }

    /// Adds tables to the tree.
    ///
    /// lsm-tree syncs the new manifest, its directory, and the file `current` that points to it.
    fn register(&self, tables: &[Table]) -> Result<()> {
        // Pairs with the `Release` stores of a failed `register_tables` or compaction.
        if self.astray.load(Ordering::Acquire) {
            let _idle = self.compacting.lock();
            self.come_back()?;
        }
        let registered = self.tree.register_tables(tables, None, None, &[], WATERMARK);
        registered.map_err(|error| {
            // Pairs with the `Acquire` loads in `register` and `compact_once`.
            self.astray.store(true, Ordering::Release);
            self.failure(error, "writing")
        })?;
        self.litter.list(tables.iter().map(Table::id));
        self.refresh_lookup();
        self.learn_current();
        // Pairs with the `Acquire` in `compaction_due`: the new tables are registered.
        self.due.store(true, Ordering::Release);
        Ok(())
    }

    /// Runs a compaction and keeps count of failures. Returns the bytes written; `None` if nothing was done.
    fn compact_with(
        &self,
        floor: Revision,
        run: impl FnOnce() -> lsm_tree::Result<()>,
    ) -> Result<Option<u64>> {
        let compacted = self.compact_once(floor, run);
        let mut failed = self.failed.lock();
        match &compacted {
            Ok(Some(_)) => *failed = None,
            // Not a success: the caller may try another strategy, and it may fail as before.
            Ok(None) => {}
            Err(error) => {
                let before = failed.as_ref().map_or(0, |failed| failed.0);
                *failed = Some((before.saturating_add(1), error.clone()));
            }
        }
        compacted
    }

    fn compact_once(
        &self,
        floor: Revision,
        run: impl FnOnce() -> lsm_tree::Result<()>,
    ) -> Result<Option<u64>> {
        // Pairs with the `Release` stores of a failed `register_tables` or compaction.
        if self.astray.load(Ordering::Acquire) {
            let _no_ingest = self.ingesting.lock();
            let _idle = self.compacting.lock();
            self.come_back()?;
        }
        let _one = self.compacting.lock();
        // Pairs with the `Acquire` in `RetentionFilterFactory::make_filter`.
        self.floor.store(floor, Ordering::Release);
        // Before the run, so that an ingest meanwhile sets it again. Pairs with the `Acquire` in
        // `compaction_due`.
        self.due.store(false, Ordering::Release);
        let version = self.tree.current_version();
        let before = version.id();
        let known = version.iter_tables().map(Table::id).collect();
        drop(version);
        let ran = run();
        self.list_tables();
        // Open them while our own table list still references them, so that their files exist.
        let removed = self.delete_scheduler.as_ref().map(|by| (by, self.unlisted(&known)));
        self.refresh_lookup();
        if let Some((scheduler, tables)) = removed {
            scheduler.take(tables);
        }
        if ran.is_ok() {
            self.learn_current();
        }
        if ran.is_err() {
            // Pairs with the `Acquire` loads in `register` and `compact_once`.
            self.astray.store(true, Ordering::Release);
            if let Some(_idle) = self.ingesting.try_lock() {
                self.sweep();
            }
        }
        let moved = self.tree.current_version().id() != before;
        if ran.is_err() || moved {
            // Pairs with the `Acquire` in `compaction_due`.
            self.due.store(true, Ordering::Release);
        }
        ran.map_err(|error| self.failure(error, "compacting"))?;
        Ok(moved.then(|| self.written_bytes(&known)))
    }

    /// Opens those tables of `before` that are no longer listed.
    fn unlisted(&self, before: &HashSet<u64>) -> Vec<Unlisted> {
        let version = self.tree.current_version();
        let listed: HashSet<u64> = version.iter_tables().map(Table::id).collect();
        let path = |id: &u64| self.dir.join(manifest::TABLES).join(id.to_string());
        let removed = before.difference(&listed).take(OPEN_FILES);
        removed.filter_map(|id| Unlisted::open(path(id))).collect()
    }

    /// The bytes that a compaction wrote, given the tables before it. New tables in level 0 are left out,
    /// because they were ingested meanwhile.
    fn written_bytes(&self, known: &HashSet<u64>) -> u64 {
        let version = self.tree.current_version();
        let runs = version.iter_levels().skip(1).flat_map(|level| level.iter());
        let tables = runs.flat_map(|run| run.iter());
        let fresh = tables.filter(|table| !known.contains(&table.id()));
        fresh.map(|table| table.metadata.file_size).sum()
    }

    /// Remembers the content of `current`, so that it can be restored.
    fn learn_current(&self) {
        let mut known = self.current.lock();
        // If it cannot be read now, it is rebuilt from the version file when needed.
        let found = manifest::read_current(&self.dir).ok().flatten();
        *known = found.or(*known).max(*known);
    }

    /// Publishes the tree's current table list to readers, and releases lists with compacted tables.
    fn refresh_lookup(&self) {
        self.replace_lookup(ListedTables::of(&self.tree));
    }

    /// Keeps the newer list, because an ingest and a compaction may refresh it in any order.
    fn replace_lookup(&self, fresh: ListedTables) {
        let mut lookup = self.lookup.write();
        let is_newer = fresh.id > lookup.id;
        let stale = is_newer.then(|| std::mem::replace(&mut *lookup, Arc::new(fresh)));
        drop(lookup);
        let mut all = self.stale_lookups.lock();
        all.extend(stale);
        // Also if no list is newer: on a full disk no flush succeeds until the files of stale lists free
        // their space.
        all.retain(|stale| Arc::strong_count(stale) > 1);
    }

    fn list_tables(&self) {
        self.litter.list(self.tree.current_version().iter_tables().map(Table::id));
    }

    /// Removes the leftovers of a failure, unless `current` still names them and cannot be reset: then the
    /// next start needs the new tables.
    ///
    /// The caller must exclude ingests and compactions.
    fn sweep(&self) {
        if self.come_back().is_ok() {
            self.litter.sweep(&self.dir.join(manifest::TABLES));
        }
    }

    /// Makes `current` name the tree's own table list again, in case a failure came after it was switched.
    ///
    /// The tree would write its next list over the file that `current` names, and a crash during that write
    /// would leave no valid list. The caller must exclude ingests and compactions.
    fn come_back(&self) -> Result<()> {
        let id = self.tree.current_version().id();
        let known = self.current.lock().filter(|known| known.id == id);
        manifest::point(&self.dir, id, known)?;
        // Pairs with the `Acquire` loads in `register` and `compact_once`: `current` is reset.
        self.astray.store(false, Ordering::Release);
        Ok(())
    }

    #[cold]
    fn failure(&self, error: lsm_tree::Error, doing: &str) -> Error {
        tree_failure(error, doing, &self.dir)
    }
}

impl ListedTables {
    /// Looks a key up like [`Tree::get`](AbstractTree::get), but without the lock on the table list. The
    /// tree's own memtables are always empty: see [`DiskStore::ingest`].
    fn of(tree: &Tree) -> ListedTables {
        let version = tree.current_version();
        let id = version.id();
        let find = Box::new(move |key: &[u8], bound| {
            let hash = BloomFilter::get_hash(key);
            let runs = version.iter_levels().flat_map(|level| level.iter());
            for table in runs.filter_map(|run| run.get_for_key(key)) {
                if let Some(item) = table.get(key, bound, hash)? {
                    return Ok((!item.is_tombstone()).then_some(item.value));
                }
            }
            Ok(None)
        });
        ListedTables { id, find }
    }
}

/// Converts a revision to lsm-tree's read bound, which is exclusive.
fn read_bound(at: Revision) -> u64 {
    at.min(REVISION_LIMIT) + NUMBER_BASE + 1
}

fn open_tree(config: lsm_tree::Config, dir: &Path) -> Result<Tree> {
    match config.open() {
        Ok(AnyTree::Standard(tree)) => Ok(tree),
        Ok(AnyTree::Blob(_)) => {
            Err(Error::new(Code::Unsupported, "the index keeps no values apart from its keys"))
        }
        Err(lsm_tree::Error::Unrecoverable) => {
            Err(corrupt(dir, "tables are missing or do not belong to it"))
        }
        Err(error) => Err(tree_failure(error, "opening", dir)),
    }
}

/// Creates the directory of a store. The caller syncs its parent before it writes a flush mark. lsm-tree
/// syncs the content.
fn create_directory(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| io_failure(&error, "creating", dir))
}
