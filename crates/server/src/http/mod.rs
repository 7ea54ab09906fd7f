//! The HTTP face: cells, transactions, branches, files and the feed for programs without a Redis client.
//!
//! ```text
//!   connection --> routes --> handler --+--> a small read, on the serving thread
//!                                       +--> work: writes by ticket, slow reads on bounded threads
//!                                       +--> feed: one thread tails the log for all readers
//!                  every failure --> refusal: a status and a JSON body of one form
//! ```
//!
//! This module does not know the meaning of commands. A request becomes a transaction of the model, and its
//! receipt becomes JSON.

mod access;
mod answers;
mod branches;
mod cells;
mod clerk;
mod conditions;
mod docs;
mod exposition;
mod extract;
mod feed;
mod figures;
mod forms;
mod health;
mod history;
mod indexes;
mod job_reads;
mod jobs;
mod json;
mod leftover;
mod locks;
mod metrics;
mod openapi;
mod origin;
mod outbox;
mod patience;
mod record_history;
mod records;
mod refusal;
mod room;
mod routes;
mod runs;
mod scratch;
mod serve;
mod sessions;
mod settings;
mod shares;
mod slow_log;
mod snapshots;
mod spaces;
mod states;
mod tags;
mod tails;
mod transactions;
mod transfer;
mod work;

pub use routes::{RouteName, route_names, router};
pub use serve::{Serving, Stop, serve, serve_with};
pub use settings::Settings;

#[cfg(any(test, fuzzing))]
pub(crate) use transactions::read as read_transaction;

use crate::crew::Crew;
use crate::jobs::Desk;
use crate::memory::MemoryBudget;
use crate::resp;
use crate::security::Security;
use clerk::Clerk;
use feed::Hub;
use mainstay::Database;
use metrics::Metrics;
use shares::UserSeats;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use work::{CatchUp, Writer};

/// The most requests that read statistics at once. They have their own semaphore, so they never wait behind
/// slow reads.
const LOOKS: usize = 2;

/// The most permits of one semaphore.
const SEATS_LIMIT: usize = 1 << 20;

/// The state that all requests share. Clones share the same state.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    db: Database,
    settings: Settings,
    security: Arc<Security>,
    memory: Arc<MemoryBudget>,
    writer: Writer,
    jobs: Arc<Desk>,
    clerk: Clerk,
    hub: Hub,
    metrics: Metrics,
    bodies: Arc<Semaphore>,
    bodies_of_users: UserSeats,
    slow_reads: Arc<Semaphore>,
    slow_reads_of_users: UserSeats,
    catching_up: CatchUp,
    transfers: Arc<Semaphore>,
    imports: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    feed_readers: Arc<Semaphore>,
    draining: CancellationToken,
    /// The RESP face, if the server runs one.
    resp: OnceLock<Arc<resp::Shared>>,
    /// The background workers of the server (outbox relay, run archive), if it runs any.
    crew: OnceLock<Arc<Crew>>,
}

impl Http {
    /// Creates the face of an open database without users: every caller may do everything. Fails if the
    /// system cannot start a thread.
    pub fn new(db: Database, settings: Settings) -> std::io::Result<Http> {
        Http::secured(db, settings, Security::open())
    }

    /// Creates the face of an open database with its users.
    pub fn secured(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
    ) -> std::io::Result<Http> {
        let jobs = Desk::plain(db.clone());
        Http::equipped(db, settings, security, jobs)
    }

    /// Creates the face of an open database with its users, jobs and locks.
    pub fn equipped(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
    ) -> std::io::Result<Http> {
        Http::budgeted(db, settings, security, jobs, Arc::default())
    }

