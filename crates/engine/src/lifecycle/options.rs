//! Options of a database, with defaults for embedded use.

use crate::base::clock::{Clock, SystemClock};
use crate::base::work::WorkLimits;
use crate::commit::sequencer::CommitOptions;
use crate::lifecycle::open::OpenRebuildSource;
use crate::log::Files;
use mainstay_model::limits::{TRANSACTION_LIMIT_COMMANDS, TRANSACTION_LIMIT_WRITTEN_BYTES};
use mainstay_model::{Code, Durability, Error, Result};
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Configures how a database is opened.
///
/// ```
/// use mainstay::{Durability, Options};
/// let db = Options::new().durability(Durability::Interval).cache_bytes(8 << 20).memory()?;
/// db.cells().set("a", 1)?;
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) sync_interval: Duration,
    pub(crate) cache_bytes: u64,
    pub(crate) block_cache_bytes: u64,
    pub(crate) write_buffer_bytes: u64,
    pub(crate) segment_bytes: u64,
    /// `None` keeps all versions forever.
    pub(crate) retention: Option<Duration>,
    pub(crate) classes: Vec<(String, Option<Duration>)>,
    pub(crate) record_retention: Option<Duration>,
    pub(crate) record_classes: Vec<(String, Option<Duration>)>,
    pub(crate) keyed_retention: Option<Duration>,
    pub(crate) keyed_classes: Vec<(String, Option<Duration>)>,
    pub(crate) feed_retention: Duration,
    pub(crate) feed_retention_bytes: u64,
    pub(crate) sweep_interval: Option<Duration>,
    pub(crate) background: bool,
    pub(crate) reader_limit: Duration,
    pub(crate) idle_limit: Duration,
    pub(crate) transaction_limit: Duration,
    pub(crate) work_limits: WorkLimits,
    pub(crate) serve_branches: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_jump_limit: Option<Duration>,
    pub(crate) files: Option<Arc<dyn Files>>,
    pub(crate) base: Option<OpenRebuildSource>,
    pub(crate) keep_modes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// Returns the default options.
    pub fn new() -> Options {
        Options {
            durability: Durability::Sync,
            sync_interval: Duration::from_millis(100),
            cache_bytes: 64 << 20,
            block_cache_bytes: 64 << 20,
            write_buffer_bytes: 96 << 20,
            segment_bytes: 64 << 20,
            retention: Some(7 * DAY),
            classes: Vec::new(),
            record_retention: Some(DAY),
            record_classes: Vec::new(),
            keyed_retention: Some(DAY),
            keyed_classes: Vec::new(),
            feed_retention: DAY,
            feed_retention_bytes: 1 << 30,
            sweep_interval: Some(Duration::from_secs(1)),
            background: true,
            reader_limit: Duration::from_secs(3600),
            idle_limit: Duration::from_secs(30),
            transaction_limit: Duration::from_secs(300),
            work_limits: WorkLimits {
                entries: 10_000_000,
                bytes: 4 << 30,
                writer_entries: 250_000,
                commands: TRANSACTION_LIMIT_COMMANDS,
                write_bytes: TRANSACTION_LIMIT_WRITTEN_BYTES,
            },
            serve_branches: false,
            clock: Arc::new(SystemClock::new()),
            clock_jump_limit: Some(Duration::from_secs(365 * 86_400)),
            files: None,
            base: None,
            keep_modes: false,
        }
    }

    /// The durability of writes whose transaction does not set its own. Default: `Sync`.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// The longest time that a write with `Durability::Interval` may stay unsynced. Default: 100 ms.
    #[must_use]
    pub fn sync_interval(mut self, interval: Duration) -> Options {
        self.sync_interval = interval;
        self
    }

    /// The size of the cache of current values that are also on disk, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Options {
        self.cache_bytes = bytes;
        self
    }

    /// The size of the stores' block cache, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: u64) -> Options {
        self.block_cache_bytes = bytes;
        self
    }

    /// The memory for versions that are not in the stores yet, for all write buffers together. When it
    /// is full, writers wait. Default: 96 MiB.
    #[must_use]
    pub fn write_buffer_bytes(mut self, bytes: u64) -> Options {
        self.write_buffer_bytes = bytes;
        self
    }

    /// The size of a log segment, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = bytes;
        self
    }

    /// How long overwritten versions of cells stay readable. Default: 7 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Options {
        self.retention = Some(retention);
        self
    }

    /// Keeps all versions of cells forever.
    #[must_use]
    pub fn retention_all(mut self) -> Options {
        self.retention = None;
        self
    }

    /// Sets the retention of cells whose name begins with a prefix; `None` keeps all versions.
    #[must_use]
    pub fn retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long overwritten versions of records stay readable; `None` keeps all. Default: 24 hours.
    #[must_use]
    pub fn record_retention(mut self, retention: Option<Duration>) -> Options {
        self.record_retention = retention;
        self
    }

    /// Sets the retention of records whose key begins with a prefix; `None` keeps all versions.
    #[must_use]
    pub fn record_retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.record_classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long overwritten versions of keyed state stay readable; `None` keeps all. Default: 24 hours.
    #[must_use]
    pub fn keyed_retention(mut self, retention: Option<Duration>) -> Options {
        self.keyed_retention = retention;
        self
    }

    /// Sets the retention of keyed-state spaces whose name begins with a prefix; `None` keeps all
    /// versions.
    #[must_use]
    pub fn keyed_retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.keyed_classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long, and up to how many bytes, the log is kept for the feed. Default: 24 hours, 1 GiB.
    #[must_use]
    pub fn feed_retention(mut self, retention: Duration, limit_bytes: u64) -> Options {
        self.feed_retention = retention;
        self.feed_retention_bytes = limit_bytes;
        self
    }

    /// Whether the database's files and directories keep their modes, so that a group can have access.
    /// Default: no, opening removes the rights of group and others.
    #[must_use]
    pub fn keep_modes(mut self, keep: bool) -> Options {
        self.keep_modes = keep;
        self
    }

    /// How far the wall clock may be ahead of the last stamp when the database is opened, because the
    /// database may have been closed for that long. A clock further ahead is used only after
    /// [`Database::confirm_clock`](crate::Database::confirm_clock), because stamps never go back.
    /// [`Stats::clock_jump_us`](crate::Stats::clock_jump_us) shows such a jump. `None` accepts any
    /// clock. Default: 365 days.
    #[must_use]
    pub fn clock_jump_limit(mut self, limit: Option<Duration>) -> Options {
        self.clock_jump_limit = limit;
        self
    }

    /// How often expired state is swept; `None`: only when [`Database::sweep`](crate::Database::sweep)
    /// is called. Default: every second.
    #[must_use]
    pub fn sweep_interval(mut self, interval: Option<Duration>) -> Options {
        self.sweep_interval = interval;
        self
    }

    /// Whether the database has background threads. Default: yes.
    ///
    /// Without them each caller does the work itself, and nothing happens between calls. So a
    /// single-threaded program is deterministic if its [clock](Options::clock) and its
    /// [files](Options::files) are. The differences are:
    ///
    /// - A write, [`Database::submit`](crate::Database::submit) and
    ///   [`Database::submit_with`](crate::Database::submit_with) have their answer when they return,
    ///   and callbacks are called before that. Inside a callback, the callbacks of its own submissions
    ///   are called after it returns.
    /// - A write under [`Durability::Interval`] is synced by the first write, sync or sweep after its
    ///   interval, measured by the database's clock. Without such a call it stays unsynced.
    /// - A writer that finds the write buffers full flushes them itself.
    /// - Compaction, retention and log trimming run only in [`Database::trim`](crate::Database::trim),
    ///   and expiries become deletions only in [`Database::sweep`](crate::Database::sweep). Call both
    ///   from time to time.
    /// - Data of deleted runs is deleted only in [`Database::reap`](crate::Database::reap). New indexes
    ///   over existing records are filled only in
    ///   [`Database::fill_indexes`](crate::Database::fill_indexes).
    ///
    /// ```
    /// use mainstay::{CellCommand, Name, Options, Transaction};
    /// let db = Options::new().background(false).memory()?;
    /// let ticket = db.submit(Transaction::new().step(CellCommand::set(Name::new("a")?, 1)));
    /// assert!(ticket.is_done());
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[must_use]
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// Whether messages and requests to clients are also delivered from branches other than `main`.
    /// Default: no, they stay in their branch until it is merged into `main`.
    #[must_use]
    pub fn serve_branches(mut self, serve: bool) -> Options {
        self.serve_branches = serve;
        self
    }

    /// How long a reader may hold back retention. After that its snapshot may be trimmed. Default: one
    /// hour.
    #[must_use]
    pub fn reader_limit(mut self, limit: Duration) -> Options {
        self.reader_limit = limit;
        self
    }

    /// The longest idle time, and the longest total time, of an interactive transaction. Default: 30 s,
    /// 5 min.
    #[must_use]
    pub fn transaction_limits(mut self, idle: Duration, total: Duration) -> Options {
        self.idle_limit = idle;
        self.transaction_limit = total;
        self
    }

    /// The most entries that one transaction may read, and the most bytes of them, over all its
    /// commands. Beyond that it fails with `TooLarge` and writes nothing. Default: 10 million, 4 GiB.
    ///
    /// ```
    /// use mainstay::{Code, Options};
    /// let db = Options::new().work_limits(10, 1 << 20).memory()?;
    /// (0..11).try_for_each(|i| db.cells().set(&format!("{i}"), i).map(drop))?;
    /// let error = db.transaction(|t| t.list("", None, 100)).unwrap_err();
    /// assert_eq!(error.code(), Code::TransactionTooLarge);
    /// assert!(error.to_string().contains("transaction_entries"));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[must_use]
    pub fn work_limits(mut self, entries: u64, bytes: u64) -> Options {
        self.work_limits.entries = entries;
        self.work_limits.bytes = bytes;
        self
    }

    /// The most entries that a transaction's lists, counts and searches may pass while it holds the
    /// writer, because all other transactions wait meanwhile. Point lookups may be four times as many.
    /// Lists, counts and searches run before the transaction enters the writer and are reused if no
    /// write has changed their results. Default: 250,000.
    #[must_use]
    pub fn writer_entries(mut self, entries: u64) -> Options {
        self.work_limits.writer_entries = entries;
        self
    }

    /// The most commands of a transaction that writes, because all other transactions wait while it
    /// executes. Default and maximum: 100,000.
    #[must_use]
    pub fn transaction_commands(mut self, commands: usize) -> Options {
        self.work_limits.commands = commands.min(TRANSACTION_LIMIT_COMMANDS);
        self
    }

    /// The most bytes that a transaction may write before its last command, including bytes that it
    /// overwrites itself. Each command on a large record writes the whole record while all other
    /// transactions wait. Default and maximum: 256 MiB.
    #[must_use]
    pub fn transaction_write_bytes(mut self, bytes: usize) -> Options {
        self.work_limits.write_bytes = bytes.min(TRANSACTION_LIMIT_WRITTEN_BYTES);
        self
    }

    /// Sets the source of time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Options {
        self.clock = clock;
        self
    }

    /// Sets the storage of the log's files, instead of the directory's `log`.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn Files>) -> Options {
        self.files = Some(files);
        self
    }

    /// Returns the options that concern commits.
    pub(crate) fn commit(&self) -> CommitOptions {
        CommitOptions {
            durability: self.durability,
            sync_interval: self.sync_interval,
            background: self.background,
            clock: self.clock.clone(),
            write_buffer_bytes: self.write_buffer_bytes,
        }
    }

    /// Returns an error if a database cannot be opened with these options. Opening calls it, too.
    pub fn check(&self) -> Result<()> {
        let invalid = |message: &str| Err(Error::new(Code::InvalidOption, message));
        if self.write_buffer_bytes < 64 << 10 {
            return invalid("write_buffer_bytes: 64 KiB are the least");
        }
        if self.sync_interval.is_zero() {
            return invalid("sync_interval: at least a microsecond; Durability::Sync has none");
        }
        if self.sweep_interval.is_some_and(|interval| interval.is_zero()) {
            return invalid("sweep_interval: more than zero, or None");
        }
        let classes = self.classes.iter().chain(&self.record_classes).chain(&self.keyed_classes);
        for (prefix, _) in classes {
            mainstay_model::check_name(prefix)
                .map_err(|error| Error::new(Code::InvalidOption, error.message()))?;
        }
        Ok(())
    }
}
