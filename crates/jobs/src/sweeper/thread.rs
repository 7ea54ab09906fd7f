//! Background sweeper thread, with a callback per sweep.

use super::SweepReport;
use crate::failure;
use crate::jobs::Jobs;
use crate::name::JobName;
use crate::state::State;
use mainstay::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A background thread that sweeps periodically. Dropping it stops it.
pub struct Sweeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// One sweep of a [`Sweeper`].
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The report of the sweep, or its error.
    pub done: Result<SweepReport>,
    /// The first hundred jobs swept since the previous sweep, including manual sweeps, with their new
    /// states.
    pub jobs: Vec<(JobName, State)>,
    /// Duration by the database clock, in microseconds.
    pub took_us: u64,
}

/// Counters of a sweeper.
#[derive(Clone, Debug, Default)]
pub struct SweeperFigures {
    /// Number of sweeps.
    pub sweeps: u64,
    /// Number of failed sweeps.
    pub errors: u64,
    /// Sum of all reports.
    pub total: SweepReport,
    /// Report of the last sweep.
    pub last: SweepReport,
    /// Error of the last sweep, if it failed.
    pub last_error: Option<Error>,
}

#[derive(Default)]
struct Shared {
    stopped: Mutex<bool>,
    stop: Condvar,
    figures: Mutex<SweeperFigures>,
}

impl Sweeper {
    /// Starts a thread that sweeps at once and then periodically, with a pause of `every`. Fails if `every` is zero.
    pub fn start(jobs: &Jobs, every: Duration) -> Result<Sweeper> {
        let jobs = jobs.clone();
        Sweeper::telling(every, move || Ok(vec![jobs.clone()]), |_| {})
    }

    /// Starts a thread that sweeps at once and then periodically, with a pause of `every`. Each time it sweeps the jobs that
    /// `find` returns, on one or several branches, and passes the result to `tell`. If `find` returns none,
    /// `tell` is not called.
    ///
    /// ```
    /// use mainstay::Database;
    /// use mainstay_jobs::{Jobs, Settings, Sweeper};
    /// use std::time::Duration;
    /// let jobs = Jobs::open(&Database::memory()?, Settings::default())?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let find = move || Ok(vec![jobs.clone()]);
    /// let tell = move |sweep: &mainstay_jobs::Sweep| drop(tell.send(sweep.clone()));
    /// let sweeper = Sweeper::telling(Duration::from_secs(1), find, tell)?;
    /// assert_eq!(told.recv().expect("a sweep").done?.retried, 0);
    /// sweeper.stop();
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn telling(
        every: Duration,
        mut find: impl FnMut() -> Result<Vec<Jobs>> + Send + 'static,
        mut tell: impl FnMut(&Sweep) + Send + 'static,
    ) -> Result<Sweeper> {
        if every.is_zero() {
            return Err(failure::no_interval());
        }
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("mainstay-job-sweep".to_owned())
            .spawn(move || while own.sweep(&mut find, &mut tell, every) {});
        let thread = thread.map_err(|error| failure::no_thread("sweeper", &error))?;
        Ok(Sweeper { shared, thread: Some(thread) })
    }

    /// Returns the counters so far.
    pub fn figures(&self) -> SweeperFigures {
        self.shared.figures.lock().clone()
    }

    /// Stops the thread after the sweep in progress. Returns the counters.
    pub fn stop(mut self) -> SweeperFigures {
        self.end();
        self.figures()
    }

    fn end(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.stop.notify_all();
        // Panics were caught and reported as failed sweeps.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Sweeps once and waits. Returns whether to continue.
    fn sweep(
        &self,
        find: &mut impl FnMut() -> Result<Vec<Jobs>>,
        tell: &mut impl FnMut(&Sweep),
        every: Duration,
    ) -> bool {
        if let Some(sweep) = caught("a sweep", || once(find)).unwrap_or_else(failed) {
            self.note(&sweep.done);
            // A panic in the callback does not stop the sweeper.
            if let Err(error) = caught("whoever was told of a sweep", || tell(&sweep)) {
                self.failed(error);
            }
        }
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.stop.wait_for(&mut stopped, every);
        }
        !*stopped
    }

    fn note(&self, done: &Result<SweepReport>) {
        self.figures.lock().sweeps += 1;
        match done {
            Ok(report) => {
                let mut figures = self.figures.lock();
                figures.total += *report;
                figures.last = *report;
                figures.last_error = None;
            }
            Err(error) => self.failed(error.clone()),
        }
    }

    fn failed(&self, error: Error) {
        let mut figures = self.figures.lock();
        figures.errors += 1;
        figures.last_error = Some(error);
    }
}

/// Sweeps the jobs found. Returns `None` if none were found.
fn once(find: &mut impl FnMut() -> Result<Vec<Jobs>>) -> Option<Sweep> {
    match find() {
        Ok(found) if found.is_empty() => None,
        Ok(found) => Some(timed(&found).unwrap_or_else(broken)),
        Err(error) => Some(broken(error)),
    }
}

fn timed(found: &[Jobs]) -> Result<Sweep> {
    let now_us = || found.first().map_or(Ok(0), Jobs::now_us);
    let begun_us = now_us()?;
    let mut sweep = Sweep { done: Ok(SweepReport::default()), jobs: Vec::new(), took_us: 0 };
    for jobs in found {
        let done = jobs.sweep();
        sweep.jobs.append(&mut jobs.take_swept());
        sweep.done = sweep.done.and_then(|mut report| {
            report += done?;
            Ok(report)
        });
    }
    sweep.took_us = now_us()?.saturating_sub(begun_us);
    Ok(sweep)
}

fn caught<T>(what: &str, work: impl FnOnce() -> T) -> Result<T> {
    // Unwind safety: state that a panic leaves half-done is either in the database, which is consistent, or
    // dropped here.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| failure::panicked(what, &*panic))
}

fn failed(error: Error) -> Option<Sweep> {
    Some(broken(error))
}

fn broken(error: Error) -> Sweep {
    Sweep { done: Err(error), jobs: Vec::new(), took_us: 0 }
}
