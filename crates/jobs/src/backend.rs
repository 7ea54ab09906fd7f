//! Database access of the operations, independent of how the caller waits.
//!
//! ```text
//!   operation --await--> JobsBackend --Blocking--> execute: ready at once, the caller's thread has blocked
//!                                    --Async-----> a ticket: wakes its task, no thread blocks
//!                                    --Remote----> a request to a server
//!                                    --Transaction-> an open transaction: ready at once, takes effect with its commit
//! ```

use crate::dispatch::deadline;
use crate::failure;
use mainstay::limits::GUARD_LIMIT;
use mainstay::remote::{AsyncDatabase, AsyncRecords, AsyncRecordsAt};
use mainstay::{
    Answer, At, Code, Command, Database, Demand, Durability, Error, InteractiveTransaction, MAIN,
    Name, Receipt, Record, RecordCommand, RecordHistoryEntry, RecordPage, Records, RecordsAt,
    Result, Revision, Stamp, Step, Transaction, Where,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// A branch of a database, and the way to wait for its answers.
pub(crate) struct JobsBackend<'t> {
    branch: String,
    access: Access<'t>,
}

enum Access<'t> {
    Blocking(Database, Records),
    Async(Database, Records),
    Remote(AsyncDatabase, AsyncRecords),
    Transaction(Mutex<&'t mut InteractiveTransaction>, Database),
}

impl JobsBackend<'static> {
    /// A backend on which the caller's thread blocks.
    pub fn blocking(db: &Database, branch: &str) -> Result<JobsBackend<'static>> {
        let access = Access::Blocking(db.clone(), records(db, branch)?);
        Ok(JobsBackend { branch: branch.to_owned(), access })
    }

    /// A backend on `main`, which always exists, on which the caller's thread blocks.
    pub fn blocking_main(db: &Database) -> JobsBackend<'static> {
        JobsBackend { branch: MAIN.to_owned(), access: Access::Blocking(db.clone(), db.records()) }
    }

    /// A backend without blocked threads, for an embedded database.
    pub fn asynchronous(db: &Database, branch: &str) -> Result<JobsBackend<'static>> {
        if !db.is_here() {
            let message =
                "the database is served: open its jobs and locks by `served`, to be awaited";
            return Err(Error::new(Code::Unsupported, message));
        }
        let access = Access::Async(db.clone(), records(db, branch)?);
        Ok(JobsBackend { branch: branch.to_owned(), access })
    }

    /// A backend to a served database.
    pub async fn remote(db: &AsyncDatabase, branch: &str) -> Result<JobsBackend<'static>> {
        let records = match branch {
            MAIN => db.records(),
            other => db.branch(other).await?.records(),
        };
        Ok(JobsBackend { branch: branch.to_owned(), access: Access::Remote(db.clone(), records) })
    }

    /// A backend to `main` of a served database, which always exists.
    pub fn remote_main(db: &AsyncDatabase) -> JobsBackend<'static> {
        JobsBackend { branch: MAIN.to_owned(), access: Access::Remote(db.clone(), db.records()) }
    }

    /// Returns a backend on another branch. Fails if no such branch exists.
    pub async fn on_branch(&self, branch: &str) -> Result<JobsBackend<'static>> {
        match &self.access {
            Access::Blocking(db, _) | Access::Transaction(_, db) => {
                JobsBackend::blocking(db, branch)
            }
            Access::Async(db, _) => JobsBackend::asynchronous(db, branch),
            Access::Remote(db, _) => JobsBackend::remote(db, branch).await,
        }
    }
}

