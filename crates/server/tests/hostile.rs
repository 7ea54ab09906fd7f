//! One greedy client does not starve the others, because the work of one request is bounded.

mod support;

use mainstay::{CellCommand, Durability, Name, Options, Transaction};
use mainstay_server::resp::connection_state::{BatchLoad, CommandOutcome};
use mainstay_server::resp::{self, ConnectionState, Handle, Reply, Settings, Shared};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use support::{Client, Ours, encode};

fn settings() -> Settings {
    Settings { durability: Durability::Memory, loops: 1, ..Settings::default() }
}

/// Creates a session without a connection, on a database in memory.
fn session(options: Options) -> ConnectionState {
    let db = options.durability(Durability::Memory).memory().unwrap();
    ConnectionState::new(&Shared::new(db, settings()), "nobody".to_owned())
}

fn said(session: &mut ConnectionState, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    format!("{:?}", session.answer_blocking(&words))
}

fn put_records(session: &mut ConnectionState, count: usize) {
    for i in 0..count {
        said(session, &["HSET", &format!("r{i:05}"), "f", "1"]);
    }
}

#[test]
fn the_counts_of_one_exec_have_a_budget() {
    let mut session = session(Options::new().work_limits(2_000, 1 << 30));
    put_records(&mut session, 100);
    said(&mut session, &["MULTI"]);
    for _ in 0..50 {
        said(&mut session, &["REC.COUNT", "r"]);
    }
    said(&mut session, &["SET", "written", "1"]);
    let reply = said(&mut session, &["EXEC"]);
    assert!(reply.contains("TOOLARGE") && reply.contains("transaction_entries"), "{reply}");
    assert!(said(&mut session, &["GET", "written"]).contains("Nil"), "nothing was written");
    said(&mut session, &["TXN.BEGIN"]);
    let replies: Vec<_> = (0..50).map(|_| said(&mut session, &["REC.COUNT", "r"])).collect();
    assert!(replies[0].contains("100"), "{}", replies[0]);
    assert!(replies[49].contains("TOOLARGE"), "{}", replies[49]);
    assert!(said(&mut session, &["TXN.ROLLBACK"]).contains("OK"), "it came back from the worker");
}

/// Creates a record so large that each change of it writes two megabytes.
fn large_record(options: Options) -> ConnectionState {
    let mut session = session(options);
    let large = "x".repeat(2 << 20);
    assert!(said(&mut session, &["HSET", "large", "f", &large]).contains("Int(1)"));
    assert!(said(&mut session, &["HSET", "small", "f", "x"]).contains("Int(1)"));
    session
}

fn queue(session: &mut ConnectionState, commands: &[&[&str]]) {
    said(session, &["MULTI"]);
    for command in commands {
        assert!(said(session, command).contains("QUEUED"));
    }
}

#[test]
fn what_a_transaction_overwrites_itself_has_a_budget() {
    let mut session = large_record(Options::new().transaction_write_bytes(5 << 20));
    let add: &[&str] = &["HINCRBY", "large", "n", "1"];
    queue(&mut session, &[add; 2]);
    assert!(said(&mut session, &["EXEC"]).contains("Int(2)"));
    queue(&mut session, &[&["SET", "written", "1"], add, add, add, add]);
    let reply = said(&mut session, &["EXEC"]);
    assert!(reply.contains("TOOLARGE") && reply.contains("transaction_write_bytes"), "{reply}");
    assert!(said(&mut session, &["GET", "written"]).contains("Nil"), "nothing was written");
    assert!(said(&mut session, &["HGET", "large", "n"]).contains("[50]"), "neither here");
}

