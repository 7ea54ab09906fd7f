//! The database handle.

use crate::base::fault_points::{self, InjectedFault};
use crate::commit::ticket::Ticket;
use crate::handle::backend::Backend;
use crate::handle::cells::Cells;
use crate::handle::connection::Connection;
use crate::handle::keyed::{self, Keyed};
use crate::handle::outbox::Outbox;
use crate::handle::records::Records;
use crate::handle::runs::Runs;
use crate::handle::sessions::Sessions;
use crate::handle::stats::Stats;
use crate::handle::transaction::InteractiveTransaction;
use crate::lifecycle::engine::{Engine, OpenReport};
use crate::lifecycle::options::Options;
use crate::log::DatabaseId;
use crate::remote::wait;
use mainstay_model::{
    At, Code, Durability, Error, ErrorKind, MAIN, Page, Pin, PinSummary, Receipt, Result, Revision,
    Stamp, Transaction,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often [`Database::transaction`] tries again after a conflict.
pub(crate) const RETRIES: usize = 1000;

/// How far a database has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The newest revision that is visible.
    pub visible: Revision,
    /// The newest revision that is on stable storage.
    pub durable: Revision,
}

impl Reached {
    /// Up to where everything is both: what those are shown who follow a run. What is synced is published a moment
    /// later, and what is published at once is synced later.
    pub fn settled(self) -> Revision {
        self.visible.min(self.durable)
    }
}

/// An open database. Clones share it; when the last one is dropped it is closed.
#[derive(Clone)]
pub struct Database {
    pub(crate) place: Backend,
}

impl Database {
    /// Opens the database in a directory with the default settings, or makes one there.
    pub fn open(directory: impl AsRef<Path>) -> Result<Database> {
        Options::new().open(directory)
    }

    /// A database in memory: the same in everything but its end.
    pub fn memory() -> Result<Database> {
        Options::new().memory()
    }

    pub(crate) fn open_with(directory: &Path, options: Options) -> Result<Database> {
        Engine::open(directory, options).map(|core| Database { place: Backend::Local(core) })
    }

    pub(crate) fn memory_with(options: Options) -> Result<Database> {
        Engine::memory(options).map(|core| Database { place: Backend::Local(core) })
    }

    /// The database in this process, for what needs its files.
    pub(crate) fn here(&self, what: &str) -> Result<&Arc<Engine>> {
        self.place.here(what)
    }

    /// What opening found and did; of a served database nothing, since that was not opened here.
    pub fn open_report(&self) -> &OpenReport {
        match &self.place {
            Backend::Local(core) => &core.report,
            Backend::Remote(_) => &OpenReport::NOTHING,
        }
    }

    /// The cells of `main`.
    pub fn cells(&self) -> Cells {
        Cells::on(self.place.clone(), MAIN)
    }

    /// The runs of `main`.
    pub fn runs(&self) -> Runs {
        Runs::on(self.place.clone(), MAIN)
    }

    /// A space of keyed state on `main`; it is made by its first write, or declared.
    pub fn keyed(&self, space: &str) -> Result<Keyed> {
        Keyed::on(self.place.clone(), MAIN, space)
    }

    /// Names of spaces of keyed state on `main`, in byte order.
    pub fn spaces(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        keyed::spaces(&self.place, MAIN, prefix, after, limit)
    }

    /// The outbox of `main`.
    pub fn outbox(&self) -> Outbox {
        Outbox::on(self.place.clone(), MAIN)
    }

    /// The sessions of the database.
    pub fn sessions(&self) -> Sessions {
        Sessions::on(self.place.clone())
    }

    /// The records of `main`.
    pub fn records(&self) -> Records {
        Records::on(self.place.clone(), MAIN)
    }

    /// Executes a transaction and waits until it is as durable as asked for.
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