impl<'t> JobsBackend<'t> {
    /// A backend into an open transaction. `db` answers the queries that the transaction cannot.
    pub fn in_transaction(
        transaction: &'t mut InteractiveTransaction,
        db: &Database,
    ) -> JobsBackend<'t> {
        let branch = transaction.branch().to_owned();
        JobsBackend { branch, access: Access::Transaction(Mutex::new(transaction), db.clone()) }
    }

    /// The branch it reads and writes.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Returns whether writes take effect only with the commit of an open transaction.
    pub fn is_in_transaction(&self) -> bool {
        matches!(self.access, Access::Transaction(..))
    }

    /// The database behind all backends except remote ones.
    pub fn database(&self) -> Option<&Database> {
        match &self.access {
            Access::Blocking(db, _) | Access::Async(db, _) | Access::Transaction(_, db) => Some(db),
            Access::Remote(..) => None,
        }
    }

    /// Executes steps atomically. In an open transaction, a failed `must` step does not undo the steps
    /// before it. So it must come first, or its callers must know that it takes effect.
    pub async fn execute(&self, steps: Vec<Step>) -> Result<Receipt> {
        let mut transaction = Transaction::on(&self.branch);
        transaction.steps.extend(steps);
        match &self.access {
            Access::Blocking(db, _) => db.execute(transaction),
            Access::Async(db, _) => db.submit(transaction).await,
            Access::Remote(db, _) => db.execute(transaction).await,
            Access::Transaction(interactive, _) => run_steps(&mut interactive.lock(), transaction),
        }
    }

    /// Reads a record as published.
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        match &self.access {
            Access::Blocking(_, records) | Access::Async(_, records) => records.get(key),
            Access::Remote(_, records) => records.get(key).await,
            Access::Transaction(interactive, _) => interactive.lock().get_record(key),
        }
    }

    /// Reads records as the writer sees them, which may be ahead of the published state.
    pub async fn get_written(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        let steps = keys
            .iter()
            .map(|key| Ok(RecordCommand::Get { key: Name::new(key)?, fields: None }.into()))
            .collect::<Result<Vec<Step>>>()?;
        let answers = self.execute(steps).await?.answers;
        let record = |answer| match answer {
            Answer::Record(record) => Ok(record),
            _ => Err(failure::unexpected()),
        };
        answers.into_iter().map(record).collect()
    }

    /// Scans records in byte order of their keys.
    pub async fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        match &self.access {
            Access::Blocking(_, records) | Access::Async(_, records) => {
                records.scan(prefix, filters, after, limit)
            }
            Access::Remote(_, records) => records.scan(prefix, filters, after, limit).await,
            Access::Transaction(interactive, _) => {
                interactive.lock().scan_records(prefix, filters, after, limit)
            }
        }
    }

    /// Counts records.
    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        match &self.access {
            Access::Blocking(_, records) | Access::Async(_, records) => {
                records.count(prefix, filters)
            }
            Access::Remote(_, records) => records.count(prefix, filters).await,
            Access::Transaction(interactive, _) => {
                interactive.lock().count_records(prefix, filters)
            }
        }
    }

    /// Lists the versions of a record, newest first. The first may be an uncommitted write of the open
    /// transaction.
    pub async fn history(
        &self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        match &self.access {
            Access::Blocking(_, records) | Access::Async(_, records) => {
                records.history(key, limit, before)
            }
            Access::Remote(_, records) => records.history(key, limit, before).await,
            Access::Transaction(interactive, _) => {
                interactive.lock().record_history(key, limit, before)
            }
        }
    }

    /// The records at a point in time.
    pub async fn at(&self, at: At) -> Result<HistoricalView> {
        match &self.access {
            Access::Blocking(_, records) | Access::Async(_, records) => {
                records.at(at).map(HistoricalView::Local)
            }
            Access::Remote(_, records) => records.at(at).await.map(HistoricalView::Remote),
            Access::Transaction(_, db) => {
                records(db, &self.branch)?.at(at).map(HistoricalView::Local)
            }
        }
    }

    /// The names of all branches.
    pub async fn branches(&self) -> Result<Vec<String>> {
        let branches = match &self.access {
            Access::Blocking(db, _) | Access::Async(db, _) | Access::Transaction(_, db) => {
                db.try_branches()
            }
            Access::Remote(db, _) => db.branches().await,
        };
        Ok(branches?.into_iter().map(|branch| branch.name).collect())
    }

    /// The revision that the branch was forked at. Records up to it are inherited. 0 for `main`, which
    /// inherits nothing.
    pub async fn fork_revision(&self) -> Result<Revision> {
        if self.branch == MAIN {
            return Ok(0);
        }
        let info = match &self.access {
            Access::Blocking(db, _) | Access::Async(db, _) | Access::Transaction(_, db) => {
                db.branch_info(&self.branch)
            }
            Access::Remote(db, _) => db.branch_info(&self.branch).await,
        };
        Ok(info?.fork_revision)
    }

    /// Returns whether a record was written on the branch itself, after its fork.
    pub fn is_own(record: &Record, fork_revision: Revision) -> bool {
        // Uncommitted writes of an open transaction have revision 0.
        record.revision == 0 || record.revision > fork_revision
    }

    /// The database time.
    pub async fn now_us(&self) -> Result<Stamp> {
        match &self.access {
            Access::Blocking(db, _) | Access::Async(db, _) => db.now_us(),
            // Time does not advance inside a transaction.
            Access::Transaction(interactive, db) => match interactive.lock().now() {
                Some(now) => Ok(now),
                None => db.now_us(),
            },
            Access::Remote(db, _) => {
                let empty = Transaction::new().durability(Durability::Memory);
                Ok(db.execute(empty).await?.stamp)
            }
        }
    }

    /// The newest revision that readers see.
    pub async fn revision(&self) -> Result<Revision> {
        match &self.access {
            Access::Blocking(db, _) | Access::Async(db, _) | Access::Transaction(_, db) => {
                db.try_revision()
            }
            Access::Remote(db, _) => db.revision().await,
        }
    }

    /// Waits until a revision after `revision` is visible, or until a time. Used for a served database, where
    /// the server waits. For an embedded database the [dispatcher](crate::dispatch) waits.
    pub async fn wait_for_change(
        &self,
        revision: Revision,
        now: Stamp,
        deadline: Stamp,
    ) -> Result<()> {
        let timeout = deadline::remaining(now, deadline);
        let result = match &self.access {
            Access::Blocking(db, _) | Access::Async(db, _) | Access::Transaction(_, db) => {
                db.wait_for(revision + 1, timeout)
            }
            Access::Remote(db, _) => db.wait_for(revision + 1, timeout).await,
        };
        match result {
            Err(error) if error.code() == Code::TimedOut => Ok(()),
            other => other,
        }
    }
}

