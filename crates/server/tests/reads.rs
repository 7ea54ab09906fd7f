//! Every read in a transaction uses its snapshot, sees the transaction's own writes and is guarded, or it
//! is rejected by name.
//!
//! The commands come from the command table of the server. A new read command fails here until it is added
//! to one of the lists.

mod support;

use std::collections::BTreeSet;
use support::{Client, Ours};

struct Read {
    /// Lines that prepare the state.
    before: &'static [&'static str],
    read: &'static str,
    /// A write of the same transaction that changes the answer.
    own: &'static str,
    /// A write of another client that changes the answer.
    other: &'static str,
}

const fn read(
    before: &'static [&'static str],
    read: &'static str,
    own: &'static str,
    other: &'static str,
) -> Read {
    Read { before, read, own, other }
}

const A_HASH: &[&str] = &["HSET h a 1"];
const A_SPACE: &[&str] = &["STATE.PUT s a 1 VERSION 1"];
const A_RUN: &[&str] = &["RUN.APPEND r RunStarted 1 PLAN 1"];
const A_JOB: &[&str] = &["JOB.SUBMIT t a"];

/// Reads that follow the rule.
const READS: &[Read] = &[
    read(&["SET k 1"], "GET k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&["SET k 1"], "MGET k l", "CELL.SET l 2", "CELL.SET l 3"),
    read(&["SET k 1"], "STRLEN k", "CELL.SET k 22", "CELL.SET k 333"),
    read(&[], "EXISTS k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&[], "TOUCH k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&[], "TYPE k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&["SET k 1"], "TTL k", "SET k 2 EXAT 33333333333", "SET k 3 EXAT 44444444444"),
    read(&["SET k 1"], "PTTL k", "SET k 2 EXAT 33333333333", "SET k 3 EXAT 44444444444"),
    read(&["SET k 1"], "EXPIRETIME k", "SET k 2 EXAT 33333333333", "SET k 3 EXAT 44444444444"),
    read(&["SET k 1"], "PEXPIRETIME k", "SET k 2 EXAT 33333333333", "SET k 3 EXAT 44444444444"),
    read(&["SET k 1"], "SCAN 0", "CELL.SET l 2", "CELL.SET m 3"),
    read(&["SET k 1"], "KEYS *", "REC.SET l FIELDS a 2", "CELL.SET m 3"),
    read(&[], "RANDOMKEY", "CELL.SET l 2", "CELL.SET m 3"),
    read(&["SET k 1"], "DBSIZE", "CELL.SET l 2", "REC.SET m FIELDS a 3"),
    read(&["SET k 1"], "CELL.GET k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&["SET k 1"], "CELL.GETV k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&["SET k 1"], "CELL.HISTORY k", "CELL.SET k 2", "CELL.SET k 3"),
    read(&["SET k 1"], "CELL.LIST", "CELL.SET l 2", "CELL.SET m 3"),
    read(A_HASH, "HGET h a", "REC.SET h FIELDS a 2", "REC.SET h FIELDS a 3"),
    read(A_HASH, "HMGET h a b", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "HGETALL h", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "HKEYS h", "REC.SET h FIELDS b 2", "REC.SET h FIELDS c 3"),
    read(A_HASH, "HVALS h", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "HLEN h", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "HEXISTS h b", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "HSTRLEN h a", "REC.SET h FIELDS a 22", "REC.SET h FIELDS a 333"),
    read(&[], "HRANDFIELD h", "REC.SET h FIELDS a 2", "REC.SET h FIELDS a 3"),
    read(A_HASH, "HSCAN h 0", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "REC.GET h", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "REC.HISTORY h", "REC.SET h FIELDS b 2", "REC.SET h FIELDS b 3"),
    read(A_HASH, "REC.SCAN h", "REC.SET ha FIELDS b 2", "REC.SET hb FIELDS b 3"),
    read(A_HASH, "REC.COUNT h", "REC.SET ha FIELDS b 2", "REC.SET hb FIELDS b 3"),
    read(A_JOB, "JOB.GET t a", "JOB.CANCEL t a", "JOB.CLAIM t WORKER w"),
    read(A_JOB, "JOB.LIST t", "JOB.SUBMIT t b", "JOB.SUBMIT t c"),
    read(A_JOB, "JOB.COUNT t", "JOB.SUBMIT t b", "JOB.SUBMIT t c"),
    read(A_JOB, "JOB.HISTORY t a", "JOB.CANCEL t a", "JOB.CLAIM t WORKER w"),
    read(A_JOB, "LOCK.GET l", "LOCK.TAKE l OWNER o LEASE 60000", "LOCK.TAKE l OWNER p LEASE 60000"),
    read(A_RUN, "RUN.FETCH r", "RUN.APPEND r A 1 KEY a", "RUN.APPEND r B 1 KEY b"),
    read(A_RUN, "RUN.TAIL r", "RUN.APPEND r A 1 KEY a", "RUN.APPEND r B 1 KEY b"),
    read(A_RUN, "RUN.SNAPSHOT r", "RUN.APPEND r A 1 KEY a", "RUN.APPEND r B 1 KEY b"),
    read(A_RUN, "RUN.PROJECT r", "RUN.APPEND r A 1 KEY a", "RUN.APPEND r B 1 KEY b"),
    read(A_RUN, "RUN.INFO r", "RUN.APPEND r A 1 KEY a", "RUN.APPEND r B 1 KEY b"),
    read(
        A_RUN,
        "RUN.ALERTS r",
        "RUN.APPEND r RunResumed 1 KEY a",
        "RUN.APPEND r RunResumed 1 KEY b",
    ),
    read(A_RUN, "RUN.REVISION r 2", "RUN.APPEND r A 1 KEY a", "RUN.APPEND r B 1 KEY b"),
    read(A_RUN, "RUN.LIST", "RUN.APPEND q A 1 KEY a", "RUN.APPEND p B 1 KEY b"),
    read(A_SPACE, "STATE.GET s a", "STATE.PUT s a 2 VERSION 2", "STATE.PUT s a 3 VERSION 3"),
    read(A_SPACE, "STATE.LIST s", "STATE.PUT s b 2 VERSION 2", "STATE.PUT s c 3 VERSION 3"),
    read(A_SPACE, "STATE.SCAN s", "STATE.PUT s b 2 VERSION 2", "STATE.PUT s c 3 VERSION 3"),
    read(A_SPACE, "STATE.ITEMS s l", "STATE.APPEND s l 1 x", "STATE.APPEND s l 2 y"),
    read(A_SPACE, "STATE.POSITIONS s", "STATE.ADVANCE s o 1", "STATE.ADVANCE s p 1"),
    read(A_SPACE, "STATE.INFO t", "STATE.PUT t b 2 VERSION 2", "STATE.PUT t c 3 VERSION 3"),
    read(A_SPACE, "STATE.SPACES", "STATE.PUT t b 2 VERSION 2", "STATE.PUT u c 3 VERSION 3"),
    read(A_SPACE, "STATE.SNAPSHOT s", "STATE.PUT s b 2 VERSION 2", "STATE.PUT s c 3 VERSION 3"),
    read(
        &["STATE.CREATE s ORDERED"],
        "STATE.WAITING s",
        "STATE.PUT s b 2 VERSION 2",
        "STATE.PUT s c 3 VERSION 3",
    ),
];

/// Reads of state that only the writer thread knows: rejected in `TXN`, and correct in `EXEC`.
const READS_OF_THE_WRITER: &[(&[&str], &str, &str)] = &[
    (&[], "OUTBOX.STATE", "OUTBOX.PUT s p"),
    (&[], "OUTBOX.DEAD", "OUTBOX.PUT s p"),
    (&["SESSION.OPEN ID x"], "SESSION.PENDING x", "SESSION.SEND x hello"),
    (&["SESSION.OPEN ID x"], "SESSION.INFO x", "SESSION.SEND x hello"),
    (&["SESSION.OPEN ID x"], "SESSION.LIST", "SESSION.SEND x hello"),
];

/// Reads that cannot be part of any transaction, and are rejected.
const REFUSED: &[&str] = &[
    "JOB.DATA t a",
    "JOB.RESULT t a",
    "REC.EXPLAIN p",
    "BRANCH.LIST",
    "BRANCH.INFO main",
    "BRANCH.DIFF main main",
    "BRANCH.USE main",
    "TAG.LIST",
    "FEED.READ",
    "FEED.WATCH",
    "WIRE.READ x",
    "WIRE.FEED x",
];

/// Commands that read no data.
const WITHOUT_DATA: &[&str] = &[
    "ping",
    "echo",
    "hello",
    "select",
    "quit",
    "reset",
    "client",
    "command",
    "config",
    "time",
    "durability",
    "info",
    "slowlog",
    "auth",
    "acl",
    "multi",
    "exec",
    "discard",
    "watch",
    "unwatch",
    "txn.begin",
    "txn.commit",
    "txn.rollback",
    "run.key",
    "revision",
];

fn name_of(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_lowercase()
}

/// Starts a server with the state prepared, and connects a client.
fn world(before: &[&str]) -> (Ours, Client) {
    let ours = Ours::unswept();
    let mut client = ours.client();
    for line in before {
        let reply = client.line(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    (ours, client)
}

#[test]
fn every_command_that_does_not_write_has_a_row() {
    let ours = Ours::start();
    let mut client = ours.client();
    let listed = client.line("COMMAND LIST");
    let names: Vec<&str> = listed
        .split(r"\r\n")
        .filter(|part| !part.is_empty() && !part.starts_with(['*', '$']))
        .collect();
    assert!(names.len() > 150, "{listed}");
    let rows = READS.iter().map(|row| row.read);
    let rows =
        rows.chain(READS_OF_THE_WRITER.iter().map(|row| row.1)).chain(REFUSED.iter().copied());
    let mut known: BTreeSet<String> = rows.map(name_of).collect();
    known.extend(WITHOUT_DATA.iter().map(|name| (*name).to_owned()));
    for name in names {
        let is_read = client.line(&format!("COMMAND INFO {name}")).contains("+readonly");
        assert!(
            !is_read || known.contains(name),
            "`{name}` reads, and no row says how it does so in a transaction"
        );
    }
}

#[test]
fn a_read_in_txn_is_of_the_snapshot_sees_own_writes_and_is_guarded() {
    for Read { before, read, own, other } in READS {
        let (ours, mut client) = world(before);
        assert_eq!(client.line("TXN.BEGIN"), r"+OK\r\n");
        let first = client.line(read);
        assert!(!first.starts_with('-'), "{read}: {first}");
        let written = ours.client().line(other);
        assert!(!written.starts_with('-'), "{other}: {written}");
        assert_eq!(client.line(read), first, "{read}: the snapshot");
        let written = client.line(own);
        assert!(!written.starts_with('-'), "{own}: {written}");
        assert_ne!(client.line(read), first, "{read}: its own writes");
        let committed = client.line("TXN.COMMIT");
        assert!(committed.starts_with("-CONFLICT "), "{read}: the guard: {committed}");
    }
}

/// Some of the writes above read the changed key themselves. Here only the read can cause the conflict.
#[test]
fn a_read_in_txn_alone_is_reason_enough_for_a_conflict() {
    for Read { before, read, other, .. } in READS {
        for reads in [true, false] {
            let (ours, mut client) = world(before);
            client.line("TXN.BEGIN");
            if reads {
                client.line(read);
            }
            let written = ours.client().line(other);
            assert!(!written.starts_with('-'), "{other}: {written}");
            client.line("CELL.SET apart 1");
            let committed = client.line("TXN.COMMIT");
            let expected = if reads { "-CONFLICT " } else { ":" };
            assert!(committed.starts_with(expected), "{read}, {reads}: {committed}");
        }
    }
}

#[test]
fn a_read_in_txn_that_nobody_disturbs_commits() {
    for Read { before, read, own, .. } in READS {
        let (_ours, mut client) = world(before);
        for line in ["TXN.BEGIN", read, own, read] {
            let reply = client.line(line);
            assert!(!reply.starts_with('-'), "{read}: {line}: {reply}");
        }
        let committed = client.line("TXN.COMMIT");
        assert!(committed.starts_with(':'), "{read}: {committed}");
    }
}

/// Returns the equivalent read outside transactions, where `RUN.TAIL` waits for durable events.
fn outside(read: &str) -> String {
    read.replace("RUN.TAIL", "RUN.FETCH")
}

/// Returns the reply of `EXEC` for a write followed by a read.
fn in_exec(client: &mut Client, own: &str, read: &str) -> String {
    for line in ["MULTI", own, read] {
        let reply = client.line(line);
        assert!(!reply.starts_with('-'), "{read}: {line}: {reply}");
    }
    client.line("EXEC")
}

/// An answer in `EXEC` is final, including revisions, timestamps and counters.
#[test]
fn a_read_in_exec_sees_what_stands_before_it_as_it_is_afterwards() {
    for Read { before, read, own, .. } in READS {
        let (_ours, mut client) = world(before);
        let first = client.line(&outside(read));
        let done = in_exec(&mut client, own, read);
        let after = client.line(&outside(read));
        assert_ne!(after, first, "{read}");
        match *read {
            // Time passes between the two reads.
            "TTL k" | "PTTL k" => assert!(!done.ends_with(r":-1\r\n"), "{read}: {done}"),
            _ => assert!(done.ends_with(&after), "{read}: {done} and then {after}"),
        }
    }
}

#[test]
fn what_the_writer_alone_sees_is_refused_in_txn_and_right_in_exec() {
    for (before, read, own) in READS_OF_THE_WRITER {
        let (_ours, mut client) = world(before);
        let done = in_exec(&mut client, own, read);
        assert!(done.ends_with(&client.line(read)), "{read}: {done}");
        client.line("TXN.BEGIN");
        refused(&mut client, read);
    }
}

fn refused(client: &mut Client, line: &str) {
    let reply = client.line(line);
    let name = name_of(line).to_uppercase();
    assert!(reply.starts_with("-ERR ") && reply.contains(&name), "{line}: {reply}");
}

#[test]
fn what_cannot_obey_is_refused_by_name() {
    for line in REFUSED {
        let (_ours, mut client) = world(&["HELLO 3"]);
        client.line("MULTI");
        refused(&mut client, line);
        assert!(client.line("EXEC").starts_with("-EXECABORT"), "{line}");
        client.line("TXN.BEGIN");
        refused(&mut client, line);
        client.line("TXN.ROLLBACK");
        client.line("SESSION.OPEN ID s");
        refused(&mut client, &format!("SESSION.DO s 1 LOWEST 1 {line}"));
    }
}

#[test]
fn a_read_in_a_request_of_a_session_is_the_same_or_refused_by_name() {
    for Read { before, read, .. } in READS {
        let (_ours, mut client) = world(before);
        client.line("SESSION.OPEN ID s");
        let done = client.line(&format!("SESSION.DO s 1 LOWEST 1 {read}"));
        match name_of(read).as_str() {
            // Its reply differs each time.
            "scan" => assert!(done.contains("SCAN is no part of one"), "{done}"),
            _ => assert_eq!(done, client.line(&outside(read)), "{read}"),
        }
    }
}

#[test]
fn time_stands_still_in_a_transaction() {
    let (_ours, mut client) = world(&["SET k 1 PX 3600000", "HSET h a 1", "PEXPIRE h 3600000"]);
    client.line("TXN.BEGIN");
    let lines = ["PTTL k", "PTTL h", "REC.GET h", "TIME"];
    let first = lines.map(|line| client.line(line));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(lines.map(|line| client.line(line)), first);
    client.line("TXN.ROLLBACK");
    assert_ne!(client.line("TIME"), first[3]);
    client.line("MULTI");
    (0..500).for_each(|_| drop(client.line("TIME")));
    let done = client.line("EXEC");
    let mut times = done.split("*2").skip(1);
    let first = times.next().unwrap();
    assert_eq!(times.filter(|time| *time == first).count(), 499);
}

#[test]
fn the_revision_in_exec_is_the_one_that_it_gets() {
    let (ours, mut client) = world(&["SET k 1"]);
    let done = in_exec(&mut client, "CELL.SET k 2", "REVISION");
    assert_eq!(done, format!(r"*2\r\n:2\r\n:{}\r\n", ours.db.revision()));
    client.line("TXN.BEGIN");
    let begun = client.line("REVISION");
    ours.client().line("SET other 1");
    assert_eq!(client.line("REVISION"), begun, "that of the snapshot");
}

#[test]
fn flushdb_in_multi_is_all_or_nothing() {
    let (ours, mut client) = world(&["MSET a 1 b 2", "HSET h f 1"]);
    for line in ["MULTI", "SET c 3", "FLUSHDB", "DBSIZE", "SET d 4", "KEYS *", "EXEC"] {
        let reply = client.line(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    assert_eq!(client.line("KEYS *"), r"*1\r\n$1\r\nd\r\n");
    client.line("TXN.BEGIN");
    client.line("FLUSHDB");
    assert_eq!(client.line("KEYS *"), r"*0\r\n");
    client.line("TXN.ROLLBACK");
    assert_eq!(client.line("DBSIZE"), r":1\r\n");
    let cells = ours.db.cells();
    let many: Vec<_> = (0..100_001).map(|n| (format!("many/{n}"), n)).collect();
    for chunk in many.chunks(10_000) {
        let mut transaction = mainstay::Transaction::new();
        for (name, n) in chunk {
            let name = mainstay::Name::new(name).unwrap();
            transaction = transaction.step(mainstay::CellCommand::set(name, i64::from(*n)));
        }
        ours.db.execute(transaction).unwrap();
    }
    for line in ["FLUSHDB", "DBSIZE", "KEYS *"] {
        client.line("MULTI");
        client.line("SET mark 1");
        client.line(line);
        let done = client.line("EXEC");
        assert!(done.contains("-TOOLARGE ") && done.contains("100000"), "{line}: {done}");
    }
    assert!(cells.get("many/100000").unwrap().is_some(), "nothing went");
    assert_eq!(client.line("DBSIZE"), r":100003\r\n", "nothing else either");
}
