//! Many connections, and clients that do not read: memory stays bounded, and all other clients are served.

mod process;
#[path = "../../server/tests/support/mod.rs"]
mod support;

use process::Process;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use support::Client;

const MIB: u64 = 1 << 20;
const IDLE: usize = 5_000;
const BUSY: usize = 64;
/// Operations of each busy connection in a phase, and how many of them are pipelined.
const OPERATIONS: usize = 3_000;
const PIPELINE: usize = 50;
/// Number of keys that a busy connection writes round-robin.
const KEYS: usize = 10;

/// Raises the limit of open files for the sockets of a test. The server inherits it.
fn allow_files(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        let maximum = limit.maximum.map(|maximum| maximum.max(count));
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum }).unwrap_or_else(
            |error| panic!("{count} open files are needed, see `ulimit -Hn`: {error}"),
        );
    }
}

/// Returns the memory growth of a server since `before`.
fn grown(server: &Process, before: u64) -> u64 {
    server.memory_bytes().saturating_sub(before)
}

/// Opens connections that have sent one request and stay open.
fn idle_clients(server: &Process) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..IDLE).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.send(&["PING"]));
    for client in &mut clients {
        assert_eq!(client.receive(), r"+PONG\r\n");
    }
    clients
}

/// Sends pipelined writes and reads, and checks every reply.
fn work(mut client: Client, id: usize, phase: usize) {
    for start in (0..OPERATIONS).step_by(PIPELINE) {
        let rounds = start..start + PIPELINE / 2;
        let key = |round: usize| format!("busy:{id}:{}", round % KEYS);
        let value = |round: usize| format!("{phase}:{id}:{round}");
        for round in rounds.clone() {
            let mut bytes = support::encode(&["SET", &key(round), &value(round)]);
            bytes.extend(support::encode(&["GET", &key(round)]));
            client.send_bytes(&bytes);
        }
        for round in rounds {
            assert_eq!(client.receive(), r"+OK\r\n");
            let value = value(round);
            assert_eq!(client.receive(), format!(r"${}\r\n{value}\r\n", value.len()));
        }
    }
}

fn busy_phase(server: &Process, phase: usize) {
    thread::scope(|scope| {
        for id in 0..BUSY {
            let client = server.client();
            scope.spawn(move || work(client, id, phase));
        }
    });
}

#[test]
fn thousands_of_idle_connections_beside_busy_ones() {
    allow_files(IDLE as u64 + 1_000);
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(&directory.path().join("data"));
    assert_eq!(server.client().line("PING"), r"+PONG\r\n");

    let before = server.memory_bytes();
    let mut idle = idle_clients(&server);
    let by_idle = grown(&server, before);
    assert!(by_idle <= 100 * MIB, "{IDLE} idle connections cost {} KiB", by_idle >> 10);

    busy_phase(&server, 1);
    let after_first = server.memory_bytes();
    busy_phase(&server, 2);
    let by_second = grown(&server, after_first);
    assert!(by_second < 32 * MIB, "doing the same again cost {} KiB", by_second >> 10);

    for client in &mut idle {
        assert_eq!(client.line("GET busy:0:0"), r"$8\r\n2:0:2970\r\n");
    }
}

/// Lets other clients write and read while one client does not read.
fn others_go_on(server: &Process) {
    thread::scope(|scope| {
        for id in 0..4 {
            let client = server.client();
            scope.spawn(move || work(client, id, 1));
        }
    });
}

/// Starts a server with a value of one MiB.
fn server_with_a_large_value(directory: &Path) -> Process {
    let more = ["--set", "resp.output_bytes=64 MiB"].map(OsStr::new);
    let server = Process::serve_with(&directory.join("data"), &more, Stdio::inherit());
    assert_eq!(server.client().call(&["SET", "big", &"x".repeat(1 << 20)]), r"+OK\r\n");
    server
}

#[test]
fn slow_readers_are_not_read_any_more() {
    const READERS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_a_large_value(directory.path());
    let before = server.memory_bytes();
    let questions = b"GET big\r\n".repeat(2_000);
    let mut readers: Vec<Client> = (0..READERS).map(|_| server.client()).collect();
    for _ in 0..5 {
        for reader in &mut readers {
            reader.offer(&questions);
        }
        others_go_on(&server);
        let by_readers = grown(&server, before);
        assert!(by_readers < 96 * MIB, "{READERS} slow readers cost {} KiB", by_readers >> 10);
    }
    // The readers were only slow: when they read, they get all their replies.
    let mut reader = readers.swap_remove(0);
    for _ in 0..20 {
        assert_eq!(reader.receive().len(), r"$1048576\r\n".len() + (1 << 20) + r"\r\n".len());
    }
}