    /// Executes transactions side by side: they share the log's sync, and each has its own answer.
    ///
    /// They are executed in this order, but others may come between them.
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
            Backend::Local(core) => {
                let prepare = |transaction| core.prepare(transaction);
                core.sequencer.execute_all(transactions.into_iter().map(prepare).collect())
            }
            Backend::Remote(link) => link.execute_all(&transactions),
        }
    }

    /// Submits a transaction; the ticket has its answer.
    ///
    /// At most 65,536 transactions are under way at once; a further one waits here for room. They are
    /// executed in the order in which a thread submits them; only a merge by a server has a connection for
    /// itself, so that nothing waits behind it: wait for what has to come before or behind a merge.
    pub fn submit(&self, transaction: Transaction) -> Ticket {
        match &self.place {
            Backend::Local(core) => core.sequencer.submit(core.prepare(transaction)),
            Backend::Remote(link) => Ticket::there(link.submit(&transaction)),
        }
    }

    /// Submits a transaction; the callback gets its answer, on a thread of the database or of
    /// another caller.
    ///
    /// It should be short: callbacks are called one after the other. It may execute and submit, and wait
    /// for what it submitted; it must not wait for another callback, or for a thread that uses the database:
    /// with a server, answers whose callbacks queue behind this one keep their share of what may be under
    /// way at once, and when all of it is taken, other threads wait until this one returns, also to read.
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

    /// Runs a closure in a transaction on `main`, again and again while it conflicts with others.
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

    /// A connection: a place that has at most one open transaction.
    pub fn connection(&self) -> Connection {
        Connection::new(self.place.clone())
    }

    /// The newest visible revision.
    ///
    /// Of a served database that cannot be reached, the newest that was heard of:
    /// [`Database::try_revision`] says so.
    pub fn revision(&self) -> Revision {
        match &self.place {
            Backend::Local(core) => core.sequencer.published(),
            Backend::Remote(link) => wait(link.revision()).unwrap_or_else(|_| link.known()),
        }
    }

    /// The newest visible revision, or why a served database cannot tell.
    pub fn try_revision(&self) -> Result<Revision> {
        match &self.place {
            Backend::Local(core) => Ok(core.sequencer.published()),
            Backend::Remote(link) => wait(link.revision()),
        }
    }

    /// The newest revision that is on stable storage; zero where a served database cannot tell.
    pub fn durable_revision(&self) -> Revision {
        match &self.place {
            Backend::Local(core) => core.sequencer.durable(),
            Backend::Remote(link) => wait(Backend::there(link).durable_revision()).unwrap_or(0),
        }
    }

    /// Waits until a revision is visible.
    pub fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<()> {
        match &self.place {
            Backend::Local(core) => core.wait_for(revision, timeout),
            Backend::Remote(link) => wait(Backend::there(link).wait_for(revision, timeout)),
        }
    }

    /// Waits until a revision is visible, for at most so long, or until `stop` is set and
    /// [`Database::interrupt`] called; the caller looks which it was. For one thread that waits on behalf of
    /// many and has to hear of new ones; a served database refuses it.
    pub fn wait_for_unless(
        &self,
        revision: Revision,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<()> {
        self.here("a wait that can be interrupted")?.wait_for_unless(revision, timeout, stop)
    }

    /// Up to where everything is visible, and up to where it is on stable storage.
    pub fn reached(&self) -> Result<Reached> {
        let sequencer = &self.here("how far both have come")?.sequencer;
        Ok(Reached { visible: sequencer.published(), durable: sequencer.durable() })
    }

    /// Waits until one of both has moved on, for at most so long; gives how far they have come. For one thread that
    /// looks on behalf of many who wait for the one or the other; a served database refuses it.
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
        let moved = || self.reached().is_ok_and(|reached| reached != seen);
        if !core.sequencer.wait_until(timeout, moved) {
            core.check_open()?;
        }
        self.reached()
    }

    /// Lets those look at their `stop` who wait in [`Database::wait_for_unless`].
    pub fn interrupt(&self) {
        if let Backend::Local(core) = &self.place {
            core.sequencer.tell_listeners();
        }
    }

    /// Whether the database is in this process; else a server has it.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Backend::Local(_))
    }

    /// The time as stamps and expiries go by it, in microseconds since 1970: after the stamp of everything that is
    /// visible, and not after that of a transaction to come.
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

    /// Waits until everything before is on stable storage; gives the revision up to which it is.
    pub fn sync(&self) -> Result<Revision> {
        match &self.place {
            Backend::Local(core) => core.sequencer.sync(),
            Backend::Remote(link) => wait(Backend::there(link).sync()),
        }
    }

    /// The id that tells this database, and the copies restored from it, from all others.
    pub fn id(&self) -> Result<DatabaseId> {
        let core = self.place.here("the id")?;
        Ok(DatabaseId(core.index().database()))
    }

    /// The stamp of a revision.
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

    /// The revision that a point in time means.
    pub fn resolve(&self, at: At) -> Result<Revision> {
        match &self.place {
            Backend::Local(core) => core.resolve(at).map(|(revision, _)| revision),
            Backend::Remote(link) => wait(Backend::there(link).resolve(at)),
        }
    }

    /// The newest revision that was not stamped later than this.
    pub fn revision_at(&self, stamp: Stamp) -> Result<Revision> {
        self.resolve(At::Stamp(stamp))
    }

    /// Turns every expiry that is due into a deletion now; gives how many there were.
    pub fn sweep(&self) -> Result<u64> {
        match &self.place {
            Backend::Local(core) => core.sweep(),
            Backend::Remote(link) => wait(Backend::there(link).sweep()),
        }
    }

    /// Deletes what deleted runs have left; gives how many keys that were. It happens by itself where
    /// [`Options::sweep_interval`](crate::Options::sweep_interval) is not `None`.
    pub fn reap(&self) -> Result<u64> {
        self.here("what deleted runs have left")?.reap()
    }

    /// Fills the indexes that were declared over records of before; gives how many it filled. It happens by
    /// itself where [`Options::sweep_interval`](crate::Options::sweep_interval) is not `None`.
    pub fn fill_indexes(&self) -> Result<usize> {
        let core = self.here("filling indexes")?;
        let unfilled = |one: &&crate::storage::index_def::IndexDef| one.ready.is_none();
        let ids: Vec<u32> =
            core.index().declared().iter().filter(unfilled).map(|one| one.id).collect();
        for &id in &ids {
            while core.fill_index(id)? {}
        }
        Ok(ids.len())
    }

    /// Applies retention now: trims history and the log as far as pins allow.
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

    /// What holds history back, oldest first; nothing where a served database cannot be reached, which
    /// [`Database::try_pins`] says.
    pub fn pins(&self) -> Vec<Pin> {
        self.try_pins().unwrap_or_default()
    }

    /// What holds history back, oldest first, or why a served database cannot tell.
    pub fn try_pins(&self) -> Result<Vec<Pin>> {
        match &self.place {
            Backend::Local(core) => Ok(core.all_pins()),
            Backend::Remote(link) => wait(Backend::there(link).pins()),
        }
    }

    /// What holds history back, by kind; nothing of a served database.
    pub fn pin_summaries(&self) -> Vec<PinSummary> {
        match &self.place {
            Backend::Local(core) => core.pins_by_kind(),
            Backend::Remote(_) => Vec::new(),
        }
    }

    /// Why a write would be refused now: the disk is full, a sync failed, or the lock was lost. Nothing while writes are taken, and of a
    /// served database.
    pub fn write_refusal(&self) -> Option<Error> {
        match &self.place {
            Backend::Local(core) => core.sequencer.write_refusal(),
            Backend::Remote(_) => None,
        }
    }

    /// How much of the room for unflushed writes is used, from 0 to 1, where writers wait for a flush; 0 of a served database.
    pub fn flush_backlog(&self) -> f64 {
        match &self.place {
            Backend::Local(core) => core.sequencer.flush_backlog(),
            Backend::Remote(_) => 0.0,
        }
    }

    /// Waits until less of the room for unflushed writes is used than this, from 0 to 1, but not for longer than told: what writes
    /// much at once leaves room for what writes little. A served database does not wait.
    pub fn wait_for_flushes(&self, backlog: f64, timeout: Duration) {
        if let Backend::Local(core) = &self.place {
            core.sequencer.wait_for_flushes(backlog, timeout);
        }
    }

    /// How many transactions wrote more than 1 MiB, or were refused after so much: all others waited for them. 0 of a served
    /// database.
    pub fn large_writes(&self) -> u64 {
        match &self.place {
            Backend::Local(core) => core.state.large_writes.load(Ordering::Relaxed),
            Backend::Remote(_) => 0,
        }
    }

    /// Refuses where the database was closed; of a served one that is not known here.
    pub fn check_open(&self) -> Result<()> {
        match &self.place {
            Backend::Local(core) => core.check_open(),
            Backend::Remote(_) => Ok(()),
        }
    }

    /// Whether a transaction that is submitted now may wait for others, even where it does not wait for the disk. One of a served
    /// database always may.
    pub fn is_busy(&self) -> bool {
        match &self.place {
            Backend::Local(core) => core.sequencer.is_busy(),
            Backend::Remote(_) => true,
        }
    }

    /// By how many microseconds stamps are ahead of the wall clock, negative when they are behind; 0 while they are no more than a
    /// minute apart, and of a served database. Moments that something expires at are moved by it when they are written.
    pub fn wall_offset_us(&self) -> i64 {
        match &self.place {
            Backend::Local(core) => core.index().wall_offset_us.load(Ordering::Relaxed),
            Backend::Remote(_) => 0,
        }
    }

    /// Believes a wall clock that jumped ahead by more than an hour, or that was too far ahead when the database was opened.
    pub fn confirm_clock(&self) {
        match &self.place {
            Backend::Local(core) => core.sequencer.with_exec(|exec| {
                exec.stamper.confirm();
                exec.now();
            }),
            // As far as it can be told: who wants to know looks at the figures.
            Backend::Remote(link) => drop(wait(Backend::there(link).confirm_clock())),
        }
    }

    /// Figures about the database as it stands; without any but the failure where a served database
    /// cannot be reached.
    pub fn stats(&self) -> Stats {
        self.try_stats().unwrap_or_else(|error| Stats::unknown(&error))
    }

    /// Figures about the database as it stands, or why a served database cannot tell.
    pub fn try_stats(&self) -> Result<Stats> {
        match &self.place {
            Backend::Local(core) => Ok(Stats::of(core)),
            Backend::Remote(link) => wait(Backend::there(link).stats()),
        }
    }

    /// Finishes what is under way, syncs all of it, and closes; every handle answers `Closed` from then on. An error says that
    /// a sync failed: it is closed all the same, and what was not synced may be gone after a power cut. Of a served database
    /// only the connections are closed.
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

impl Options {
    /// Opens the database in a directory, or makes one there.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<Database> {
        self.check()?;
        Database::open_with(directory.as_ref(), self)
    }

    /// A database in memory: the same in everything but its end.
    pub fn memory(self) -> Result<Database> {
        self.check()?;
        if self.base.is_some() {
            let message = "base: a backup fills a database in a directory, not one in memory";
            return Err(Error::new(Code::InvalidOption, message));
        }
        Database::memory_with(self)
    }
}

/// Runs a closure in transactions until one commits.
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
                // What it conflicted with may be executed but not visible yet.
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
