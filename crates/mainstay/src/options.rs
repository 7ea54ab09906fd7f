//! Options of an embedded database.

use super::backend::Backend;
use super::database::Database;
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::lifecycle::options;
use mainstay_engine::log::Files;
use mainstay_engine::tools::backup;
use mainstay_model::limits::{TRANSACTION_LIMIT_COMMANDS, TRANSACTION_LIMIT_WRITTEN_BYTES};
use mainstay_model::{Clock, Code, Durability, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Configures how a database is opened.
///
/// ```
/// use mainstay::{Durability, Options};
/// let db = Options::new().durability(Durability::Interval).cache_bytes(8 << 20).memory()?;
/// db.cells().set("a", 1)?;
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Options(options::Options);

impl Options {
    /// Returns the default options.
    pub fn new() -> Options {
        Options::default()
    }

    /// The durability of writes whose transaction does not set its own. Default: `Sync`.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.0.durability = durability;
        self
    }

    /// The longest time that a write with `Durability::Interval` may stay unsynced. Default: 100 ms.
    #[must_use]
    pub fn sync_interval(mut self, interval: Duration) -> Options {
        self.0.sync_interval = interval;
        self
    }

    /// The size of the cache of current values that are also on disk, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Options {
        self.0.cache_bytes = bytes;
        self
    }

    /// The size of the stores' block cache, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: u64) -> Options {
        self.0.block_cache_bytes = bytes;
        self
    }

    /// The memory for versions that are not in the stores yet, for all write buffers together. When it
    /// is full, writers wait. Default: 96 MiB.
    #[must_use]
    pub fn write_buffer_bytes(mut self, bytes: u64) -> Options {
        self.0.write_buffer_bytes = bytes;
        self
    }

    /// The size of a log segment, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.0.segment_bytes = bytes;
        self
    }

    /// How long overwritten versions of cells stay readable. Default: 7 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Options {
        self.0.retention = Some(retention);
        self
    }

    /// Keeps all versions of cells forever.
    #[must_use]
    pub fn retention_all(mut self) -> Options {
        self.0.retention = None;
        self
    }

    /// Sets the retention of cells whose name begins with a prefix; `None` keeps all versions.
    #[must_use]
    pub fn retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.0.classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long overwritten versions of records stay readable; `None` keeps all. Default: 24 hours.
    #[must_use]
    pub fn record_retention(mut self, retention: Option<Duration>) -> Options {
        self.0.record_retention = retention;
        self
    }

    /// Sets the retention of records whose key begins with a prefix; `None` keeps all versions.
    #[must_use]
    pub fn record_retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.0.record_classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long overwritten versions of keyed state stay readable; `None` keeps all. Default: 24 hours.
    #[must_use]
    pub fn keyed_retention(mut self, retention: Option<Duration>) -> Options {
        self.0.keyed_retention = retention;
        self
    }

    /// Sets the retention of keyed-state spaces whose name begins with a prefix; `None` keeps all
    /// versions.
    #[must_use]
    pub fn keyed_retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.0.keyed_classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long, and up to how many bytes, the log is kept for the feed. Default: 24 hours, 1 GiB.
    #[must_use]
    pub fn feed_retention(mut self, retention: Duration, limit_bytes: u64) -> Options {
        self.0.feed_retention = retention;
        self.0.feed_retention_bytes = limit_bytes;
        self
    }

    /// Whether the database's files and directories keep their modes, so that a group can have access.
    /// Default: no, opening removes the rights of group and others.
    #[must_use]
    pub fn keep_modes(mut self, keep: bool) -> Options {
        self.0.keep_modes = keep;
        self
    }

    /// How far the wall clock may be ahead of the last stamp when the database is opened, because the
    /// database may have been closed for that long. A clock further ahead is used only after
    /// [`Database::confirm_clock`](crate::Database::confirm_clock), because stamps never go back.
    /// [`Stats::clock_jump_us`](crate::Stats::clock_jump_us) shows such a jump. `None` accepts any
    /// clock. Default: 365 days.
    #[must_use]
    pub fn clock_jump_limit(mut self, limit: Option<Duration>) -> Options {
        self.0.clock_jump_limit = limit;
        self
    }

    /// How often expired state is swept; `None`: only when [`Database::sweep`](crate::Database::sweep)
    /// is called. Default: every second.
    #[must_use]
    pub fn sweep_interval(mut self, interval: Option<Duration>) -> Options {
        self.0.sweep_interval = interval;
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
        self.0.background = background;
        self
    }

    /// Whether messages and requests to clients are also delivered from branches other than `main`.
    /// Default: no, they stay in their branch until it is merged into `main`.
    #[must_use]
    pub fn serve_branches(mut self, serve: bool) -> Options {
        self.0.serve_branches = serve;
        self
    }

    /// How long a reader may hold back retention. After that its snapshot may be trimmed. Default: one
    /// hour.
    #[must_use]
    pub fn reader_limit(mut self, limit: Duration) -> Options {
        self.0.reader_limit = limit;
        self
    }

    /// The longest idle time, and the longest total time, of an interactive transaction. Default: 30 s,
    /// 5 min.
    #[must_use]
    pub fn transaction_limits(mut self, idle: Duration, total: Duration) -> Options {
        self.0.idle_limit = idle;
        self.0.transaction_limit = total;
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
        self.0.work_limits.entries = entries;
        self.0.work_limits.bytes = bytes;
        self
    }

    /// The most entries that a transaction's lists, counts and searches may pass while it holds the
    /// writer, because all other transactions wait meanwhile. Point lookups may be four times as many.
    /// Lists, counts and searches run before the transaction enters the writer and are reused if no
    /// write has changed their results. Default: 250,000.
    #[must_use]
    pub fn writer_entries(mut self, entries: u64) -> Options {
        self.0.work_limits.writer_entries = entries;
        self
    }

    /// The most commands of a transaction that writes, because all other transactions wait while it
    /// executes. Default and maximum: 100,000.
    #[must_use]
    pub fn transaction_commands(mut self, commands: usize) -> Options {
        self.0.work_limits.commands = commands.min(TRANSACTION_LIMIT_COMMANDS);
        self
    }

    /// The most bytes that a transaction may write before its last command, including bytes that it
    /// overwrites itself. Each command on a large record writes the whole record while all other
    /// transactions wait. Default and maximum: 256 MiB.
    #[must_use]
    pub fn transaction_write_bytes(mut self, bytes: usize) -> Options {
        self.0.work_limits.write_bytes = bytes.min(TRANSACTION_LIMIT_WRITTEN_BYTES);
        self
    }

    /// Sets the source of time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Options {
        self.0.clock = clock;
        self
    }

    /// Sets the storage of the log's files, instead of the directory's `log`.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn Files>) -> Options {
        self.0.files = Some(files);
        self
    }

    /// Sets a backup to fill the index from, made by [`Database::backup`](crate::Database::backup).
    ///
    /// It is used in two cases only. An empty directory becomes a copy of the backed-up database. If
    /// the index is missing or damaged and the log no longer holds everything, the index is filled from
    /// the backup and the log is replayed after it. The whole file is verified before anything is
    /// written.
    #[must_use]
    pub fn base(mut self, backup: impl Into<PathBuf>) -> Options {
        self.0.base = Some(backup::rebuild_source(backup.into()));
        self
    }

    /// Returns an error if a database cannot be opened with these options. Opening calls it, too.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// Opens the database in a directory. Creates it if the directory holds none.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<Database> {
        self.check()?;
        let engine = Engine::open(directory.as_ref(), self.0)?;
        Ok(Database { place: Backend::Local(engine) })
    }

    /// Creates a database in memory. It behaves like a database on disk, but its content is lost when it
    /// closes.
    pub fn memory(self) -> Result<Database> {
        self.check()?;
        if self.0.base.is_some() {
            let message = "base: a backup fills a database in a directory, not one in memory";
            return Err(Error::new(Code::InvalidOption, message));
        }
        Ok(Database { place: Backend::Local(Engine::memory(self.0)?) })
    }
}
