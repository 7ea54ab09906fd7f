//! Database access of the operations, independent of how the caller waits.
//!
//! ```text
//!   operation --await--> Port --Blocking--> execute: ready at once, the caller's thread has blocked
//!                             --Submitted-> a ticket: wakes its task, no thread blocks
//!                             --Served----> a request to a server
//!                             --Within----> an open transaction: ready at once, takes effect with its commit
//! ```

use crate::failure;
use crate::wait;
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
pub(crate) struct Port<'t> {
    branch: String,
    way: Way<'t>,
}

enum Way<'t> {
    Blocking(Database, Records),
    Submitted(Database, Records),
    Served(AsyncDatabase, AsyncRecords),
    Within(Mutex<&'t mut InteractiveTransaction>, Database),
}

impl Port<'static> {
    /// A port on which the caller's thread blocks.
    pub fn blocking(db: &Database, branch: &str) -> Result<Port<'static>> {
        let way = Way::Blocking(db.clone(), records(db, branch)?);
        Ok(Port { branch: branch.to_owned(), way })
    }

    /// A port on `main`, which always exists, on which the caller's thread blocks.
    pub fn blocking_main(db: &Database) -> Port<'static> {
        Port { branch: MAIN.to_owned(), way: Way::Blocking(db.clone(), db.records()) }
    }

    /// A port without blocked threads, for an embedded database.
    pub fn submitted(db: &Database, branch: &str) -> Result<Port<'static>> {
        if !db.is_here() {
            let message =
                "the database is served: open its jobs and locks by `served`, to be awaited";
            return Err(Error::new(Code::Unsupported, message));
        }
        let way = Way::Submitted(db.clone(), records(db, branch)?);
        Ok(Port { branch: branch.to_owned(), way })
    }

    /// A port to a served database.
    pub async fn served(db: &AsyncDatabase, branch: &str) -> Result<Port<'static>> {
        let records = match branch {
            MAIN => db.records(),
            other => db.branch(other).await?.records(),
        };
        Ok(Port { branch: branch.to_owned(), way: Way::Served(db.clone(), records) })
    }

    /// A port to `main` of a served database, which always exists.
    pub fn served_main(db: &AsyncDatabase) -> Port<'static> {
        Port { branch: MAIN.to_owned(), way: Way::Served(db.clone(), db.records()) }
    }

    /// Returns a port on another branch. Fails if no such branch exists.
    pub async fn on_branch(&self, branch: &str) -> Result<Port<'static>> {
        match &self.way {
            Way::Blocking(db, _) | Way::Within(_, db) => Port::blocking(db, branch),
            Way::Submitted(db, _) => Port::submitted(db, branch),
            Way::Served(db, _) => Port::served(db, branch).await,
        }
    }
}

