//! The outbox of a server: the table `[outbox]`.

use crate::config::settings::settings;
use mainstay::{LEASE_LIMIT_MS, TRIES_LIMIT};

settings! {
    /// Messages of the outbox that could not be delivered.
    pub struct Settings {
        /// How long such a message waits before its second try; each further one doubles it.
        pub backoff_ms: u64 = 1_000, 1..=LEASE_LIMIT_MS;
        /// After so many tries it is dead, until somebody replays it.
        pub tries: u32 = TRIES_LIMIT, 1..=1_000;
    }
}
