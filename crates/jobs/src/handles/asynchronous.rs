//! Async handles: the same operations as the blocking handles, as futures.
//!
//! ```text
//!   task --poll--> operation --ticket or request--> database --waker--> task
//!                            --no job------------> dispatcher: one thread for all waiting tasks
//! ```
//!
//! The futures need no runtime, run on any, and are `Send`. Large input and output use one extra thread while they are
//! read or written. Dropping a future discards only its answer: a submitted operation is executed all the same.

use crate::backend::JobsBackend;
use crate::maintenance::gc::GcReport;
use crate::maintenance::sweep::SweepReport;
use crate::model::job::Job;
use crate::model::name::JobName;
use crate::model::state::State;
use crate::model::version::JobVersion;
use crate::operations::claim::{ClaimedJob, Grant};
use crate::operations::lock::LockHolder;
use crate::operations::submit::Submission;
use crate::operations::worker_ops::Retry;
use crate::operations::{JobPage, Operations, SharedState};
use crate::settings::Settings;
use crate::stats::JobStats;
use mainstay::remote::AsyncDatabase;
use mainstay::{At, Command, Database, MAIN, Result, Revision};
use object_store::ObjectStore;
use std::sync::Arc;
use std::time::Duration;

/// The jobs of a database under one namespace, with an async API.
///
/// ```
/// use mainstay_jobs::{AsyncJobs, Settings, State, Submission};
/// let jobs = AsyncJobs::open(&mainstay::Database::memory()?, Settings::default())?;
/// let work = async {
///     jobs.submit(&Submission::new("email", "1")).await?;
///     let claimed = jobs.claim("email", "worker 1", None).await?.expect("there is one");
///     jobs.complete(&claimed.grant, None).await
/// };
/// // Any runtime works; this one blocks the current thread.
/// assert_eq!(mainstay::remote::wait(work)?, State::Completed);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncJobs(pub(crate) Operations<'static>);

impl AsyncJobs {
    /// Opens the jobs of an embedded database. Blocks briefly while it declares the required indexes.
    pub fn open(db: &Database, settings: Settings) -> Result<AsyncJobs> {
        crate::Jobs::open(db, settings)?.to_async()
    }

    /// Opens the jobs of an embedded database, with large input and output in an object store.
    pub fn open_with(
        db: &Database,
        settings: Settings,
        objects: Arc<dyn ObjectStore>,
    ) -> Result<AsyncJobs> {
        crate::Jobs::open_with(db, settings, objects)?.to_async()
    }

    /// Opens the jobs of a served database, with large input and output in an object store if one is given.
    pub async fn served(
        db: &AsyncDatabase,
        settings: Settings,
        objects: Option<Arc<dyn ObjectStore>>,
    ) -> Result<AsyncJobs> {
        settings.check()?;
        let backend = JobsBackend::remote(db, MAIN).await?;
        let operations = Operations::new(SharedState::new(None, settings, objects), backend);
        operations.declare_all().await?;
        Ok(AsyncJobs(operations))
    }

    /// Returns a handle on another branch. Fails with `BranchNotFound` if no such branch exists.
    pub async fn on_branch(&self, branch: &str) -> Result<AsyncJobs> {
        self.0.on_branch(branch).await.map(AsyncJobs)
    }

    /// The branch of this handle.
    pub fn branch(&self) -> &str {
        self.0.backend.branch()
    }

    /// Returns a handle whose operations execute these commands in their own transaction.
    #[must_use]
    pub fn with_commands(&self, commands: impl IntoIterator<Item = Command>) -> AsyncJobs {
        AsyncJobs(self.0.with_commands(commands))
    }

    /// Returns the locks of the same namespace on the same branch.
    pub fn locks(&self) -> AsyncLocks {
        AsyncLocks(self.0.with_commands([]))
    }

    /// The settings of these jobs.
    pub fn settings(&self) -> &Settings {
        self.0.settings()
    }

    /// The key of a job's record.
    pub fn key(&self, name: &JobName) -> String {
        self.0.key(name)
    }

    /// The database time in microseconds since 1970, which leases and `run_at` use.
    pub async fn now_us(&self) -> Result<mainstay::Stamp> {
        self.0.now_us().await
    }

    /// Counters of the operations through this handle and its clones.
    pub fn stats(&self) -> JobStats {
        self.0.counters().stats()
    }

    /// As [`Jobs::submit`](crate::Jobs::submit).
    pub async fn submit(&self, submission: &Submission) -> Result<State> {
        self.0.submit(submission).await
    }

