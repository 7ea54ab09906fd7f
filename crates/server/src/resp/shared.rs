//! State shared by all connections of the RESP front end.

use super::Settings;
use super::connection_state::ConnectionState;
use super::counters::{LoopCounters, Metrics};
use super::cursors::Cursors;
use super::reply::Reply;
use super::request::Limits;
use super::slow_log::SlowLog;
use crate::jobs::Desk;
use crate::memory::{Face, MemoryBudget};
use crate::security::{self, Resource, Security, Share, User};
use mainstay::{Clock, Database, Durability, Stamp, SystemClock};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The number of writes after the start whose rewritten bytes are measured. If none of them is large, large
/// ones are rare.
const MEASURED_AT_START: u32 = 100_000;

/// State shared by all sessions.
pub struct Shared {
    /// The database.
    pub db: Database,
    /// The service for jobs and locks.
    pub jobs: Arc<Desk>,
    /// The settings of the front end.
    pub settings: Settings,
    /// The budget for incomplete requests and unread replies.
    pub memory: Arc<MemoryBudget>,
    /// The limit of this front end within the budget.
    pub front_end_budget: Face,
    /// Users and permissions.
    pub security: Arc<Security>,
    /// Limits for requests of unauthenticated clients.
    pub unauthenticated_limits: Limits,
    /// The table of scan cursors.
    pub cursors: Arc<Cursors>,
    /// Metrics.
    pub metrics: Metrics,
    /// The counters of sessions without an event loop.
    pub detached_counters: Arc<LoopCounters>,
    /// The slow log.
    pub slow_log: SlowLog,
    /// Number of further writes that are measured before they are executed. `u32::MAX` once a large one was found:
    /// then all are.
    writes_to_measure: AtomicU32,
    clock: SystemClock,
    last_connection_id: AtomicU64,
    port: AtomicU16,
    /// The address of the HTTP front end, once it is known.
    http: OnceLock<String>,
    /// True while the server stops: blocking reads end.
    is_stopping: AtomicBool,
    clients: Mutex<BTreeMap<u64, String>>,
    /// The reference count is one more than the number of connections.
    slots: ConnectionSlot,
    /// The reference count is one more than the number of feed readers.
    feed_slots: ConnectionSlot,
}

/// A counted slot for a connection, taken when it is accepted and released on drop.
pub type ConnectionSlot = Arc<()>;

/// A counted slot for a feed reader, in total and for its user, released on drop.
pub struct FeedSlot {
    _slot: ConnectionSlot,
    _share: Option<Share>,
}

/// Returns the limits for requests of unauthenticated clients.
fn limits_before_login(usual: &Limits, security: &security::Settings) -> Limits {
    let bytes = security.stranger_request_bytes;
    Limits {
        words: usual.words.min(security.stranger_words),
        word_bytes: usual.word_bytes.min(bytes),
        request_bytes: usual.request_bytes.min(bytes),
        line_bytes: usual.line_bytes.min(bytes),
    }
}

impl Shared {
    /// Creates the state for a database on which every client may do everything.
    pub fn new(db: Database, settings: Settings) -> Arc<Shared> {
        Shared::with_security(db, settings, Security::open())
    }

    /// Creates the state for a database and its users.
    pub fn with_security(db: Database, settings: Settings, security: Arc<Security>) -> Arc<Shared> {
        let jobs = Desk::plain(db.clone());
        Shared::with_jobs(db, settings, security, jobs)
    }

    /// Creates the state for a database, its users, and its jobs and locks.
    pub fn with_jobs(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
    ) -> Arc<Shared> {
        Shared::with_memory_budget(db, settings, security, jobs, Arc::default())
    }

    /// Does the same with a memory budget shared with other front ends.
    pub fn with_memory_budget(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
        memory: Arc<MemoryBudget>,
    ) -> Arc<Shared> {
        let metrics = Metrics::default();
        Arc::new(Shared {
            db,
            jobs,
            detached_counters: metrics.new_loop_counters(),
            metrics,
            slow_log: SlowLog::new(settings.slow_log_us, settings.slow_log_length),
            front_end_budget: MemoryBudget::face("resp.held_bytes", settings.held_bytes),
            memory,
            cursors: Arc::new(Cursors::new(settings.cursors)),
            unauthenticated_limits: limits_before_login(&settings.request, security.settings()),
            settings,
            security,
            writes_to_measure: AtomicU32::new(MEASURED_AT_START),
            clock: SystemClock::new(),
            last_connection_id: AtomicU64::new(0),
            port: AtomicU16::new(0),
            http: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
            clients: Mutex::default(),
            slots: ConnectionSlot::default(),
            feed_slots: ConnectionSlot::default(),
        })
    }

