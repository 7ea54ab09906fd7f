//! Async client: the same methods as the blocking handles, as futures.
//!
//! ```text
//!   task --poll--> request --> server --> reader thread stores the answer and wakes the task
//! ```
//!
//! The futures need no runtime and run on any. Dropping a future discards only its answer: a request that was sent is
//! executed all the same.

mod branch;
mod cells;
mod feed;
mod keyed;
mod outbox;
mod records;
mod remote_snapshot;
mod runs;
mod sessions;
mod transaction;

pub use branch::AsyncBranch;
pub use cells::{AsyncCells, AsyncCellsAt};
pub use feed::AsyncFeed;
pub use keyed::{AsyncKeyed, AsyncKeyedAt};
pub use outbox::AsyncOutbox;
pub use records::{AsyncRecords, AsyncRecordsAt};
pub use runs::{AsyncRuns, AsyncRunsAt};
pub use sessions::{AsyncSession, AsyncSessions};
pub use transaction::AsyncInteractive;

use super::connection_pool::ConnectionPool;
use mainstay_model::build::RETRIES;
use mainstay_model::wire::AdminRequest;
use mainstay_model::{
    At, Code, Error, ErrorKind, Filter, MAIN, Pin, Receipt, Result, Revision, Stamp, Transaction,
};
use mainstay_model::{BranchInfo, Difference, Stats, TagInfo};
use std::sync::Arc;
use std::time::Duration;

/// A served database with an async API: no method blocks the calling thread. Clones share its connections.
/// Dropping the last clone closes them.
///
/// ```no_run
/// # async fn example() -> mainstay::Result<()> {
/// let db = mainstay::remote::connect_async("127.0.0.1:7379").await?;
/// let cells = db.cells();
/// cells.set("greeting", "hello").await?;
/// assert_eq!(cells.get("greeting").await?, Some("hello".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncDatabase {
    pub(super) link: Arc<ConnectionPool>,
}

impl AsyncDatabase {
    #[doc(hidden)]
    pub fn new(link: Arc<ConnectionPool>) -> AsyncDatabase {
        AsyncDatabase { link }
    }

    /// Returns the cells of `main`.
    pub fn cells(&self) -> AsyncCells {
        AsyncCells::on(self.link.clone(), MAIN)
    }

    /// Returns the runs (event logs) of `main`.
    pub fn runs(&self) -> AsyncRuns {
        AsyncRuns::on(self.link.clone(), MAIN)
    }

    /// Returns a space of keyed state on `main`. The space is created by its first write or by
    /// [`AsyncKeyed::declare`].
    pub fn keyed(&self, space: &str) -> Result<AsyncKeyed> {
        AsyncKeyed::on(self.link.clone(), MAIN, space)
    }

    /// Returns the transactional outbox of `main`.
    pub fn outbox(&self) -> AsyncOutbox {
        AsyncOutbox::on(self.link.clone(), MAIN)
    }

    /// Returns the sessions of the database.
    pub fn sessions(&self) -> AsyncSessions {
        AsyncSessions::on(self.link.clone())
    }

    /// Returns the records of `main`.
    pub fn records(&self) -> AsyncRecords {
        AsyncRecords::on(self.link.clone(), MAIN)
    }

