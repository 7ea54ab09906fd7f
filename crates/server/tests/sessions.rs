//! Sessions on the wire, byte by byte: every command, requests that are sent again, transactions, branches, bad input.

mod support;

use support::{Client, Ours};

/// Lines and how each is answered, one after the other.
fn answers_as_written_down(cases: &[(&str, &str)]) {
    let ours = Ours::start();
    answers(&mut ours.client(), cases);
}

fn answers(client: &mut Client, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let reply = client.line(line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
}

/// What is known of a session, as its JSON.
fn info(client: &mut Client, session: &str) -> serde_json::Value {
    let reply = client.line(&format!("SESSION.INFO {session}"));
    let text = reply.split(r"\r\n").nth(1).unwrap().replace(r#"\""#, r#"""#);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn sessions_answer_as_written_down() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s LEASE 5000 CAP lang rust CAP os linux", r"$1\r\ns\r\n"),
        ("session.open id s", r"$1\r\ns\r\n"),
        ("SESSION.SEND s hello", r":1\r\n"),
        ("SESSION.SEND s again", r":2\r\n"),
        ("SESSION.SEND nobody hello", r"$-1\r\n"),
        ("SESSION.PENDING s", r"*2\r\n*2\r\n:1\r\n$5\r\nhello\r\n*2\r\n:2\r\n$5\r\nagain\r\n"),
        ("SESSION.PENDING s LIMIT 1", r"*1\r\n*2\r\n:1\r\n$5\r\nhello\r\n"),
        ("SESSION.PENDING s AFTER 1", r"*1\r\n*2\r\n:2\r\n"),
        ("SESSION.PENDING s AFTER 18446744073709551615", r"*0\r\n"),
        ("SESSION.RETRY 1", r"*0\r\n"),
        (
            "SESSION.RETRY 99999999999999999 LIMIT 1",
            r"*1\r\n*3\r\n$1\r\ns\r\n:1\r\n$5\r\nhello\r\n",
        ),
        ("SESSION.ACK s 1", r":1\r\n"),
        ("SESSION.ACK s 1", r":0\r\n"),
        ("SESSION.ACK s 18446744073709551615", r":1\r\n"),
        ("SESSION.PENDING s", r"*0\r\n"),
        ("SESSION.SEND s third", r":3\r\n"),
        ("SESSION.KEEPALIVE s", r"+OK\r\n"),
        ("SESSION.KEEPALIVE s LOWEST 3", r"+OK\r\n"),
        ("SESSION.INFO s", r#"$"#),
        ("SESSION.INFO nobody", r"$-1\r\n"),
        ("SESSION.OPEN ID a", r"$1\r\na\r\n"),
        ("SESSION.LIST", r"*2\r\n$1\r\na\r\n$1\r\ns\r\n"),
        ("SESSION.LIST AFTER a", r"*1\r\n$1\r\ns\r\n"),
        ("SESSION.LIST LIMIT 1", r"*1\r\n$1\r\na\r\n"),
        ("SESSION.LIST INFO AFTER a", r#"*1\r\n$"#),
        ("SESSION.CLOSE s", r":1\r\n"),
        ("SESSION.CLOSE s", r":0\r\n"),
        ("SESSION.LIST", r"*1\r\n$1\r\na\r\n"),
    ]);
}

#[test]
fn a_session_is_known_by_what_it_was_opened_with() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s LEASE 5000 CAP lang rust CAP os linux");
    client.line("SESSION.DO s 4 LOWEST 2 INCR n");
    client.line("SESSION.SEND s x");
    let told = info(&mut client, "s");
    assert_eq!(told["session"], "s");
    assert_eq!(told["lease_ms"], 5000);
    assert_eq!(told["capabilities"], serde_json::json!({"lang": "rust", "os": "linux"}));
    let numbers = ["next_request", "mark", "kept", "last_sent", "pending"];
    assert_eq!(numbers.map(|name| told[name].as_u64().unwrap()), [5, 2, 1, 1, 1]);
    let (opened, expires) = (&told["opened_us"], &told["expires_us"]);
    assert!(expires.as_u64().unwrap() >= opened.as_u64().unwrap() + 5_000_000);
    let unnamed = client.line("SESSION.OPEN");
    assert!(unnamed.starts_with(r"$24\r\n"), "{unnamed}");
}

#[test]
fn a_command_is_done_once_and_a_repeat_is_answered_the_same() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s", r"$1\r\ns\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        ("session.do s 2 lowest 1 incr n", r":2\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        ("GET n", r"$1\r\n2\r\n"),
        // Numbers need not come in order.
        ("SESSION.DO s 9 LOWEST 1 SET a x", r"+OK\r\n"),
        ("SESSION.DO s 5 LOWEST 1 APPEND a y", r":2\r\n"),
        ("SESSION.DO s 5 LOWEST 1 APPEND a y", r":2\r\n"),
        // What was read then, not what there is now.
        ("SESSION.DO s 10 LOWEST 1 GET a", r"$2\r\nxy\r\n"),
        ("SET a z", r"+OK\r\n"),
        ("SESSION.DO s 10 LOWEST 1 GET a", r"$2\r\nxy\r\n"),
        // A failure is an answer, too.
        ("SESSION.DO s 11 LOWEST 1 INCR a", "-ERR value is not an integer"),
        ("SET a 1", r"+OK\r\n"),
        ("SESSION.DO s 11 LOWEST 1 INCR a", "-ERR value is not an integer"),
        ("GET a", r"$1\r\n1\r\n"),
        // What the client has got may go.
        ("SESSION.DO s 12 LOWEST 12 INCR a", r":2\r\n"),
        ("SESSION.DO s 11 LOWEST 11 INCR a", "-EVICTED "),
        ("SESSION.DO s 1 LOWEST 1 INCR n", "-EVICTED "),
        ("SESSION.KEEPALIVE s LOWEST 13", r"+OK\r\n"),
        ("SESSION.DO s 12 LOWEST 1 INCR a", "-EVICTED "),
        ("GET a", r"$1\r\n2\r\n"),
        ("SESSION.CLOSE s", r":1\r\n"),
        ("SESSION.DO s 13 LOWEST 13 INCR a", "-SESSIONEXPIRED "),
        ("SESSION.KEEPALIVE s", "-SESSIONEXPIRED "),
        ("SESSION.PENDING s", "-SESSIONEXPIRED "),
        ("SESSION.ACK s 1", "-SESSIONEXPIRED "),
        ("GET a", r"$1\r\n2\r\n"),
        // Numbers go on in the next one of its name, behind what may still be on its way.
        ("SESSION.OPEN ID s", r"$1\r\ns\r\n"),
        ("SESSION.DO s 12 LOWEST 1 INCR a", "-EVICTED "),
        ("SESSION.DO s 1012 LOWEST 1 INCR a", "-EVICTED "),
        ("SESSION.DO s 1013 LOWEST 1013 INCR a", r":3\r\n"),
    ]);
}

