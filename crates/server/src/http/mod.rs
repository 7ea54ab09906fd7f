//! The HTTP face: cells, transactions, branches, files and the feed for programs without a Redis client.
//!
//! ```text
//!   connection --> routes --> handler --+--> a cell, read at once
//!                                       +--> work: writes by ticket, slow reads on bounded threads
//!                                       +--> feed: one thread follows the log for all readers
//!                  every failure --> refusal: a status and one form of body
//! ```
//!
//! Nothing here knows what commands mean: a request becomes a transaction of the model, and its
//! receipt becomes JSON.

mod branches;
mod cells;
mod conditions;
mod docs;
mod extract;
mod feed;
mod forms;
mod health;
mod history;
mod leftover;
mod metrics;
mod openapi;
mod patience;
mod refusal;
mod routes;
mod serve;
mod settings;
mod tags;
mod transactions;
mod transfer;
mod work;

pub use routes::{RouteName, route_names, router};
pub use serve::{Serving, Stop, serve};
pub use settings::Settings;

#[cfg(any(test, fuzzing))]
pub(crate) use transactions::read as read_transaction;

use feed::Hub;
use mainstay::Database;
use metrics::Metrics;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use work::Writer;

/// How many may look at the state of the database at once; they never wait behind slow reads.
const LOOKS: usize = 2;

/// What all requests share. Clones share it, too.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    db: Database,
    settings: Settings,
    writer: Writer,
    hub: Hub,
    metrics: Metrics,
    bodies: Arc<Semaphore>,
    slow_reads: Arc<Semaphore>,
    transfers: Arc<Semaphore>,
    imports: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    feed_readers: Arc<Semaphore>,
    draining: CancellationToken,
}

impl Http {
    /// The face of an open database. It fails when the system gives no thread.
    pub fn new(db: Database, settings: Settings) -> std::io::Result<Http> {
        let seats = |count: usize| Arc::new(Semaphore::new(count.clamp(1, 1 << 20)));
        let shared = Shared {
            writer: Writer::start(db.clone())?,
            hub: Hub::start(db.clone())?,
            metrics: Metrics::new(),
            bodies: seats(settings.bodies_limit_bytes / 1024),
            slow_reads: seats(settings.slow_reads),
            transfers: seats(settings.transfers),
            imports: seats(settings.imports),
            looks: seats(LOOKS),
            feed_readers: seats(settings.feed_readers),
            draining: CancellationToken::new(),
            db,
            settings,
        };
        Ok(Http { shared: Arc::new(shared) })
    }

    /// Tells load balancers to send nothing more (`/readyz` answers 503) and ends the feeds. Requests
    /// are still answered until the server stops.
    pub fn start_draining(&self) {
        self.shared.draining.cancel();
    }

    fn is_draining(&self) -> bool {
        self.shared.draining.is_cancelled()
    }

    fn draining(&self) -> &CancellationToken {
        &self.shared.draining
    }

    fn db(&self) -> &Database {
        &self.shared.db
    }

    fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    fn writer(&self) -> &Writer {
        &self.shared.writer
    }

    fn hub(&self) -> &Hub {
        &self.shared.hub
    }

    fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    fn bodies(&self) -> Arc<Semaphore> {
        self.shared.bodies.clone()
    }

    fn slow_reads(&self) -> Arc<Semaphore> {
        self.shared.slow_reads.clone()
    }

    fn transfers(&self) -> Arc<Semaphore> {
        self.shared.transfers.clone()
    }

    fn imports(&self) -> Arc<Semaphore> {
        self.shared.imports.clone()
    }

    fn looks(&self) -> Arc<Semaphore> {
        self.shared.looks.clone()
    }

    fn feed_readers(&self) -> Arc<Semaphore> {
        self.shared.feed_readers.clone()
    }
}
