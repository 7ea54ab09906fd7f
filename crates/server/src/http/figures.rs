//! The metrics behind `/metrics`, one function per subsystem. `docs/metrics.md` lists them all.

use super::Http;
use super::exposition::{Amount, Figure};
use crate::crew::Crew;
use crate::jobs::Desk;
use crate::memory::{Kind, MemoryBudget};
use crate::process;
use crate::resp::Shared;
use crate::resp::table::GROUPS;
use crate::security::Security;
use mainstay::{
    BackgroundStats, IndexInfo, OutboxFigures, PinSummary, RecordFigures, Stats, WroteFigures,
};
use std::sync::atomic::{AtomicU64, Ordering};

const US: f64 = 1e6;

fn seconds(us: u64) -> f64 {
    us as f64 / US
}

/// Metrics of the database: revisions, sizes, stalls and the read-only state.
pub(crate) fn database(stats: &Stats) -> Vec<Figure> {
    let stall = "The longest time that a writer waited for room";
    let jump = "By how much the wall clock is ahead and not believed";
    let behind = |name, help| Figure::gauge(name, help);
    vec![
        Figure::gauge("revision", "The newest visible revision").is(stats.revision),
        Figure::gauge("durable_revision", "The newest revision on stable storage")
            .is(stats.durable),
        Figure::gauge("flushed_revision", "The index holds everything up to here")
            .is(stats.flushed),
        Figure::gauge("floor_revision", "The first revision that can be read").is(stats.floor),
        Figure::gauge("log_first_revision", "The first revision in the log").is(stats.log_first),
        behind(
            "durable_behind_revisions",
            "Revisions that are visible and not on stable storage yet",
        )
        .is(stats.revision.saturating_sub(stats.durable)),
        behind(
            "flushed_behind_revisions",
            "Revisions that would be replayed if it were opened again",
        )
        .is(stats.revision.saturating_sub(stats.flushed)),
        Figure::gauge("index_entries", "Versions in the stores").is(stats.index_entries),
        Figure::gauge("read_only", "1 when a failed sync keeps the database read-only")
            .is(stats.read_only),
        Figure::gauge("log", "The log's files").bytes().is(stats.log_bytes),
        Figure::gauge("index", "The stores' tables").bytes().is(stats.index_bytes),
        Figure::gauge("index_pinned", "Memory for the stores' filters and indexes")
            .bytes()
            .is(stats.index_pinned_bytes),
        Figure::gauge("cache", "Current values held in memory").bytes().is(stats.cache_bytes),
        Figure::gauge("buffer", "Versions that the stores do not hold yet")
            .bytes()
            .is(stats.buffer_bytes),
        Figure::gauge("longest_stall", stall).seconds().is(seconds(stats.longest_stall_us)),
        Figure::gauge("clock_jump", jump).seconds().is(seconds(stats.clock_jump_us.unwrap_or(0))),
    ]
}

/// Metrics of the write path: queue, group commit, fsync.
pub(crate) fn writes(stats: &Stats) -> Vec<Figure> {
    vec![
        Figure::gauge("transactions_in_flight", "Transactions submitted and not answered")
            .is(stats.in_flight),
        Figure::gauge("log_unwritten", "Executed and waiting for the log")
            .bytes()
            .is(stats.unwritten_bytes),
        Figure::gauge("sealed_buffers", "Write buffers that wait to be flushed")
            .is(stats.sealed_buffers),
        Figure::histogram("log_sync_duration", "How long syncs of the log took")
            .seconds()
            .sizes(stats.sync_us.clone(), US),
        Figure::histogram(
            "log_group_transactions",
            "Transactions that shared one write of the log",
        )
        .sizes(stats.group_transactions.clone(), 1.0),
        Figure::histogram("log_group", "The size of one write of the log")
            .bytes()
            .sizes(stats.group_bytes.clone(), 1.0),
    ]
}

/// Metrics of the index: cache hits, flush, compaction, feeds.
pub(crate) fn index(stats: &Stats) -> Vec<Figure> {
    let Stats { flush, compaction, .. } = stats;
    vec![
        Figure::counter(
            "cache_hits",
            "Reads that found their key in memory, counted in steps of 64",
        )
        .is(stats.cache_hits),
        Figure::counter("cache_misses", "Reads that had to look into a store")
            .is(stats.cache_misses),
        Figure::counter("cache_evictions", "Values that left memory to make room")
            .is(stats.cache_evictions),
        work("background_runs", "Flushes and compactions that were done", stats, |it| it.count),
        work("background_failures", "Flushes and compactions that failed", stats, |it| it.failures),
        work("background_written", "Bytes that flushes and compactions wrote", stats, |it| {
            it.bytes
        })
        .bytes(),
        Figure::counter("background", "Time that flushes and compactions took")
            .seconds()
            .of("work", "flush", seconds(flush.us))
            .of("work", "compaction", seconds(compaction.us)),
        Figure::gauge("background_running", "Flushes and compactions under way")
            .of("work", "flush", flush.running)
            .of("work", "compaction", compaction.running),
        Figure::gauge("feeds", "Places in the feed that are open").is(stats.feeds),
        Figure::gauge("feed_behind_revisions", "How far the slowest of them is behind")
            .is(stats.feed_behind),
    ]
}

