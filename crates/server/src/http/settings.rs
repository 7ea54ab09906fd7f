//! Settings of the HTTP face: data, every limit with its number.

use std::path::PathBuf;
use std::time::Duration;

/// What the HTTP face allows.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most connections at once; a further one is answered 503.
    pub connections: usize,
    /// The time for the headers of a request, and for the next request on an idle connection.
    pub header_limit: Duration,
    /// The longest pause inside a body that is uploaded.
    pub upload_pause_limit: Duration,
    /// The time for a whole body, imports apart.
    pub upload_limit: Duration,
    /// The longest time that a client may take nothing of what is sent to it.
    pub write_limit: Duration,
    /// The largest body of a request about one value.
    pub value_limit_bytes: usize,
    /// The largest body of a transaction.
    pub transaction_limit_bytes: usize,
    /// The largest file that is imported.
    pub import_limit_bytes: u64,
    /// The time for receiving such a file.
    pub import_limit: Duration,
    /// How many such files are received at once; a further one is answered 503.
    pub imports: usize,
    /// The memory for the bodies of all requests together; further uploads wait.
    pub bodies_limit_bytes: usize,
    /// How many slow reads (lists, history, comparisons, merges) run at once.
    pub slow_reads: usize,
    /// How many exports, imports and backups run at once.
    pub transfers: usize,
    /// How many readers the feed has at once.
    pub feed_readers: usize,
    /// How long a reader of the feed may take nothing before it is cut.
    pub feed_stall_limit: Duration,
    /// How often a quiet feed says that it is alive.
    pub keep_alive: Duration,
    /// How long requests under way may take when the server stops.
    pub drain_limit: Duration,
    /// Where files lie while they are sent or received; `None`: the system's place for such files.
    pub scratch: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connections: 4096,
            header_limit: Duration::from_secs(30),
            upload_pause_limit: Duration::from_secs(20),
            upload_limit: Duration::from_secs(120),
            write_limit: Duration::from_secs(30),
            value_limit_bytes: 17 << 20,
            transaction_limit_bytes: 65 << 20,
            import_limit_bytes: 1 << 40,
            import_limit: Duration::from_secs(6 * 3600),
            imports: 8,
            bodies_limit_bytes: 256 << 20,
            slow_reads: 8,
            transfers: 2,
            feed_readers: 1024,
            feed_stall_limit: Duration::from_secs(20),
            keep_alive: Duration::from_secs(15),
            drain_limit: Duration::from_secs(10),
            scratch: None,
        }
    }
}
