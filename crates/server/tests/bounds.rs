//! The memory and work that one connection can cause are bounded, and no reply is lost because of it.

mod support;

use mainstay::wire::{self, FeedReply, FeedRequest};
use mainstay::{
    CellCommand, Database, Durability, Fields, Filter, Name, Options, RecordCommand, Transaction,
};
use mainstay_server::resp::connection_state::WrittenWords;
use mainstay_server::resp::{ConnectionState, Settings, Shared};
use std::io::Read;
use std::net::{Shutdown, TcpListener};
use std::time::Duration;
use support::{Client, Ours, encode};

/// Value size. The server disconnects a client that leaves more than eight such values unread.
const VALUE_BYTES: usize = 1 << 20;

fn strict() -> Ours {
    Ours::with(Settings { output_bytes: 8 * VALUE_BYTES, ..Settings::default() })
}

fn set_large(client: &mut Client, name: &str) {
    let value = vec![b'x'; VALUE_BYTES];
    assert_eq!(client.call(&[b"SET".as_slice(), name.as_bytes(), &value]), r"+OK\r\n");
}

/// Requests many large replies at once. Only some of them are created before they are sent.
#[track_caller]
fn all_are_answered(client: &mut Client, request: &[u8], count: usize) {
    client.send_and_read(&request.repeat(count), |client| {
        for _ in 0..count {
            let reply = client.receive();
            assert!(reply.len() > VALUE_BYTES, "{}", &reply[..reply.len().min(100)]);
        }
    });
}

#[test]
fn values_that_writes_answer_are_not_piled_up() {
    let ours = strict();
    let mut client = ours.client();
    set_large(&mut client, "large");
    all_are_answered(&mut client, &encode(&["GETEX", "large", "PERSIST"]), 64);
    let value = "y".repeat(VALUE_BYTES);
    let both = [encode(&["SET", "large", &value, "GET"]), encode(&["GET", "large"])].concat();
    client.send_and_read(&both.repeat(8), |client| {
        assert!((0..16).all(|_| client.receive().len() > VALUE_BYTES));
    });
}

#[test]
fn records_that_are_read_behind_writes_are_not_piled_up() {
    let ours = strict();
    let mut client = ours.client();
    let value = vec![b'x'; VALUE_BYTES];
    client.call(&[b"HSET".as_slice(), b"large", b"f", &value]);
    for read in [&["HGETALL", "large"][..], &["HVALS", "large"], &["REC.GET", "large"]] {
        let both = [encode(&["HSET", "other", "f", "1"]), encode(read)].concat();
        client.send_and_read(&both.repeat(32), |client| {
            for _ in 0..32 {
                assert_eq!(client.receive().len(), ":1\\r\\n".len());
                assert!(client.receive().len() > VALUE_BYTES);
            }
        });
    }
}

/// A record may grow by all bytes that are written to it in a batch.
#[test]
fn what_records_answer_is_weighed_before_it_is_known() {
    let db = Database::memory().unwrap();
    db.records().put("r", &Fields::of([("f", [0; 1000])]).unwrap(), None).unwrap();
    let session = ConnectionState::new(&Shared::new(db, Settings::default()), "nobody".to_owned());
    let get = |fields| RecordCommand::Get { key: Name::new("r").unwrap(), fields };
    let weigh =
        |command, written| session.estimate_reply_bytes(&Transaction::new().step(command), written);
    let mut written = WrittenWords::default();
    assert!(weigh(get(None), written) >= 1000);
    written.add(&[b"HSET", &[0; 5000]]);
    written.add(&[b"HSET", &[0; 5000]]);
    assert!(weigh(get(None), written) >= 11_000);
    assert_eq!(weigh(get(Some(Vec::new())), written), 0, "whether it is there is no burden");
    let prefix = String::new();
    let filters = Vec::new();
    let scan = RecordCommand::Scan { prefix, filters, after: None, limit: 100_000 };
    assert!(weigh(scan, written) >= 100_000);
}

