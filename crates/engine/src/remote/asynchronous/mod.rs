//! The handles for those who must not block: the same methods, to be awaited.
//!
//! ```text
//!   task --poll--> request --> server --> reader thread puts the answer down and wakes the task
//! ```
//!
//! They need no runtime and run on any. Dropping a future loses its answer and nothing else: what was
//! sent is done all the same.

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
use crate::handle::branch::{BranchInfo, Difference, TagInfo};
use crate::handle::database::RETRIES;
use crate::handle::stats::Stats;
use crate::wire::AdminRequest;
use mainstay_model::{
    At, Code, Error, ErrorKind, Filter, MAIN, Pin, Receipt, Result, Revision, Stamp, Transaction,
};
use std::sync::Arc;
use std::time::Duration;

/// A served database, for those who must not block. Clones share its connections; when the last one
/// is dropped they end.
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
    pub(crate) fn new(link: Arc<ConnectionPool>) -> AsyncDatabase {
        AsyncDatabase { link }
    }

    /// The cells of `main`.
    pub fn cells(&self) -> AsyncCells {
        AsyncCells::on(self.link.clone(), MAIN)
    }

    /// The runs of `main`.
    pub fn runs(&self) -> AsyncRuns {
        AsyncRuns::on(self.link.clone(), MAIN)
    }

    /// A space of keyed state on `main`; it is made by its first write, or declared.
    pub fn keyed(&self, space: &str) -> Result<AsyncKeyed> {
        AsyncKeyed::on(self.link.clone(), MAIN, space)
    }

    /// The outbox of `main`.
    pub fn outbox(&self) -> AsyncOutbox {
        AsyncOutbox::on(self.link.clone(), MAIN)
    }

    /// The sessions of the database.
    pub fn sessions(&self) -> AsyncSessions {
        AsyncSessions::on(self.link.clone())
    }

    /// The records of `main`.
    pub fn records(&self) -> AsyncRecords {
        AsyncRecords::on(self.link.clone(), MAIN)
    }

    /// Executes a transaction and waits until it is as durable as asked for.
    pub async fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        self.link.execute(&transaction).await
    }

    /// Begins an interactive transaction on `main`.
    pub async fn begin(&self) -> Result<AsyncInteractive> {
        AsyncInteractive::begin(&self.link, MAIN).await
    }

    /// Runs a closure in a transaction on `main`, again and again while it conflicts with others.
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

    /// The newest revision that is on stable storage.
    pub async fn durable_revision(&self) -> Result<Revision> {
        self.link.ask(AdminRequest::DurableRevision).await
    }

    /// Waits until a revision is visible.
    pub async fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<()> {
        let wait_ms = millis(timeout);
        self.link.ask(AdminRequest::WaitFor { revision, wait_ms }).await
    }

    /// Waits until everything before is on stable storage; gives the revision up to which it is.
    pub async fn sync(&self) -> Result<Revision> {
        self.link.ask(AdminRequest::Sync).await
    }

    /// The stamp of a revision.
    pub async fn stamp_of(&self, revision: Revision) -> Result<Stamp> {
        self.link.ask(AdminRequest::StampOf(revision)).await
    }

    /// The revision that a point in time means.
    pub async fn resolve(&self, at: At) -> Result<Revision> {
        self.link.ask(AdminRequest::Resolve(at)).await
    }

    /// The newest revision that was not stamped later than this.
    pub async fn revision_at(&self, stamp: Stamp) -> Result<Revision> {
        self.resolve(At::Stamp(stamp)).await
    }

    /// Turns every expiry that is due into a deletion now; gives how many there were.
    pub async fn sweep(&self) -> Result<u64> {
        self.link.ask(AdminRequest::Sweep).await
    }

    /// Applies retention now: trims history and the log as far as pins allow.
    pub async fn trim(&self) -> Result<()> {
        self.link.ask(AdminRequest::Trim).await
    }

    /// What holds history back, oldest first.
    pub async fn pins(&self) -> Result<Vec<Pin>> {
        self.link.ask(AdminRequest::Pins).await
    }

    /// Believes a wall clock that jumped ahead by more than an hour.
    pub async fn confirm_clock(&self) -> Result<()> {
        self.link.ask(AdminRequest::ConfirmClock).await
    }

    /// Figures about the database as it stands.
    pub async fn stats(&self) -> Result<Stats> {
        self.link.ask(AdminRequest::Stats).await
    }

    /// All branches, in the order of their names.
    pub async fn branches(&self) -> Result<Vec<BranchInfo>> {
        self.link.ask(AdminRequest::Branches).await
    }

    /// What is known of a branch.
    pub async fn branch_info(&self, name: &str) -> Result<BranchInfo> {
        self.link.ask(AdminRequest::Branch(name.to_owned())).await
    }

    /// All tags, in the order of their names.
    pub async fn tags(&self) -> Result<Vec<TagInfo>> {
        self.link.ask(AdminRequest::Tags).await
    }

    /// The keys that two branches do not agree on, against their common ancestor.
    pub async fn diff(&self, a: &str, b: &str) -> Result<Vec<Difference>> {
        self.link.ask(AdminRequest::Diff(a.to_owned(), b.to_owned())).await
    }

    /// A hash of all retained versions of a branch.
    pub async fn export_hash(&self, branch: &str) -> Result<[u8; 32]> {
        self.link.ask(AdminRequest::ExportHash(branch.to_owned())).await
    }

    /// Follows the changes after a revision.
    pub async fn watch(&self, filter: Filter, after: Revision) -> Result<AsyncFeed> {
        AsyncFeed::watch(self.link.clone(), filter, after).await
    }

    /// Ends the connections; every handle answers `Closed` from then on. The server goes on.
    pub fn close(&self) {
        self.link.close();
    }
}

/// A time in milliseconds; what is shorter than one counts as one.
pub(crate) fn millis(time: Duration) -> u64 {
    let ms = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// Runs a closure in transactions until one commits.
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