/// A request whose reply is larger than the limit of unsent output.
fn too_many_questions() -> Vec<u8> {
    [&b"MGET"[..], &b" big".repeat(100), b"\r\n"].concat()
}

/// Reads behind a write in a pipeline are answered with it, but only a limited number at once.
#[test]
fn reads_behind_a_write_are_taken_piece_by_piece() {
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_a_large_value(directory.path());
    let mut reader = server.client();
    reader.send_bytes(&[&b"SET small 1\r\n"[..], &b"GET big\r\n".repeat(300)].concat());
    others_go_on(&server);
    assert_eq!(reader.receive(), r"+OK\r\n");
    for _ in 0..300 {
        assert_eq!(reader.receive().len(), r"$1048576\r\n".len() + (1 << 20) + r"\r\n".len());
    }
}

#[test]
fn whoever_is_owed_too_much_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_a_large_value(directory.path());
    let mut reader = server.client();
    reader.send_bytes(&too_many_questions());
    others_go_on(&server);
    assert!(reader.ends_early(1), "it got everything, after all this time");
}

/// Returns the most memory in use after each of several clients that get disconnected.
fn most_held(server: &Process, readers: u64) -> u64 {
    let held = (0..readers).map(|_| {
        server.client().send_bytes(&too_many_questions());
        others_go_on(server);
        server.memory_bytes()
    });
    held.max().unwrap()
}

#[test]
fn nothing_is_kept_of_those_who_were_cut_off() {
    const READERS: u64 = 6;
    let directory = tempfile::tempdir().unwrap();
    let server = server_with_a_large_value(directory.path());
    // The allocator keeps varying amounts of memory for a while. Only steady growth is a leak.
    let first = most_held(&server, READERS);
    let more = most_held(&server, READERS).saturating_sub(first);
    assert!(more < READERS * 300 * MIB / 2, "as many again cost {} KiB", more >> 10);
}

/// Connections never take the file descriptors that the log needs, because it would become read-only
/// without them.
#[test]
fn with_few_files_there_are_few_connections_and_writes_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve_with_files(&directory.path().join("data"), 400);
    let mut first = server.client();
    assert_eq!(first.line("PING"), r"+PONG\r\n");
    let mut others: Vec<Client> = (0..300).map(|_| server.client()).collect();
    let is_refused = |client: &mut Client| {
        client.send_or_end(b"PING\r\n");
        client.receive_or_end().is_none_or(|reply| reply.starts_with("-ERR max number"))
    };
    let refused: usize = others.iter_mut().map(|client| usize::from(is_refused(client))).sum();
    assert!(refused > 150, "{refused}");
    for _ in 0..80 {
        assert_eq!(first.call(&["SET", "a", &"x".repeat(1 << 20)]), r"+OK\r\n");
    }
    drop(others);
    server.terminate();
}

/// A flood of connections to both front ends with a low limit of open files does not make the log fail.
#[test]
fn a_flood_of_connections_never_makes_the_database_read_only() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve_with_files(&directory.path().join("data"), 128);
    let mut first = server.client();
    let address = first.line("CONFIG GET http-address");
    let web = address.split("//").nth(1).and_then(|rest| rest.split(r"\r\n").next()).unwrap();
    let web: SocketAddr = web.parse().unwrap();
    // A server without free file descriptors accepts no connection, and connecting would then take minutes.
    let connect = |to: &SocketAddr| TcpStream::connect_timeout(to, Duration::from_millis(100)).ok();
    let mut flood = Vec::new();
    for round in 0..80 {
        // These connections neither read nor send anything.
        flood.extend((0..5).filter_map(|_| connect(&server.address)));
        flood.extend((0..5).filter_map(|_| connect(&web)));
        let told = first.call(&["SET", "a", &format!("{round}{}", "x".repeat(1 << 20))]);
        assert!(told == r"+OK\r\n" || told.starts_with("-UNAVAILABLE"), "{told}");
    }
    drop(flood);
    assert!(first.line("INFO mainstay").contains("read_only:0"));
    assert_eq!(first.line("SET a 1"), r"+OK\r\n");
    server.terminate();
}
