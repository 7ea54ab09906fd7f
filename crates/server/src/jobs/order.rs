//! Orders: what somebody wants done with jobs and locks, whichever face it came by.
//!
//! ```text
//!   words of RESP  --+                     +-- alone: a task that holds no thread
//!   JSON of HTTP   --+--> Order --rights--+
//!                                          +-- inside a transaction: at once
//! ```

use super::keys::Keys;
use crate::security::{Area, Denied, Right, User};
use mainstay::{Result, Revision};
use mainstay_jobs::{Claimed, ClaimedIn, Grant, JobName, Retry, State, Submission, TokenIn};
use std::time::Duration;

const READ: Right = Right::read(Area::Records);
const WRITE: Right = Right::write(Area::Records);

/// What somebody wants done.
#[derive(Clone, Debug)]
pub enum Order {
    /// New jobs, all or none.
    Submit(Vec<New>),
    /// The next job of a type.
    Claim(Claim),
    /// The worker is alive.
    Beat(Grant, Option<Duration>),
    /// A step is done, of so many.
    Step(Grant, u64, Option<u64>),
    /// The job is done, with this output.
    Done(Grant, Option<Vec<u8>>),
    /// The job did not succeed.
    Fail(Grant, String, Retry),
    /// The job is called off.
    Cancel(JobName),
    /// The job is tried again.
    Retry(JobName),
    /// A lock, for its owner and so long.
    Take(String, String, Duration),
    /// The lock is held on, for so long.
    Renew(String, Revision, Duration),
    /// The lock is given back.
    Free(String, Revision),
}

/// A job to be submitted, and which others that concerns.
#[derive(Clone, Debug)]
pub struct New {
    /// Its name.
    pub name: JobName,
    /// What it waits for.
    pub depends_on: Vec<JobName>,
    /// All of it.
    pub submission: Submission,
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Of which type.
    pub task_type: String,
    /// Who asks.
    pub worker: String,
    /// How long it may be silent.
    pub lease: Option<Duration>,
    /// How long it waits for one.
    pub wait: Option<Duration>,
}

/// A job that was claimed, and its input.
pub type Given = (Claimed, Option<Vec<u8>>);

/// What came of an order.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// What the new jobs are.
    States(Vec<State>),
    /// What has become of the job.
    State(State),
    /// The worker has it still, and it is in this state.
    Held(State),
    /// The lock is held on.
    Renewed,
    /// The job and its input; nothing where none was there.
    Claimed(Option<Box<Given>>),
    /// The same, once the transaction is committed.
    ClaimedIn(Box<(ClaimedIn, Option<Vec<u8>>)>),
    /// The lock's token; nothing while another owner has it.
    Taken(Option<Revision>),
    /// The same, once the transaction is committed.
    TakenIn(TokenIn),
    /// Whether the lock was held.
    Freed(bool),
}

impl New {
    /// One without input that waits for nothing.
    pub fn job(name: JobName) -> New {
        let submission = Submission::new(name.task_type(), name.id());
        New { name, depends_on: Vec::new(), submission }
    }

    /// It runs once this is completed: an id of its own type, or a type, a slash and an id.
    pub fn depends_on(mut self, job: &str) -> Result<New> {
        let (task_type, id) = job.split_once('/').unwrap_or((self.name.task_type(), job));
        let name = JobName::new(task_type, id)?;
        self.submission = self.submission.depends_on_job(name.task_type(), name.id());
        self.depends_on.push(name);
        Ok(self)
    }

    /// The same with something more said of it.
    pub fn with<E>(
        mut self,
        say: impl FnOnce(Submission) -> std::result::Result<Submission, E>,
    ) -> std::result::Result<New, E> {
        self.submission = say(self.submission)?;
        Ok(self)
    }
}

impl Outcome {
    /// The memory that what it holds takes, about.
    pub fn weight_bytes(&self) -> usize {
        let data = match self {
            Outcome::Claimed(Some(given)) => given.1.as_ref(),
            Outcome::ClaimedIn(given) => given.1.as_ref(),
            _ => None,
        };
        data.map_or(0, Vec::len)
    }

    /// The same, after its transaction has taken this revision.
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
    /// Whether it waits for what others do.
    pub fn waits(&self) -> bool {
        matches!(self, Order::Claim(Claim { wait: Some(wait), .. }) if !wait.is_zero())
    }

    /// Waits no longer than so long.
    pub fn waits_at_most(&mut self, limit: Duration) {
        if let Order::Claim(Claim { wait: Some(wait), .. }) = self {
            *wait = (*wait).min(limit);
        }
    }

    /// Waits for nothing any more.
    pub fn waits_no_longer(&mut self) {
        if let Order::Claim(claim) = self {
            claim.wait = None;
        }
    }

    /// Whoever may read and write the records that jobs and locks are may work on them.
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
