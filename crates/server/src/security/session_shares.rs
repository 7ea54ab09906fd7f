//! Session quotas: counts the sessions that each user opened through this server, so that one user cannot
//! take all sessions that a database may have.
//!
//! ```text
//!   open --> already counted, or fewer than the share --> counted, opened
//!        --> share used up                            --> rejected, and a recount starts in the background
//! ```
//!
//! Sessions end in many ways, mostly because their lease expires, and this table gets no notice of it. When
//! a user comes close to its share, a background thread therefore compares the counted names with the
//! existing sessions. After a restart the table is empty, so older sessions count for no user.

use super::shares::{Resource, ShareExhausted};
use super::user::User;
use hashbrown::{HashMap, HashSet};
use mainstay::{Clock, Command, Database, Name, Result, SessionCommand, SystemClock};
use parking_lot::Mutex;
use std::sync::Arc;

/// Page size for reading session names.
const PAGE: usize = 1000;

/// A recount starts when a user has this percentage of its share.
const RECOUNT_PERCENT: usize = 80;

/// The shortest time between two recounts, because each of them reads all sessions.
const RECOUNT_PAUSE_US: u64 = 10_000_000;

pub(super) struct SessionShares {
    limit: usize,
    clock: SystemClock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    of_users: HashMap<String, HashSet<Name>>,
    /// The earliest time of the next recount.
    next_count_us: u64,
}

impl SessionShares {
    /// Creates a table for at most `limit` sessions of all users.
    pub fn new(limit: usize) -> SessionShares {
        SessionShares { limit, clock: SystemClock::new(), state: Arc::default() }
    }

    /// Counts the sessions that commands open and close. Fails if the user would exceed its share.
    pub fn admit<'c>(
        &self,
        user: &User,
        db: &Database,
        commands: impl Iterator<Item = &'c Command>,
    ) -> std::result::Result<(), ShareExhausted> {
        let share = user.share_of(self.limit);
        if share >= self.limit {
            return Ok(());
        }
        for command in commands {
            match command {
                Command::Session(SessionCommand::Open { session, .. }) => {
                    self.open(user, db, session, share)?;
                }
                Command::Session(SessionCommand::Close { session, .. }) => {
                    self.close(user, session);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn open(
        &self,
        user: &User,
        db: &Database,
        session: &Name,
        share: usize,
    ) -> std::result::Result<(), ShareExhausted> {
        let mut state = self.state.lock();
        let noted = state.of_users.entry_ref(user.name()).or_default();
        if noted.contains(session) {
            return Ok(());
        }
        let count = noted.len();
        if count < share {
            noted.insert(session.clone());
        }
        let now_us = self.clock.monotonic_us();
        if count >= share * RECOUNT_PERCENT / 100 && now_us >= state.next_count_us {
            state.next_count_us = now_us + RECOUNT_PAUSE_US;
            self.count_anew(db.clone());
        }
        if count < share {
            return Ok(());
        }
        Err(ShareExhausted::new(user, Resource::Sessions, self.limit))
    }

    fn close(&self, user: &User, session: &Name) {
        if let Some(noted) = self.state.lock().of_users.get_mut(user.name()) {
            noted.remove(session);
        }
    }

    /// Removes sessions that no longer exist. If no thread can be started, the next recount does it.
    fn count_anew(&self, db: Database) {
        let state = self.state.clone();
        let count = move || {
            // Sessions counted after this point may not exist in the database yet.
            let before = state.lock().of_users.clone();
            let Ok(there) = there(&db) else { return };
            for (user, noted) in &mut state.lock().of_users {
                let is_gone = |name: &Name| {
                    before.get(user).is_some_and(|before| before.contains(name))
                        && !there.contains(name)
                };
                noted.retain(|name| !is_gone(name));
            }
        };
        let thread = std::thread::Builder::new().name("mainstay-sessions".to_owned());
        // If no thread can be started, the recount is tried again after the pause.
        let _ = thread.spawn(count);
    }
}

/// Returns the names of all existing sessions.
fn there(db: &Database) -> Result<HashSet<Name>> {
    let mut there = HashSet::new();
    let mut after = None;
    loop {
        let page = db.sessions().list(after.as_deref(), PAGE)?;
        there.extend(page.sessions.into_iter().map(|info| info.session));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(there),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Security;
    use super::*;
    use mainstay::SessionOptions;

    fn command(name: &str) -> Command {
        SessionOptions::new().name(name).command().unwrap().into()
    }

    #[test]
    fn one_user_does_not_take_all_sessions_and_ended_ones_do_not_count() {
        let security = Security::of(&["greedy", "honest"]);
        let [greedy, honest] = ["greedy", "honest"].map(|name| security.user(name));
        let db = Database::memory().unwrap();
        let shares = SessionShares::new(20);
        let admit = |user: &User, name: &str| shares.admit(user, &db, [command(name)].iter());
        for number in 0..10 {
            let name = number.to_string();
            admit(&greedy, &name).unwrap();
            db.sessions().open(SessionOptions::new().name(&name)).unwrap();
        }
        let error = admit(&greedy, "more").unwrap_err().to_string();
        assert!(error.contains("10 sessions") && error.contains("user_share_percent"), "{error}");
        admit(&greedy, "3").unwrap();
        admit(&honest, "h").unwrap();
        db.sessions().close("3").unwrap();
        // The count is corrected once the background thread has compared the names.
        let is_admitted = || {
            shares.state.lock().next_count_us = 0;
            std::thread::sleep(std::time::Duration::from_millis(10));
            admit(&greedy, "more").is_ok()
        };
        assert!((0..6000).any(|_| is_admitted()));
        let close = SessionCommand::Close { session: Name::new("more").unwrap(), epoch: 0 };
        shares.admit(&greedy, &db, [close.into()].iter()).unwrap();
        admit(&greedy, "another").unwrap();
    }
}
