//! `INFO`: metrics of the server in the format of Redis, in sections of `name:value` lines.

use crate::memory::Kind;
use crate::process;
use crate::resp::Shared;
use crate::resp::connection_state::CommandContext;
use crate::resp::counters::CounterTotals;
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use mainstay::Stats;
use std::fmt::Display;
use std::sync::atomic::Ordering;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[Spec::new("info", -1, Group::Server, Handler::Immediate(info))
    .without_data()
    .syntax("[section ...]")
    .summarize("Figures about the server, as text; sections can be named")];

/// A section: its title, and its lines.
type Section = (&'static str, Vec<(String, String)>);

fn info(context: &mut CommandContext<'_>) -> Reply {
    let names = context.arguments().rest();
    let all = |name: &&[u8]| {
        [b"all".as_slice(), b"everything", b"default"]
            .iter()
            .any(|all| name.eq_ignore_ascii_case(all))
    };
    let every = names.is_empty() || names.iter().any(all);
    let wanted =
        |title: &str| every || names.iter().any(|name| name.eq_ignore_ascii_case(title.as_bytes()));
    let sections = sections(context.shared()).into_iter().filter(|(title, _)| wanted(title));
    let text: Vec<String> = sections.map(|section| section_text(&section)).collect();
    Reply::text(text.join("\r\n"))
}

fn section_text((title, lines): &Section) -> String {
    let lines: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    format!("# {title}\r\n{lines}")
}

fn line(name: &str, value: impl Display) -> (String, String) {
    (name.to_owned(), value.to_string())
}

fn sections(shared: &Shared) -> Vec<Section> {
    let stats = shared.db.stats();
    let totals = shared.metrics.totals();
    vec![
        ("Server", server(shared)),
        ("Clients", clients(shared)),
        ("Memory", memory(shared, &stats)),
        ("Persistence", persistence(&stats)),
        ("Stats", counts(shared, &totals, &stats)),
        ("Replication", vec![line("role", "master"), line("connected_slaves", 0)]),
        ("Commandstats", commands(&totals)),
        ("Errorstats", errors(&totals)),
        ("Security", security(shared)),
        ("Mainstay", database(&stats)),
        ("Runs", runs(&stats)),
        ("Outbox", outbox(&stats)),
        ("Keyed", keyed(&stats)),
        ("Sessions", sessions(&stats)),
    ]
}

fn server(shared: &Shared) -> Vec<(String, String)> {
    vec![
        line("redis_version", "7.0.0"),
        line("mainstay_version", env!("CARGO_PKG_VERSION")),
        line("redis_mode", "standalone"),
        line("os", std::env::consts::OS),
        line("process_id", std::process::id()),
        line("tcp_port", shared.port()),
        line("uptime_in_seconds", shared.uptime_secs()),
        line("uptime_in_days", shared.uptime_secs() / 86_400),
    ]
}

fn clients(shared: &Shared) -> Vec<(String, String)> {
    let metrics = &shared.metrics;
    let waiting = [&metrics.feed_readers, &metrics.tasks_waiting];
    let waiting: u64 = waiting.iter().map(|figure| figure.load(Ordering::Relaxed)).sum();
    vec![
        line("connected_clients", shared.client_count()),
        line("maxclients", shared.settings.connections),
        line("blocked_clients", waiting),
    ]
}

fn memory(shared: &Shared, stats: &Stats) -> Vec<(String, String)> {
    let resident = process::resident_bytes().unwrap_or_default();
    let budget = &shared.memory;
    let held_bytes = Kind::ALL
        .map(|kind| line(&format!("client_{}_bytes", kind.name()), budget.held_bytes(kind)));
    let mut lines = vec![
        line("used_memory_rss", resident),
        line("maxmemory", 0),
        line("cache_bytes", stats.cache_bytes),
        line("buffer_bytes", stats.buffer_bytes),
        line("index_pinned_bytes", stats.index_pinned_bytes),
        line("client_bytes", budget.total_held_bytes()),
        line("client_bytes_limit", budget.settings().total_bytes),
        line("client_reservations_refused", budget.refused()),
    ];
    lines.extend(held_bytes);
    lines
}

fn persistence(stats: &Stats) -> Vec<(String, String)> {
    let status = if stats.read_only { "err" } else { "ok" };
    vec![
        line("loading", 0),
        line("aof_enabled", 1),
        line("aof_last_write_status", status),
        line("log_bytes", stats.log_bytes),
        line("index_bytes", stats.index_bytes),
        line("syncs", stats.sync_us.count()),
        line("sync_microseconds", stats.sync_us.sum),
        line("flushes", stats.flush.count),
        line("compactions", stats.compaction.count),
    ]
}

fn counts(shared: &Shared, totals: &CounterTotals, stats: &Stats) -> Vec<(String, String)> {
    let metrics = &shared.metrics;
    vec![
        line("total_connections_received", metrics.accepted.load(Ordering::Relaxed)),
        line("rejected_connections", metrics.rejected.load(Ordering::Relaxed)),
        line(
            "client_output_buffer_limit_disconnections",
            metrics.slow_readers.load(Ordering::Relaxed),
        ),
        line("total_commands_processed", totals.command_count()),
        line("total_error_replies", totals.error_count()),
        line("total_net_input_bytes", totals.received_bytes),
        line("total_net_output_bytes", totals.sent_bytes),
        line("batches", totals.batches.count()),
        line("slowlog_entries", shared.slow_log.len()),
        line("expired_keys", stats.expired_cells + stats.records.expired),
        line("record_scans_by_index", stats.records.by_index),
        line("record_scans_walked", stats.records.walked),
        line("cache_hits", stats.cache_hits),
        line("cache_misses", stats.cache_misses),
        line("evicted_values", stats.cache_evictions),
    ]
}

fn commands(totals: &CounterTotals) -> Vec<(String, String)> {
    let called = totals.commands.iter();
    called.map(|(name, calls)| line(&format!("cmdstat_{name}"), format!("calls={calls}"))).collect()
}

fn errors(totals: &CounterTotals) -> Vec<(String, String)> {
    let kinds = totals.errors.iter();
    kinds
        .map(|(kind, count)| line(&format!("errorstat_{kind}"), format!("count={count}")))
        .collect()
}

fn security(shared: &Shared) -> Vec<(String, String)> {
    vec![
        line("password_verifications", shared.security.verifications()),
        line("login_failures", shared.security.login_failures()),
        line("login_waits", shared.security.login_waits()),
        line("audit_failures", shared.security.audit().failures()),
    ]
}

fn runs(stats: &Stats) -> Vec<(String, String)> {
    let runs = &stats.runs;
    vec![
        line("run_events", runs.appended),
        line("run_appends_repeated", runs.repeated),
        line("run_conflicts", runs.conflicts),
        line("run_alerts", runs.alerts),
        line("run_snapshots_kept", runs.kept),
        line("run_folds_remembered", runs.folds_remembered),
        line("run_folds_anew", runs.folds_anew),
        line("runs_deleted", runs.deleted),
        line("runs_reaped", runs.reaped),
        line("run_tails", runs.tails),
    ]
}

fn outbox(stats: &Stats) -> Vec<(String, String)> {
    let outbox = &stats.outbox;
    vec![
        line("outbox_put", outbox.put),
        line("outbox_claimed", outbox.claimed),
        line("outbox_acked", outbox.acked),
        line("outbox_failed", outbox.failed),
        line("outbox_buried", outbox.buried),
        line("outbox_replayed", outbox.replayed),
        line("outbox_pending", outbox.main.pending),
        line("outbox_dead", outbox.main.dead),
        line("outbox_overdue_microseconds", outbox.overdue_us),
    ]
}

fn keyed(stats: &Stats) -> Vec<(String, String)> {
    let keyed = &stats.keyed;
    vec![
        line("state_puts_applied", keyed.puts.applied),
        line("state_puts_stale", keyed.puts.stale),
        line("state_puts_waiting", keyed.puts.waiting),
        line("state_deletes_applied", keyed.deletes.applied),
        line("state_items_appended", keyed.items.applied),
        line("state_seals", keyed.seals),
        line("state_settled", keyed.settled),
        line("state_snapshots", keyed.snapshots),
        line("state_restores", keyed.restores),
        line("state_spaces_dropped", keyed.dropped),
    ]
}

fn sessions(stats: &Stats) -> Vec<(String, String)> {
    let sessions = &stats.sessions;
    vec![
        line("sessions", sessions.live),
        line("session_responses", sessions.kept),
        line("session_kept_bytes", sessions.kept_bytes),
        line("session_pending", sessions.pending),
        line("sessions_opened", sessions.opened),
        line("sessions_closed", sessions.closed),
        line("sessions_expired", sessions.expired),
        line("session_requests_executed", sessions.executed),
        line("session_requests_repeated", sessions.repeated),
        line("session_requests_evicted", sessions.evicted),
        line("session_sent", sessions.sent),
        line("session_dropped", sessions.dropped),
        line("session_acknowledged", sessions.acknowledged),
        line("session_retried", sessions.retried),
    ]
}

fn database(stats: &Stats) -> Vec<(String, String)> {
    vec![
        line("revision", stats.revision),
        line("durable_revision", stats.durable),
        line("flushed_revision", stats.flushed),
        line("floor_revision", stats.floor),
        line("log_first_revision", stats.log_first),
        line("in_flight", stats.in_flight),
        line("feeds", stats.feeds),
        line("feed_behind", stats.feed_behind),
        line("read_only", u8::from(stats.read_only)),
        line(
            "last_failure",
            stats.last_failure.as_deref().unwrap_or("none").replace(['\r', '\n'], " "),
        ),
    ]
}
