//! Sweeper: takes jobs away from workers whose lease has expired.
//!
//! ```text
//!   index (state, timeout_at) --> held, lease expired --> retries left? -> pending, one retry used
//!                                                         none?         -> failed
//! ```
//!
//! Each write is conditional on the counter that was read. So a job that was completed or renewed meanwhile
//! stays unchanged. Jobs that are not held are never found, and so never touched.

mod thread;

use crate::failure::check_transition;
use crate::job::field;
use crate::name::JobName;
use crate::operations::{Operations, below};
use crate::port::Port;
use crate::rank::Place;
use crate::state::State;
use mainstay::{ErrorKind, Field, Record, Result, Stamp, Step, Test, Where};
use std::ops::AddAssign;

pub use thread::{Sweep, Sweeper, SweeperFigures};

/// Number of jobs read per page.
const PAGE: usize = 5000;
/// Number of jobs taken away per transaction.
const TOGETHER: usize = 100;

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
        self.tally().add(|figures| {
            figures.sweeps += 1;
            figures.swept += report;
        });
        Ok(report)
    }

    /// Swept jobs leave the range, so each page starts at the beginning until one changes nothing.
    async fn sweep_before(&self, time: &str, before_ms: u64) -> Result<SweepReport> {
        let held = [State::Claimed, State::Running].map(|state| state.as_str().into());
        let is_held = Where { field: Field::new(field::STATE)?, test: Test::In(held.into()) };
        let filters = [is_held, below(time, &before_ms.to_string())?];
        let forked_at = self.port.fork_revision().await?;
        let mut report = SweepReport::default();
        let mut after = None;
        loop {
            let page = self.fitting(&self.prefix(), &filters, after.as_deref(), PAGE).await?;
            let own = page.records.into_iter().filter(|(_, one)| Port::is_own(one, forked_at));
            let swept = self.take_away(own.collect()).await?;
            report += swept;
            // Inherited jobs stay in the range, so continue after them.
            after = page.next.clone().filter(|_| forked_at > 0);
            if page.next.is_none() || (after.is_none() && !swept.did_something()) {
                return Ok(report);
            }
        }
    }

    async fn take_away(&self, stuck: Vec<(String, Record)>) -> Result<SweepReport> {
        let now_us = self.now_us().await?;
        let taken = stuck.into_iter().map(|(key, record)| self.taken(&key, record, now_us));
        let taken = taken.collect::<Result<Vec<_>>>()?;
        let mut report = SweepReport::default();
        for together in taken.chunks(TOGETHER) {
            report += match self.write_taken(together).await {
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    self.one_by_one(together).await?
                }
                other => other?,
            };
        }
        Ok(report)
    }

    async fn one_by_one(&self, taken: &[Taken]) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        for one in taken {
            report += self.write_taken(std::slice::from_ref(one)).await?;
        }
        Ok(report)
    }

    async fn write_taken(&self, taken: &[Taken]) -> Result<SweepReport> {
        let steps = taken.iter().map(|taken| taken.step.clone()).collect();
        // The commands beside a caller's operation do not belong to a sweep.
        let answers = self.beside([]).execute(steps).await?.answers;
        let mut report = SweepReport { looked_at: taken.len() as u64, ..SweepReport::default() };
        for (taken, answer) in taken.iter().zip(&answers) {
            if !answer.took_effect() {
                report.moved_on += 1;
                continue;
            }
            *report.count(taken.fate) += 1;
            if let Some(name) = &taken.name {
                self.tally().swept(name, taken.fate.state());
            }
        }
        Ok(report)
    }

    /// Builds the step that takes a job away, with the job's new state.
    fn taken(&self, key: &str, record: Record, now_us: Stamp) -> Result<Taken> {
        let counter = Some(record.counter);
        let job = match self.read(key, record) {
            Ok(job) => job,
            // Unreadable, but held by a silent worker: it is failed.
            Err(error) => {
                let write = self.failed_as_unreadable(key, &error)?.when_counter(counter);
                let step = write.clear(field::TOKEN)?.into();
                return Ok(Taken { step, fate: Fate::Unreadable, name: None });
            }
        };
        let again = job.retry_count < job.max_retries;
        let becomes = if again { State::Pending } else { State::Failed };
        check_transition(&job.name, job.state, becomes)?;
        let worker = job.worker.as_deref().unwrap_or("its worker");
        let message = format!("{worker} was silent for too long");
        let write = self.touch(&job.name)?.when_counter(counter).clear(field::TOKEN)?;
        let write = self.let_go(write, &job, becomes, &message)?;
        let (write, fate) = if again {
            // It is queued behind all jobs that already wait.
            (Place::of(job.priority, None, now_us).put(write)?, Fate::Retried)
        } else {
            (write, Fate::Failed)
        };
        Ok(Taken { step: write.into(), fate, name: Some(job.name) })
    }
}

/// A job to be taken away.
struct Taken {
    step: Step,
    fate: Fate,
    /// `None` if the record is not a readable job.
    name: Option<JobName>,
}

/// Outcome for a job that looked stuck.
#[derive(Clone, Copy)]
enum Fate {
    Retried,
    Failed,
    Unreadable,
}

impl Fate {
    /// The resulting state.
    fn state(self) -> State {
        match self {
            Fate::Retried => State::Pending,
            Fate::Failed | Fate::Unreadable => State::Failed,
        }
    }
}

impl SweepReport {
    fn count(&mut self, fate: Fate) -> &mut u64 {
        match fate {
            Fate::Retried => &mut self.retried,
            Fate::Failed => &mut self.failed,
            Fate::Unreadable => &mut self.unreadable,
        }
    }

    fn did_something(&self) -> bool {
        self.retried + self.failed + self.unreadable > 0
    }
}
