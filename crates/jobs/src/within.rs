//! Operations inside an open transaction.

use crate::claim::{Claimed, Grant};
use crate::holder::Retry;
use crate::job::Job;
use crate::jobs::{JobPage, Jobs};
use crate::lock::{LockHolder, Locks};
use crate::name::JobName;
use crate::state::State;
use crate::submit::Submission;
use mainstay::{Code, Error, Interactive, Result, Revision};
use std::marker::PhantomData;
use std::time::Duration;

/// Jobs as an open transaction sees them: whatever is done takes effect when the transaction commits.
pub struct JobsIn<'t>(PhantomData<&'t mut Interactive>);

/// A job that is claimed once the transaction is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedIn {
    /// The job as the transaction sees it; its times and its token are known when it commits.
    pub job: Job,
}

impl ClaimedIn {
    /// The claim, after the commit of its transaction took this revision.
    pub fn at(self, commit: Revision) -> Claimed {
        let grant = Grant { name: self.job.name.clone(), token: commit };
        Claimed { grant, job: self.job }
    }
}

/// The token of a lock that was taken in an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenIn {
    /// Its owner had the lock before.
    Known(Revision),
    /// The revision that the commit takes.
    OfCommit,
}

impl TokenIn {
    /// The token, after the commit of its transaction took this revision.
    pub fn at(self, commit: Revision) -> Revision {
        match self {
            TokenIn::Known(token) => token,
            TokenIn::OfCommit => commit,
        }
    }
}

fn to_come<T>() -> Result<T> {
    Err(Error::new(Code::Unsupported, "to come"))
}

impl Jobs {
    /// The jobs as an open transaction sees them, on its branch.
    pub fn on<'t>(&self, _transaction: &'t mut Interactive) -> JobsIn<'t> {
        JobsIn(PhantomData)
    }
}

impl JobsIn<'_> {
    /// As [`Jobs::submit`].
    pub fn submit(&self, _submission: &Submission) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::submit_all`].
    pub fn submit_all(&self, _submissions: &[Submission]) -> Result<Vec<State>> {
        to_come()
    }

    /// As [`Jobs::claim`].
    pub fn claim(
        &self,
        _task_type: &str,
        _worker: &str,
        _lease: Option<Duration>,
    ) -> Result<Option<ClaimedIn>> {
        to_come()
    }

    /// As [`Jobs::heartbeat`].
    pub fn heartbeat(&self, _grant: &Grant, _lease: Option<Duration>) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::step`].
    pub fn step(&self, _grant: &Grant, _step: u64, _of: Option<u64>) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::complete`].
    pub fn complete(&self, _grant: &Grant, _result: Option<&[u8]>) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::fail`].
    pub fn fail(&self, _grant: &Grant, _message: &str, _retry: Retry) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::cancel`].
    pub fn cancel(&self, _name: &JobName) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::retry`].
    pub fn retry(&self, _name: &JobName) -> Result<State> {
        to_come()
    }

    /// As [`Jobs::get`].
    pub fn get(&self, _name: &JobName) -> Result<Option<Job>> {
        to_come()
    }

    /// As [`Jobs::list`].
    pub fn list(
        &self,
        _task_type: &str,
        _state: Option<State>,
        _after: Option<&str>,
        _limit: usize,
    ) -> Result<JobPage> {
        to_come()
    }

    /// As [`Jobs::count`].
    pub fn count(&self, _task_type: &str, _state: State) -> Result<u64> {
        to_come()
    }

    /// As [`Jobs::sweep_stuck`].
    pub fn sweep_stuck(&self, _stuck_after_ms: Option<u64>) -> Result<crate::SweepReport> {
        to_come()
    }
}

/// Locks as an open transaction sees them.
pub struct LocksIn<'t>(PhantomData<&'t mut Interactive>);

impl Locks {
    /// The locks as an open transaction sees them, on its branch.
    pub fn on<'t>(&self, _transaction: &'t mut Interactive) -> LocksIn<'t> {
        LocksIn(PhantomData)
    }
}

impl LocksIn<'_> {
    /// As [`Locks::take`].
    pub fn take(&self, _name: &str, _owner: &str, _lease: Duration) -> Result<Option<TokenIn>> {
        to_come()
    }

    /// As [`Locks::renew`].
    pub fn renew(&self, _name: &str, _token: Revision, _lease: Duration) -> Result<()> {
        to_come()
    }

    /// As [`Locks::free`].
    pub fn free(&self, _name: &str, _token: Revision) -> Result<bool> {
        to_come()
    }

    /// As [`Locks::holder`].
    pub fn holder(&self, _name: &str) -> Result<Option<LockHolder>> {
        to_come()
    }
}
