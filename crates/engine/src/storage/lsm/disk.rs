//! The store on disk: an lsm-tree without its memtable, its journal and its garbage collection.

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

/// Revision r is stored under number r + 2^40. The tree numbers its own states from 0 and picks
/// the state for a read by number, so every read must lie above all of them.
const NUMBER_BASE: u64 = 1 << 40;

/// Between the numbers of states and those of versions: the tree lets go of states that nobody
/// reads, but never drops a version by itself. Its own rule drops a shadowed version by its own
/// number instead of that of the version that shadows it, which loses what reads above the
/// watermark need.
const WATERMARK: u64 = 1 << 39;

/// The tree's list of tables counts the layers of a level in one byte, and says nothing when they are more.
pub(super) const MOST_RUNS: usize = 250;

/// The tables that the tree listed at one moment.
struct ListedTables {
    /// The number of the list; later ones have larger numbers.
    id: u64,
    /// Finds the newest version of a key below a number.
    find: Box<Find>,
}

type Find = dyn Fn(&[u8], u64) -> lsm_tree::Result<Option<Slice>> + Send + Sync;

/// A store in a directory.
pub struct DiskStore {
    tree: Tree,
    /// The tree makes all its readers wait while it syncs a new list of tables; this one it never locks.
    lookup: RwLock<Arc<ListedTables>>,
    /// Earlier ones that somebody may still read. Whoever lets go of one last removes the files of tables that were compacted
    /// away, which takes milliseconds: no reader does.
    stale_lookups: Mutex<Vec<Arc<ListedTables>>>,
    delete_scheduler: Option<Arc<DeleteScheduler>>,
    dir: PathBuf,
    table_bytes: u64,
    floor: Arc<AtomicU64>,
    due: AtomicBool,
    litter: Arc<OrphanTables>,
    /// A failure may have left `current` naming tables that the tree does not know of.
    astray: AtomicBool,
    /// How many compactions failed, one behind the other, and how the last one did.
    failed: Mutex<Option<(u32, Error)>>,
    /// What `current` said last.
    current: Mutex<Option<CurrentVersion>>,
    /// One ingest at a time: tables must enter in order.
    ingesting: Mutex<()>,
    /// One compaction at a time: purges rest on it. Whoever takes both takes this one second.
    compacting: Mutex<()>,
}

impl DiskStore {
    /// Opens or creates; see [`Store::open`](super::Store::open).
    pub fn open(dir: &Path, options: &StoreOptions, expect_existing: bool) -> Result<DiskStore> {
        DiskStore::open_sized(dir, options, expect_existing, TABLE_BYTES)
    }

