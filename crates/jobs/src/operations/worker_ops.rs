//! Operations of a job's holder: heartbeat, step, complete, fail.
//!
//! Each operation is one transaction, fenced by the token. Once the job was swept, cancelled or given to
//! another worker, every operation of its old holder fails with `Fenced`. Operations are idempotent: a call
//! repeated after a lost reply returns the same result as the first.

use crate::failure::{self, check_transition};
use crate::model::job::{self, Job, field};
use crate::model::name::JobName;
use crate::model::sort_key::SortKey;
use crate::model::state::State;
use crate::objects::{ObjectLocation, StoredField};
use crate::operations::claim::{Grant, lease_ms_of};
use crate::operations::submit::OPEN_DEPENDENCY_MARK;
use crate::operations::{
    Decision, NOW, Operations, in_ms, job_of, must, optional, truncated_error,
};
use crate::settings::duration_ms;
use crate::stats::OperationKind;
use mainstay::{
    Code, Condition, ErrorKind, Field, FieldValue, RecordHistoryEntry, RecordWrite, Result, Step,
    Ttl,
};
use std::time::Duration;

/// Page size when reading a job's history.
const HISTORY_PAGE_SIZE: usize = 10;

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
        let lease_ms = lease.map(lease_ms_of).transpose()?;
        self.counters().count_fenced(self.renew_lease(grant, lease_ms).await)
    }

    /// Restarts the lease.
    pub async fn renew_lease(&self, grant: &Grant, lease_ms: Option<u64>) -> Result<State> {
        self.update_held_job(OperationKind::Heartbeat, grant, |job| {
            let becomes = job.state;
            if !becomes.is_held() {
                return Err(failure::illegal(&job.name, becomes, "only what is held has a lease"));
            }
            let mut write = self.lease_write(grant, job, lease_ms)?;
            if let Some(lease_ms) = lease_ms {
                write = write.set(field::LEASE_MS, lease_ms.to_string())?;
            }
            Ok(Decision::Write(vec![must(write)], becomes))
        })
        .await
    }

    pub async fn step(&self, grant: &Grant, step: u64, of: Option<u64>) -> Result<State> {
        failure::check_step(step, of)?;
        let result = self.update_held_job(OperationKind::Heartbeat, grant, |job| {
            check_transition(&job.name, job.state, State::Running)?;
            let mut write = self
                .lease_write(grant, job, None)?
                .set(field::STATE, State::Running.as_str())?
                .set(field::CURRENT_STEP, step.to_string())?;
            if let Some(of) = of {
                write = write.set(field::STEP_COUNT, of.to_string())?;
            }
            Ok(Decision::Write(vec![must(write)], State::Running))
        });
        self.counters().count_fenced(result.await)
    }

    pub async fn complete(&self, grant: &Grant, result: Option<&[u8]>) -> Result<State> {
        let stored = match self.put_result(grant, result).await {
            Err(error) => return self.recover_lost_reply(grant, Err(error), is_completed).await,
            Ok(result) => result,
        };
        let result = self.update_held_job(OperationKind::Complete, grant, |job| {
            if job.state == State::Completed {
                return Ok(Decision::NoChange(State::Completed));
            }
            check_transition(&job.name, job.state, State::Completed)?;
            let mut write = self
                .held_job_write(grant, job)?
                .set(field::STATE, State::Completed.as_str())?
                .clear(field::TIMEOUT_AT)?
                .clear(field::ERROR)?;
            if let Some((field, value)) = &stored {
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
                steps.extend(self.resolve_dependency(&job.name, dependent)?);
            }
            Ok(Decision::Write(steps, State::Completed))
        });
        self.recover_lost_reply(grant, result.await, is_completed).await
    }

    /// Fences a holder that lost its job before a large result is written to the object store.
    async fn put_result(
        &self,
        grant: &Grant,
        result: Option<&[u8]>,
    ) -> Result<Option<StoredField>> {
        let Some(bytes) = result else { return Ok(None) };
        if bytes.len() > self.settings().inline_limit_bytes {
            self.check_grant(grant).await?;
            let job = self.get(&grant.name).await?;
            job.filter(|job| job.token == Some(grant.token))
                .ok_or_else(|| failure::fenced(&grant.name))?;
        }
        let location = self.object_location(&grant.name, field::RESULT);
        let write = self.objects().write(&location, bytes, field::RESULT, field::RESULT_REF);
        write.await.map(Some)
    }

    /// The location of a job's object in the object store.
    pub fn object_location(&self, name: &JobName, field: &str) -> ObjectLocation {
        ObjectLocation::new(&self.settings().namespace, name, field)
    }

    pub async fn fail(&self, grant: &Grant, message: &str, retry: Retry) -> Result<State> {
        let now_us = self.now_us().await?;
        let run_at_ms = match retry {
            Retry::After(delay) => Some(now_us / 1000 + duration_ms(delay, "delay of a retry")?),
            Retry::Never | Retry::Now => None,
        };
        let result = self.update_held_job(OperationKind::Fail, grant, |job| {
            if matches!(job.state, State::Pending | State::Failed) {
                return Ok(Decision::NoChange(job.state));
            }
            let is_retried = retry != Retry::Never && job.retry_count < job.max_retries;
            let becomes = if is_retried { State::Pending } else { State::Failed };
            check_transition(&job.name, job.state, becomes)?;
            let mut write =
                self.end_lease(self.held_job_write(grant, job)?, job, becomes, message)?;
            if is_retried {
                write = SortKey::of(job.priority, run_at_ms, now_us).apply_to(write)?;
            }
            if let Some(run_at_ms) = run_at_ms.filter(|_| is_retried) {
                write = write.set(field::RUN_AT, run_at_ms.to_string())?;
            }
            Ok(Decision::Write(vec![must(write)], becomes))
        });
        self.recover_lost_reply(grant, result.await, |state| {
            matches!(state, State::Pending | State::Failed)
        })
        .await
    }

    /// Ends a lease: the job becomes pending again or failed.
    pub(crate) fn end_lease(
        &self,
        write: RecordWrite,
        job: &Job,
        becomes: State,
        message: &str,
    ) -> Result<RecordWrite> {
        let write = write
            .set(field::STATE, becomes.as_str())?
            .set(field::ERROR, truncated_error(message))?
            .clear(field::TIMEOUT_AT)?;
        match becomes {
            State::Pending => write
                .set(field::RETRY_COUNT, (job.retry_count + 1).to_string())?
                .clear(field::WORKER),
            _ => self.set_failed_ttl(write, &job.fields),
        }
    }

    /// Removes a dependency from a dependent, if it is still open. A dependent without other open
    /// dependencies becomes pending. A damaged dependent stays unchanged, because it must not prevent the
    /// completion of this job.
    fn resolve_dependency(&self, dependency: &JobName, dependent: &JobName) -> Result<[Step; 2]> {
        let key = self.key(dependent);
        let marker = job::waits_for(dependency);
        let decrement = RecordWrite::to(&key)?
            .when_field(&marker, OPEN_DEPENDENCY_MARK)?
            .clear(&marker)?
            .set(field::BLOCKED_BY, FieldValue::Sum { by: -1 })?;
        let unblock = RecordWrite::to(&key)?
            .when_field(field::STATE, State::Blocked.as_str())?
            .when_field(field::BLOCKED_BY, "0")?
            .set(field::STATE, State::Pending.as_str())?
            .set(field::UPDATED_AT, NOW)?;
        Ok([optional(decrement), optional(unblock)])
    }

    /// Decides by the current state of the job. If the job no longer exists, the holder is fenced.
    async fn update_held_job(
        &self,
        operation: OperationKind,
        grant: &Grant,
        decide: impl Fn(&Job) -> Result<Decision>,
    ) -> Result<State> {
        self.check_grant(grant).await?;
        self.update_job(operation, &grant.name, |record| {
            let job = job_of(&grant.name, record)?.ok_or_else(|| failure::fenced(&grant.name))?;
            if job.token == Some(grant.token) {
                decide(&job)
            } else {
                // The write's own fence condition returns the error, so that only one place decides.
                Ok(Decision::Write(vec![must(self.token_write(grant)?)], job.state))
            }
        })
        .await
    }

    /// Rejects a grant that was not made on this branch.
    async fn check_grant(&self, grant: &Grant) -> Result<()> {
        if grant.token == 0 {
            return Err(failure::no_token(&format!("job {}", grant.name)));
        }
        if grant.token <= self.backend.fork_revision().await? {
            return Err(failure::inherited(&grant.name, self.backend.branch()));
        }
        Ok(())
    }

    /// A write fenced by the token of this grant.
    fn token_write(&self, grant: &Grant) -> Result<RecordWrite> {
        let field = Field::new(field::TOKEN)?;
        let is = grant.token.to_string().into_bytes();
        Ok(self.write_updated(&grant.name)?.when(Condition::Fence { field, is }))
    }

    fn held_job_write(&self, grant: &Grant, job: &Job) -> Result<RecordWrite> {
        self.token_write(grant)?.when_field(field::STATE, job.state.as_str())
    }

    fn lease_write(&self, grant: &Grant, job: &Job, lease_ms: Option<u64>) -> Result<RecordWrite> {
        let default_ms =
            job.lease_ms.unwrap_or_else(|| self.settings().timeout_ms(job.name.task_type()));
        self.held_job_write(grant, job)?
            .set(field::TIMEOUT_AT, in_ms(lease_ms.unwrap_or(default_ms)))
    }

    /// A fenced holder may have ended the job itself and lost the reply. Then that outcome is the result.
    async fn recover_lost_reply(
        &self,
        grant: &Grant,
        result: Result<State>,
        is_expected: impl Fn(State) -> bool,
    ) -> Result<State> {
        let outcome = match result {
            Err(error) if error.code() == Code::Fenced => {
                // If the history cannot be read, the holder stays fenced.
                let state = self.final_state(grant).await.unwrap_or_default();
                state.filter(|state| is_expected(*state)).ok_or(error)
            }
            other => other,
        };
        self.counters().count_fenced(outcome)
    }

    /// Reads versions of a job, as many as fit into one answer.
    async fn versions(
        &self,
        name: &JobName,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        let key = self.key(name);
        let mut size = HISTORY_PAGE_SIZE;
        loop {
            match self.backend.history(&key, size, before).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && size > 1 => size /= 2,
                other => return other,
            }
        }
    }

    /// The final state that the holder of a grant gave the job, as far as history reaches back.
    async fn final_state(&self, grant: &Grant) -> Result<Option<State>> {
        let token = grant.token.to_string();
        let mut before = None;
        loop {
            let page = self.versions(&grant.name, before).await?;
            let written_by_holder = |entry: &RecordHistoryEntry| {
                let fields = entry.fields.as_ref()?;
                let state = State::parse(fields.text(field::STATE)?).ok()?;
                (fields.text(field::TOKEN)? == token && !state.is_held()).then_some(state)
            };
            if let Some(state) = page.iter().find_map(written_by_holder) {
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
