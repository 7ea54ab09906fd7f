//! The memory for unread answers is limited, in total, per user and per connection.

use crate::world::{World, until};
use mainstay_server::http::Settings;
use mainstay_server::memory;
use std::io::{Read, Write};
use std::net::TcpStream;

const MIB: usize = 1 << 20;

fn limits(total: usize, user: usize, connection: usize) -> memory::Settings {
    memory::Settings {
        total_bytes: total * MIB,
        per_user_bytes: user * MIB,
        per_connection_bytes: connection * MIB,
    }
}

/// The metric of client memory of one kind.
#[track_caller]
fn held(w: &World, kind: &str) -> usize {
    let page = w.get("/metrics").text;
    let name = format!("client_memory_bytes{{kind=\"{kind}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix("mainstay_")?.strip_prefix(&name));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {page}"))
}

/// Sends a request and reads only the status line.
fn ask(w: &World, path: &str) -> (TcpStream, String) {
    let mut stream = w.connect();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (stream, String::from_utf8_lossy(&status).into_owned())
}

#[test]
fn answers_that_nobody_reads_are_refused_beyond_a_limit() {
    // The write timeout never expires in this test.
    let settings =
        Settings { write_limit_ms: 3_600_000, drain_limit_ms: 100, ..Settings::default() };
    let w = World::budgeted(settings, limits(64, 40, 40));
    // Larger than the buffers of two sockets.
    w.db.cells().set("large", "x".repeat(14 * MIB)).unwrap();
    w.db.cells().set("small", 1).unwrap();
    let asked: Vec<_> = (0..4).map(|_| ask(&w, "/v1/cells/large")).collect();
    let given = asked.iter().filter(|(_, status)| status.ends_with("200")).count();
    assert!((1..=2).contains(&given), "{given} were given");
    let bytes = held(&w, "answers");
    assert!((14 * MIB..=40 * MIB).contains(&bytes), "{bytes}");
    let (mut refused, _) = asked.into_iter().find(|(_, status)| status.ends_with("503")).unwrap();
    let mut told = [0; 1024];
    let read = refused.read(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told[..read]);
    assert!(told.contains("memory.per_user_bytes"), "{told}");
    w.get("/v1/cells/small").ok();
    drop(refused);
    until("what was held", || held(&w, "answers") == 0);
    assert!(ask(&w, "/v1/cells/large").1.ends_with("200"));
}

#[test]
fn readers_of_the_feed_that_do_not_read_hold_little() {
    let settings = Settings { feed_buffer_bytes: 64 << 10, ..Settings::default() };
    let w = World::budgeted(settings, limits(64, 6, 6));
    let readers: Vec<_> = (0..8).map(|_| ask(&w, "/v1/feed?after=0")).collect();
    assert!(readers.iter().all(|(_, status)| status.ends_with("200")));
    // Bytes move from one metric to the other between the two reads, so their sum may count some twice. Each
    // metric respects the limit at any time; the sum respects it once nothing moves.
    let both = || [held(&w, "feeds"), held(&w, "streams")];
    for i in 0..60 {
        w.db.cells().set("a", format!("{i}{}", "x".repeat(900 << 10))).unwrap();
        let held = both();
        assert!(held.iter().all(|bytes| *bytes <= 6 * MIB), "{held:?}");
    }
    let mut held_before = both();
    until("a moment at which nothing moves", || {
        let before = std::mem::replace(&mut held_before, both());
        before == held_before
    });
    assert!(held_before.iter().sum::<usize>() <= 6 * MIB, "{held_before:?}");
    drop(readers);
    until("what they held", || held(&w, "feeds") + held(&w, "streams") == 0);
    let page = w.get("/v1/feed/page?after=59").ok();
    assert_eq!(page["events"].as_array().map(Vec::len), Some(1));
}
