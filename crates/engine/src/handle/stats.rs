//! Figures about a database as it stands.

use crate::apply::runs::FoldCounts;
use crate::base::metrics::{BackgroundStats, Histogram, WriteCounters};
use crate::lifecycle::engine::Engine;
use crate::storage::index::Index;
use crate::storage::retention_class::RetentionClass;
use mainstay_model::{Error, OutboxState, Revision, Stamp};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// Figures about a database as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The newest visible revision.
    pub revision: Revision,
    /// The newest revision on stable storage.
    pub durable: Revision,
    /// The index holds everything up to here; the log is replayed from here.
    pub flushed: Revision,
    /// The first revision that all data can be read at.
    pub floor: Revision,
    /// The first revision in the log: the feed can start behind it.
    pub log_first: Revision,
    /// The log's files.
    pub log_bytes: u64,
    /// The stores' tables.
    pub index_bytes: u64,
    /// The memory for the stores' filters and indexes, outside the block cache.
    pub index_pinned_bytes: u64,
    /// Versions in the stores.
    pub index_entries: u64,
    /// Current values held in memory beside the write buffers.
    pub cache_bytes: u64,
    /// Versions that the stores do not hold yet.
    pub buffer_bytes: u64,
    /// The longest time that a writer was kept waiting for room in the buffers.
    pub longest_stall_us: u64,
    /// By how much the wall clock is ahead, when it jumped and is not believed.
    pub clock_jump_us: Option<u64>,
    /// Whether a failed sync keeps the database read-only.
    pub read_only: bool,
    /// What went wrong last in the background.
    pub last_failure: Option<String>,
    /// How long syncs of the log took, in microseconds.
    pub sync_us: Histogram,
    /// Transactions that shared one write of the log.
    pub group_transactions: Histogram,
    /// Bytes of one write of the log.
    pub group_bytes: Histogram,
    /// Reads that found their key in memory; counted in steps of 64 by each thread.
    pub cache_hits: u64,
    /// Reads that had to look into a store.
    pub cache_misses: u64,
    /// Values that left memory to make room.
    pub cache_evictions: u64,
    /// Transactions that were submitted and are not answered.
    pub in_flight: u64,
    /// Bytes that were executed and wait for the log.
    pub unwritten_bytes: u64,
    /// Write buffers that wait to be flushed.
    pub sealed_buffers: u64,
    /// Moving write buffers into the stores.
    pub flush: BackgroundStats,
    /// Merging the stores' tables.
    pub compaction: BackgroundStats,
    /// Feeds that are open.
    pub feeds: u64,
    /// By how many revisions the slowest of them is behind.
    pub feed_behind: u64,
    /// Cells whose time was over, since the database was opened.
    pub expired_cells: u64,
    /// Records and the indexes over them.
    pub records: RecordFigures,
    /// Runs.
    pub runs: RunFigures,
    /// Outboxes.
    pub outbox: OutboxFigures,
    /// Keyed state.
    pub keyed: KeyedFigures,
    /// Sessions.
    pub sessions: SessionFigures,
}

/// What became of writes to spaces of one sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WroteFigures {
    /// They were newer.
    pub applied: u64,
    /// They were not, or there already: nothing happened.
    pub stale: u64,
    /// They wait until their version is sealed.
    pub waiting: u64,
    /// What they were merged with is another one.
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

/// Figures about keyed state; what is counted is counted since the database was opened, on all branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyedFigures {
    /// The tables of its stores.
    pub bytes: u64,
    /// Versions in its stores.
    pub versions: u64,
    /// States that were put.
    pub puts: WroteFigures,
    /// States that were deleted.
    pub deletes: WroteFigures,
    /// Items that were added to logs.
    pub items: WroteFigures,
    /// What functions have merged.
    pub merges: WroteFigures,
    /// Frontiers that are where they were asked to be.
    pub seals: u64,
    /// Writes that had waited for that.
    pub settled: u64,
    /// Snapshots that were begun.
    pub snapshots: u64,
    /// Spaces that were replaced by a snapshot.
    pub restores: u64,
    /// Entries that restores have written, those of pieces included that were given up.
    pub restored_entries: u64,
    /// Spaces that were dropped.
    pub dropped: u64,
    /// Generations of spaces, dropped or replaced, of which nothing is left.
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

