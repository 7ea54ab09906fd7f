//! Blocking handle on locks.

use crate::backend::JobsBackend;
use crate::handles::asynchronous::AsyncLocks;
use crate::handles::in_transaction::LocksTx;
use crate::operations::lock::LockHolder;
use crate::operations::{Operations, SharedState};
use crate::settings::Settings;
use mainstay::remote::wait;
use mainstay::{Database, InteractiveTransaction, Result, Revision};
use std::time::Duration;

/// The locks of a database under one namespace, with a blocking API.
///
/// ```
/// use mainstay_jobs::Locks;
/// use std::time::Duration;
/// let locks = Locks::open(&mainstay::Database::memory()?, "mainstay.");
/// let lease = Duration::from_secs(10);
/// let token = locks.take("nightly", "node 1", lease)?.expect("nobody has it");
/// assert_eq!(locks.take("nightly", "node 2", lease)?, None);
/// locks.renew("nightly", token, lease)?;
/// assert!(locks.free("nightly", token)?);
/// assert!(locks.take("nightly", "node 2", lease)?.expect("nobody has it") > token);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Locks {
    operations: Operations<'static>,
    db: Database,
}

impl Locks {
    /// Opens the locks whose keys begin with `namespace`.
    pub fn open(db: &Database, namespace: &str) -> Locks {
        let shared = SharedState::new(Some(db), Settings::under(namespace), None);
        Locks::with(Operations::new(shared, JobsBackend::blocking_main(db)), db)
    }

    pub(crate) fn with(operations: Operations<'static>, db: &Database) -> Locks {
        Locks { operations, db: db.clone() }
    }

    /// Returns a handle on another branch. Fails with `BranchNotFound` if no such branch exists.
    pub fn on_branch(&self, branch: &str) -> Result<Locks> {
        wait(self.operations.on_branch(branch)).map(|operations| Locks::with(operations, &self.db))
    }

    /// Returns the async handle. Fails with `Unsupported` for a served database: see
    /// [`AsyncLocks::served`].
    pub fn to_async(&self) -> Result<AsyncLocks> {
        let backend = JobsBackend::asynchronous(&self.db, self.operations.backend.branch())?;
        Ok(AsyncLocks(self.operations.with_backend(backend)))
    }

    /// Returns the locks inside an open transaction, on its branch. See [`LocksTx`].
    pub fn on<'t>(&self, transaction: &'t mut InteractiveTransaction) -> LocksTx<'t> {
        LocksTx(self.operations.with_backend(JobsBackend::in_transaction(transaction, &self.db)))
    }

    /// The key of a lock's record.
    pub fn key(&self, name: &str) -> String {
        self.operations.lock_key(name)
    }

    /// Takes a lock. Returns its fencing token, or `None` while another owner holds it. An owner that
    /// already holds it, perhaps because it lost the reply, gets the same token and a new lease. So owner
    /// names must be unique.
    pub fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        wait(self.operations.take(name, owner, lease))
    }

    /// Takes a lock like [`Locks::take`], and blocks for at most `timeout` until it is free. Waiters are
    /// served in order.
    pub fn take_within(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Result<Option<Revision>> {
        wait(self.operations.take_within(name, owner, lease, timeout))
    }

    /// Restarts the lease. Fails with `Fenced` if the lock was lost.
    pub fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        wait(self.operations.renew(name, token, lease))
    }

    /// Frees a lock. Returns whether it was held with this token. Another holder keeps it.
    pub fn free(&self, name: &str, token: Revision) -> Result<bool> {
        wait(self.operations.free(name, token))
    }

    /// Returns the holder of a lock, or `None` if it is free.
    pub fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        wait(self.operations.holder(name))
    }
}
