//! The thread that archives from time to time.

use super::{Archive, ArchiveReport, is_over};
use crate::worker::{self, panicked};
use mainstay::{Error, Result};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that archives now and then every so often. Dropping it stops it.
pub struct Archiver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What an archiver has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArchiverFigures {
    /// Rounds that are done.
    pub rounds: u64,
    /// What all of them did, the one under way included.
    pub total: ArchiveReport,
    /// The run that is being archived.
    pub current: Option<String>,
    /// Rounds that failed as a whole.
    pub errors: u64,
    /// Why the last thing that failed did: a round, or a run.
    pub last_error: Option<String>,
}

struct Shared {
    archive: Archive,
    stopped: Mutex<bool>,
    stop: Condvar,
    figures: Mutex<ArchiverFigures>,
}

impl Archiver {
    /// Starts it: a round now, and then one every [`every_ms`](super::ArchiveSettings::every_ms).
    pub fn start(archive: &Archive) -> Result<Archiver> {
        let (stopped, stop, figures) = (Mutex::new(false), Condvar::new(), Mutex::default());
        let shared = Arc::new(Shared { archive: archive.clone(), stopped, stop, figures });
        let own = shared.clone();
        let thread = worker::spawn("mainstay-archive", move || while own.round() {})?;
        Ok(Archiver { shared, thread: Some(thread) })
    }

    /// What it has done so far.
    pub fn figures(&self) -> ArchiverFigures {
        self.shared.figures.lock().clone()
    }

    /// Stops it once the run under way is archived; gives what it has done.
    pub fn stop(mut self) -> ArchiverFigures {
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

impl Drop for Archiver {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Archives what is due and rests; says whether to go on.
    fn round(&self) -> bool {
        let each = || self.archive.each_due(&mut |run| Ok(self.archive_one(&run.run_id)));
        // What a panic left half done is in the database and the store, which are whole.
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

    /// Archives a run; says whether to go on.
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
        (figures.rounds, figures.current) = (figures.rounds + 1, None);
        if let Some(error) = error {
            figures.errors += 1;
            figures.last_error = Some(error.to_string());
        }
    }
}
