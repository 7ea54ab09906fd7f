//! The three handle types behind one interface: the results must not depend on the way of waiting.

use mainstay::remote::wait;
use mainstay::{ErrorKind, Result};
use mainstay_jobs::{
    AsyncJobs, Claimed, ClaimedIn, Grant, JobName, Jobs, JobsIn, Retry, State, Submission,
    SweepReport,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    Waits,
    Awaits,
    Within,
}

pub const FACES: [Face; 3] = [Face::Waits, Face::Awaits, Face::Within];

pub fn face() -> impl Strategy<Value = Face> {
    prop::sample::select(FACES.to_vec())
}

pub struct Faced<'j> {
    face: Face,
    jobs: &'j Jobs,
    awaited: AsyncJobs,
}

impl Face {
    pub fn of(self, jobs: &Jobs) -> Faced<'_> {
        Faced { face: self, jobs, awaited: jobs.to_async().unwrap() }
    }
}

impl Faced<'_> {
    /// Runs an operation in a transaction. A rejected operation leaves nothing in it.
    fn within<T>(&self, run: impl Fn(&JobsIn<'_>) -> Result<T>) -> Result<(T, u64)> {
        loop {
            let branch = self.jobs.database().branch(self.jobs.branch())?;
            let mut t = branch.begin()?;
            let done = run(&self.jobs.on(&mut t));
            if done.is_err() {
                assert!(!t.has_steps(), "a refused operation leaves the transaction as it was");
            }
            let done = done?;
            match t.commit() {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other.map(|receipt| (done, receipt.revision)),
            }
        }
    }

    pub fn submit(&self, new: &Submission) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.submit(new),
            Face::Awaits => wait(self.awaited.submit(new)),
            Face::Within => self.within(|jobs| jobs.submit(new)).map(|done| done.0),
        }
    }

    pub fn claim(&self, task_type: &str, worker: &str) -> Result<Option<Claimed>> {
        match self.face {
            Face::Waits => self.jobs.claim(task_type, worker, None),
            Face::Awaits => wait(self.awaited.claim(task_type, worker, None)),
            Face::Within => {
                let (claimed, revision) =
                    self.within(|jobs| jobs.claim(task_type, worker, None))?;
                Ok(claimed.map(|claimed: ClaimedIn| claimed.at(revision)))
            }
        }
    }

    pub fn heartbeat(&self, grant: &Grant) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.heartbeat(grant, None),
            Face::Awaits => wait(self.awaited.heartbeat(grant, None)),
            Face::Within => self.within(|jobs| jobs.heartbeat(grant, None)).map(|done| done.0),
        }
    }

    pub fn step(&self, grant: &Grant, step: u64) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.step(grant, step, None),
            Face::Awaits => wait(self.awaited.step(grant, step, None)),
            Face::Within => self.within(|jobs| jobs.step(grant, step, None)).map(|done| done.0),
        }
    }

    pub fn complete(&self, grant: &Grant) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.complete(grant, None),
            Face::Awaits => wait(self.awaited.complete(grant, None)),
            Face::Within => self.within(|jobs| jobs.complete(grant, None)).map(|done| done.0),
        }
    }

    pub fn fail(&self, grant: &Grant, why: &str, retry: Retry) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.fail(grant, why, retry),
            Face::Awaits => wait(self.awaited.fail(grant, why, retry)),
            Face::Within => self.within(|jobs| jobs.fail(grant, why, retry)).map(|done| done.0),
        }
    }

    pub fn cancel(&self, name: &JobName) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.cancel(name),
            Face::Awaits => wait(self.awaited.cancel(name)),
            Face::Within => self.within(|jobs| jobs.cancel(name)).map(|done| done.0),
        }
    }

    pub fn retry(&self, name: &JobName) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.retry(name),
            Face::Awaits => wait(self.awaited.retry(name)),
            Face::Within => self.within(|jobs| jobs.retry(name)).map(|done| done.0),
        }
    }

    pub fn delete(&self, name: &JobName) -> Result<State> {
        match self.face {
            Face::Waits => self.jobs.delete(name),
            Face::Awaits => wait(self.awaited.delete(name)),
            Face::Within => self.within(|jobs| jobs.delete(name)).map(|done| done.0),
        }
    }

    pub fn sweep(&self) -> Result<SweepReport> {
        match self.face {
            Face::Waits => self.jobs.sweep(),
            Face::Awaits => wait(self.awaited.sweep()),
            Face::Within => self.within(|jobs| jobs.sweep_stuck(None)).map(|done| done.0),
        }
    }
}
