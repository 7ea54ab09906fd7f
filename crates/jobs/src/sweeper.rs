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
use crate::job::field;
use crate::name::JobName;
use crate::operations::{Operations, below};
use crate::port::Port;
use crate::rank::Place;
use crate::state::State;
use mainstay::{ErrorKind, Field, Record, Result, Stamp, Step, Test, Where};
use std::ops::AddAssign;

pub use thread::{Sweep, Sweeper, SweeperFigures};

/// How many jobs are looked at together.
const PAGE: usize = 5000;
/// How many of them are taken away in one transaction.
const TOGETHER: usize = 100;

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
    /// How many of them could not be read as jobs: they have failed.
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

    /// What is swept leaves the range, so each page begins anew, until one changes nothing.
    async fn sweep_before(&self, time: &str, before_ms: u64) -> Result<SweepReport> {
        let held = [State::Claimed, State::Running].map(|state| state.as_str().into());
        let is_held = Where { field: Field::new(field::STATE)?, test: Test::In(held.into()) };
        let filters = [is_held, below(time, &before_ms.to_string())?];
        let forked_at = self.port.fork_revision().await?;
        let (mut report, mut after) = (SweepReport::default(), None);
        loop {
            let page = self.fitting(&self.prefix(), &filters, after.as_deref(), PAGE).await?;
            let own = page.records.into_iter().filter(|(_, one)| Port::is_own(one, forked_at));
            let swept = self.take_away(own.collect()).await?;
            report += swept;
            // What a branch inherited stays in the range.
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
        // What is done beside an operation of somebody has nothing to do with sweeping.
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

    /// What takes a job away, and what becomes of it.
    fn taken(&self, key: &str, record: Record, now_us: Stamp) -> Result<Taken> {
        let counter = Some(record.counter);
        let job = match self.read(key, record) {
            Ok(job) => job,
            // Whatever else its record says, it is held and nobody is heard of.
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
        let (write, fate) = match again {
            // It comes behind all that wait already.
            true => (Place::of(job.priority, None, now_us).put(write)?, Fate::Retried),
            false => (write, Fate::Failed),
        };
        Ok(Taken { step: write.into(), fate, name: Some(job.name) })
    }
}

/// A job that is to be taken away.
struct Taken {
    step: Step,
    fate: Fate,
    /// Nothing where it cannot be read.
    name: Option<JobName>,
}

/// What became of a job that looked stuck.
#[derive(Clone, Copy)]
enum Fate {
    Retried,
    Failed,
    Unreadable,
}

impl Fate {
    /// The state that it is in then.
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
