//! The memory that clients make the server hold is limited. A client that exceeds a limit gets the name of
//! the setting, and other clients are not affected.

mod support;

use mainstay::{Clock, Options, SystemClock};
use mainstay_server::memory;
use mainstay_server::resp::Settings;
use std::time::Duration;
use support::{Client, Ours, encode};

const MIB: usize = 1 << 20;

fn limits(total: usize, user: usize, connection: usize) -> memory::Settings {
    memory::Settings {
        total_bytes: total * MIB,
        per_user_bytes: user * MIB,
        per_connection_bytes: connection * MIB,
    }
}

fn roomy() -> memory::Settings {
    limits(64, 32, 16)
}

/// Returns a value of `INFO memory`.
#[track_caller]
fn figure(client: &mut Client, name: &str) -> usize {
    let info = client.line("INFO memory");
    let line = info.split(r"\r\n").find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {info}"))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !is_so() {
        assert!(clock.monotonic_us() < 60_000_000, "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn delete_of(names: usize) -> Vec<u8> {
    let names: Vec<String> = (0..names).map(|name| format!("n{name}")).collect();
    let words: Vec<&str> = std::iter::once("DEL").chain(names.iter().map(String::as_str)).collect();
    encode(&words)
}

/// Deleting a name takes two commands, which need a hundred times the memory of the name.
#[test]
fn names_that_are_queued_count_as_the_commands_that_they_become() {
    let ours = Ours::budgeted(Settings::default(), Options::new(), roomy());
    let mut greedy = ours.client();
    let mut honest = ours.client();
    assert_eq!(greedy.line("MULTI"), r"+OK\r\n");
    greedy.send_bytes(&delete_of(20_000));
    assert_eq!(greedy.receive(), r"+QUEUED\r\n");
    let queued = figure(&mut honest, "client_queued_bytes");
    assert!(queued > 2 * 20_000 * 48, "{queued} bytes for 40,000 commands");
    greedy.send_bytes(&delete_of(60_000));
    let refused = greedy.receive();
    assert!(
        refused.starts_with("-TOOLARGE a transaction has at most 100000 commands"),
        "{refused}"
    );
    assert!(greedy.line("EXEC").starts_with("-EXECABORT"));
    until("the queue to be free", || figure(&mut honest, "client_queued_bytes") == 0);
    greedy.send_bytes(&delete_of(200_000));
    assert!(greedy.receive().starts_with("-TOOLARGE"), "also where it is not queued");
    assert_eq!(honest.line("SET a 1"), r"+OK\r\n");
}

#[test]
fn what_is_queued_beyond_a_limit_is_let_go_and_exec_says_so() {
    let ours = Ours::budgeted(Settings::default(), Options::new(), limits(64, 32, 4));
    let mut greedy = ours.client();
    let mut honest = ours.client();
    greedy.line("MULTI");
    let value = "v".repeat(MIB);
    for _ in 0..8 {
        assert_eq!(greedy.call(&["SET", "a", &value]), r"+QUEUED\r\n");
    }
    let queued = figure(&mut honest, "client_queued_bytes");
    assert!(queued <= 4 * MIB, "{queued}");
    let refused = greedy.line("EXEC");
    assert!(
        refused.starts_with("-EXECABORT") && refused.contains("memory.per_connection_bytes"),
        "{refused}"
    );
    assert_eq!(greedy.line("GET a"), r"$-1\r\n", "it is served on");
}

/// Failed and repeated writes count as well.
#[test]
fn an_open_transaction_has_a_limit_and_the_others_go_on() {
    let ours = Ours::budgeted(Settings::default(), Options::new(), limits(64, 32, 4));
    let mut greedy = ours.client();
    let mut honest = ours.client();
    let value = "v".repeat(MIB);
    greedy.line("TXN.BEGIN");
    let refused = (0..16).map(|_| greedy.call(&["CELL.CAS", "absent", "7", &value]));
    let refused = refused.into_iter().find(|reply| reply.starts_with("-TOOLARGE"));
    let refused = refused.expect("it cannot grow for ever");
    assert!(refused.contains("memory.per_connection_bytes"), "{refused}");
    assert_eq!(figure(&mut honest, "client_transactions_bytes"), 0);
    assert!(greedy.line("TXN.COMMIT").starts_with("-TOOLARGE"), "nothing of it is written");
    assert_eq!(greedy.line("SET mine 1"), r"+OK\r\n");
    assert_eq!(honest.line("SET other 1"), r"+OK\r\n");
}

/// All connections of a user share the limit of the user.
#[test]
fn what_a_user_holds_on_all_connections_has_a_limit() {
    let ours = Ours::budgeted(Settings::default(), Options::new(), limits(64, 6, 6));
    let value = "v".repeat(20 << 10);
    let mut all: Vec<Client> = (0..3).map(|_| ours.client()).collect();
    let mut refused = String::new();
    for client in &mut all {
        client.line("TXN.BEGIN");
        for place in 0..64 {
            let told = client.call(&["SET", &format!("n{place}"), &value]);
            refused = if told.starts_with("-TOOLARGE") { told } else { refused };
        }
    }
    assert!(refused.contains("memory.per_user_bytes"), "{refused}");
    let held = figure(&mut ours.client(), "client_transactions_bytes");
    assert!((MIB..=6 * MIB).contains(&held), "{held} bytes");
}

/// An abandoned transaction is freed at its deadline, not when its client comes back.
#[test]
fn an_expired_transaction_holds_nothing() {
    let soon = Duration::from_millis(300);
    let options = Options::new().transaction_limits(soon, Duration::from_secs(60));
    let ours = Ours::budgeted(Settings::default(), options, roomy());
    let mut idle = ours.client();
    let mut honest = ours.client();
    idle.line("TXN.BEGIN");
    idle.call(&["SET", "a", &"v".repeat(MIB)]);
    until("the memory of the transaction", || {
        figure(&mut honest, "client_transactions_bytes") == 0
    });
    assert!(ours.db.pin_summaries().iter().all(|pin| pin.kind != "transaction"));
    let late = idle.line("SET b 1");
    assert!(late.contains("idle for too long"), "{late}");
    assert_eq!(idle.line("TXN.ROLLBACK"), r"+OK\r\n");
    assert_eq!(idle.line("SET b 1"), r"+OK\r\n");
}

/// Many short words take more memory than their bytes.
#[test]
fn the_words_of_a_request_that_is_not_whole_count() {
    let ours = Ours::budgeted(Settings::default(), Options::new(), roomy());
    let mut slow = ours.client();
    let mut honest = ours.client();
    let words = 40_000;
    slow.send_bytes(
        &[format!("*{}\r\n", words + 1).as_bytes(), &b"$0\r\n\r\n".repeat(words)].concat(),
    );
    until("its words", || figure(&mut honest, "client_requests_bytes") > words * (6 + 32));
}

#[test]
fn who_does_not_send_the_rest_of_a_request_is_told_so_and_closed() {
    let settings = Settings { request_limit_ms: 200, ..Settings::default() };
    let ours = Ours::budgeted(settings, Options::new(), roomy());
    let mut slow = ours.client();
    let mut honest = ours.client();
    slow.send_bytes(b"*2\r\n$3\r\nGET\r\n$1");
    let told = slow.receive();
    assert!(told.contains("resp.request_limit_ms"), "{told}");
    assert!(slow.is_closed());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        honest.line("PING"),
        r"+PONG\r\n",
        "an idle connection is not in the middle of anything"
    );
}

#[test]
fn who_does_not_read_is_cut_by_time() {
    let settings = Settings { write_limit_ms: 300, ..Settings::default() };
    let ours = Ours::budgeted(settings, Options::new(), limits(256, 256, 128));
    let mut deaf = ours.client();
    let mut honest = ours.client();
    honest.call(&["SET", "large", &"v".repeat(15 * MIB)]);
    // Too much for the socket buffers, but less than the limit of unsent output.
    deaf.send_bytes(&encode(&["MGET", "large", "large", "large"]));
    until("what it does not read", || figure(&mut honest, "client_replies_bytes") > MIB);
    until("the cut", || figure(&mut honest, "client_replies_bytes") == 0);
    assert_eq!(honest.line("PING"), r"+PONG\r\n");
}