/// Every kind of reply, in both protocols: a repeat is the same, byte by byte, also when all that it was made of is gone.
#[test]
fn a_repeat_is_the_same_bytes_whatever_the_command() {
    const LINES: &[&str] = &[
        "SET a 1 EX 1000",
        "GET a",
        "GET none",
        "TTL a",
        "PTTL a",
        "PEXPIRETIME a",
        "INCRBYFLOAT a 0.5",
        "MGET a none b",
        "MSET a 1 b 2",
        "DEL b none",
        "TYPE a",
        "HSET h x 1 y 2 z 3",
        "HGETALL h",
        "HMGET h x none",
        "HINCRBY h x 5",
        "HINCRBY h none-such x",
        "HRANDFIELD h",
        "HRANDFIELD h 2",
        "HRANDFIELD h -5 WITHVALUES",
        "HSCAN h 0",
        "HINCRBYFLOAT h x 1.5",
        "GET h",
        "CELL.SET c {\"a\":[1,2.5,null]} JSON",
        "CELL.GET c",
        "CELL.GETV c",
        "CELL.CAS c 1 other",
        "CELL.CAS c 1 other",
        "CELL.INCR count 5",
        "CELL.LIST PREFIX c",
        "REC.SET r FIELDS a 1 b 2",
        "REC.GET r",
        "REC.CAS r a IS 1 2",
        "REC.SCAN r",
        "REC.SCAN r WHERE a = 2",
        "REC.COUNT r",
        "RUN.APPEND run RunStarted {} PLAN 1",
        "RUN.APPEND run RunStarted {} PLAN 1",
        "RUN.FETCH run",
        "RUN.SNAPSHOT run",
        "RUN.PROJECT run",
        "RUN.LIST",
        "RUN.DELETE none",
        "OUTBOX.PUT subject payload",
        "OUTBOX.CLAIM 1 LEASE 1000 TOKEN",
        "OUTBOX.FAIL 1 oh",
        "OUTBOX.STATE",
        "STATE.PUT space key value VERSION 7",
        "STATE.GET space key",
        "STATE.SCAN space",
        "STATE.INFO space",
        "STATE.SEAL space 3",
        "STATE.SNAPSHOT space",
        "JOB.LIST email",
        "LOCK.GET name",
        "SESSION.SEND s hello",
        "SESSION.ACK s 1",
        "REC.GET _mainstay/x",
    ];
    for protocol in ["2", "3"] {
        let ours = Ours::start();
        let mut client = ours.client();
        client.call(&["HELLO", protocol]);
        client.line("SESSION.OPEN ID s");
        let ask = |client: &mut Client, number: usize, line: &str| {
            client.line(&format!("SESSION.DO s {number} LOWEST 1 {line}"))
        };
        let number = |place: usize| place + 1;
        let first: Vec<String> = (LINES.iter().enumerate())
            .map(|(place, line)| ask(&mut client, number(place), line))
            .collect();
        let revision = client.line("REVISION");
        assert!(client.line("FLUSHDB").starts_with('+'));
        client.line("SET h text");
        let flushed = client.line("REVISION");
        assert_ne!(flushed, revision);
        for (place, line) in LINES.iter().enumerate() {
            let again = ask(&mut client, number(place), line);
            assert_eq!(again, first[place], "{line}");
            assert!(!again.contains("fault of the server"), "{line}: {again}");
            assert!(!again.contains("is no part of one"), "{line}: {again}");
        }
        assert_eq!(client.line("REVISION"), flushed, "nothing was executed");
    }
}

