//! Sweeper: takes jobs away from workers whose lease has expired.
//!
//! ```text
//!   index (state, timeout_at) --> held, lease expired --> retries left? -> pending, one retry used
//!                                                         none?         -> failed
//! ```
//!
//! Each write is conditional on the counter that was read. So a job that was completed or renewed meanwhile
//! stays unchanged. Jobs that are not held are never found, and so never touched.

use crate::backend::JobsBackend;
use crate::failure::check_transition;
use crate::model::job::field;
use crate::model::name::JobName;
use crate::model::sort_key::SortKey;
use crate::model::state::State;
use crate::operations::{Operations, below};
use mainstay::{ErrorKind, Field, Record, Result, Stamp, Step, Test, Where};
use std::ops::AddAssign;

/// Number of jobs read per page.
const PAGE_SIZE: usize = 5000;
/// Number of jobs taken away per transaction.
const BATCH_SIZE: usize = 100;

/// Report of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Number of jobs that looked stuck.
    pub looked_at: u64,
    /// How many of them became pending again.
    pub retried: u64,
    /// How many of them failed, because they had no retries left.
    pub failed: u64,
    /// How many were changed by other writers meanwhile, and so were left alone.
    pub moved_on: u64,
    /// How many were not readable as jobs. They were failed.
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
        self.check_served()?;
        let now_ms = self.now_us().await? / 1000;
        let mut report = self.sweep_before(field::TIMEOUT_AT, now_ms).await?;
        if let Some(stuck_after_ms) = stuck_after_ms {
            let before_ms = now_ms.saturating_sub(stuck_after_ms);
            report += self.sweep_before(field::UPDATED_AT, before_ms).await?;
        }
        self.counters().add(|stats| {
            stats.sweeps += 1;
            stats.swept += report;
        });
        Ok(report)
    }

    /// Swept jobs leave the range, so each page starts at the beginning until one changes nothing.
    async fn sweep_before(&self, time_field: &str, before_ms: u64) -> Result<SweepReport> {
        let held_states = [State::Claimed, State::Running].map(|state| state.as_str().into());
        let is_held =
            Where { field: Field::new(field::STATE)?, test: Test::In(held_states.into()) };
        let filters = [is_held, below(time_field, &before_ms.to_string())?];
        let fork_revision = self.backend.fork_revision().await?;
        let mut report = SweepReport::default();
        let mut after = None;
        loop {
            let page =
                self.scan_fitting(&self.prefix(), &filters, after.as_deref(), PAGE_SIZE).await?;
            let own = page
                .records
                .into_iter()
                .filter(|(_, record)| JobsBackend::is_own(record, fork_revision));
            let swept = self.sweep_jobs(own.collect()).await?;
            report += swept;
            // Inherited jobs stay in the range, so continue after them.
            after = page.next.clone().filter(|_| fork_revision > 0);
            if page.next.is_none() || (after.is_none() && !swept.has_changes()) {
                return Ok(report);
            }
        }
    }

    async fn sweep_jobs(&self, stuck: Vec<(String, Record)>) -> Result<SweepReport> {
        let now_us = self.now_us().await?;
        let steps = stuck.into_iter().map(|(key, record)| self.sweep_step(&key, record, now_us));
        let steps = steps.collect::<Result<Vec<_>>>()?;
        let mut report = SweepReport::default();
        for batch in steps.chunks(BATCH_SIZE) {
            report += match self.execute_steps(batch).await {
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    self.execute_one_by_one(batch).await?
                }
                other => other?,
            };
        }
        Ok(report)
    }

    async fn execute_one_by_one(&self, steps: &[SweepStep]) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        for step in steps {
            report += self.execute_steps(std::slice::from_ref(step)).await?;
        }
        Ok(report)
    }

    async fn execute_steps(&self, steps: &[SweepStep]) -> Result<SweepReport> {
        let steps_to_run = steps.iter().map(|swept| swept.step.clone()).collect();
        // The extra commands of a caller's operation do not belong to a sweep.
        let answers = self.with_commands([]).execute(steps_to_run).await?.answers;
        let mut report = SweepReport { looked_at: steps.len() as u64, ..SweepReport::default() };
        for (step, answer) in steps.iter().zip(&answers) {
            if !answer.took_effect() {
                report.moved_on += 1;
                continue;
            }
            *report.counter(step.outcome) += 1;
            if let Some(name) = &step.name {
                self.counters().record_swept(name, step.outcome.state());
            }
        }
        Ok(report)
    }

    /// Builds the step that takes a job away, with the job's new state.
    fn sweep_step(&self, key: &str, record: Record, now_us: Stamp) -> Result<SweepStep> {
        let counter = Some(record.counter);
        let job = match self.decode(key, record) {
            Ok(job) => job,
            // Unreadable, but held by a silent worker: it is failed.
            Err(error) => {
                let write = self.failed_as_unreadable(key, &error)?.when_counter(counter);
                let step = write.clear(field::TOKEN)?.into();
                return Ok(SweepStep { step, outcome: SweepOutcome::Unreadable, name: None });
            }
        };
        let is_retried = job.retry_count < job.max_retries;
        let becomes = if is_retried { State::Pending } else { State::Failed };
        check_transition(&job.name, job.state, becomes)?;
        let worker = job.worker.as_deref().unwrap_or("its worker");
        let message = format!("{worker} was silent for too long");
        let write = self.write_updated(&job.name)?.when_counter(counter).clear(field::TOKEN)?;
        let write = self.end_lease(write, &job, becomes, &message)?;
        let (write, outcome) = if is_retried {
            // It is queued behind all jobs that already wait.
            (SortKey::of(job.priority, None, now_us).apply_to(write)?, SweepOutcome::Retried)
        } else {
            (write, SweepOutcome::Failed)
        };
        Ok(SweepStep { step: write.into(), outcome, name: Some(job.name) })
    }
}

/// A job to be taken away.
struct SweepStep {
    step: Step,
    outcome: SweepOutcome,
    /// `None` if the record is not a readable job.
    name: Option<JobName>,
}

/// Outcome for a job that looked stuck.
#[derive(Clone, Copy)]
enum SweepOutcome {
    Retried,
    Failed,
    Unreadable,
}

impl SweepOutcome {
    /// The resulting state.
    fn state(self) -> State {
        match self {
            SweepOutcome::Retried => State::Pending,
            SweepOutcome::Failed | SweepOutcome::Unreadable => State::Failed,
        }
    }
}

impl SweepReport {
    fn counter(&mut self, outcome: SweepOutcome) -> &mut u64 {
        match outcome {
            SweepOutcome::Retried => &mut self.retried,
            SweepOutcome::Failed => &mut self.failed,
            SweepOutcome::Unreadable => &mut self.unreadable,
        }
    }

    fn has_changes(&self) -> bool {
        self.retried + self.failed + self.unreadable > 0
    }
}
