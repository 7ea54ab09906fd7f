//! The handles for those who must not block: the same operations, to be awaited.

use crate::claim::{Claimed, Grant};
use crate::figures::JobFigures;
use crate::holder::Retry;
use crate::job::Job;
use crate::jobs::{JobPage, Jobs};
use crate::lock::{LockHolder, Locks};
use crate::name::JobName;
use crate::settings::Settings;
use crate::state::State;
use crate::submit::Submission;
use crate::sweeper::SweepReport;
use crate::tidy::TidyReport;
use crate::version::JobVersion;
use mainstay::remote::AsyncDatabase;
use mainstay::{At, Code, Command, Database, Error, Result, Revision};
use object_store::ObjectStore;
use std::sync::Arc;
use std::time::Duration;

/// The jobs of a database under one namespace, for those who must not block.
#[derive(Clone)]
pub struct AsyncJobs(pub(crate) Jobs);

impl AsyncJobs {
    /// Jobs of a database in this process.
    pub fn open(db: &Database, settings: Settings) -> Result<AsyncJobs> {
        Jobs::open(db, settings)?.to_async()
    }

    /// Jobs of a database in this process, with their large input and output in an object store.
    pub fn open_with(
        db: &Database,
        settings: Settings,
        objects: Arc<dyn ObjectStore>,
    ) -> Result<AsyncJobs> {
        Jobs::open_with(db, settings, objects)?.to_async()
    }

    /// Jobs of a served database.
    pub async fn served(
        _db: &AsyncDatabase,
        _settings: Settings,
        _objects: Option<Arc<dyn ObjectStore>>,
    ) -> Result<AsyncJobs> {
        Err(Error::new(Code::Unsupported, "to come"))
    }

    /// The same on another branch, which has to be there.
    pub async fn on_branch(&self, branch: &str) -> Result<AsyncJobs> {
        self.0.on_branch(branch).map(AsyncJobs)
    }

    /// The branch they are on.
    pub fn branch(&self) -> &str {
        self.0.branch()
    }

    /// A handle whose operations carry these commands in their own transaction.
    #[must_use]
    pub fn beside(&self, commands: impl IntoIterator<Item = Command>) -> AsyncJobs {
        AsyncJobs(self.0.beside(commands))
    }

    /// Locks of the same namespace on the same branch.
    pub fn locks(&self) -> AsyncLocks {
        AsyncLocks(self.0.locks())
    }

    /// What holds for these jobs.
    pub fn settings(&self) -> &Settings {
        self.0.settings()
    }

    /// The key of a job's record.
    pub fn key(&self, name: &JobName) -> String {
        self.0.key(name)
    }

    /// What was done through this handle and its clones.
    pub fn figures(&self) -> JobFigures {
        self.0.figures()
    }

    /// As [`Jobs::submit`].
    pub async fn submit(&self, submission: &Submission) -> Result<State> {
        self.0.submit(submission)
    }

    /// As [`Jobs::submit_all`].
    pub async fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        self.0.submit_all(submissions)
    }

    /// As [`Jobs::claim`].
    pub async fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Claimed>> {
        self.0.claim(task_type, worker, lease)
    }

    /// As [`Jobs::claim_within`]. Dropping the future gives up the place in the queue; whatever is dropped
    /// while its claim is under way may have claimed, and the sweeper takes that away.
    pub async fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<Claimed>> {
        self.0.claim_within(task_type, worker, lease, timeout)
    }

    /// As [`Jobs::heartbeat`].
    pub async fn heartbeat(&self, grant: &Grant, lease: Option<Duration>) -> Result<State> {
        self.0.heartbeat(grant, lease)
    }

    /// As [`Jobs::step`].
    pub async fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        self.0.step(grant, step, of)
    }

    /// As [`Jobs::complete`].
    pub async fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        self.0.complete(grant, result)
    }

    /// As [`Jobs::fail`].
    pub async fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        self.0.fail(grant, message, retry)
    }

    /// As [`Jobs::cancel`].
    pub async fn cancel(&self, name: &JobName) -> Result<State> {
        self.0.cancel(name)
    }

    /// As [`Jobs::retry`].
    pub async fn retry(&self, name: &JobName) -> Result<State> {
        self.0.retry(name)
    }

    /// As [`Jobs::get`].
    pub async fn get(&self, name: &JobName) -> Result<Option<Job>> {
        self.0.get(name)
    }

    /// As [`Jobs::get_at`].
    pub async fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        self.0.get_at(name, at)
    }

    /// As [`Jobs::history`].
    pub async fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        self.0.history(name, limit, before)
    }

    /// As [`Jobs::list`].
    pub async fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<JobPage> {
        self.0.list(task_type, state, after, limit)
    }

    /// As [`Jobs::list_at`].
    pub async fn list_at(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
        at: At,
    ) -> Result<JobPage> {
        self.0.list_at(task_type, state, after, limit, at)
    }

    /// As [`Jobs::count`].
    pub async fn count(&self, task_type: &str, state: State) -> Result<u64> {
        self.0.count(task_type, state)
    }

    /// As [`Jobs::count_at`].
    pub async fn count_at(&self, task_type: &str, state: State, at: At) -> Result<u64> {
        self.0.count_at(task_type, state, at)
    }

    /// As [`Jobs::params`].
    pub async fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        self.0.params(job)
    }

    /// As [`Jobs::result`].
    pub async fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        self.0.result(job)
    }

    /// As [`Jobs::sweep`].
    pub async fn sweep(&self) -> Result<SweepReport> {
        self.0.sweep()
    }

    /// As [`Jobs::sweep_stuck`].
    pub async fn sweep_stuck(&self, stuck_after_ms: Option<u64>) -> Result<SweepReport> {
        self.0.sweep_stuck(stuck_after_ms)
    }

    /// As [`Jobs::tidy`].
    pub async fn tidy(&self, older_than: Duration) -> Result<TidyReport> {
        self.0.tidy(older_than)
    }
}

/// Locks of a database under one namespace, for those who must not block.
#[derive(Clone)]
pub struct AsyncLocks(pub(crate) Locks);

impl AsyncLocks {
    /// Locks of a database in this process.
    pub fn open(db: &Database, namespace: &str) -> Result<AsyncLocks> {
        Ok(AsyncLocks(Locks::open(db, namespace)))
    }

    /// Locks of a served database.
    pub fn served(_db: &AsyncDatabase, _namespace: &str) -> Result<AsyncLocks> {
        Err(Error::new(Code::Unsupported, "to come"))
    }

    /// As [`Locks::take`].
    pub async fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        self.0.take(name, owner, lease)
    }

    /// As [`Locks::take_within`].
    pub async fn take_within(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Result<Option<Revision>> {
        self.0.take_within(name, owner, lease, timeout)
    }

    /// As [`Locks::renew`].
    pub async fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        self.0.renew(name, token, lease)
    }

    /// As [`Locks::free`].
    pub async fn free(&self, name: &str, token: Revision) -> Result<bool> {
        self.0.free(name, token)
    }

    /// As [`Locks::holder`].
    pub async fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        self.0.holder(name)
    }

    /// The key of a lock's record.
    pub fn key(&self, name: &str) -> String {
        self.0.key(name)
    }
}