/// All commands on data that make a transaction can be done once: a further one is either such, or says why not.
#[test]
fn what_is_no_transaction_on_data_is_refused_and_not_kept() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s");
    client.line("SET a 1");
    for line in [
        "SESSION.DO s 1 LOWEST 1 GET a",
        "SESSION.EXEC s 1 LOWEST 1",
        "SESSION.OPEN ID t",
        "SESSION.KEEPALIVE s",
        "SESSION.CLOSE s",
        "SESSION.RETRY 1",
        "SESSION.INFO s",
        "SESSION.PENDING s",
        "SESSION.LIST",
        "JOB.SUBMIT email 1",
        "JOB.CLAIM email WORKER w",
        "JOB.SWEEP",
        "LOCK.TAKE l OWNER o LEASE 1000",
        "BRANCH.USE main",
        "BRANCH.LIST",
        "BRANCH.INFO main",
        "BRANCH.DIFF main main",
        "TAG.LIST",
        "DURABILITY MEMORY",
        "FEED.READ",
        "RUN.TAIL r WAIT 10",
        "MULTI",
        "EXEC",
        "WATCH a",
        "TXN.BEGIN",
        "PING",
        "KEYS *",
        "SCAN 0",
        "DBSIZE",
        "FLUSHDB",
        "REC.INDEX LIST",
        "HELLO 3",
        "AUTH x",
        "QUIT",
        "CELL.HISTORY a",
        "CELL.GET a REV 1",
        "STATE.GET s k AT 1",
        "WIRE.EXECUTE x",
        "GET",
        "GET a b",
        "NONE SUCH",
        "SET a 1 NX XX",
    ] {
        let reply = client.line(&format!("SESSION.DO s 1 LOWEST 1 {line}"));
        assert!(reply.starts_with("-ERR "), "{line}: {reply}");
    }
    assert_eq!(info(&mut client, "s")["next_request"], 1);
    assert_eq!(client.line("SESSION.DO s 1 LOWEST 1 INCR a"), r":2\r\n");
}

