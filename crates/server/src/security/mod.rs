//! Authentication, authorization and the audit log.
//!
//! ```text
//!   name and password --> cached? --yes-------------------------------> User
//!                              |no                                        ^
//!                              v                                          |
//!                         verifiers: argon2id on dedicated threads -------+
//!
//!   User --+--> permission: may it use this kind of command?  tables of commands and routes
//!          +--> keys:       may it access these keys?         one check shared by all front ends
//!          +--> audit:      who did what to what, one line each
//! ```
//!
//! Without users everything is allowed, and the server listens only on the loopback interface. A connection
//! keeps the permissions that it had when it authenticated. Its subscriptions end when it authenticates
//! again.

mod account;
mod audit;
mod login_backoff;
mod pace;
mod password;
mod prefixes;
mod remembered;
mod right;
mod secret;
mod served;
mod session_shares;
mod settings;
mod shares;
mod user;
mod verifiers;
mod waist;

pub use audit::{Audit, Entry, Outcome};
pub(crate) use pace::{FLUSH_WAIT_LIMIT, await_flushes, flushes_are_behind};
pub use password::hash;
#[cfg(any(test, fuzzing))]
pub(crate) use password::is_usable_hash;
pub use right::{Area, Right};
pub use secret::Secret;
pub use served::{Wanted, audited_admin_request};
pub use settings::{Settings, UserSettings};
pub use shares::{Resource, Share, ShareExhausted};
pub use user::{Denied, User};
pub use verifiers::Verdict;
pub use waist::{TransactionAudit, audited_commands};

use account::Accounts;
use login_backoff::LoginBackoff;
use mainstay::{Command, Database, Result, SESSION_LIMIT};
use session_shares::SessionShares;
use std::sync::Arc;
use verifiers::Verifiers;

/// The user of `AUTH password`, and of all clients if no users are configured.
pub const DEFAULT_USER: &str = "default";

/// The users of a server, shared by its front ends.
pub struct Security {
    settings: Settings,
    accounts: Arc<Accounts>,
    /// The user of all clients, if no users are configured.
    everybody: Option<Arc<User>>,
    verifiers: Option<Verifiers>,
    backoff: Arc<LoginBackoff>,
    session_shares: SessionShares,
    audit: Arc<Audit>,
}

impl Security {
    /// Creates it without users: no authentication, and everything is allowed.
    pub fn open() -> Arc<Security> {
        let settings = Settings::default();
        let accounts = Arc::new(Accounts::none());
        let everybody = Some(Arc::new(User::everybody()));
        let audit = Arc::new(Audit::none());
        let backoff = Arc::new(LoginBackoff::new(&settings));
        Arc::new(Security {
            settings,
            accounts,
            everybody,
            verifiers: None,
            backoff,
            session_shares: SessionShares::new(SESSION_LIMIT),
            audit,
        })
    }

    /// Creates it from the settings. An error names the setting.
    pub fn new(settings: &Settings) -> Result<Arc<Security>> {
        let accounts = Arc::new(Accounts::new(settings)?);
        let audit = Arc::new(Audit::open(settings.audit_file.as_deref())?);
        let open = settings.users.is_empty();
        let everybody = open.then(|| Arc::new(User::everybody()));
        let verifiers = if open { None } else { Some(Verifiers::start(settings, &accounts)?) };
        let settings = settings.clone();
        let backoff = Arc::new(LoginBackoff::new(&settings));
        let session_shares = SessionShares::new(SESSION_LIMIT);
        Ok(Arc::new(Security {
            settings,
            accounts,
            everybody,
            verifiers,
            backoff,
            session_shares,
            audit,
        }))
    }

    /// Returns whether clients have to authenticate.
    pub fn asks(&self) -> bool {
        self.everybody.is_none()
    }

    /// Returns the part of a limit that belongs to one user.
    pub fn share_of(&self, limit: usize) -> usize {
        match &self.everybody {
            Some(_) => limit,
            None => self.accounts.share_of(limit),
        }
    }

    /// Counts the sessions that the commands of a user open. Fails if the user has its share of sessions
    /// already.
    pub fn admit_sessions<'c>(
        &self,
        user: &User,
        db: &Database,
        commands: impl Iterator<Item = &'c Command>,
    ) -> std::result::Result<(), ShareExhausted> {
        self.session_shares.admit(user, db, commands)
    }

    /// Returns the user of an unauthenticated connection; `None` if authentication is required.
    pub fn stranger(&self) -> Option<Arc<User>> {
        self.everybody.clone()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Creates it with users of these names, who have no permissions.
    #[cfg(test)]
    pub(crate) fn of(names: &[&str]) -> Arc<Security> {
        let hash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo";
        let user = |name: &&str| UserSettings {
            name: (*name).to_owned(),
            password_hash: Secret::new(hash),
            ..UserSettings::default()
        };
        let users = names.iter().map(user).collect();
        Security::new(&Settings { users, ..Settings::default() }).unwrap()
    }

    /// Returns the user with this name.
    #[cfg(test)]
    pub(crate) fn user(&self, name: &str) -> Arc<User> {
        self.accounts.user(name).unwrap()
    }

    /// Returns the names of all users, sorted.
    pub fn user_names(&self) -> Vec<&str> {
        match &self.everybody {
            Some(everybody) => vec![everybody.name()],
            None => self.accounts.names(),
        }
    }

    /// Returns the user if this password was verified recently.
    pub fn recall(&self, name: &str, password: &Secret) -> Option<Arc<User>> {
        self.accounts.recall(name, password)
    }

    /// Verifies a password on another thread and calls `done`, sooner or later, there or on this thread.
    /// The attempt is audited even if the caller no longer waits for it.
    pub fn verify(
        &self,
        name: String,
        password: Secret,
        peer: &str,
        done: impl FnOnce(Verdict) + Send + 'static,
    ) {
        let audit = self.audit.clone();
        let entry = self.login(&name, peer);
        if let Some(wait_ms) = self.backoff.wait_ms(&name, peer) {
            let verdict = Verdict::Wait(wait_ms);
            audit.record(&entry, verdict.outcome());
            return done(verdict);
        }
        let backoff = self.backoff.clone();
        let user = name.clone();
        let from = peer.to_owned();
        let told = move |verdict: Verdict| {
            match &verdict {
                Verdict::Known(_) => backoff.succeeded(&user, &from),
                Verdict::Wrong => backoff.failed(&user, &from),
                Verdict::Busy | Verdict::Wait(_) => {}
            }
            audit.record(&entry, verdict.outcome());
            done(verdict);
        };
        match &self.verifiers {
            Some(verifiers) => verifiers.take(name, password, Box::new(told)),
            None => told(Verdict::Wrong),
        }
    }

    /// Creates the audit entry of a login. An unknown name is left out, because it may be a password in the
    /// wrong place.
    pub fn login(&self, name: &str, peer: &str) -> Entry {
        let user = Some(name).filter(|name| self.accounts.knows(name));
        Entry::new(user, peer, "auth", [""; 0])
    }

    /// Returns the number of wrong passwords.
    pub fn login_failures(&self) -> u64 {
        self.backoff.failures()
    }

    /// Returns the number of attempts delayed because of earlier wrong passwords.
    pub fn login_waits(&self) -> u64 {
        self.backoff.refusals()
    }

    /// Returns the number of verified passwords, right or wrong.
    pub fn verifications(&self) -> u64 {
        self.accounts.verifications()
    }
}
