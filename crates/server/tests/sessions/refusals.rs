//! Rejected session requests, limits, and stored answers.

use super::*;

/// Every data command that is one transaction can be a session request. A further command either can too,
/// or is rejected with the reason.
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
        "SCAN 0",
        "REC.INDEX LIST",
        "HELLO 3",
        "AUTH x",
        "QUIT",
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

/// A number belongs to one request. The answer of another request does not fit this one.
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
        // A stored answer of the same kind is returned, because it was the answer to this number.
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
