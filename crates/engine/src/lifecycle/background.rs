//! Background threads: group commit, flush, compaction, retention and expiry.
//!
//! ```text
//!   log      writes and syncs groups when no caller does it
//!   flush    sealed buffers -> stores, mark; reserves the log's next segment
//!   compact  merges tables; raises retention floors; trims the log
//!   sweep    turns expiries into deletions
//! ```

use crate::apply::expire::SWEEP_LIMIT;
use crate::base::clock::{Clock, SystemClock};
use crate::base::fault_points::{self, InjectedFault};
use crate::base::priority;
use crate::base::sync::MutexGuard;
use crate::base::sync::thread::{self, JoinHandle};
use crate::lifecycle::engine::EngineShared;
use crate::mvcc::catalog::Catalog;
use crate::storage::index::{Index, NEWEST};
use crate::storage::lsm::Store;
use crate::storage::retention_class::{self, RetentionClass};
use mainstay_model::{
    Answer, Code, Error, IndexCommand, Result, Revision, Stamp, SystemCommand, Transaction,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often compaction looks for work without being woken.
const COMPACT_EVERY: Duration = Duration::from_millis(500);
/// How often retention runs, in rounds of compaction.
const RETENTION_ROUNDS: u32 = 120;
/// The number of level-0 runs that starts a compaction while no buffers are flushed.
const RUNS_WHEN_QUIET: u8 = 4;
/// Thresholds of level-0 runs. While buffers are being flushed, compaction waits for `runs` of them, so
/// that they are merged together and the levels below are rewritten less often. At `limit`, flushing
/// waits for compaction (back-pressure), because reads would have to search too many tables.
struct FlushThrottle {
    runs: u8,
    limit: usize,
}

const USUALLY: FlushThrottle = FlushThrottle { runs: 12, limit: 40 };
/// For classes whose tables are rarely searched, so that many level-0 runs do little harm.
const SELDOM_READ: FlushThrottle = FlushThrottle { runs: 36, limit: 80 };

impl FlushThrottle {
    fn of(class: &RetentionClass) -> &'static FlushThrottle {
        if class.is_seldom_read() { &SELDOM_READ } else { &USUALLY }
    }
}

/// After this many failed compactions in a row, flushing no longer waits for compaction.
const FAILURES_WAITED_FOR: u32 = 3;
/// After this many rounds without a flush, compaction uses [`RUNS_WHEN_QUIET`].
const QUIET_ROUNDS: u32 = 10;
/// The number of buffers flushed together while writers fill others: fewer and larger tables, for more
/// memory.
const FLUSH_TOGETHER: usize = 2;
/// How long a sealed buffer waits for others to be flushed with it.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// How often the index thread looks for an index to fill.
const INDEX_PAUSE: Duration = Duration::from_millis(100);
/// The most records read by one transaction that fills an index.
const FILL_LIMIT: usize = 1000;

/// The background threads of a database, with the signal that wakes and stops them.
pub struct BackgroundThreads {
    bell: Arc<WorkSignal>,
    threads: Vec<JoinHandle<()>>,
}

/// Wakes a thread when it has something to flush or compact, or must end.
#[derive(Default)]
struct WorkSignal {
    rung: Mutex<bool>,
    ring: Condvar,
    over: AtomicBool,
}

impl WorkSignal {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.ring.notify_all();
    }

    fn end(&self) {
        // Release: pairs with `is_over`. Set before the signal, so that a woken thread sees it.
        self.over.store(true, Ordering::Release);
        self.ring();
    }

    fn is_over(&self) -> bool {
        // Acquire: pairs with the store in `end`.
        self.over.load(Ordering::Acquire)
    }

    /// Waits for a signal or the timeout. Returns whether a signal came; `None` if the thread must end.
    fn wait(&self, timeout: Duration) -> Option<bool> {
        let mut rung = self.rung.lock();
        if !*rung && !self.is_over() {
            self.ring.wait_for(&mut rung, timeout);
        }
        let rang = std::mem::take(&mut *rung);
        (!self.is_over()).then_some(rang)
    }
}

impl BackgroundThreads {
    pub fn start(core: &Arc<EngineShared>) -> Result<BackgroundThreads> {
        let mut workers = BackgroundThreads { bell: Arc::default(), threads: Vec::new() };
        match workers.spawn_all(core) {
            Ok(()) => Ok(workers),
            Err(error) => {
                // No write was possible yet, so closing has nothing to sync.
                let _ = core.sequencer.close();
                workers.join();
                Err(error)
            }
        }
    }

