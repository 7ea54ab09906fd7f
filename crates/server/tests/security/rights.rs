//! Permissions of each user over RESP.

use crate::world::World;
use mainstay_server::resp::table::{self, Group};

/// Returns words for a command, none of which is a key of `app`.
fn some_words(spec: &table::Spec) -> Vec<&'static str> {
    let mut words = vec![spec.name];
    words.resize(spec.arity.unsigned_abs() as usize, "other");
    words
}

#[test]
fn who_has_no_rights_is_refused_every_command_but_those_of_the_connection() {
    let world = World::new();
    let mut client = world.client("nobody");
    for spec in table::all().filter(|spec| spec.group != Group::Connection) {
        let reply = client.call(&some_words(spec));
        let wanted = format!(
            "-NOPERM User nobody has no permissions to run the \\'{}\\' command: ",
            spec.name
        );
        assert!(reply.starts_with(&wanted), "{}: {reply}", spec.name);
    }
    for line in ["CLIENT LIST", "ACL USERS", "ACL LIST", "ACL SETUSER nobody on"] {
        assert!(client.line(line).starts_with("-NOPERM"), "{line}");
    }
    for line in ["PING", "ECHO a", "CLIENT ID", "CLIENT INFO", "ACL WHOAMI", "SELECT 0"] {
        assert!(!client.line(line).starts_with('-'), "{line}");
    }
    assert_eq!(world.db.revision(), 0);
}

#[test]
fn no_command_reaches_a_key_that_is_not_the_users() {
    let world = World::new();
    world.client("default").line("SET other secret-value");
    let mut client = world.client("app");
    for spec in table::all().filter(|spec| spec.keys.0 != 0) {
        let reply = client.call(&some_words(spec));
        // Invalid words may be reported before the keys are checked.
        let refused = ["-NOPERM User app ", "-ERR ", "-INVALID ", "-CORRUPT "]
            .iter()
            .any(|it| reply.starts_with(it));
        assert!(refused, "{}: {reply}", spec.name);
    }
    assert_eq!(world.db.revision(), 1);
}

/// Commands that a user limited to `app:` must not execute, although it has all permissions.
const OUTSIDE: &[&str] = &[
    "GET other",
    "GET ap",
    "GET App:a",
    "MGET app:a other",
    "EXISTS app:a other",
    "MSET app:a 1 other 2",
    "MSETNX app:a 1 other 2",
    "DEL app:a other",
    "TTL other",
    "EXPIRE other 10",
    "GETEX other EX 10",
    "INCRBY other 1",
    "APPEND other x",
    "SETEX other 10 x",
    "WATCH app:a other",
    "HSET other f 1",
    "HGETALL other",
    "HSCAN other 0",
    "HINCRBY other f 1",
    "REC.GET other REV 1",
    "REC.SET other FIELDS f 1",
    "REC.CAS other f ABSENT 1",
    "REC.HISTORY other",
    "REC.SCAN ap",
    "REC.SCAN o AFTER other",
    "REC.COUNT ap WHERE f = 1",
    "REC.EXPLAIN ap",
    "REC.INDEX ADD app: f",
    "REC.INDEX DROP 1",
    "REC.INDEX LIST",
    "CELL.GET other REV 1",
    "CELL.CAS other NIL 1",
    "CELL.HISTORY other",
    "CELL.LIST",
    "CELL.LIST PREFIX ap",
    "CELL.LIST PREFIX app: PREFIX o",
    "CELL.LIST AFTER app:",
    "SCAN 0",
    "SCAN 0 COUNT 10",
    "SCAN 0 MATCH *",
    "SCAN 0 MATCH ap*",
    "SCAN 0 MATCH [a]pp:*",
    "SCAN 0 MATCH app:* MATCH *",
    "SCAN 0 COUNT MATCH MATCH app:*",
    "KEYS *",
    "KEYS app*",
    "KEYS ?pp:*",
    "RANDOMKEY",
    "DBSIZE",
    "FLUSHDB",
    "FEED.READ",
    "FEED.READ PREFIX ap",
    "FEED.READ PREFIX app: PREFIX o",
    "FEED.WATCH",
    "BRANCH.DIFF main main",
    "BRANCH.FORK app:x",
    "BRANCH.DELETE app:x",
    "BRANCH.RENAME main app:x",
    "BRANCH.MERGE main main",
    "TAG.SET app:t",
    "TAG.DEL app:t",
];

