//! `kill -9` between the execution of a request and its answer. A retry at the next server gets the answer
//! of the first execution, and the request has one effect.

mod process;
#[path = "../../server/tests/support/mod.rs"]
mod support;

use mainstay::{Clock, SystemClock};
use process::Process;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use support::Client;
use tempfile::TempDir;

/// Time limit that only detects hangs.
const HANG: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !is_so() {
        assert!(Duration::from_micros(clock.monotonic_us()) < HANG, "still waiting for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A directory with a server on it, which is killed repeatedly.
struct World {
    data: PathBuf,
    server: Process,
    /// The address of its HTTP front end.
    http: String,
    _directory: TempDir,
}

impl World {
    fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        World::serve(directory.path().join("data"), directory)
    }

    fn serve(data: PathBuf, _directory: TempDir) -> World {
        let server = Process::serve(&data);
        let reply = server.client().line("CONFIG GET http-address");
        let address = reply.split(r"\r\n").find_map(|word| word.strip_prefix("http://"));
        World { data, http: address.unwrap().to_owned(), server, _directory }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    /// Kills the server and starts a new one on the same directory.
    fn kill(self) -> World {
        let World { data, server, _directory, .. } = self;
        server.kill();
        // The directory stays locked until the process is gone.
        assert!(!server.ended().success());
        World::serve(data, _directory)
    }
}

/// Sends an HTTP request and reads nothing. Returns `None` if no server is listening.
fn send_http(address: &str, request: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    Some(stream)
}

/// Returns the body of the answer, or `None` if the answer is incomplete.
fn ask_http(address: &str, request: &str) -> Option<String> {
    let mut answer = String::new();
    send_http(address, request)?.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    body.ends_with('}').then(|| body.to_owned())
}

/// Sends lines without reading the answers, and kills the server once their effect is visible.
fn executed_and_killed(world: World, lines: &[&str], seen: (&str, &str)) -> World {
    let mut lost = world.client();
    for line in lines {
        lost.send(&line.split(' ').collect::<Vec<_>>());
    }
    let mut other = world.client();
    until(seen.0, || other.line(seen.0) == seen.1);
    world.kill()
}

/// Sends lines and returns the last answer.
fn last(client: &mut Client, lines: &[&str]) -> String {
    lines.iter().map(|line| client.line(line)).last().unwrap()
}

#[test]
fn a_command_whose_answer_was_lost_is_answered_after_a_kill() {
    let world = World::new();
    world.client().line("SESSION.OPEN ID s");
    let request = "SESSION.DO s 1 LOWEST 1 INCR n";
    let mut world = executed_and_killed(world, &[request], ("GET n", r"$1\r\n1\r\n"));
    for _ in 0..2 {
        let mut client = world.client();
        assert_eq!(client.line(request), r":1\r\n");
        assert_eq!(client.line(request), r":1\r\n");
        assert_eq!(client.line("GET n"), r"$1\r\n1\r\n");
        // The stored answer survives the next kill too.
        world = world.kill();
    }
}

/// The answer contains values that a client cannot guess: the id and the time of the event.
#[test]
fn an_event_whose_answer_was_lost_is_the_one_that_is_told_of() {
    let world = World::new();
    world.client().line("SESSION.OPEN ID s");
    let request = r#"SESSION.DO s 1 LOWEST 1 RUN.APPEND r RunStarted {} PLAN 1"#;
    let world = executed_and_killed(world, &[request], ("RUN.LIST", r"*1\r\n$1\r\nr\r\n"));
    let mut client = world.client();
    let answer = client.line(request);
    let parts: Vec<&str> = answer.split(r"\r\n").collect();
    // It is the first answer, not one to an append that found the event already present.
    assert_eq!(parts[..5], ["*6", ":1", ":0", ":1", ":0"], "{answer}");
    let stored = client.line("RUN.FETCH r");
    assert!(stored.contains(parts[6]) && stored.contains(parts[8]), "{answer}: {stored}");
    assert!(stored.starts_with(r"*1\r\n"), "{stored}");
}

#[test]
fn a_transaction_whose_answer_was_lost_is_answered_after_a_kill() {
    let world = World::new();
    world.client().line("SESSION.OPEN ID s");
    let lines = [
        "MULTI",
        "INCR n",
        "HSET h f v",
        "GETSET n 7",
        "OUTBOX.PUT subject payload",
        "SESSION.SEND s hello",
        "SESSION.EXEC s 1 LOWEST 1",
    ];
    let world = executed_and_killed(world, &lines, ("GET n", r"$1\r\n7\r\n"));
    let mut client = world.client();
    for _ in 0..2 {
        let answer = last(&mut client, &lines);
        assert_eq!(answer, r"*5\r\n:1\r\n:1\r\n$1\r\n1\r\n:1\r\n:1\r\n");
    }
    assert_eq!(client.line("GET n"), r"$1\r\n7\r\n");
    assert!(client.line("OUTBOX.STATE").starts_with(r"*4\r\n:1\r\n"));
    assert_eq!(client.line("SESSION.PENDING s"), r"*1\r\n*2\r\n:1\r\n$5\r\nhello\r\n");
}

/// An error is an answer too: it is not retried, even if the command would succeed now.
#[test]
fn a_failure_whose_answer_was_lost_stays_one() {
    let world = World::new();
    let mut client = world.client();
    client.line("SESSION.OPEN ID s");
    client.line("SET n text");
    let failing = "SESSION.DO s 1 LOWEST 1 INCR n";
    let next = "SESSION.DO s 2 LOWEST 1 SET n 5";
    let world = executed_and_killed(world, &[failing, next], ("GET n", r"$1\r\n5\r\n"));
    let mut client = world.client();
    assert!(client.line(failing).starts_with("-ERR value is not an integer"));
    assert_eq!(client.line(next), r"+OK\r\n");
    assert_eq!(client.line("GET n"), r"$1\r\n5\r\n");
}

/// Formats a session request over HTTP.
fn http(session: &str, number: u64, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nmainstay-session: {session}\r\n\
         idempotency-key: {number}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn a_request_over_http_whose_answer_was_lost_is_answered_after_a_kill() {
    let world = World::new();
    world.client().line("SESSION.OPEN ID s");
    let body = r#"{"commands":[{"incr":{"name":"n"}},{"put_message":{"subject":"s"}}]}"#;
    let requests = [http("s", 1, "/v1/incr/n", ""), http("s", 2, "/v1/transactions", body)];
    let _unread = send_http(&world.http, &requests[0]).unwrap();
    let mut client = world.client();
    until("the first", || client.line("GET n") == r"$1\r\n1\r\n");
    let _unread = send_http(&world.http, &requests[1]).unwrap();
    until("the second", || client.line("GET n") == r"$1\r\n2\r\n");
    let world = world.kill();
    for _ in 0..2 {
        let answers = requests.each_ref().map(|request| ask_http(&world.http, request).unwrap());
        assert!(answers[0].starts_with(r#"{"value":1,"counter":1,"#), "{answers:?}");
        assert!(answers[0].ends_with(r#""repeated":true}"#), "{answers:?}");
        let both = r#""answers":[{"number":{"value":2,"counter":2}},{"message":1}]"#;
        assert!(
            answers[1].contains(both) && answers[1].contains(r#""repeated":true"#),
            "{answers:?}"
        );
    }
    // The same number over the other front end is the same request.
    assert_eq!(
        world.client().line("SESSION.DO s 1 LOWEST 1 CELL.INCR n"),
        r"*2\r\n$1\r\n1\r\n:1\r\n"
    );
    assert_eq!(world.client().line("GET n"), r"$1\r\n2\r\n");
}

const CLIENTS: u64 = 6;
const KILLS: u64 = 10;

/// Returns a pseudo-random number that is the same in every run.
fn scattered(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// The server that clients connect to at the moment.
struct Standing {
    world: Mutex<Option<World>>,
    acknowledged: AtomicU64,
    over: AtomicBool,
}

impl Standing {
    fn world(&self) -> MutexGuard<'_, Option<World>> {
        self.world.lock().unwrap()
    }

    fn client(&self) -> Client {
        self.world().as_ref().unwrap().client()
    }

    /// Sends the requests of one client, each until it is answered. Every answer shows that the request was
    /// executed once.
    fn run(&self, id: u64) -> u64 {
        let mut number = 0;
        while !self.over.load(Ordering::Relaxed) {
            number += 1;
            self.ask(id, number);
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        number
    }

    fn ask(&self, id: u64, number: u64) {
        let mut client = self.client();
        loop {
            let answered = match number % 3 {
                0 => self.over_http(id, number),
                _ => over_resp(&mut client, id, number),
            };
            match answered {
                Some((reply, expected)) => return assert_eq!(reply, expected),
                None => client = self.client(),
            }
        }
    }

    fn over_http(&self, id: u64, number: u64) -> Option<(String, String)> {
        let address = self.world().as_ref().unwrap().http.clone();
        let add = format!(r#"{{"commands":[{{"add":{{"name":"own:{id}","by":1}}}}]}}"#);
        let request = http(&format!("s:{id}"), number, "/v1/transactions", &add);
        let body: serde_json::Value = serde_json::from_str(&ask_http(&address, &request)?).unwrap();
        let sum = body["answers"][0]["number"]["value"].to_string();
        Some((sum, number.to_string()))
    }
}

/// Sends a request. Returns the answer and the expected one, or `None` if the connection ended.
fn over_resp(client: &mut Client, id: u64, number: u64) -> Option<(String, String)> {
    let own = format!("own:{id}");
    let session = format!("s:{id}");
    let number_text = number.to_string();
    let tail = [session.as_str(), &number_text, "LOWEST", &number_text];
    let lines: Vec<Vec<&str>> = match number % 3 {
        1 => vec![[&["SESSION.DO"], &tail[..], &["INCR", &own]].concat()],
        _ => vec![
            vec!["MULTI"],
            vec!["INCR", &own],
            vec!["INCR", "total"],
            [&["SESSION.EXEC"], &tail[..]].concat(),
        ],
    };
    let bytes: Vec<u8> = lines.iter().flat_map(|line| support::encode(line)).collect();
    if !client.send_or_end(&bytes) {
        return None;
    }
    let mut replies = Vec::new();
    for _ in &lines {
        replies.push(client.receive_or_end()?);
    }
    let reply = replies.pop()?;
    match number % 3 {
        1 => Some((reply, format!(r":{number}\r\n"))),
        // The value of the shared sum is unknown, but that of the client's own sum is known.
        _ => Some((
            reply.split_inclusive(r"\r\n").take(2).collect(),
            format!(r"*2\r\n:{number}\r\n"),
        )),
    }
}

/// Kills at arbitrary moments: after different numbers of answers, early and late in the life of a server.
#[test]
fn sums_are_exact_however_often_the_server_is_killed() {
    let world = World::new();
    let mut client = world.client();
    for id in 0..CLIENTS {
        client.line(&format!("SESSION.OPEN ID s:{id} LEASE 600000"));
    }
    let standing = Standing {
        world: Mutex::new(Some(world)),
        acknowledged: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let numbers: Vec<u64> = thread::scope(|scope| {
        let standing = &standing;
        let clients: Vec<_> =
            (0..CLIENTS).map(|id| scope.spawn(move || standing.run(id))).collect();
        for kill in 0..KILLS {
            let enough = standing.acknowledged.load(Ordering::Relaxed) + scattered(kill) % 700;
            until("answers", || standing.acknowledged.load(Ordering::Relaxed) >= enough);
            let mut world = standing.world();
            *world = world.take().map(World::kill);
        }
        standing.over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut client = standing.client();
    let mut shared = 0;
    for (id, number) in numbers.iter().enumerate() {
        let text = number.to_string();
        assert_eq!(
            client.line(&format!("GET own:{id}")),
            format!(r"${}\r\n{text}\r\n", text.len())
        );
        shared += (number + 1) / 3;
    }
    let text = shared.to_string();
    assert_eq!(client.line("GET total"), format!(r"${}\r\n{text}\r\n", text.len()));
    assert!(shared > 100, "{numbers:?}");
}