    /// Executes a transaction and waits until it is as durable as its durability level demands.
    pub async fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        self.link.execute(&transaction).await
    }

    /// Begins an interactive transaction on `main`.
    pub async fn begin(&self) -> Result<AsyncInteractive> {
        AsyncInteractive::begin(&self.link, MAIN).await
    }

    /// Runs a closure in a transaction on `main` and commits it. Retries both after each conflict, up to
    /// 1,000 times.
    pub async fn transaction<T>(
        &self,
        body: impl AsyncFnMut(&mut AsyncInteractive) -> Result<T>,
    ) -> Result<T> {
        retry(&self.link, MAIN, body).await
    }

    /// The newest visible revision.
    pub async fn revision(&self) -> Result<Revision> {
        self.link.revision().await
    }

    /// The newest revision that the server has on stable storage.
    pub async fn durable_revision(&self) -> Result<Revision> {
        self.link.ask(AdminRequest::DurableRevision).await
    }

    /// Waits until a revision is visible. Fails with `TimedOut` after `timeout`.
    pub async fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<()> {
        let wait_ms = millis(timeout);
        self.link.ask(AdminRequest::WaitFor { revision, wait_ms }).await
    }

    /// Waits until every earlier write is on stable storage. Returns the revision up to which that holds.
    pub async fn sync(&self) -> Result<Revision> {
        self.link.ask(AdminRequest::Sync).await
    }

    /// The stamp of a revision, in microseconds since 1970. Fails with `HistoryTrimmed` if it is no longer
    /// kept.
    pub async fn stamp_of(&self, revision: Revision) -> Result<Stamp> {
        self.link.ask(AdminRequest::StampOf(revision)).await
    }

    /// Resolves a point in time to a revision.
    pub async fn resolve(&self, at: At) -> Result<Revision> {
        self.link.ask(AdminRequest::Resolve(at)).await
    }

    /// The newest revision whose stamp is not later than `stamp`.
    pub async fn revision_at(&self, stamp: Stamp) -> Result<Revision> {
        self.resolve(At::Stamp(stamp)).await
    }

    /// Deletes all entries whose expiry is due now. Returns how many it deleted.
    pub async fn sweep(&self) -> Result<u64> {
        self.link.ask(AdminRequest::Sweep).await
    }

    /// Applies retention now: flushes, compacts, and trims history and the log as far as pins allow. Waits
    /// until done.
    pub async fn trim(&self) -> Result<()> {
        self.link.ask(AdminRequest::Trim).await
    }

    /// Lists the pins that keep history from being trimmed, oldest first.
    pub async fn pins(&self) -> Result<Vec<Pin>> {
        self.link.ask(AdminRequest::Pins).await
    }

    /// Accepts a wall clock that jumped ahead by more than one hour, or that was too far ahead when the
    /// database was opened.
    pub async fn confirm_clock(&self) -> Result<()> {
        self.link.ask(AdminRequest::ConfirmClock).await
    }

    /// Returns the current statistics.
    pub async fn stats(&self) -> Result<Stats> {
        self.link.ask(AdminRequest::Stats).await
    }

    /// Lists all branches, sorted by name.
    pub async fn branches(&self) -> Result<Vec<BranchInfo>> {
        self.link.ask(AdminRequest::Branches).await
    }

    /// Returns the metadata of a branch. Fails with `BranchNotFound` if no such branch exists.
    pub async fn branch_info(&self, name: &str) -> Result<BranchInfo> {
        self.link.ask(AdminRequest::Branch(name.to_owned())).await
    }

    /// Lists all tags, sorted by name.
    pub async fn tags(&self) -> Result<Vec<TagInfo>> {
        self.link.ask(AdminRequest::Tags).await
    }

    /// Three-way comparison: lists the keys whose state differs between branches `a` and `b`, relative to
    /// their common ancestor.
    ///
    /// The cost is proportional to the writes on both sides since the ancestor. A branch that contains the
    /// ancestor revision and was written to after it is scanned as a whole.
    pub async fn diff(&self, a: &str, b: &str) -> Result<Vec<Difference>> {
        self.link.ask(AdminRequest::Diff(a.to_owned(), b.to_owned())).await
    }

    /// Returns a hash of all retained versions of a branch. Equal logs give equal hashes on every machine.
    pub async fn export_hash(&self, branch: &str) -> Result<[u8; 32]> {
        self.link.ask(AdminRequest::ExportHash(branch.to_owned())).await
    }

    /// Opens a change feed that starts after revision `after` and yields the events that match `filter`.
    pub async fn watch(&self, filter: Filter, after: Revision) -> Result<AsyncFeed> {
        AsyncFeed::watch(self.link.clone(), filter, after).await
    }

    /// Closes the connections. Every handle then fails with `Closed`. The server keeps running.
    pub fn close(&self) {
        self.link.close();
    }
}

/// Converts a time to milliseconds, rounded up.
pub(crate) fn millis(time: Duration) -> u64 {
    let ms = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// Runs a closure in transactions until one commits, with at most `RETRIES` attempts.
pub(crate) async fn retry<T>(
    link: &Arc<ConnectionPool>,
    branch: &str,
    mut body: impl AsyncFnMut(&mut AsyncInteractive) -> Result<T>,
) -> Result<T> {
    let mut last = None;
    for _ in 0..RETRIES {
        let mut transaction = AsyncInteractive::begin(link, branch).await?;
        let done = body(&mut transaction).await;
        let outcome = match done {
            Ok(value) => transaction.commit().await.map(|_| value),
            Err(error) => Err(error),
        };
        match outcome {
            Err(error) if error.kind() == ErrorKind::Conflict => last = Some(error),
            other => return other,
        }
    }
    let message = format!("the transaction conflicted {RETRIES} times");
    Err(last.unwrap_or_else(|| Error::new(Code::Conflict, message)))
}