/// Commands that it may execute, with their replies.
const INSIDE: &[(&str, &str)] = &[
    ("SET app:a 1", r"+OK\r\n"),
    ("INCR app:a", r":2\r\n"),
    ("MGET app:a app:b", r"*2\r\n$1\r\n2\r\n$-1\r\n"),
    ("CELL.LIST PREFIX app:", r"*1\r\n$5\r\napp:a\r\n"),
    ("CELL.LIST PREFIX app:a", r"*1\r\n$5\r\napp:a\r\n"),
    ("SCAN 0 MATCH app:* COUNT 100", r"*2\r\n$1\r\n0\r\n*1\r\n$5\r\napp:a\r\n"),
    ("KEYS app:*", r"*1\r\n$5\r\napp:a\r\n"),
    ("BRANCH.LIST", r"*1\r\n$4\r\nmain\r\n"),
    ("BRANCH.USE main", r"+OK\r\n"),
    ("DURABILITY SYNC", r"+OK\r\n"),
    ("HSET app:h f 1", r":1\r\n"),
    ("REC.COUNT app: WHERE f = 1", r":1\r\n"),
    ("REC.EXPLAIN app:", r"$46\r\nwalks all records under `app:`: no index helps\r\n"),
    ("TYPE app:h", r"+hash\r\n"),
];

#[test]
fn who_has_a_prefix_stays_inside_it() {
    let world = World::new();
    world.client("default").line("SET other secret-value");
    let mut client = world.client("app");
    for (line, wanted) in INSIDE {
        assert_eq!(client.line(line), *wanted, "{line}");
    }
    for line in OUTSIDE {
        let reply = client.line(line);
        assert!(reply.starts_with("-NOPERM User app "), "{line}: {reply}");
        assert!(!reply.contains("secret"), "{reply}");
    }
    assert_eq!(world.db.revision(), 4, "nothing of it was done");
}

#[test]
fn cursors_of_others_lead_nowhere_else() {
    let world = World::new();
    let mut root = world.client("default");
    for key in ["aaa", "app:a", "app:b", "zzz"] {
        root.call(&["SET", key, "1"]);
    }
    let page = root.line("SCAN 0 COUNT 1");
    assert!(page.contains("aaa") && page.starts_with(r"*2\r\n$1\r\n1\r\n"), "{page}");
    let seen = world.client("app").line("SCAN 1 MATCH app:* COUNT 100");
    assert_eq!(seen, r"-ERR invalid cursor\r\n", "each user has numbers of its own");
    let seen = world.client("app").line("SCAN 0 MATCH app:* COUNT 100");
    assert_eq!(seen, r"*2\r\n$1\r\n0\r\n*2\r\n$5\r\napp:a\r\n$5\r\napp:b\r\n");
}

#[test]
fn the_feed_of_a_prefix_tells_of_its_keys_and_of_no_branch() {
    let world = World::new();
    let mut root = world.client("default");
    for line in ["SET other 1", "SET app:a 1", "BRANCH.FORK app:branch", "TAG.SET app:tag"] {
        root.line(line);
    }
    let seen = world.client("app").line("FEED.READ PREFIX app:");
    assert!(seen.contains("app:a") && !seen.contains("app:branch") && !seen.contains("app:tag"));
    assert!(seen.starts_with(r"*1\r\n"), "{seen}");
    let all = root.line("FEED.READ PREFIX app:");
    assert!(all.contains("app:branch") && all.contains("app:tag"), "{all}");
}

#[test]
fn a_forbidden_command_spoils_multi() {
    let world = World::new();
    let mut client = world.client("app");
    for forbidden in
        ["SET other 1", "MSET app:a 1 other 1", "CELL.HISTORY other", "SCAN 0", "FEED.READ"]
    {
        assert_eq!(client.line("MULTI"), r"+OK\r\n");
        assert_eq!(client.line("SET app:a 1"), r"+QUEUED\r\n");
        assert!(client.line(forbidden).starts_with("-NOPERM"), "{forbidden}");
        assert!(client.line("EXEC").starts_with("-EXECABORT"), "{forbidden}");
    }
    assert_eq!(world.db.revision(), 0);
    client.line("MULTI");
    client.line("SET app:a 1");
    assert_eq!(client.line("EXEC"), r"*1\r\n+OK\r\n");
}

#[test]
fn an_open_transaction_stays_inside_the_prefix_too() {
    let world = World::new();
    world.client("default").line("SET other secret-value");
    let mut client = world.client("app");
    assert_eq!(client.line("TXN.BEGIN"), r"+OK\r\n");
    for line in ["GET other", "SET other 1", "CELL.LIST", "CELL.HISTORY other"] {
        assert!(client.line(line).starts_with("-NOPERM"), "{line}");
    }
    assert_eq!(client.line("SET app:a 1"), r"+OK\r\n");
    assert_eq!(client.line("TXN.COMMIT"), r":2\r\n");
}

