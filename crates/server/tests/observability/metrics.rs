use crate::support::encode;
use crate::world::World;
use mainstay::{
    At, CellCommand, Clock, Filter, KeyedState, ManualClock, Name, NewEvent, Options,
    SessionOptions, SpaceOptions, SystemClock, Transaction,
};
use mainstay_server::resp::Settings;
use std::time::Duration;

/// Time limit that only detects hangs.
const HANG_US: u64 = 60_000_000;

fn world() -> World {
    World::new(Settings::default())
}

/// Waits until a metric satisfies a condition, because loops count at the end of a turn.
fn until(world: &World, name: &str, is_so: impl Fn(f64) -> bool) {
    let clock = SystemClock::new();
    while !is_so(world.metric(name)) {
        assert!(clock.monotonic_us() < HANG_US, "still waiting for {name}");
        std::thread::yield_now();
    }
}

#[test]
fn commands_errors_and_bytes_of_redis_clients_are_counted() {
    let w = world();
    let mut client = w.client();
    let mut bytes = 0;
    for line in ["SET a text", "GET a", "get a", "INCR a", "NOSUCH a"] {
        bytes += encode(&line.split(' ').collect::<Vec<_>>()).len();
        client.line(line);
    }
    let get = r#"mainstay_resp_commands_total{command="get"}"#;
    assert_eq!(w.metric(get), 2.0);
    assert_eq!(w.metric(r#"mainstay_resp_commands_total{command="set"}"#), 1.0);
    assert_eq!(w.metric(r#"mainstay_resp_errors_total{kind="ERR"}"#), 2.0);
    assert_eq!(w.metric("mainstay_resp_received_bytes_total"), bytes as f64);
    assert!(w.metric("mainstay_resp_sent_bytes_total") > 20.0);
    assert_eq!(w.metric("mainstay_resp_connections"), 1.0);
    assert_eq!(w.metric("mainstay_resp_connections_accepted_total"), 1.0);
}

#[test]
fn a_read_and_a_write_of_one_pipeline_are_timed_each_in_its_group() {
    let w = world();
    let mut client = w.client();
    let mut bytes = encode(&["CELL.GET", "a"]);
    bytes.extend((0..10).flat_map(|_| encode(&["SET", "a", "1"])));
    client.send_bytes(&bytes);
    (0..11).for_each(|_| drop(client.receive()));
    let cells = r#"mainstay_resp_command_duration_seconds_count{group="cells"}"#;
    let strings = r#"mainstay_resp_command_duration_seconds_count{group="strings"}"#;
    assert_eq!((w.metric(cells), w.metric(strings)), (1.0, 10.0));
    let strings = r#"mainstay_resp_command_duration_seconds_sum{group="strings"}"#;
    let syncs = w.metric("mainstay_log_sync_duration_seconds_sum");
    assert!(w.metric(strings) >= syncs, "the sync is part of it");
    let transactions = w.metric("mainstay_resp_batch_transactions_sum");
    assert_eq!(transactions, 10.0);
}

#[test]
fn long_work_is_timed_by_its_worker() {
    let w = world();
    w.client().line("KEYS *");
    let keys = r#"mainstay_resp_command_duration_seconds_count{group="keys"}"#;
    assert_eq!(w.metric(keys), 1.0);
    assert_eq!(w.metric("mainstay_resp_work_waiting"), 0.0);
    until(&w, "mainstay_resp_work_running", |running| running == 0.0);
}

#[test]
fn connections_that_are_one_too_many_are_counted() {
    let w = World::new(Settings { connections: 1, ..Settings::default() });
    let mut first = w.client();
    first.line("PING");
    assert!(w.client().receive().starts_with("-ERR max number of clients"));
    assert_eq!(w.metric("mainstay_resp_connections_rejected_total"), 1.0);
}

#[test]
fn a_reader_that_is_cut_is_counted() {
    let w = World::new(Settings { output_bytes: 1 << 20, ..Settings::default() });
    let mut client = w.client();
    client.call(&["SET", "a", &"x".repeat(8 << 20)]);
    let gets: Vec<u8> = (0..8).flat_map(|_| encode(&["GET", "a"])).collect();
    client.send_bytes(&gets);
    until(&w, "mainstay_resp_slow_readers_cut_total", |cut| cut == 1.0);
}

#[test]
fn syncs_groups_flushes_and_the_cache_are_shown() {
    let w = world();
    for i in 0..5 {
        w.db.cells().set("a", i).unwrap();
    }
    assert_eq!(w.metric("mainstay_log_sync_duration_seconds_count"), 5.0);
    assert_eq!(w.metric("mainstay_log_group_transactions_sum"), 5.0);
    assert_eq!(w.metric(r#"mainstay_log_group_transactions_bucket{le="1.0"}"#), 5.0);
    assert!(w.metric("mainstay_log_group_bytes_sum") > 100.0);
    assert_eq!(w.metric("mainstay_flushed_behind_revisions"), 5.0);
    w.db.trim().unwrap();
    assert_eq!(w.metric(r#"mainstay_background_runs_total{work="flush"}"#), 1.0);
    assert!(w.metric(r#"mainstay_background_written_bytes_total{work="flush"}"#) > 100.0);
    assert_eq!(w.metric(r#"mainstay_background_running{work="flush"}"#), 0.0);
    assert_eq!(w.metric("mainstay_flushed_behind_revisions"), 0.0);
    let before = w.metric("mainstay_cache_hits_total");
    for _ in 0..640 {
        w.db.cells().get("a").unwrap();
    }
    assert!(w.metric("mainstay_cache_hits_total") - before >= 640.0);
}

#[test]
fn records_their_indexes_and_what_expires_are_shown() {
    let w = world();
    let mut client = w.client();
    let scans = |way: &str| w.metric(&format!("mainstay_record_scans_total{{way=\"{way}\"}}"));
    for line in
        ["HSET j:1 state a", "HSET j:2 state b", "REC.COUNT j:", "REC.COUNT j: WHERE state = a"]
    {
        client.line(line);
    }
    assert_eq!((scans("list"), scans("walk"), scans("index")), (1.0, 1.0, 0.0));
    assert_eq!(client.line("REC.INDEX ADD j: state"), r":1\r\n");
    until(&w, r#"mainstay_record_index_ready{index="1"}"#, |ready| ready == 1.0);
    assert_eq!(w.metric(r#"mainstay_record_index_filled_records{index="1"}"#), 2.0);
    // Metrics may be ahead of the visible state. A request that is answered after this write sees the
    // write.
    client.line("SET behind 1");
    client.line("REC.COUNT j: WHERE state = a");
    client.line("REC.SCAN j: WHERE other = a");
    assert_eq!((scans("list"), scans("walk"), scans("index")), (1.0, 2.0, 1.0));
    w.db.trim().unwrap();
    assert_eq!(w.metric("mainstay_record_index_entries"), 2.0);
    assert_eq!(w.metric("mainstay_record_versions"), 2.0);
    assert!(
        w.metric("mainstay_record_bytes") > 0.0 && w.metric("mainstay_record_index_bytes") > 0.0
    );
}

#[test]
fn what_expired_is_counted_once_by_whoever_finds_it() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    let mut client = w.client();
    let expired = |kind: &str| w.metric(&format!("mainstay_expired_total{{contract=\"{kind}\"}}"));
    for line in ["SET a 1 PX 1", "HSET r f 1", "PEXPIRE r 1", "HSET s f 1", "PEXPIRE s 1"] {
        client.line(line);
    }
    clock.advance(Duration::from_millis(5));
    client.line("HSET s f 2");
    assert_eq!((expired("cells"), expired("records")), (0.0, 1.0), "a write found one");
    w.db.sweep().unwrap();
    assert_eq!((expired("cells"), expired("records")), (1.0, 2.0));
    assert!(client.line("INFO stats").contains(r"expired_keys:3\r\n"));
}

#[test]
fn runs_and_the_outbox_are_shown() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    let runs = w.db.runs();
    let outbox = w.db.outbox();
    let started = NewEvent::new("r", "RunStarted").plan("1");
    runs.append(started.clone()).unwrap();
    runs.append(started.clone()).unwrap();
    runs.append(started.data("another")).unwrap();
    runs.append(NewEvent::new("r", "RunApproved").plan("1")).unwrap();
    assert_eq!(w.metric("mainstay_run_events_total"), 2.0);
    assert_eq!(w.metric("mainstay_run_appends_repeated_total"), 2.0);
    assert_eq!(w.metric("mainstay_run_conflicts_total"), 1.0);
    assert_eq!(w.metric("mainstay_run_alerts_total"), 1.0);
    assert_eq!(w.metric(r#"mainstay_run_folds_total{way="remembered"}"#), 1.0);
    let hour = Duration::from_secs(3600);
    for subject in ["a", "b", "c"] {
        outbox.put(subject, "p", None).unwrap();
    }
    clock.advance(Duration::from_secs(2));
    assert!(w.metric("mainstay_outbox_overdue_seconds") > 1.9, "stamps are a little ahead");
    assert_eq!(outbox.claim(3, hour).unwrap().len(), 3);
    assert_eq!(w.metric("mainstay_outbox_overdue_seconds"), 0.0);
    outbox.ack(&[1]).unwrap();
    outbox.fail(2, "no", Duration::ZERO, 1).unwrap();
    outbox.fail(3, "no", hour, 9).unwrap();
    let done = |kind: &str| w.metric(&format!("mainstay_outbox_messages_total{{kind=\"{kind}\"}}"));
    let kinds = ["put", "claimed", "acked", "failed", "buried", "replayed"];
    assert_eq!(kinds.map(done), [3.0, 3.0, 1.0, 2.0, 1.0, 0.0]);
    let state = || (w.metric("mainstay_outbox_pending"), w.metric("mainstay_outbox_dead"));
    assert_eq!(state(), (1.0, 1.0));
    outbox.replay(2).unwrap();
    assert_eq!((state(), done("replayed")), ((2.0, 0.0), 1.0));
    let mut client = w.client();
    assert!(client.line("INFO outbox").contains(r"outbox_pending:2\r\n"));
    assert!(client.line("INFO runs").contains(r"run_events:2\r\n"));
}

#[test]
fn keyed_state_is_shown() {
    let w = world();
    let plain = w.db.keyed("plain").unwrap();
    let ordered = w.db.keyed("ordered").unwrap();
    plain.put("a", "1", 2).unwrap();
    plain.put("a", "1", 2).unwrap();
    plain.delete("a", 3).unwrap();
    plain.append_unique("a", "1", "item").unwrap();
    plain.append_unique("a", "1", "item").unwrap();
    ordered.declare(SpaceOptions::default().ordered()).unwrap();
    ordered.put("a", "1", 1).unwrap();
    ordered.seal(2).unwrap();
    let became = |name: &str, became: &str| {
        w.metric(&format!("mainstay_state_{name}_total{{became=\"{became}\"}}"))
    };
    let puts = ["applied", "stale", "waiting"].map(|kind| became("puts", kind));
    assert_eq!(puts, [1.0, 1.0, 1.0]);
    assert_eq!((became("deletes", "applied"), became("deletes", "stale")), (1.0, 0.0));
    assert_eq!((became("items", "applied"), became("items", "stale")), (1.0, 1.0));
    let bytes = plain.snapshot().unwrap();
    plain.restore(&bytes).unwrap();
    ordered.clear().unwrap();
    let counted =
        ["seals", "settled", "snapshots", "restores", "restored_entries", "spaces_dropped"];
    let counted = counted.map(|name| w.metric(&format!("mainstay_state_{name}_total")));
    assert_eq!(counted, [1.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
    w.db.reap().unwrap();
    assert_eq!(w.metric("mainstay_state_spaces_reaped_total"), 2.0);
    assert_eq!(w.metric("mainstay_runs_reaped_total"), 0.0);
    assert!(w.client().line("INFO keyed").contains(r"state_puts_applied:1\r\n"));
}

#[test]
fn sessions_are_shown() {
    let w = world();
    let sessions = w.db.sessions();
    let open = |name: &str| sessions.open(SessionOptions::new().name(name)).unwrap();
    let session = open("s");
    let _ = open("t");
    let add = || {
        let name = Name::new("n").unwrap();
        Transaction::new().step(CellCommand::Incr { name, by: 1.into() })
    };
    session.execute(1, 1, add()).unwrap();
    session.execute(2, 2, add()).unwrap();
    session.execute(2, 2, add()).unwrap();
    session.execute(1, 1, add()).unwrap_err();
    for (to, payload) in [("s", "a"), ("s", "b"), ("nobody", "c")] {
        sessions.send(to, payload).unwrap();
    }
    session.acknowledge(1).unwrap();
    sessions.requests_for_retry(u64::MAX, 10).unwrap();
    sessions.close("t").unwrap();
    let gauges = ["mainstay_sessions", "mainstay_session_responses", "mainstay_session_pending"];
    assert_eq!(gauges.map(|name| w.metric(name)), [1.0, 1.0, 1.0]);
    assert!(w.metric("mainstay_session_kept_bytes") > 0.0);
    assert_eq!(w.metric("mainstay_sessions_opened_total"), 2.0);
    let ended = |how| w.metric(&format!("mainstay_sessions_ended_total{{how=\"{how}\"}}"));
    assert_eq!((ended("closed"), ended("expired")), (1.0, 0.0));
    let became =
        |became| w.metric(&format!("mainstay_session_requests_total{{became=\"{became}\"}}"));
    assert_eq!(["executed", "repeated", "evicted"].map(became), [2.0, 1.0, 1.0]);
    let done =
        |kind| w.metric(&format!("mainstay_session_server_requests_total{{kind=\"{kind}\"}}"));
    assert_eq!(["sent", "dropped", "acknowledged", "retried"].map(done), [2.0, 1.0, 1.0, 1.0]);
    let info = w.client().line("INFO sessions");
    assert!(info.contains(r"# Sessions\r\nsessions:1\r\n"), "{info}");
    assert!(info.contains(r"session_requests_repeated:1\r\n"), "{info}");
}

#[test]
fn feeds_and_pins_say_what_they_hold() {
    let w = world();
    let feed = w.db.watch(Filter::default(), 0).unwrap();
    for i in 0..3 {
        w.db.cells().set("a", i).unwrap();
    }
    w.db.fork("side", "main", At::Revision(1)).unwrap();
    assert_eq!(w.metric("mainstay_feeds"), 1.0);
    assert_eq!(w.metric("mainstay_feed_behind_revisions"), 4.0);
    assert_eq!(w.metric(r#"mainstay_pins{holder="branch"}"#), 1.0);
    assert_eq!(w.metric(r#"mainstay_pin_behind_revisions{holder="branch"}"#), 3.0);
    assert!(w.metric(r#"mainstay_pin_oldest_age_seconds{holder="branch"}"#) > 0.0);
    drop(feed);
    assert_eq!(w.metric("mainstay_feeds"), 0.0);
}

#[test]
fn those_who_wait_for_changes_are_seen() {
    let w = world();
    let mut client = w.client();
    client.send(&["FEED.READ", "AFTER", "0", "WAIT", "60000"]);
    until(&w, "mainstay_resp_feed_readers", |readers| readers == 1.0);
    w.db.cells().set("a", 1).unwrap();
    assert!(client.receive().contains('a'));
}

#[test]
fn the_process_is_shown_under_the_usual_names() {
    let w = world();
    assert!(w.metric("process_resident_memory_bytes") > 1e6);
    assert!(w.metric("process_open_fds") > 3.0);
    assert!(w.metric("process_start_time_seconds") > 1.6e9);
    assert_eq!(w.metric(r#"mainstay_http_seats_taken{seats="looks"}"#), 0.0);
    assert_eq!(w.metric("mainstay_http_writes_waiting"), 0.0);
    assert_eq!(w.metric("mainstay_transactions_in_flight"), 0.0);
}

#[test]
fn info_has_redis_sections_and_gives_those_asked_for() {
    let w = world();
    let mut client = w.client();
    client.line("SET a 1");
    let all = client.line("INFO");
    for part in ["# Server", "# Clients", "# Memory", "# Stats", "# Commandstats", "# Mainstay"] {
        assert!(all.contains(part), "{part} in {all}");
    }
    for line in [r"cmdstat_set:calls=1\r\n", r"total_connections_received:1\r\n", r"revision:1\r\n"]
    {
        assert!(all.contains(line), "{line} in {all}");
    }
    let two = client.line("INFO clients STATS");
    assert!(two.contains("# Clients") && two.contains("# Stats") && !two.contains("# Server"));
    assert_eq!(client.line("INFO nosuch"), r"$0\r\n\r\n");
}