/// Metrics of records, their secondary indexes, and expiry.
pub(crate) fn records(stats: &Stats, indexes: &[IndexInfo]) -> Vec<Figure> {
    let RecordFigures { bytes, versions, .. } = stats.records;
    let figures = &stats.records;
    vec![
        Figure::counter("expired", "Keys whose time was over, when that was written down")
            .of("contract", "cells", stats.expired_cells)
            .of("contract", "records", figures.expired),
        Figure::gauge("record", "The tables of the stores of records").bytes().is(bytes),
        Figure::gauge("record_versions", "Versions in the stores of records").is(versions),
        Figure::counter("record_scans", "Scans, counts and picks of records, by their way")
            .of("way", "index", figures.by_index)
            .of("way", "walk", figures.walked)
            .of("way", "list", figures.listed),
        Figure::gauge("record_index", "The tables of the entries of indexes over records")
            .bytes()
            .is(figures.index_bytes),
        Figure::gauge("record_index_entries", "Entries in these tables, dead ones included")
            .is(figures.index_entries),
        Figure::gauge("record_index_dead_ranges", "Stretches of dead entries that are left out")
            .is(figures.dead_ranges),
        by_index(
            "record_index_ready",
            "1 when an index serves, 0 while it is filled",
            indexes,
            |it| u64::from(it.ready.is_some()),
        ),
        by_index(
            "record_index_filled_records",
            "Records of before that were looked at to fill an index",
            indexes,
            |it| it.filled,
        ),
    ]
}

/// Metrics of runs: appends, snapshots, deletions.
pub(crate) fn runs(stats: &Stats) -> Vec<Figure> {
    let runs = &stats.runs;
    vec![
        Figure::counter("run_events", "Events that were written to runs").is(runs.appended),
        Figure::counter("run_appends_repeated", "Appends whose key the run had already")
            .is(runs.repeated),
        Figure::counter("run_conflicts", "Those that said something else than the first time")
            .is(runs.conflicts),
        Figure::counter("run_alerts", "Events that could not follow those before them")
            .is(runs.alerts),
        Figure::counter("run_snapshots_kept", "Snapshots of runs that were kept").is(runs.kept),
        Figure::counter("run_folds", "Appends by where they found what their run has come to")
            .of("way", "remembered", runs.folds_remembered)
            .of("way", "anew", runs.folds_anew),
        Figure::counter("runs_deleted", "Runs that were deleted").is(runs.deleted),
        Figure::counter("runs_reaped", "Deleted runs of which nothing is left").is(runs.reaped),
        Figure::gauge("run_tails", "Those who wait in the database for an event of a run")
            .is(runs.tails),
    ]
}

/// Metrics of keyed state: outcomes of writes, seals, snapshots, restores.
pub(crate) fn keyed(stats: &Stats) -> Vec<Figure> {
    let keyed = &stats.keyed;
    let wrote = |name, help, figures: &WroteFigures| {
        Figure::counter(name, help)
            .of("became", "applied", figures.applied)
            .of("became", "stale", figures.stale)
            .of("became", "waiting", figures.waiting)
    };
    vec![
        Figure::gauge("state", "The tables of the stores of keyed state").bytes().is(keyed.bytes),
        Figure::gauge("state_versions", "Versions in the stores of keyed state").is(keyed.versions),
        wrote("state_puts", "States that were put, by what became of them", &keyed.puts),
        wrote("state_deletes", "States that were deleted, by what became of it", &keyed.deletes),
        Figure::counter("state_items", "Items that were added to logs, by what became of them")
            .of("became", "applied", keyed.items.applied)
            .of("became", "stale", keyed.items.stale),
        Figure::counter("state_merges", "What functions have merged, by what became of it")
            .of("became", "applied", keyed.merges.applied)
            .of("became", "stale", keyed.merges.stale)
            .of("became", "moved", keyed.merges.moved),
        Figure::counter("state_seals", "Frontiers that are where they were asked to be")
            .is(keyed.seals),
        Figure::counter("state_settled", "Writes that had waited to be sealed").is(keyed.settled),
        Figure::counter("state_snapshots", "Snapshots of spaces that were begun")
            .is(keyed.snapshots),
        Figure::counter("state_restores", "Spaces that were replaced by a snapshot")
            .is(keyed.restores),
        Figure::counter("state_restored_entries", "Entries that restores have written")
            .is(keyed.restored_entries),
        Figure::counter("state_spaces_dropped", "Spaces that were dropped").is(keyed.dropped),
        Figure::counter(
            "state_spaces_reaped",
            "Generations of spaces, dropped or replaced, of which nothing is left",
        )
        .is(keyed.reaped),
    ]
}

