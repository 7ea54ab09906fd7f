//! The RESP front end over TLS: all data passes in both directions as without TLS.

use crate::papers::Authority;
use crate::support::{Client, Ours, encode};
use crate::world::{Caller, Secure, resp_face, resp_with, tls};
use mainstay::Durability;
use mainstay_server::resp::Settings;
use mainstay_server::tls::Version;
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::{Read, Write};
use std::net::TcpListener;

const MIB: usize = 1 << 20;

fn bulk(value: &str) -> String {
    format!(r"${}\r\n{value}\r\n", value.len())
}

#[test]
fn a_round_trip_in_both_versions() {
    let (authority, ours) = resp_face();
    for version in rustls::ALL_VERSIONS {
        let mut client = Caller::with(&authority, &[version], None).client(ours.address);
        assert_eq!(client.line("SET greeting hello"), r"+OK\r\n");
        assert_eq!(client.line("GET greeting"), bulk("hello"));
        assert_eq!(client.stream().conn.protocol_version(), Some(version.version));
    }
}

#[test]
fn an_old_version_is_refused_where_a_newer_one_is_wanted() {
    let authority = Authority::new();
    let mut settings = authority.sign("server").settings();
    settings.minimum_version = Version::Tls13;
    let ours = resp_with(&settings);
    let old = Caller::with(&authority, &[&rustls::version::TLS12], None);
    let refusal = old.refusal(ours.address).to_string();
    assert!(refusal.contains("ProtocolVersion"), "{refusal}");
    assert_eq!(Caller::of(&authority).client(ours.address).line("PING"), r"+PONG\r\n");
}

#[test]
fn thousands_of_commands_before_the_first_reply_is_read() {
    const COMMANDS: usize = 20_000;
    let (authority, ours) = resp_face();
    let mut client = Caller::of(&authority).client(ours.address);
    let commands: Vec<u8> = (0..COMMANDS)
        .flat_map(|n| encode(&["SET", &format!("k:{}", n % 100), &n.to_string()]))
        .collect();
    client.send_bytes(&commands);
    for _ in 0..COMMANDS {
        assert_eq!(client.receive(), r"+OK\r\n");
    }
    assert_eq!(client.line("GET k:99"), bulk(&(COMMANDS - 1).to_string()));
}

#[test]
fn the_largest_value_goes_both_ways() {
    let (authority, ours) = resp_face();
    let mut client = Caller::of(&authority).client(ours.address);
    // Some of the 16 MiB are for the overhead of the request.
    let value = "0123456789abcdef".repeat(MIB - 1);
    assert_eq!(client.call(&["SET", "large", &value]), r"+OK\r\n");
    assert!(client.line("GET large") == bulk(&value), "another value came back");
    assert_eq!(client.line("PING"), r"+PONG\r\n");
}

/// With any number of bytes, none is left in a buffer for which no event comes.
#[test]
fn requests_of_all_sizes_are_answered_at_once() {
    let (authority, ours) = resp_face();
    let mut client = Caller::of(&authority).client(ours.address);
    let sizes = [4 << 10, 16 << 10, 23_549, 2 * 23_549, 64 << 10]
        .into_iter()
        .flat_map(|bytes| (bytes - 60..bytes + 60).step_by(7));
    for size in sizes {
        let value = "v".repeat(size);
        assert_eq!(client.call(&["SET", "sized", &value]), r"+OK\r\n", "{size}");
        assert!(client.line("GET sized") == bulk(&value), "{size}");
    }
}

/// Returns the encrypted bytes that a client would send.
fn sealed(client: &mut Client<Secure>, bytes: &[u8]) -> Vec<u8> {
    let tls = &mut client.stream().conn;
    tls.writer().write_all(bytes).unwrap();
    let mut sealed = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut sealed).unwrap();
    }
    sealed
}

#[test]
fn bytes_that_come_one_by_one_are_put_together() {
    let (authority, ours) = resp_face();
    let mut client = Caller::of(&authority).client(ours.address);
    assert_eq!(client.line("PING"), r"+PONG\r\n");
    let bytes = sealed(&mut client, &encode(&["SET", "slowly", "but surely"]));
    for byte in bytes {
        client.stream().sock.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.receive(), r"+OK\r\n");
    assert_eq!(client.line("GET slowly"), bulk("but surely"));
}

#[test]
fn what_was_changed_on_the_way_ends_the_connection() {
    let (authority, ours) = resp_face();
    let mut client = Caller::of(&authority).client(ours.address);
    assert_eq!(client.line("SET safe 1"), r"+OK\r\n");
    let mut bytes = sealed(&mut client, &encode(&["SET", "safe", "2"]));
    *bytes.last_mut().unwrap() ^= 1;
    client.stream().sock.write_all(&bytes).unwrap();
    assert!(client.is_closed());
    assert_eq!(Caller::of(&authority).client(ours.address).line("GET safe"), bulk("1"));
}

