//! Settings of a connection to a server.

use super::dial::{Dial, Tcp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a connection to a server. Programs set them with `mainstay::remote::Options`.
#[derive(Clone)]
pub struct Settings {
    /// `HOST:PORT`.
    pub address: String,
    /// The user and the password.
    pub login: Option<(String, String)>,
    /// How long the server may be silent before the connection counts as broken.
    pub timeout: Duration,
    /// How long a request waits for a connection.
    pub patience: Duration,
    /// The most connections.
    pub connections: usize,
    /// Opens the streams.
    pub dial: Arc<dyn Dial>,
}

impl Settings {
    /// Default options for the server at `address` (`HOST:PORT`).
    pub fn new(address: &str) -> Settings {
        Settings {
            address: address.to_owned(),
            login: None,
            timeout: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            connections: 1024,
            dial: Arc::new(Tcp),
        }
    }

    /// Formats the settings under another name, without the password.
    pub fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct(name)
            .field("address", &self.address)
            .field("user", &user)
            .field("timeout", &self.timeout)
            .field("patience", &self.patience)
            .field("dial", &self.dial)
            .finish_non_exhaustive()
    }
}
