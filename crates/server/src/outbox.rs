//! The outbox of a server: the table `[outbox]`, and the start of the relay that delivers messages.

use crate::config::settings::settings;
use mainstay::{CLAIM_LIMIT, Database, LEASE_LIMIT_MS, Result, TRIES_LIMIT};
use mainstay_runs::relay::{FileTransport, Relay, RelaySettings, RelayThread};
use std::path::PathBuf;

settings! {
    /// Messages of the outbox: those that could not be delivered, and the relay, which delivers them.
    pub struct Settings {
        /// How long a message that could not be delivered waits before its second try; each further one doubles it.
        pub backoff_ms: u64 = 1_000, 1..=LEASE_LIMIT_MS;
        /// After so many tries it is dead, until somebody replays it.
        pub tries: u32 = TRIES_LIMIT, 1..=1_000;
        /// The file that the server itself appends messages to, a line of JSON each; one is acknowledged when its line is on
        /// stable storage. "none": there is no relay, and others claim messages.
        pub file: Option<PathBuf> = None;
        /// The branch whose messages the relay sends.
        pub branch: String = mainstay::MAIN.to_owned();
        /// How many messages the relay claims together.
        pub batch: usize = 100, 1..=CLAIM_LIMIT as u64;
        /// How long the relay has for them before others get them; over HTTP, whoever claims and does not say.
        pub lease_ms: u64 = 30_000, 1..=LEASE_LIMIT_MS;
    }
}

impl Settings {
    /// Checks what types and bounds of single settings cannot express.
    pub fn check(&self) -> Result<()> {
        self.of_relay().check()
    }

    /// Starts the relay. Returns `None` if no file is configured.
    pub(crate) fn start(&self, db: &Database) -> Result<Option<RelayThread>> {
        let Some(file) = &self.file else { return Ok(None) };
        let relay = Relay::new(db, FileTransport::open(file)?, self.of_relay())?;
        relay.start().map(Some)
    }

    /// Converts the settings to those of the relay.
    fn of_relay(&self) -> RelaySettings {
        RelaySettings {
            branch: self.branch.clone(),
            batch: self.batch,
            lease_ms: self.lease_ms,
            backoff_ms: self.backoff_ms,
            // No message is delivered more often than this limit.
            tries: self.tries.min(TRIES_LIMIT),
            ..RelaySettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_relay_and_what_makes_no_sense_is_refused() {
        let default = Settings::default();
        assert!(default.check().is_ok());
        assert_eq!(default.of_relay(), RelaySettings::default());
        assert!(Settings { tries: 1_000, ..default.clone() }.check().is_ok());
        assert!(Settings { branch: String::new(), ..default }.check().is_err());
    }
}