#[test]
fn bad_words_are_refused_and_nothing_is_kept() {
    let ours = Ours::start();
    let mut client = ours.client();
    answers(
        &mut client,
        &[
            ("SESSION.OPEN ID s", "$1"),
            ("SESSION.DO s 0 LOWEST 0 INCR n", "-INVALID "),
            ("SESSION.DO s 1 LOWEST 2 INCR n", "-INVALID "),
            ("SESSION.DO s 9223372036854775808 LOWEST 1 INCR n", "-INVALID "),
            ("SESSION.DO s 18446744073709551614 LOWEST 1 INCR n", "-INVALID "),
            ("SESSION.DO s 18446744073709551615 LOWEST 1 INCR n", "-INVALID "),
            (
                "SESSION.DO s 18446744073709551616 LOWEST 1 INCR n",
                "-INVALID give SESSION.DO id request LOWEST n",
            ),
            ("SESSION.DO s -1 LOWEST 1 INCR n", "-INVALID "),
            ("SESSION.DO s one LOWEST 1 INCR n", "-INVALID "),
            ("SESSION.DO s 1 LOWEST x INCR n", "-INVALID "),
            ("SESSION.DO s 1 HIGHEST 1 INCR n", "-INVALID "),
            ("SESSION.DO s 1 LOWEST 1", "-ERR wrong number of arguments"),
            ("SESSION.DO _mainstay/s 1 LOWEST 1 INCR n", "-INVALID "),
            ("SESSION.DO nobody 1 LOWEST 1 INCR n", "-SESSIONEXPIRED "),
            ("SESSION.DO nobody 1 LOWEST 1 INCR", "-ERR wrong number of arguments"),
            ("SESSION.OPEN ID", "-INVALID give SESSION.OPEN "),
            ("SESSION.OPEN NAME x", "-INVALID "),
            ("SESSION.OPEN ID _mainstay/x", "-INVALID "),
            ("SESSION.OPEN LEASE 0", "-INVALID "),
            ("SESSION.OPEN LEASE 86400001", "-INVALID "),
            ("SESSION.OPEN LEASE 18446744073709551615", "-INVALID "),
            ("SESSION.OPEN LEASE x", "-INVALID "),
            ("SESSION.OPEN CAP name", "-INVALID "),
            ("SESSION.OPEN ID t CAP a 1 CAP a 2", "-INVALID "),
            ("SESSION.SEND s", "-ERR wrong number of arguments"),
            ("SESSION.ACK s x", "-INVALID "),
            ("SESSION.ACK s", "-ERR wrong number of arguments"),
            ("SESSION.PENDING s LIMIT 0", "-INVALID "),
            ("SESSION.PENDING s LIMIT 100001", "-"),
            ("SESSION.PENDING s BEFORE 1", "-INVALID "),
            ("SESSION.RETRY", "-ERR wrong number of arguments"),
            ("SESSION.RETRY now", "-INVALID "),
            ("SESSION.RETRY 1 LIMIT", "-INVALID "),
            ("SESSION.RETRY 1 2", "-INVALID "),
            ("SESSION.KEEPALIVE s LOWEST", "-INVALID "),
            ("SESSION.KEEPALIVE s LOWEST x", "-INVALID "),
            ("SESSION.KEEPALIVE s LOWEST 18446744073709551614", "-INVALID "),
            ("SESSION.KEEPALIVE nobody", "-SESSIONEXPIRED "),
            ("SESSION.LIST LIMIT x", "-INVALID "),
            ("SESSION.LIST s", "-INVALID "),
            ("SESSION.EXEC s 1 LOWEST 1", "-ERR SESSION.EXEC without MULTI"),
            ("EXISTS n", r":0\r\n"),
        ],
    );
    let letter = vec![b'x'; mainstay::LETTER_LIMIT_BYTES + 1];
    let reply = client.call(&[b"SESSION.SEND".as_slice(), b"s", &letter]);
    assert!(reply.starts_with("-TOOLARGE "), "{reply}");
    assert_eq!(client.line("SESSION.PENDING s"), r"*0\r\n");
    let told = info(&mut client, "s");
    assert_eq!((&told["next_request"], &told["kept"]), (&1.into(), &0.into()));
}

#[test]
fn a_word_that_stands_twice_is_refused() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s CAP a 1 CAP b 2", "$1"),
        ("SESSION.OPEN ID t ID u", "-INVALID give SESSION.OPEN "),
        ("SESSION.OPEN ID t LEASE 1000 CAP a 1 LEASE 1000", "-INVALID give SESSION.OPEN "),
        ("SESSION.PENDING s AFTER 1 AFTER 2", "-INVALID give SESSION.PENDING "),
        ("SESSION.PENDING s LIMIT 1 AFTER 1 LIMIT 1", "-INVALID "),
        ("SESSION.RETRY 1 LIMIT 1 LIMIT 1", "-INVALID "),
        ("SESSION.KEEPALIVE s LOWEST 1 LOWEST 1", "-INVALID "),
        ("SESSION.LIST AFTER a LIMIT 1 AFTER b", "-INVALID give SESSION.LIST "),
        ("SESSION.LIST LIMIT 1 LIMIT 2", "-INVALID "),
        ("SESSION.LIST INFO INFO", "-INVALID "),
        ("SESSION.LIST", r"*1\r\n$1\r\ns\r\n"),
    ]);
}

