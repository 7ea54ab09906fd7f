//! Settings of a relay.

use mainstay::{CLAIM_LIMIT, Code, Error, LEASE_LIMIT_MS, Name, Result, TRIES_LIMIT};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest wait, in milliseconds.
const POLL_LIMIT_MS: u64 = 60_000;

/// The settings of a relay.
///
/// ```
/// use mainstay_runs::relay::RelaySettings;
/// let settings = RelaySettings { batch: 10, ..RelaySettings::default() };
/// assert!(settings.check().is_ok());
/// assert!(RelaySettings { lease_ms: 0, ..settings }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelaySettings {
    /// The branch of the outbox.
    pub branch: String,
    /// The number of messages to claim at once, at most 1,000.
    pub batch: usize,
    /// The lease of claimed messages, in milliseconds.
    pub lease_ms: u64,
    /// The back-off before the second try, in milliseconds. It doubles with each further try.
    pub backoff_ms: u64,
    /// The number of tries, at most 10, after which a message is dead.
    pub tries: u32,
    /// The longest wait in milliseconds, up to a minute. After it, the relay notices a clock that was set
    /// forward.
    pub poll_ms: u64,
}

impl Default for RelaySettings {
    fn default() -> RelaySettings {
        RelaySettings {
            branch: "main".to_owned(),
            batch: 100,
            lease_ms: 30_000,
            backoff_ms: 1_000,
            tries: TRIES_LIMIT,
            poll_ms: 1_000,
        }
    }
}

impl RelaySettings {
    /// Rejects invalid settings.
    pub fn check(&self) -> Result<()> {
        Name::new(&self.branch)?;
        check_range("batch", self.batch as u64, 1, CLAIM_LIMIT as u64)?;
        check_range("lease_ms", self.lease_ms, 1, LEASE_LIMIT_MS)?;
        check_range("backoff_ms", self.backoff_ms, 0, LEASE_LIMIT_MS)?;
        check_range("tries", u64::from(self.tries), 1, u64::from(TRIES_LIMIT))?;
        check_range("poll_ms", self.poll_ms, 1, POLL_LIMIT_MS)
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }
}

fn check_range(name: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("{name} of a relay: {value}, where {least} to {most} make sense");
    Err(Error::new(Code::InvalidOption, message))
}
