//! The thread that sweeps from time to time, and tells of each sweep.

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

/// A thread that sweeps from time to time. Dropping it stops it.
pub struct Sweeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// One sweep of a [`Sweeper`].
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What it did, or why it failed.
    pub done: Result<SweepReport>,
    /// The first hundred jobs that were taken away since the sweep before, by hand as well, and what they became.
    pub jobs: Vec<(JobName, State)>,
    /// How long it took by the database's clock, in microseconds.
    pub took_us: u64,
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
        let jobs = jobs.clone();
        Sweeper::telling(every, move || Ok(vec![jobs.clone()]), |_| {})
    }

    /// Sweeps now and then every so often what is found then, on one branch or on several, and tells of each sweep;
    /// where nothing is found, nothing is told.
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
        let run = move || while own.sweep(&mut find, &mut tell, every) {};
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
        // Panics were caught and told.
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
    fn sweep(
        &self,
        find: &mut impl FnMut() -> Result<Vec<Jobs>>,
        tell: &mut impl FnMut(&Sweep),
        every: Duration,
    ) -> bool {
        if let Some(sweep) = caught("a sweep", || once(find)).unwrap_or_else(failed) {
            self.note(&sweep.done);
            // What its hearer did wrong is no reason to stop.
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
                (figures.last, figures.last_error) = (*report, None);
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

/// Sweeps what is found; nothing where there is nothing.
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
    // Whatever a panic left half done is in the database, which is whole, or ends here.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| failure::panicked(what, &*panic))
}

fn failed(error: Error) -> Option<Sweep> {
    Some(broken(error))
}

fn broken(error: Error) -> Sweep {
    Sweep { done: Err(error), jobs: Vec::new(), took_us: 0 }
}