/// A number is for one request. The answer of another one is none to this.
#[test]
fn a_number_that_was_used_for_something_else_is_told_so() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s", "$1"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        (
            "SESSION.DO s 1 LOWEST 1 HGETALL h",
            "-INVALID request 1 of session `s` was another command",
        ),
        ("SESSION.DO s 1 LOWEST 1 DEL a", "-INVALID request 1 "),
        ("SESSION.DO s 2 LOWEST 1 DEL a b c", r":0\r\n"),
        ("SESSION.DO s 2 LOWEST 1 INCR n", "-INVALID request 2 "),
        ("MULTI", r"+OK\r\n"),
        ("INCR n", r"+QUEUED\r\n"),
        ("GET n", r"+QUEUED\r\n"),
        ("SESSION.EXEC s 1 LOWEST 1", "-INVALID request 1 "),
        ("MULTI", r"+OK\r\n"),
        ("HGETALL h", r"+QUEUED\r\n"),
        ("SESSION.EXEC s 1 LOWEST 1", "-INVALID request 1 "),
        ("GET n", r"$1\r\n1\r\n"),
        // It was answered the first time, so it is answered now.
        ("SESSION.DO s 1 LOWEST 1 INCR other", r":1\r\n"),
        ("EXISTS other a h", r":0\r\n"),
    ]);
}

#[test]
fn a_response_that_is_too_large_aborts_and_that_is_kept() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s");
    client.call(&["SET", "big", &"x".repeat(mainstay::KEPT_LIMIT_BYTES + 1)]);
    let reply = client.line("SESSION.DO s 1 LOWEST 1 GETSET big small");
    assert!(reply.starts_with("-TOOLARGE "), "{reply}");
    assert_eq!(client.line("STRLEN big"), format!(r":{}\r\n", mainstay::KEPT_LIMIT_BYTES + 1));
    client.line("SET big small");
    assert_eq!(client.line("SESSION.DO s 1 LOWEST 1 GETSET big small"), reply);
}

#[test]
fn the_oldest_answers_go_when_there_are_too_many() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s");
    let count = mainstay::KEPT_LIMIT + 5;
    let all: Vec<u8> = (1..=count)
        .flat_map(|n| {
            support::encode(&["SESSION.DO", "s", &n.to_string(), "LOWEST", "1", "INCR", "n"])
        })
        .collect();
    client.send_bytes(&all);
    for n in 1..=count {
        assert_eq!(client.receive(), format!(r":{n}\r\n"));
    }
    assert!(client.line("SESSION.DO s 5 LOWEST 1 INCR n").starts_with("-EVICTED "));
    assert_eq!(client.line("SESSION.DO s 6 LOWEST 1 INCR n"), r":6\r\n");
    assert_eq!(client.line("GET n"), format!(r"${}\r\n{count}\r\n", count.to_string().len()));
}

#[test]
fn what_multi_keeps_is_done_once() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s", "$1"),
        ("MULTI", r"+OK\r\n"),
        ("INCR n", r"+QUEUED\r\n"),
        ("HSET h f v", r"+QUEUED\r\n"),
        ("STATE.PUT sp k v VERSION 1", r"+QUEUED\r\n"),
        ("SESSION.SEND s hello", r"+QUEUED\r\n"),
        ("LPUSH", "-ERR unknown command"),
        ("SESSION.EXEC s 1 LOWEST 1", "-EXECABORT "),
        ("EXISTS n h", r":0\r\n"),
        // Nothing of it was kept.
        ("MULTI", r"+OK\r\n"),
        ("INCR n", r"+QUEUED\r\n"),
        ("HINCRBY h f x", r"+QUEUED\r\n"),
        ("HSET h f v", r"+QUEUED\r\n"),
        ("HINCRBY h f 1", r"+QUEUED\r\n"),
        ("SESSION.SEND s hello", r"+QUEUED\r\n"),
        (
            "SESSION.EXEC s 1 LOWEST 1",
            r"*5\r\n:1\r\n-ERR value is not an integer or out of range\r\n:1\r\n-ERR hash value is not an integer\r\n:1\r\n",
        ),
        // The connection was lost, so it is all said again.
        ("MULTI", r"+OK\r\n"),
        ("INCR n", r"+QUEUED\r\n"),
        ("HINCRBY h f x", r"+QUEUED\r\n"),
        ("HSET h f v", r"+QUEUED\r\n"),
        ("HINCRBY h f 1", r"+QUEUED\r\n"),
        ("SESSION.SEND s hello", r"+QUEUED\r\n"),
        (
            "SESSION.EXEC s 1 LOWEST 1",
            r"*5\r\n:1\r\n-ERR value is not an integer or out of range\r\n:1\r\n-ERR hash value is not an integer\r\n:1\r\n",
        ),
        ("GET n", r"$1\r\n1\r\n"),
        ("SESSION.PENDING s", r"*1\r\n"),
        // It is over, so these are no part of it.
        ("INCR n", r":2\r\n"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", r"+OK\r\n"),
        ("SESSION.EXEC s 2 LOWEST 1", r"*0\r\n"),
        ("MULTI", r"+OK\r\n"),
        ("INCR n", r"+QUEUED\r\n"),
        ("SESSION.EXEC nobody 2 LOWEST 1", "-SESSIONEXPIRED "),
        ("SESSION.EXEC s 3 LOWEST 1", "-ERR SESSION.EXEC without MULTI"),
        ("GET n", r"$1\r\n2\r\n"),
    ]);
}

