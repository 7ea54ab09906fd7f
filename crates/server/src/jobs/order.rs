//! Requests to jobs and locks, independent of the front end.
//!
//! ```text
//!   words of RESP  --+                         +-- alone: a task that blocks no thread
//!   JSON of HTTP   --+--> Order --permissions--+
//!                                              +-- inside a transaction: at once
//! ```

use super::keys::Keys;
use crate::security::{Area, Denied, Right, User};
use mainstay::{Result, Revision};
use mainstay_jobs::{
    ClaimedJob, Grant, JobName, Retry, State, Submission, UncommittedClaim, UncommittedToken,
};
use std::time::Duration;

const READ: Right = Right::read(Area::Records);
const WRITE: Right = Right::write(Area::Records);

/// A request to jobs and locks.
#[derive(Clone, Debug)]
pub enum Order {
    /// Submits new jobs atomically.
    Submit(Vec<New>),
    /// Claims the next job of a type.
    Claim(Claim),
    /// Renews the lease of a job.
    Beat(Grant, Option<Duration>),
    /// Reports the current step, and optionally the total number of steps.
    Step(Grant, u64, Option<u64>),
    /// Completes the job with this output.
    Done(Grant, Option<Vec<u8>>),
    /// Fails the job with a message, and says whether it is retried.
    Fail(Grant, String, Retry),
    /// Cancels the job.
    Cancel(JobName),
    /// Retries the job.
    Retry(JobName),
    /// Acquires a lock for an owner, with a lease.
    Take(String, String, Duration),
    /// Renews the lease of a lock.
    Renew(String, Revision, Duration),
    /// Releases a lock.
    Free(String, Revision),
}

/// A job to submit, with its dependencies.
#[derive(Clone, Debug)]
pub struct New {
    /// The name of the job.
    pub name: JobName,
    /// The jobs that have to complete first.
    pub depends_on: Vec<JobName>,
    /// The complete submission.
    pub submission: Submission,
}

/// The options of a claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The type of job wanted.
    pub task_type: String,
    /// The name of the worker.
    pub worker: String,
    /// The lease: the longest time without a heartbeat. `None` uses the setting.
    pub lease: Option<Duration>,
    /// The longest wait for a job; `None` does not wait.
    pub wait: Option<Duration>,
}

/// A claimed job and its input.
pub type Given = (ClaimedJob, Option<Vec<u8>>);

/// The result of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The states of the new jobs.
    States(Vec<State>),
    /// The new state of the job.
    State(State),
    /// The worker still holds the job, which is in this state.
    Held(State),
    /// The lease of the lock was renewed.
    Renewed,
    /// The job and its input; `None` if no job was available.
    Claimed(Option<Box<Given>>),
    /// A claim in a transaction. Its fencing token is known after the commit.
    ClaimedIn(Box<(UncommittedClaim, Option<Vec<u8>>)>),
    /// The fencing token of the lock; `None` while another owner holds it.
    Taken(Option<Revision>),
    /// A lock acquired in a transaction. Its fencing token is known after the commit.
    TakenIn(UncommittedToken),
    /// Whether the lock was held.
    Freed(bool),
}

impl New {
    /// Creates a job without input and without dependencies.
    pub fn job(name: JobName) -> New {
        let submission = Submission::new(name.task_type(), name.id());
        New { name, depends_on: Vec::new(), submission }
    }

    /// Adds a dependency. `job` is an id of the same type, or `type/id`.
    pub fn depends_on(mut self, job: &str) -> Result<New> {
        let (task_type, id) = job.split_once('/').unwrap_or((self.name.task_type(), job));
        let name = JobName::new(task_type, id)?;
        self.submission = self.submission.depends_on_job(name.task_type(), name.id());
        self.depends_on.push(name);
        Ok(self)
    }

    /// Changes the submission with `say`.
    pub fn with<E>(
        mut self,
        say: impl FnOnce(Submission) -> std::result::Result<Submission, E>,
    ) -> std::result::Result<New, E> {
        self.submission = say(self.submission)?;
        Ok(self)
    }
}

impl Outcome {
    /// Returns the approximate memory of the data in it.
    pub fn weight_bytes(&self) -> usize {
        let data = match self {
            Outcome::Claimed(Some(given)) => given.1.as_ref(),
            Outcome::ClaimedIn(given) => given.1.as_ref(),
            _ => None,
        };
        data.map_or(0, Vec::len)
    }

    /// Completes a result from inside a transaction with the revision of its commit.
    pub fn at(self, revision: Revision) -> Outcome {
        match self {
            Outcome::ClaimedIn(inside) => {
                let (claimed, data) = *inside;
                Outcome::Claimed(Some(Box::new((claimed.at(revision), data))))
            }
            Outcome::TakenIn(token) => Outcome::Taken(Some(token.at(revision))),
            other => other,
        }
    }
}

impl Order {
    /// Returns whether it waits for other clients.
    pub fn waits(&self) -> bool {
        matches!(self, Order::Claim(Claim { wait: Some(wait), .. }) if !wait.is_zero())
    }

    /// Limits the waiting time.
    pub fn waits_at_most(&mut self, limit: Duration) {
        if let Order::Claim(Claim { wait: Some(wait), .. }) = self {
            *wait = (*wait).min(limit);
        }
    }

    /// Removes the waiting time.
    pub fn waits_no_longer(&mut self) {
        if let Order::Claim(claim) = self {
            claim.wait = None;
        }
    }

    /// Checks that a user may read and write the records behind the jobs and locks of this request.
    pub fn allow(&self, user: &User, keys: &Keys) -> std::result::Result<(), Denied> {
        if user.is_unlimited() {
            return Ok(());
        }
        user.may(READ)?;
        user.may(WRITE)?;
        let job = |name: &JobName| user.may_touch(keys.job(name).as_bytes());
        match self {
            Order::Submit(all) => all.iter().try_for_each(|new| {
                job(&new.name)?;
                new.depends_on.iter().try_for_each(job)
            }),
            Order::Claim(claim) => user.may_list(keys.of_type(&claim.task_type).as_bytes()),
            Order::Beat(grant, _)
            | Order::Step(grant, ..)
            | Order::Done(grant, _)
            | Order::Fail(grant, ..) => job(&grant.name),
            Order::Cancel(name) | Order::Retry(name) => job(name),
            Order::Take(lock, ..) | Order::Renew(lock, ..) | Order::Free(lock, _) => {
                user.may_touch(keys.lock(lock).as_bytes())
            }
        }
    }
}