/// Figures about runs; what is counted is counted since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunFigures {
    /// Events that were written: appended, restored, or brought by a merge.
    pub appended: u64,
    /// Appends whose key the run had already.
    pub repeated: u64,
    /// Those of them that said something else than the first time.
    pub conflicts: u64,
    /// Events that could not follow those before them.
    pub alerts: u64,
    /// Snapshots that were kept.
    pub kept: u64,
    /// Appends that found what their run has come to in memory.
    pub folds_remembered: u64,
    /// Appends that had to fold it anew.
    pub folds_anew: u64,
    /// Runs that were deleted.
    pub deleted: u64,
    /// Deleted runs of which nothing is left.
    pub reaped: u64,
    /// Those who wait for an event of a run in this process.
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

/// Figures about sessions; what is counted is counted since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionFigures {
    /// Sessions that live.
    pub live: u64,
    /// Responses that are kept for them.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// Requests of the server that their clients have not acknowledged.
    pub pending: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that were closed.
    pub closed: u64,
    /// Sessions whose leases were over.
    pub expired: u64,
    /// Requests that were executed.
    pub executed: u64,
    /// Requests that were answered from what is kept.
    pub repeated: u64,
    /// Requests whose responses were gone.
    pub evicted: u64,
    /// Requests of the server that were sent, for the first time.
    pub sent: u64,
    /// Those that were dropped because there was no such session.
    pub dropped: u64,
    /// Those that were acknowledged.
    pub acknowledged: u64,
    /// Those that were given out to be sent again.
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

/// Figures about outboxes; what is counted is counted since the database was opened, on all branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutboxFigures {
    /// Messages that were written.
    pub put: u64,
    /// Messages that were handed out.
    pub claimed: u64,
    /// Messages that were delivered.
    pub acked: u64,
    /// Deliveries that failed.
    pub failed: u64,
    /// Messages that were given up.
    pub buried: u64,
    /// Dead messages that were made to wait again.
    pub replayed: u64,
    /// How the outbox of `main` stands.
    pub main: OutboxState,
    /// By how much its longest waiting message is due; zero when none is.
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

/// Figures about records and the indexes over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordFigures {
    /// The tables of their stores.
    pub bytes: u64,
    /// Versions in their stores.
    pub versions: u64,
    /// The tables of the store of the indexes' entries.
    pub index_bytes: u64,
    /// Entries in that store, dead ones included until compaction comes by.
    pub index_entries: u64,
    /// Stretches of dead entries that searches remember to leave out.
    pub dead_ranges: u64,
    /// Scans, counts and picks that an index gave all candidates for, since the database was opened.
    pub by_index: u64,
    /// Those with filters that looked at all records under their prefix.
    pub walked: u64,
    /// Those without filters.
    pub listed: u64,
    /// Records whose time was over, since the database was opened.
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

/// The bytes and the versions of the stores of some classes.
fn sizes(index: &Index, wanted: fn(&RetentionClass) -> bool) -> (u64, u64) {
    let stores = index.classes.all().iter().zip(index.stores());
    let stores = stores.filter(|(class, _)| wanted(class)).map(|(_, store)| store);
    stores.fold((0, 0), |(bytes, versions), store| {
        (bytes + store.disk_bytes(), versions + store.entries())
    })
}

impl Stats {
    /// Nothing is known but why.
    pub(crate) fn unknown(error: &Error) -> Stats {
        Stats { last_failure: Some(error.to_string()), ..Stats::default() }
    }

    pub(crate) fn of(core: &Engine) -> Stats {
        let index = core.index();
        let (figures, sequencer) = (&core.state.figures, &core.sequencer);
        let (cache_hits, cache_misses) = index.current.hits.look();
        let (feeds, slowest) = core.feeds.count_and_slowest();
        // An outbox that cannot be read says so to whoever uses it.
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
