//! The database handle: opens a database and gives access to all kinds of state.

use crate::backend::Backend;
use crate::cells::Cells;
use crate::connection::Connection;
use crate::keyed::{self, Keyed};
use crate::options::Options;
use crate::outbox::Outbox;
use crate::records::Records;
use crate::runs::Runs;
use crate::sessions::Sessions;
use crate::ticket::Ticket;
use crate::transaction::InteractiveTransaction;
use mainstay_client::wait;
use mainstay_engine::base::fault_points::{self, InjectedFault};
use mainstay_engine::lifecycle::engine::{Engine, OpenReport};
use mainstay_engine::log::DatabaseId;
use mainstay_engine::read::stats;
use mainstay_model::build::RETRIES;
use mainstay_model::{
    At, Code, Durability, Error, ErrorKind, MAIN, Page, Pin, PinSummary, Receipt, Result, Revision,
    Stamp, Stats, Transaction,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The visible and the durable revision of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The newest revision that readers see.
    pub visible: Revision,
    /// The newest revision that is on stable storage.
    pub durable: Revision,
}

impl Reached {
    /// The highest revision that is both visible and durable. Run tails deliver events up to here. Either
    /// can be ahead: a synced revision is published a moment after its fsync, and a revision published at
    /// once is synced later.
    pub fn settled(self) -> Revision {
        self.visible.min(self.durable)
    }
}

/// An open database. Clones share it. Dropping the last clone closes it.
#[derive(Clone)]
pub struct Database {
    pub(crate) place: Backend,
}

impl Database {
    /// Opens the database in a directory with the default settings. Creates it if the directory holds none.
    pub fn open(directory: impl AsRef<Path>) -> Result<Database> {
        Options::new().open(directory)
    }

    /// Creates a database in memory. It behaves like a database on disk, but its content is lost when it
    /// closes.
    pub fn memory() -> Result<Database> {
        Options::new().memory()
    }