    /// Like `equipped`, with a memory budget that is shared with other faces.
    pub fn budgeted(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
        memory: Arc<MemoryBudget>,
    ) -> std::io::Result<Http> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let seats = |count: usize| Arc::new(Semaphore::new(count.clamp(1, SEATS_LIMIT)));
        let shared = Shared {
            writer: Writer::start(db.clone(), settings.waiting_writes)?,
            clerk: Clerk::start()?,
            jobs,
            hub: Hub::start(db.clone())?,
            metrics: Metrics::new(),
            bodies: seats(settings.bodies_limit_bytes / 1024),
            bodies_of_users: UserSeats::new(&security, settings.bodies_limit_bytes / 1024),
            slow_reads: seats(settings.slow_reads),
            slow_reads_of_users: UserSeats::new(&security, settings.slow_reads),
            catching_up: CatchUp::start((settings.slow_reads / 2).min(processors / 2))?,
            transfers: seats(settings.transfers),
            imports: seats(settings.imports),
            looks: seats(LOOKS),
            feed_readers: seats(settings.feed_readers),
            draining: CancellationToken::new(),
            resp: OnceLock::new(),
            crew: OnceLock::new(),
            db,
            settings,
            security,
            memory,
        };
        Ok(Http { shared: Arc::new(shared) })
    }

    /// Makes `/readyz` answer 503, so that load balancers send no more requests, and ends all feeds. Other
    /// requests are served until the server stops.
    pub fn start_draining(&self) {
        self.shared.draining.cancel();
    }

    /// Adds the metrics and the slow log of the RESP face.
    pub fn show_resp(&self, shared: &Arc<resp::Shared>) {
        // Set once, when the server starts.
        let _ = self.shared.resp.set(shared.clone());
    }

    fn resp(&self) -> Option<&resp::Shared> {
        self.shared.resp.get().map(Arc::as_ref)
    }

    /// Adds the metrics of the background workers.
    pub fn show_crew(&self, crew: &Arc<Crew>) {
        // Set once, when the server starts.
        let _ = self.shared.crew.set(crew.clone());
    }

    fn crew(&self) -> Option<&Crew> {
        self.shared.crew.get().map(Arc::as_ref)
    }

    /// The name, the permits in use and the limit of each semaphore.
    fn seats(&self) -> [(&'static str, usize, usize); 6] {
        let Settings { slow_reads, transfers, imports, feed_readers, .. } = *self.settings();
        let bodies = self.settings().bodies_limit_bytes / 1024;
        let seats = |name, limit: usize, free: &Semaphore| {
            let limit = limit.clamp(1, SEATS_LIMIT);
            (name, limit.saturating_sub(free.available_permits()), limit)
        };
        let shared = &self.shared;
        [
            seats("bodies_kib", bodies, &shared.bodies),
            seats("slow_reads", slow_reads, &shared.slow_reads),
            seats("transfers", transfers, &shared.transfers),
            seats("imports", imports, &shared.imports),
            seats("looks", LOOKS, &shared.looks),
            seats("feed_readers", feed_readers, &shared.feed_readers),
        ]
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

    fn shared_security(&self) -> Arc<Security> {
        self.shared.security.clone()
    }

    fn security(&self) -> &Security {
        &self.shared.security
    }

    fn memory(&self) -> &Arc<MemoryBudget> {
        &self.shared.memory
    }

    fn writer(&self) -> &Writer {
        &self.shared.writer
    }

    fn jobs(&self) -> &Arc<Desk> {
        &self.shared.jobs
    }

    fn clerk(&self) -> &Clerk {
        &self.shared.clerk
    }

    fn hub(&self) -> &Hub {
        &self.shared.hub
    }

    fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    fn bodies_of_users(&self) -> &UserSeats {
        &self.shared.bodies_of_users
    }

    fn bodies(&self) -> Arc<Semaphore> {
        self.shared.bodies.clone()
    }

    fn slow_reads(&self) -> Arc<Semaphore> {
        self.shared.slow_reads.clone()
    }

    fn slow_reads_of_users(&self) -> &UserSeats {
        &self.shared.slow_reads_of_users
    }

    fn catching_up(&self) -> &CatchUp {
        &self.shared.catching_up
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