/// Other clients wait neither for the event loop nor for a batch with such a write.
#[test]
fn what_writes_megabytes_anew_goes_to_a_worker() {
    let mut session = large_record(Options::new());
    let handled = |session: &mut ConnectionState, words: &[&str], pending| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        session.handle(&words, pending)
    };
    for command in [
        &["HINCRBY", "large", "n", "1"][..],
        &["HSET", "large", "g", "x"],
        &["EXPIRE", "large", "100"],
        &["REC.SET", "large", "FIELDS", "g", "x"],
        &["SESSION.DO", "s", "1", "LOWEST", "1", "HSET", "large", "g", "x"],
    ] {
        let first = handled(&mut session, command, BatchLoad::Empty);
        assert!(matches!(first, CommandOutcome::LongWork(_)), "{command:?}");
        let behind = handled(&mut session, command, BatchLoad::Some);
        assert!(
            matches!(behind, CommandOutcome::Deferred),
            "{command:?} comes behind what came before"
        );
    }
    for command in [
        &["HINCRBY", "small", "n", "1"][..],
        &["HSET", "small", "g", "x"],
        &["SET", "cell", "x"],
        &["SET", "large", "x"],
    ] {
        let handled = handled(&mut session, command, BatchLoad::Empty);
        assert!(matches!(handled, CommandOutcome::Transaction(..)), "{command:?}");
    }
    // Earlier writes of the connection in the batch may have made the record large.
    session.batch_write_bytes = 2 << 20;
    let behind = handled(&mut session, &["HINCRBY", "small", "n", "1"], BatchLoad::Some);
    assert!(matches!(behind, CommandOutcome::Deferred));
    session.batch_write_bytes = 0;
    queue(&mut session, &[&["HDEL", "large", "g"]]);
    assert!(matches!(
        handled(&mut session, &["EXEC"], BatchLoad::Empty),
        CommandOutcome::LongWork(_)
    ));
    queue(&mut session, &[&["HDEL", "small", "g"]]);
    assert!(matches!(
        handled(&mut session, &["EXEC"], BatchLoad::Empty),
        CommandOutcome::Transaction(..)
    ));
}

/// Too many keys for WATCH are rejected before any of them is read.
#[test]
fn too_many_watched_keys_are_refused() {
    let mut session = session(Options::new());
    said(&mut session, &["SET", "k", "1"]);
    let many: Vec<&str> = std::iter::once("WATCH").chain(std::iter::repeat_n("k", 6_000)).collect();
    let words: Vec<&[u8]> = many[..1_100].iter().map(|word| word.as_bytes()).collect();
    assert!(session.goes_to_worker(&words, 10_000), "a worker looks at so many keys");
    assert!(said(&mut session, &many).contains("TOOLARGE"));
    assert!(said(&mut session, &many[..5_001]).contains("OK"));
    assert!(said(&mut session, &["WATCH", "k"]).contains("TOOLARGE"), "together they are too many");
}

/// Matching names are collected before they are sent, up to a limit.
#[test]
fn keys_gathers_only_so_much() {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    let name = |i: usize| Name::new(&format!("{i:06}{}", "x".repeat(990))).unwrap();
    for part in 0..140 {
        db.execute((0..1_000).fold(Transaction::new(), |all, i| {
            all.step(CellCommand::set(name(part * 1_000 + i), 1))
        }))
        .unwrap();
    }
    let mut session = ConnectionState::new(&Shared::new(db, settings()), "nobody".to_owned());
    assert!(said(&mut session, &["KEYS", "*"]).contains("TOOLARGE the names that match take"));
    let few = session.answer_blocking(&[b"KEYS", b"00000*"]);
    assert!(matches!(few, Reply::Array(names) if names.len() == 10));
}