fn records(db: &Database, branch: &str) -> Result<Records> {
    match branch {
        MAIN => Ok(db.records()),
        other => Ok(db.branch(other)?.records()),
    }
}

/// Runs steps in an open transaction with the semantics of an executed transaction.
fn run_steps(
    interactive: &mut InteractiveTransaction,
    transaction: Transaction,
) -> Result<Receipt> {
    let mut receipt =
        Receipt { revision: 0, stamp: 0, held: true, repeated: false, answers: Default::default() };
    check_read_set(interactive, &transaction)?;
    for (position, step) in transaction.steps.into_iter().enumerate() {
        let demand = step.demand;
        let answer = match interactive.run(step.command) {
            Err(error) if demand == Demand::Nothing && error.code().is_about_a_command() => {
                Answer::Failed(error)
            }
            other => other.map_err(|error| error.at_position(position))?,
        };
        if demand == Demand::Effect && !answer.took_effect() {
            return Err(failure::no_effect().at_position(position));
        }
        receipt.answers.push(answer);
    }
    Ok(receipt)
}

/// Rejects steps that would overflow the read set, before any of them runs.
fn check_read_set(interactive: &InteractiveTransaction, transaction: &Transaction) -> Result<()> {
    let key = |step: &Step| match &step.command {
        Command::Record(command) => command.key().cloned(),
        _ => None,
    };
    let keys: BTreeSet<Name> = transaction.steps.iter().filter_map(key).collect();
    if interactive.guard_count().unwrap_or_default() + keys.len() > GUARD_LIMIT {
        Err(failure::no_room(keys.len(), GUARD_LIMIT))
    } else {
        Ok(())
    }
}

/// The records at a point in time.
pub(crate) enum HistoricalView {
    Local(RecordsAt),
    Remote(AsyncRecordsAt),
}

impl HistoricalView {
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        match self {
            HistoricalView::Local(records) => records.get(key),
            HistoricalView::Remote(records) => records.get(key).await,
        }
    }

    pub async fn scan(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        match self {
            HistoricalView::Local(records) => records.scan(prefix, filters, after, limit),
            HistoricalView::Remote(records) => records.scan(prefix, filters, after, limit).await,
        }
    }

    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        match self {
            HistoricalView::Local(records) => records.count(prefix, filters),
            HistoricalView::Remote(records) => records.count(prefix, filters).await,
        }
    }
}