/// A command that fails inside of EXEC does not stop the others, also where it is about a session that is gone.
#[test]
fn a_session_that_is_not_there_stops_no_command_beside() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s", "$1"),
        ("SESSION.ACK nobody 1", "-SESSIONEXPIRED "),
        ("SESSION.PENDING nobody", "-SESSIONEXPIRED "),
        ("MULTI", r"+OK\r\n"),
        ("INCR z", r"+QUEUED\r\n"),
        ("SESSION.ACK nobody 1", r"+QUEUED\r\n"),
        ("EXEC", r"*2\r\n:1\r\n-SESSIONEXPIRED there is no session `nobody`"),
        ("MULTI", r"+OK\r\n"),
        ("SESSION.PENDING nobody", r"+QUEUED\r\n"),
        ("INCR z", r"+QUEUED\r\n"),
        ("EXEC", r"*2\r\n-SESSIONEXPIRED there is no session `nobody`"),
        ("GET z", r"$1\r\n2\r\n"),
        // With an order among them it is another way to the same.
        ("MULTI", r"+OK\r\n"),
        ("LOCK.TAKE l OWNER o LEASE 1000", r"+QUEUED\r\n"),
        ("SESSION.ACK nobody 1", r"+QUEUED\r\n"),
        ("INCR z", r"+QUEUED\r\n"),
        ("EXEC", r"*3\r\n"),
        ("GET z", r"$1\r\n3\r\n"),
        // In a session, whose client must not take it for its own.
        ("MULTI", r"+OK\r\n"),
        ("INCR z", r"+QUEUED\r\n"),
        ("SESSION.ACK nobody 1", r"+QUEUED\r\n"),
        ("SESSION.EXEC s 1 LOWEST 1", r"*2\r\n:4\r\n-NOTFOUND there is no session `nobody`"),
        ("SESSION.OPEN ID nobody", "$6"),
        ("MULTI", r"+OK\r\n"),
        ("INCR z", r"+QUEUED\r\n"),
        ("SESSION.ACK nobody 1", r"+QUEUED\r\n"),
        ("SESSION.EXEC s 1 LOWEST 1", r"*2\r\n:4\r\n-NOTFOUND there is no session `nobody`"),
        ("SESSION.DO s 2 LOWEST 1 SESSION.ACK another 1", "-NOTFOUND "),
        ("GET z", r"$1\r\n4\r\n"),
    ]);
}

#[test]
fn what_is_watched_decides_once() {
    let ours = Ours::start();
    let (mut client, mut other) = (ours.client(), ours.client());
    client.line("SESSION.OPEN ID s");
    let mut attempt = |number: u64, meddles: bool, expected: &str| {
        assert_eq!(client.line("WATCH k"), r"+OK\r\n");
        if meddles {
            other.line("INCR k");
        }
        client.line("MULTI");
        client.line("INCR n");
        assert_eq!(client.line(&format!("SESSION.EXEC s {number} LOWEST 1")), expected);
    };
    attempt(1, true, r"*-1\r\n");
    // That nothing was done is the answer, for good.
    attempt(1, false, r"*-1\r\n");
    attempt(2, false, r"*1\r\n:1\r\n");
    attempt(2, true, r"*1\r\n:1\r\n");
    assert_eq!(client.line("GET n"), r"$1\r\n1\r\n");
}

#[test]
fn what_is_no_part_of_the_transaction_is_not_executed_once() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s");
    for line in ["PING", "TIME", "CELL.GET n REV 1", "JOB.SUBMIT email 1", "KEYS *"] {
        client.line("MULTI");
        client.line("INCR n");
        let queued = client.line(line);
        let reply = client.line("SESSION.EXEC s 1 LOWEST 1");
        assert!(reply.starts_with("-ERR ") || queued.starts_with("-ERR "), "{line}: {reply}");
        assert!(client.line("EXEC").starts_with("-ERR EXEC without MULTI"));
    }
    assert_eq!(client.line("EXISTS n"), r":0\r\n");
    assert_eq!(info(&mut client, "s")["next_request"], 1);
}

