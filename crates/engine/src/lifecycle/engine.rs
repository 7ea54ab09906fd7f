//! The engine core that all handles share; built by [`open`](crate::lifecycle::open).

use super::feed_positions::FeedPositions;
use crate::base::clock::{Clock, Stamper};
use crate::base::sync;
use crate::base::work::WorkMeter;
use crate::commit::executor::session::repeated;
use crate::commit::executor::{Executor, SharedState, load_catalog};
use crate::commit::sequencer::Sequencer;
use crate::lifecycle::background::BackgroundThreads;
use crate::lifecycle::database_file::{self, DatabaseFile, LockedInodes};
use crate::lifecycle::open::{
    DatabasePlace, OpenedIndex, claim, describe_cut, make_dir, new_state, open_index, open_log,
};
use crate::lifecycle::options::Options;
use crate::log::{self, Chain, DatabaseId, DiskFiles, Files, Log};
use crate::mvcc::catalog::Layers;
use crate::mvcc::pins::Pins;
use crate::storage::index::Index;
use crate::storage::tombstone_gc::TombstoneGc;
use mainstay_model::{
    At, BranchCommand, Code, Error, Name, Receipt, Result, Revision, Stamp, Transaction,
};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How far the clocks of callers may be ahead of the database's, in microseconds.
const CLOCK_SLACK_US: u64 = 5_000_000;

/// The reference that handles hold. When the last one is dropped, the database is closed.
pub struct Engine {
    inner: Arc<EngineShared>,
}

impl std::ops::Deref for Engine {
    type Target = EngineShared;

    #[inline]
    fn deref(&self) -> &EngineShared {
        &self.inner
    }
}

/// The state that handles and background threads share.
pub struct EngineShared {
    pub options: Options,
    pub state: Arc<SharedState>,
    pub sequencer: Arc<Sequencer>,
    pub log: Log,
    pub pins: Arc<Pins>,
    pub feeds: FeedPositions,
    pub clock: Arc<dyn Clock>,
    pub report: OpenReport,
    pub purger: Arc<TombstoneGc>,
    pub workers: sync::Mutex<Option<BackgroundThreads>>,
    /// Allows one flush at a time.
    pub flushing: sync::Mutex<()>,
    /// Called at every step of the search for a merge's candidates.
    #[cfg(any(test, feature = "test-hooks"))]
    pub searching: Mutex<Option<Box<dyn FnMut() + Send>>>,
    pub on_disk: bool,
    /// The inodes that the names in the directory led to when it was locked; `None` in memory.
    pub hold: Option<Arc<LockedInodes>>,
    /// The last error of a background step, with the name of the step.
    failure: Mutex<Option<String>>,
    /// Keeps the directory locked until the database is closed.
    pub identity: Mutex<Option<DatabaseFile>>,
}

/// The outcome of opening a database: recovery, repair and rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The newest revision that was found.
    pub revision: Revision,
    /// The number of revisions replayed from the log because the index did not hold them.
    pub replayed: u64,
    /// A torn tail of the log that was cut off. No transaction in it had been acknowledged.
    pub cut: Option<String>,
    /// The reason why the index was rebuilt from the log, or from a base and the log; `None` if it was
    /// not.
    pub rebuilt: Option<String>,
    /// The revision of the backup that the index was filled from; `None` if it was not.
    pub base: Option<Revision>,
}

impl OpenReport {
    /// The report of a database that was opened by another process.
    pub const NOTHING: OpenReport =
        OpenReport { revision: 0, replayed: 0, cut: None, rebuilt: None, base: None };
}

impl Engine {
    pub fn open(directory: &Path, options: Options) -> Result<Arc<Engine>> {
        let (identity, base) = claim(directory, &options)?;
        if !options.keep_modes {
            database_file::make_private(directory);
        }
        let log_directory = directory.join("log");
        make_dir(&log_directory)?;
        let files: Arc<dyn Files> = match &options.files {
            Some(files) => files.clone(),
            None => Arc::new(DiskFiles::new(log_directory)),
        };
        let database = identity.id;
        let index = directory.join("index");
        let place =
            DatabasePlace { files, database, index: Some(index), identity: Some(identity), base };
        Engine::start(place, options)
    }

