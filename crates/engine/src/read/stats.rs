//! Statistics: collects the counters of all parts.

use crate::apply::runs::FoldCounts;
use crate::base::metrics::WriteCounters;
use crate::lifecycle::engine::Engine;
use crate::storage::index::Index;
use crate::storage::retention_class::RetentionClass;
use mainstay_model::{
    KeyedFigures, OutboxFigures, OutboxState, RecordFigures, RunFigures, SessionFigures, Stamp,
    Stats, WroteFigures,
};
use std::sync::atomic::Ordering;

/// Collects the statistics of a database.
pub fn stats(core: &Engine) -> Stats {
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
        records: record_figures(core),
        runs: run_figures(core, folds),
        outbox: outbox_figures(core, outbox, core.now()),
        keyed: keyed_figures(core),
        sessions: session_figures(core),
    }
}

fn write_figures(counts: &WriteCounters) -> WroteFigures {
    WroteFigures {
        applied: counts.applied.look(),
        stale: counts.stale.look(),
        waiting: counts.waiting.look(),
        moved: counts.moved.look(),
    }
}

fn keyed_figures(core: &Engine) -> KeyedFigures {
    let counts = &core.state.figures.keyed;
    let (bytes, versions) = sizes(core.index(), RetentionClass::is_of_keyed);
    KeyedFigures {
        bytes,
        versions,
        puts: write_figures(&counts.puts),
        deletes: write_figures(&counts.deletes),
        items: write_figures(&counts.items),
        merges: write_figures(&counts.merges),
        seals: counts.seals.look(),
        settled: counts.settled.look(),
        snapshots: counts.snapshots.load(Ordering::Relaxed),
        restores: counts.restores.look(),
        restored_entries: counts.restored_entries.look(),
        dropped: counts.dropped.look(),
        reaped: counts.reaped.look(),
    }
}

fn run_figures(core: &Engine, folds: FoldCounts) -> RunFigures {
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

fn session_figures(core: &Engine) -> SessionFigures {
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

fn outbox_figures(core: &Engine, main: OutboxState, now: Stamp) -> OutboxFigures {
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

fn record_figures(core: &Engine) -> RecordFigures {
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

/// Total bytes and versions of the stores of some retention classes.
fn sizes(index: &Index, wanted: fn(&RetentionClass) -> bool) -> (u64, u64) {
    let stores = index.classes.all().iter().zip(index.stores());
    let stores = stores.filter(|(class, _)| wanted(class)).map(|(_, store)| store);
    stores.fold((0, 0), |(bytes, versions), store| {
        (bytes + store.disk_bytes(), versions + store.entries())
    })
}
