//! Sessions by user: which ones each user has opened through this server, so that one user does not take all that a
//! database may have.
//!
//! ```text
//!   open --> known already, or fewer than the share --> noted, opened
//!        --> as many as the share                   --> refused, and counted anew beside it
//! ```
//!
//! Sessions end in many ways, by their lease above all, and nobody is told. So names that were noted are compared
//! with those that are there before it matters, on a thread of its own. After a restart nothing is noted: sessions
//! of before belong to no user.

use super::shares::{Resource, ShareExhausted};
use super::user::User;
use hashbrown::{HashMap, HashSet};
use mainstay::{Clock, Command, Database, Name, Result, SessionCommand, SystemClock};
use parking_lot::Mutex;
use std::sync::Arc;

/// How many names are read at once.
const PAGE: usize = 1000;

/// At so many parts in a hundred of the share, what was noted is counted anew.
const RECOUNT_PERCENT: usize = 80;

/// The shortest time between two counts, which read all sessions.
const RECOUNT_PAUSE_US: u64 = 10_000_000;

/// See the module.
pub(super) struct SessionShares {
    limit: usize,
    clock: SystemClock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    of_users: HashMap<String, HashSet<Name>>,
    /// When it may be counted anew.
    next_count_us: u64,
}

impl SessionShares {
    /// Of so many sessions.
    pub fn new(limit: usize) -> SessionShares {
        SessionShares { limit, clock: SystemClock::new(), state: Arc::default() }
    }

    /// Notes the sessions that commands open and close; an error where that would be more than the user's share.
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

    /// Forgets the sessions that are no longer there. Without a thread they are forgotten the next time.
    fn count_anew(&self, db: Database) {
        let state = self.state.clone();
        let count = move || {
            // What was noted meanwhile may not be there yet.
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
        // Without a thread it is tried again after the pause.
        let _ = thread.spawn(count);
    }
}

/// The names of all sessions that are there.
fn there(db: &Database) -> Result<HashSet<Name>> {
    let (mut there, mut after) = (HashSet::new(), None);
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
        let (db, shares) = (Database::memory().unwrap(), SessionShares::new(20));
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
        // Until the names are compared with those that are there.
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
