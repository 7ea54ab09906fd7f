//! The sweeper: takes jobs away from workers that have fallen silent.
//!
//! ```text
//!   index (state, timeout_at) --> held, lease over --> retries left? -> pending, one retry used
//!                                                      none?         -> failed
//! ```
//!
//! Each write is conditional on the counter that was read: a job that was completed or heard of meanwhile stays
//! as it is. What is not held is never found, so it is never touched.

mod thread;

use crate::failure::check_transition;
use crate::job::{Job, field};
use crate::name::JobName;
use crate::operations::{Operations, below};
use crate::state::State;
use mainstay::{Field, Record, Result, Step, Test, Where};
use std::collections::BTreeMap;
use std::ops::AddAssign;

pub use thread::{Sweep, Sweeper, SweeperFigures};

/// How many jobs are taken away in one transaction.
const PAGE: usize = 500;

/// What a sweep found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// How many jobs looked stuck.
    pub looked_at: u64,
    /// How many of them are pending again.
    pub retried: u64,
    /// How many of them have failed, having no retries left.
    pub failed: u64,
    /// How many were changed by others before they could be written.
    pub moved_on: u64,
    /// How many records could not be read as jobs.
    pub unreadable: u64,
}

impl AddAssign for SweepReport {
    fn add_assign(&mut self, other: SweepReport) {
        self.looked_at += other.looked_at;
        self.retried += other.retried;
        self.failed += other.failed;
        self.moved_on += other.moved_on;
        self.unreadable += other.unreadable;
    }
}

impl Operations<'_> {
    pub async fn sweep_stuck(&self, stuck_after_ms: Option<u64>) -> Result<SweepReport> {
        let now_ms = self.now_us().await? / 1000;
        let mut report = self.sweep_before(field::TIMEOUT_AT, now_ms).await?;
        if let Some(stuck_after_ms) = stuck_after_ms {
            let before_ms = now_ms.saturating_sub(stuck_after_ms);
            report += self.sweep_before(field::UPDATED_AT, before_ms).await?;
        }
        self.tally().add(|figures| {
            figures.sweeps += 1;
            figures.swept += report;
        });
        Ok(report)
    }

    async fn sweep_before(&self, time: &str, before_ms: u64) -> Result<SweepReport> {
        let held = [State::Claimed, State::Running].map(|state| state.as_str().into());
        let is_held = Where { field: Field::new(field::STATE)?, test: Test::In(held.into()) };
        let filters = [is_held, below(time, &before_ms.to_string())?];
        let (mut report, mut after) = (SweepReport::default(), None);
        loop {
            let prefix = self.prefix();
            let page = self.port.scan(&prefix, &filters, after.as_deref(), PAGE).await?;
            report += self.take_away(page.records).await?;
            after = page.next;
            if after.is_none() {
                return Ok(report);
            }
        }
    }

    async fn take_away(&self, stuck: Vec<(String, Record)>) -> Result<SweepReport> {
        let looked_at = stuck.len() as u64;
        // A record that is no job, and somehow is here, must not keep the others from being swept.
        let readable = stuck.into_iter().filter_map(|(key, record)| self.read(&key, record).ok());
        let taken = readable.map(|job| Ok((self.taken(&job)?, job.name)));
        let taken = taken.collect::<Result<Vec<_>>>()?;
        let unreadable = looked_at - taken.len() as u64;
        if taken.is_empty() {
            return Ok(SweepReport { looked_at, unreadable, ..SweepReport::default() });
        }
        let (taken, names): (Vec<(Step, State)>, Vec<JobName>) = taken.into_iter().unzip();
        let (steps, states): (Vec<Step>, Vec<State>) = taken.into_iter().unzip();
        // What is done beside an operation of somebody has nothing to do with sweeping.
        let answers = self.beside([]).execute(steps).await?.answers;
        let mut counts: BTreeMap<State, u64> = BTreeMap::new();
        for ((state, answer), name) in states.iter().zip(&answers).zip(&names) {
            *counts.entry(*state).or_default() += u64::from(answer.took_effect());
            if answer.took_effect() {
                self.tally().swept(name, *state);
            }
        }
        let count = |state| counts.get(&state).copied().unwrap_or_default();
        let (retried, failed) = (count(State::Pending), count(State::Failed));
        let moved_on = looked_at - unreadable - retried - failed;
        Ok(SweepReport { looked_at, retried, failed, moved_on, unreadable })
    }

    /// What takes a job away, and what it becomes.
    fn taken(&self, job: &Job) -> Result<(Step, State)> {
        let again = job.retry_count < job.max_retries;
        let becomes = if again { State::Pending } else { State::Failed };
        check_transition(job, becomes)?;
        let worker = job.worker.as_deref().unwrap_or("its worker");
        let message = format!("{worker} was silent for too long");
        let write = self.touch(&job.name)?.when_counter(Some(job.counter)).clear(field::TOKEN)?;
        Ok((self.let_go(write, job, becomes, &message)?.into(), becomes))
    }
}
