//! Operations without a grant: cancel, retry, delete.

use crate::failure::{self, check_transition};
use crate::model::job::{self, Job, field};
use crate::model::name::JobName;
use crate::model::sort_key::SortKey;
use crate::model::state::State;
use crate::operations::submit::mark_dependencies;
use crate::operations::{Decision, MAX_ATTEMPTS, Operations, job_of, must};
use crate::stats::OperationKind;
use mainstay::{Condition, Name, RecordCommand, RecordWrite, Result, Ttl};
use std::collections::BTreeMap;

/// The open dependencies of a job, by name.
type OpenDependencies = BTreeMap<JobName, Job>;

impl Operations<'_> {
    /// Examines only the state, so that a job that is otherwise unreadable can be cancelled.
    pub async fn cancel(&self, name: &JobName) -> Result<State> {
        self.update_job(OperationKind::Cancel, name, |record| {
            let record = record.ok_or_else(|| failure::not_found(name))?;
            let state = job::state_of(&record.fields)?;
            if state == State::Cancelled {
                return Ok(Decision::NoChange(state));
            }
            check_transition(name, state, State::Cancelled)?;
            let write = self
                .write_to(name, state)?
                .set(field::STATE, State::Cancelled.as_str())?
                .clear(field::TIMEOUT_AT)?
                .clear(field::TOKEN)?;
            let write = self.set_failed_ttl(write, &record.fields)?;
            Ok(Decision::Write(vec![must(write)], State::Cancelled))
        })
        .await
    }

    /// Examines only the state and the dependents.
    pub async fn delete(&self, name: &JobName) -> Result<State> {
        self.update_job(OperationKind::Delete, name, |record| {
            let record = record.ok_or_else(|| failure::not_found(name))?;
            let state = job::state_of(&record.fields)?;
            if !state.is_terminal() {
                return Err(failure::illegal(name, state, "only what has ended is deleted"));
            }
            if state != State::Completed && record.fields.get(field::DEPENDENTS).is_some() {
                let why = "others wait for it: retry it, or delete those first";
                return Err(failure::illegal(name, state, why));
            }
            let when = vec![Condition::Counter { is: Some(record.counter) }];
            let delete = RecordCommand::Delete { key: Name::new(&self.key(name))?, when };
            Ok(Decision::Write(vec![must(delete)], state))
        })
        .await
    }

    pub async fn retry(&self, name: &JobName) -> Result<State> {
        for attempt in 0..MAX_ATTEMPTS {
            let job = job_of(name, self.record(name, attempt > 0).await?)?;
            let job = job.ok_or_else(|| failure::not_found(name))?;
            if !job.state.is_terminal() {
                // Only its holder and the sweeper may return a held job to pending.
                let why = "only what failed or was cancelled is retried";
                return Err(failure::illegal(name, job.state, why));
            }
            let open = self.open_dependencies(&job, attempt > 0).await?;
            let sort_key = SortKey::of(job.priority, None, self.now_us().await?);
            let decision = self.retry_decision(&job, open, sort_key)?;
            if let Some(state) = self.execute_decision(OperationKind::Retry, decision).await? {
                return Ok(state);
            }
        }
        Err(failure::busy(&format!("job {name}")))
    }

    /// The open dependencies of a cancelled job, counted again. A failed job was ready before, so it has
    /// none.
    async fn open_dependencies(&self, job: &Job, is_retry: bool) -> Result<OpenDependencies> {
        if job.state != State::Cancelled {
            return Ok(OpenDependencies::new());
        }
        let mut dependencies = self.read_dependencies(&job.depends_on, is_retry).await?;
        // A completed dependency may have been deleted; then the job no longer waits for it.
        let is_deleted = |name: &&JobName| !dependencies.contains_key(*name) && job.waits_for(name);
        if let Some(deleted) = job.depends_on.iter().find(is_deleted) {
            return Err(failure::unknown_dependency(&job.name, deleted));
        }
        dependencies.retain(|_, dependency| dependency.state != State::Completed);
        Ok(dependencies)
    }

    /// A retried job is ready at once, even if it had waited for its `run_at`.
    fn retry_decision(
        &self,
        job: &Job,
        open: OpenDependencies,
        sort_key: SortKey,
    ) -> Result<Decision> {
        let becomes = if open.is_empty() { State::Pending } else { State::Blocked };
        check_transition(&job.name, job.state, becomes)?;
        let write = self
            .write_to(&job.name, job.state)?
            // A dependency may complete meanwhile, which would change this record.
            .when_counter(Some(job.counter))
            .set(field::STATE, becomes.as_str())?
            .set(field::RETRY_COUNT, "0")?
            .clear(field::WORKER)?
            .clear(field::TOKEN)?
            .clear(field::ERROR)?
            .clear(field::RUN_AT)?
            .ttl(Ttl::Clear);
        let write = reset_dependencies(sort_key.apply_to(write)?, job, &open)?;
        let mut steps = vec![must(write)];
        for dependency in open.values() {
            let is_listed = dependency.dependents.contains(&job.name);
            let bytes = if is_listed { 0 } else { job.fields.weight_bytes() as u64 };
            steps.push(must(self.add_dependents(dependency, vec![job.name.clone()], bytes)?));
        }
        Ok(Decision::Write(steps, becomes))
    }
}

/// Counts the open dependencies of a job again.
fn reset_dependencies(
    write: RecordWrite,
    job: &Job,
    open: &OpenDependencies,
) -> Result<RecordWrite> {
    if job.depends_on.is_empty() {
        return Ok(write);
    }
    let completed = job.depends_on.iter().filter(|name| !open.contains_key(*name));
    let write =
        completed.into_iter().try_fold(write, |write, name| write.clear(&job::waits_for(name)))?;
    let write = write.set(field::BLOCKED_BY, open.len().to_string())?;
    mark_dependencies(write, open.keys())
}
