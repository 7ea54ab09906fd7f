//! Session requests that are transactions, on branches, and concurrent with others.

use super::*;

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
        // Nothing of it was stored.
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
        // The connection was lost, so the client sends everything again.
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
        // `MULTI` has ended, so these commands are not part of it.
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

/// A command that fails inside EXEC does not stop the others, also if its session does not exist.
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
        // With a job command in the queue, EXEC runs in a different way with the same result.
        ("MULTI", r"+OK\r\n"),
        ("LOCK.TAKE l OWNER o LEASE 1000", r"+QUEUED\r\n"),
        ("SESSION.ACK nobody 1", r"+QUEUED\r\n"),
        ("INCR z", r"+QUEUED\r\n"),
        ("EXEC", r"*3\r\n"),
        ("GET z", r"$1\r\n3\r\n"),
        // In a session request, the client must not take this error for its own session.
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
    let mut client = ours.client();
    let mut other = ours.client();
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
    // That nothing was executed is the final answer.
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
    for line in ["PING", "TIME", "CELL.GET n REV 1", "JOB.SUBMIT email 1", "SCAN 0", "REVISION"] {
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
            // The answer is stored for the session, not for the branch.
            ("SESSION.DO s 2 LOWEST 1 SET a fork", r"+OK\r\n"),
            ("GET a", r"$4\r\nmain\r\n"),
        ],
    );
}

/// A change of branches is one transaction too.
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
