//! Operations of a job's holder: heartbeat, step, complete, fail.
//!
//! Each operation is one transaction, fenced by the token. Once the job was swept, cancelled or given to
//! another worker, every operation of its old holder fails with `Fenced`. Operations are idempotent: a call
//! repeated after a lost reply returns the same result as the first.

use crate::claim::{Grant, checked_ms};
use crate::failure::{self, check_transition};
use crate::figures::Act;
use crate::job::{self, Job, field};
use crate::name::JobName;
use crate::objects::{ObjectPlace, Placed};
use crate::operations::{NOW, Next, Operations, attempt, error_text, in_ms, job_of, must};
use crate::rank::Place;
use crate::settings::duration_ms;
use crate::state::State;
use crate::submit::WAITS;
use mainstay::{
    Code, Condition, ErrorKind, Field, FieldValue, RecordHistoryEntry, RecordWrite, Result, Step,
    Ttl,
};
use std::time::Duration;

/// Page size when reading a job's history.
const HISTORY_PAGE: usize = 10;

/// Retry policy for a failed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The job fails for good.
    Never,
    /// The job is retried at once if it has retries left.
    Now,
    /// The job is retried after a delay if it has retries left.
    After(Duration),
}

impl Operations<'_> {
    pub async fn heartbeat(&self, grant: &Grant, lease: Option<Duration>) -> Result<State> {
        let lease_ms = lease.map(checked_ms).transpose()?;
        self.tally().heard(self.extend(grant, lease_ms).await)
    }

    /// Restarts the lease.
    pub async fn extend(&self, grant: &Grant, lease_ms: Option<u64>) -> Result<State> {
        self.hold(Act::Beat, grant, |job| {
            let becomes = job.state;
            if !becomes.is_held() {
                return Err(failure::illegal(&job.name, becomes, "only what is held has a lease"));
            }
            let mut write = self.extended(grant, job, lease_ms)?;
            if let Some(lease_ms) = lease_ms {
                write = write.set(field::LEASE_MS, lease_ms.to_string())?;
            }
            Ok(Next::Write(vec![must(write)], becomes))
        })
        .await
    }

    pub async fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        failure::check_step(step, of)?;
        let done = self.hold(Act::Beat, grant, |job| {
            check_transition(&job.name, job.state, State::Running)?;
            let mut write = self
                .extended(grant, job, None)?
                .set(field::STATE, State::Running.as_str())?
                .set(field::CURRENT_STEP, step.to_string())?;
            if let Some(of) = of {
                write = write.set(field::STEP_COUNT, of.to_string())?;
            }
            Ok(Next::Write(vec![must(write)], State::Running))
        });
        self.tally().heard(done.await)
    }

    pub async fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        let result = match self.put_result(grant, result).await {
            Err(error) => return self.unless_done_before(grant, Err(error), is_completed).await,
            Ok(result) => result,
        };
        let done = self.hold(Act::Complete, grant, |job| {
            if job.state == State::Completed {
                return Ok(Next::Done(State::Completed));
            }
            check_transition(&job.name, job.state, State::Completed)?;
            let mut write = self
                .held(grant, job)?
                .set(field::STATE, State::Completed.as_str())?
                .clear(field::TIMEOUT_AT)?
                .clear(field::ERROR)?;
            if let Some((field, value)) = &result {
                write = write.set(field, value)?;
            }
            if let Some(ms) = self.settings().keep_completed_ms {
                write = write.ttl(Ttl::Millis(ms));
            }
            // Conditional on the list of dependents: one added after the read would otherwise wait forever.
            let dependents = job.fields.get(field::DEPENDENTS).map(<[u8]>::to_vec);
            let field = Field::new(field::DEPENDENTS)?;
            let mut steps = vec![must(write.when(Condition::Field { field, is: dependents }))];
            for dependent in &job.dependents {
                steps.extend(self.release(&job.name, dependent)?);
            }
            Ok(Next::Write(steps, State::Completed))
        });
        self.unless_done_before(grant, done.await, is_completed).await
    }

    /// Fences a holder that lost its job before a large result is written to the object store.
    async fn put_result(&self, grant: &Grant, result: Option<&[u8]>) -> Result<Option<Placed>> {
        let Some(bytes) = result else { return Ok(None) };
        if bytes.len() > self.settings().inline_limit_bytes {
            self.check_grant(grant).await?;
            let job = self.get(&grant.name).await?;
            job.filter(|job| job.token == Some(grant.token))
                .ok_or_else(|| failure::fenced(&grant.name))?;
        }
        let at = self.object_at(&grant.name, field::RESULT);
        let placed = self.objects().write(&at, bytes, field::RESULT, field::RESULT_REF);
        placed.await.map(Some)
    }

    /// The place of a job's object in the object store.
    pub fn object_at(&self, name: &JobName, what: &str) -> ObjectPlace {
        ObjectPlace::new(&self.settings().namespace, name, what)
    }

    pub async fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        let now_us = self.now_us().await?;
        let run_at_ms = match retry {
            Retry::After(delay) => Some(now_us / 1000 + duration_ms(delay, "delay of a retry")?),
            Retry::Never | Retry::Now => None,
        };
        let done = self.hold(Act::Fail, grant, |job| {
            if matches!(job.state, State::Pending | State::Failed) {
                return Ok(Next::Done(job.state));
            }
            let again = retry != Retry::Never && job.retry_count < job.max_retries;
            let becomes = if again { State::Pending } else { State::Failed };
            check_transition(&job.name, job.state, becomes)?;
            let mut write = self.let_go(self.held(grant, job)?, job, becomes, message)?;
            if again {
                write = Place::of(job.priority, run_at_ms, now_us).put(write)?;
            }
            if let Some(run_at_ms) = run_at_ms.filter(|_| again) {
                write = write.set(field::RUN_AT, run_at_ms.to_string())?;
            }
            Ok(Next::Write(vec![must(write)], becomes))
        });
        self.unless_done_before(grant, done.await, |state| {
            matches!(state, State::Pending | State::Failed)
        })
        .await
    }

    /// Ends a lease: the job becomes pending again or failed.
    pub(crate) fn let_go(
        &self,
        write: RecordWrite,
        job: &Job,
        becomes: State,
        message: &str,
    ) -> Result<RecordWrite> {
        let write = write
            .set(field::STATE, becomes.as_str())?
            .set(field::ERROR, error_text(message))?
            .clear(field::TIMEOUT_AT)?;
        match becomes {
            State::Pending => write
                .set(field::RETRY_COUNT, (job.retry_count + 1).to_string())?
                .clear(field::WORKER),
            _ => self.let_expire(write, &job.fields),
        }
    }

    /// Removes a dependency from a dependent, if it is still open. A dependent without other open
    /// dependencies becomes pending. A damaged dependent stays unchanged, because it must not prevent the
    /// completion of this job.
    fn release(&self, dependency: &JobName, dependent: &JobName) -> Result<[Step; 2]> {
        let key = self.key(dependent);
        let waits = job::waits_for(dependency);
        let one_fewer = RecordWrite::to(&key)?
            .when_field(&waits, WAITS)?
            .clear(&waits)?
            .set(field::BLOCKED_BY, FieldValue::Sum { by: -1 })?;
        let free = RecordWrite::to(&key)?
            .when_field(field::STATE, State::Blocked.as_str())?
            .when_field(field::BLOCKED_BY, "0")?
            .set(field::STATE, State::Pending.as_str())?
            .set(field::UPDATED_AT, NOW)?;
        Ok([attempt(one_fewer), attempt(free)])
    }

    /// Decides by the current state of the job. If the job no longer exists, the holder is fenced.
    async fn hold(
        &self,
        act: Act,
        grant: &Grant,
        decide: impl Fn(&Job) -> Result<Next>,
    ) -> Result<State> {
        self.check_grant(grant).await?;
        self.follow(act, &grant.name, |record| {
            let job = job_of(&grant.name, record)?.ok_or_else(|| failure::fenced(&grant.name))?;
            if job.token == Some(grant.token) {
                decide(&job)
            } else {
                // The write's own fence condition returns the error, so that only one place decides.
                Ok(Next::Write(vec![must(self.fence(grant)?)], job.state))
            }
        })
        .await
    }

    /// Rejects a grant that was not made on this branch.
    async fn check_grant(&self, grant: &Grant) -> Result<()> {
        if grant.token == 0 {
            return Err(failure::no_token(&format!("job {}", grant.name)));
        }
        if grant.token <= self.port.fork_revision().await? {
            return Err(failure::inherited(&grant.name, self.port.branch()));
        }
        Ok(())
    }

    /// A write fenced by the token of this grant.
    fn fence(&self, grant: &Grant) -> Result<RecordWrite> {
        let field = Field::new(field::TOKEN)?;
        let is = grant.token.to_string().into_bytes();
        Ok(self.touch(&grant.name)?.when(Condition::Fence { field, is }))
    }

    fn held(&self, grant: &Grant, job: &Job) -> Result<RecordWrite> {
        self.fence(grant)?.when_field(field::STATE, job.state.as_str())
    }

    fn extended(&self, grant: &Grant, job: &Job, lease_ms: Option<u64>) -> Result<RecordWrite> {
        let own_ms =
            job.lease_ms.unwrap_or_else(|| self.settings().timeout_ms(job.name.task_type()));
        self.held(grant, job)?.set(field::TIMEOUT_AT, in_ms(lease_ms.unwrap_or(own_ms)))
    }

    /// A fenced holder may have ended the job itself and lost the reply. Then that outcome is the result.
    async fn unless_done_before(
        &self,
        grant: &Grant,
        done: Result<State>,
        is_meant: impl Fn(State) -> bool,
    ) -> Result<State> {
        let done = match done {
            Err(error) if error.code() == Code::Fenced => {
                // If the history cannot be read, the holder stays fenced.
                let outcome = self.outcome(grant).await.unwrap_or_default();
                outcome.filter(|state| is_meant(*state)).ok_or(error)
            }
            other => other,
        };
        self.tally().heard(done)
    }

    /// Reads versions of a job, as many as fit into one answer.
    async fn versions(
        &self,
        name: &JobName,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        let key = self.key(name);
        let mut size = HISTORY_PAGE;
        loop {
            match self.port.history(&key, size, before).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && size > 1 => size /= 2,
                other => return other,
            }
        }
    }

    /// The final state that the holder of a grant gave the job, as far as history reaches back.
    async fn outcome(&self, grant: &Grant) -> Result<Option<State>> {
        let token = grant.token.to_string();
        let mut before = None;
        loop {
            let page = self.versions(&grant.name, before).await?;
            let ended = |entry: &RecordHistoryEntry| {
                let fields = entry.fields.as_ref()?;
                let state = State::parse(fields.text(field::STATE)?).ok()?;
                (fields.text(field::TOKEN)? == token && !state.is_held()).then_some(state)
            };
            if let Some(state) = page.iter().find_map(ended) {
                return Ok(Some(state));
            }
            match page.last() {
                Some(last) if last.revision >= grant.token => before = Some(last.counter),
                _ => return Ok(None),
            }
        }
    }
}

fn is_completed(state: State) -> bool {
    state == State::Completed
}