    /// Opens with another size of tables: small ones let a test fill all levels.
    pub(super) fn open_sized(
        dir: &Path,
        options: &StoreOptions,
        expect_existing: bool,
        table_bytes: u64,
    ) -> Result<DiskStore> {
        match manifest::inspect(dir, expect_existing)? {
            FoundTree::Nothing => create_directory(dir)?,
            // The tree deletes what this list of tables does not name.
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

    /// Opens what was looked at, or a tree in an empty directory.
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
        match self.l0_runs() < MOST_RUNS {
            true => Ok(()),
            false => Err(self.too_many_runs()),
        }
    }

    #[cold]
    fn too_many_runs(&self) -> Error {
        let (runs, directory) = (self.l0_runs(), self.dir.display());
        let (code, why) = match &*self.failed.lock() {
            Some((_, error)) => (error.code(), format!("it fails: {error}")),
            None => (Code::QueueFull, "it has not come yet".to_owned()),
        };
        let message = format!(
            "the index in {directory} has {runs} layers of tables and takes no more before they are compacted, and {why}"
        );
        Error::new(code, message)
    }

    /// See [`Store::compact`](super::Store::compact).
    ///
    /// The strategy takes no more than fifty tables of the size it is given out of a level, and does nothing where the one that is
    /// to be merged first is larger: all versions of a key are in one. With larger ones, up to the size that leaves the levels what
    /// they are, it takes more, and fresh tables come first. What is too large even for that goes with all others.
    pub fn compact(&self, floor: Revision, runs: u8) -> Result<u64> {
        let is_deep = self.l0_runs() >= runs.max(1).into();
        for runs in [runs.max(1), LEVEL_TABLES as u8, 1] {
            let compacted = self.compact_with(floor, || self.compact_level(runs))?;
            if compacted.is_some() || !is_deep {
                return Ok(compacted.unwrap_or(0));
            }
        }
        self.compact_all(floor)
    }

    /// Compacts as a level needs it, where it counts as one that so many fresh tables lie one over the other.
    fn compact_level(&self, runs: u8) -> lsm_tree::Result<()> {
        // The strategy makes the first level as large as this many tables; it has to stay what it is.
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
        let major = || self.tree.major_compact(self.table_bytes, WATERMARK);
        Ok(self.compact_with(floor, major)?.unwrap_or(0))
    }

    /// Whether something was ingested or moved since a compaction last found nothing to do.
    pub fn compaction_due(&self) -> bool {
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

    /// The bytes of filters and indexes that stay in memory outside the block cache.
    pub fn pinned_bytes(&self) -> usize {
        self.tree.pinned_filter_size() + self.tree.pinned_block_index_size()
    }

    /// Imitates a compaction that reads the list of tables before an ingest and stores it afterwards.
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

    /// Writes the versions into tables that nobody sees yet.
    ///
    /// lsm-tree syncs each finished table file and then the directory that holds it; [`EarlySync`] syncs parts of it before.
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

    /// Makes tables part of the tree.
    ///
    /// lsm-tree syncs the new manifest, its directory, and the file that points to it.
    fn register(&self, tables: &[Table]) -> Result<()> {
        if self.astray.load(Ordering::Acquire) {
            let _idle = self.compacting.lock();
            self.come_back()?;
        }
        let registered = self.tree.register_tables(tables, None, None, &[], WATERMARK);
        registered.map_err(|error| {
            self.astray.store(true, Ordering::Release);
            self.failure(error, "writing")
        })?;
        self.litter.list(tables.iter().map(Table::id));
        self.refresh_lookup();
        self.learn_current();
        self.due.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives how many bytes were written; nothing where nothing was done.
    fn compact_with(
        &self,
        floor: Revision,
        run: impl FnOnce() -> lsm_tree::Result<()>,
    ) -> Result<Option<u64>> {
        let compacted = self.compact_once(floor, run);
        let mut failed = self.failed.lock();
        match &compacted {
            Ok(Some(_)) => *failed = None,
            // Another way may be tried, and fail as before.
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
        if self.astray.load(Ordering::Acquire) {
            let (_no_ingest, _idle) = (self.ingesting.lock(), self.compacting.lock());
            self.come_back()?;
        }
        let _one = self.compacting.lock();
        self.floor.store(floor, Ordering::Release);
        self.due.store(false, Ordering::Release);
        let version = self.tree.current_version();
        let (before, known) = (version.id(), version.iter_tables().map(Table::id).collect());
        drop(version);
        let ran = run();
        self.list_tables();
        // Our own list still names them, so that their files are there.
        let removed = self.delete_scheduler.as_ref().map(|by| (by, self.unlisted(&known)));
        self.refresh_lookup();
        if let Some((scheduler, tables)) = removed {
            scheduler.take(tables);
        }
        if ran.is_ok() {
            self.learn_current();
        }
        if ran.is_err() {
            self.astray.store(true, Ordering::Release);
            if let Some(_idle) = self.ingesting.try_lock() {
                self.sweep();
            }
        }
        let moved = self.tree.current_version().id() != before;
        if ran.is_err() || moved {
            self.due.store(true, Ordering::Release);
        }
        ran.map_err(|error| self.failure(error, "compacting"))?;
        Ok(moved.then(|| self.written_bytes(&known)))
    }

    /// Those of the tables that are no longer listed.
    fn unlisted(&self, before: &HashSet<u64>) -> Vec<Unlisted> {
        let version = self.tree.current_version();
        let listed: HashSet<u64> = version.iter_tables().map(Table::id).collect();
        let path = |id: &u64| self.dir.join(manifest::TABLES).join(id.to_string());
        let removed = before.difference(&listed).take(OPEN_FILES);
        removed.filter_map(|id| Unlisted::open(path(id))).collect()
    }

    /// The bytes of tables that a compaction wrote, given those that were there before. What is new at
    /// the top was ingested meanwhile.
    fn written_bytes(&self, known: &HashSet<u64>) -> u64 {
        let version = self.tree.current_version();
        let runs = version.iter_levels().skip(1).flat_map(|level| level.iter());
        let tables = runs.flat_map(|run| run.iter());
        let fresh = tables.filter(|table| !known.contains(&table.id()));
        fresh.map(|table| table.metadata.file_size).sum()
    }

    /// Remembers what `current` says, so that it can be said again.
    fn learn_current(&self) {
        let mut known = self.current.lock();
        // One that cannot be read now is made of the list itself if it is needed.
        let found = manifest::read_current(&self.dir).ok().flatten();
        *known = found.or(*known).max(*known);
    }

    /// Makes ingested tables visible to reads, and lets go of tables that were compacted away.
    fn refresh_lookup(&self) {
        self.replace_lookup(ListedTables::of(&self.tree));
    }

    /// An ingest and a compaction refresh it in any order: the newer list stays.
    fn replace_lookup(&self, fresh: ListedTables) {
        let mut lookup = self.lookup.write();
        let is_newer = fresh.id > lookup.id;
        let stale = is_newer.then(|| std::mem::replace(&mut *lookup, Arc::new(fresh)));
        drop(lookup);
        let mut all = self.stale_lookups.lock();
        all.extend(stale);
        // Also where nothing is newer: on a full disk no flush succeeds, and the files of these are the room it needs.
        all.retain(|stale| Arc::strong_count(stale) > 1);
    }

    fn list_tables(&self) {
        self.litter.list(self.tree.current_version().iter_tables().map(Table::id));
    }

    /// Removes what a failure left, unless `current` names it: then the next start needs the new tables.
    ///
    /// Nobody may ingest or compact meanwhile.
    fn sweep(&self) {
        if self.come_back().is_ok() {
            self.litter.sweep(&self.dir.join(manifest::TABLES));
        }
    }

    /// Lets `current` name what the tree has, if a failure came after it was switched.
    ///
    /// The tree would write its next list of tables over the one that `current` names: whoever stopped it then would leave
    /// none. Nobody may ingest or compact meanwhile.
    fn come_back(&self) -> Result<()> {
        let id = self.tree.current_version().id();
        let known = self.current.lock().filter(|known| known.id == id);
        manifest::point(&self.dir, id, known)?;
        self.astray.store(false, Ordering::Release);
        Ok(())
    }

    #[cold]
    fn failure(&self, error: lsm_tree::Error, doing: &str) -> Error {
        tree_failure(error, doing, &self.dir)
    }
}

impl ListedTables {
    /// As [`Tree::get`](AbstractTree::get) looks a key up, without the lock on the list of tables. The tree's own memtables are empty:
    /// see [`DiskStore::ingest`].
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

/// The tree takes its bound as exclusive.
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

/// Creates a directory. Its name is synced before there is a mark; what is inside it lsm-tree syncs itself.
fn create_directory(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| io_failure(&error, "creating", dir))
}
