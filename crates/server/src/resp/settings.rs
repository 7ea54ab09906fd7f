//! Settings of the RESP front end, with the default and the bounds of every limit.

use super::request::Limits;
use crate::config::Address;
use crate::config::settings::settings;
use crate::outbox;
use mainstay::Durability;
use std::net::{Ipv4Addr, SocketAddr};

const GIB: u64 = 1 << 30;

settings! {
    /// The face for Redis clients.
    pub struct Settings {
        /// Where it listens.
        pub address: Address = SocketAddr::from((Ipv4Addr::LOCALHOST, 7379)).into();
        /// The most connections at once; a further one is refused.
        pub connections: usize = 10_000, 1..=1_000_000;
        /// How many event loops share the connections; 0 makes it half as many as there are processors, at
        /// most 4: the other half is for the clients, or for what the database does beside.
        pub loops: usize = 0, 0..=64;
        /// How many threads do long work, such as KEYS, BRANCH.DIFF and BRANCH.MERGE.
        pub workers: usize = 2, 1..=256;
        /// How many pieces of long work may wait for a thread; a further one is refused.
        pub waiting_work: usize = 1024, 1..=1_000_000;
        /// The most bytes that wait for a slow reader; then it is disconnected.
        pub output_bytes: usize = 256 << 20, 64 << 10..=64 * GIB;
        /// The most bytes that all connections together hold of requests that are incomplete and of
        /// replies that are unsent; whoever needs more then is disconnected.
        pub held_bytes: usize = 2 << 30, 64 << 10..=1024 * GIB;
        /// The longest time that a client may take next to nothing of its replies.
        pub write_limit_ms: u64 = 30_000, 1..=3_600_000;
        /// The longest time from the first byte of a request to its last.
        pub request_limit_ms: u64 = 120_000, 1..=24 * 3_600_000;
        /// With more than this unsent to a connection, nothing more is read from it.
        pub unsent_bytes: usize = 1 << 20, 1..=GIB;
        /// How many requests of one connection are taken in one turn, so that others come to theirs.
        pub turn_requests: usize = 2048, 1..=1_000_000;
        /// For how long requests are taken in one turn, in microseconds: all connections with requests share it, so
        /// that a client with expensive ones does not hold up the others.
        pub turn_us: u64 = 1_000, 1..=10_000_000;
        /// How many bytes of one connection are read in one turn: what it asks is held until the batch is
        /// done.
        pub turn_bytes: usize = 4 << 20, 64 << 10..=GIB;
        /// How many places of SCAN are remembered; one that is forgotten is an invalid cursor.
        pub cursors: usize = 16_384, 1..=10_000_000;
        /// The most changes that FEED.READ gives at once.
        pub feed_changes: usize = 10_000, 1..=1_000_000;
        /// How many places in the feed are read at once, each of which is an open file; a further one is
        /// refused.
        pub feed_readers: usize = 1024, 1..=1_000_000;
        /// The longest that JOB.CLAIM, RUN.TAIL and FEED.READ wait; whoever asks for more waits so long.
        pub wait_limit_ms: u64 = 3_600_000, 0..=86_400_000;
        /// How long those who do not read what they are owed can hold up the end, of the server or of
        /// their own connection.
        pub drain_limit_ms: u64 = 5_000, 0..=3_600_000;
        /// Commands that take at least so many microseconds are listed by SLOWLOG; 0 lists none.
        pub slow_log_us: u64 = 10_000, 0..=3_600_000_000;
        /// How many of them are kept.
        pub slow_log_length: usize = 128, 1..=100_000;
        /// What a request may be.
        pub request: Limits = Limits::default();
        /// What has to happen before a write is answered: what the database was opened with.
        #[serde(skip)]
        pub durability: Durability = Durability::Sync;
        /// How messages are tried again that could not be delivered: what `[outbox]` says.
        #[serde(skip)]
        pub outbox: outbox::Settings = outbox::Settings::default();
    }
}

/// The most event loops that are started by default.
const MOST_LOOPS: usize = 4;

impl Settings {
    /// Returns the number of event loops, also if the setting is 0.
    pub fn effective_loops(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        match self.loops {
            0 => (processors / 2).clamp(1, MOST_LOOPS),
            loops => loops,
        }
    }
}
