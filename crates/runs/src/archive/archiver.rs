//! Background thread that archives periodically.

use super::{Archive, ArchiveReport, is_over};
use crate::worker::{self, panicked};
use mainstay::{Error, Result};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that archives at a fixed interval. Dropping it stops the thread.
pub struct Archiver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The totals of an archiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArchiverFigures {
    /// The number of finished rounds.
    pub rounds: u64,
    /// The totals of all rounds, including the current one.
    pub total: ArchiveReport,
    /// The run that is being archived.
    pub current: Option<String>,
    /// The number of rounds that failed as a whole.
    pub errors: u64,
    /// The error of the last failed round or run.
    pub last_error: Option<String>,
}

struct Shared {
    archive: Archive,
    stopped: Mutex<bool>,
    stop: Condvar,
    figures: Mutex<ArchiverFigures>,
}

impl Archiver {
    /// Starts the thread: a round now, then one every [`every_ms`](super::ArchiveSettings::every_ms).
    pub fn start(archive: &Archive) -> Result<Archiver> {
        let stopped = Mutex::new(false);
        let stop = Condvar::new();
        let figures = Mutex::default();
        let shared = Arc::new(Shared { archive: archive.clone(), stopped, stop, figures });
        let own = shared.clone();
        let thread = worker::spawn("mainstay-archive", move || while own.round() {})?;
        Ok(Archiver { shared, thread: Some(thread) })
    }

    /// The totals so far.
    pub fn figures(&self) -> ArchiverFigures {
        self.shared.figures.lock().clone()
    }

    /// Stops the thread after the current run. Returns the totals.
    pub fn stop(mut self) -> ArchiverFigures {
        self.end();
        self.figures()
    }

    fn end(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.stop.notify_all();
        // Panics were caught and recorded in the figures.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Archives the due runs, then sleeps. Returns whether to continue.
    fn round(&self) -> bool {
        let each = || self.archive.each_due(&mut |run| Ok(self.archive_one(&run.run_id)));
        // `AssertUnwindSafe` is correct: the state is in the database and the store, whose writes are atomic.
        let done = catch_unwind(AssertUnwindSafe(each))
            .unwrap_or_else(|panic| Err(panicked("an archiver", &*panic)));
        let is_over = done.as_ref().is_err_and(is_over);
        self.note(done.err());
        let every = Duration::from_millis(self.archive.0.settings.every_ms);
        let mut stopped = self.stopped.lock();
        if !*stopped && !is_over {
            self.stop.wait_for(&mut stopped, every);
        }
        !*stopped && !is_over
    }

    /// Archives a run. Returns whether to continue.
    fn archive_one(&self, run: &str) -> bool {
        self.figures.lock().current = Some(run.to_owned());
        let outcome = self.archive.archive(run);
        let mut figures = self.figures.lock();
        figures.current = None;
        if let Err(error) = &outcome {
            figures.last_error = Some(error.to_string());
        }
        figures.total.add(outcome);
        drop(figures);
        !*self.stopped.lock()
    }

    fn note(&self, error: Option<Error>) {
        let mut figures = self.figures.lock();
        figures.rounds += 1;
        figures.current = None;
        if let Some(error) = error {
            figures.errors += 1;
            figures.last_error = Some(error.to_string());
        }
    }
}