    pub fn memory(options: Options) -> Result<Arc<Engine>> {
        let files: Arc<dyn Files> = match &options.files {
            Some(files) => files.clone(),
            None => Arc::new(log::MemoryFiles::new()),
        };
        let database = database_file::random_id();
        let place = DatabasePlace { files, database, index: None, identity: None, base: None };
        Engine::start(place, options)
    }

    fn start(mut place: DatabasePlace, options: Options) -> Result<Arc<Engine>> {
        let purger: Arc<TombstoneGc> = Arc::default();
        let OpenedIndex { index, rebuilt, base, restored } =
            open_index(&mut place, &options, &purger)?;
        let (log, writer, end) = open_log(&place, &options, &index, restored)?;
        if let Some(identity) = &mut place.identity {
            identity.complete()?;
        }
        let hold = place.identity.as_ref().map(DatabaseFile::hold).transpose()?.map(Arc::new);
        if let Some(hold) = hold.clone() {
            log.guard_with(move || hold.check());
        }
        let cut = end.cut.as_ref().map(describe_cut);
        let report = OpenReport { revision: end.last, replayed: end.replayed, cut, rebuilt, base };
        let stamp = end.stamp.max(index.stamp_of(end.last)?.unwrap_or(0));
        index.look_for_kinds()?;
        index.graves.begin(end.last);
        let catalog = load_catalog(&index)?;
        catalog.note_dropped(&purger, &index);
        let state = Arc::new(new_state(index, catalog, end.last, &options)?);
        // A restore from an old backup implies that time has passed, so the clock may be far ahead.
        let limit = options.clock_jump_limit.filter(|_| report.base.is_none());
        let limit_us = limit.map(|limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
        let stamper = Stamper::new(options.clock.clone(), stamp, limit_us);
        let work = WorkMeter::in_writer(options.work_limits);
        let mut executor = Executor::new(state.clone(), stamper, end.last, work);
        executor.load_sessions()?;
        let chain = Chain::new(end.chain, &DatabaseId(place.database));
        let sequencer = Sequencer::new(state.clone(), executor, writer, chain, options.commit());
        let inner = Arc::new(EngineShared {
            clock: options.clock.clone(),
            options,
            state,
            sequencer: Arc::new(sequencer),
            log,
            pins: Arc::default(),
            feeds: FeedPositions::default(),
            report,
            purger,
            workers: sync::Mutex::new(None),
            flushing: sync::Mutex::new(()),
            #[cfg(any(test, feature = "test-hooks"))]
            searching: Mutex::new(None),
            on_disk: place.index.is_some(),
            hold,
            failure: Mutex::new(None),
            identity: Mutex::new(place.identity),
        });
        let core = Arc::new(Engine { inner });
        *core.workers.lock() = Some(BackgroundThreads::start(&core.inner)?);
        core.drop_imports();
        Ok(core)
    }
}

impl EngineShared {
    /// Fails, and refuses further writes, once the directory or its lock is no longer the one that was
    /// opened.
    pub fn check_hold(&self) -> Result<()> {
        let Some(hold) = &self.hold else { return Ok(()) };
        hold.check().inspect_err(|error| self.sequencer.refuse_writes(error))
    }

    /// Stores the error of a background step for `last_failure`.
    pub fn note_failure(&self, what: &str, error: &Error) {
        *self.failure.lock() = Some(format!("{what}: {error}"));
    }

    /// The last error of a background step.
    pub fn last_failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    #[inline]
    pub fn index(&self) -> &Index {
        &self.state.index
    }

    /// Returns the time as stamps see it.
    pub fn now(&self) -> Stamp {
        let offset = self.state.time_offset_us.load(Ordering::Relaxed);
        offset.wrapping_add(self.clock.monotonic_us())
    }

