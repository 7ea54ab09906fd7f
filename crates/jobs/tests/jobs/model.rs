//! A simple model of the jobs: a map and the rules.

use mainstay::Code;
use mainstay_jobs::State;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct ModelJob {
    pub state: State,
    pub retry_count: u32,
    pub max_retries: u32,
    priority: i32,
    since_us: u64,
    run_at_ms: u64,
    timeout_at_ms: u64,
    /// The grant of the current holder, or of the holder that ended the job itself.
    grant: Option<usize>,
    depends_on: Vec<u8>,
}

#[derive(Default)]
pub struct Model {
    pub jobs: BTreeMap<u8, ModelJob>,
    /// The final state that each grant's holder gave its job.
    ended: BTreeMap<usize, State>,
    /// The job of each grant.
    grants: Vec<u8>,
}

pub const LEASE_MS: u64 = 30_000;

impl Model {
    pub fn submit(
        &mut self,
        id: u8,
        (priority, run_at_ms, depends_on): (i32, Option<u64>, Vec<u8>),
        now_us: u64,
    ) -> Result<State, Code> {
        if depends_on.contains(&id) {
            return Err(Code::SelfDependency);
        }
        if depends_on.iter().any(|one| !self.jobs.contains_key(one)) {
            return Err(Code::UnknownDependency);
        }
        if self.jobs.contains_key(&id) {
            return Err(Code::JobExists);
        }
        let state = self.ready_state(&depends_on);
        let since_us = run_at_ms.map_or(now_us, |ms| ms * 1000);
        let job = ModelJob {
            state,
            retry_count: 0,
            max_retries: 2,
            priority,
            since_us,
            run_at_ms: run_at_ms.unwrap_or(0),
            timeout_at_ms: 0,
            grant: None,
            depends_on,
        };
        self.jobs.insert(id, job);
        Ok(state)
    }

    fn ready_state(&self, depends_on: &[u8]) -> State {
        if depends_on.iter().all(|id| self.jobs[id].state == State::Completed) {
            State::Pending
        } else {
            State::Blocked
        }
    }

    /// The job of the next grant.
    pub fn claim(&mut self, now_ms: u64) -> Option<u8> {
        let can = |job: &ModelJob| job.state == State::Pending && job.run_at_ms <= now_ms;
        let next = self
            .jobs
            .iter_mut()
            .filter(|(_, job)| can(job))
            .min_by_key(|(id, job)| (-job.priority, job.since_us, **id));
        let (id, job) = next?;
        job.state = State::Claimed;
        job.timeout_at_ms = now_ms + LEASE_MS;
        job.grant = Some(self.grants.len());
        self.grants.push(*id);
        Some(*id)
    }

    pub fn grants(&self) -> usize {
        self.grants.len()
    }

    fn held(&mut self, grant: usize) -> Result<&mut ModelJob, Code> {
        let job = self.jobs.get_mut(&self.grants[grant]).unwrap();
        if job.grant == Some(grant) {
            if !job.state.is_held() { Err(Code::IllegalTransition) } else { Ok(job) }
        } else {
            Err(Code::Fenced)
        }
    }

    pub fn heartbeat(&mut self, grant: usize, now_ms: u64, step: bool) -> Result<State, Code> {
        let job = self.held(grant)?;
        job.timeout_at_ms = now_ms + LEASE_MS;
        if step {
            job.state = State::Running;
        }
        Ok(job.state)
    }

    pub fn complete(&mut self, grant: usize) -> Result<State, Code> {
        if self.ended.get(&grant) == Some(&State::Completed) {
            return Ok(State::Completed);
        }
        self.held(grant)?.state = State::Completed;
        self.ended.insert(grant, State::Completed);
        let blocked: Vec<u8> = self.jobs.keys().copied().collect();
        for id in blocked {
            if self.jobs[&id].state == State::Blocked {
                let depends_on = self.jobs[&id].depends_on.clone();
                self.jobs.get_mut(&id).unwrap().state = self.ready_state(&depends_on);
            }
        }
        Ok(State::Completed)
    }

    pub fn fail(&mut self, grant: usize, again: bool, now_us: u64) -> Result<State, Code> {
        if let Some(state @ (State::Pending | State::Failed)) = self.ended.get(&grant) {
            return Ok(*state);
        }
        let job = self.held(grant)?;
        job.let_go(again, now_us);
        let state = job.state;
        self.ended.insert(grant, state);
        Ok(state)
    }

    pub fn cancel(&mut self, id: u8) -> Result<State, Code> {
        let job = self.jobs.get_mut(&id).ok_or(Code::JobNotFound)?;
        match job.state {
            State::Completed | State::Failed => Err(Code::IllegalTransition),
            _ => {
                job.state = State::Cancelled;
                job.grant = None;
                Ok(State::Cancelled)
            }
        }
    }

    /// It is ready at once, behind all others.
    pub fn retry(&mut self, id: u8, now_us: u64) -> Result<State, Code> {
        let job = self.jobs.get(&id).ok_or(Code::JobNotFound)?;
        if !matches!(job.state, State::Failed | State::Cancelled) {
            return Err(Code::IllegalTransition);
        }
        let state = self.ready_state(&job.depends_on);
        let job = self.jobs.get_mut(&id).unwrap();
        job.state = state;
        job.grant = None;
        job.retry_count = 0;
        job.since_us = now_us;
        job.run_at_ms = 0;
        Ok(state)
    }

    /// Returns how many were retried and how many failed.
    pub fn sweep(&mut self, now_us: u64) -> (u64, u64) {
        let now_ms = now_us / 1000;
        let mut retried = 0;
        let mut failed = 0;
        for job in self.jobs.values_mut() {
            if job.state.is_held() && job.timeout_at_ms < now_ms {
                job.let_go(true, now_us);
                job.grant = None;
                *(if job.state == State::Pending { &mut retried } else { &mut failed }) += 1;
            }
        }
        (retried, failed)
    }
}

impl ModelJob {
    fn let_go(&mut self, again: bool, now_us: u64) {
        let again = again && self.retry_count < self.max_retries;
        if again {
            self.since_us = now_us;
        }
        self.retry_count += u32::from(again);
        self.state = if again { State::Pending } else { State::Failed };
    }
}
