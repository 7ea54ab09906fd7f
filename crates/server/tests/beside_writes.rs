//! Reads do not wait for disk writes of other clients.

#[path = "../../mainstay/tests/seam/mod.rs"]
mod seam;
mod support;

use mainstay::Options;
use mainstay_server::memory;
use mainstay_server::resp::Settings;
use seam::{Faults, FaultyFiles};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use support::{Client, Ours, encode};

/// Lets the blocked fsyncs continue when the test ends, also if it fails.
struct Held(Arc<Faults>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.syncs.let_go();
    }
}

/// Starts a server with one event loop and a disk whose fsyncs block. The write of the first client waits
/// for one of them.
fn waiting_for_the_disk() -> (Ours, Held, [Client; 3]) {
    waiting_with(Settings::default(), memory::Settings::default())
}

fn waiting_with(settings: Settings, memory: memory::Settings) -> (Ours, Held, [Client; 3]) {
    let (files, faults) = FaultyFiles::new();
    // Turns do not end by time, so the number of requests per turn does not depend on the speed of this
    // machine.
    let settings = Settings { loops: 1, turn_us: 10_000_000, unsent_bytes: 2 * LARGE, ..settings };
    let options = Options::new().files(files).sweep_interval(None);
    let ours = Ours::budgeted(settings, options, memory);
    let mut clients = [ours.client(), ours.client(), ours.client()];
    for client in &mut clients {
        assert_eq!(client.line("SET a old"), r"+OK\r\n");
    }
    let before = faults.syncs.came();
    faults.syncs.hold();
    clients[0].send_bytes(&[encode(&["SET", "a", "new"]), encode(&["GET", "a"])].concat());
    faults.syncs.wait_for_more_than(before);
    (ours, Held(faults), clients)
}

#[test]
fn a_read_is_answered_while_another_write_waits_for_the_disk() {
    let (_ours, held, [mut writer, mut reader, _]) = waiting_for_the_disk();
    for _ in 0..100 {
        assert_eq!(reader.line("GET a"), r"$3\r\nold\r\n", "what is not on the disk is not seen");
    }
    drop(held);
    assert_eq!(writer.receive(), r"+OK\r\n");
    assert_eq!(writer.receive(), r"$3\r\nnew\r\n", "a connection sees its own writes, in order");
    assert_eq!(reader.line("GET a"), r"$3\r\nnew\r\n");
}

/// While no client reads, the event loop executes batches itself. After a read it hands them to the
/// executor thread again.
#[test]
fn a_read_after_many_writes_alone_keeps_later_reads_from_waiting() {
    let (_ours, held, [mut writer, mut reader, mut other]) = waiting_for_the_disk();
    held.0.syncs.let_go();
    assert_eq!((writer.receive(), writer.receive()), (r"+OK\r\n".into(), r"$3\r\nnew\r\n".into()));
    for _ in 0..100 {
        assert_eq!(other.line("SET a again"), r"+OK\r\n");
    }
    assert_eq!(reader.line("GET a"), r"$5\r\nagain\r\n");
    let before = held.0.syncs.came();
    held.0.syncs.hold();
    writer.send_bytes(&encode(&["SET", "a", "last"]));
    held.0.syncs.wait_for_more_than(before);
    for _ in 0..100 {
        assert_eq!(reader.line("GET a"), r"$5\r\nagain\r\n");
    }
    drop(held);
    assert_eq!(writer.receive(), r"+OK\r\n");
}

#[test]
fn writes_that_come_meanwhile_are_the_next_batch() {
    let (_ours, held, [mut writer, mut second, mut reader]) = waiting_for_the_disk();
    let pipeline = [encode(&["SET", "b", "1"]), encode(&["INCR", "b"]), encode(&["GET", "b"])];
    second.send_bytes(&pipeline.concat());
    // The loop has read the earlier request by now, because it handles sockets in the order in which they
    // become ready.
    assert_eq!(reader.line("GET b"), r"$-1\r\n");
    drop(held);
    assert_eq!((writer.receive(), writer.receive()), (r"+OK\r\n".into(), r"$3\r\nnew\r\n".into()));
    assert_eq!(second.receive(), r"+OK\r\n");
    assert_eq!((second.receive(), second.receive()), (r":2\r\n".into(), r"$1\r\n2\r\n".into()));
    assert_eq!(reader.line("GET b"), r"$1\r\n2\r\n");
}

