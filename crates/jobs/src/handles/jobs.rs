//! Blocking handle: every operation is done when its call returns.

use crate::backend::JobsBackend;
use crate::handles::asynchronous::AsyncJobs;
use crate::handles::in_transaction::JobsTx;
use crate::handles::locks::Locks;
use crate::maintenance::gc::GcReport;
use crate::maintenance::sweep::SweepReport;
use crate::model::job::Job;
use crate::model::name::JobName;
use crate::model::state::State;
use crate::model::version::JobVersion;
use crate::operations::claim::{ClaimedJob, Grant};
use crate::operations::submit::Submission;
use crate::operations::worker_ops::Retry;
use crate::operations::{JobPage, Operations, SharedState};
use crate::settings::Settings;
use crate::stats::JobStats;
use mainstay::remote::wait;
use mainstay::{At, Command, Database, InteractiveTransaction, MAIN, Result, Stamp};
use object_store::ObjectStore;
use std::sync::Arc;
use std::time::Duration;

/// The jobs of a database under one namespace, with a blocking API.
///
/// Clones share everything. See the [crate] for an example.
#[derive(Clone)]
pub struct Jobs {
    operations: Operations<'static>,
    db: Database,
}

impl Jobs {
    /// Opens the jobs without an object store: input and output that exceed the inline limit are rejected.
    ///
    /// Declares the required indexes if they do not exist.
    pub fn open(db: &Database, settings: Settings) -> Result<Jobs> {
        Jobs::open_with_store(db, settings, None)
    }

    /// Opens the jobs with an object store for large input and output. If [`Jobs::collect_garbage`] is used, all
    /// objects under the namespace must belong to this database.
    pub fn open_with(
        db: &Database,
        settings: Settings,
        objects: Arc<dyn ObjectStore>,
    ) -> Result<Jobs> {
        Jobs::open_with_store(db, settings, Some(objects))
    }

    fn open_with_store(
        db: &Database,
        settings: Settings,
        objects: Option<Arc<dyn ObjectStore>>,
    ) -> Result<Jobs> {
        settings.check()?;
        let shared = SharedState::new(Some(db), settings, objects);
        let operations = Operations::new(shared, JobsBackend::blocking(db, MAIN)?);
        wait(operations.declare_all())?;
        Ok(Jobs { operations, db: db.clone() })
    }

    fn with_operations(&self, operations: Operations<'static>) -> Jobs {
        Jobs { operations, db: self.db.clone() }
    }

    /// Returns a handle on another branch. Fails with `BranchNotFound` if no such branch exists.
    ///
    /// ```
    /// use mainstay::{At, Database, MergeStrategy};
    /// use mainstay_jobs::{Jobs, Settings, State, Submission};
    /// let db = Database::memory()?;
    /// let jobs = Jobs::open(&db, Settings::default())?;
    /// db.fork("try", "main", At::Latest)?;
    /// let tried = jobs.on_branch("try")?;
    /// tried.submit(&Submission::new("email", "1"))?;
    /// // Jobs are claimed only on `main`, unless the settings allow other branches.
    /// assert!(tried.claim("email", "worker 1", None).is_err());
    /// assert_eq!(jobs.count("email", State::Pending)?, 0);
    /// db.merge("try", "main", MergeStrategy::Strict)?;
    /// assert!(jobs.claim("email", "worker 1", None)?.is_some());
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn on_branch(&self, branch: &str) -> Result<Jobs> {
        wait(self.operations.on_branch(branch)).map(|operations| self.with_operations(operations))
    }

    /// The branch of this handle.
    pub fn branch(&self) -> &str {
        self.operations.backend.branch()
    }

    /// Returns the async handle. Fails with `Unsupported` for a served database: see [`AsyncJobs::served`].
    pub fn to_async(&self) -> Result<AsyncJobs> {
        let backend = JobsBackend::asynchronous(&self.db, self.branch())?;
        let operations = self.operations.with_backend(backend);
        Ok(AsyncJobs(operations.with_commands(self.operations.extra_commands.iter().cloned())))
    }

