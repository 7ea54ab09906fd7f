//! Background sweeper thread, with a callback per sweep.

use crate::failure;
use crate::handles::jobs::Jobs;
use crate::maintenance::sweep::SweepReport;
use crate::model::name::JobName;
use crate::model::state::State;
use mainstay::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A background thread that sweeps periodically. Dropping it stops it.
pub struct Sweeper {
    shared: Arc<SweeperState>,
    thread: Option<JoinHandle<()>>,
}

/// One sweep of a [`Sweeper`].
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The report of the sweep, or its error.
    pub result: Result<SweepReport>,
    /// The first hundred jobs swept since the previous sweep, including manual sweeps, with their new
    /// states.
    pub jobs: Vec<(JobName, State)>,
    /// Duration by the database clock, in microseconds.
    pub duration_us: u64,
}

/// Counters of a sweeper.
#[derive(Clone, Debug, Default)]
pub struct SweeperStats {
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
struct SweeperState {
    is_stopped: Mutex<bool>,
    stop_signal: Condvar,
    stats: Mutex<SweeperStats>,
}

impl Sweeper {
    /// Starts a thread that sweeps at once and then periodically, with a pause of `every`. Fails if `every` is zero.
    pub fn start(jobs: &Jobs, every: Duration) -> Result<Sweeper> {
        let jobs = jobs.clone();
        Sweeper::with_callback(every, move || Ok(vec![jobs.clone()]), |_| {})
    }

    /// Starts a thread that sweeps at once and then periodically, with a pause of `every`. Each time it sweeps the jobs that
    /// `find_jobs` returns, on one or several branches, and passes the result to `callback`. If `find_jobs` returns
    /// none, `callback` is not called.
    ///
    /// ```
    /// use mainstay::Database;
    /// use mainstay_jobs::{Jobs, Settings, Sweeper};
    /// use std::time::Duration;
    /// let jobs = Jobs::open(&Database::memory()?, Settings::default())?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let find_jobs = move || Ok(vec![jobs.clone()]);
    /// let callback = move |sweep: &mainstay_jobs::Sweep| drop(sender.send(sweep.clone()));
    /// let sweeper = Sweeper::with_callback(Duration::from_secs(1), find_jobs, callback)?;
    /// assert_eq!(receiver.recv().expect("a sweep").result?.retried, 0);
    /// sweeper.stop();
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn with_callback(
        every: Duration,
        mut find_jobs: impl FnMut() -> Result<Vec<Jobs>> + Send + 'static,
        mut callback: impl FnMut(&Sweep) + Send + 'static,
    ) -> Result<Sweeper> {
        if every.is_zero() {
            return Err(failure::no_interval());
        }
        let shared = Arc::new(SweeperState::default());
        let state = shared.clone();
        let thread = std::thread::Builder::new()
            .name("mainstay-job-sweep".to_owned())
            .spawn(move || while state.sweep(&mut find_jobs, &mut callback, every) {});
        let thread = thread.map_err(|error| failure::no_thread("sweeper", &error))?;
        Ok(Sweeper { shared, thread: Some(thread) })
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> SweeperStats {
        self.shared.stats.lock().clone()
    }

    /// Stops the thread after the sweep in progress. Returns the counters.
    pub fn stop(mut self) -> SweeperStats {
        self.join();
        self.stats()
    }

    fn join(&mut self) {
        *self.shared.is_stopped.lock() = true;
        self.shared.stop_signal.notify_all();
        // Panics were caught and reported as failed sweeps.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.join();
    }
}

impl SweeperState {
    /// Sweeps once and waits. Returns whether to continue.
    fn sweep(
        &self,
        find_jobs: &mut impl FnMut() -> Result<Vec<Jobs>>,
        callback: &mut impl FnMut(&Sweep),
        every: Duration,
    ) -> bool {
        if let Some(sweep) = catch_panic("a sweep", || sweep_once(find_jobs))
            .unwrap_or_else(|error| Some(failed_sweep(error)))
        {
            self.record(&sweep.result);
            // A panic in the callback does not stop the sweeper.
            if let Err(error) = catch_panic("whoever was told of a sweep", || callback(&sweep)) {
                self.record_error(error);
            }
        }
        let mut is_stopped = self.is_stopped.lock();
        if !*is_stopped {
            self.stop_signal.wait_for(&mut is_stopped, every);
        }
        !*is_stopped
    }

    fn record(&self, result: &Result<SweepReport>) {
        self.stats.lock().sweeps += 1;
        match result {
            Ok(report) => {
                let mut stats = self.stats.lock();
                stats.total += *report;
                stats.last = *report;
                stats.last_error = None;
            }
            Err(error) => self.record_error(error.clone()),
        }
    }

    fn record_error(&self, error: Error) {
        let mut stats = self.stats.lock();
        stats.errors += 1;
        stats.last_error = Some(error);
    }
}

/// Sweeps the jobs found. Returns `None` if none were found.
fn sweep_once(find_jobs: &mut impl FnMut() -> Result<Vec<Jobs>>) -> Option<Sweep> {
    match find_jobs() {
        Ok(jobs) if jobs.is_empty() => None,
        Ok(jobs) => Some(timed_sweep(&jobs).unwrap_or_else(failed_sweep)),
        Err(error) => Some(failed_sweep(error)),
    }
}

fn timed_sweep(jobs: &[Jobs]) -> Result<Sweep> {
    let now_us = || jobs.first().map_or(Ok(0), Jobs::now_us);
    let start_us = now_us()?;
    let mut sweep = Sweep { result: Ok(SweepReport::default()), jobs: Vec::new(), duration_us: 0 };
    for jobs in jobs {
        let result = jobs.sweep();
        sweep.jobs.append(&mut jobs.drain_swept());
        sweep.result = sweep.result.and_then(|mut report| {
            report += result?;
            Ok(report)
        });
    }
    sweep.duration_us = now_us()?.saturating_sub(start_us);
    Ok(sweep)
}

fn catch_panic<T>(what: &str, work: impl FnOnce() -> T) -> Result<T> {
    // Unwind safety: state that a panic leaves half-done is either in the database, which is consistent, or
    // dropped here.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| failure::panicked(what, &*panic))
}

fn failed_sweep(error: Error) -> Sweep {
    Sweep { result: Err(error), jobs: Vec::new(), duration_us: 0 }
}
