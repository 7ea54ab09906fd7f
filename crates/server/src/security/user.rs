//! Users: a name, rights, and the keys they are for.

use super::DEFAULT_USER;
use super::pace::Pace;
use super::prefixes::Prefixes;
use super::right::{Right, Rights};
use super::shares::Held;
use std::fmt;

/// A user. It never changes: a connection keeps the one it has authenticated as.
#[derive(Debug)]
pub struct User {
    name: String,
    rights: Rights,
    prefixes: Prefixes,
    unlimited: bool,
    /// Set where the server has no users, so that nothing is kept apart.
    everybody: bool,
    pub(super) held: Held,
    /// The rate that its requests are taken at.
    pub pace: Pace,
}

/// What a user may not do, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Denied {
    user: String,
    missing: String,
}

impl Denied {
    /// Who may not.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl fmt::Display for Denied {
    /// The right that is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.missing)
    }
}

impl User {
    pub(super) fn new(name: String, rights: Rights, prefixes: Prefixes) -> User {
        let unlimited = rights == Rights::ALL && prefixes.hold_everything();
        let (held, pace) = (Held::new(100), Pace::new(None));
        User { name, rights, prefixes, unlimited, everybody: false, held, pace }
    }

    /// The same with a share of so many in a hundred.
    pub(super) fn with_share(self, percent: u32) -> User {
        User { held: Held::new(percent), ..self }
    }

    /// The same with so many bytes of requests each second while flushes fall behind.
    pub(super) fn with_pace(self, bytes_per_second: Option<u64>) -> User {
        User { pace: Pace::new(bytes_per_second), ..self }
    }

    /// Everybody, where nobody is asked.
    pub fn everybody() -> User {
        let user = User::new(DEFAULT_USER.to_owned(), Rights::ALL, Prefixes::everything());
        User { everybody: true, ..user }
    }

    /// Whether the server has no users, and this one stands for all of its clients.
    pub fn is_everybody(&self) -> bool {
        self.everybody
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may do everything with all keys, so that nothing need be looked at.
    pub fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Whether all keys are its own.
    pub fn has_all_keys(&self) -> bool {
        self.prefixes.hold_everything()
    }

    /// It has to have this right.
    pub fn may(&self, right: Right) -> Result<(), Denied> {
        match self.rights.include(right) {
            true => Ok(()),
            false => Err(self.denied(format!("the right {right} is missing"))),
        }
    }

    /// It has to have some right.
    pub fn may_something(&self) -> Result<(), Denied> {
        match self.rights == Rights::default() {
            false => Ok(()),
            true => Err(self.denied("it has no rights at all".to_owned())),
        }
    }

    /// A key has to be its own.
    pub fn may_touch(&self, key: &[u8]) -> Result<(), Denied> {
        match self.prefixes.hold(key) {
            true => Ok(()),
            false => Err(self.denied(format!("its keys begin with {}", self.prefixes))),
        }
    }

    /// All keys that begin with this have to be its own.
    pub fn may_list(&self, prefix: &[u8]) -> Result<(), Denied> {
        let message = || format!("give a prefix that begins with {}", self.prefixes);
        match self.prefixes.hold(prefix) {
            true => Ok(()),
            false => Err(self.denied(message())),
        }
    }

    /// All keys have to be its own.
    pub fn may_touch_everything(&self) -> Result<(), Denied> {
        match self.has_all_keys() {
            true => Ok(()),
            false => {
                let prefixes = &self.prefixes;
                Err(self
                    .denied(format!("this concerns all keys, and its keys begin with {prefixes}")))
            }
        }
    }

    fn denied(&self, missing: String) -> Denied {
        Denied { user: self.name.clone(), missing }
    }
}
