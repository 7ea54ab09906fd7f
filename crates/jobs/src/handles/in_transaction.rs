//! Job and lock operations inside an open transaction, atomic with its other writes.
//!
//! ```text
//!   begin --> jobs.on(&mut t).claim(...)  t.set(...)  --> commit -> revision: the token of the claimed job
//! ```

use crate::maintenance::sweep::SweepReport;
use crate::model::job::{Job, field};
use crate::model::name::JobName;
use crate::model::state::State;
use crate::operations::claim::{ClaimedJob, Grant};
use crate::operations::lock::LockHolder;
use crate::operations::submit::Submission;
use crate::operations::worker_ops::Retry;
use crate::operations::{JobPage, Operations};
use mainstay::remote::wait;
use mainstay::{Field, Result, Revision};
use std::time::Duration;

/// Jobs inside an open transaction: all operations take effect when it commits.
///
/// Operations never wait for a job. A holder that lost its job gets `Fenced` at once. Every other rejection
/// (the job exists, the transition is not allowed) also comes at once and leaves the transaction unchanged.
/// If other writers changed the data that was read, the commit fails with `Conflict`, and the caller must
/// start again. A claim reads all pending jobs of its type, so it conflicts with every concurrent
/// submission and claim of that type. The claims of [`Jobs`](crate::Jobs) never conflict.
///
/// ```
/// use mainstay::Database;
/// use mainstay_jobs::{Jobs, Settings, State, Submission};
/// let db = Database::memory()?;
/// let jobs = Jobs::open(&db, Settings::default())?;
/// jobs.submit(&Submission::new("email", "1"))?;
/// let mut t = db.begin()?;
/// let claimed = jobs.on(&mut t).claim("email", "worker 1", None)?.expect("there is one");
/// t.incr("claimed", 1)?;
/// let claimed = claimed.at(t.commit()?.revision);
/// assert_eq!(jobs.complete(&claimed.grant, None)?, State::Completed);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct JobsTx<'t>(pub(crate) Operations<'t>);

/// A job that is claimed once the transaction has committed.
#[derive(Clone, Debug, PartialEq)]
pub struct UncommittedClaim {
    /// The job as the transaction sees it: its token is 0, and its times are those of the transaction's
    /// start.
    pub job: Job,
}

impl UncommittedClaim {
    /// Returns the claim, given the revision of the commit.
    pub fn at(mut self, commit: Revision) -> ClaimedJob {
        self.job.token = Some(commit);
        if let Ok(field) = Field::new(field::TOKEN) {
            self.job.fields.insert(field, commit.to_string().into_bytes());
        }
        let grant = Grant { name: self.job.name.clone(), token: commit };
        ClaimedJob { grant, job: self.job }
    }
}

/// The token of a lock that was taken in an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncommittedToken {
    /// Its owner already had the lock with this token.
    Existing(Revision),
    /// The token will be the revision of the commit.
    CommitRevision,
}

impl UncommittedToken {
    /// Returns the token, given the revision of the commit.
    pub fn at(self, commit: Revision) -> Revision {
        match self {
            UncommittedToken::Existing(token) => token,
            UncommittedToken::CommitRevision => commit,
        }
    }
}

impl JobsTx<'_> {
    /// As [`Jobs::submit`](crate::Jobs::submit).
    pub fn submit(&self, submission: &Submission) -> Result<State> {
        wait(self.0.submit(submission))
    }

    /// As [`Jobs::submit_all`](crate::Jobs::submit_all), but limited by the transaction's read set of
    /// 10,000 keys.
    pub fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        wait(self.0.submit_all(submissions))
    }

    /// As [`Jobs::claim`](crate::Jobs::claim). The token is known after the commit.
    pub fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<UncommittedClaim>> {
        let claimed = wait(self.0.claim(task_type, worker, lease))?;
        Ok(claimed.map(|claimed| UncommittedClaim { job: claimed.job }))
    }

    /// As [`Jobs::heartbeat`](crate::Jobs::heartbeat).
    pub fn heartbeat(&self, grant: &Grant, lease: Option<Duration>) -> Result<State> {
        wait(self.0.heartbeat(grant, lease))
    }

    /// As [`Jobs::step`](crate::Jobs::step).
    pub fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        wait(self.0.step(grant, step, of))
    }

    /// As [`Jobs::complete`](crate::Jobs::complete).
    pub fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        wait(self.0.complete(grant, result))
    }

    /// As [`Jobs::fail`](crate::Jobs::fail).
    pub fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        wait(self.0.fail(grant, message, retry))
    }

    /// As [`Jobs::cancel`](crate::Jobs::cancel).
    pub fn cancel(&self, name: &JobName) -> Result<State> {
        wait(self.0.cancel(name))
    }

    /// As [`Jobs::retry`](crate::Jobs::retry).
    pub fn retry(&self, name: &JobName) -> Result<State> {
        wait(self.0.retry(name))
    }

    /// As [`Jobs::delete`](crate::Jobs::delete).
    pub fn delete(&self, name: &JobName) -> Result<State> {
        wait(self.0.delete(name))
    }

    /// As [`Jobs::get`](crate::Jobs::get).
    pub fn get(&self, name: &JobName) -> Result<Option<Job>> {
        wait(self.0.get(name))
    }

    /// As [`Jobs::list`](crate::Jobs::list).
    pub fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<JobPage> {
        wait(self.0.list(task_type, state, after, limit, None))
    }

    /// As [`Jobs::count`](crate::Jobs::count).
    pub fn count(&self, task_type: &str, state: State) -> Result<u64> {
        wait(self.0.count(task_type, state, None))
    }

    /// As [`Jobs::sweep_stuck`](crate::Jobs::sweep_stuck).
    pub fn sweep_stuck(&self, stuck_after_ms: Option<u64>) -> Result<SweepReport> {
        wait(self.0.sweep_stuck(stuck_after_ms))
    }
}

/// Locks inside an open transaction: all operations take effect when it commits. See [`JobsTx`].
pub struct LocksTx<'t>(pub(crate) Operations<'t>);

impl LocksTx<'_> {
    /// As [`Locks::take`](crate::Locks::take). The token is known after the commit.
    pub fn take(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
    ) -> Result<Option<UncommittedToken>> {
        let token = wait(self.0.take(name, owner, lease))?;
        Ok(token.map(|token| match token {
            0 => UncommittedToken::CommitRevision,
            token => UncommittedToken::Existing(token),
        }))
    }

    /// As [`Locks::renew`](crate::Locks::renew).
    pub fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        wait(self.0.renew(name, token, lease))
    }

    /// As [`Locks::free`](crate::Locks::free).
    pub fn free(&self, name: &str, token: Revision) -> Result<bool> {
        wait(self.0.free(name, token))
    }

    /// As [`Locks::holder`](crate::Locks::holder).
    pub fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        wait(self.0.holder(name))
    }
}