impl<'t> Port<'t> {
    /// A port into an open transaction. `db` answers the queries that the transaction cannot.
    pub fn within(transaction: &'t mut InteractiveTransaction, db: &Database) -> Port<'t> {
        let branch = transaction.branch().to_owned();
        Port { branch, way: Way::Within(Mutex::new(transaction), db.clone()) }
    }

    /// The branch it reads and writes.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Returns whether writes take effect only with the commit of an open transaction.
    pub fn is_within(&self) -> bool {
        matches!(self.way, Way::Within(..))
    }

    /// The database behind all ports except served ones.
    pub fn database(&self) -> Option<&Database> {
        match &self.way {
            Way::Blocking(db, _) | Way::Submitted(db, _) | Way::Within(_, db) => Some(db),
            Way::Served(..) => None,
        }
    }

    /// Executes steps atomically. In an open transaction, a failed `must` step does not undo the steps
    /// before it. So it must come first, or its callers must know that it takes effect.
    pub async fn execute(&self, steps: Vec<Step>) -> Result<Receipt> {
        let mut transaction = Transaction::on(&self.branch);
        transaction.steps.extend(steps);
        match &self.way {
            Way::Blocking(db, _) => db.execute(transaction),
            Way::Submitted(db, _) => db.submit(transaction).await,
            Way::Served(db, _) => db.execute(transaction).await,
            Way::Within(open, _) => run_all(&mut open.lock(), transaction),
        }
    }

    /// Reads a record as published.
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        match &self.way {
            Way::Blocking(_, records) | Way::Submitted(_, records) => records.get(key),
            Way::Served(_, records) => records.get(key).await,
            Way::Within(open, _) => open.lock().get_record(key),
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
        match &self.way {
            Way::Blocking(_, records) | Way::Submitted(_, records) => {
                records.scan(prefix, filters, after, limit)
            }
            Way::Served(_, records) => records.scan(prefix, filters, after, limit).await,
            Way::Within(open, _) => open.lock().scan_records(prefix, filters, after, limit),
        }
    }

    /// Counts records.
    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        match &self.way {
            Way::Blocking(_, records) | Way::Submitted(_, records) => {
                records.count(prefix, filters)
            }
            Way::Served(_, records) => records.count(prefix, filters).await,
            Way::Within(open, _) => open.lock().count_records(prefix, filters),
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
        match &self.way {
            Way::Blocking(_, records) | Way::Submitted(_, records) => {
                records.history(key, limit, before)
            }
            Way::Served(_, records) => records.history(key, limit, before).await,
            Way::Within(open, _) => open.lock().record_history(key, limit, before),
        }
    }

    /// The records at a point in time.
    pub async fn at(&self, at: At) -> Result<Past> {
        match &self.way {
            Way::Blocking(_, records) | Way::Submitted(_, records) => {
                records.at(at).map(Past::Here)
            }
            Way::Served(_, records) => records.at(at).await.map(Past::There),
            Way::Within(_, db) => records(db, &self.branch)?.at(at).map(Past::Here),
        }
    }

    /// The names of all branches.
    pub async fn branches(&self) -> Result<Vec<String>> {
        let branches = match &self.way {
            Way::Blocking(db, _) | Way::Submitted(db, _) | Way::Within(_, db) => db.try_branches(),
            Way::Served(db, _) => db.branches().await,
        };
        Ok(branches?.into_iter().map(|branch| branch.name).collect())
    }

    /// The revision that the branch was forked at. Records up to it are inherited. 0 for `main`, which
    /// inherits nothing.
    pub async fn fork_revision(&self) -> Result<Revision> {
        if self.branch == MAIN {
            return Ok(0);
        }
        let info = match &self.way {
            Way::Blocking(db, _) | Way::Submitted(db, _) | Way::Within(_, db) => {
                db.branch_info(&self.branch)
            }
            Way::Served(db, _) => db.branch_info(&self.branch).await,
        };
        Ok(info?.fork_revision)
    }

    /// Returns whether a record was written on the branch itself, after its fork.
    pub fn is_own(record: &Record, forked_at: Revision) -> bool {
        // Uncommitted writes of an open transaction have revision 0.
        record.revision == 0 || record.revision > forked_at
    }

    /// The database time.
    pub async fn now_us(&self) -> Result<Stamp> {
        match &self.way {
            Way::Blocking(db, _) | Way::Submitted(db, _) => db.now_us(),
            // Time does not advance inside a transaction.
            Way::Within(open, db) => match open.lock().now() {
                Some(now) => Ok(now),
                None => db.now_us(),
            },
            Way::Served(db, _) => {
                let nothing = Transaction::new().durability(Durability::Memory);
                Ok(db.execute(nothing).await?.stamp)
            }
        }
    }

    /// The newest revision that readers see.
    pub async fn revision(&self) -> Result<Revision> {
        match &self.way {
            Way::Blocking(db, _) | Way::Submitted(db, _) | Way::Within(_, db) => db.try_revision(),
            Way::Served(db, _) => db.revision().await,
        }
    }

    /// Waits until a revision after `seen` is visible, or until a time. Used for a served database, where
    /// the server waits. For an embedded database the [bell](crate::bell) waits.
    pub async fn wait_for_change(&self, seen: Revision, now: Stamp, until: Stamp) -> Result<()> {
        let timeout = wait::between(now, until);
        let waited = match &self.way {
            Way::Blocking(db, _) | Way::Submitted(db, _) | Way::Within(_, db) => {
                db.wait_for(seen + 1, timeout)
            }
            Way::Served(db, _) => db.wait_for(seen + 1, timeout).await,
        };
        match waited {
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
fn run_all(open: &mut InteractiveTransaction, transaction: Transaction) -> Result<Receipt> {
    let mut receipt =
        Receipt { revision: 0, stamp: 0, held: true, repeated: false, answers: Default::default() };
    check_room(open, &transaction)?;
    for (position, step) in transaction.steps.into_iter().enumerate() {
        let demand = step.demand;
        let answer = match open.run(step.command) {
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
fn check_room(open: &InteractiveTransaction, transaction: &Transaction) -> Result<()> {
    let key = |step: &Step| match &step.command {
        Command::Record(command) => command.key().cloned(),
        _ => None,
    };
    let keys: BTreeSet<Name> = transaction.steps.iter().filter_map(key).collect();
    if open.guard_count().unwrap_or_default() + keys.len() > GUARD_LIMIT {
        Err(failure::no_room(keys.len(), GUARD_LIMIT))
    } else {
        Ok(())
    }
}

/// The records at a point in time.
pub(crate) enum Past {
    Here(RecordsAt),
    There(AsyncRecordsAt),
}

impl Past {
    pub async fn get(&self, key: &str) -> Result<Option<Record>> {
        match self {
            Past::Here(records) => records.get(key),
            Past::There(records) => records.get(key).await,
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
            Past::Here(records) => records.scan(prefix, filters, after, limit),
            Past::There(records) => records.scan(prefix, filters, after, limit).await,
        }
    }

    pub async fn count(&self, prefix: &str, filters: &[Where]) -> Result<u64> {
        match self {
            Past::Here(records) => records.count(prefix, filters),
            Past::There(records) => records.count(prefix, filters).await,
        }
    }
}
