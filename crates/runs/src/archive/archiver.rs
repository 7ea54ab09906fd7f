//! Background thread that archives periodically.

use super::{Archive, ArchiveReport, is_closed};
use crate::threads::{self, panic_error};
use mainstay::{Error, Result};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that archives at a fixed interval. Dropping it stops the thread.
pub struct Archiver {
    shared: Arc<ArchiverShared>,
    thread: Option<JoinHandle<()>>,
}

/// The totals of an archiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArchiverStats {
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

struct ArchiverShared {
    archive: Archive,
    stopped: Mutex<bool>,
    stop: Condvar,
    stats: Mutex<ArchiverStats>,
}

impl Archiver {
    /// Starts the thread: a round now, then one every [`every_ms`](super::ArchiveSettings::every_ms).
    pub fn start(archive: &Archive) -> Result<Archiver> {
        let stopped = Mutex::new(false);
        let stop = Condvar::new();
        let stats = Mutex::default();
        let shared = Arc::new(ArchiverShared { archive: archive.clone(), stopped, stop, stats });
        let own = shared.clone();
        let thread = threads::spawn("mainstay-archive", move || while own.round() {})?;
        Ok(Archiver { shared, thread: Some(thread) })
    }

    /// The totals so far.
    pub fn stats(&self) -> ArchiverStats {
        self.shared.stats.lock().clone()
    }

    /// Stops the thread after the current run. Returns the totals.
    pub fn stop(mut self) -> ArchiverStats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.stop.notify_all();
        // Panics were caught and recorded in the statistics.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.end();
    }
}

impl ArchiverShared {
    /// Archives the due runs, then sleeps. Returns whether to continue.
    fn round(&self) -> bool {
        let archive_due = || self.archive.each_due(&mut |run| Ok(self.archive_one(&run.run_id)));
        // `AssertUnwindSafe` is correct: the state is in the database and the store, whose writes are atomic.
        let result = catch_unwind(AssertUnwindSafe(archive_due))
            .unwrap_or_else(|panic| Err(panic_error("an archiver", &*panic)));
        let is_closed = result.as_ref().is_err_and(is_closed);
        self.record_error(result.err());
        let every = Duration::from_millis(self.archive.0.settings.every_ms);
        let mut stopped = self.stopped.lock();
        if !*stopped && !is_closed {
            self.stop.wait_for(&mut stopped, every);
        }
        !*stopped && !is_closed
    }

    /// Archives a run. Returns whether to continue.
    fn archive_one(&self, run: &str) -> bool {
        self.stats.lock().current = Some(run.to_owned());
        let outcome = self.archive.archive(run);
        let mut stats = self.stats.lock();
        stats.current = None;
        if let Err(error) = &outcome {
            stats.last_error = Some(error.to_string());
        }
        stats.total.add(outcome);
        drop(stats);
        !*self.stopped.lock()
    }

    fn record_error(&self, error: Option<Error>) {
        let mut stats = self.stats.lock();
        stats.rounds += 1;
        stats.current = None;
        if let Some(error) = error {
            stats.errors += 1;
            stats.last_error = Some(error.to_string());
        }
    }
}