#[test]
fn what_stands_where_in_transactions() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s", "$1"),
        ("MULTI", r"+OK\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", "-ERR SESSION.DO is not for inside MULTI"),
        ("EXEC", "-EXECABORT "),
        ("MULTI", r"+OK\r\n"),
        ("SESSION.OPEN", "-ERR SESSION.OPEN is not for inside MULTI"),
        ("SESSION.CLOSE s", "-ERR "),
        ("SESSION.KEEPALIVE s", "-ERR "),
        ("SESSION.RETRY 1", "-ERR "),
        ("DISCARD", r"+OK\r\n"),
        ("MULTI", r"+OK\r\n"),
        ("SESSION.SEND s a", r"+QUEUED\r\n"),
        ("SESSION.SEND nobody a", r"+QUEUED\r\n"),
        ("SESSION.PENDING s", r"+QUEUED\r\n"),
        ("SESSION.ACK s 1", r"+QUEUED\r\n"),
        ("INCR n", r"+QUEUED\r\n"),
        ("EXEC", r"*5\r\n:1\r\n$-1\r\n*1\r\n*2\r\n:1\r\n$1\r\na\r\n:1\r\n:1\r\n"),
        ("TXN.BEGIN", r"+OK\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", "-ERR SESSION.DO is not for inside a transaction"),
        ("SESSION.OPEN", "-ERR SESSION.OPEN is not for inside a transaction"),
        ("SESSION.KEEPALIVE s", "-ERR "),
        ("SESSION.CLOSE s", "-ERR "),
        ("SESSION.RETRY 1", "-ERR "),
        ("SESSION.INFO s", "-ERR SESSION.INFO is not for inside a transaction"),
        ("SESSION.PENDING s", "-ERR "),
        ("SESSION.LIST", "-ERR "),
        ("SESSION.EXEC s 1 LOWEST 1", "-ERR "),
        ("SESSION.SEND s b", r":2\r\n"),
        ("INCR n", r":2\r\n"),
        ("TXN.ROLLBACK", r"+OK\r\n"),
        ("SESSION.PENDING s", r"*0\r\n"),
        ("TXN.BEGIN", r"+OK\r\n"),
        ("SESSION.SEND s b", r":2\r\n"),
        ("SESSION.ACK s 2", r":1\r\n"),
        ("TXN.COMMIT", r":"),
        ("SESSION.PENDING s", r"*0\r\n"),
        ("SESSION.DO s 1 LOWEST 1 SESSION.SEND s c", r":3\r\n"),
        ("SESSION.DO s 1 LOWEST 1 SESSION.SEND s c", r":3\r\n"),
        ("SESSION.PENDING s", r"*1\r\n*2\r\n:3\r\n$1\r\nc\r\n"),
    ]);
}

#[test]
fn a_request_runs_where_its_connection_stands() {
    let ours = Ours::start();
    let mut client = ours.client();
    answers(
        &mut client,
        &[
            ("SESSION.OPEN ID s", "$1"),
            ("SESSION.DO s 1 LOWEST 1 SET a main", r"+OK\r\n"),
            ("BRANCH.FORK b", ":"),
            ("BRANCH.USE b", r"+OK\r\n"),
            ("DURABILITY MEMORY", r"+OK\r\n"),
            ("SESSION.DO s 2 LOWEST 1 SET a fork", r"+OK\r\n"),
            ("GET a", r"$4\r\nfork\r\n"),
            ("BRANCH.USE main", r"+OK\r\n"),
            ("GET a", r"$4\r\nmain\r\n"),
            // Its answer is kept for the session, not for the branch.
            ("SESSION.DO s 2 LOWEST 1 SET a fork", r"+OK\r\n"),
            ("GET a", r"$4\r\nmain\r\n"),
        ],
    );
}

