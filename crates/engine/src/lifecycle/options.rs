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

/// The options of a database.
#[derive(Clone)]
pub struct Options {
    pub durability: Durability,
    pub sync_interval: Duration,
    pub cache_bytes: u64,
    pub block_cache_bytes: u64,
    pub write_buffer_bytes: u64,
    pub segment_bytes: u64,
    /// `None` keeps all versions forever.
    pub retention: Option<Duration>,
    pub classes: Vec<(String, Option<Duration>)>,
    pub record_retention: Option<Duration>,
    pub record_classes: Vec<(String, Option<Duration>)>,
    pub keyed_retention: Option<Duration>,
    pub keyed_classes: Vec<(String, Option<Duration>)>,
    pub feed_retention: Duration,
    pub feed_retention_bytes: u64,
    pub sweep_interval: Option<Duration>,
    pub background: bool,
    pub reader_limit: Duration,
    pub idle_limit: Duration,
    pub transaction_limit: Duration,
    pub work_limits: WorkLimits,
    pub serve_branches: bool,
    pub clock: Arc<dyn Clock>,
    pub clock_jump_limit: Option<Duration>,
    pub files: Option<Arc<dyn Files>>,
    pub base: Option<OpenRebuildSource>,
    pub keep_modes: bool,
}

impl Default for Options {
    fn default() -> Options {
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
}

impl Options {
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