#[test]
fn values_that_transactions_answer_are_not_piled_up() {
    let ours = strict();
    let mut client = ours.client();
    set_large(&mut client, "large");
    let get = CellCommand::Get { name: Name::new("large").unwrap() };
    let frame = wire::encode(&Transaction::new().step(get)).unwrap();
    all_are_answered(&mut client, &encode(&[b"WIRE.EXECUTE", &*frame]), 64);
}

/// Writes twelve changes of one megabyte each, on cells `c0` to `c11`.
fn write_much(db: &Database) {
    for i in 0..12 {
        db.cells().set(&format!("c{i}"), "x".repeat(VALUE_BYTES)).unwrap();
    }
}

#[test]
fn replies_inside_multi_have_a_limit_together() {
    let ours = Ours::start();
    let mut client = ours.client();
    let value = vec![b'x'; 15 << 20];
    client.call(&[b"SET".as_slice(), b"large", &value]);
    client.line("MULTI");
    client.line("SET other 1");
    for _ in 0..9 {
        client.line("CELL.HISTORY large");
    }
    assert!(client.line("EXEC").starts_with("-TOOLARGE "));
    assert_eq!(client.line("GET other"), r"$-1\r\n", "nothing was done");
}

fn follow(client: &mut Client, after: u64, prefix: &str) -> FeedReply {
    let filter = Filter { prefix: Some(prefix.to_owned()), ..Filter::default() };
    let follow = FeedRequest { after, filter, limit: 1_000, wait_ms: 0 };
    client.send(&[b"WIRE.FEED", &*wire::encode(&follow).unwrap()]);
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(client.byte());
    }
    let length = String::from_utf8_lossy(&line[1..]).trim().parse().unwrap();
    let frame: Vec<u8> = (0..length).map(|_| client.byte()).collect();
    client.byte();
    client.byte();
    wire::decode::<mainstay::Result<FeedReply>>(&frame).unwrap().unwrap()
}

#[test]
fn a_page_of_the_feed_ends_where_it_is_large() {
    let ours = Ours::with(Settings::default());
    let mut client = ours.client();
    write_much(&ours.db);
    let mut keys = Vec::new();
    let mut after = 0;
    let mut pages = 0;
    while keys.len() < 12 {
        let page = follow(&mut client, after, "c");
        assert!(page.events.len() <= 5, "{}", page.events.len());
        keys.extend(page.events.into_iter().map(|event| event.key));
        after = page.position;
        pages += 1;
    }
    let expected: Vec<String> = (0..12).map(|i| format!("c{i}")).collect();
    assert_eq!(keys, expected);
    assert!(pages >= 3, "{pages}");
}

/// A search for rare changes makes progress: its position advances even if nothing is found.
#[test]
fn a_long_search_says_how_far_it_came() {
    let ours = Ours::with(Settings::default());
    let mut client = ours.client();
    write_much(&ours.db);
    ours.db.cells().set("rare", 1).unwrap();
    let first = follow(&mut client, 0, "rare");
    assert!(first.events.is_empty() && first.more && (1..12).contains(&first.position));
    let mut page = first;
    while page.events.is_empty() {
        page = follow(&mut client, page.position, "rare");
    }
    assert_eq!((page.events[0].key.as_str(), page.more), ("rare", false));
    let there = mainstay::remote::connect(&ours.address.to_string()).unwrap();
    let filter = Filter { key: Some("rare".into()), ..Filter::default() };
    let mut feed = there.watch(filter, 0).unwrap();
    let found = feed.next(Duration::ZERO).unwrap().expect("it is there");
    assert_eq!(found.revision, 13);
    assert_eq!(feed.next(Duration::ZERO).unwrap(), None);
}

