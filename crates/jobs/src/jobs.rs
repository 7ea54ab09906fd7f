//! The handle that waits: every operation is done when its call returns.

use crate::asynchronous::AsyncJobs;
use crate::claim::{Claimed, Grant};
use crate::figures::JobFigures;
use crate::holder::Retry;
use crate::job::Job;
use crate::locks::Locks;
use crate::name::JobName;
use crate::operations::{JobPage, Operations, Shared};
use crate::port::Port;
use crate::settings::Settings;
use crate::state::State;
use crate::submit::Submission;
use crate::sweeper::SweepReport;
use crate::tidy::TidyReport;
use crate::version::JobVersion;
use crate::within::JobsIn;
use mainstay::remote::wait;
use mainstay::{At, Command, Database, InteractiveTransaction, MAIN, Result, Stamp};
use object_store::ObjectStore;
use std::sync::Arc;
use std::time::Duration;

/// The jobs of a database under one namespace.
///
/// Clones share everything. See the [crate] for an example.
#[derive(Clone)]
pub struct Jobs {
    operations: Operations<'static>,
    db: Database,
}

impl Jobs {
    /// Jobs with their large input and output nowhere: what does not fit into a field is refused.
    ///
    /// Declares the indexes that jobs need, if that has not been done.
    pub fn open(db: &Database, settings: Settings) -> Result<Jobs> {
        Jobs::open_over(db, settings, None)
    }

    /// Jobs with their large input and output in an object store. Of a store that [`Jobs::tidy`] is used on, what
    /// lies under the namespace belongs to this database alone.
    pub fn open_with(
        db: &Database,
        settings: Settings,
        objects: Arc<dyn ObjectStore>,
    ) -> Result<Jobs> {
        Jobs::open_over(db, settings, Some(objects))
    }

    fn open_over(
        db: &Database,
        settings: Settings,
        objects: Option<Arc<dyn ObjectStore>>,
    ) -> Result<Jobs> {
        settings.check()?;
        let shared = Shared::new(Some(db), settings, objects);
        let operations = Operations::new(shared, Port::blocking(db, MAIN)?);
        wait(operations.declare_all())?;
        Ok(Jobs { operations, db: db.clone() })
    }

    fn with(&self, operations: Operations<'static>) -> Jobs {
        Jobs { operations, db: self.db.clone() }
    }

    /// The same on another branch, which has to be there.
    ///
    /// ```
    /// use mainstay::{At, Database, MergeStrategy};
    /// use mainstay_jobs::{Jobs, Settings, State, Submission};
    /// let db = Database::memory()?;
    /// let jobs = Jobs::open(&db, Settings::default())?;
    /// db.fork("try", "main", At::Latest)?;
    /// let tried = jobs.on_branch("try")?;
    /// tried.submit(&Submission::new("email", "1"))?;
    /// // Jobs are claimed on `main` alone, unless the settings say otherwise.
    /// assert!(tried.claim("email", "worker 1", None).is_err());
    /// assert_eq!(jobs.count("email", State::Pending)?, 0);
    /// db.merge("try", "main", MergeStrategy::Strict)?;
    /// assert!(jobs.claim("email", "worker 1", None)?.is_some());
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn on_branch(&self, branch: &str) -> Result<Jobs> {
        wait(self.operations.on_branch(branch)).map(|operations| self.with(operations))
    }

    /// The branch they are on.
    pub fn branch(&self) -> &str {
        self.operations.port.branch()
    }

    /// The same, to be awaited; `Unsupported` where the database is served: see [`AsyncJobs::served`].
    pub fn to_async(&self) -> Result<AsyncJobs> {
        let port = Port::submitted(&self.db, self.branch())?;
        let operations = self.operations.by(port);
        Ok(AsyncJobs(operations.beside(self.operations.beside.iter().cloned())))
    }