/// A change of branches is one transaction, too.
#[test]
fn branches_are_changed_once() {
    let ours = Ours::start();
    let mut client = ours.client();
    const LINES: &[(&str, &str)] = &[
        ("BRANCH.FORK b", ":"),
        ("BRANCH.FORK b", "-EXISTS "),
        ("BRANCH.FORK old FROM main REV 1", r":1\r\n"),
        ("BRANCH.FORK early REV 0", r":0\r\n"),
        ("BRANCH.FORK late REV 99999", "-INVALID "),
        ("BRANCH.RENAME b c", r"+OK\r\n"),
        ("BRANCH.RENAME b c", "-NOTFOUND "),
        ("BRANCH.MERGE c main", "-CONFLICT a"),
        ("BRANCH.MERGE c main THEIRS", ":"),
        ("TAG.SET t", ":"),
        ("TAG.SET t", "-EXISTS "),
        ("TAG.DEL t", r":1\r\n"),
        ("TAG.DEL t", r":0\r\n"),
        ("BRANCH.DELETE main", "-INVALID "),
        ("BRANCH.DELETE c", r":1\r\n"),
        ("BRANCH.DELETE c", r":0\r\n"),
    ];
    client.line("SET a 1");
    client.line("SESSION.OPEN ID s");
    let ask = |client: &mut Client, number: usize, line: &str| {
        client.line(&format!("SESSION.DO s {number} LOWEST 1 {line}"))
    };
    let mut first = Vec::new();
    for (number, (line, expected)) in (1..).zip(LINES) {
        let reply = ask(&mut client, number, line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
        first.push(reply);
        if number == 1 {
            answers(
                &mut client,
                &[("SET a 2", "+OK"), ("BRANCH.USE b", "+OK"), ("SET a 3", "+OK")],
            );
            client.line("BRANCH.USE main");
        }
    }
    let revision = client.line("REVISION");
    for (number, ((line, _), first)) in (1..).zip(LINES.iter().zip(first)) {
        assert_eq!(ask(&mut client, number, line), first, "{line}");
    }
    assert_eq!(client.line("REVISION"), revision, "nothing was executed");
    answers(
        &mut client,
        &[
            ("GET a", r"$1\r\n3\r\n"),
            ("SESSION.DO s 1 LOWEST 1 BRANCH.RENAME main x", "-INVALID request 1 "),
            ("SESSION.DO s 1 LOWEST 1 INCR a", "-INVALID request 1 "),
            ("SESSION.DO s 17 LOWEST 1 BRANCH.FORK x AT 1", "-ERR SESSION.DO takes a revision"),
            ("SESSION.DO s 17 LOWEST 1 TAG.SET x AT 1", "-ERR SESSION.DO takes a revision"),
            ("SESSION.DO s 17 LOWEST 1 BRANCH.FORK", "-ERR wrong number of arguments"),
            ("SESSION.DO s 17 LOWEST 1 BRANCH.FORK x FROM", "-ERR syntax error"),
            ("BRANCH.LIST", r"*3\r\n$5\r\nearly\r\n$4\r\nmain\r\n$3\r\nold\r\n"),
            ("TXN.BEGIN", "+OK"),
            ("BRANCH.FORK x", "-ERR BRANCH.FORK is not for inside a transaction"),
            ("TXN.ROLLBACK", "+OK"),
            ("MULTI", "+OK"),
            ("BRANCH.FORK x", "-ERR BRANCH.FORK is not for inside MULTI"),
            ("DISCARD", "+OK"),
        ],
    );
}

/// Whatever connection it comes over, and however many at once: one effect, one answer.
#[test]
fn many_connections_send_the_same_requests() {
    let ours = Ours::start();
    ours.client().line("SESSION.OPEN ID s");
    let ask = || {
        let mut client = ours.client();
        (1..=200)
            .map(|n| client.line(&format!("SESSION.DO s {n} LOWEST 1 INCR n")))
            .collect::<Vec<_>>()
    };
    let all: Vec<Vec<String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for replies in &all {
        assert_eq!(replies, &all[0]);
    }
    assert_eq!(ours.client().line("GET n"), r"$3\r\n200\r\n");
}

#[test]
fn a_session_ends_when_its_client_is_silent() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s LEASE 50");
    client.line("SESSION.SEND s x");
    // A hang if it never does.
    while client.line("SESSION.INFO s") != r"$-1\r\n" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(client.line("SESSION.DO s 1 LOWEST 1 INCR n").starts_with("-SESSIONEXPIRED "));
    assert!(client.line("SESSION.PENDING s").starts_with("-SESSIONEXPIRED "));
    assert_eq!(client.line("SESSION.LIST"), r"*0\r\n");
    assert_eq!(client.line("EXISTS n"), r":0\r\n");
}

#[test]
fn the_feed_tells_of_sessions() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SESSION.OPEN ID s");
    client.line("SESSION.SEND s x");
    client.line("SESSION.CLOSE s");
    // A hang if it never does.
    let mut told = String::new();
    while !told.contains("closed") {
        told = client.line("FEED.READ PREFIX s WAIT 1000");
    }
    for kind in ["opened", "sent", "closed"] {
        let row = format!(r"$0\r\n\r\n$8\r\nsessions\r\n$1\r\ns\r\n${}\r\n{kind}\r\n", kind.len());
        assert!(told.contains(&row), "{kind}: {told}");
    }
}

#[test]
fn the_tables_of_commands_have_them() {
    let ours = Ours::start();
    let mut client = ours.client();
    let about = client.line("COMMAND INFO SESSION.DO");
    assert!(about.contains("@sessions") && about.contains("write"), "{about}");
    let docs = client.line("COMMAND DOCS SESSION.EXEC");
    assert!(docs.contains("id request LOWEST n"), "{docs}");
    assert!(client.line("COMMAND LIST").contains("session.keepalive"));
}
