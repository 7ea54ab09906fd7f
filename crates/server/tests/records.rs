//! Records over RESP, byte by byte: `REC.*` commands, transactions, both types of a key, indexes.

mod support;

use mainstay::{Field, Test, Where};
use std::thread;
use std::time::Duration;
use support::{Client, Ours, Redis, encode};

/// Sends lines one after the other and checks the beginning of each reply.
fn answers_as_written_down(cases: &[(&str, &str)]) {
    let ours = Ours::start();
    let mut client = ours.client();
    for (line, expected) in cases {
        let reply = client.line(line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
}

#[test]
fn records_answer_as_written_down() {
    answers_as_written_down(&[
        ("REC.SET job FIELDS state pending n 9", r":1\r\n"),
        (
            "REC.GET job",
            r"*3\r\n*2\r\n*2\r\n$1\r\nn\r\n$1\r\n9\r\n*2\r\n$5\r\nstate\r\n$7\r\npending\r\n:1\r\n:-1\r\n",
        ),
        ("REC.GET none", r"$-1\r\n"),
        ("REC.SET job IF 7 FIELDS n 1", r"$-1\r\n"),
        ("REC.SET job IF 1 TTL 100000 FIELDS n 10", r":2\r\n"),
        ("REC.CAS job state IS running done", r"$-1\r\n"),
        ("REC.CAS job none IS x y", r"$-1\r\n"),
        ("REC.CAS none state IS x y", r"$-1\r\n"),
        ("REC.CAS job state IS pending claimed AND n IS 11 SET worker w", r"$-1\r\n"),
        (
            "REC.CAS job state IS pending claimed AND worker ABSENT SET worker w UNSET n TTL 50000",
            r":3\r\n",
        ),
        ("REC.CAS job state IS claimed x AND worker ABSENT", r"$-1\r\n"),
        ("HGETALL job", r"*4\r\n$5\r\nstate\r\n$7\r\nclaimed\r\n$6\r\nworker\r\n$1\r\nw\r\n"),
        ("REC.CAS lock owner ABSENT me", r":1\r\n"),
        ("REC.CAS lock owner ABSENT you", r"$-1\r\n"),
        ("REC.REPLACE job FIELDS a 1", r":4\r\n"),
        ("REC.REPLACE job IF 3 FIELDS a 2", r"$-1\r\n"),
        ("HKEYS job", r"*1\r\n$1\r\na\r\n"),
        ("DEL job", r":1\r\n"),
        ("REC.GET job REV 1", r"*3\r\n*2\r\n*2\r\n$1\r\nn\r\n$1\r\n9\r\n"),
        ("REC.SET job FIELDS a 1", r":6\r\n"),
        ("CELL.SET job value", r":1\r\n"),
        ("TYPE job", r"+string\r\n"),
        ("EXISTS job", r":1\r\n"),
        ("REC.GET job", r"*3\r\n*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n:6\r\n:-1\r\n"),
        ("DBSIZE", r":2\r\n"),
        ("DEL job", r":1\r\n"),
        ("EXISTS job", r":0\r\n"),
        ("REC.GET job", r"$-1\r\n"),
    ]);
}

#[test]
fn the_versions_of_a_record_are_told_newest_first() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in ["REC.SET a FIELDS f 1", "HSET a f 2", "DEL a"] {
        client.line(line);
    }
    let history = client.line("REC.HISTORY a");
    assert!(history.starts_with(r"*3\r\n*4\r\n:3\r\n$-1\r\n:"), "{history}");
    let older = client.line("REC.HISTORY a LIMIT 1 BEFORE 3");
    let wanted = r"*1\r\n*4\r\n:2\r\n*1\r\n*2\r\n$1\r\nf\r\n$1\r\n2\r\n:";
    assert!(older.starts_with(wanted) && older.ends_with(r":2\r\n"), "{older}");
}

#[test]
fn records_are_scanned_and_counted_as_written_down() {
    let ours = Ours::start();
    let mut client = ours.client();
    for n in [2, 10, 9] {
        client.line(&format!("HSET t:{n:02} n {n} kind k{}", n % 2));
    }
    client.line("HSET t:none other 1");
    client.line("HSET u:1 n 1");
    let row = |key: &str| format!(r"$4\r\n{key}\r\n");
    let page = client.line("REC.SCAN t: LIMIT 2");
    assert!(
        page.starts_with(&format!(r"*2\r\n{}*2\r\n*3\r\n{}", row("t:09"), row("t:02"))),
        "{page}"
    );
    let page = client.line("REC.SCAN t: AFTER t:09 LIMIT 1");
    let wanted = r"*2\r\n$4\r\nt:10\r\n*1\r\n*3\r\n$4\r\nt:10\r\n*2\r\n*2\r\n$4\r\nkind\r\n$2\r\nk0\r\n*2\r\n$1\r\nn\r\n$2\r\n10\r\n:1\r\n";
    assert_eq!(page, wanted);
    let count = |client: &mut support::Client, filters: &str| {
        let reply = client.line(&format!("REC.COUNT t: {filters}"));
        assert!(reply.starts_with(':'), "{filters}: {reply}");
        reply[1..reply.len() - 4].parse::<u64>().unwrap()
    };
    for (filters, wanted) in [
        ("", 4),
        ("WHERE n < 10", 2),
        ("WHERE n <= 10", 3),
        ("WHERE n > 2 WHERE n < 10", 1),
        ("WHERE n >= 9", 2),
        ("WHERE n = 9", 1),
        ("WHERE n != 9", 2),
        (r#"WHERE kind IN ["k1","x"]"#, 1),
        (r#"WHERE kind in ["k1","k0"] WHERE n > 9"#, 1),
        ("WHERE other = 1", 1),
        ("REV 1", 1),
    ] {
        assert_eq!(count(&mut client, filters), wanted, "{filters}");
    }
    assert_eq!(client.line("REC.SCAN t: WHERE n = 5"), r"*2\r\n$-1\r\n*0\r\n");
    let before = client.line("REC.SCAN t: REV 2");
    assert!(before.contains("t:10") && !before.contains("t:09"), "{before}");
}

#[test]
fn bad_input_to_records_is_told_what_is_wrong() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("HSET a f 1");
    let revision = client.line("REVISION");
    for (line, expected) in [
        (
            "REC.COUNT a WHERE f ~ 1",
            r"-INVALID `~` is no operator: there are = != < <= > >= IN\r\n",
        ),
        ("REC.SCAN a WHERE f", r"-ERR syntax error\r\n"),
        ("REC.SCAN a WHERE f IN x", r"-INVALID IN takes a JSON array of strings"),
        ("REC.SCAN a WHERE f IN [1]", r"-INVALID IN takes a JSON array of strings"),
        (r#"REC.SCAN a WHERE f IN {"a":"b"}"#, r"-INVALID IN takes a JSON array of strings"),
        ("REC.SCAN a AFTER b", r"-INVALID `b` is no place in a scan of `a`"),
        ("REC.SCAN a LIMIT 0", r"-INVALID a page has 1 to"),
        ("REC.SCAN a LIMIT -1", r"-ERR value is not an integer or out of range\r\n"),
        ("REC.COUNT a LIMIT 5", r"-ERR syntax error\r\n"),
        ("REC.SET a TTL -5 FIELDS f 2", r"-INVALID a time to live of -5 ms is over already"),
        ("REC.SET a TTL 0 FIELDS f 2", r"-INVALID a time to live of 0 ms"),
        ("REC.SET a TTL x FIELDS f 2", r"-ERR value is not an integer or out of range\r\n"),
        ("REC.SET a FIELDS f 2 g", r"-ERR syntax error\r\n"),
        ("REC.SET a FIELDS f 2 f 3", r"-INVALID a field stands twice"),
        ("REC.SET a IF x FIELDS f 2", r"-ERR value is not an integer or out of range\r\n"),
        ("REC.SET a NX 1 FIELDS f", r"-ERR syntax error\r\n"),
        ("REC.CAS a f MAYBE 1 2", r"-ERR syntax error\r\n"),
        ("REC.CAS a f IS 1", r"-ERR syntax error\r\n"),
        ("REC.CAS a f IS", r"-ERR wrong number of arguments for 'rec.cas' command\r\n"),
        ("REC.CAS a f IS 1 2 AND g", r"-ERR syntax error\r\n"),
        ("REC.CAS a f IS 1 2 SET f 3", r"-INVALID a field stands twice"),
        ("REC.CAS a f IS 1 2 TTL -1", r"-INVALID a time to live of -1 ms is over already"),
        ("REC.GET a REV 99999", r"-INVALID"),
        ("REC.GET _mainstay/x", r"-INVALID"),
    ] {
        let reply = client.line(line).replace(r"\'", "'");
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
    let long = "x".repeat(1025);
    assert!(client.call(&["HSET", "a", &long, "1"]).starts_with("-INVALID the field"));
    assert!(client.call(&["HGET", "a", &long]).starts_with("-INVALID the field"));
    assert_eq!(client.line("REVISION"), revision, "nothing was changed");
}

#[test]
fn records_stand_in_transactions_of_both_kinds() {
    let ours = Ours::start();
    let mut one = ours.client();
    let mut other = ours.client();
    one.line("SET cell 1");
    for line in [
        "MULTI",
        "HSET r f 1",
        "REC.CAS r f IS 1 2 SET g x",
        "HGET cell f",
        "REC.SCAN r WHERE f = 2",
        "REC.COUNT r",
        "REC.GET r REV 1",
        "HRANDFIELD r 5",
        "HMGET r g none",
    ] {
        one.line(line);
    }
    let wanted = [
        r"*8\r\n:1\r\n:2\r\n",
        r"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        r"*2\r\n$-1\r\n*1\r\n*3\r\n$1\r\nr\r\n",
        r"*2\r\n*2\r\n$1\r\nf\r\n$1\r\n2\r\n*2\r\n$1\r\ng\r\n$1\r\nx\r\n:2\r\n",
        r":1\r\n$-1\r\n",
    ];
    let done = one.line("EXEC");
    assert!(done.starts_with(&wanted.concat()), "{done}");
    assert!(done.ends_with(r"*2\r\n$1\r\nx\r\n$-1\r\n"), "{done}");
    one.line("TXN.BEGIN");
    assert_eq!(one.line("HSET r f 3"), r":0\r\n");
    assert_eq!(one.line("REC.COUNT r WHERE f = 3"), r":1\r\n");
    assert_eq!(
        (one.line("HGET r f"), other.line("HGET r f")),
        (r"$1\r\n3\r\n".into(), r"$1\r\n2\r\n".into())
    );
    other.line("HSET r2 f 1");
    assert!(one.line("TXN.COMMIT").starts_with("-CONFLICT "), "what was counted has changed");
}

/// Long work waits for earlier requests of its connection, and later requests wait for the long work.
#[test]
fn scans_see_what_came_before_them_in_a_pipeline() {
    let ours = Ours::start();
    let mut client = ours.client();
    let lines = ["HSET a f 1", "REC.COUNT a WHERE f = 1", "HSET a f 2", "REC.COUNT a WHERE f = 1"];
    let bytes: Vec<u8> =
        lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect();
    for round in 0..20 {
        client.send_bytes(&bytes);
        let replies: Vec<String> = lines.iter().map(|_| client.receive()).collect();
        let new = if round == 0 { r":1\r\n" } else { r":0\r\n" };
        assert_eq!(replies, [new, r":1\r\n", r":0\r\n", r":0\r\n"]);
    }
}

/// A watched key changes with its record as well as with its cell.
#[test]
fn what_is_watched_changes_with_either_kind() {
    let ours = Ours::start();
    let mut one = ours.client();
    let mut other = ours.client();
    for change in ["HSET a f 1", "HSET a f 2", "EXPIRE a 1000", "HDEL a f", "SET a x"] {
        one.line("WATCH a");
        other.line(change);
        one.line("MULTI");
        one.line("PING");
        assert_eq!(one.line("EXEC"), r"*-1\r\n", "{change}");
    }
}

#[test]
fn names_of_both_kinds_are_listed_and_flushed() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in ["SET a 1", "HSET b f 1", "HSET c f 1", "SET d 1"] {
        client.line(line);
    }
    let names = |names: &str| {
        let shown: String = names.chars().map(|name| format!(r"$1\r\n{name}\r\n")).collect();
        format!(r"*{}\r\n{shown}", names.len())
    };
    let scanned = |listed: &str| format!(r"*2\r\n$1\r\n0\r\n{}", names(listed));
    assert_eq!(client.line("KEYS *"), names("abcd"));
    assert_eq!(client.line("SCAN 0"), scanned("abcd"));
    assert_eq!(client.line("SCAN 0 TYPE hash"), scanned("bc"));
    assert_eq!(client.line("SCAN 0 TYPE STRING"), scanned("ad"));
    assert_eq!(client.line("SCAN 0 TYPE list"), scanned(""));
    assert_eq!(client.line("DBSIZE"), r":4\r\n");
    client.line("DEL a d");
    assert!([r"$1\r\nb\r\n", r"$1\r\nc\r\n"].contains(&client.line("RANDOMKEY").as_str()));
    assert_eq!(client.line("FLUSHDB"), r"+OK\r\n");
    assert_eq!(
        (client.line("DBSIZE"), client.line("RANDOMKEY")),
        (r":0\r\n".into(), r"$-1\r\n".into())
    );
}

/// Jobs and locks are records, but commands that list keys do not show them, and `FLUSHDB` keeps them.
#[test]
fn jobs_and_locks_are_no_keys() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in [
        "SET a 1",
        "HSET z f 1",
        "HSET mainstay.state.tasks/x f 1",
        "JOB.SUBMIT t j",
        "LOCK.TAKE l OWNER o LEASE 600000",
        "CELL.SET mainstay.state.tasks.t.j cell",
    ] {
        assert!(!client.line(line).starts_with('-'), "{line}");
    }
    let shown = ["a", "mainstay.state.tasks.t.j", "mainstay.state.tasks/x", "z"];
    let bulk = |name: &&str| format!(r"${}\r\n{name}\r\n", name.len());
    let all: String = shown.iter().map(bulk).collect();
    let listed = format!(r"*4\r\n{all}");
    assert_eq!(client.line("KEYS *"), listed);
    assert_eq!(client.line("SCAN 0 COUNT 100"), format!(r"*2\r\n$1\r\n0\r\n{listed}"));
    assert_eq!(client.line("KEYS mainstay.state.locks.*"), r"*0\r\n");
    assert_eq!(client.line("DBSIZE"), r":4\r\n");
    for _ in 0..40 {
        let name = client.line("RANDOMKEY");
        assert!(shown.iter().map(bulk).any(|one| one == name), "{name}");
    }
    for (begin, end) in [("MULTI", "EXEC"), ("TXN.BEGIN", "TXN.ROLLBACK")] {
        let inside: Vec<String> = [begin, "KEYS *", "DBSIZE", "SCAN 0 COUNT 100", end]
            .map(|line| client.line(line))
            .into();
        let inside = inside.concat();
        assert!(inside.contains(&listed) && inside.contains(r":4\r\n"), "{inside}");
        assert!(!inside.contains("state.locks"), "{inside}");
    }
    // A transaction that listed keys does not conflict with jobs and locks, but with other keys.
    let mut other = ours.client();
    for (write, is_conflict) in [
        ("JOB.SUBMIT t k", false),
        ("LOCK.TAKE m OWNER o LEASE 600000", false),
        ("HSET mainstay.state.tasks/y f 1", true),
        ("HSET mainstay.state.sth f 1", true),
        ("HSET 0 f 1", true),
    ] {
        for line in ["TXN.BEGIN", "DBSIZE", "CELL.SET a 2"] {
            client.line(line);
        }
        assert!(!other.line(write).starts_with('-'), "{write}");
        assert_eq!(client.line("TXN.COMMIT").starts_with("-CONFLICT"), is_conflict, "{write}");
    }
    let stays = |client: &mut Client| {
        assert_eq!(client.line("DBSIZE"), r":0\r\n");
        assert!(client.line("JOB.GET t j").contains("pending"));
        assert!(client.line("LOCK.GET l").starts_with("*3"));
    };
    assert_eq!(client.line("FLUSHDB"), r"+OK\r\n");
    stays(&mut client);
    for line in ["CELL.SET mainstay.state.tasks.t.j cell", "MULTI", "FLUSHDB", "EXEC"] {
        client.line(line);
    }
    stays(&mut client);
}

#[test]
fn indexes_are_declared_listed_explained_and_dropped() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("HSET tasks.1 state running timeout_at 5");
    client.line("HSET tasks.2 state running timeout_at 50");
    assert_eq!(client.line("REC.INDEX ADD tasks. state timeout_at"), r":1\r\n");
    assert!(client.line("REC.INDEX ADD tasks. state timeout_at").starts_with("-EXISTS index 1"));
    assert!(client.line("REC.INDEX ADD tasks. state state").starts_with("-INVALID "));
    ours.db.fill_indexes().unwrap();
    let listed = client.line("REC.INDEX LIST");
    assert!(
        listed.starts_with(r"*1\r\n*5\r\n:1\r\n$6\r\ntasks.\r\n*2\r\n$5\r\nstate\r\n"),
        "{listed}"
    );
    let explained = client.line("REC.EXPLAIN tasks. WHERE state = running WHERE timeout_at < 10");
    assert!(explained.contains("index 1 over `tasks.` (state, timeout_at)"), "{explained}");
    assert!(client.line("REC.EXPLAIN tasks.").contains("no index helps"));
    assert_eq!(
        client.line("REC.COUNT tasks. WHERE state = running WHERE timeout_at < 10"),
        r":1\r\n"
    );
    let there = mainstay::remote::connect(&ours.address.to_string()).unwrap();
    assert_eq!(there.records().indexes().unwrap(), ours.db.records().indexes().unwrap());
    let filters =
        [Where { field: Field::new("state").unwrap(), test: Test::Eq(b"running".to_vec()) }];
    assert!(there.records().explain("tasks.", &filters).unwrap().contains("by the index"));
    assert_eq!(client.line("REC.INDEX DROP 1"), r":1\r\n");
    assert_eq!(client.line("REC.INDEX DROP 1"), r":0\r\n");
    for wrong in
        ["REC.INDEX", "REC.INDEX ADD tasks.", "REC.INDEX NONE", "REC.INDEX DROP x", "REC.EXPLAIN"]
    {
        assert!(client.line(wrong).starts_with('-'), "{wrong}");
    }
}

/// For a client that watched a key after its expiry, the removal of the key is no change. A key that
/// existed when it was watched and has expired at EXEC has changed.
#[test]
fn a_watched_key_that_was_over_already_does_not_change() {
    let ours = Ours::unswept();
    let redis = Redis::start();
    let sweep = || assert!(ours.db.sweep().is_ok());
    for make in ["HSET k f 1", "SET k 1"] {
        let run = |watching: &mut Client, other: &mut Client, swept: &dyn Fn()| {
            let mut said = Vec::new();
            for (ttl_ms, first_ms, then_ms) in [(1, 20, 0), (1000, 0, 1020)] {
                other.line(make);
                other.line(&format!("PEXPIRE k {ttl_ms}"));
                thread::sleep(Duration::from_millis(first_ms));
                watching.line("WATCH k");
                thread::sleep(Duration::from_millis(then_ms));
                // Redis removes an expired key when a client accesses it.
                other.line("EXISTS k");
                swept();
                watching.line("MULTI");
                watching.line("SET done 1");
                said.push(watching.line("EXEC"));
            }
            // A write is always a change.
            other.line(make);
            other.line("PEXPIRE k 1");
            thread::sleep(Duration::from_millis(20));
            watching.line("WATCH k");
            other.line(make);
            other.line("PEXPIRE k 1");
            thread::sleep(Duration::from_millis(20));
            swept();
            watching.line("MULTI");
            watching.line("SET done 1");
            said.push(watching.line("EXEC"));
            said
        };
        let here = run(&mut ours.client(), &mut ours.client(), &sweep);
        let there = run(&mut redis.client(), &mut redis.client(), &|| {});
        assert_eq!(here, there, "{make}");
        assert_eq!(here, [r"*1\r\n+OK\r\n", r"*-1\r\n", r"*-1\r\n"], "{make}");
    }
}

#[test]
fn a_field_that_is_compared_may_go() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("HSET k a 1 b 2");
    for (line, expected) in [
        ("REC.CAS k a IS 2 UNSET a", r"$-1\r\n"),
        ("REC.CAS k a IS 1 UNSET a", r":2\r\n"),
        ("HGETALL k", r"*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("REC.CAS k a ABSENT SET c 3 UNSET b", r":3\r\n"),
        ("HGETALL k", r"*2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("REC.CAS k c IS 3 AND b ABSENT SET d 4", r":4\r\n"),
        ("HGET k c", r"$1\r\n3\r\n"),
        // Words that fit the form with a new value are read that way.
        ("REC.CAS k c IS 3 UNSET", r":5\r\n"),
        ("HGET k c", r"$5\r\nUNSET\r\n"),
        ("REC.CAS k c IS UNSET SET SET e 5", r":6\r\n"),
        ("HMGET k c e", r"*2\r\n$3\r\nSET\r\n$1\r\n5\r\n"),
        // Both forms fit these words. The other form would set a field `UNSET`.
        ("REC.CAS k c IS SET SET UNSET d UNSET e", r":7\r\n"),
        ("HGETALL k", r"*2\r\n$1\r\nc\r\n$3\r\nSET\r\n"),
    ] {
        assert_eq!(client.line(line), expected, "{line}");
    }
    assert!(client.line("REC.CAS k c IS SET x UNSET c").starts_with("-INVALID "), "both at once");
    assert_eq!(client.line("REC.CAS k c IS SET"), r"-ERR syntax error\r\n", "nothing is written");
}
