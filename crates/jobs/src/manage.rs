//! What anybody may do with a job: call it off, try it again.

use crate::failure::{self, check_transition};
use crate::figures::Act;
use crate::job::{Job, field};
use crate::name::JobName;
use crate::operations::{Next, Operations, must};
use crate::state::State;
use mainstay::{Result, Ttl};

impl Operations<'_> {
    pub async fn cancel(&self, name: &JobName) -> Result<State> {
        self.follow(Act::Cancel, name, |job| {
            let job = job.ok_or_else(|| failure::not_found(name))?;
            if job.state == State::Cancelled {
                return Ok(Next::Done(job.state));
            }
            check_transition(&job, State::Cancelled)?;
            let write = self
                .write_to(&job)?
                .set(field::STATE, State::Cancelled.as_str())?
                .clear(field::TIMEOUT_AT)?
                .clear(field::TOKEN)?;
            Ok(Next::Write(vec![must(write)], State::Cancelled))
        })
        .await
    }

    pub async fn retry(&self, name: &JobName) -> Result<State> {
        self.follow(Act::Retry, name, |job| {
            let job = job.ok_or_else(|| failure::not_found(name))?;
            if !job.state.is_terminal() {
                // A held job may become pending, but only its holder and the sweeper make it so.
                return Err(failure::illegal(&job, "only what failed or was cancelled is retried"));
            }
            let becomes = after_retry(&job);
            check_transition(&job, becomes)?;
            let write = self
                .write_to(&job)?
                // What it waits for may be completed meanwhile.
                .when_counter(Some(job.counter))
                .set(field::STATE, becomes.as_str())?
                .set(field::RETRY_COUNT, "0")?
                .clear(field::WORKER)?
                .clear(field::TOKEN)?
                .clear(field::ERROR)?
                .ttl(Ttl::Clear);
            Ok(Next::Write(vec![must(write)], becomes))
        })
        .await
    }
}

fn after_retry(job: &Job) -> State {
    match job.state == State::Cancelled && job.blocked_by > 0 {
        true => State::Blocked,
        false => State::Pending,
    }
}