/// Megabytes wait for the disk. A later small write is written before most of them, and each client gets
/// its own replies.
#[test]
fn a_small_write_does_not_wait_for_all_large_writes_before_it() {
    let (ours, held, [mut writer, mut small, mut reader]) = waiting_for_the_disk();
    let value = "x".repeat(256 << 10);
    let mut large = Vec::new();
    for number in 0..6 {
        let cell = format!("large:{number}");
        let count = format!("count:{number}");
        let mut client = ours.client();
        client.send_bytes(&encode(&["SET", &cell, &value]));
        client.send_bytes(&encode(&["INCRBY", &count, &number.to_string()]));
        large.push((number, client));
    }
    // The loop has read the large writes by now, because it takes at most one request of this connection
    // per turn.
    for _ in 0..100 {
        assert_eq!(reader.line("GET a"), r"$3\r\nold\r\n");
    }
    small.send_bytes(&encode(&["SET", "small", "1"]));
    for _ in 0..100 {
        assert_eq!(reader.line("GET a"), r"$3\r\nold\r\n");
    }
    let faults = held.0.clone();
    let before = held.0.syncs.came();
    drop(held);
    assert_eq!(small.receive(), r"+OK\r\n");
    assert_eq!((writer.receive(), writer.receive()), (r"+OK\r\n".into(), r"$3\r\nnew\r\n".into()));
    for (number, client) in &mut large {
        assert_eq!(client.receive(), r"+OK\r\n");
        assert_eq!(client.receive(), format!(r":{number}\r\n"));
    }
    let batches = faults.syncs.came() - before;
    assert!(
        batches >= 3,
        "one with the small write and a large one, and at most a mebibyte in each of the others"
    );
}

/// If a connection is closed because it holds too much memory, nothing of it is written. The others in the
/// batch get their own replies.
#[test]
fn what_a_refused_connection_asked_is_no_part_of_the_batch() {
    let limit = memory::Settings { per_connection_bytes: 64 << 10, ..memory::Settings::default() };
    let (_ours, held, [_writer, mut greedy, mut other]) = waiting_with(Settings::default(), limit);
    greedy.send_bytes(&encode(&["INCR", "greedy"]).repeat(500));
    assert!(greedy.is_closed(), "500 transactions in memory are more than 64 KiB");
    other.send_bytes(&encode(&["INCRBY", "other", "7"]));
    drop(held);
    assert_eq!(other.receive(), r":7\r\n");
    assert_eq!(other.line("GET greedy"), r"$-1\r\n");
}

/// Size of a value that does not fit into the buffers between a server and a client that reads nothing.
const LARGE: usize = 12 << 20;

/// Starts a server with a large cell. A client reads it and then writes something.
fn writing_behind_a_large_reply(settings: Settings) -> (Ours, Held, [Client; 3]) {
    let (ours, held, [mut writer, mut reader, mut other]) =
        waiting_with(settings, memory::Settings::default());
    held.0.syncs.let_go();
    assert_eq!((writer.receive(), writer.receive()), (r"+OK\r\n".into(), r"$3\r\nnew\r\n".into()));
    assert_eq!(writer.call(&["SET", "large", &"x".repeat(LARGE)]), r"+OK\r\n");
    let before = held.0.syncs.came();
    held.0.syncs.hold();
    writer.send_bytes(&encode(&["SET", "a", "newer"]));
    held.0.syncs.wait_for_more_than(before);
    reader.send_bytes(&[encode(&["GET", "large"]), encode(&["INCR", "behind"])].concat());
    assert_eq!(other.line("GET a"), r"$3\r\nnew\r\n");
    (ours, held, [writer, reader, other])
}

#[test]
fn a_large_reply_is_sent_while_the_write_behind_it_waits_for_the_disk() {
    let (_ours, held, [_writer, mut reader, _other]) =
        writing_behind_a_large_reply(Settings::default());
    assert!(reader.receive().len() > LARGE);
    drop(held);
    assert_eq!(reader.receive(), r":1\r\n");
}

/// The requests of a closed connection count for its memory until they are executed, so the connection is
/// listed until then.
#[test]
fn whoever_leaves_in_the_middle_of_a_reply_counts_until_its_writes_are_done() {
    let (_ours, held, [_writer, mut reader, mut other]) =
        writing_behind_a_large_reply(Settings::default());
    reader.peek();
    drop(reader);
    for _ in 0..100 {
        assert!(other.line("INFO clients").contains(r"connected_clients:3\r\n"));
    }
    drop(held);
    while !other.line("INFO clients").contains(r"connected_clients:2\r\n") {}
    assert_eq!(other.line("GET behind"), r"$1\r\n1\r\n");
}

#[test]
fn a_reader_that_is_cut_is_sent_nothing_behind_half_a_reply() {
    let settings = Settings { write_limit_ms: 50, ..Settings::default() };
    let (_ours, held, [_writer, mut reader, mut other]) = writing_behind_a_large_reply(settings);
    std::thread::sleep(Duration::from_millis(500));
    drop(held);
    while !other.line("INFO clients").contains(r"connected_clients:2\r\n") {}
    let mut received = Vec::new();
    // The stream may end with or without an error.
    let _ = reader.stream().read_to_end(&mut received);
    assert!(received.len() < LARGE && received.ends_with(b"x"), "{} bytes", received.len());
    assert_eq!(other.line("GET behind"), r"$1\r\n1\r\n");
}

#[test]
fn an_unfinished_request_is_refused_behind_the_replies_before_it() {
    let settings = Settings { request_limit_ms: 50, ..Settings::default() };
    let (_ours, held, [_writer, mut half, _]) = waiting_with(settings, memory::Settings::default());
    half.send_bytes(&[encode(&["INCR", "half"]), b"*2\r\n$3\r\nGET\r\n".to_vec()].concat());
    std::thread::sleep(Duration::from_millis(500));
    drop(held);
    assert_eq!(half.receive(), r":1\r\n");
    assert!(half.receive().contains("resp.request_limit_ms (50 ms)"));
}

