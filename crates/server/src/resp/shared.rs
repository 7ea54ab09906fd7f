//! What all sessions share.

use super::Settings;
use super::cursors::Cursors;
use super::reply::Reply;
use super::request::Limits;
use super::session::Session;
use super::slow_log::SlowLog;
use super::tally::{Figures, Tally};
use crate::jobs::Desk;
use crate::memory::{Face, MemoryBudget};
use crate::security::{self, Resource, Security, Share, User};
use mainstay::{Clock, Database, Durability, Stamp, SystemClock};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// So many writes are weighed after the start; if none of them is large, there are hardly any large ones.
const WEIGHED_AT_FIRST: u32 = 100_000;

/// What all sessions share.
pub struct Shared {
    /// The database.
    pub db: Database,
    /// Its jobs and locks.
    pub jobs: Arc<Desk>,
    /// What can be set.
    pub settings: Settings,
    /// The memory for unfinished requests and unread replies.
    pub memory: Arc<MemoryBudget>,
    /// This face's own limit within it.
    pub face: Face,
    /// Who may do what.
    pub security: Arc<Security>,
    /// What a request may be before it is known who asks.
    pub stranger: Limits,
    /// Where scans stand.
    pub cursors: Arc<Cursors>,
    /// What is counted.
    pub figures: Figures,
    /// The tally of sessions that no event loop drives.
    pub outside: Arc<Tally>,
    /// Commands that were slow.
    pub slow_log: SlowLog,
    /// How many more writes are weighed before they are executed; all of them once one was found to be large.
    to_weigh: AtomicU32,
    clock: SystemClock,
    last_session: AtomicU64,
    port: AtomicU16,
    /// Where the HTTP face is, once it is.
    http: OnceLock<String>,
    /// The face ends: nobody waits for changes any more.
    ending: AtomicBool,
    clients: Mutex<BTreeMap<u64, String>>,
    /// One more of these than there are connections.
    seats: Seat,
    /// One more of these than there are readers of the feed.
    feed_seats: Seat,
}

/// A connection's place among those there may be, from the moment it is accepted; free again when it is
/// dropped.
pub type Seat = Arc<()>;

/// The place of a reader of the feed, among all and among those of its user; free again when it is dropped.
pub struct FeedSeat {
    _seat: Seat,
    _share: Option<Share>,
}

/// What a request may be before it is known who asks.
fn stranger(usual: &Limits, security: &security::Settings) -> Limits {
    let bytes = security.stranger_request_bytes;
    Limits {
        words: usual.words.min(security.stranger_words),
        word_bytes: usual.word_bytes.min(bytes),
        request_bytes: usual.request_bytes.min(bytes),
        line_bytes: usual.line_bytes.min(bytes),
    }
}

impl Shared {
    /// For one database, with which everybody may do everything.
    pub fn new(db: Database, settings: Settings) -> Arc<Shared> {
        Shared::secured(db, settings, Security::open())
    }

    /// For one database and its users.
    pub fn secured(db: Database, settings: Settings, security: Arc<Security>) -> Arc<Shared> {
        let jobs = Desk::plain(db.clone());
        Shared::equipped(db, settings, security, jobs)
    }

    /// For one database, its users, and its jobs and locks.
    pub fn equipped(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
    ) -> Arc<Shared> {
        Shared::budgeted(db, settings, security, jobs, Arc::default())
    }

    /// The same with the memory that it shares with other faces.
    pub fn budgeted(
        db: Database,
        settings: Settings,
        security: Arc<Security>,
        jobs: Arc<Desk>,
        memory: Arc<MemoryBudget>,
    ) -> Arc<Shared> {
        let figures = Figures::default();
        Arc::new(Shared {
            db,
            jobs,
            outside: figures.tally(),
            figures,
            slow_log: SlowLog::new(settings.slow_log_us, settings.slow_log_length),
            face: MemoryBudget::face("resp.held_bytes", settings.held_bytes),
            memory,
            cursors: Arc::new(Cursors::new(settings.cursors)),
            stranger: stranger(&settings.request, security.settings()),
            settings,
            security,
            to_weigh: AtomicU32::new(WEIGHED_AT_FIRST),
            clock: SystemClock::new(),
            last_session: AtomicU64::new(0),
            port: AtomicU16::new(0),
            http: OnceLock::new(),
            ending: AtomicBool::new(false),
            clients: Mutex::default(),
            seats: Seat::default(),
            feed_seats: Seat::default(),
        })
    }