    fn spawn_all(&mut self, core: &Arc<EngineShared>) -> Result<()> {
        if !core.options.background {
            let inner = Arc::downgrade(core);
            core.sequencer.when_work(move || {
                if let Some(core) = inner.upgrade() {
                    core.make_room();
                }
            });
            return Ok(());
        }
        let bell = self.bell.clone();
        let flush_bell: Arc<WorkSignal> = Arc::default();
        let sequencer = core.sequencer.clone();
        self.spawn("mainstay-log", move || sequencer.run_log())?;
        if cfg!(feature = "model-checking") {
            // The other threads wait for clocks and files, which the model checker does not have.
            return Ok(());
        }
        let inner = core.clone();
        let own = bell.clone();
        let next = flush_bell.clone();
        self.spawn("mainstay-compact", move || {
            priority::stay_behind();
            run_compact(&inner, &own, &next);
        })?;
        let inner = core.clone();
        let next = bell.clone();
        self.spawn("mainstay-flush", move || {
            priority::stay_behind();
            run_flush(&inner, &flush_bell, &next);
        })?;
        if let Some(interval) = core.options.sweep_interval {
            let inner = core.clone();
            let own = bell.clone();
            self.spawn("mainstay-index", move || run_index(&inner, &own))?;
            let inner = core.clone();
            self.spawn("mainstay-sweep", move || run_sweep(&inner, &bell, interval))?;
        }
        Ok(())
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| {
            Error::new(Code::Io, format!("cannot start the thread {name}: {error}"))
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Stops the threads and waits for them, except for the calling thread.
    pub fn join(self) {
        self.bell.end();
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        for thread in self.threads {
            if thread.thread().id() != thread::current().id() {
                // A thread that panicked has nothing left to finish.
                let _ = thread.join();
            }
        }
    }
}

/// Runs a background step. Stores its error for [`EngineShared::last_failure`].
fn attempt(core: &EngineShared, what: &str, step: impl FnOnce() -> Result<()>) -> bool {
    match step() {
        Ok(()) => true,
        // Closing the database stops steps in progress; this is no failure.
        Err(error) if error.code() == Code::Closed => false,
        Err(error) => {
            core.note_failure(what, &error);
            false
        }
    }
}

fn run_flush(core: &EngineShared, bell: &Arc<WorkSignal>, compaction: &WorkSignal) {
    {
        let bell = bell.clone();
        core.sequencer.when_work(move || bell.ring());
    }
    while let Some(busy) = bell.wait(FLUSH_EVERY) {
        if !attempt(core, "lock", || core.check_hold()) {
            continue;
        }
        attempt(core, "log", || core.prepare_segment());
        attempt(core, "log", || core.look_for_space());
        let least = if busy { FLUSH_TOGETHER } else { 1 };
        while !bell.is_over() && core.state.sealed.load(Ordering::Relaxed) >= least {
            if core.index().stores().iter().zip(core.index().classes.all()).any(is_overdue) {
                compaction.ring();
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            if !attempt(core, "flush", || core.flush_sealed()) {
                break;
            }
            compaction.ring();
        }
    }
}

/// Returns whether compaction has to run before the next flush. If compaction fails repeatedly this is
/// false: reads get slower, and writers continue for as long as the store accepts tables.
fn is_overdue((store, class): (&Store, &RetentionClass)) -> bool {
    is_deep(store, class) && store.failed_compactions() < FAILURES_WAITED_FOR
}

/// Returns whether reads have to search too many tables.
fn is_deep(store: &Store, class: &RetentionClass) -> bool {
    store.l0_runs() >= FlushThrottle::of(class).limit
}

/// Compacts tables that replay has flushed, before the compaction thread exists. Drops no versions,
/// because it is not yet known which retention allows. After an error the rest is left for later.
pub(crate) fn catch_up(index: &Index) {
    for (store, class) in index.stores().iter().zip(index.classes.all()) {
        while is_overdue((store, class)) && store.compact(0, FlushThrottle::of(class).runs).is_ok()
        {
        }
    }
}

fn run_compact(core: &EngineShared, bell: &WorkSignal, flush: &WorkSignal) {
    let mut rounds = 0_u32;
    let mut silent = QUIET_ROUNDS;
    // The system clock, so that failed compactions are retried even if the database's clock is
    // simulated and does not advance.
    let clock = SystemClock::new();
    let mut not_before = vec![0; core.index().stores().len()];
    while let Some(rang) = bell.wait(COMPACT_EVERY) {
        silent = if rang { 0 } else { silent.saturating_add(1) };
        let classes = core.index().classes.all();
        let stores = core.index().stores();
        for (class, store) in stores.iter().enumerate() {
            let [least, runs] = if silent < QUIET_ROUNDS {
                [FlushThrottle::of(&classes[class]).runs; 2]
            } else {
                [0, RUNS_WHEN_QUIET]
            };
            let pauses = clock.monotonic_us() < not_before[class];
            while !bell.is_over() && !pauses && store.is_ripe(least) {
                if !attempt(core, "compact", || core.compact(class, runs)) {
                    not_before[class] = clock.monotonic_us() + pause_us(store);
                    break;
                }
            }
        }
        rounds += 1;
        if rounds.is_multiple_of(RETENTION_ROUNDS) {
            attempt(core, "retention", || core.raise_floors());
            attempt(core, "log", || core.trim_log().map(|_| ()));
            core.drop_times();
        }
    }
    flush.end();
}

/// The pause after a failed compaction, which reads and writes much in vain. It doubles with each
/// failure, up to 32 s.
fn pause_us(store: &Store) -> u64 {
    (COMPACT_EVERY.as_micros() as u64 / 4) << store.failed_compactions().min(8)
}

/// Fills indexes declared over existing records, some records per transaction, so that writers run in
/// between.
fn run_index(core: &EngineShared, bell: &WorkSignal) {
    while !bell.is_over() {
        let unfilled = core.index().declared().iter().find(|one| one.ready.is_none()).cloned();
        match unfilled {
            Some(one) => {
                if !attempt(core, "index", || core.fill_index(one.id).map(|_| ())) {
                    thread::park_timeout(COMPACT_EVERY);
                }
            }
            None => thread::park_timeout(INDEX_PAUSE),
        }
    }
}

fn run_sweep(core: &EngineShared, bell: &WorkSignal, interval: Duration) {
    while !bell.is_over() {
        thread::park_timeout(interval.min(Duration::from_millis(100)));
        if core.now() >= core.state.next_expiry.load(Ordering::Relaxed) {
            attempt(core, "sweep", || core.sweep().map(|_| ()));
        }
        if core.state.reaps.load(Ordering::Relaxed) {
            attempt(core, "what deleted runs left", || core.reap().map(|_| ()));
        }
    }
}

/// The oldest revisions that the catalog holds.
struct CatalogPins {
    /// The oldest revision held by tags, branches or anything else in the catalog.
    pins: Revision,
    /// The oldest revision held by branches, which always read their parent there.
    forks: Revision,
}

impl CatalogPins {
    fn of(catalog: &Catalog) -> CatalogPins {
        let pins = catalog.pins(NEWEST).iter().map(|pin| pin.0).min();
        let forks = catalog.fork_points(NEWEST).min();
        CatalogPins { pins: pins.unwrap_or(Revision::MAX), forks: forks.unwrap_or(Revision::MAX) }
    }
}

impl EngineShared {
    /// Flushes on the thread of a writer that finds the buffers full, if the database has no
    /// background. If a flush on this thread runs the callback that calls this, the lock is taken and
    /// that flush goes on after the callback.
    fn make_room(&self) {
        let Some(flushing) = self.flushing.try_lock() else { return };
        let classes = self.index().classes.all().iter().enumerate();
        for (class, rule) in classes {
            let compact = || self.compact(class, FlushThrottle::of(rule).runs);
            // A failed step is retried by the next writer.
            while is_deep(&self.index().stores()[class], rule) && attempt(self, "compact", compact)
            {
            }
        }
        attempt(self, "flush", || {
            let flushed = self.flush_while(flushing);
            flushed.inspect_err(|error| self.sequencer.buffers_flushed(Err(error)))
        });
    }

    /// Moves sealed buffers into the stores, after the log has made the oldest durable.
    pub fn flush_sealed(&self) -> Result<()> {
        self.flush_while(self.flushing.lock())
    }

    fn flush_while(&self, _flushing: MutexGuard<'_, ()>) -> Result<()> {
        let Some(last) = self.index().tables().sealed.first().map(|sealed| sealed.1) else {
            return Ok(());
        };
        // Stores and mark are written by path, so the paths must still lead to this database.
        self.check_hold()?;
        if self.sequencer.durable() < last && !fault_points::is(InjectedFault::NoSyncBeforeFlush) {
            self.sequencer.sync()?;
            // If the disk was full, some revisions may have been undone meanwhile: read the oldest
            // buffer again.
            let last = self.index().tables().sealed.first().map_or(0, |sealed| sealed.1);
            if self.sequencer.durable() < last {
                return Err(Error::new(Code::TimedOut, "the buffer's log is not durable yet"));
            }
        }
        let flushed = self.state.figures.flush.measure(&*self.clock, || {
            let early = fault_points::is(InjectedFault::NoSyncBeforeFlush);
            let durable = if early { Revision::MAX } else { self.sequencer.durable() };
            let flushed = self.index().flush(durable);
            self.sequencer.buffers_flushed(flushed.as_ref().map(|flushed| flushed.0));
            flushed.map(|(_, bytes)| bytes)
        });
        flushed.map(drop)
    }

    /// Runs one round of compaction of a store.
    fn compact(&self, class: usize, runs: u8) -> Result<()> {
        self.compact_with(class, |store, floor| store.compact(floor, runs))
    }

    /// Compacts a store completely.
    pub fn compact_all(&self, class: usize) -> Result<()> {
        self.compact_with(class, Store::compact_all)
    }

    fn compact_with(
        &self,
        class: usize,
        compact: impl FnOnce(&Store, Revision) -> Result<u64>,
    ) -> Result<()> {
        self.check_hold()?;
        let store = &self.index().stores()[class];
        let floor = self.index().trim_floor(class);
        self.state.figures.compaction.measure(&*self.clock, || compact(store, floor)).map(drop)
    }

    /// Preallocates the log's next segment, if the log is on disk, where this takes time.
    fn prepare_segment(&self) -> Result<()> {
        if self.on_disk && self.sequencer.wants_segment() { self.log.prepare() } else { Ok(()) }
    }

    /// Probes whether the log accepts writes again after the disk was full. Without this, a database
    /// without writes would never notice.
    fn look_for_space(&self) -> Result<()> {
        if !self.sequencer.is_log_full() {
            return Ok(());
        }
        if self.on_disk {
            self.log.prepare()?;
        }
        self.log.probe_space()?;
        self.sequencer.note_log_full(None);
        Ok(())
    }

    /// Moves everything in memory into the stores.
    pub fn flush_all(&self) -> Result<()> {
        for (class, store) in self.index().stores().iter().enumerate() {
            if store.check_room().is_err() {
                attempt(self, "compact", || self.compact_all(class));
            }
        }
        self.sequencer.with_exec(|exec| exec.seal());
        while !self.index().tables().sealed.is_empty() {
            self.flush_sealed()?;
        }
        Ok(())
    }

    /// Raises the floor of each class, the oldest readable revision, as far as retention, pins and the
    /// flush mark allow.
    ///
    /// A reader first pins its snapshot and then checks the floor, so it notices a floor that was
    /// raised meanwhile. Forks and tags are made by the executor, which is held here.
    pub fn raise_floors(&self) -> Result<()> {
        let now = self.now();
        let limit = u64::try_from(self.options.reader_limit.as_micros()).unwrap_or(u64::MAX);
        let young = self.clock.monotonic_us().saturating_sub(limit);
        // A tag or branch whose removal is not durable yet would return after a power failure. So every
        // pin that existed before the sync still counts.
        let before = CatalogPins::of(&self.state.catalog.read());
        fault_points::unless(InjectedFault::NoSyncBeforeFloors, || {
            self.sequencer.sync().map(drop)
        })?;
        let horizons = self.horizons(now)?;
        // All classes under one lock: a run's head and its events are in different classes, and neither
        // may outlive the other.
        self.sequencer.with_exec(|_| {
            let reached = self.index().flushed().min(self.sequencer.published());
            let held = CatalogPins::of(&self.state.catalog.read());
            let read = self.pins.oldest(young).unwrap_or(Revision::MAX);
            let forks = held.forks.min(before.forks);
            let pins = held.pins.min(before.pins);
            for (class, horizon) in horizons {
                let floor = horizon.min(reached);
                let rule = &self.index().classes.all()[class];
                let floor = match class {
                    retention_class::SYSTEM => floor,
                    // A reader at a tag or snapshot may find no index entries and then scans the
                    // records. Otherwise one tag would keep every entry that has died since.
                    _ if rule.is_of_entries() => floor.min(forks),
                    _ => floor.min(pins).min(read),
                };
                self.index().set_floor(class, floor);
            }
        });
        let catalog = self.state.catalog.read();
        catalog.note_dropped(&self.purger, self.index());
        drop(catalog);
        self.index().keep_floors()
    }

    /// Returns for each class with a retention the revision up to which history may be dropped.
    fn horizons(&self, now: Stamp) -> Result<Vec<(usize, Revision)>> {
        let mut horizons = Vec::new();
        for (class, rule) in self.index().classes.all().iter().enumerate() {
            let horizon = match rule.retention_us {
                None => continue,
                // A class without records or runs must not lose history to their shorter retention.
                Some(_) if !self.index().has_any_of(rule) => continue,
                Some(0) => Revision::MAX,
                Some(kept) => self.index().revision_at(now.saturating_sub(kept))?,
            };
            horizons.push((class, horizon));
        }
        Ok(horizons)
    }

    /// Deletes log segments that neither replay nor the feed needs.
    pub fn trim_log(&self) -> Result<u64> {
        self.check_hold()?;
        let kept = u64::try_from(self.options.feed_retention.as_micros()).unwrap_or(u64::MAX);
        let mut keep_from = self.index().revision_at(self.now().saturating_sub(kept))? + 1;
        let starts = self.log.segments();
        let mut bytes: u64 = starts.iter().map(|segment| segment.1).sum();
        for pair in starts.windows(2) {
            if bytes <= self.options.feed_retention_bytes {
                break;
            }
            keep_from = keep_from.max(pair[1].0);
            bytes -= pair[0].1;
        }
        if fault_points::is(InjectedFault::TrimTooFar) {
            return self.log.trim(self.sequencer.durable() + 1);
        }
        self.log.trim(keep_from.min(self.index().flushed() + 1))
    }

    /// Drops timestamps of revisions that can be read neither from the data nor from the log. Floors
    /// that a crash could take back do not count.
    pub fn drop_times(&self) {
        let first_logged = self.log.segments().first().map_or(0, |segment| segment.0);
        let before = self.index().data_trim_floor_min().min(first_logged);
        self.index().forget_times(before);
        self.purger.drop_times(before);
    }

    /// Fills an index with some more records. Returns whether more remain.
    pub fn fill_index(&self, id: u32) -> Result<bool> {
        let command = IndexCommand::Fill { id, limit: FILL_LIMIT };
        let receipt = self.sequencer.execute(Transaction::new().step(command))?;
        Ok(matches!(receipt.answers.first(), Some(Answer::Did(true))))
    }

    /// Deletes data of deleted runs. Returns the number of deleted keys.
    pub fn reap(&self) -> Result<u64> {
        let mut reaped = 0;
        loop {
            let command = SystemCommand::Reap { limit: SWEEP_LIMIT };
            let receipt =
                self.sequencer.execute(Transaction::new().step(command)).inspect_err(|_| {
                    // The data that could not be deleted now is retried later.
                    self.state.reaps.store(true, Ordering::Relaxed);
                })?;
            match receipt.answers.first() {
                Some(Answer::Count(count)) if *count > 0 => reaped += count,
                _ => return Ok(reaped),
            }
        }
    }

    /// Turns every expiry that is due into a deletion, including those of stored receipts.
    pub fn sweep(&self) -> Result<u64> {
        let mut swept = 0;
        loop {
            let command = SystemCommand::Sweep { limit: SWEEP_LIMIT };
            let receipt = self.sequencer.execute(Transaction::new().step(command))?;
            let count = match receipt.answers.first() {
                Some(Answer::Count(count)) => *count,
                _ => 0,
            };
            swept += count;
            if count < SWEEP_LIMIT as u64 {
                self.sequencer.with_exec(|exec| exec.swept(receipt.stamp))?;
                return Ok(swept);
            }
        }
    }
}
