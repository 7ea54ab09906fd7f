//! Who may do what: users, their rights, and the record of what was administered.
//!
//! ```text
//!   name and password --> remembered? --yes---------------------------> User
//!                              |no                                        ^
//!                              v                                          |
//!                         verifiers: argon2id on threads of their own ----+
//!
//!   User --+--> right:  may it do such things at all?   the tables of commands and routes say which
//!          +--> keys:   may it touch these names?       one function at the waist, for every face
//!          +--> audit:  who did what to what, a line each
//! ```
//!
//! Without users everything is allowed, and the server listens on this machine alone. Rights are
//! fixed for a connection when it authenticates: what it has begun, as a feed, ends with it.

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
pub use served::{Wanted, recorded_question};
pub use settings::{Settings, UserSettings};
pub use shares::{Resource, Share, ShareExhausted};
pub use user::{Denied, User};
pub use verifiers::Verdict;
pub use waist::{TransactionAudit, recorded_commands};

use account::Accounts;
use login_backoff::LoginBackoff;
use mainstay::{Command, Database, Result, SESSION_LIMIT};
use session_shares::SessionShares;
use std::sync::Arc;
use verifiers::Verifiers;

/// The user that `AUTH password` means, and everybody where there are no users.
pub const DEFAULT_USER: &str = "default";

/// The users of a server, shared by its faces.
pub struct Security {
    settings: Settings,
    accounts: Arc<Accounts>,
    /// Who everybody is, where there are no users.
    everybody: Option<Arc<User>>,
    verifiers: Option<Verifiers>,
    backoff: Arc<LoginBackoff>,
    session_shares: SessionShares,
    audit: Arc<Audit>,
}

impl Security {
    /// Nobody is asked, and everything is allowed.
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

    /// As the settings say; what is wrong in them is an error that names it.
    pub fn new(settings: &Settings) -> Result<Arc<Security>> {
        let accounts = Arc::new(Accounts::new(settings)?);
        let audit = Arc::new(Audit::open(settings.audit_file.as_deref())?);
        let open = settings.users.is_empty();
        let everybody = open.then(|| Arc::new(User::everybody()));
        let verifiers = match open {
            true => None,
            false => Some(Verifiers::start(settings, &accounts)?),
        };
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

    /// Whether whoever connects has to say who they are.
    pub fn asks(&self) -> bool {
        self.everybody.is_none()
    }

    /// The part of a limit that is one user's.
    pub fn share_of(&self, limit: usize) -> usize {
        match &self.everybody {
            Some(_) => limit,
            None => self.accounts.share_of(limit),
        }
    }

    /// Counts the sessions that commands of a user open, which are at most its share.
    pub fn admit_sessions<'c>(
        &self,
        user: &User,
        db: &Database,
        commands: impl Iterator<Item = &'c Command>,
    ) -> std::result::Result<(), ShareExhausted> {
        self.session_shares.admit(user, db, commands)
    }

    /// Who somebody is before they have said it: nobody, where they are asked.
    pub fn stranger(&self) -> Option<Arc<User>> {
        self.everybody.clone()
    }

    /// What can be set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The record of what was administered.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// With users of these names, who may do nothing.
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

    /// The user of this name.
    #[cfg(test)]
    pub(crate) fn user(&self, name: &str) -> Arc<User> {
        self.accounts.user(name).unwrap()
    }

    /// The names of all users, in order.
    pub fn user_names(&self) -> Vec<&str> {
        match &self.everybody {
            Some(everybody) => vec![everybody.name()],
            None => self.accounts.names(),
        }
    }

    /// The user whose password this is, if it was verified a short while ago.
    pub fn recall(&self, name: &str, password: &Secret) -> Option<Arc<User>> {
        self.accounts.recall(name, password)
    }

    /// Verifies a password elsewhere and tells `done`, soon or later, on another thread or on this one.
    /// It is recorded, whether anybody waits for it or not.
    pub fn verify(
        &self,
        name: String,
        password: Secret,
        peer: &str,
        done: impl FnOnce(Verdict) + Send + 'static,
    ) {
        let (audit, entry) = (self.audit.clone(), self.login(&name, peer));
        if let Some(wait_ms) = self.backoff.wait_ms(&name, peer) {
            let verdict = Verdict::Wait(wait_ms);
            audit.record(&entry, verdict.outcome());
            return done(verdict);
        }
        let (backoff, user, from) = (self.backoff.clone(), name.clone(), peer.to_owned());
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

    /// What is recorded of a login. A name that nobody has may be a password in the wrong place.
    pub fn login(&self, name: &str, peer: &str) -> Entry {
        let user = Some(name).filter(|name| self.accounts.knows(name));
        Entry::new(user, peer, "auth", [""; 0])
    }

    /// How many passwords were wrong.
    pub fn login_failures(&self) -> u64 {
        self.backoff.failures()
    }

    /// How many attempts had to wait because of earlier wrong passwords.
    pub fn login_waits(&self) -> u64 {
        self.backoff.refusals()
    }

    /// How many passwords were verified, right or wrong.
    pub fn verifications(&self) -> u64 {
        self.accounts.verifications()
    }
}