    /// Resolves a point in time to the revision and the time that a read uses.
    pub fn resolve(&self, at: At) -> Result<(Revision, Stamp)> {
        let published = self.sequencer.published();
        match at {
            At::Latest => Ok((published, self.now())),
            At::Revision(revision) if revision > published => {
                let message =
                    format!("revision {revision} is not visible yet: the newest is {published}");
                Err(Error::new(Code::FutureRevision, message))
            }
            At::Revision(revision) => Ok((revision, self.index().stamp_of(revision)?.unwrap_or(0))),
            At::Stamp(stamp) if stamp > self.now().saturating_add(CLOCK_SLACK_US) => {
                let message = format!(
                    "stamp {stamp} lies more than 5 s in the future: what there will be then is not known yet"
                );
                Err(Error::new(Code::FutureRevision, message))
            }
            At::Stamp(stamp) => {
                let revision = self.index().revision_at(stamp)?.min(published);
                let first = self.index().first_time().map_or(1, |first| first.0);
                if revision == 0 && first > 1 {
                    let message =
                        format!("stamp {stamp} lies before revision {first}, the first kept");
                    return Err(Error::new(Code::HistoryTrimmed, message));
                }
                Ok((revision, stamp.min(self.now())))
            }
        }
    }

    /// Returns a branch's id and its layers as readers see them at a revision.
    pub fn layers(&self, branch: &str, at: Revision) -> Result<(u32, Layers)> {
        let catalog = self.state.catalog.read();
        let id = catalog.visible(branch, self.sequencer.published())?.id;
        Ok((id, catalog.layers(id, at)))
    }

    /// Deletes imports that a crash left unfinished. Readers never see them, so an error does not keep
    /// the database from opening.
    fn drop_imports(&self) {
        let names: Vec<_> = {
            let catalog = self.state.catalog.read();
            catalog.imports().filter_map(|record| Name::new(&record.name).ok()).collect()
        };
        for name in names {
            let delete = Transaction::new().step(BranchCommand::Delete { name });
            if let Err(error) = self.sequencer.execute(delete) {
                self.note_failure("import", &error);
            }
        }
    }

    /// Finishes the transactions in flight, then stops all threads. Later reads and writes fail. An
    /// error means that not everything could be synced; the database is closed all the same.
    pub fn close(&self) -> Result<()> {
        let synced = self.sequencer.close();
        // Inside a callback this must not wait for another thread that closes: that thread may be
        // waiting for this one.
        let workers = if self.sequencer.is_calling() {
            self.workers.try_lock()
        } else {
            Some(self.workers.lock())
        };
        let Some(mut workers) = workers else { return synced };
        if let Some(workers) = workers.take() {
            workers.join();
        }
        *self.identity.lock() = None;
        synced
    }

    pub fn check_open(&self) -> Result<()> {
        if self.sequencer.is_closed() {
            return Err(Error::new(Code::Closed, "the database was closed"));
        }
        Ok(())
    }

    /// Waits until a revision is visible.
    pub fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<()> {
        let there = || self.sequencer.published() >= revision;
        if there() || self.sequencer.wait_until(timeout, there) {
            return Ok(());
        }
        self.check_open()?;
        let message = format!("revision {revision} was not reached in {timeout:?}");
        Err(Error::new(Code::TimedOut, message))
    }

    /// Waits until a revision is visible, the timeout passes, or `stop` is set and the listeners are
    /// notified.
    pub fn wait_for_unless(
        &self,
        revision: Revision,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<()> {
        // SeqCst: pairs with the store of `stop`, after which the setter notifies the listeners.
        let ready = || self.sequencer.published() >= revision || stop.load(Ordering::SeqCst);
        if ready() || self.sequencer.wait_until(timeout, ready) {
            Ok(())
        } else {
            self.check_open()
        }
    }
}

impl EngineShared {
    /// Returns the answer of an executed request if it is visible and durable, without the writer thread.
    /// Returns `None` in every unusual case; the writer then returns the precise error.
    pub fn repeated(&self, session: &Name, request_id: u64) -> Option<Result<Receipt>> {
        let now = self.now();
        let slot = {
            let mut table = self.state.sessions.lock();
            let row = table.live_mut(session.as_str(), now)?;
            let slot = row.slots.ledger.response(request_id)?.slot;
            row.renew(now);
            slot
        };
        let seen = self.sequencer.published();
        let told = repeated(self.index(), session, request_id, slot, seen).ok()??;
        if told.revision > self.sequencer.durable() || self.sequencer.is_closed() {
            return None;
        }
        self.state.figures.sessions.repeated.fetch_add(1, Ordering::Relaxed);
        Some(told.answer)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A caller that needs the result of the sync calls `close` itself.
        let _ = self.close();
    }
}
