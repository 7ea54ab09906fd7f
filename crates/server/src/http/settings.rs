//! Settings of the HTTP face: every limit and its default.

use super::origin::is_origin;
use crate::config::Address;
use crate::config::settings::settings;
use crate::outbox;
use mainstay::{Code, Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;
const GIB: u64 = 1 << 30;

settings! {
    /// The face for HTTP.
    pub struct Settings {
        /// Where it listens.
        pub address: Address = SocketAddr::from((Ipv4Addr::LOCALHOST, 7380)).into();
        /// Origins whose pages may use this server from a browser, each a scheme and a host.
        pub allowed_origins: Vec<String> = Vec::new();
        /// The most connections at once; a further one is answered 503.
        pub connections: usize = 4096, 1..=1_000_000;
        /// How many threads run requests.
        pub threads: usize = 2, 1..=64;
        /// The time for the headers of a request, and for the next request on an idle connection.
        pub header_limit_ms: u64 = 30_000, 1..=HOUR_MS;
        /// The longest pause inside a body that is uploaded.
        pub upload_pause_limit_ms: u64 = 20_000, 1..=HOUR_MS;
        /// The time for a whole body, imports apart.
        pub upload_limit_ms: u64 = 120_000, 1..=24 * HOUR_MS;
        /// The longest time that a client may take nothing of what is sent to it.
        pub write_limit_ms: u64 = 30_000, 1..=HOUR_MS;
        /// The largest body of a request about one value.
        pub value_limit_bytes: usize = 17 << 20, 1..=GIB;
        /// The largest body of a transaction.
        pub transaction_limit_bytes: usize = 65 << 20, 1..=GIB;
        /// The largest file that is imported.
        pub import_limit_bytes: u64 = 1 << 40, 1..=1 << 50;
        /// The time for receiving such a file.
        pub import_limit_ms: u64 = 6 * HOUR_MS, 1..=1000 * HOUR_MS;
        /// How many such files are received at once; a further one is answered 503.
        pub imports: usize = 8, 1..=1000;
        /// The memory for the bodies of all requests together; further uploads wait.
        pub bodies_limit_bytes: usize = 256 << 20, 1 << 20..=GIB;
        /// How many writes may wait to be handed to the database; further ones wait in their connections.
        pub waiting_writes: usize = 1024, 1..=1_000_000;
        /// How many slow reads (lists, history, comparisons, merges) run at once.
        pub slow_reads: usize = 8, 1..=256;
        /// How many exports, imports and backups run at once.
        pub transfers: usize = 2, 1..=64;
        /// How many readers the feed has at once.
        pub feed_readers: usize = 1024, 1..=1_000_000;
        /// How long a reader of the feed may take nothing before it is cut.
        pub feed_stall_limit_ms: u64 = 20_000, 1..=HOUR_MS;
        /// How many bytes of a stream of events wait for its reader, but for the last event: then the
        /// stream waits for it.
        pub feed_buffer_bytes: usize = 1 << 20, 1..=GIB;
        /// The longest that a page of the feed waits for a first change.
        pub feed_wait_limit_ms: u64 = 60_000, 0..=HOUR_MS;
        /// A page of the feed ends behind the transaction that makes it this large.
        pub feed_page_bytes: usize = 4 << 20, 1..=GIB;
        /// How often a quiet feed says that it is alive.
        pub keep_alive_ms: u64 = 15_000, 1..=HOUR_MS;
        /// How long requests under way may take when the server stops.
        pub drain_limit_ms: u64 = 10_000, 0..=HOUR_MS;
        /// Where files lie while they are sent or received; "none": in the directory "scratch" of the data.
        pub scratch: Option<PathBuf> = None;
        /// What such files leave free of their disk, for the log above all; a file that would take more is
        /// answered 507.
        pub scratch_reserve_bytes: u64 = GIB, 0..=1 << 50;
        /// How messages are claimed and tried again where nobody says: what `[outbox]` says.
        #[serde(skip)]
        pub outbox: outbox::Settings = outbox::Settings::default();
    }
}

impl Settings {
    /// Validates the settings beyond their types and bounds.
    pub fn check(&self) -> Result<()> {
        let wrong = self.allowed_origins.iter().find(|origin| !is_origin(origin));
        let Some(wrong) = wrong else { return Ok(()) };
        let message = format!(
            "http.allowed_origins has {wrong:?}, which is no origin: write a scheme, a host and a port if it is \
             not the usual one, as in \"https://app.example\", and nothing behind it"
        );
        Err(Error::new(Code::InvalidOption, message))
    }

    pub(super) fn header_limit(&self) -> Duration {
        Duration::from_millis(self.header_limit_ms)
    }

    pub(super) fn upload_pause_limit(&self) -> Duration {
        Duration::from_millis(self.upload_pause_limit_ms)
    }

    pub(super) fn upload_limit(&self) -> Duration {
        Duration::from_millis(self.upload_limit_ms)
    }

    pub(super) fn write_limit(&self) -> Duration {
        Duration::from_millis(self.write_limit_ms)
    }

    pub(super) fn import_limit(&self) -> Duration {
        Duration::from_millis(self.import_limit_ms)
    }

    pub(super) fn feed_stall_limit(&self) -> Duration {
        Duration::from_millis(self.feed_stall_limit_ms)
    }

    pub(super) fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms)
    }

    pub(super) fn drain_limit(&self) -> Duration {
        Duration::from_millis(self.drain_limit_ms)
    }
}
