//! Statistics of a database.

use crate::{Error, OutboxState, Revision};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Statistics of a database at one moment. Counters start at 0 when the database is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// The newest visible revision.
    pub revision: Revision,
    /// The newest revision on stable storage.
    pub durable: Revision,
    /// Everything up to this revision is in the index. Recovery replays the log from here.
    pub flushed: Revision,
    /// The first revision at which all data can be read.
    pub floor: Revision,
    /// The first revision in the log. A feed can start after it.
    pub log_first: Revision,
    /// Size of the log files in bytes.
    pub log_bytes: u64,
    /// Size of the LSM stores' tables in bytes.
    pub index_bytes: u64,
    /// Memory of the stores' Bloom filters and table indexes, outside the block cache, in bytes.
    pub index_pinned_bytes: u64,
    /// Number of versions in the stores.
    pub index_entries: u64,
    /// Bytes of current values cached in memory, besides the write buffers.
    pub cache_bytes: u64,
    /// Bytes of versions in the write buffers that are not flushed yet.
    pub buffer_bytes: u64,
    /// The longest time that a writer was blocked by a full write buffer, in microseconds.
    pub longest_stall_us: u64,
    /// How far the wall clock jumped ahead in microseconds, if the jump was not accepted.
    pub clock_jump_us: Option<u64>,
    /// True after a failed fsync, which makes the database read-only.
    pub read_only: bool,
    /// The last error of a background task.
    pub last_failure: Option<String>,
    /// Duration of log fsyncs in microseconds.
    pub sync_us: Histogram,
    /// Transactions per log write (group commit size).
    pub group_transactions: Histogram,
    /// Bytes per log write.
    pub group_bytes: Histogram,
    /// Reads whose key was found in memory. Each thread adds to it in steps of 64.
    pub cache_hits: u64,
    /// Reads that had to search a store.
    pub cache_misses: u64,
    /// Values that were evicted from memory.
    pub cache_evictions: u64,
    /// Transactions that were submitted and have no outcome yet.
    pub in_flight: u64,
    /// Bytes of executed transactions that wait to be written to the log.
    pub unwritten_bytes: u64,
    /// Sealed write buffers that wait to be flushed.
    pub sealed_buffers: u64,
    /// Work of flushes: write buffers moved into the stores.
    pub flush: BackgroundStats,
    /// Work of compactions of the stores' tables.
    pub compaction: BackgroundStats,
    /// Number of open feeds.
    pub feeds: u64,
    /// Lag of the slowest feed in revisions.
    pub feed_behind: u64,
    /// Cells that expired since the database was opened.
    pub expired_cells: u64,
    /// Figures about records and their indexes.
    pub records: RecordFigures,
    /// Figures about runs.
    pub runs: RunFigures,
    /// Figures about outboxes.
    pub outbox: OutboxFigures,
    /// Figures about keyed state.
    pub keyed: KeyedFigures,
    /// Figures about sessions.
    pub sessions: SessionFigures,
}

impl Stats {
    /// Statistics that hold only an error.
    pub fn unknown(error: &Error) -> Stats {
        Stats { last_failure: Some(error.to_string()), ..Stats::default() }
    }
}

/// Outcomes of one kind of write to keyed state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WroteFigures {
    /// Applied writes: their version was newer.
    pub applied: u64,
    /// Stale writes: their version was not newer, or the item already existed. They had no effect.
    pub stale: u64,
    /// Writes that wait until their version is sealed.
    pub waiting: u64,
    /// Merges that were rejected because the state they were computed from has changed.
    pub moved: u64,
}

/// Figures about keyed state on all branches. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedFigures {
    /// Size of its stores' tables in bytes.
    pub bytes: u64,
    /// Number of versions in its stores.
    pub versions: u64,
    /// Outcomes of puts.
    pub puts: WroteFigures,
    /// Outcomes of deletes.
    pub deletes: WroteFigures,
    /// Outcomes of appends to logs.
    pub items: WroteFigures,
    /// Outcomes of merges.
    pub merges: WroteFigures,
    /// Seals that reached the requested frontier.
    pub seals: u64,
    /// Waiting writes that were settled by seals.
    pub settled: u64,
    /// Snapshots that were begun.
    pub snapshots: u64,
    /// Spaces that were replaced by a snapshot.
    pub restores: u64,
    /// Entries written by restores, including those of abandoned pieces.
    pub restored_entries: u64,
    /// Spaces that were dropped.
    pub dropped: u64,
    /// Dropped or replaced generations of spaces whose data is completely removed.
    pub reaped: u64,
}

