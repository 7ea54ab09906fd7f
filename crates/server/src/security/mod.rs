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
mod password;
mod prefixes;
mod remembered;
mod right;
mod secret;
mod served;
mod settings;
mod user;
mod verifiers;
mod waist;

pub use audit::{Audit, Entry, Outcome};
pub use password::hash;
#[cfg(any(test, fuzzing))]
pub(crate) use password::is_usable_hash;
pub use right::{Area, Right};
pub use secret::Secret;
pub use served::{Wanted, recorded_question};
pub use settings::{Settings, UserSettings};
pub use user::{Denied, User};
pub use verifiers::Verdict;
pub use waist::{administrative, recorded};

use account::Accounts;
use mainstay::Result;
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
    audit: Arc<Audit>,
}

impl Security {
    /// Nobody is asked, and everything is allowed.
    pub fn open() -> Arc<Security> {
        let settings = Settings::default();
        let accounts = Arc::new(Accounts::none());
        let everybody = Some(Arc::new(User::everybody()));
        let audit = Arc::new(Audit::none());
        Arc::new(Security { settings, accounts, everybody, verifiers: None, audit })
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
        Ok(Arc::new(Security { settings, accounts, everybody, verifiers, audit }))
    }

    /// Whether whoever connects has to say who they are.
    pub fn asks(&self) -> bool {
        self.everybody.is_none()
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
        let told = move |verdict: Verdict| {
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

    /// How many passwords were verified, right or wrong.
    pub fn verifications(&self) -> u64 {
        self.accounts.verifications()
    }
}
