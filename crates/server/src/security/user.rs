//! Users: a name, permissions and key prefixes.

use super::DEFAULT_USER;
use super::pace::Pace;
use super::prefixes::Prefixes;
use super::right::{Right, Rights};
use super::shares::Held;
use std::fmt;

/// A user. It is immutable, so a connection keeps the permissions that it authenticated with.
#[derive(Debug)]
pub struct User {
    name: String,
    rights: Rights,
    prefixes: Prefixes,
    unlimited: bool,
    /// True for the user of a server without users, whose clients are not separated.
    everybody: bool,
    pub(super) held: Held,
    /// The rate limiter for its requests.
    pub pace: Pace,
}

/// A permission error: the user, and the permission that is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Denied {
    user: String,
    missing: String,
}

impl Denied {
    /// Returns the name of the user.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl fmt::Display for Denied {
    /// Formats the missing permission.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.missing)
    }
}

impl User {
    pub(super) fn new(name: String, rights: Rights, prefixes: Prefixes) -> User {
        let unlimited = rights == Rights::ALL && prefixes.hold_everything();
        let held = Held::new(100);
        let pace = Pace::new(None);
        User { name, rights, prefixes, unlimited, everybody: false, held, pace }
    }

    /// Sets the share in percent.
    pub(super) fn with_share(self, percent: u32) -> User {
        User { held: Held::new(percent), ..self }
    }

    /// Sets the rate limit in bytes per second, which applies while flushes fall behind.
    pub(super) fn with_pace(self, bytes_per_second: Option<u64>) -> User {
        User { pace: Pace::new(bytes_per_second), ..self }
    }

    /// Creates the user of all clients of a server without users.
    pub fn everybody() -> User {
        let user = User::new(DEFAULT_USER.to_owned(), Rights::ALL, Prefixes::everything());
        User { everybody: true, ..user }
    }

    /// Returns whether it is the user of a server without users.
    pub fn is_everybody(&self) -> bool {
        self.everybody
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it may do everything with all keys, so that checks can be skipped.
    pub fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Returns whether it may access all keys.
    pub fn has_all_keys(&self) -> bool {
        self.prefixes.hold_everything()
    }

    /// Checks that it has this permission.
    pub fn may(&self, right: Right) -> Result<(), Denied> {
        if self.rights.include(right) {
            Ok(())
        } else {
            Err(self.denied(format!("the right {right} is missing")))
        }
    }

    /// Checks that it has any permission.
    pub fn may_something(&self) -> Result<(), Denied> {
        if self.rights == Rights::default() {
            Err(self.denied("it has no rights at all".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Checks that it may access this key.
    pub fn may_touch(&self, key: &[u8]) -> Result<(), Denied> {
        if self.prefixes.hold(key) {
            Ok(())
        } else {
            Err(self.denied(format!("its keys begin with {}", self.prefixes)))
        }
    }

    /// Checks that it may access all keys with this prefix.
    pub fn may_list(&self, prefix: &[u8]) -> Result<(), Denied> {
        let message = || format!("give a prefix that begins with {}", self.prefixes);
        if self.prefixes.hold(prefix) { Ok(()) } else { Err(self.denied(message())) }
    }

    /// Checks that it may access all keys.
    pub fn may_touch_everything(&self) -> Result<(), Denied> {
        if self.has_all_keys() {
            Ok(())
        } else {
            let prefixes = &self.prefixes;
            Err(self.denied(format!("this concerns all keys, and its keys begin with {prefixes}")))
        }
    }

    fn denied(&self, missing: String) -> Denied {
        Denied { user: self.name.clone(), missing }
    }
}
