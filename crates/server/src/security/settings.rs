//! Settings: the table `[security]`.

use super::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Who may do what, and what is allowed to those who have not said who they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The users; without any, everything is allowed and the server listens on this machine alone.
    pub users: Vec<UserSettings>,
    /// Where a line is written for each authentication and each administrative command.
    pub audit_file: Option<PathBuf>,
    /// How many passwords are verified at once: each takes a processor and 19 MiB for a while.
    pub attempts_at_once: usize,
    /// How many further ones wait for that; more are refused.
    pub attempts_waiting: usize,
    /// After so many wrong passwords a connection is closed.
    pub failures_per_connection: u32,
    /// How long a connection may take until it has authenticated.
    pub login_limit_ms: u64,
    /// How long a verified password is remembered, so that it is not verified for every request.
    pub remember_ms: u64,
    /// The largest request before authentication.
    pub stranger_request_bytes: usize,
    /// The most words of a request before authentication.
    pub stranger_words: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            users: Vec::new(),
            audit_file: None,
            attempts_at_once: 2,
            attempts_waiting: 128,
            failures_per_connection: 5,
            login_limit_ms: 10_000,
            remember_ms: 60_000,
            stranger_request_bytes: 16 << 10,
            stranger_words: 16,
        }
    }
}

/// A user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserSettings {
    /// Its name; `default` is who `AUTH password` means.
    pub name: String,
    /// Its password's hash, as `mainstay user hash` prints it.
    pub password_hash: Secret,
    /// What it may do: `all`, or areas as `cells`, `cells:read`, `cells:write`.
    pub allow: Vec<String>,
    /// What its keys begin with; `[""]` is all keys.
    pub prefixes: Vec<String>,
}