    /// Returns the jobs inside an open transaction, on its branch. All operations take effect when it
    /// commits, together with its other writes. See [`JobsTx`].
    pub fn on<'t>(&self, transaction: &'t mut InteractiveTransaction) -> JobsTx<'t> {
        JobsTx(self.operations.with_backend(JobsBackend::in_transaction(transaction, &self.db)))
    }

    /// Returns the locks of the same namespace on the same branch.
    pub fn locks(&self) -> Locks {
        Locks::with(self.operations.with_commands([]), &self.db)
    }

    /// Returns a handle whose operations execute these commands in their own transaction: they take effect
    /// if and only if the operation does. So "the job is completed" and "the event is written" become one
    /// atomic step. If an operation is repeated after a lost reply, the commands execute only once.
    ///
    /// ```
    /// use mainstay::{CellCommand, Database, Name};
    /// use mainstay_jobs::{Jobs, Settings, Submission};
    /// let db = Database::memory()?;
    /// let jobs = Jobs::open(&db, Settings::default())?;
    /// jobs.submit(&Submission::new("email", "1"))?;
    /// let claimed = jobs.claim("email", "worker 1", None)?.expect("there is one");
    /// let event = CellCommand::set(Name::new("email/1/done")?, "sent");
    /// jobs.with_commands([event.into()]).complete(&claimed.grant, None)?;
    /// assert_eq!(db.cells().get("email/1/done")?, Some("sent".into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[must_use]
    pub fn with_commands(&self, commands: impl IntoIterator<Item = Command>) -> Jobs {
        self.with_operations(self.operations.with_commands(commands))
    }

    /// The settings of these jobs.
    pub fn settings(&self) -> &Settings {
        self.operations.settings()
    }

    /// The database of these jobs.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The key of a job's record.
    pub fn key(&self, name: &JobName) -> String {
        self.operations.key(name)
    }

    /// The database time in microseconds since 1970, which leases and `run_at` use.
    pub fn now_us(&self) -> Result<Stamp> {
        self.db.now_us()
    }

    /// Counters of the operations through this handle and its clones.
    pub fn stats(&self) -> JobStats {
        self.operations.counters().stats()
    }

    /// Submits a job. Returns its state: pending, or blocked while a dependency is not completed. Fails
    /// with `JobExists` if the job exists, and with `UnknownDependency` if a dependency does not.
    ///
    /// A failed or cancelled dependency keeps the job blocked. [`Jobs::retry`] of the dependency lets both
    /// continue; [`Jobs::cancel`] of the job gives it up.
    pub fn submit(&self, submission: &Submission) -> Result<State> {
        wait(self.operations.submit(submission))
    }

    /// Submits several jobs, which may depend on each other, atomically. Returns their states. Together
    /// with their other dependencies they may be at most 100,000 jobs, and one job may have at most 10,000
    /// dependents.
    pub fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        wait(self.operations.submit_all(submissions))
    }

    /// Claims the next job of a type: of the pending jobs that are due, the one with the highest priority,
    /// and of equal ones the oldest. Returns `None` if no job is ready. No two callers get the same job.
    ///
    /// `lease` is how long the worker may be silent before the sweeper takes the job away. `None`: the
    /// lease that the job was submitted with.
    pub fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<ClaimedJob>> {
        wait(self.operations.claim(task_type, worker, lease))
    }

    /// Claims a job like [`Jobs::claim`], and blocks for at most `timeout` until one is ready. Waiters are
    /// served in order; each is woken when a job is ready for it, whether submitted, swept or due.
    pub fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<ClaimedJob>> {
        wait(self.operations.claim_within(task_type, worker, lease, timeout))
    }

    /// Restarts the lease, to show that the worker is alive. A new length replaces the current one. Fails
    /// with `Fenced` if the job was lost.
    pub fn heartbeat(&self, grant: &Grant, lease: Option<Duration>) -> Result<State> {
        wait(self.operations.heartbeat(grant, lease))
    }

    /// Records a completed step, and the total number of steps if known. Restarts the lease. Fails with
    /// `Fenced` if the job was lost.
    pub fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        wait(self.operations.step(grant, step, of))
    }

    /// Completes the job. Dependents without other open dependencies become pending in the same
    /// transaction. Fails with `Fenced` if the job was lost.
    pub fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        wait(self.operations.complete(grant, result))
    }

    /// Fails the job. Returns its new state: pending if it is retried, else failed. Fails with `Fenced` if
    /// the job was lost.
    pub fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        wait(self.operations.fail(grant, message, retry))
    }

    /// Cancels a job. Its worker, if any, is rejected with `Fenced` at its next write. Dependents stay
    /// blocked. The operation is idempotent.
    pub fn cancel(&self, name: &JobName) -> Result<State> {
        wait(self.operations.cancel(name))
    }

    /// Retries a failed or cancelled job at once, with all its retries, even if it had waited for its
    /// `run_at`. Returns its new state: pending, or blocked while a dependency is not completed.
    pub fn retry(&self, name: &JobName) -> Result<State> {
        wait(self.operations.retry(name))
    }

    /// Deletes a completed, failed or cancelled job, and returns its last state. A job that is not
    /// completed can only be deleted if no job depends on it. Its objects are deleted later by
    /// [`Jobs::collect_garbage`].
    pub fn delete(&self, name: &JobName) -> Result<State> {
        wait(self.operations.delete(name))
    }

    /// Returns a job, or `None` if it does not exist.
    pub fn get(&self, name: &JobName) -> Result<Option<Job>> {
        wait(self.operations.get(name))
    }

    /// Returns a job as of a point in time.
    pub fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        wait(self.operations.get_at(name, at))
    }

    /// Lists the versions of a job, newest first. With `before`, only versions with a smaller counter are
    /// listed.
    pub fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        wait(self.operations.history(name, limit, before))
    }

    /// Lists the jobs of a type in order of their ids, after the id `after`. With `state`, only jobs in
    /// that state.
    pub fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<JobPage> {
        wait(self.operations.list(task_type, state, after, limit, None))
    }

    /// Lists jobs like [`Jobs::list`], as of a point in time.
    pub fn list_at(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
        at: At,
    ) -> Result<JobPage> {
        wait(self.operations.list(task_type, state, after, limit, Some(at)))
    }

    /// Counts the jobs of a type in a state.
    pub fn count(&self, task_type: &str, state: State) -> Result<u64> {
        wait(self.operations.count(task_type, state, None))
    }

    /// Counts jobs like [`Jobs::count`], as of a point in time.
    pub fn count_at(&self, task_type: &str, state: State, at: At) -> Result<u64> {
        wait(self.operations.count(task_type, state, Some(at)))
    }

    /// Returns a job's input, from its record or the object store. `None` if it has none.
    pub fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        wait(self.operations.params(job))
    }

    /// Returns a job's output, from its record or the object store. `None` if it has none.
    pub fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        wait(self.operations.result(job))
    }

    /// Takes jobs away from silent workers: held jobs whose lease has expired. If
    /// [`Settings::stuck_after_ms`](crate::Settings::stuck_after_ms) is set, also held jobs that were not
    /// written for that long. They are retried, or failed if they have no retries left.
    pub fn sweep(&self) -> Result<SweepReport> {
        self.sweep_stuck(self.settings().stuck_after_ms)
    }

    /// The first jobs swept through this handle and its clones since the last call.
    pub(crate) fn drain_swept(&self) -> Vec<(JobName, State)> {
        self.operations.counters().drain_swept()
    }

    /// Sweeps like [`Jobs::sweep`], with another threshold. Without an index for it, this scans all held
    /// jobs.
    pub fn sweep_stuck(&self, stuck_after_ms: Option<u64>) -> Result<SweepReport> {
        wait(self.operations.sweep_stuck(stuck_after_ms))
    }

    /// Deletes old objects that no record names, in any retained version on any branch: those written by
    /// rejected operations, and those of deleted jobs. An operation in progress writes its object before
    /// its record. So `older_than` must be longer than any operation takes.
    pub fn collect_garbage(&self, older_than: Duration) -> Result<GcReport> {
        wait(self.operations.collect_garbage(older_than))
    }
}
