//! Statistics of a database.

use crate::apply::runs::FoldCounts;
use crate::base::metrics::{BackgroundStats, Histogram, WriteCounters};
use crate::lifecycle::engine::Engine;
use crate::storage::index::Index;
use crate::storage::retention_class::RetentionClass;
use mainstay_model::{Error, OutboxState, Revision, Stamp};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// Statistics of a database at one moment. Counters start at 0 when the database is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

/// Outcomes of one kind of write to keyed state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl WroteFigures {
    fn of(counts: &WriteCounters) -> WroteFigures {
        WroteFigures {
            applied: counts.applied.look(),
            stale: counts.stale.look(),
            waiting: counts.waiting.look(),
            moved: counts.moved.look(),
        }
    }
}

/// Figures about keyed state on all branches. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl KeyedFigures {
    fn of(core: &Engine) -> KeyedFigures {
        let counts = &core.state.figures.keyed;
        let (bytes, versions) = sizes(core.index(), RetentionClass::is_of_keyed);
        KeyedFigures {
            bytes,
            versions,
            puts: WroteFigures::of(&counts.puts),
            deletes: WroteFigures::of(&counts.deletes),
            items: WroteFigures::of(&counts.items),
            merges: WroteFigures::of(&counts.merges),
            seals: counts.seals.look(),
            settled: counts.settled.look(),
            snapshots: counts.snapshots.load(Ordering::Relaxed),
            restores: counts.restores.look(),
            restored_entries: counts.restored_entries.look(),
            dropped: counts.dropped.look(),
            reaped: counts.reaped.look(),
        }
    }
}

/// Figures about runs. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl RunFigures {
    fn of(core: &Engine, folds: FoldCounts) -> RunFigures {
        let counts = &core.state.figures.runs;
        RunFigures {
            appended: counts.appended.look(),
            repeated: counts.repeated.look(),
            conflicts: counts.conflicts.look(),
            alerts: counts.alerts.look(),
            kept: folds.kept,
            folds_remembered: folds.remembered,
            folds_anew: folds.anew,
            deleted: counts.deleted.look(),
            reaped: counts.reaped.look(),
            tails: counts.tails.load(Ordering::Relaxed),
        }
    }
}

/// Figures about sessions. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl SessionFigures {
    fn of(core: &Engine) -> SessionFigures {
        let counts = &core.state.figures.sessions;
        let table = core.state.sessions.lock();
        let (kept, kept_bytes, pending) = table.totals();
        SessionFigures {
            live: table.len() as u64,
            kept,
            kept_bytes,
            pending,
            opened: counts.opened.look(),
            closed: counts.closed.look(),
            expired: counts.expired.look(),
            executed: counts.executed.look(),
            repeated: counts.repeated.load(Ordering::Relaxed),
            evicted: counts.evicted.look(),
            sent: counts.sent.look(),
            dropped: counts.dropped.look(),
            acknowledged: counts.acknowledged.look(),
            retried: counts.retried.look(),
        }
    }
}

/// Figures about outboxes on all branches. Counters start at 0 when the database is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl OutboxFigures {
    fn of(core: &Engine, main: OutboxState, now: Stamp) -> OutboxFigures {
        let counts = &core.state.figures.outbox;
        OutboxFigures {
            put: counts.put.look(),
            claimed: counts.claimed.look(),
            acked: counts.acked.look(),
            failed: counts.failed.look(),
            buried: counts.buried.look(),
            replayed: counts.replayed.look(),
            main,
            overdue_us: main.oldest_due.map_or(0, |due| now.saturating_sub(due)),
        }
    }
}

/// Figures about records and their indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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

impl RecordFigures {
    fn of(core: &Engine) -> RecordFigures {
        let index = core.index();
        let [by_index, walked, listed] = index.searches.look();
        let (bytes, versions) = sizes(index, RetentionClass::is_of_records);
        let (index_bytes, index_entries) = sizes(index, RetentionClass::is_of_entries);
        RecordFigures {
            bytes,
            versions,
            index_bytes,
            index_entries,
            dead_ranges: index.graves.len() as u64,
            by_index,
            walked,
            listed,
            expired: core.state.figures.expired_records.look(),
        }
    }
}

/// Total bytes and versions of the stores of some retention classes.
fn sizes(index: &Index, wanted: fn(&RetentionClass) -> bool) -> (u64, u64) {
    let stores = index.classes.all().iter().zip(index.stores());
    let stores = stores.filter(|(class, _)| wanted(class)).map(|(_, store)| store);
    stores.fold((0, 0), |(bytes, versions), store| {
        (bytes + store.disk_bytes(), versions + store.entries())
    })
}

impl Stats {
    /// Statistics that hold only an error.
    pub(crate) fn unknown(error: &Error) -> Stats {
        Stats { last_failure: Some(error.to_string()), ..Stats::default() }
    }

    pub(crate) fn of(core: &Engine) -> Stats {
        let index = core.index();
        let figures = &core.state.figures;
        let sequencer = &core.sequencer;
        let (cache_hits, cache_misses) = index.current.hits.look();
        let (feeds, slowest) = core.feeds.count_and_slowest();
        // An unreadable outbox shows as empty here: its users get the error.
        let (jump_us, folds, outbox) = sequencer.with_exec(|exec| {
            (exec.stamper.jump_us(), exec.folds(), exec.outbox().unwrap_or_default())
        });
        Stats {
            revision: core.sequencer.published(),
            durable: core.sequencer.durable(),
            flushed: index.flushed(),
            floor: index.data_floor(),
            log_first: core.log.first_revision(),
            log_bytes: core.log.bytes(),
            index_bytes: index.stores().iter().map(|store| store.disk_bytes()).sum(),
            index_pinned_bytes: index.stores().iter().map(|store| store.pinned_bytes()).sum(),
            index_entries: index.stores().iter().map(|store| store.entries()).sum(),
            cache_bytes: index.current.clean_bytes() as u64,
            buffer_bytes: index.buffered_bytes() as u64,
            longest_stall_us: core.sequencer.longest_stall_us(),
            clock_jump_us: jump_us,
            read_only: core.sequencer.is_read_only(),
            last_failure: core.last_failure(),
            sync_us: figures.sync_us.look(),
            group_transactions: figures.group_transactions.look(),
            group_bytes: figures.group_bytes.look(),
            cache_hits,
            cache_misses,
            cache_evictions: index.current.evictions(),
            in_flight: sequencer.in_flight() as u64,
            unwritten_bytes: sequencer.unwritten_bytes() as u64,
            sealed_buffers: core.state.sealed.load(Ordering::Relaxed) as u64,
            flush: figures.flush.look(),
            compaction: figures.compaction.look(),
            feeds: feeds as u64,
            feed_behind: slowest.map_or(0, |slowest| sequencer.durable().saturating_sub(slowest)),
            expired_cells: figures.expired_cells.look(),
            records: RecordFigures::of(core),
            runs: RunFigures::of(core, folds),
            outbox: OutboxFigures::of(core, outbox, core.now()),
            keyed: KeyedFigures::of(core),
            sessions: SessionFigures::of(core),
        }
    }
}
