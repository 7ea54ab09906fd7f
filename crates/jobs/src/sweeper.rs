//! The sweeper: takes jobs away from workers that have fallen silent.
//!
//! ```text
//!   index (state, timeout_at) --> held, lease over --> retries left? -> pending, one retry used
//!                                                      none?         -> failed
//! ```
//!
//! Each write is conditional on the counter that was read: a job that was completed or heard of meanwhile stays
//! as it is. What is not held is never found, so it is never touched.

use crate::failure::{self, check_transition};
use crate::job::field;
use crate::jobs::Jobs;
use crate::operations::{Operations, below};
use crate::port::Port;
use crate::rank::Place;
use crate::state::State;
use mainstay::{Error, ErrorKind, Field, Record, RecordPage, Result, Stamp, Step, Test, Where};
use parking_lot::{Condvar, Mutex};
use std::ops::AddAssign;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

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
            let page = self.stuck(&filters, after.as_deref()).await?;
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

    /// A page of what is stuck: as many as an answer has room for.
    async fn stuck(&self, filters: &[Where], after: Option<&str>) -> Result<RecordPage> {
        let mut size = PAGE;
        loop {
            match self.port.scan(&self.prefix(), filters, after, size).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && size > 1 => size /= 2,
                other => return other,
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

    async fn one_by_one(&self, taken: &[(Step, Fate)]) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        for one in taken {
            report += self.write_taken(std::slice::from_ref(one)).await?;
        }
        Ok(report)
    }

    async fn write_taken(&self, taken: &[(Step, Fate)]) -> Result<SweepReport> {
        let steps = taken.iter().map(|(step, _)| step.clone()).collect();
        // What is done beside an operation of somebody has nothing to do with sweeping.
        let answers = self.beside([]).execute(steps).await?.answers;
        let mut report = SweepReport { looked_at: taken.len() as u64, ..SweepReport::default() };
        for ((_, fate), answer) in taken.iter().zip(&answers) {
            let fate = if answer.took_effect() { *fate } else { Fate::MovedOn };
            *report.count(fate) += 1;
        }
        Ok(report)
    }

    /// What takes a job away, and what becomes of it.
    fn taken(&self, key: &str, record: Record, now_us: Stamp) -> Result<(Step, Fate)> {
        let counter = Some(record.counter);
        let job = match self.read(key, record) {
            Ok(job) => job,
            // Whatever else its record says, it is held and nobody is heard of.
            Err(error) => {
                let write = self.failed_as_unreadable(key, &error)?.when_counter(counter);
                return Ok((write.clear(field::TOKEN)?.into(), Fate::Unreadable));
            }
        };
        let again = job.retry_count < job.max_retries;
        let becomes = if again { State::Pending } else { State::Failed };
        check_transition(&job.name, job.state, becomes)?;
        let worker = job.worker.as_deref().unwrap_or("its worker");
        let message = format!("{worker} was silent for too long");
        let write = self.touch(&job.name)?.when_counter(counter).clear(field::TOKEN)?;
        let write = self.let_go(write, &job, becomes, &message)?;
        match again {
            // It comes behind all that wait already.
            true => {
                let write = Place::of(job.priority, None, now_us).put(write)?;
                Ok((write.into(), Fate::Retried))
            }
            false => Ok((write.into(), Fate::Failed)),
        }
    }
}

/// What became of a job that looked stuck.
#[derive(Clone, Copy)]
enum Fate {
    Retried,
    Failed,
    Unreadable,
    MovedOn,
}

impl SweepReport {
    fn count(&mut self, fate: Fate) -> &mut u64 {
        match fate {
            Fate::Retried => &mut self.retried,
            Fate::Failed => &mut self.failed,
            Fate::Unreadable => &mut self.unreadable,
            Fate::MovedOn => &mut self.moved_on,
        }
    }

    fn did_something(&self) -> bool {
        self.retried + self.failed + self.unreadable > 0
    }
}

/// A thread that sweeps from time to time. Dropping it stops it.
pub struct Sweeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What a sweeper has done so far.
#[derive(Clone, Debug, Default)]
pub struct SweeperFigures {
    /// How many sweeps there were.
    pub sweeps: u64,
    /// How many of them failed.
    pub errors: u64,
    /// What all of them did together.
    pub total: SweepReport,
    /// What the last one did.
    pub last: SweepReport,
    /// Why the last one failed, if it did.
    pub last_error: Option<Error>,
}

#[derive(Default)]
struct Shared {
    stopped: Mutex<bool>,
    stop: Condvar,
    figures: Mutex<SweeperFigures>,
}

impl Sweeper {
    /// Sweeps now and then every so often.
    pub fn start(jobs: &Jobs, every: Duration) -> Result<Sweeper> {
        let shared = Arc::new(Shared::default());
        let (jobs, own) = (jobs.clone(), shared.clone());
        let run = move || while own.sweep(&jobs, every) {};
        let thread = std::thread::Builder::new().name("mainstay-job-sweep".to_owned()).spawn(run);
        let thread = thread.map_err(|error| failure::no_thread("sweeper", &error))?;
        Ok(Sweeper { shared, thread: Some(thread) })
    }

    /// What it has done so far.
    pub fn figures(&self) -> SweeperFigures {
        self.shared.figures.lock().clone()
    }

    /// Stops it once the sweep under way is done; gives what it has done.
    pub fn stop(mut self) -> SweeperFigures {
        self.end();
        self.figures()
    }

    fn end(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.stop.notify_all();
        // A sweeper that panicked is over as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Sweeps once and waits; says whether to go on.
    fn sweep(&self, jobs: &Jobs, every: Duration) -> bool {
        self.note(jobs.sweep());
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.stop.wait_for(&mut stopped, every);
        }
        !*stopped
    }

    fn note(&self, swept: Result<SweepReport>) {
        let mut figures = self.figures.lock();
        figures.sweeps += 1;
        match swept {
            Ok(report) => {
                figures.total += report;
                (figures.last, figures.last_error) = (report, None);
            }
            Err(error) => {
                figures.errors += 1;
                figures.last_error = Some(error);
            }
        }
    }
}