/// Figures about runs. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFigures {
    /// Events that were written by appends, restores or merges.
    pub appended: u64,
    /// Appends whose idempotency key the run already had.
    pub repeated: u64,
    /// Repeated appends whose content differed from the first one.
    pub conflicts: u64,
    /// Events that were not valid successors of the events before them.
    pub alerts: u64,
    /// Snapshots that were stored.
    pub kept: u64,
    /// Appends that found their run's fold in memory.
    pub folds_remembered: u64,
    /// Appends that had to recompute their run's fold.
    pub folds_anew: u64,
    /// Runs that were deleted.
    pub deleted: u64,
    /// Deleted runs whose data is completely removed.
    pub reaped: u64,
    /// Tails in this process that are waiting for an event.
    pub tails: u64,
}

/// Figures about sessions. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFigures {
    /// Sessions that are alive.
    pub live: u64,
    /// Stored responses.
    pub kept: u64,
    /// Size of the stored responses in bytes.
    pub kept_bytes: u64,
    /// Messages that clients have not acknowledged.
    pub pending: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that were closed.
    pub closed: u64,
    /// Sessions whose lease expired.
    pub expired: u64,
    /// Requests that were executed.
    pub executed: u64,
    /// Requests that were answered from a stored response.
    pub repeated: u64,
    /// Requests whose stored response was already evicted.
    pub evicted: u64,
    /// Messages that were sent to clients, not counting redeliveries.
    pub sent: u64,
    /// Messages that were dropped because the session did not exist.
    pub dropped: u64,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were handed out for redelivery.
    pub retried: u64,
}

/// Figures about outboxes on all branches. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxFigures {
    /// Messages that were written.
    pub put: u64,
    /// Messages that were claimed.
    pub claimed: u64,
    /// Messages that were acknowledged as delivered.
    pub acked: u64,
    /// Failed deliveries.
    pub failed: u64,
    /// Messages that became dead letters.
    pub buried: u64,
    /// Dead letters that were made to wait for delivery again.
    pub replayed: u64,
    /// The state of the outbox of `main`.
    pub main: OutboxState,
    /// How long the longest-waiting message of `main` is overdue, in microseconds; 0 if none is.
    pub overdue_us: u64,
}

/// Figures about records and their indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFigures {
    /// Size of the record stores' tables in bytes.
    pub bytes: u64,
    /// Number of versions in the record stores.
    pub versions: u64,
    /// Size of the index entry store's tables in bytes.
    pub index_bytes: u64,
    /// Number of entries in the index entry store, including dead ones that compaction has not removed yet.
    pub index_entries: u64,
    /// Ranges of dead entries that searches skip.
    pub dead_ranges: u64,
    /// Scans, counts and picks that an index served completely, since the database was opened.
    pub by_index: u64,
    /// Scans, counts and picks with filters that walked all records under their prefix.
    pub walked: u64,
    /// Scans, counts and picks without filters.
    pub listed: u64,
    /// Records that expired since the database was opened.
    pub expired: u64,
}

/// A snapshot of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Upper bound (inclusive) of each bucket. One more bucket without a bound follows.
    pub bounds: Cow<'static, [u64]>,
    /// Number of values in each bucket.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// Total number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of another histogram with the same bounds.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
        self.sum += other.sum;
    }
}

/// Metrics of one kind of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundStats {
    /// Completed runs.
    pub count: u64,
    /// Failed runs.
    pub failures: u64,
    /// Bytes processed by completed runs.
    pub bytes: u64,
    /// Total time in microseconds, failed runs included.
    pub us: u64,
    /// Runs in progress.
    pub running: u64,
}
