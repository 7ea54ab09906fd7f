//! The handle on locks that waits.

use crate::asynchronous::AsyncLocks;
use crate::lock::LockHolder;
use crate::operations::{Operations, Shared};
use crate::port::Port;
use crate::settings::Settings;
use crate::within::LocksIn;
use mainstay::remote::wait;
use mainstay::{Database, InteractiveTransaction, Result, Revision};
use std::time::Duration;

/// Locks of a database under one namespace.
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
    /// The locks of a database whose keys begin with a namespace.
    pub fn open(db: &Database, namespace: &str) -> Locks {
        let shared = Shared::new(Some(db), Settings::under(namespace), None);
        Locks::with(Operations::new(shared, Port::blocking_main(db)), db)
    }

    pub(crate) fn with(operations: Operations<'static>, db: &Database) -> Locks {
        Locks { operations, db: db.clone() }
    }

    /// The same on another branch, which has to be there.
    pub fn on_branch(&self, branch: &str) -> Result<Locks> {
        wait(self.operations.on_branch(branch)).map(|operations| Locks::with(operations, &self.db))
    }

    /// The same, to be awaited; `Unsupported` where the database is served: see [`AsyncLocks::served`].
    pub fn to_async(&self) -> Result<AsyncLocks> {
        let port = Port::submitted(&self.db, self.operations.port.branch())?;
        Ok(AsyncLocks(self.operations.by(port)))
    }

    /// The locks as an open transaction sees them, on its branch. See [`LocksIn`].
    pub fn on<'t>(&self, transaction: &'t mut InteractiveTransaction) -> LocksIn<'t> {
        LocksIn(self.operations.by(Port::within(transaction, &self.db)))
    }

    /// The key of a lock's record.
    pub fn key(&self, name: &str) -> String {
        self.operations.lock_key(name)
    }

    /// Takes a lock; gives its token, or nothing while another owner has it. An owner that has it already, and
    /// maybe lost the reply, gets its token again and a new lease: owners have names of their own.
    pub fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        wait(self.operations.take(name, owner, lease))
    }

    /// As [`Locks::take`], and waits for the lock for at most so long. Those who wait get it in turn.
    pub fn take_within(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Result<Option<Revision>> {
        wait(self.operations.take_within(name, owner, lease, timeout))
    }

    /// Begins the lease anew. Whoever no longer has the lock gets `Fenced`.
    pub fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        wait(self.operations.renew(name, token, lease))
    }

    /// Gives a lock back; says whether it was held with this token. Another holder keeps it.
    pub fn free(&self, name: &str, token: Revision) -> Result<bool> {
        wait(self.operations.free(name, token))
    }

    /// Who has a lock.
    pub fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        wait(self.operations.holder(name))
    }
}