/// Workers read many large values and parse large requests. Requests with too many words for an event loop
/// are rejected.
#[test]
fn an_event_loop_answers_nothing_that_takes_long() {
    let mut session = session(Options::new());
    let large = "x".repeat(200 << 10);
    for i in 0..10 {
        said(&mut session, &["SET", &format!("k{i}"), &large]);
    }
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let mut handled = |line: &str| {
        let words: Vec<Vec<u8>> = words(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        session.handle(&words, BatchLoad::Empty)
    };
    assert!(matches!(handled("MGET k0 none"), CommandOutcome::Reply(_)));
    assert!(matches!(handled("GET k1"), CommandOutcome::Reply(_)));
    let CommandOutcome::LongWork(read) = handled("MGET k0 k1 k2 k3") else {
        panic!("it was read at once")
    };
    let Reply::Array(values) = read() else { panic!("no values") };
    assert_eq!(values.len(), 4);
    let words: [&[u8]; 3] = [b"RUN.BATCH", b"r", b"[]"];
    assert!(session.goes_to_worker(&words, 2 << 20) && !session.goes_to_worker(&words, 1 << 20));
    let frame: [&[u8]; 2] = [b"WIRE.EXECUTE", b""];
    let follow: [&[u8]; 2] = [b"WIRE.FEED", b""];
    assert!(session.goes_to_worker(&frame, 2 << 20) && !session.goes_to_worker(&follow, 2 << 20));
    let many: Vec<&str> = ["COMMAND", "DOCS"].into_iter().chain(["get"; 1_000]).collect();
    assert!(said(&mut session, &many).contains("TOOLARGE"));
}

/// Requests of many words and transactions of many commands go to a worker together with the state of their
/// connection. Order is kept.
#[test]
fn long_requests_are_answered_in_their_place() {
    let served = Served::with(settings(), Options::new());
    let mut client = served.client();
    let names: Vec<String> = (0..3_000).map(|i| format!("n{i}")).collect();
    let pairs = names.iter().flat_map(|name| [name.as_str(), "1"]);
    let set = encode(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>());
    let delete =
        encode(&["DEL"].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>());
    let sent = [encode(&["SET", "n7", "0"]), set.clone(), encode(&["INCR", "n7"])].concat();
    client.send_bytes(&sent);
    let replies = [client.receive(), client.receive(), client.receive()];
    assert_eq!(replies, [r"+OK\r\n", r"+OK\r\n", r":2\r\n"]);
    client.line("WATCH n1");
    client.line("MULTI");
    client.send_bytes(&delete);
    assert_eq!(client.receive(), r"+QUEUED\r\n");
    client.line("SET after 1");
    assert_eq!(client.line("EXEC"), r"*2\r\n:3000\r\n+OK\r\n");
    client.line("WATCH n1");
    client.line("MULTI");
    client.send_bytes(&delete);
    client.receive();
    served.client().line("SET n1 other");
    assert_eq!(client.line("EXEC"), r"*-1\r\n", "what was watched went with it and came back");
    client.line("TXN.BEGIN");
    let large = "v".repeat(1 << 20);
    for name in ["a", "b"] {
        assert_eq!(client.call(&["SET", name, &large]), r"+OK\r\n");
    }
    assert_eq!(client.line("STRLEN a"), r":1048576\r\n");
    assert_eq!(served.client().line("EXISTS a b"), r":0\r\n");
    client.line("CLIENT SETNAME large");
    assert_eq!(client.line("CLIENT GETNAME"), r"$5\r\nlarge\r\n", "that is not for workers");
    assert!(client.line("TXN.COMMIT").starts_with(':'));
    assert_eq!(served.client().line("EXISTS a b"), r":2\r\n");
    client.line("TXN.BEGIN");
    client.call(&["SET", "c", &large]);
    assert_eq!(client.line("RESET"), r"+RESET\r\n");
    assert!(client.line("TXN.COMMIT").starts_with('-'), "it was reset for the connection");
    client.line("TXN.BEGIN");
    client.call(&["SET", "c", &large]);
    assert_eq!(client.line("QUIT"), r"+OK\r\n");
    assert!(client.is_closed());
}

/// If no work may wait for a worker, requests for workers are rejected, and all others are answered.
#[test]
fn long_requests_are_for_workers_and_short_ones_are_not() {
    let served = Served::with(Settings { waiting_work: 0, ..settings() }, Options::new());
    let mut client = served.client();
    let names: Vec<String> = (0..3_000).map(|i| format!("n{i}")).collect();
    let long = |word| -> Vec<u8> {
        encode(&[word].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>())
    };
    let is_refused = |reply: String| reply.starts_with("-UNAVAILABLE too much long work");
    client.send_bytes(&long("EXISTS"));
    assert!(is_refused(client.receive()), "a request of many words");
    client.send_bytes(format!("DEL {}\r\n", names.join(" ")).as_bytes());
    assert!(is_refused(client.receive()), "and a line of them");
    client.line("MULTI");
    for _ in 0..1_001 {
        assert_eq!(client.line("INCR a"), r"+QUEUED\r\n");
    }
    assert!(is_refused(client.line("EXEC")), "a transaction of many commands");
    client.line("TXN.BEGIN");
    assert!(is_refused(client.call(&["SET", "a", &"v".repeat(1 << 20)])), "a large one");
    client.line("TXN.ROLLBACK");
    for line in ["SET a 1", "MULTI", "INCR a", "EXEC", "TXN.BEGIN", "GET a", "TXN.COMMIT"] {
        let reply = client.line(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
}

/// A typed line can be as long as an array of words.
#[test]
fn long_lines_are_answered_in_their_place() {
    let served = Served::with(settings(), Options::new());
    let mut client = served.client();
    let names: Vec<String> = (0..2_000).map(|i| format!("n{i}")).collect();
    client.send_bytes(format!("MULTI\r\nDEL {}\r\nEXEC\r\nPING\r\n", names.join(" ")).as_bytes());
    let replies: Vec<String> = (0..4).map(|_| client.receive()).collect();
    assert_eq!(replies, [r"+OK\r\n", r"+QUEUED\r\n", r"*1\r\n:0\r\n", r"+PONG\r\n"]);
}

struct Served {
    address: SocketAddr,
    shared: Arc<Shared>,
    handle: Option<Handle>,
}

impl Served {
    fn with(settings: Settings, options: Options) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let db = options.durability(Durability::Memory).memory().unwrap();
        let shared = Shared::new(db, settings);
        let handle = Some(resp::serve_with(listener, None, &shared).unwrap());
        Served { address, shared, handle }
    }

    fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Returns whether long work is running or waiting.
    fn works(&self) -> bool {
        let figures = &self.shared.metrics;
        figures.work_running.load(Relaxed) + figures.work_waiting.load(Relaxed) > 0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.take().into_iter().for_each(Handle::stop);
    }
}

/// Sends requests in pieces that fit into the socket buffers, and reads their replies.
fn pipelined(client: &mut Client, requests: &[Vec<u8>]) {
    for piece in requests.chunks(200) {
        client.send_and_read(&piece.concat(), |client| {
            piece.iter().for_each(|_| drop(client.receive()));
        });
    }
}

/// Writes records, and starts a transaction that counts them many times and also writes.
fn begin_counting(client: &mut Client, records: usize, counts: usize) {
    pipelined(
        client,
        &(0..records).map(|i| encode(&["HSET", &format!("r{i:05}"), "f", "1"])).collect::<Vec<_>>(),
    );
    let mut multi = vec![encode(&["MULTI"]), encode(&["SET", "a", "1"])];
    multi.extend(std::iter::repeat_n(encode(&["REC.COUNT", "r"]), counts));
    pipelined(client, &multi);
    client.send_bytes(&encode(&["EXEC"]));
}

/// While one client counts, another client on the same event loop is answered, also when it writes. The
/// limit of entries for the writer is lower than one count, so no count runs in the writer.
#[test]
fn an_exec_of_counts_holds_neither_the_event_loop_nor_the_writer() {
    let served = Served::with(settings(), Options::new().writer_entries(1_000));
    let mut greedy = served.client();
    let mut honest = served.client();
    begin_counting(&mut greedy, 2_000, 400);
    let mut before = 0;
    let mut during = 0;
    while before < 5_000 {
        let works = served.works();
        if during > 0 && !works {
            break;
        }
        assert_eq!(honest.call(&["SET", "b", "1"]), r"+OK\r\n");
        before += usize::from(!works);
        during += usize::from(works);
    }
    assert!(during >= 20, "{during} answers while the counts went on");
    assert!(greedy.receive().contains("2000"));
}

/// Long work stops when its client is gone: the server does not count a hundred million records for a
/// closed connection.
#[test]
fn long_work_ends_when_its_client_is_gone() {
    let settings = Settings { drain_limit_ms: 0, ..settings() };
    let served = Served::with(settings, Options::new().work_limits(u64::MAX, u64::MAX));
    let mut greedy = served.client();
    begin_counting(&mut greedy, 2_000, 50_000);
    let wait_until = |done: &dyn Fn() -> bool| {
        for _ in 0..600 {
            if done() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    };
    assert!(wait_until(&|| served.works()), "the work begins");
    drop(greedy);
    assert!(wait_until(&|| !served.works()), "the work goes on for nobody");
    assert_eq!(served.client().call(&["EXISTS", "a"]), r":0\r\n", "nothing was written");
}

#[test]
fn a_pattern_of_a_mebibyte_is_refused() {
    let ours = Ours::with(settings());
    let mut client = ours.client();
    client.call(&["SET", "a", "1"]);
    let class = format!("[{}]", "a".repeat(1 << 20));
    for words in [&["KEYS", &class][..], &["SCAN", "0", "MATCH", &class]] {
        let reply = client.call(words);
        assert!(reply.starts_with("-TOOLARGE") && reply.contains("1024"), "{reply:.100}");
    }
    assert!(client.call(&["KEYS", "[a-c]"]).contains('a'));
}

#[test]
fn a_scan_over_dead_names_goes_in_steps() {
    let served = Served::with(settings(), Options::new());
    let mut client = served.client();
    let each = |word: &'static str, count: usize| -> Vec<Vec<u8>> {
        (0..count).map(|i| encode(&[word, &format!("k{i:05}"), "1"])).collect()
    };
    pipelined(&mut client, &each("SET", 5_000));
    pipelined(&mut client, &each("DEL", 4_999));
    let mut cursor = "0".to_owned();
    let mut found = Vec::new();
    for _ in 0..50 {
        let reply = client.call(&["SCAN", &cursor]);
        let words: Vec<&str> = reply.split(r"\r\n").collect();
        cursor = words[2].to_owned();
        found.push(words[3..].join(" "));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(cursor, "0");
    assert!((2..=5).contains(&found.len()), "{} steps of two thousand names", found.len());
    let (empty, full): (Vec<_>, Vec<_>) = found.iter().partition(|names| names.starts_with("*0"));
    assert_eq!((empty.len() + 1, full.len()), (found.len(), 1), "{found:?}");
    assert!(full[0].contains("k04999"), "{found:?}");
    assert!(client.call(&["RANDOMKEY"]).contains("k04999"));
}

#[test]
fn every_key_is_random_some_day() {
    let mut session = session(Options::new());
    for i in 0..100 {
        said(&mut session, &["SET", &format!("user:profile:{i:04}"), "1"]);
    }
    let seen: BTreeSet<String> = (0..2_000).map(|_| said(&mut session, &["RANDOMKEY"])).collect();
    assert_eq!(seen.len(), 100);
}

/// A turn whose time is over after eight requests executes no more than these in one batch.
#[test]
fn a_turn_ends_by_time_as_well_as_by_count() {
    let served = Served::with(Settings { turn_us: 1, ..settings() }, Options::new());
    pipelined(&mut served.client(), &vec![encode(&["SET", "a", "1"]); 1_000]);
    let batches = served.shared.metrics.totals().batches;
    assert!(batches.count() >= 1_000 / 8, "{} batches of 1,000 requests", batches.count());
}

#[test]
fn nobody_waits_longer_than_the_limit() {
    let ours = Ours::with(Settings { wait_limit_ms: 50, ..settings() });
    let mut client = ours.client();
    let forever = u64::MAX.to_string();
    let revision = ours.db.revision().to_string();
    client.call(&["FEED.READ", "AFTER", &revision, "WAIT", &forever]);
    client.call(&["RUN.TAIL", "r", "WAIT", &forever]);
    client.call(&["JOB.CLAIM", "t", "WORKER", "w", "WAIT", "3600000"]);
    assert_eq!(client.call(&["PING"]), r"+PONG\r\n", "all of them came back");
}

/// Regression test: the pattern was compiled for each field, and a pattern that was too long matched
/// nothing.
#[test]
fn patterns_of_scans_of_fields_are_compiled_once_and_bounded() {
    let server = Ours::start();
    let mut client = server.client();
    for block in 0..20 {
        let fields: Vec<String> = (0..1_000).map(|n| format!("f{block}-{n} v")).collect();
        client.line(&format!("HSET h {}", fields.join(" ")));
    }
    let dear = format!("*{}", "?".repeat(1_023));
    // Before the fix, each of the 20,000 fields took 150 µs. The duration of this test shows it.
    let found = client.line(&format!("HSCAN h 0 COUNT 100000 MATCH {dear}"));
    assert_eq!(found, r"*2\r\n$1\r\n0\r\n*0\r\n");
    let long = format!("[f{}]*", "a".repeat(2_000));
    for line in [format!("HSCAN h 0 MATCH {long}"), format!("CONFIG GET {long}")] {
        assert!(client.line(&line).starts_with("-TOOLARGE"), "{line}");
    }
    let many = "x".repeat(600);
    assert!(client.line(&format!("CONFIG GET {many} {many}")).starts_with("-TOOLARGE"));
    assert!(client.line("CONFIG GET maxm* SAVE").contains("maxmemory"));
}
