//! The attacks: each is one kind of greedy client, and runs until its process is killed.

use super::server::{GREEDY, TRANSACTION_COMMANDS};
use super::wire::{Http, Resp, line, request};
use crate::drill::Outcome;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// The pause after an error: a refused client tries again, as greedy as before.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// The pause between two bytes of a client that sends one byte at a time.
const DRIBBLE_PAUSE: Duration = Duration::from_millis(50);

/// The server under attack, as the greedy user sees it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The RESP address.
    pub resp: SocketAddr,
    /// The HTTP address.
    pub http: SocketAddr,
}

/// One kind of greedy client.
pub struct Attack {
    /// The name on the command line and in the report.
    pub name: &'static str,
    /// How many threads run it at once.
    threads: usize,
    /// One iteration. It is repeated forever, also after an error.
    go: fn(&Target) -> Outcome<()>,
}

/// Each kind of load that has delayed other clients, or could.
pub const ATTACKS: &[Attack] = &[
    Attack { name: "counts-in-multi", threads: 4, go: counts_in_multi },
    Attack { name: "counts-after-writes", threads: 4, go: counts_after_writes },
    Attack { name: "counts-over-http", threads: 4, go: counts_over_http },
    Attack { name: "range-guards", threads: 4, go: range_guards },
    Attack { name: "patterns", threads: 4, go: patterns },
    Attack { name: "dead-names", threads: 4, go: dead_names },
    Attack { name: "deletions-in-multi", threads: 4, go: deletions_in_multi },
    Attack { name: "open-transactions", threads: 8, go: open_transaction },
    Attack { name: "unread-replies", threads: 16, go: unread_replies },
    Attack { name: "unread-http", threads: 32, go: unread_http },
    Attack { name: "unread-feeds", threads: 16, go: unread_feed },
    Attack { name: "many-words", threads: 8, go: many_words },
    Attack { name: "dribbled-requests", threads: 64, go: dribbled_request },
    Attack { name: "dribbled-bodies", threads: 64, go: dribbled_body },
    Attack { name: "connections", threads: 8, go: connections },
    Attack { name: "wrong-passwords", threads: 8, go: wrong_password },
    Attack { name: "old-feeds", threads: 8, go: old_feed },
    Attack { name: "cursors", threads: 4, go: cursors },
    Attack { name: "long-waits", threads: 64, go: long_wait },
    Attack { name: "large-transactions", threads: 4, go: large_transaction },
    Attack { name: "large-records", threads: 4, go: large_record },
    Attack { name: "writes", threads: 4, go: writes },
];

/// The attack of this name.
pub fn attack(name: &str) -> Outcome<&'static Attack> {
    let found = ATTACKS.iter().find(|attack| attack.name == name);
    found.ok_or_else(|| format!("there is no attack `{name}`"))
}

impl Attack {
    /// Attacks until the process is killed.
    pub fn run(&'static self, target: &Target) -> ! {
        for _ in 1..self.threads {
            let target = target.clone();
            thread::spawn(move || self.repeat(&target));
        }
        self.repeat(target)
    }

    fn repeat(&self, target: &Target) -> ! {
        loop {
            // A greedy client expects to be refused, disconnected or answered slowly.
            if (self.go)(target).is_err() {
                thread::sleep(RETRY_PAUSE);
            }
        }
    }
}

fn resp(target: &Target) -> Outcome<Resp> {
    Resp::login(target.resp, GREEDY.name, GREEDY.password)
}

fn http(target: &Target) -> Outcome<Http> {
    Http::connect(target.http, GREEDY.name, GREEDY.password)
}

/// A transaction that scans all records again and again.
fn counts_in_multi(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    let count = line("REC.COUNT greedy:record: WHERE b = x");
    let mut bytes = line("MULTI");
    (0..2_000).for_each(|_| bytes.extend_from_slice(&count));
    bytes.extend_from_slice(&line("EXEC"));
    resp.send(&bytes)?;
    for _ in 0..2_002 {
        resp.read()?;
    }
    Ok(())
}

/// As many writes as a transaction may have, and then as many as may be queued.
fn large_transaction(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    for commands in [TRANSACTION_COMMANDS, 99_000] {
        let mut bytes = line("MULTI");
        for n in 0..commands {
            bytes.extend_from_slice(&line(&format!("SET greedy:bulk:{n} x")));
        }
        bytes.extend_from_slice(&line("EXEC"));
        resp.send(&bytes)?;
        for _ in 0..commands + 2 {
            resp.read()?;
        }
    }
    Ok(())
}