    /// The number of a new session.
    pub fn next_session(&self) -> u64 {
        self.last_session.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The time on the clock, in microseconds.
    pub fn now(&self) -> Stamp {
        self.clock.wall_us()
    }

    /// Microseconds since the start, never going back.
    pub fn ticks_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    /// Whether writes are weighed, which costs a lookup each: where there are large ones, and for a while after the start, when
    /// nobody knows.
    #[inline]
    pub fn weighs_writes(&self) -> bool {
        self.to_weigh.load(Ordering::Relaxed) > 0 || self.db.large_writes() > 0
    }

    /// A write was weighed.
    pub fn weighed_write(&self, is_large: bool) {
        let left = match self.to_weigh.load(Ordering::Relaxed) {
            _ if is_large => u32::MAX,
            u32::MAX => return,
            left => left.saturating_sub(1),
        };
        // One that another thread counts meanwhile may be missed.
        self.to_weigh.store(left, Ordering::Relaxed);
    }

    /// When a wait of so long is over; none is longer than the limit.
    pub fn deadline_us(&self, wait_ms: u64) -> u64 {
        let wait_ms = wait_ms.min(self.settings.wait_limit_ms);
        self.ticks_us().saturating_add(wait_ms.saturating_mul(1000))
    }

    /// How long it has been there.
    pub fn uptime_secs(&self) -> u64 {
        self.clock.monotonic_us() / 1_000_000
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Notes where it listens.
    pub fn listens_at(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Notes where the HTTP face is, as an address that begins with its scheme.
    pub fn speaks_http_at(&self, address: String) {
        // There is one such face: the first to say so is right.
        let _ = self.http.set(address);
    }

    /// Has those answered who wait for changes.
    pub fn stop_waiting(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Whether changes are waited for.
    pub fn waits(&self) -> bool {
        !self.ending.load(Ordering::Acquire)
    }

    /// A place for one more connection, if there is one. Only one thread asks.
    pub fn seat(&self) -> Option<Seat> {
        let taken = Arc::strong_count(&self.seats) - 1;
        (taken < self.settings.connections).then(|| self.seats.clone())
    }

    /// A place for one more reader of the feed: each has a file open. Two who ask at once may both get
    /// the last one, which does no harm.
    pub fn feed_seat(&self, user: Option<&Arc<User>>) -> Result<FeedSeat, Reply> {
        let limit = self.settings.feed_readers;
        if Arc::strong_count(&self.feed_seats) > limit {
            return Err(Reply::error(
                "UNAVAILABLE too many read the feed: try later, or raise resp.feed_readers",
            ));
        }
        let share = user.map(|user| user.share(Resource::RespFeedReaders, limit)).transpose();
        let share = share.map_err(|error| Reply::error(format!("UNAVAILABLE {error}")))?;
        Ok(FeedSeat { _seat: self.feed_seats.clone(), _share: share })
    }

    /// How many clients are connected.
    pub fn client_count(&self) -> usize {
        self.clients.lock().len()
    }

    /// A line for each client.
    pub fn list_clients(&self, wanted: impl Fn(u64) -> bool) -> String {
        let clients = self.clients.lock();
        let lines = clients.iter().filter(|(id, _)| wanted(**id));
        lines.map(|(_, line)| format!("{line}\n")).collect()
    }

    /// The settings that Redis's own tools ask for, and those that ours do.
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

impl Session {
    /// A line about the session, as `CLIENT LIST` has it.
    pub fn describe(&self) -> String {
        let Session { id, peer, name, library, .. } = self;
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

    /// Notes for others who this is.
    pub fn tell_of_itself(&self) {
        self.shared.clients.lock().insert(self.id, self.describe());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_away {
            return;
        }
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
        let (one, two) = (shared.seat(), shared.seat());
        assert!(one.is_some() && two.is_some() && shared.seat().is_none());
        drop(one);
        assert!(shared.seat().is_some());
    }
}
