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

/// How many may look at the state of the database at once; they never wait behind slow reads.
const LOOKS: usize = 2;

/// The most seats of a kind.
const SEATS_LIMIT: usize = 1 << 20;

/// What all requests share. Clones share it, too.
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
    /// The face for Redis clients, if it is served beside this one.
    resp: OnceLock<Arc<resp::Shared>>,
    /// Those who work beside the faces, if there are some.
    crew: OnceLock<Arc<Crew>>,
}

impl Http {
    /// The face of an open database, with which everybody may do everything. It fails when the system
    /// gives no thread.
    pub fn new(db: Database, settings: Settings) -> std::io::Result<Http> {
        Http::secured(db, settings, Security::open())
    }

    /// The face of an open database and its users.
    pub fn secured(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
    ) -> std::io::Result<Http> {
        let jobs = Desk::plain(db.clone());
        Http::equipped(db, settings, security, jobs)
    }

    /// The face of an open database, its users, and its jobs and locks.
    pub fn equipped(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
    ) -> std::io::Result<Http> {
        Http::budgeted(db, settings, security, jobs, Arc::default())
    }

    /// The same with the memory that it shares with other faces.
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

    /// Tells load balancers to send nothing more (`/readyz` answers 503) and ends the feeds. Requests
    /// are still answered until the server stops.
    pub fn start_draining(&self) {
        self.shared.draining.cancel();
    }

    /// Shows the figures and the slow log of the face for Redis clients, too.
    pub fn show_resp(&self, shared: &Arc<resp::Shared>) {
        // Set once, when the server starts.
        let _ = self.shared.resp.set(shared.clone());
    }

    fn resp(&self) -> Option<&resp::Shared> {
        self.shared.resp.get().map(Arc::as_ref)
    }

    /// Shows in the metrics what those did who work beside the faces.
    pub fn show_crew(&self, crew: &Arc<Crew>) {
        // Set once, when the server starts.
        let _ = self.shared.crew.set(crew.clone());
    }

    fn crew(&self) -> Option<&Crew> {
        self.shared.crew.get().map(Arc::as_ref)
    }

    /// All seats: what they are for, how many are taken, how many there are.
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