/// The write is in the range of the counts, so every prefetched count is invalid and the writer must
/// count again.
fn counts_after_writes(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    let mut bytes = line("MULTI");
    bytes.extend_from_slice(&line("REC.SET greedy:record:0 FIELDS b y"));
    let count = line("REC.COUNT greedy:record: WHERE b = x");
    (0..100).for_each(|_| bytes.extend_from_slice(&count));
    bytes.extend_from_slice(&line("EXEC"));
    resp.send(&bytes)?;
    for _ in 0..103 {
        resp.read()?;
    }
    Ok(())
}

fn counts_over_http(target: &Target) -> Outcome<()> {
    let mut http = http(target)?;
    let step = r#"{"count_records":{"prefix":"greedy:record:"}}"#;
    let body = format!(r#"{{"commands":[{}]}}"#, vec![step; 3_000].join(","));
    http.send("POST", "/v1/transactions", body.len(), body.as_bytes())?;
    http.read().map(drop)
}

/// Guards over ranges, each of which is compared with all recent writes.
fn range_guards(target: &Target) -> Outcome<()> {
    let mut http = http(target)?;
    let guard =
        |n: usize| format!(r#"{{"range_unchanged":{{"prefix":"greedy:quiet:{n}:","since":1}}}}"#);
    let guards: Vec<String> = (0..9_000).map(guard).collect();
    let set = r#"{"set":{"name":"greedy:guarded","value":1}}"#;
    let body =
        format!(r#"{{"guards":[{}],"commands":[{set}],"otherwise":[{set}]}}"#, guards.join(","));
    http.send("POST", "/v1/transactions", body.len(), body.as_bytes())?;
    http.read().map(drop)
}

/// Patterns that are long, and patterns that make a naive matcher backtrack.
fn patterns(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    let class = format!("greedy:record:[{}]*", "a".repeat(1 << 20));
    resp.call(&request(&[b"KEYS", class.as_bytes()]))?;
    resp.call(&request(&[b"SCAN", b"0", b"MATCH", class.as_bytes(), b"COUNT", b"1000"]))?;
    let stars = format!("greedy:{}q", "*r*e".repeat(200));
    resp.call(&request(&[b"KEYS", stars.as_bytes()]))?;
    let any = format!("*{}", "?".repeat(1_023));
    resp.call(&request(&[
        b"HSCAN",
        b"greedy:fields",
        b"0",
        b"COUNT",
        b"100000",
        b"MATCH",
        any.as_bytes(),
    ]))?;
    // In a transaction of commands each of which is fast by itself.
    let classes = "[^a]".repeat(256);
    let mut bytes = line("MULTI");
    (0..900).for_each(|_| {
        bytes.extend_from_slice(&request(&[
            b"HSCAN",
            b"greedy:few",
            b"0",
            b"MATCH",
            classes.as_bytes(),
        ]));
    });
    bytes.extend_from_slice(&line("EXEC"));
    resp.send(&bytes)?;
    for _ in 0..902 {
        resp.read()?;
    }
    Ok(())
}

/// A transaction that writes a record of several megabytes over and over, without a sync.
fn large_record(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    resp.call(&line("DURABILITY MEMORY"))?;
    resp.send(&line("MULTI"))?;
    // 240 MiB: far more than this server's `transaction_write_bytes`.
    for _ in 0..30 {
        resp.send(&line("HINCRBY greedy:heavy count 1"))?;
    }
    resp.send(&line("EXEC"))?;
    for _ in 0..32 {
        resp.read()?;
    }
    Ok(())
}

/// Scans over names that are all deleted.
fn dead_names(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    for _ in 0..100 {
        resp.call(&line("SCAN 0 MATCH greedy:dead:* COUNT 100000"))?;
        resp.call(&line("CELL.LIST PREFIX greedy:dead: LIMIT 1000"))?;
    }
    Ok(())
}

/// A transaction of very many small arguments.
fn deletions_in_multi(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    let mut bytes = line("MULTI");
    for block in 0..10 {
        let names: Vec<String> = (0..100_000).map(|n| format!("greedy:{block}:{n}")).collect();
        let mut words: Vec<&[u8]> = vec![b"DEL"];
        words.extend(names.iter().map(|name| name.as_bytes()));
        bytes.extend_from_slice(&request(&words));
    }
    bytes.extend_from_slice(&line("EXEC"));
    resp.send(&bytes)?;
    for _ in 0..12 {
        resp.read()?;
    }
    Ok(())
}

/// Transactions that are filled and left open.
fn open_transaction(target: &Target) -> Outcome<()> {
    let value = vec![b'x'; 1 << 20];
    let mut open = Vec::new();
    for number in 0..64 {
        let mut resp = resp(target)?;
        resp.call(&line("TXN.BEGIN"))?;
        for part in 0..32 {
            let name = format!("greedy:open:{number}:{part}");
            resp.call(&request(&[b"SET", name.as_bytes(), &value]))?;
            resp.call(&line(&format!("GET greedy:large:{}", part % 32)))?;
        }
        open.push(resp);
    }
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// Requests large replies and never reads them.
fn unread_replies(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    for number in 0..1_000 {
        resp.send(&line(&format!("GET greedy:large:{}", number % 32)))?;
    }
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn unread_http(target: &Target) -> Outcome<()> {
    // A connection buffers one response. Later responses are produced only after the first has been
    // read.
    let mut unread = Vec::new();
    for number in 0..8 {
        let mut http = http(target)?;
        http.send("GET", &format!("/v1/cells/greedy:large:{number}"), 0, b"")?;
        unread.push(http);
    }
    thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// Follows all changes from the beginning without reading them, and makes more changes.
fn unread_feed(target: &Target) -> Outcome<()> {
    let mut feeds = Vec::new();
    for _ in 0..8 {
        let mut feed = http(target)?;
        feed.send("GET", "/v1/feed?after=0&prefix=greedy:", 0, b"")?;
        feeds.push(feed);
    }
    let mut resp = resp(target)?;
    let value = vec![b'x'; 256 << 10];
    for number in 0..1_000 {
        resp.call(&request(&[b"SET", format!("greedy:fed:{}", number % 8).as_bytes(), &value]))?;
    }
    Ok(())
}

/// A request with the most arguments allowed, which never ends: an argument takes more memory than its
/// bytes.
fn many_words(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    let mut bytes = b"*262144\r\n".to_vec();
    (0..262_143).for_each(|_| bytes.extend_from_slice(b"$1\r\na\r\n"));
    resp.send(&bytes)?;
    thread::sleep(Duration::from_millis(200));
    Ok(())
}

fn dribbled_request(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    resp.send(b"*3\r\n$3\r\nSET\r\n$9\r\ngreedy:up\r\n$1000000\r\n")?;
    loop {
        resp.send(b"x")?;
        thread::sleep(DRIBBLE_PAUSE);
    }
}

fn dribbled_body(target: &Target) -> Outcome<()> {
    let mut http = http(target)?;
    http.send("PUT", "/v1/cells/greedy:up", 1_000_000, b"\"")?;
    loop {
        http.send_more(b"x")?;
        thread::sleep(DRIBBLE_PAUSE);
    }
}

/// As many idle connections as are allowed.
fn connections(target: &Target) -> Outcome<()> {
    let mut open = Vec::new();
    for _ in 0..500 {
        open.push(Resp::connect(target.resp)?);
        open.push(Resp::connect(target.http)?);
    }
    thread::sleep(Duration::from_millis(200));
    Ok(())
}

fn wrong_password(target: &Target) -> Outcome<()> {
    Resp::login(target.resp, "honest", "a guess").map(drop)
}

/// Reads the whole log from its beginning.
fn old_feed(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    loop {
        resp.call(&line("FEED.READ AFTER 0 PREFIX greedy: LIMIT 10000"))?;
    }
}

/// Begins scans and never continues them.
fn cursors(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    loop {
        resp.call(&line("SCAN 0 MATCH greedy:* COUNT 1"))?;
    }
}

fn long_wait(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    resp.call(&line("FEED.READ AFTER 9000000000000000000 PREFIX greedy: WAIT 86400000"))?;
    resp.call(&line("RUN.TAIL greedy:none WAIT 86400000"))?;
    Ok(())
}

/// A normal kind of load, but as much of it as can be sent.
fn writes(target: &Target) -> Outcome<()> {
    let mut resp = resp(target)?;
    let value = vec![b'x'; 1_000];
    let mut bytes = Vec::new();
    for number in 0..500 {
        let name = format!("greedy:written:{number}");
        bytes.extend_from_slice(&request(&[b"SET", name.as_bytes(), &value]));
    }
    loop {
        resp.send(&bytes)?;
        for _ in 0..500 {
            resp.read()?;
        }
    }
}