/// Metrics of sessions: live sessions, stored responses, requests in both directions.
pub(crate) fn sessions(stats: &Stats) -> Vec<Figure> {
    let sessions = &stats.sessions;
    vec![
        Figure::gauge("sessions", "Sessions that live").is(sessions.live),
        Figure::gauge("session_responses", "Responses that are kept for requests sent again")
            .is(sessions.kept),
        Figure::gauge("session_kept", "What these responses take").bytes().is(sessions.kept_bytes),
        Figure::gauge("session_pending", "Requests to clients that are not acknowledged")
            .is(sessions.pending),
        Figure::counter("sessions_opened", "Sessions that were opened").is(sessions.opened),
        Figure::counter("sessions_ended", "Sessions that are gone, by how they ended")
            .of("how", "closed", sessions.closed)
            .of("how", "expired", sessions.expired),
        Figure::counter("session_requests", "Requests of clients, by what became of them")
            .of("became", "executed", sessions.executed)
            .of("became", "repeated", sessions.repeated)
            .of("became", "evicted", sessions.evicted),
        Figure::counter(
            "session_server_requests",
            "Requests to clients, by what was done with them",
        )
        .of("kind", "sent", sessions.sent)
        .of("kind", "dropped", sessions.dropped)
        .of("kind", "acknowledged", sessions.acknowledged)
        .of("kind", "retried", sessions.retried),
    ]
}

/// Metrics of the outbox: operations on messages, and the backlog.
pub(crate) fn outbox(stats: &Stats) -> Vec<Figure> {
    let OutboxFigures { main, overdue_us, .. } = stats.outbox;
    let done = Figure::counter("outbox_messages", "What was done with messages, by kind");
    let kinds = [
        ("put", stats.outbox.put),
        ("claimed", stats.outbox.claimed),
        ("acked", stats.outbox.acked),
        ("failed", stats.outbox.failed),
        ("buried", stats.outbox.buried),
        ("replayed", stats.outbox.replayed),
    ];
    vec![
        kinds.into_iter().fold(done, |all, (kind, count)| all.of("kind", kind, count)),
        Figure::gauge("outbox_pending", "Messages of main that wait or are under way")
            .is(main.pending),
        Figure::gauge("outbox_dead", "Messages of main that were given up").is(main.dead),
        Figure::gauge(
            "outbox_overdue",
            "How long the longest waiting one could be claimed already",
        )
        .seconds()
        .is(seconds(overdue_us)),
    ]
}

/// Metrics of the outbox relay and the run archive; all zero if the server runs neither.
pub(crate) fn crew(crew: Option<&Crew>) -> Vec<Figure> {
    let relayed = crew.map(Crew::relayed).unwrap_or_default();
    let archived = crew.map(Crew::archived).unwrap_or_default();
    let total = &archived.total;
    vec![
        Figure::counter("relay_messages", "What the server's own relay did with messages")
            .of("kind", "claimed", relayed.claimed)
            .of("kind", "delivered", relayed.delivered)
            .of("kind", "failed", relayed.failed)
            .of("kind", "dead", relayed.dead),
        Figure::counter("relay_errors", "How often the database refused the relay")
            .is(relayed.errors),
        Figure::counter("archive_rounds", "Rounds of the archive that are done")
            .is(archived.rounds),
        Figure::counter("archive_rounds_failed", "Those that failed as a whole")
            .is(archived.errors),
        Figure::counter("archive_runs", "Runs that were due, by what became of them")
            .of("became", "archived", total.archived)
            .of("became", "changed", total.changed)
            .of("became", "failed", total.failed),
        Figure::counter("archive_events", "Events of the runs that were archived").is(total.events),
        Figure::counter("archive_written", "What the files of these runs take")
            .bytes()
            .is(total.bytes),
    ]
}

