//! Session requests: executed once, and a repeat gets the same bytes.

use super::*;

#[test]
fn a_command_is_done_once_and_a_repeat_is_answered_the_same() {
    answers_as_written_down(&[
        ("SESSION.OPEN ID s", r"$1\r\ns\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        ("session.do s 2 lowest 1 incr n", r":2\r\n"),
        ("SESSION.DO s 1 LOWEST 1 INCR n", r":1\r\n"),
        ("GET n", r"$1\r\n2\r\n"),
        // Numbers need not be in order.
        ("SESSION.DO s 9 LOWEST 1 SET a x", r"+OK\r\n"),
        ("SESSION.DO s 5 LOWEST 1 APPEND a y", r":2\r\n"),
        ("SESSION.DO s 5 LOWEST 1 APPEND a y", r":2\r\n"),
        // The value at the first execution, not the present one.
        ("SESSION.DO s 10 LOWEST 1 GET a", r"$2\r\nxy\r\n"),
        ("SET a z", r"+OK\r\n"),
        ("SESSION.DO s 10 LOWEST 1 GET a", r"$2\r\nxy\r\n"),
        // An error is an answer too.
        ("SESSION.DO s 11 LOWEST 1 INCR a", "-ERR value is not an integer"),
        ("SET a 1", r"+OK\r\n"),
        ("SESSION.DO s 11 LOWEST 1 INCR a", "-ERR value is not an integer"),
        ("GET a", r"$1\r\n1\r\n"),
        // Answers that the client has received may be removed.
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
        // In the next session with the same name, numbers start above those that may still be in transit.
        ("SESSION.OPEN ID s", r"$1\r\ns\r\n"),
        ("SESSION.DO s 12 LOWEST 1 INCR a", "-EVICTED "),
        ("SESSION.DO s 1012 LOWEST 1 INCR a", "-EVICTED "),
        ("SESSION.DO s 1013 LOWEST 1013 INCR a", r":3\r\n"),
    ]);
}

/// Every kind of reply, in both protocols: a repeat has the same bytes, even if all keys behind it are
/// gone.
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