    /// The jobs as an open transaction sees them, on its branch: whatever is done takes effect when it commits,
    /// with everything else in it. See [`JobsIn`].
    pub fn on<'t>(&self, transaction: &'t mut InteractiveTransaction) -> JobsIn<'t> {
        JobsIn(self.operations.by(Port::within(transaction, &self.db)))
    }

    /// Locks under the same namespace on the same branch.
    pub fn locks(&self) -> Locks {
        Locks::with(self.operations.beside([]), &self.db)
    }

    /// A handle whose operations carry these commands in their own transaction: they take effect if and only
    /// if the operation does, which makes "the job is completed" and "the event is written" one step. An
    /// operation that is repeated after its reply was lost does them once.
    ///
    /// ```
    /// use mainstay::{CellCommand, Database, Name};
    /// use mainstay_jobs::{Jobs, Settings, Submission};
    /// let db = Database::memory()?;
    /// let jobs = Jobs::open(&db, Settings::default())?;
    /// jobs.submit(&Submission::new("email", "1"))?;
    /// let claimed = jobs.claim("email", "worker 1", None)?.expect("there is one");
    /// let event = CellCommand::set(Name::new("email/1/done")?, "sent");
    /// jobs.beside([event.into()]).complete(&claimed.grant, None)?;
    /// assert_eq!(db.cells().get("email/1/done")?, Some("sent".into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[must_use]
    pub fn beside(&self, commands: impl IntoIterator<Item = Command>) -> Jobs {
        self.with(self.operations.beside(commands))
    }

    /// What holds for these jobs.
    pub fn settings(&self) -> &Settings {
        self.operations.settings()
    }

    /// The database they are in.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The key of a job's record.
    pub fn key(&self, name: &JobName) -> String {
        self.operations.key(name)
    }

    /// The database's time in microseconds; leases and `run_at` go by it.
    pub fn now_us(&self) -> Result<Stamp> {
        self.db.now_us()
    }

    /// What was done through this handle and its clones.
    pub fn figures(&self) -> JobFigures {
        self.operations.tally().figures()
    }

    /// Submits a job; gives its state: pending, or blocked while something it depends on is not completed.
    ///
    /// A dependency that failed or was cancelled keeps it blocked: [`Jobs::retry`] of the dependency lets both
    /// go on, [`Jobs::cancel`] of the dependent gives it up.
    pub fn submit(&self, submission: &Submission) -> Result<State> {
        wait(self.operations.submit(submission))
    }

    /// Submits jobs that may depend on each other, all or none; gives their states. There are at most 100,000 of
    /// them together with what they depend on beside each other, and at most 10,000 wait for one.
    pub fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        wait(self.operations.submit_all(submissions))
    }

    /// Gives the next job of a type to a worker: of those that are pending and due the one with the highest
    /// priority, of equal ones the oldest. Of any number of callers no two get the same.
    ///
    /// The lease says how long the worker may be silent before the sweeper takes the job away; nothing: what
    /// the job was submitted with.
    pub fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Claimed>> {
        wait(self.operations.claim(task_type, worker, lease))
    }

    /// As [`Jobs::claim`], and waits for a job for at most so long. Whoever waits is woken when it is its turn:
    /// when there is a job for it, be it submitted, swept, or due.
    pub fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<Claimed>> {
        wait(self.operations.claim_within(task_type, worker, lease, timeout))
    }

    /// Says that the worker is alive: the lease begins anew, with this length or the one it has.
    pub fn heartbeat(&self, grant: &Grant, lease: Option<Duration>) -> Result<State> {
        wait(self.operations.heartbeat(grant, lease))
    }

    /// Says that a step is done, and how many there are if that is known. The lease begins anew.
    pub fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        wait(self.operations.step(grant, step, of))
    }

    /// The job is done. What waited for it alone becomes pending in the same transaction.
    pub fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        wait(self.operations.complete(grant, result))
    }

    /// The job did not succeed. Gives what it has become: pending where it is tried again, else failed.
    pub fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        wait(self.operations.fail(grant, message, retry))
    }

    /// Calls a job off. Its worker, if it has one, gets `Fenced` on its next write. Jobs that depend on it stay
    /// blocked. Cancelling twice is cancelling once.
    pub fn cancel(&self, name: &JobName) -> Result<State> {
        wait(self.operations.cancel(name))
    }

    /// Tries a job again that failed or was cancelled, with all its retries and at once, whatever time it waited for.
    /// Gives what it has become: pending, or blocked while something it depends on is not completed.
    pub fn retry(&self, name: &JobName) -> Result<State> {
        wait(self.operations.retry(name))
    }

    /// Deletes a job that was completed, failed or cancelled; of what is not completed only if nobody waits for it.
    /// Gives how it stood. What it has in an object store goes with [`Jobs::tidy`].
    pub fn delete(&self, name: &JobName) -> Result<State> {
        wait(self.operations.delete(name))
    }

    /// A job as it stands.
    pub fn get(&self, name: &JobName) -> Result<Option<Job>> {
        wait(self.operations.get(name))
    }

    /// A job as it was.
    pub fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        wait(self.operations.get_at(name, at))
    }

    /// The versions of a job, newest first; `before` leaves out counters from it on.
    pub fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        wait(self.operations.history(name, limit, before))
    }

    /// The jobs of a type in the order of their ids, those in one state if that is given, behind an id.
    pub fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<JobPage> {
        wait(self.operations.list(task_type, state, after, limit, None))
    }

    /// As [`Jobs::list`], as it was.
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

    /// How many jobs of a type are in a state.
    pub fn count(&self, task_type: &str, state: State) -> Result<u64> {
        wait(self.operations.count(task_type, state, None))
    }

    /// As [`Jobs::count`], as it was.
    pub fn count_at(&self, task_type: &str, state: State, at: At) -> Result<u64> {
        wait(self.operations.count(task_type, state, Some(at)))
    }

    /// A job's input.
    pub fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        wait(self.operations.params(job))
    }

    /// A job's output.
    pub fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        wait(self.operations.result(job))
    }

    /// Takes away what workers have fallen silent on: held jobs whose lease is over or, if
    /// [`Settings::stuck_after_ms`](crate::Settings::stuck_after_ms) is set, which nobody has written to for
    /// that long.
    pub fn sweep(&self) -> Result<SweepReport> {
        self.sweep_stuck(self.settings().stuck_after_ms)
    }

    /// The first of the jobs that were swept through this handle and its clones since this was asked.
    pub(crate) fn take_swept(&self) -> Vec<(JobName, State)> {
        self.operations.tally().take_swept()
    }

    /// As [`Jobs::sweep`], with another threshold. Without an index for it, this looks at all held jobs.
    pub fn sweep_stuck(&self, stuck_after_ms: Option<u64>) -> Result<SweepReport> {
        wait(self.operations.sweep_stuck(stuck_after_ms))
    }

    /// Deletes objects that were written so long ago or earlier and that no record names, in any version that is
    /// kept, on any branch: what refused operations wrote, and what is left of jobs that are gone. Operations
    /// that are under way have written objects that no record names yet, so the age has to be longer than any takes.
    pub fn tidy(&self, older_than: Duration) -> Result<TidyReport> {
        wait(self.operations.tidy(older_than))
    }
}
