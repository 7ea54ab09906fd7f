//! Settings: data, with defaults that suit an embedded database.

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

/// How a database is opened.
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
    /// `None`: for ever.
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
    /// The defaults.
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

    /// What a write waits for, unless its transaction says otherwise. Default: `Sync`.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// How long a write may stay unsynced under `Interval`. Default: 100 ms.
    #[must_use]
    pub fn sync_interval(mut self, interval: Duration) -> Options {
        self.sync_interval = interval;
        self
    }

    /// The memory for current values that are on disk too. Default: 64 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Options {
        self.cache_bytes = bytes;
        self
    }

    /// The memory for blocks of the stores. Default: 64 MiB.
    #[must_use]
    pub fn block_cache_bytes(mut self, bytes: u64) -> Options {
        self.block_cache_bytes = bytes;
        self
    }

    /// The memory for versions that the stores do not hold yet, all buffers together. When they are
    /// full, writers wait. Default: 96 MiB.
    #[must_use]
    pub fn write_buffer_bytes(mut self, bytes: u64) -> Options {
        self.write_buffer_bytes = bytes;
        self
    }

    /// The size of a segment of the log. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = bytes;
        self
    }

    /// How long shadowed versions of cells stay readable. Default: 7 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Options {
        self.retention = Some(retention);
        self
    }

    /// Keeps all versions of cells for ever.
    #[must_use]
    pub fn retention_all(mut self) -> Options {
        self.retention = None;
        self
    }

    /// Gives cells under a prefix their own retention; `None` keeps all.
    #[must_use]
    pub fn retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long shadowed versions of records stay readable; `None` keeps all. Default: 24 hours.
    #[must_use]
    pub fn record_retention(mut self, retention: Option<Duration>) -> Options {
        self.record_retention = retention;
        self
    }

    /// Gives records under a prefix their own retention; `None` keeps all.
    #[must_use]
    pub fn record_retention_class(mut self, prefix: &str, retention: Option<Duration>) -> Options {
        self.record_classes.push((prefix.to_owned(), retention));
        self
    }

    /// How long shadowed versions of keyed state stay readable; `None` keeps all. Default: 24 hours.
    #[must_use]
    pub fn keyed_retention(mut self, retention: Option<Duration>) -> Options {
        self.keyed_retention = retention;
        self
    }

    /// Gives spaces of keyed state whose names begin with a prefix their own retention; `None` keeps all.
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

    /// Whether the database's files and directories keep the modes that they have, so that a group can have access. Default: opening
    /// takes the rights of everybody but the owner from them.
    #[must_use]
    pub fn keep_modes(mut self, keep: bool) -> Options {
        self.keep_modes = keep;
        self
    }

    /// How far the wall clock may be ahead of the last stamp when the database is opened: it may have been closed for so long. A clock
    /// that is further ahead is followed only once it is confirmed with [`Database::confirm_clock`](crate::Database::confirm_clock), for stamps never go back;
    /// [`Stats::clock_jump_us`](crate::Stats::clock_jump_us) tells. `None`: whatever it shows is believed. Default: 365 days.
    #[must_use]
    pub fn clock_jump_limit(mut self, limit: Option<Duration>) -> Options {
        self.clock_jump_limit = limit;
        self
    }

    /// How often expiries are looked for; `None`: only when [`Database::sweep`](crate::Database::sweep) is called.
    /// Default: every second.
    #[must_use]
    pub fn sweep_interval(mut self, interval: Option<Duration>) -> Options {
        self.sweep_interval = interval;
        self
    }

    /// Whether the database has threads of its own. Default: it has.
    ///
    /// Without them whoever calls does the work, and nothing happens between calls; so a program of one thread does the
    /// same each time it runs, if its [clock](Options::clock) and its [files](Options::files) do. What is different then:
    ///
    /// - A write, [`Database::submit`](crate::Database::submit) and [`Database::submit_with`](crate::Database::submit_with) have their answer when they return, and callbacks are
    ///   called before; inside a callback, those of what it submits are called when it has returned.
    /// - What was written under [`Durability::Interval`] is synced by the first write, sync or sweep behind its interval,
    ///   which passes by the database's clock; until there is one, it is not.
    /// - A writer that finds the write buffers full moves them into the stores itself.
    /// - Nobody compacts, applies retention or trims the log but [`Database::trim`](crate::Database::trim); nobody turns expiries into deletions but
    ///   [`Database::sweep`](crate::Database::sweep), which should both be called now and then; nobody deletes what deleted runs have left but
    ///   [`Database::reap`](crate::Database::reap), and nobody fills an index over records of before but [`Database::fill_indexes`](crate::Database::fill_indexes).
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

    /// Whether messages and requests to clients leave from other branches than `main` as well. Default: no, they are
    /// state of their branch until it is merged into `main`.
    #[must_use]
    pub fn serve_branches(mut self, serve: bool) -> Options {
        self.serve_branches = serve;
        self
    }

    /// How long a reader may hold back retention before it is cut. Default: an hour.
    #[must_use]
    pub fn reader_limit(mut self, limit: Duration) -> Options {
        self.reader_limit = limit;
        self
    }

    /// How long an interactive transaction may be idle, and open in all. Default: 30 s, 5 min.
    #[must_use]
    pub fn transaction_limits(mut self, idle: Duration, total: Duration) -> Options {
        self.idle_limit = idle;
        self.transaction_limit = total;
        self
    }

    /// How many entries one transaction may look at, and how many bytes of them it may read, all its commands together;
    /// over it the error `TooLarge`, and nothing is written. Default: 10 million, 4 GiB.
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

    /// How many entries the lists, counts and searches of a transaction may pass while it holds the writer, so that all others
    /// wait for it; it may look up four times as many by their keys. Lists, counts and searches are made before, as long as
    /// nobody changes what they found. Default: 250,000.
    #[must_use]
    pub fn writer_entries(mut self, entries: u64) -> Options {
        self.work_limits.writer_entries = entries;
        self
    }

    /// How many commands a transaction may have that writes: while they are executed, all others wait. Default, and at most:
    /// 100,000.
    #[must_use]
    pub fn transaction_commands(mut self, commands: usize) -> Options {
        self.work_limits.commands = commands.min(TRANSACTION_LIMIT_COMMANDS);
        self
    }

    /// How many bytes a transaction may write before its last command, those counted that it overwrites itself: each command on a
    /// large record writes the whole record, while all others wait. Default, and at most: 256 MiB.
    #[must_use]
    pub fn transaction_write_bytes(mut self, bytes: usize) -> Options {
        self.work_limits.write_bytes = bytes.min(TRANSACTION_LIMIT_WRITTEN_BYTES);
        self
    }

    /// Where time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Options {
        self.clock = clock;
        self
    }

    /// Where the log's files live, instead of the directory's `log`.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn Files>) -> Options {
        self.files = Some(files);
        self
    }

    /// Those that concern commits.
    pub(crate) fn commit(&self) -> CommitOptions {
        CommitOptions {
            durability: self.durability,
            sync_interval: self.sync_interval,
            background: self.background,
            clock: self.clock.clone(),
            write_buffer_bytes: self.write_buffer_bytes,
        }
    }

    /// Whether a database can be opened so; opening asks, too.
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