    /// The engine of an embedded database, for tests that look inside.
    #[doc(hidden)]
    pub fn engine(&self) -> &Arc<Engine> {
        match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(_) => unreachable!("a served database has no engine here"),
        }
    }

    /// Returns the embedded engine. For a served database, fails with `Unsupported`, naming `what` in the
    /// message.
    pub(crate) fn here(&self, what: &str) -> Result<&Arc<Engine>> {
        self.place.here(what)
    }

    /// The report of recovery: findings and repairs made while opening. It is empty for a served database,
    /// because the server opened that one.
    pub fn open_report(&self) -> &OpenReport {
        match &self.place {
            Backend::Local(core) => &core.report,
            Backend::Remote(_) => &OpenReport::NOTHING,
        }
    }

    /// Returns the cells of `main`.
    pub fn cells(&self) -> Cells {
        Cells::on(self.place.clone(), MAIN)
    }

    /// Returns the runs (event logs) of `main`.
    pub fn runs(&self) -> Runs {
        Runs::on(self.place.clone(), MAIN)
    }

    /// Returns a space of keyed state on `main`. The space is created by its first write or by
    /// [`Keyed::declare`].
    pub fn keyed(&self, space: &str) -> Result<Keyed> {
        Keyed::on(self.place.clone(), MAIN, space)
    }

    /// Lists the names of keyed-state spaces on `main` in byte order: at most `limit` names that begin with
    /// `prefix` and sort after `after`.
    pub fn spaces(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        keyed::spaces(&self.place, MAIN, prefix, after, limit)
    }

    /// Returns the transactional outbox of `main`.
    pub fn outbox(&self) -> Outbox {
        Outbox::on(self.place.clone(), MAIN)
    }

    /// Returns the sessions of the database.
    pub fn sessions(&self) -> Sessions {
        Sessions::on(self.place.clone())
    }

    /// Returns the records of `main`.
    pub fn records(&self) -> Records {
        Records::on(self.place.clone(), MAIN)
    }

    /// Executes a transaction and blocks until it is as durable as its durability level demands.
    ///
    /// ```
    /// use mainstay::{CellCommand, Database, Guard, Name, Transaction};
    /// let db = Database::memory()?;
    /// let name = Name::new("leader")?;
    /// let claim = Transaction::new()
    ///     .guard(Guard::Counter { name: name.clone(), is: None })
    ///     .step(CellCommand::set(name, "node 1"))
    ///     .otherwise(vec![]);
    /// assert!(db.execute(claim.clone())?.held);
    /// assert!(!db.execute(claim)?.held);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        self.place.execute(transaction)
    }

    /// Executes transactions in one batch: they share the log's fsync, and each has its own result.
    ///
    /// They execute in the given order, but transactions of other callers may execute between them. Blocks
    /// until all have an outcome.
    ///
    /// ```
    /// use mainstay::{CellCommand, Code, Database, Guard, Name, Transaction};
    /// let db = Database::memory()?;
    /// let name = Name::new("a")?;
    /// let set = Transaction::new().step(CellCommand::set(name.clone(), 1));
    /// let not_twice = set.clone().guard(Guard::Counter { name, is: None });
    /// let receipts = db.execute_all(vec![set.clone(), not_twice, set]);
    /// assert!(receipts[0].is_ok() && receipts[2].is_ok());
    /// assert_eq!(receipts[1].as_ref().unwrap_err().code(), Code::GuardFailed);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn execute_all(&self, transactions: Vec<Transaction>) -> Vec<Result<Receipt>> {
        match &self.place {
            Backend::Local(core) => core.sequencer.execute_all(
                transactions.into_iter().map(|transaction| core.prepare(transaction)).collect(),
            ),
            Backend::Remote(link) => link.execute_all(&transactions),
        }
    }

    /// Submits a transaction without waiting for its outcome, which the ticket delivers.
    ///
    /// At most 65,536 transactions may be in flight. Above that, this call blocks until one finishes.
    /// Transactions of one thread execute in submission order. The one exception is a merge sent to a
    /// server: it has its own connection so that it delays nothing else. Wait for the outcome where order
    /// around a merge matters.
    pub fn submit(&self, transaction: Transaction) -> Ticket {
        match &self.place {
            Backend::Local(core) => Ticket::local(core.sequencer.submit(core.prepare(transaction))),
            Backend::Remote(link) => Ticket::remote(link.submit(&transaction)),
        }
    }

    /// Submits a transaction and calls `done` with its outcome, on a thread of the database or of another
    /// caller.
    ///
    /// Keep the callback short, because callbacks run one after the other. It may execute and submit
    /// transactions, and wait for those that it submitted. It must not wait for another callback or for a
    /// thread that uses the database. With a server, outcomes whose callbacks are queued behind this one
    /// still count as in flight. At the limit, other threads block until this callback returns, even for
    /// reads.
    pub fn submit_with(
        &self,
        transaction: Transaction,
        done: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) {
        match &self.place {
            Backend::Local(core) => core.execute_with(transaction, done),
            Backend::Remote(link) => link.submit_with(&transaction, done),
        }
    }

    /// Begins an interactive transaction on `main`.
    pub fn begin(&self) -> Result<InteractiveTransaction> {
        InteractiveTransaction::begin(&self.place, MAIN)
    }

    /// Runs a closure in a transaction on `main` and commits it. Retries both after each conflict, up to
    /// 1,000 times.
    ///
    /// ```
    /// let db = mainstay::Database::memory()?;
    /// db.cells().set("from", 10)?;
    /// db.transaction(|t| {
    ///     let balance = t.get("from")?.and_then(|value| value.as_i64()).unwrap_or(0);
    ///     t.set("from", balance - 3)?;
    ///     t.set("to", 3)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(db.cells().get("from")?, Some(7.into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn transaction<T>(
        &self,
        body: impl FnMut(&mut InteractiveTransaction) -> Result<T>,
    ) -> Result<T> {
        retry(&self.place, MAIN, body)
    }

    /// Opens a connection, which holds at most one open transaction.
    pub fn connection(&self) -> Connection {
        Connection::new(self.place.clone())
    }

    /// The newest visible revision.
    ///
    /// If a served database cannot be reached, returns the newest revision that this client has seen.
    /// [`Database::try_revision`] returns the error instead.
    pub fn revision(&self) -> Revision {
        match &self.place {
            Backend::Local(core) => core.sequencer.published(),
            Backend::Remote(link) => wait(link.revision()).unwrap_or_else(|_| link.known()),
        }
    }

    /// The newest visible revision. Fails if a served database cannot be reached.
    pub fn try_revision(&self) -> Result<Revision> {
        match &self.place {
            Backend::Local(core) => Ok(core.sequencer.published()),
            Backend::Remote(link) => wait(link.revision()),
        }
    }

    /// The newest revision on stable storage, or 0 if a served database cannot be reached.
    pub fn durable_revision(&self) -> Revision {
        match &self.place {
            Backend::Local(core) => core.sequencer.durable(),
            Backend::Remote(link) => wait(Backend::there(link).durable_revision()).unwrap_or(0),
        }
    }

    /// Blocks until a revision is visible. Fails with `TimedOut` after `timeout`.
    pub fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<()> {
        match &self.place {
            Backend::Local(core) => core.wait_for(revision, timeout),
            Backend::Remote(link) => wait(Backend::there(link).wait_for(revision, timeout)),
        }
    }

    /// Blocks until a revision is visible, until `timeout`, or until `stop` is set and
    /// [`Database::interrupt`] is called. The caller must check which of them happened. Meant for one
    /// thread that waits on behalf of many clients and must also notice new ones. Fails with `Unsupported`
    /// for a served database.
    pub fn wait_for_unless(
        &self,
        revision: Revision,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<()> {
        self.here("a wait that can be interrupted")?.wait_for_unless(revision, timeout, stop)
    }

    /// Returns the visible and the durable revision. Fails with `Unsupported` for a served database.
    pub fn reached(&self) -> Result<Reached> {
        let sequencer = &self.here("how far both have come")?.sequencer;
        Ok(Reached { visible: sequencer.published(), durable: sequencer.durable() })
    }

    /// Blocks until the visible or the durable revision differs from `seen`, for at most `timeout`. Returns
    /// both revisions. Meant for one thread that waits on behalf of many clients. Fails with `Unsupported`
    /// for a served database.
    ///
    /// ```
    /// use mainstay::Database;
    /// use std::time::Duration;
    /// let db = Database::memory()?;
    /// let before = db.reached()?;
    /// assert_eq!(db.wait_to_move(before, Duration::from_millis(1))?, before);
    /// db.cells().set("a", 1)?;
    /// assert!(db.wait_to_move(before, Duration::from_secs(60))?.visible > before.visible);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn wait_to_move(&self, seen: Reached, timeout: Duration) -> Result<Reached> {
        let core = self.here("a wait for what is visible or durable")?;
        if !core
            .sequencer
            .wait_until(timeout, || self.reached().is_ok_and(|reached| reached != seen))
        {
            core.check_open()?;
        }
        self.reached()
    }

    /// Wakes the threads that block in [`Database::wait_for_unless`], so that they check their `stop` flag.
    /// Does nothing for a served database.
    pub fn interrupt(&self) {
        if let Backend::Local(core) = &self.place {
            core.sequencer.tell_listeners();
        }
    }

    /// Returns whether the database is embedded in this process; false if a server has it.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Backend::Local(_))
    }

    /// The current time of the database clock, which stamps and expiries use, in microseconds since 1970.
    /// It is later than the stamp of every visible transaction, and not later than the stamp of any future
    /// one.
    ///
    /// ```
    /// let db = mainstay::Database::memory()?;
    /// db.cells().set("a", 1)?;
    /// assert!(db.stamp_of(db.revision())? < db.now_us()?);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn now_us(&self) -> Result<Stamp> {
        match &self.place {
            Backend::Local(core) => {
                core.check_open()?;
                core.sequencer.look_at_clock();
                let newest = core.index().stamp_of(core.sequencer.published())?;
                Ok(newest.map_or(0, |newest| newest + 1).max(core.now()))
            }
            Backend::Remote(_) => {
                let nothing = Transaction::new().durability(Durability::Memory);
                Ok(self.execute(nothing)?.stamp)
            }
        }
    }

    /// Blocks until every earlier write is on stable storage. Returns the revision up to which that holds.
    pub fn sync(&self) -> Result<Revision> {
        match &self.place {
            Backend::Local(core) => core.sequencer.sync(),
            Backend::Remote(link) => wait(Backend::there(link).sync()),
        }
    }

    /// The unique id of this database. Copies restored from its backups have the same id. Fails with
    /// `Unsupported` for a served database.
    pub fn id(&self) -> Result<DatabaseId> {
        let core = self.place.here("the id")?;
        Ok(DatabaseId(core.index().database()))
    }

    /// The stamp of a revision, in microseconds since 1970. Fails with `HistoryTrimmed` if it is no longer
    /// kept.
    pub fn stamp_of(&self, revision: Revision) -> Result<Stamp> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(Backend::there(link).stamp_of(revision)),
        };
        let (revision, _) = core.resolve(At::Revision(revision))?;
        core.index().stamp_of(revision)?.ok_or_else(|| {
            let message = format!("the stamp of revision {revision} is no longer known");
            Error::new(Code::HistoryTrimmed, message)
        })
    }

    /// Resolves a point in time to a revision.
    pub fn resolve(&self, at: At) -> Result<Revision> {
        match &self.place {
            Backend::Local(core) => core.resolve(at).map(|(revision, _)| revision),
            Backend::Remote(link) => wait(Backend::there(link).resolve(at)),
        }
    }

    /// The newest revision whose stamp is not later than `stamp`.
    pub fn revision_at(&self, stamp: Stamp) -> Result<Revision> {
        self.resolve(At::Stamp(stamp))
    }

    /// Deletes all entries whose expiry is due now. Returns how many it deleted.
    pub fn sweep(&self) -> Result<u64> {
        match &self.place {
            Backend::Local(core) => core.sweep(),
            Backend::Remote(link) => wait(Backend::there(link).sweep()),
        }
    }

    /// Removes the remaining data of deleted runs. Returns how many keys it removed. This also runs in the
    /// background unless [`Options::sweep_interval`](crate::Options::sweep_interval) is `None`. Fails with
    /// `Unsupported` for a served database.
    pub fn reap(&self) -> Result<u64> {
        self.here("what deleted runs have left")?.reap()
    }

    /// Backfills declared indexes with the records that existed before. Returns how many indexes it filled.
    /// This also runs in the background unless [`Options::sweep_interval`](crate::Options::sweep_interval)
    /// is `None`. Fails with `Unsupported` for a served database.
    pub fn fill_indexes(&self) -> Result<usize> {
        let core = self.here("filling indexes")?;
        let ids: Vec<u32> = core
            .index()
            .declared()
            .iter()
            .filter(|one| one.ready.is_none())
            .map(|one| one.id)
            .collect();
        for &id in &ids {
            while core.fill_index(id)? {}
        }
        Ok(ids.len())
    }

    /// Applies retention now: flushes, compacts, and trims history and the log as far as pins allow. Blocks
    /// until done.
    pub fn trim(&self) -> Result<()> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(Backend::there(link).trim()),
        };
        fault_points::unless(InjectedFault::TrimTooFar, || core.flush_all())?;
        core.raise_floors()?;
        for class in 0..core.index().stores().len() {
            core.compact_all(class)?;
        }
        core.trim_log()?;
        core.drop_times();
        Ok(())
    }

    /// Lists the pins that keep history from being trimmed, oldest first. Returns an empty list if a served
    /// database cannot be reached; [`Database::try_pins`] returns the error instead.
    pub fn pins(&self) -> Vec<Pin> {
        self.try_pins().unwrap_or_default()
    }

    /// Lists the pins that keep history from being trimmed, oldest first. Fails if a served database cannot
    /// be reached.
    pub fn try_pins(&self) -> Result<Vec<Pin>> {
        match &self.place {
            Backend::Local(core) => Ok(core.all_pins()),
            Backend::Remote(link) => wait(Backend::there(link).pins()),
        }
    }

    /// Summarizes the pins by kind. Empty for a served database.
    pub fn pin_summaries(&self) -> Vec<PinSummary> {
        match &self.place {
            Backend::Local(core) => core.pins_by_kind(),
            Backend::Remote(_) => Vec::new(),
        }
    }

    /// The reason that a write would be refused now: the disk is full, an fsync failed, or the directory
    /// lock was lost. `None` while writes are accepted, and RecordWrite::done for a served database.
    pub fn write_refusal(&self) -> Option<Error> {
        match &self.place {
            Backend::Local(core) => core.sequencer.write_refusal(),
            Backend::Remote(_) => None,
        }
    }

    /// Fraction of the allowed unflushed write buffers that is in use, from 0 to 1. At 1, writers block
    /// until a flush (back-pressure). 0 for a served database.
    pub fn flush_backlog(&self) -> f64 {
        match &self.place {
            Backend::Local(core) => core.sequencer.flush_backlog(),
            Backend::Remote(_) => 0.0,
        }
    }

    /// Blocks until [`Database::flush_backlog`] is below `backlog` (0 to 1), for at most `timeout`. Bulk
    /// writers call this to leave room for small writes. Returns early if flushes fail or do not run in the
    /// background, and at once for a served database.
    pub fn wait_for_flushes(&self, backlog: f64, timeout: Duration) {
        if let Backend::Local(core) = &self.place {
            core.sequencer.wait_for_flushes(backlog, timeout);
        }
    }

    /// The number of transactions that wrote more than 1 MiB, or were refused after writing that much. Each
    /// of them blocked all other writers meanwhile. 0 for a served database.
    pub fn large_writes(&self) -> u64 {
        match &self.place {
            Backend::Local(core) => core.state.large_writes.load(Ordering::Relaxed),
            Backend::Remote(_) => 0,
        }
    }

    /// Fails with `Closed` if the database is closed. Always succeeds for a served database, because this
    /// handle does not know its state.
    pub fn check_open(&self) -> Result<()> {
        match &self.place {
            Backend::Local(core) => core.check_open(),
            Backend::Remote(_) => Ok(()),
        }
    }

    /// Returns whether a transaction submitted now may have to wait for others, even if it does not wait
    /// for an fsync. Always true for a served database.
    pub fn is_busy(&self) -> bool {
        match &self.place {
            Backend::Local(core) => core.sequencer.is_busy(),
            Backend::Remote(_) => true,
        }
    }

    /// The offset of stamps from the wall clock in microseconds: positive if stamps are ahead, negative if
    /// behind. It is 0 while they differ by at most one minute. Always 0 for a served database. Absolute
    /// expiry times are shifted by this offset when they are written.
    pub fn wall_offset_us(&self) -> i64 {
        match &self.place {
            Backend::Local(core) => core.index().wall_offset_us.load(Ordering::Relaxed),
            Backend::Remote(_) => 0,
        }
    }

    /// Accepts a wall clock that jumped ahead by more than one hour, or that was too far ahead when the
    /// database was opened.
    pub fn confirm_clock(&self) {
        match &self.place {
            Backend::Local(core) => core.sequencer.with_exec(|exec| {
                exec.stamper.confirm();
                exec.now();
            }),
            // Best effort: errors are dropped. The clock figures in the statistics show whether it worked.
            Backend::Remote(link) => drop(wait(Backend::there(link).confirm_clock())),
        }
    }

    /// Returns the current statistics. If a served database cannot be reached, they hold only the error.
    pub fn stats(&self) -> Stats {
        self.try_stats().unwrap_or_else(|error| Stats::unknown(&error))
    }

    /// Returns the current statistics. Fails if a served database cannot be reached.
    pub fn try_stats(&self) -> Result<Stats> {
        match &self.place {
            Backend::Local(core) => Ok(stats::stats(core)),
            Backend::Remote(link) => wait(Backend::there(link).stats()),
        }
    }

    /// Finishes the transactions in flight, syncs all of them and closes the database. Every handle then
    /// fails with `Closed`. If an fsync fails, this returns the error, but the database is closed all the
    /// same. Unsynced writes may then be lost in a power failure. For a served database, this closes only
    /// the connections.
    pub fn close(&self) -> Result<()> {
        match &self.place {
            Backend::Local(core) => core.close(),
            Backend::Remote(link) => {
                link.close();
                Ok(())
            }
        }
    }
}

/// Runs a closure in transactions until one commits, with at most `RETRIES` attempts.
pub(crate) fn retry<T>(
    place: &Backend,
    branch: &str,
    mut body: impl FnMut(&mut InteractiveTransaction) -> Result<T>,
) -> Result<T> {
    let mut last = None;
    for _ in 0..RETRIES {
        let mut transaction = InteractiveTransaction::begin(place, branch)?;
        let done = body(&mut transaction);
        let outcome = done.and_then(|value| transaction.commit().map(|_| value));
        match outcome {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                last = Some(error);
                // The transaction it conflicted with may be executed but not visible yet. Without the wait,
                // the next snapshot would miss it again.
                if let Backend::Local(core) = place {
                    core.sequencer.settle();
                }
            }
            other => return other,
        }
    }
    let message = format!("the transaction conflicted {RETRIES} times");
    Err(last.unwrap_or_else(|| Error::new(Code::Conflict, message)))
}
