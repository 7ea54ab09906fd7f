use crate::seam::FaultyFiles;
use crate::world::World;
use mainstay::{Clock, Options, SystemClock};
use mainstay_server::resp::Settings;
use serde_json::Value;

const NEVER_US: u64 = u64::MAX;

fn world(slow_log_us: u64) -> World {
    World::new(Settings { slow_log_us, ..Settings::default() })
}

#[test]
fn a_write_is_as_slow_as_the_sync_of_its_batch() {
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().files(files).memory().unwrap();
    let w = World::of(db, Settings { slow_log_us: 200_000, ..Settings::default() });
    let mut client = w.client();
    client.line("CLIENT SETNAME tester");
    let came = faults.syncs.came();
    faults.syncs.hold();
    client.send(&["SET", "user:1", "value"]);
    faults.syncs.wait_for_more_than(came);
    let clock = SystemClock::new();
    while clock.monotonic_us() < 250_000 {
        std::thread::yield_now();
    }
    faults.syncs.let_go();
    client.receive();
    let slow: Value = serde_json::from_str(&w.get("/v1/slowlog")).unwrap();
    let entry = &slow["slow"][0];
    assert_eq!(entry["command"][0], "set", "{slow}");
    assert_eq!(entry["command"][1], "user:1");
    assert!(entry["took_us"].as_u64().unwrap() >= 200_000, "{slow}");
    assert_eq!(entry["client_name"], "tester");
    assert!(entry["client"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(!slow.to_string().contains("value"), "{slow}");
}

#[test]
fn the_log_answers_as_redis_does() {
    let w = world(1);
    let mut client = w.client();
    client.line("GET some-key");
    let reply = client.line("SLOWLOG GET 1");
    // The newest first: id, seconds, microseconds, words, address, name.
    assert!(reply.starts_with(r"*1\r\n*6\r\n:"), "{reply}");
    assert!(reply.contains(r"*2\r\n$3\r\nget\r\n$8\r\nsome-key\r\n"), "{reply}");
    assert!(reply.contains(r"127.0.0.1:"), "{reply}");
    assert!(reply.ends_with(r"\r\n$0\r\n\r\n"), "{reply}");
    assert_ne!(client.line("SLOWLOG LEN"), r":0\r\n");
    assert_eq!(client.line("SLOWLOG RESET"), r"+OK\r\n");
    assert!(!client.line("SLOWLOG GET -1").contains("some-key"));
    assert!(client.line("SLOWLOG GET -2").starts_with("-ERR"));
    assert!(client.line("SLOWLOG WHAT").starts_with("-ERR"));
}

#[test]
fn quick_commands_are_not_listed_and_zero_is_off() {
    for threshold_us in [NEVER_US, 0] {
        let w = world(threshold_us);
        let mut client = w.client();
        client.line("SET a 1");
        client.line("KEYS *");
        assert_eq!(client.line("SLOWLOG LEN"), r":0\r\n");
        assert_eq!(w.metric("mainstay_resp_slow_commands_total"), 0.0);
    }
}

#[test]
fn long_work_is_listed_with_its_words() {
    let w = world(1);
    let mut client = w.client();
    client.line("KEYS user:*");
    assert!(client.line("SLOWLOG GET -1").contains(r"$4\r\nkeys\r\n$6\r\nuser:*"));
}

#[test]
fn passwords_and_values_are_not_in_it() {
    let w = world(1);
    let mut client = w.client();
    client.line("AUTH hunter2");
    client.line("HELLO 3 AUTH someone hunter2");
    client.line("SET a hunter2");
    client.line("CELL.SET a hunter2");
    client.line("hunter2 hunter2");
    let slow = w.get("/v1/slowlog");
    assert!(slow.contains("cell.set") && slow.contains("auth"), "{slow}");
    assert!(!slow.contains("hunter2"), "{slow}");
}

#[test]
fn only_so_many_are_kept() {
    let w = World::new(Settings { slow_log_us: 1, slow_log_length: 2, ..Settings::default() });
    let mut client = w.client();
    (0..5).for_each(|i| drop(client.line(&format!("GET key{i}"))));
    assert_eq!(client.line("SLOWLOG LEN"), r":2\r\n");
    assert!(client.line("CONFIG GET slowlog-*").contains("slowlog-max-len"));
}