/// A request for a worker waits for the earlier requests of its connection, also while they wait for the
/// disk.
#[test]
fn a_long_request_comes_behind_the_writes_before_it() {
    let (_ours, held, [_writer, mut second, mut reader]) = waiting_for_the_disk();
    let names: Vec<String> = (0..2_000).map(|n| format!("n{n}")).collect();
    let words = ["EXISTS", "b"].into_iter().chain(names.iter().map(String::as_str));
    let long = encode(&words.collect::<Vec<_>>());
    second.send_bytes(&[encode(&["SET", "b", "1"]), long.clone(), encode(&["PING"])].concat());
    // The long requests of another client are answered meanwhile, so a worker would have had time for this
    // one.
    for _ in 0..5 {
        reader.send_bytes(&long);
        assert_eq!(reader.receive(), r":0\r\n");
    }
    drop(held);
    let replies = [second.receive(), second.receive(), second.receive()];
    assert_eq!(replies, [r"+OK\r\n", r":1\r\n", r"+PONG\r\n"]);
}

/// A client that reads nothing is disconnected at the close deadline, but the time in which the server
/// waits for the disk does not count.
#[test]
fn a_goodbye_is_not_limited_in_time_while_the_disk_is_waited_for() {
    let settings = Settings { drain_limit_ms: 50, ..Settings::default() };
    let (_ours, held, [_writer, mut second, mut reader]) =
        waiting_with(settings, memory::Settings::default());
    second.send_bytes(&[encode(&["SET", "b", "1"]), b"*no\r\n".to_vec()].concat());
    assert_eq!(reader.line("GET b"), r"$-1\r\n");
    std::thread::sleep(Duration::from_millis(500));
    drop(held);
    assert_eq!(second.receive(), r"+OK\r\n");
    assert!(second.receive().starts_with("-ERR Protocol error"));
    assert!(second.is_closed());
}

/// Both writes wait for the same fsync, the second one in the queue behind the first.
#[test]
fn the_slow_log_counts_the_wait_of_each_write() {
    let settings = Settings { slow_log_us: 100_000, ..Settings::default() };
    let (_ours, held, [mut writer, mut second, mut reader]) =
        waiting_with(settings, memory::Settings::default());
    second.send_bytes(&encode(&["INCR", "b"]));
    assert_eq!(reader.line("GET b"), r"$-1\r\n");
    std::thread::sleep(Duration::from_millis(200));
    drop(held);
    assert_eq!((writer.receive(), second.receive()), (r"+OK\r\n".into(), r":1\r\n".into()));
    let logged = reader.line("SLOWLOG GET");
    let slow = logged.contains("incr");
    let quick = logged.contains(r"get\r\n$1\r\nb");
    assert!(slow && !quick, "{logged}");
}

#[test]
fn whoever_leaves_meanwhile_is_paid_to_nobody() {
    let (ours, held, [writer, mut reader, _]) = waiting_for_the_disk();
    drop(writer);
    assert_eq!(reader.line("GET a"), r"$3\r\nold\r\n");
    // The new connection may get the slot of the closed one.
    let mut next = ours.client();
    assert_eq!(next.line("PING"), r"+PONG\r\n");
    drop(held);
    assert_eq!(next.line("SET c 1"), r"+OK\r\n");
    assert_eq!(next.line("GET a"), r"$3\r\nnew\r\n");
}

/// Another thread holds the writer. A write without fsync waits for it, but not on the event loop.
#[test]
fn a_read_is_answered_while_a_write_in_memory_waits_for_the_writer() {
    let settings = Settings { loops: 1, ..Settings::default() };
    let ours = Ours::budgeted(settings, Options::new(), memory::Settings::default());
    let mut writer = ours.client();
    let mut reader = ours.client();
    assert_eq!(writer.line("DURABILITY MEMORY"), r"+OK\r\n");
    assert_eq!(writer.line("SET a old"), r"+OK\r\n");
    let (held, holds) = std::sync::mpsc::channel();
    let (let_go, gate) = std::sync::mpsc::channel::<()>();
    let main = ours.db.branch("main").unwrap();
    let holder = std::thread::spawn(move || {
        let hold = |_: &mut mainstay::InteractiveTransaction| {
            held.send(()).unwrap();
            // The channel closes when the test ends.
            let _ = gate.recv();
            Ok(())
        };
        main.transaction_alone(Vec::new(), hold).map(drop)
    });
    holds.recv().unwrap();
    writer.send_bytes(&encode(&["SET", "a", "new"]));
    for _ in 0..100 {
        assert_eq!(reader.line("GET a"), r"$3\r\nold\r\n");
    }
    drop(let_go);
    holder.join().unwrap().unwrap();
    assert_eq!(writer.receive(), r"+OK\r\n");
    assert_eq!(reader.line("GET a"), r"$3\r\nnew\r\n");
}