fn by_index(
    name: &'static str,
    help: &'static str,
    indexes: &[IndexInfo],
    figure: fn(&IndexInfo) -> u64,
) -> Figure {
    indexes
        .iter()
        .fold(Figure::gauge(name, help), |all, it| all.of("index", &it.id.to_string(), figure(it)))
}

fn work(
    name: &'static str,
    help: &'static str,
    stats: &Stats,
    figure: fn(&BackgroundStats) -> u64,
) -> Figure {
    Figure::counter(name, help).of("work", "flush", figure(&stats.flush)).of(
        "work",
        "compaction",
        figure(&stats.compaction),
    )
}

/// Metrics of pins, by kind: they keep history from being discarded.
pub(crate) fn pins(pins: &[PinSummary]) -> Vec<Figure> {
    let by_kind = |figure: Figure, value: &dyn Fn(&PinSummary) -> Amount| {
        pins.iter().fold(figure, |figure, pin| figure.of("holder", &pin.kind, value(pin)))
    };
    let age = Figure::gauge("pin_oldest_age", "The age of the oldest revision held").seconds();
    let count = Figure::gauge("pins", "What holds history back");
    let behind =
        Figure::gauge("pin_behind_revisions", "How far the oldest revision held is behind");
    vec![
        by_kind(count, &|pin| pin.count.into()),
        by_kind(age, &|pin| seconds(pin.oldest_age_us).into()),
        by_kind(behind, &|pin| pin.revisions_behind.into()),
    ]
}

/// Metrics of the HTTP face: its bounded seats and queues.
pub(crate) fn http(app: &Http) -> Vec<Figure> {
    let taken = Figure::gauge("http_seats_taken", "Seats that are taken, by what they are for");
    let limit = Figure::gauge("http_seats_limit", "Seats that there are");
    let seats = app.seats();
    let add = |figure: Figure, value: fn(&(&str, usize, usize)) -> usize| {
        seats.iter().fold(figure, |figure, seat| figure.of("seats", seat.0, value(seat)))
    };
    let readers = seats.iter().find(|seat| seat.0 == "feed_readers").map_or(0, |seat| seat.1);
    vec![
        add(taken, |seat| seat.1),
        add(limit, |seat| seat.2),
        Figure::gauge("feed_readers", "Readers of the feed over HTTP").is(readers),
        Figure::gauge("http_writes_waiting", "Writes that wait for the thread that submits them")
            .is(app.writer().waiting()),
        Figure::gauge(
            "http_orders_under_way",
            "Orders to jobs and locks that are not answered, as claims that wait",
        )
        .is(app.clerk().under_way()),
        Figure::gauge("http_writes_waiting_limit", "How many may wait there")
            .is(app.settings().waiting_writes),
    ]
}

/// Metrics of the memory held on behalf of clients, by kind.
pub(crate) fn memory(budget: &MemoryBudget) -> Vec<Figure> {
    let held = Figure::gauge("client_memory", "Memory that clients make the server hold, by kind");
    let held = held.bytes();
    let by_kind = |all: Figure, kind: Kind| all.of("kind", kind.name(), budget.held_bytes(kind));
    vec![
        Kind::ALL.into_iter().fold(held, by_kind),
        Figure::gauge("client_memory_limit", "How much that may be in all")
            .bytes()
            .is(budget.settings().total_bytes),
        Figure::counter("client_memory_refused", "Requests for more of it that were refused")
            .is(budget.refused()),
    ]
}

/// Metrics of password verification.
pub(crate) fn security(security: &Security) -> Vec<Figure> {
    vec![
        Figure::counter("password_verifications", "Passwords that were verified, right or wrong")
            .is(security.verifications()),
        Figure::counter("login_failures", "Passwords that were wrong")
            .is(security.login_failures()),
        Figure::counter(
            "login_waits",
            "Attempts to log in that were refused because of wrong passwords before",
        )
        .is(security.login_waits()),
    ]
}

