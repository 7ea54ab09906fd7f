//! The database handle.

use crate::cells::Cells;
use crate::connection::Connection;
use crate::core::{Core, OpenReport};
use crate::interactive::Interactive;
use crate::log::DatabaseId;
use crate::options::Options;
use crate::pins::{Pin, PinSummary};
use crate::stats::Stats;
use crate::ticket::Ticket;
use mainstay_model::{
    At, Code, Error, ErrorKind, MAIN, Receipt, Result, Revision, Stamp, Transaction,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often [`Database::transaction`] tries again after a conflict.
const RETRIES: usize = 1000;

/// An open database. Clones share it; when the last one is dropped it is closed.
#[derive(Clone)]
pub struct Database {
    pub(crate) core: Arc<Core>,
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
        Core::open(directory, options).map(|core| Database { core })
    }

    pub(crate) fn memory_with(options: Options) -> Result<Database> {
        Core::memory(options).map(|core| Database { core })
    }

    /// What opening found and did.
    pub fn open_report(&self) -> &OpenReport {
        &self.core.report
    }

    /// The cells of `main`.
    pub fn cells(&self) -> Cells {
        Cells::main(self.core.clone())
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
        self.core.sequencer.execute(self.core.prepare(transaction))
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
        let prepare = |transaction| self.core.prepare(transaction);
        self.core.sequencer.execute_all(transactions.into_iter().map(prepare).collect())
    }

    /// Submits a transaction; the ticket has its answer.
    ///
    /// At most 65,536 transactions are under way at once; a further one waits here for room.
    pub fn submit(&self, transaction: Transaction) -> Ticket {
        self.core.sequencer.submit(self.core.prepare(transaction))
    }

    /// Submits a transaction; the callback gets its answer, on a thread of the database or of
    /// another caller.
    ///
    /// It should be short: callbacks are called one after the other. It may execute and submit, and wait
    /// for what it submitted; it must not wait for another callback, or for a thread that writes.
    pub fn submit_with(
        &self,
        transaction: Transaction,
        done: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) {
        self.core.sequencer.submit_with(self.core.prepare(transaction), done);
    }

    /// Begins an interactive transaction on `main`.
    pub fn begin(&self) -> Result<Interactive> {
        Interactive::begin(&self.core, MAIN)
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
    pub fn transaction<T>(&self, body: impl FnMut(&mut Interactive) -> Result<T>) -> Result<T> {
        retry(&self.core, MAIN, body)
    }

    /// A connection: a place that has at most one open transaction.
    pub fn connection(&self) -> Connection {
        Connection::new(self.core.clone())
    }

    /// The newest visible revision.
    pub fn revision(&self) -> Revision {
        self.core.sequencer.published()
    }

    /// The newest revision that is on stable storage.
    pub fn durable_revision(&self) -> Revision {
        self.core.sequencer.durable()
    }

    /// Waits until a revision is visible.
    pub fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<()> {
        self.core.wait_for(revision, timeout)
    }

    /// Waits until everything before is on stable storage; gives the revision up to which it is.
    pub fn sync(&self) -> Result<Revision> {
        self.core.sequencer.sync()
    }

    /// The id that tells this database, and the copies restored from it, from all others.
    pub fn id(&self) -> DatabaseId {
        DatabaseId(self.core.index().database())
    }

    /// The stamp of a revision.
    pub fn stamp_of(&self, revision: Revision) -> Result<Stamp> {
        let (revision, _) = self.core.resolve(At::Revision(revision))?;
        self.core.index().stamp_of(revision)?.ok_or_else(|| {
            let message = format!("the stamp of revision {revision} is no longer known");
            Error::new(Code::HistoryTrimmed, message)
        })
    }

    /// The newest revision that was not stamped later than this.
    pub fn revision_at(&self, stamp: Stamp) -> Result<Revision> {
        self.core.resolve(At::Stamp(stamp)).map(|(revision, _)| revision)
    }

    /// Turns every expiry that is due into a deletion now; gives how many there were.
    pub fn sweep(&self) -> Result<u64> {
        self.core.sweep()
    }

    /// Applies retention now: trims history and the log as far as pins allow.
    pub fn trim(&self) -> Result<()> {
        self.core.flush_all()?;
        self.core.raise_floors()?;
        for class in 0..self.core.index().stores().len() {
            self.core.compact(class, true)?;
        }
        self.core.trim_log()?;
        self.core.drop_times();
        Ok(())
    }

    /// What holds history back, oldest first.
    pub fn pins(&self) -> Vec<Pin> {
        let newest = self.revision();
        let now = self.core.now();
        let mut pins = self.pinned(newest);
        pins.sort();
        let pin = |(revision, holder): (Revision, String)| {
            let age_us = self.age_us(revision, now);
            Pin { revision, holder, age_us, revisions_behind: newest.saturating_sub(revision) }
        };
        pins.into_iter().map(pin).collect()
    }

    /// What holds history back, by kind.
    ///
    /// Stamps are looked up for the oldest of each kind only: there may be very many pins.
    pub fn pin_summaries(&self) -> Vec<PinSummary> {
        let (newest, now) = (self.revision(), self.core.now());
        let mut kinds: BTreeMap<String, (u64, Revision)> = BTreeMap::new();
        for (revision, holder) in self.pinned(newest) {
            let kind = holder.split(' ').next().unwrap_or_default().to_owned();
            let (count, oldest) = kinds.entry(kind).or_insert((0, revision));
            (*count, *oldest) = (*count + 1, revision.min(*oldest));
        }
        let summary = |(kind, (count, oldest))| PinSummary {
            kind,
            count,
            oldest_age_us: self.age_us(oldest, now),
            revisions_behind: newest.saturating_sub(oldest),
        };
        kinds.into_iter().map(summary).collect()
    }

    /// What holds which revision.
    fn pinned(&self, newest: Revision) -> Vec<(Revision, String)> {
        let mut pins = self.core.state.catalog.read().pins(newest);
        let readers = self.core.pins.held();
        pins.extend(readers.into_iter().map(|held| (held.revision, held.holder.to_owned())));
        pins
    }

    /// How long ago a revision was stamped.
    fn age_us(&self, revision: Revision, now: Stamp) -> u64 {
        let stamp = self.core.index().stamp_of(revision).ok().flatten().unwrap_or(now);
        now.saturating_sub(stamp)
    }

    /// Believes a wall clock that jumped ahead by more than an hour.
    pub fn confirm_clock(&self) {
        self.core.sequencer.with_exec(|exec| {
            exec.stamper.confirm();
            exec.now();
        });
    }

    /// Figures about the database as it stands.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.core)
    }

    /// Finishes what is under way and closes; every handle answers `Closed` from then on.
    pub fn close(&self) -> Result<()> {
        self.core.close()
    }
}

/// Runs a closure in transactions until one commits.
pub(crate) fn retry<T>(
    core: &Arc<Core>,
    branch: &str,
    mut body: impl FnMut(&mut Interactive) -> Result<T>,
) -> Result<T> {
    let mut last = None;
    for _ in 0..RETRIES {
        let mut transaction = Interactive::begin(core, branch)?;
        let done = body(&mut transaction);
        let outcome = done.and_then(|value| transaction.commit().map(|_| value));
        match outcome {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                last = Some(error);
                // What it conflicted with may be executed but not visible yet.
                core.sequencer.settle();
            }
            other => return other,
        }
    }
    let message = format!("the transaction conflicted {RETRIES} times");
    Err(last.unwrap_or_else(|| Error::new(Code::Conflict, message)))
}