    /// Returns a new session id.
    pub fn next_connection_id(&self) -> u64 {
        self.last_connection_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the wall-clock time in microseconds.
    pub fn now(&self) -> Stamp {
        self.clock.wall_us()
    }

    /// Returns the monotonic time since the start, in microseconds.
    pub fn ticks_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    /// Returns whether writes are measured, which costs a lookup each. They are measured if large ones
    /// exist, and for a while after the start.
    #[inline]
    pub fn measures_writes(&self) -> bool {
        self.writes_to_measure.load(Ordering::Relaxed) > 0 || self.db.large_writes() > 0
    }

    /// Records the result of measuring a write.
    pub fn record_write_size(&self, is_large: bool) {
        let remaining = match self.writes_to_measure.load(Ordering::Relaxed) {
            _ if is_large => u32::MAX,
            u32::MAX => return,
            remaining => remaining.saturating_sub(1),
        };
        // A concurrent decrement by another thread may be lost, which does no harm.
        self.writes_to_measure.store(remaining, Ordering::Relaxed);
    }

    /// Returns the deadline of a wait, limited by `wait_limit_ms`.
    pub fn deadline_us(&self, wait_ms: u64) -> u64 {
        let wait_ms = wait_ms.min(self.settings.wait_limit_ms);
        self.ticks_us().saturating_add(wait_ms.saturating_mul(1000))
    }

    /// Returns the time since the start, in seconds.
    pub fn uptime_secs(&self) -> u64 {
        self.clock.monotonic_us() / 1_000_000
    }

    /// Returns the port of the listener.
    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Stores the port of the listener.
    pub fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Stores the URL of the HTTP front end.
    pub fn set_http_address(&self, address: String) {
        // Only one HTTP front end exists, so the first address is right.
        let _ = self.http.set(address);
    }

    /// Ends all blocking reads.
    pub fn stop_waiting(&self) {
        // Pairs with the `Acquire` load in `may_wait`.
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Returns whether blocking reads may wait.
    pub fn may_wait(&self) -> bool {
        // Pairs with the `Release` store in `stop_waiting`.
        !self.is_stopping.load(Ordering::Acquire)
    }

    /// Takes a slot for a connection, unless all are in use. Only the accepting thread calls this.
    pub fn reserve_slot(&self) -> Option<ConnectionSlot> {
        let in_use = Arc::strong_count(&self.slots) - 1;
        (in_use < self.settings.connections).then(|| self.slots.clone())
    }

    /// Takes a slot for a feed reader, which has a file open. Two concurrent calls may both get the last
    /// slot, which does no harm.
    pub fn reserve_feed_slot(&self, user: Option<&Arc<User>>) -> Result<FeedSlot, Reply> {
        let limit = self.settings.feed_readers;
        if Arc::strong_count(&self.feed_slots) > limit {
            return Err(Reply::error(
                "UNAVAILABLE too many read the feed: try later, or raise resp.feed_readers",
            ));
        }
        let share = user.map(|user| user.share(Resource::RespFeedReaders, limit)).transpose();
        let share = share.map_err(|error| Reply::error(format!("UNAVAILABLE {error}")))?;
        Ok(FeedSlot { _slot: self.feed_slots.clone(), _share: share })
    }

    /// Returns the number of connected clients.
    pub fn client_count(&self) -> usize {
        self.clients.lock().len()
    }

    /// Returns a line for each client whose id is wanted.
    pub fn list_clients(&self, wanted: impl Fn(u64) -> bool) -> String {
        let clients = self.clients.lock();
        let lines = clients.iter().filter(|(id, _)| wanted(**id));
        lines.map(|(_, line)| format!("{line}\n")).collect()
    }

    /// Returns the settings that `CONFIG GET` shows, for Redis tools and for our own.
    pub fn settings_for_redis(&self) -> Vec<(&'static str, String)> {
        let fsync = match self.settings.durability {
            Durability::Sync => "always",
            Durability::Interval => "everysec",
            _ => "no",
        };
        vec![
            ("appendonly", "yes".to_owned()),
            ("appendfsync", fsync.to_owned()),
            ("save", String::new()),
            ("maxclients", self.settings.connections.to_string()),
            ("maxmemory", "0".to_owned()),
            ("databases", "1".to_owned()),
            ("slowlog-log-slower-than", self.settings.slow_log_us.to_string()),
            ("slowlog-max-len", self.settings.slow_log_length.to_string()),
            ("proto-max-bulk-len", self.settings.request.word_bytes.to_string()),
            ("http-address", self.http.get().cloned().unwrap_or_default()),
        ]
    }
}

impl ConnectionState {
    /// Describes the session in one line, as in `CLIENT LIST`.
    pub fn describe(&self) -> String {
        let ConnectionState { id, peer, name, library, .. } = self;
        let user = self.user.as_ref().map_or("(unauthenticated)", |user| user.name());
        let protocol = match self.protocol {
            super::reply::Protocol::Two => 2,
            super::reply::Protocol::Three => 3,
        };
        format!(
            "id={id} addr={peer} name={name} db=0 branch={} user={user} resp={protocol} lib-name={} \
             lib-ver={}",
            self.branch, library.0, library.1
        )
    }

    /// Updates the line of this session in the client list.
    pub fn update_client_list(&self) {
        self.shared.clients.lock().insert(self.id, self.describe());
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        if self.is_worker_part {
            return;
        }
        // Pairs with the `Acquire` loads of subscriptions and work of this session.
        self.alive.store(false, Ordering::Release);
        self.shared.clients.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_seats_as_connections_and_a_dropped_one_is_free() {
        let settings = Settings { connections: 2, ..Settings::default() };
        let shared = Shared::new(Database::memory().unwrap(), settings);
        let one = shared.reserve_slot();
        let two = shared.reserve_slot();
        assert!(one.is_some() && two.is_some() && shared.reserve_slot().is_none());
        drop(one);
        assert!(shared.reserve_slot().is_some());
    }
}
