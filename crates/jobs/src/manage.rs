//! Operations without a grant: cancel, retry, delete.

use crate::failure::{self, check_transition};
use crate::figures::Act;
use crate::job::{self, Job, field};
use crate::name::JobName;
use crate::operations::{Next, Operations, TRIES, job_of, must};
use crate::rank::Place;
use crate::state::State;
use crate::submit::wait_for;
use mainstay::{Condition, Name, RecordCommand, RecordWrite, Result, Ttl};
use std::collections::BTreeMap;

/// The open dependencies of a job, by name.
type Waited = BTreeMap<JobName, Job>;

impl Operations<'_> {
    /// Examines only the state, so that a job that is otherwise unreadable can be cancelled.
    pub async fn cancel(&self, name: &JobName) -> Result<State> {
        self.follow(Act::Cancel, name, |record| {
            let record = record.ok_or_else(|| failure::not_found(name))?;
            let state = job::state_of(&record.fields)?;
            if state == State::Cancelled {
                return Ok(Next::Done(state));
            }
            check_transition(name, state, State::Cancelled)?;
            let write = self
                .write_to(name, state)?
                .set(field::STATE, State::Cancelled.as_str())?
                .clear(field::TIMEOUT_AT)?
                .clear(field::TOKEN)?;
            let write = self.let_expire(write, &record.fields)?;
            Ok(Next::Write(vec![must(write)], State::Cancelled))
        })
        .await
    }

    /// Examines only the state and the dependents.
    pub async fn delete(&self, name: &JobName) -> Result<State> {
        self.follow(Act::Delete, name, |record| {
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
            Ok(Next::Write(vec![must(delete)], state))
        })
        .await
    }

    pub async fn retry(&self, name: &JobName) -> Result<State> {
        for attempt in 0..TRIES {
            let job = job_of(name, self.record(name, attempt > 0).await?)?;
            let job = job.ok_or_else(|| failure::not_found(name))?;
            if !job.state.is_terminal() {
                // Only its holder and the sweeper may return a held job to pending.
                let why = "only what failed or was cancelled is retried";
                return Err(failure::illegal(name, job.state, why));
            }
            let waited = self.still_waited_for(&job, attempt > 0).await?;
            let place = Place::of(job.priority, None, self.now_us().await?);
            let next = self.retried(&job, waited, place)?;
            if let Some(state) = self.settle(Act::Retry, next).await? {
                return Ok(state);
            }
        }
        Err(failure::busy(&format!("job {name}")))
    }

    /// The open dependencies of a cancelled job, counted again. A failed job was ready before, so it has
    /// none.
    async fn still_waited_for(&self, job: &Job, again: bool) -> Result<Waited> {
        if job.state != State::Cancelled {
            return Ok(Waited::new());
        }
        let mut found = self.look_up(&job.depends_on, again).await?;
        // A completed dependency may have been deleted; then the job no longer waits for it.
        let gone = |name: &&JobName| !found.contains_key(*name) && job.waits_for(name);
        if let Some(gone) = job.depends_on.iter().find(gone) {
            return Err(failure::unknown_dependency(&job.name, gone));
        }
        found.retain(|_, dependency| dependency.state != State::Completed);
        Ok(found)
    }

    /// A retried job is ready at once, even if it had waited for its `run_at`.
    fn retried(&self, job: &Job, waited: Waited, place: Place) -> Result<Next> {
        let becomes = if waited.is_empty() { State::Pending } else { State::Blocked };
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
        let write = waiting_for(place.put(write)?, job, &waited)?;
        let mut steps = vec![must(write)];
        for dependency in waited.values() {
            let is_known = dependency.dependents.contains(&job.name);
            let bytes = if is_known { 0 } else { job.fields.weight_bytes() as u64 };
            steps.push(must(self.tell(dependency, vec![job.name.clone()], bytes)?));
        }
        Ok(Next::Write(steps, becomes))
    }
}

/// Counts the open dependencies of a job again.
fn waiting_for(write: RecordWrite, job: &Job, waited: &Waited) -> Result<RecordWrite> {
    if job.depends_on.is_empty() {
        return Ok(write);
    }
    let over = job.depends_on.iter().filter(|name| !waited.contains_key(*name));
    let write =
        over.into_iter().try_fold(write, |write, name| write.clear(&job::waits_for(name)))?;
    let write = write.set(field::BLOCKED_BY, waited.len().to_string())?;
    wait_for(write, waited.keys())
}
