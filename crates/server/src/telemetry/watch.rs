//! The health watch: logs changes in the health of a database and its background services.
//!
//! The engine does not log. It keeps its last error, and this thread checks it once a second.

use crate::crew::Crew;
use mainstay::{Database, Stats};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The check interval.
const EVERY: Duration = Duration::from_secs(1);

/// A handle to the watch thread, which ends when it is dropped.
pub struct Watch {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch a database and its background services.
    pub fn start(db: Database, crew: Arc<Crew>) -> std::io::Result<Watch> {
        let (over, wait) = channel::<()>();
        let look = move || {
            let now = || Condition::of(&db, &crew);
            let mut seen = Condition::default();
            loop {
                seen = seen.follow(now());
                if wait.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            // Log changes since the last check, too.
            seen.follow(now());
        };
        let thread = std::thread::Builder::new().name("mainstay-watch".to_owned()).spawn(look)?;
        Ok(Watch { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already reported by its own thread.
            let _ = thread.join();
        }
    }
}

/// The health of a database and its background services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Condition {
    read_only: bool,
    /// The reason why writes are rejected, if they are.
    refusal: Option<String>,
    last_failure: Option<String>,
    clock_jump_us: Option<u64>,
    /// True if timestamps are ahead of the wall clock.
    is_apart: bool,
    relay_error: Option<String>,
    archive_error: Option<String>,
}

impl Condition {
    fn of(db: &Database, crew: &Crew) -> Condition {
        let archived = crew.archived();
        let Stats { read_only, last_failure, clock_jump_us, .. } = db.stats();
        Condition {
            read_only,
            refusal: db.write_refusal().map(|error| error.message().to_owned()),
            last_failure,
            clock_jump_us,
            is_apart: db.wall_offset_us() != 0,
            relay_error: crew.relayed().last_error,
            // Within a round, runs fail one after the other. Only the error at the end of a round is the
            // same each time.
            archive_error: archived.last_error.filter(|_| archived.current.is_none()),
        }
    }

    /// Logs what has changed since the last check. Returns the new state.
    fn follow(&self, now: Condition) -> Condition {
        if now.read_only && !self.read_only {
            let why = now.refusal.as_deref().unwrap_or("a sync of the log failed");
            tracing::error!(why, "the database is read-only until it is reopened");
        }
        match (&self.refusal, &now.refusal) {
            (None, Some(why)) if !now.read_only => tracing::error!(why, "writes are refused"),
            (Some(_), None) => tracing::info!("writes are taken again"),
            _ => {}
        }
        if let Some(failure) = &now.last_failure
            && now.last_failure != self.last_failure
        {
            tracing::error!(%failure, "work in the background failed");
        }
        if let Some(error) = &now.relay_error
            && now.relay_error != self.relay_error
        {
            tracing::warn!(%error, "the relay of the outbox failed: it tries again");
        }
        if let Some(error) = &now.archive_error
            && now.archive_error != self.archive_error
        {
            tracing::warn!(%error, "runs could not be archived: they stay, and it tries again");
        }
        match (self.clock_jump_us, now.clock_jump_us) {
            (None, Some(ahead_us)) => {
                tracing::warn!(
                    ahead_us,
                    "the wall clock jumped ahead and is not believed: if it is right, confirm it with the remote \
                     client's confirm_clock, or start once with database.clock_jump_limit_ms = \"none\""
                );
            }
            (Some(_), None) => tracing::info!("the wall clock is believed again"),
            _ => {}
        }
        if now.is_apart && !self.is_apart && now.clock_jump_us.is_none() {
            tracing::warn!(
                "stamps are ahead of the wall clock: it was ahead when they were given; see docs/design/2026-11-17-clock.md"
            );
        }
        let archive_error = now.archive_error.clone().or_else(|| self.archive_error.clone());
        Condition { archive_error, ..now }
    }
}
