//! The three handle types behind one interface: the results must not depend on the way of waiting.

use mainstay::remote::wait;
use mainstay::{ErrorKind, Result};
use mainstay_jobs::{
    AsyncJobs, ClaimedJob, Grant, JobName, Jobs, JobsTx, Retry, State, Submission, SweepReport,
    UncommittedClaim,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    Blocking,
    Async,
    Transaction,
}

pub const HANDLE_KINDS: [HandleKind; 3] =
    [HandleKind::Blocking, HandleKind::Async, HandleKind::Transaction];

pub fn handle_kind() -> impl Strategy<Value = HandleKind> {
    prop::sample::select(HANDLE_KINDS.to_vec())
}

pub struct TestHandle<'j> {
    handle_kind: HandleKind,
    jobs: &'j Jobs,
    async_jobs: AsyncJobs,
}

impl HandleKind {
    pub fn of(self, jobs: &Jobs) -> TestHandle<'_> {
        TestHandle { handle_kind: self, jobs, async_jobs: jobs.to_async().unwrap() }
    }
}

impl TestHandle<'_> {
    /// Runs an operation in a transaction. A rejected operation leaves nothing in it.
    fn in_transaction<T>(&self, run: impl Fn(&JobsTx<'_>) -> Result<T>) -> Result<(T, u64)> {
        loop {
            let branch = self.jobs.database().branch(self.jobs.branch())?;
            let mut t = branch.begin()?;
            let result = run(&self.jobs.on(&mut t));
            if result.is_err() {
                assert!(!t.has_steps(), "a refused operation leaves the transaction as it was");
            }
            let result = result?;
            match t.commit() {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other.map(|receipt| (result, receipt.revision)),
            }
        }
    }

    pub fn submit(&self, new: &Submission) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.submit(new),
            HandleKind::Async => wait(self.async_jobs.submit(new)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.submit(new)).map(|result| result.0)
            }
        }
    }

    pub fn claim(&self, task_type: &str, worker: &str) -> Result<Option<ClaimedJob>> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.claim(task_type, worker, None),
            HandleKind::Async => wait(self.async_jobs.claim(task_type, worker, None)),
            HandleKind::Transaction => {
                let (claimed, revision) =
                    self.in_transaction(|jobs| jobs.claim(task_type, worker, None))?;
                Ok(claimed.map(|claimed: UncommittedClaim| claimed.at(revision)))
            }
        }
    }

    pub fn heartbeat(&self, grant: &Grant) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.heartbeat(grant, None),
            HandleKind::Async => wait(self.async_jobs.heartbeat(grant, None)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.heartbeat(grant, None)).map(|result| result.0)
            }
        }
    }

    pub fn step(&self, grant: &Grant, step: u64) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.step(grant, step, None),
            HandleKind::Async => wait(self.async_jobs.step(grant, step, None)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.step(grant, step, None)).map(|result| result.0)
            }
        }
    }

    pub fn complete(&self, grant: &Grant) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.complete(grant, None),
            HandleKind::Async => wait(self.async_jobs.complete(grant, None)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.complete(grant, None)).map(|result| result.0)
            }
        }
    }

    pub fn fail(&self, grant: &Grant, why: &str, retry: Retry) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.fail(grant, why, retry),
            HandleKind::Async => wait(self.async_jobs.fail(grant, why, retry)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.fail(grant, why, retry)).map(|result| result.0)
            }
        }
    }

    pub fn cancel(&self, name: &JobName) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.cancel(name),
            HandleKind::Async => wait(self.async_jobs.cancel(name)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.cancel(name)).map(|result| result.0)
            }
        }
    }

    pub fn retry(&self, name: &JobName) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.retry(name),
            HandleKind::Async => wait(self.async_jobs.retry(name)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.retry(name)).map(|result| result.0)
            }
        }
    }

    pub fn delete(&self, name: &JobName) -> Result<State> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.delete(name),
            HandleKind::Async => wait(self.async_jobs.delete(name)),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.delete(name)).map(|result| result.0)
            }
        }
    }

    pub fn sweep(&self) -> Result<SweepReport> {
        match self.handle_kind {
            HandleKind::Blocking => self.jobs.sweep(),
            HandleKind::Async => wait(self.async_jobs.sweep()),
            HandleKind::Transaction => {
                self.in_transaction(|jobs| jobs.sweep_stuck(None)).map(|result| result.0)
            }
        }
    }
}