/// Metrics of the RESP face; all zero if it is not served.
pub(crate) fn resp(shared: Option<&Shared>) -> Vec<Figure> {
    let totals = shared.map(|shared| shared.metrics.totals()).unwrap_or_default();
    let read = |figure: fn(&Shared) -> &AtomicU64| {
        shared.map_or(0, |shared| figure(shared).load(Ordering::Relaxed))
    };
    let mut figures = vec![
        Figure::gauge("resp_connections", "Open connections")
            .is(shared.map_or(0, Shared::client_count)),
        Figure::gauge("resp_connections_limit", "How many there may be")
            .is(shared.map_or(0, |shared| shared.settings.connections)),
        Figure::counter("resp_connections_accepted", "Connections that were taken")
            .is(read(|shared| &shared.metrics.accepted)),
        Figure::counter("resp_connections_rejected", "Connections that were one too many")
            .is(read(|shared| &shared.metrics.rejected)),
        Figure::counter(
            "resp_slow_readers_cut",
            "Connections that were cut because they did not read",
        )
        .is(read(|shared| &shared.metrics.slow_readers)),
        Figure::counter("resp_received", "Bytes that came").bytes().is(totals.received_bytes),
        Figure::counter("resp_sent", "Bytes that left").bytes().is(totals.sent_bytes),
        Figure::gauge("resp_work_waiting", "Long work that waits for a worker")
            .is(read(|shared| &shared.metrics.work_waiting)),
        Figure::gauge("resp_work_running", "Long work that is being done")
            .is(read(|shared| &shared.metrics.work_running)),
        Figure::gauge(
            "resp_tasks_waiting",
            "Commands that wait for what others do, as JOB.CLAIM with WAIT",
        )
        .is(read(|shared| &shared.metrics.tasks_waiting)),
        Figure::gauge("resp_feed_readers", "Connections that wait for changes")
            .is(read(|shared| &shared.metrics.feed_readers)),
        Figure::counter("resp_slow_commands", "Entries that the slow log ever had")
            .is(shared.map_or(0, |shared| shared.slow_log.total())),
        Figure::histogram(
            "resp_batch_transactions",
            "Transactions that an event loop executed at once",
        )
        .sizes(totals.batches.clone(), 1.0),
    ];
    let commands = Figure::counter("resp_commands", "Commands by name");
    figures
        .push(totals.commands.iter().fold(commands, |all, (name, n)| all.of("command", name, *n)));
    let errors = Figure::counter("resp_errors", "Replies that were errors, by their first word");
    figures.push(totals.errors.iter().fold(errors, |all, (kind, n)| all.of("kind", kind, *n)));
    let took = Figure::histogram(
        "resp_command_duration",
        "Time from taking a command up to its reply, its batch's sync included; those that came together together",
    );
    let by_group = GROUPS.iter().zip(totals.durations_us).filter(|(_, took)| took.count() > 0);
    figures.push(
        by_group.fold(took.seconds(), |all, (group, took)| {
            all.sizes_of("group", group.name(), took, US)
        }),
    );
    figures
}

/// Metrics of jobs, locks and the sweeper.
pub(crate) fn jobs(desk: &Desk) -> Vec<Figure> {
    let figures = desk.figures();
    let swept = &figures.swept;
    let done = Figure::counter("job_operations", "What was done with jobs and locks, by kind");
    let kinds = [
        ("submitted", figures.submitted),
        ("claimed", figures.claimed),
        ("beat", figures.beats),
        ("completed", figures.completed),
        ("failed", figures.failed),
        ("failed_once", figures.failed_once),
        ("cancelled", figures.cancelled),
        ("retried", figures.retried),
        ("deleted", figures.deleted),
        ("fenced", figures.fenced),
        ("locked", figures.locked),
    ];
    let became = Figure::counter("job_swept", "Jobs that sweeps looked at, by what became of them");
    let became = [
        ("retried", swept.retried),
        ("failed", swept.failed),
        ("moved_on", swept.moved_on),
        ("unreadable", swept.unreadable),
    ]
    .into_iter()
    .fold(became, |all, (kind, count)| all.of("became", kind, count));
    vec![
        kinds.into_iter().fold(done, |all, (kind, count)| all.of("kind", kind, count)),
        Figure::counter("job_sweeps", "Sweeps for jobs whose workers are silent")
            .is(figures.sweeps),
        Figure::counter("job_sweeps_failed", "Sweeps of the server's own that failed")
            .is(desk.failed_sweeps()),
        became,
    ]
}

/// Metrics of the process, under the standard Prometheus names.
pub(crate) fn process(start_us: u64) -> Vec<Figure> {
    let optional = |figure: Figure, value: Option<u64>| match value {
        Some(value) => figure.is(value),
        None => figure,
    };
    let resident =
        Figure::gauge("process_resident_memory", "Memory that the process holds").bytes();
    let files = Figure::gauge("process_open_fds", "Files that the process has open");
    let limit = Figure::gauge("process_max_fds", "Files that it may have open");
    vec![
        optional(resident, process::resident_bytes()),
        optional(files, process::open_files()),
        optional(limit, process::open_files_limit()),
        Figure::gauge("process_start_time", "When the process started, since 1970")
            .seconds()
            .is(seconds(start_us)),
    ]
}
