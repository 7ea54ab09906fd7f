//! Background services of a server: the relay of its outbox, and the archiver of its runs.
//!
//! ```text
//!   [outbox] file      --start--> RelayThread --+-- figures --> /metrics; failures --> the log
//!   [archive] directory --start--> Archiver ----+
//!                                     '-- stop, after the front ends and before the database --> final figures
//! ```

use crate::config::Config;
use mainstay::{Database, Result};
use mainstay_runs::archive::{Archiver, ArchiverStats};
use mainstay_runs::relay::{RelayStats, RelayThread};
use parking_lot::Mutex;
use std::sync::Arc;

/// The relay and the archiver of a server, if configured.
#[derive(Default)]
pub struct Crew {
    relay: Mutex<Hand<RelayThread, RelayStats>>,
    archiver: Mutex<Hand<Archiver, ArchiverStats>>,
}

/// A running service, or the final figures of one that ended or never started.
enum Hand<Worker, Figures> {
    Works(Worker),
    Ended(Figures),
}

impl Crew {
    /// Starts the configured services.
    pub fn start(db: &Database, settings: &Config) -> Result<Arc<Crew>> {
        let relay = settings.outbox.start(db)?;
        let archiver = settings.archive.start(db)?;
        Ok(Arc::new(Crew {
            relay: Mutex::new(Hand::of(relay)),
            archiver: Mutex::new(Hand::of(archiver)),
        }))
    }

    /// Returns the figures of the relay so far.
    pub fn relayed(&self) -> RelayStats {
        match &*self.relay.lock() {
            Hand::Works(relay) => relay.stats(),
            Hand::Ended(figures) => figures.clone(),
        }
    }

    /// Returns the figures of the archiver so far.
    pub fn archived(&self) -> ArchiverStats {
        match &*self.archiver.lock() {
            Hand::Works(archiver) => archiver.stats(),
            Hand::Ended(figures) => figures.clone(),
        }
    }

    /// Stops the services after their current work, and logs their final figures.
    pub fn stop(&self) {
        let mut hand = self.relay.lock();
        if let Some(figures) = hand.end(RelayThread::stop) {
            let RelayStats { delivered, failed, dead, .. } = figures;
            tracing::info!(delivered, failed, dead, "the relay of the outbox stopped");
        }
        let mut hand = self.archiver.lock();
        if let Some(figures) = hand.end(Archiver::stop) {
            let archived = figures.total.archived;
            let failed = figures.total.failed;
            tracing::info!(archived, failed, "the archive of runs stopped");
        }
    }
}

impl<Worker, Figures: Clone + Default> Hand<Worker, Figures> {
    fn of(worker: Option<Worker>) -> Hand<Worker, Figures> {
        worker.map_or_else(Hand::default, Hand::Works)
    }

    /// Stops a running service. Returns `None` if none is running.
    fn end(&mut self, stop: fn(Worker) -> Figures) -> Option<Figures> {
        match std::mem::take(self) {
            Hand::Works(worker) => {
                let figures = stop(worker);
                *self = Hand::Ended(figures.clone());
                Some(figures)
            }
            ended => {
                *self = ended;
                None
            }
        }
    }
}

impl<Worker, Figures: Default> Default for Hand<Worker, Figures> {
    fn default() -> Hand<Worker, Figures> {
        Hand::Ended(Figures::default())
    }
}