    /// As [`Jobs::submit_all`](crate::Jobs::submit_all).
    pub async fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        self.0.submit_all(submissions).await
    }

    /// As [`Jobs::claim`](crate::Jobs::claim).
    pub async fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<ClaimedJob>> {
        self.0.claim(task_type, worker, lease).await
    }

    /// As [`Jobs::claim_within`](crate::Jobs::claim_within). Dropping the future leaves the wait queue. If
    /// it is dropped while its claim executes, the job may already be claimed; then the sweeper takes it
    /// back after the lease.
    pub async fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<ClaimedJob>> {
        self.0.claim_within(task_type, worker, lease, timeout).await
    }

    /// As [`Jobs::heartbeat`](crate::Jobs::heartbeat).
    pub async fn heartbeat(&self, grant: &Grant, lease: Option<Duration>) -> Result<State> {
        self.0.heartbeat(grant, lease).await
    }

    /// As [`Jobs::step`](crate::Jobs::step).
    pub async fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        self.0.step(grant, step, of).await
    }

    /// As [`Jobs::complete`](crate::Jobs::complete).
    pub async fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        self.0.complete(grant, result).await
    }

    /// As [`Jobs::fail`](crate::Jobs::fail).
    pub async fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        self.0.fail(grant, message, retry).await
    }

    /// As [`Jobs::cancel`](crate::Jobs::cancel).
    pub async fn cancel(&self, name: &JobName) -> Result<State> {
        self.0.cancel(name).await
    }

    /// As [`Jobs::retry`](crate::Jobs::retry).
    pub async fn retry(&self, name: &JobName) -> Result<State> {
        self.0.retry(name).await
    }

    /// As [`Jobs::delete`](crate::Jobs::delete).
    pub async fn delete(&self, name: &JobName) -> Result<State> {
        self.0.delete(name).await
    }

    /// As [`Jobs::get`](crate::Jobs::get).
    pub async fn get(&self, name: &JobName) -> Result<Option<Job>> {
        self.0.get(name).await
    }

    /// As [`Jobs::get_at`](crate::Jobs::get_at).
    pub async fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        self.0.get_at(name, at).await
    }

    /// As [`Jobs::history`](crate::Jobs::history).
    pub async fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        self.0.history(name, limit, before).await
    }

    /// As [`Jobs::list`](crate::Jobs::list).
    pub async fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<JobPage> {
        self.0.list(task_type, state, after, limit, None).await
    }

    /// As [`Jobs::list_at`](crate::Jobs::list_at).
    pub async fn list_at(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
        at: At,
    ) -> Result<JobPage> {
        self.0.list(task_type, state, after, limit, Some(at)).await
    }

    /// As [`Jobs::count`](crate::Jobs::count).
    pub async fn count(&self, task_type: &str, state: State) -> Result<u64> {
        self.0.count(task_type, state, None).await
    }

    /// As [`Jobs::count_at`](crate::Jobs::count_at).
    pub async fn count_at(&self, task_type: &str, state: State, at: At) -> Result<u64> {
        self.0.count(task_type, state, Some(at)).await
    }

    /// As [`Jobs::params`](crate::Jobs::params).
    pub async fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        self.0.params(job).await
    }

    /// As [`Jobs::result`](crate::Jobs::result).
    pub async fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        self.0.result(job).await
    }

    /// As [`Jobs::sweep`](crate::Jobs::sweep).
    pub async fn sweep(&self) -> Result<SweepReport> {
        self.0.sweep_stuck(self.settings().stuck_after_ms).await
    }

    /// As [`Jobs::sweep_stuck`](crate::Jobs::sweep_stuck).
    pub async fn sweep_stuck(&self, stuck_after_ms: Option<u64>) -> Result<SweepReport> {
        self.0.sweep_stuck(stuck_after_ms).await
    }

    /// As [`Jobs::collect_garbage`](crate::Jobs::collect_garbage).
    pub async fn collect_garbage(&self, older_than: Duration) -> Result<GcReport> {
        self.0.collect_garbage(older_than).await
    }
}

/// Locks of a database under one namespace, with an async API.
#[derive(Clone)]
pub struct AsyncLocks(pub(crate) Operations<'static>);

impl AsyncLocks {
    /// Opens the locks of an embedded database.
    pub fn open(db: &Database, namespace: &str) -> Result<AsyncLocks> {
        let shared = SharedState::new(Some(db), Settings::under(namespace).checked()?, None);
        Ok(AsyncLocks(Operations::new(shared, JobsBackend::asynchronous(db, MAIN)?)))
    }

    /// Opens the locks of a served database.
    pub fn served(db: &AsyncDatabase, namespace: &str) -> Result<AsyncLocks> {
        let shared = SharedState::new(None, Settings::under(namespace).checked()?, None);
        Ok(AsyncLocks(Operations::new(shared, JobsBackend::remote_main(db))))
    }

    /// Returns a handle on another branch. Fails with `BranchNotFound` if no such branch exists.
    pub async fn on_branch(&self, branch: &str) -> Result<AsyncLocks> {
        self.0.on_branch(branch).await.map(AsyncLocks)
    }

    /// As [`Locks::take`](crate::Locks::take).
    pub async fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        self.0.take(name, owner, lease).await
    }

    /// As [`Locks::take_within`](crate::Locks::take_within).
    pub async fn take_within(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Result<Option<Revision>> {
        self.0.take_within(name, owner, lease, timeout).await
    }

    /// As [`Locks::renew`](crate::Locks::renew).
    pub async fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        self.0.renew(name, token, lease).await
    }

    /// As [`Locks::free`](crate::Locks::free).
    pub async fn free(&self, name: &str, token: Revision) -> Result<bool> {
        self.0.free(name, token).await
    }

    /// As [`Locks::holder`](crate::Locks::holder).
    pub async fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        self.0.holder(name).await
    }

    /// The key of a lock's record.
    pub fn key(&self, name: &str) -> String {
        self.0.lock_key(name)
    }
}