#[test]
fn slow_readers_get_everything_and_hold_nobody_up() {
    const QUESTIONS: usize = 100;
    let (authority, ours) = resp_face();
    let caller = Caller::of(&authority);
    let value = "x".repeat(MIB);
    assert_eq!(caller.client(ours.address).call(&["SET", "big", &value]), r"+OK\r\n");
    let mut slow = caller.client(ours.address);
    slow.send_bytes(&b"GET big\r\n".repeat(QUESTIONS));
    let mut other = caller.client(ours.address);
    for n in 0..200 {
        assert_eq!(other.call(&["SET", "n", &n.to_string()]), r"+OK\r\n");
    }
    for _ in 0..QUESTIONS {
        assert!(slow.receive() == bulk(&value), "another value came");
    }
    assert_eq!(slow.line("PING"), r"+PONG\r\n");
}

/// A client that has sent its TLS close message still gets its replies, and a close message.
#[test]
fn whoever_says_goodbye_is_answered_first() {
    let (authority, ours) = resp_face();
    let mut client = Caller::of(&authority).client(ours.address);
    client.send_bytes(&b"INCR n\r\n".repeat(50));
    client.stream().conn.send_close_notify();
    client.stream().flush().unwrap();
    for n in 1..=50 {
        assert_eq!(client.receive(), format!(r":{n}\r\n"));
    }
    let said = client.stream().read(&mut [0]);
    assert_eq!(said.unwrap(), 0, "an end without a goodbye is an error here");
}

#[test]
fn quitting_and_stopping_end_with_a_goodbye() {
    let (authority, mut ours) = resp_face();
    let caller = Caller::of(&authority);
    let mut quits = caller.client(ours.address);
    assert_eq!(quits.line("QUIT"), r"+OK\r\n");
    assert_eq!(quits.stream().read(&mut [0]).unwrap(), 0);
    let mut stays = caller.client(ours.address);
    assert_eq!(stays.line("PING"), r"+PONG\r\n");
    ours.stop();
    assert_eq!(stays.stream().read(&mut [0]).unwrap(), 0);
}

#[test]
fn changes_are_pushed() {
    let (authority, ours) = resp_face();
    let caller = Caller::of(&authority);
    let mut watching = caller.client(ours.address);
    assert!(watching.line("HELLO 3").starts_with('%'));
    assert_eq!(watching.line("FEED.WATCH PREFIX a"), r"+OK\r\n");
    let mut writing = caller.client(ours.address);
    for n in 1..=20 {
        assert_eq!(writing.call(&["SET", "a", &n.to_string()]), r"+OK\r\n");
        let push = watching.receive();
        assert!(push.starts_with(&format!(r">2\r\n$4\r\nfeed\r\n*6\r\n:{n}\r\n")), "{push}");
    }
}

#[test]
fn many_clients_at_once() {
    let (authority, ours) = resp_face();
    let caller = Caller::of(&authority);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = caller.client(ours.address);
                for _ in 0..100 {
                    client.send_bytes(&b"INCR all\r\n".repeat(10));
                    (0..10).for_each(|_| assert!(client.receive().starts_with(':')));
                }
            });
        }
    });
    assert_eq!(caller.client(ours.address).line("GET all"), bulk("16000"));
}

/// When the socket is full, a part of a reply waits encrypted. With some of these sizes, nothing else is
/// left to send.
#[test]
fn the_last_bytes_leave_when_there_is_room_for_them() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Accepted sockets inherit the buffer size of the listener, so they fill up soon.
    set_socket_send_buffer_size(&listener, 16 << 10).unwrap();
    // With one loop, later requests are answered later.
    let face = Settings { loops: 1, durability: Durability::Interval, ..Settings::default() };
    let ours = Ours::on(listener, face, Some(tls(&authority.sign("server").settings())));
    let caller = Caller::of(&authority);
    let mut other = caller.client(ours.address);
    for size in (32 << 10..256 << 10).step_by(4 << 10) {
        assert_eq!(other.call(&["SET", "sized", &"v".repeat(size)]), r"+OK\r\n");
        let mut slow = caller.connect(ours.address);
        slow.write_all(b"GET sized\r\n").unwrap();
        assert_eq!(other.line("PING"), r"+PONG\r\n");
        let mut reply = vec![0; format!("${size}\r\n").len() + size + 2];
        slow.read_exact(&mut reply).unwrap_or_else(|error| panic!("{size}: {error}"));
    }
}
