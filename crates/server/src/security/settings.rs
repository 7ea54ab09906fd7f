//! The table `[security]`: settings of users, logins and the audit log.

use super::Secret;
use super::account::Accounts;
use crate::config::settings::settings;
use mainstay::Result;
use std::path::PathBuf;

settings! {
    /// Who may do what, and what is allowed to those who have not said who they are.
    pub struct Settings {
        /// The users; without any, everything is allowed and the server listens on this machine alone.
        pub users: Vec<UserSettings> = Vec::new();
        /// Where a line is written for each authentication and each administrative command; "none"
        /// without.
        pub audit_file: Option<PathBuf> = None;
        /// How many passwords are verified at once: each takes a processor and 19 MiB for a while.
        pub attempts_at_once: usize = 2, 1..=64;
        /// How many further ones wait for that; more are refused.
        pub attempts_waiting: usize = 128, 1..=100_000;
        /// After so many wrong passwords a connection is closed.
        pub failures_per_connection: u32 = 5, 1..=1_000_000;
        /// After so many wrong passwords for one user from one address, further ones from there have to wait.
        pub failures_per_user_and_address: u32 = 10, 1..=1_000_000;
        /// The same for one address, whichever user it says it is.
        pub failures_per_address: u32 = 100, 1..=1_000_000;
        /// How long the first of them waits; each further one waits twice as long.
        pub failure_wait_ms: u64 = 1_000, 0..=86_400_000;
        /// The longest of these waits.
        pub failure_wait_limit_ms: u64 = 60_000, 0..=86_400_000;
        /// How much of the connections, feed readers, sessions and long work one user may hold, in percent, where
        /// there is more than one user.
        pub user_share_percent: u32 = 50, 1..=100;
        /// The most bytes of requests that are taken of one user each second while flushes fall behind, where there is
        /// more than one user; a quarter and a sixteenth of it the further they do.
        pub user_paced_bytes: u64 = 8 << 20, 64 << 10..=1 << 40;
        /// How long a connection may take until it has authenticated.
        pub login_limit_ms: u64 = 10_000, 1..=86_400_000;
        /// How long a verified password is remembered, so that it is not verified for every request.
        pub remember_ms: u64 = 60_000, 0..=86_400_000;
        /// The largest request before authentication.
        pub stranger_request_bytes: usize = 16 << 10, 1024..=1 << 30;
        /// The most words of a request before authentication.
        pub stranger_words: usize = 16, 8..=1 << 20;
    }
}

settings! {
    /// A user; the table stands once for each.
    pub struct UserSettings {
        /// Its name; `default` is who `AUTH password` means.
        pub name: String = String::new();
        /// Its password's hash, as `mainstay user hash` prints it.
        pub password_hash: Secret = Secret::default();
        /// What it may do: "all", or areas as "cells", "cells:read", "cells:write".
        pub allow: Vec<String> = Vec::new();
        /// What its keys begin with; [""] is all keys.
        pub prefixes: Vec<String> = Vec::new();
    }
}

impl Settings {
    /// Checks the users.
    pub fn check(&self) -> Result<()> {
        Accounts::new(self).map(|_| ())
    }
}