/// A client that has closed only its own side still gets all its replies, however much has to be scanned.
#[test]
fn a_client_that_says_no_more_is_answered() {
    let ours = Ours::with(Settings::default());
    write_much(&ours.db);
    let mut client = ours.client();
    let requests = [encode(&["PING"]), encode(&["FEED.READ", "PREFIX", "none"]), encode(&["PING"])];
    client.send_bytes(&requests.concat());
    client.stream().shutdown(Shutdown::Write).unwrap();
    let replies: Vec<_> = (0..3).map(|_| client.receive()).collect();
    assert_eq!(replies, [r"+PONG\r\n", r"*0\r\n", r"+PONG\r\n"]);
    assert!(client.is_closed());
}

/// A slow reader gets all of its last reply. Only a client that reads nothing is disconnected.
#[test]
fn a_goodbye_waits_for_who_reads_on() {
    let settings =
        Settings { drain_limit_ms: 1_000, unsent_bytes: 256 << 20, ..Settings::default() };
    let ours = Ours::with(settings);
    let mut client = ours.client();
    let value = vec![b'x'; 15 << 20];
    client.call(&[b"SET".as_slice(), b"large", &value]);
    let large = ["MGET", "large", "large", "large", "large", "large", "large"];
    client.send_bytes(&[encode(&large), encode(&["QUIT"])].concat());
    let mut got = 0;
    let mut piece = vec![0; 256 << 10];
    for round in 0.. {
        if round < 25 {
            std::thread::sleep(Duration::from_millis(100));
        }
        match client.stream().read(&mut piece).unwrap() {
            0 => break,
            read => got += read,
        }
    }
    let values = 6 * (value.len() + "$15728640\r\n\r\n".len());
    assert_eq!(got, "*6\r\n".len() + values + "+OK\r\n".len());
}

/// A rejected subscription does not count.
#[test]
fn only_what_is_watched_counts() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("HELLO 3");
    for _ in 0..20 {
        assert!(client.line("FEED.WATCH AFTER 999").starts_with('-'));
    }
    for _ in 0..16 {
        assert_eq!(client.line("FEED.WATCH PREFIX none"), r"+OK\r\n");
    }
    assert!(client.line("FEED.WATCH").starts_with("-ERR this connection watches"));
}

#[test]
fn clients_of_another_type_are_not_listed() {
    let ours = Ours::start();
    let mut client = ours.client();
    assert!(client.line("CLIENT LIST TYPE normal").contains("id="));
    for other in ["master", "replica", "pubsub"] {
        assert_eq!(client.line(&format!("CLIENT LIST TYPE {other}")), r"$0\r\n\r\n");
    }
    assert!(client.line("CLIENT LIST ID 1 2 3 1").matches("id=").count() <= 3);
}

/// Writes are rejected at once while the disk is known to be full, so reads do not wait behind them.
#[test]
fn at_a_full_disk_reads_wait_for_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Memory).write_buffer_bytes(64 << 10);
    let db = options.open(directory.path()).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = support::serve_at(address, &db);
    let mut writer = Client::to(address);
    let mut reader = Client::to(address);
    let full = directory.path().join("index/MARK.next");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let value = "x".repeat(1000);
    let mut set = |n: u32| writer.call(&["SET", &format!("k{n}"), &value]);
    let first = (0..10_000).find(|n| set(*n) != r"+OK\r\n").unwrap();
    assert!(set(first).starts_with("-READONLY"), "{}", set(first));
    // If each of these writes blocked the loop for seconds, the read would time out.
    let request = encode(&["SET".to_owned(), "more".to_owned(), value.clone()]);
    assert!(writer.send_or_end(&request.repeat(100)));
    assert_eq!(reader.call(&["EXISTS", "k0"]), r":1\r\n");
    for _ in 0..100 {
        assert!(writer.receive_or_end().is_some_and(|reply| reply.starts_with("-READONLY")));
    }
    std::fs::remove_file(&full).unwrap();
    while writer.call(&["SET", "more", "1"]) != r"+OK\r\n" {
        std::thread::sleep(Duration::from_millis(10));
    }
    server.stop();
}