#[test]
fn to_read_and_to_write_are_two_rights() {
    let world = World::new();
    world.client("default").line("SET a 1");
    let mut reader = world.client("reader");
    for line in ["GET a", "KEYS *", "DBSIZE", "BRANCH.LIST", "FEED.READ", "INFO", "CLIENT LIST"] {
        assert!(!reader.line(line).starts_with('-'), "{line}");
    }
    for line in ["HGETALL h", "HLEN h", "REC.GET h", "REC.SCAN h", "REC.HISTORY h", "TYPE a"] {
        assert!(!reader.line(line).starts_with('-'), "{line}");
    }
    for line in ["HSET h f 1", "HDEL h f", "REC.SET h FIELDS f 1", "REC.CAS h f ABSENT 1", "DEL a"]
    {
        assert!(reader.line(line).starts_with("-NOPERM User reader"), "{line}");
    }
    for line in ["SET a 2", "INCR a", "GETEX a PERSIST", "EXPIRE a 1", "BRANCH.FORK b", "FLUSHDB"] {
        assert!(reader.line(line).starts_with("-NOPERM User reader"), "{line}");
    }
    let mut writer = world.client("writer");
    for line in ["SET a 2", "DEL b", "MSET a 3", "EXPIRE a 1000", "CELL.SET a 4"] {
        assert!(!writer.line(line).starts_with('-'), "{line}");
    }
    for line in [
        "GET a",
        "INCR a",
        "GETSET a 1",
        "SET a 1 GET",
        "SET a 1 IFEQ 4",
        "APPEND a 1",
        "GETDEL a",
        "WATCH a",
        "CELL.INCR a",
        "CELL.LIST",
        "INFO",
        "FEED.READ",
    ] {
        assert!(writer.line(line).starts_with("-NOPERM User writer"), "{line}");
    }
}

/// A command on names of any kind does as much as the user may do. The other kind of state is invisible.
#[test]
fn who_has_one_kind_of_state_does_nothing_with_the_other() {
    let world = World::new();
    let mut root = world.client("default");
    for line in ["SET cell 1", "HSET record f 1", "CELL.SET both 1", "REC.SET both FIELDS f 1"] {
        root.line(line);
    }
    let mut keeper = world.client("keeper");
    for line in ["GET cell", "SET cell 2", "STRLEN both", "CELL.GET both", "CELL.LIST", "FEED.READ"]
    {
        assert!(keeper.line(line).starts_with("-NOPERM User keeper"), "{line}");
    }
    for (line, wanted) in [
        ("HGETALL record", r"*2\r\n$1\r\nf\r\n$1\r\n1\r\n"),
        ("KEYS *", r"*2\r\n$4\r\nboth\r\n$6\r\nrecord\r\n"),
        ("SCAN 0 TYPE string", r"*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DBSIZE", r":2\r\n"),
        ("EXISTS cell record both both", r":3\r\n"),
        ("TYPE cell", r"+none\r\n"),
        ("TYPE both", r"+hash\r\n"),
        ("TTL cell", r":-2\r\n"),
        ("EXPIRE cell 1000", r":0\r\n"),
        ("EXPIRE both 1000", r":1\r\n"),
        ("DEL cell both none", r":1\r\n"),
        ("DURABILITY SYNC", r"+OK\r\n"),
        ("BRANCH.USE main", r"+OK\r\n"),
        ("WATCH cell record", r"+OK\r\n"),
        ("MULTI", r"+OK\r\n"),
        ("EXISTS cell record", r"+QUEUED\r\n"),
        ("EXEC", r"*1\r\n:1\r\n"),
    ] {
        assert_eq!(keeper.line(line), wanted, "{line}");
    }
    assert_eq!(root.line("MGET cell both"), r"*2\r\n$1\r\n1\r\n$1\r\n1\r\n", "as they were");
    assert_eq!(root.line("TTL both"), r":-1\r\n");
    let mut writer = world.client("writer");
    for line in ["HSET record f 2", "HDEL record f", "REC.SET record FIELDS f 2", "HGET record f"] {
        assert!(writer.line(line).starts_with("-NOPERM User writer"), "{line}");
    }
    assert_eq!(writer.line("DEL record cell"), r":1\r\n");
    assert_eq!(root.line("HGET record f"), r"$1\r\n1\r\n");
    for line in ["KEYS *", "DBSIZE", "RANDOMKEY", "SCAN 0", "EXISTS cell"] {
        assert!(writer.line(line).starts_with("-NOPERM User writer"), "{line}");
    }
}

#[test]
fn the_feed_of_a_prefix_tells_of_its_records() {
    let world = World::new();
    let mut root = world.client("default");
    for line in ["HSET other f 1", "HSET app:h f 1", "BRANCH.FORK app:branch"] {
        root.line(line);
    }
    let seen = world.client("app").line("FEED.READ PREFIX app:");
    assert!(
        seen.starts_with(r"*1\r\n") && seen.contains(r"$7\r\nrecords\r\n$5\r\napp:h"),
        "{seen}"
    );
}
