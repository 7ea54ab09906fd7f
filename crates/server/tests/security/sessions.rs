//! The permission that each command on sessions needs, and the sessions and stored answers that a user can
//! access.

use crate::table::{Table, as_they_are};
use crate::world::{PASSWORD, World, basic, user};
use mainstay::wire;
use mainstay::{CellCommand, Name, SessionCommand, SessionOptions, SessionRequest, Transaction};
use mainstay_server::resp::table::{self, Group};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Read,
    Write,
    Both,
}

use Needs::{Both, Read, Write};

/// A user with all keys for each combination of permissions, with the commands that it allows.
const USERS: &[(&str, &[&str], &[Needs])] = &[
    ("looker", &["sessions:read"], &[Read]),
    // The command inside a session request is checked by itself.
    ("sender", &["sessions:write", "cells"], &[Write]),
    ("operator", &["sessions", "cells"], &[Read, Write, Both]),
    (
        "other",
        &["cells", "records", "runs", "outbox", "keyed", "feed", "branches", "server", "admin"],
        &[],
    ),
];

/// Every command on sessions except `SESSION.EXEC`, which ends `MULTI`.
const LINES: &[(&str, Needs)] = &[
    ("SESSION.OPEN ID made", Both),
    ("SESSION.DO s 1 LOWEST 1 INCR app:n", Write),
    ("SESSION.SEND s hello", Write),
    ("SESSION.PENDING s", Read),
    ("SESSION.RETRY 1", Both),
    ("SESSION.ACK s 1", Write),
    ("SESSION.KEEPALIVE s", Write),
    ("SESSION.INFO s", Read),
    ("SESSION.LIST", Read),
    ("SESSION.CLOSE made", Write),
];

const TABLE: Table<Needs> =
    Table { users: USERS, lines: LINES, groups: &[Group::Sessions], fill, words: as_they_are };

fn fill(world: &World) {
    for session in ["s", "app:s"] {
        open(world, session);
    }
}

fn open(world: &World, session: &str) -> mainstay::Session {
    world.db.sessions().open(SessionOptions::new().name(session)).unwrap()
}

fn add(cell: &str) -> Transaction {
    Transaction::new().step(CellCommand::Incr { name: Name::new(cell).unwrap(), by: 1.into() })
}

#[test]
fn each_command_needs_its_right_and_no_other_will_do() {
    TABLE.each_needs_its_right();
}

/// The other commands cannot be part of a transaction.
#[test]
fn what_stands_inside_a_transaction_needs_the_same() {
    const INSIDE: &[(&str, Needs)] = &[LINES[2], LINES[3], LINES[5], LINES[7], LINES[8]];
    Table { lines: INSIDE, ..TABLE }.each_needs_it_inside_a_transaction();
}

#[test]
fn no_command_on_sessions_is_left_out() {
    let name = |line: &str| line.split(' ').next().unwrap().to_lowercase();
    let listed = LINES.iter().map(|(line, _)| name(line)).chain(["session.exec".to_owned()]);
    let there = table::all().filter(|spec| spec.group == Group::Sessions);
    assert_eq!(
        listed.collect::<BTreeSet<_>>(),
        there.map(|spec| spec.name.to_owned()).collect::<BTreeSet<_>>()
    );
}

/// `app` has all permissions, but only on keys that begin with `app:`.
#[test]
fn a_user_reaches_the_sessions_of_its_prefix_and_no_others() {
    let world = TABLE.world();
    let mut client = world.client("app");
    let about_all = ["SESSION.RETRY 1", "SESSION.LIST"];
    for (line, _) in LINES {
        let reply = client.line(line);
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
        if !about_all.contains(line) {
            let own = line.replace(" s", " app:s").replace(" made", " app:made");
            let reply = client.line(&own);
            assert!(!reply.starts_with('-'), "{own}: {reply}");
        }
    }
    // A generated session id does not begin with the prefix of the user.
    assert!(client.line("SESSION.OPEN").starts_with("-NOPERM"));
}

#[test]
fn what_ends_multi_needs_the_session_and_what_was_kept() {
    let world = TABLE.world();
    let attempt = |who: &str, session: &str| {
        let mut client = world.client(who);
        client.line("MULTI");
        client.line("INCR app:n");
        client.line(&format!("SESSION.EXEC {session} 9 LOWEST 1"))
    };
    assert_eq!(attempt("operator", "s"), r"*1\r\n:1\r\n");
    assert_eq!(attempt("sender", "s"), r"*1\r\n:1\r\n", "a repeat");
    assert!(attempt("looker", "s").starts_with("-NOPERM"));
    assert!(attempt("other", "s").starts_with("-NOPERM"));
    assert!(attempt("app", "s").starts_with("-NOPERM"));
    assert_eq!(attempt("app", "app:s"), r"*1\r\n:2\r\n");
}

#[test]
fn what_is_done_in_a_session_needs_its_own_rights() {
    let world = World::with(|settings| {
        settings.users.push(user("client", &["sessions", "cells:read"], &["app:"]));
    });
    open(&world, "app:s");
    let mut client = world.client("client");
    assert_eq!(client.line("SESSION.DO app:s 1 LOWEST 1 GET app:a"), r"$-1\r\n");
    for line in ["SET app:a 1", "INCR app:a", "GET other", "HGETALL app:h", "STATE.GET app:s k"] {
        let reply = client.line(&format!("SESSION.DO app:s 2 LOWEST 1 {line}"));
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
    let kept = world.db.sessions().info("app:s").unwrap().unwrap().kept;
    assert_eq!(kept, 1, "what was denied is not kept");
}

/// A client that knows the name of a session and guesses a number does not get the answer stored there.
#[test]
fn kept_answers_are_told_to_whoever_may_write_the_session() {
    let world = TABLE.world();
    world.db.cells().set("secret", 41).unwrap();
    let secret = Transaction::new()
        .step(CellCommand::Incr { name: Name::new("secret").unwrap(), by: 1.into() });
    open(&world, "s").execute(5, 1, secret).unwrap();
    let request = SessionRequest::new(Name::new("s").unwrap(), 5, 1);
    let wired = wire::encode(&add("app:n").in_session(request)).unwrap();
    for (who, may) in [("operator", true), ("sender", true), ("looker", false), ("app", false)] {
        let mut client = world.client(who);
        let reply = client.line("SESSION.DO s 5 LOWEST 1 INCR app:n");
        assert_eq!(reply == r":42\r\n", may, "{who}: {reply}");
        assert_eq!(reply.starts_with("-NOPERM"), !may, "{who}: {reply}");
        let reply = client.call(&[b"WIRE.EXECUTE".to_vec(), wired.clone()]);
        assert_eq!(reply.starts_with("-NOPERM"), !may, "{who}: {reply}");
    }
    assert_eq!(world.db.cells().get("app:n").unwrap(), None);
}

/// The same with the binary commands of our own client.
#[test]
fn commands_over_the_wire_need_the_same() {
    let world = TABLE.world();
    let session = || Name::new("s").unwrap();
    let lease_ms = None;
    let capabilities = Vec::new();
    let commands = [
        (SessionCommand::Open { session: session(), lease_ms, capabilities, hold: None }, Both),
        (SessionCommand::KeepAlive { session: session(), lowest_pending: 0, epoch: 0 }, Write),
        (SessionCommand::Send { session: session(), payload: b"x".to_vec() }, Write),
        (SessionCommand::Acknowledge { session: session(), upto: 1, epoch: 0 }, Write),
        (SessionCommand::Pending { session: session(), after: 0, limit: 1, epoch: 0 }, Read),
        (SessionCommand::Info { session: session() }, Read),
        (SessionCommand::List { after: None, limit: 1 }, Read),
        (SessionCommand::HasPending { sent_before: 1 }, Read),
        (SessionCommand::Retry { sent_before: 1, limit: 1 }, Both),
    ];
    for (who, opens) in USERS.iter().map(|(who, _, opens)| (*who, *opens)).chain([("app", &[][..])])
    {
        let mut client = world.client(who);
        for (command, needs) in &commands {
            let wired = wire::encode(&Transaction::new().step(command.clone())).unwrap();
            let reply = client.call(&[b"WIRE.EXECUTE".to_vec(), wired]);
            assert_eq!(reply.starts_with("-NOPERM"), !opens.contains(needs), "{who}: {command:?}");
        }
    }
}

#[test]
fn a_feed_tells_of_the_sessions_of_a_user() {
    let world = World::with(|settings| {
        settings.users.push(user("follower", &["feed:read"], &["app:"]));
    });
    for session in ["app:s", "other"] {
        open(&world, session);
    }
    let mut client = world.client("follower");
    let told = client.line("FEED.READ PREFIX app:");
    assert!(told.contains("app:s") && told.contains("opened"), "{told}");
    assert!(client.line("FEED.READ PREFIX o").starts_with("-NOPERM"));
    assert!(client.line("FEED.READ").starts_with("-NOPERM"));
}

/// Settings written before sessions existed have no permissions on sessions.
#[test]
fn users_of_before_keep_what_they_had() {
    let world = World::new();
    for (who, line, expected) in [
        ("writer", "SET a 1", r"+OK\r\n"),
        ("keeper", "HSET h f v", r":1\r\n"),
        ("default", "SESSION.OPEN ID t", r"$1\r\nt\r\n"),
        ("writer", "SESSION.OPEN ID u", "-NOPERM"),
        ("reader", "SESSION.INFO t", "$"),
        ("reader", "SESSION.CLOSE t", "-NOPERM"),
        ("nobody", "SESSION.LIST", "-NOPERM"),
    ] {
        let reply = world.client(who).line(line);
        assert!(reply.starts_with(expected), "{who}: {line}: {reply}");
    }
}

/// The header is checked in the same way as the words.
#[test]
fn a_request_over_http_needs_its_session_too() {
    let world = TABLE.world();
    let ask = |who: &str, session: &str| {
        let headers = [("mainstay-session", session), ("idempotency-key", "1")];
        let authorization = basic(who, PASSWORD);
        let path = "/v1/incr/app:n";
        let (status, _, body) = world.ask_as(Some(&authorization), "POST", path, &headers, b"");
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    assert_eq!(ask("operator", "s").0, 200);
    for who in ["looker", "other", "app"] {
        let (status, body) = ask(who, "s");
        assert_eq!(status, 403, "{who}: {body}");
    }
    assert_eq!(ask("app", "app:s").0, 200);
    for (who, method, path, body, status) in [
        ("looker", "GET", "/v1/sessions", "", 200),
        ("app", "GET", "/v1/sessions", "", 403),
        ("looker", "GET", "/v1/sessions/s", "", 200),
        ("app", "GET", "/v1/sessions/s", "", 403),
        ("app", "GET", "/v1/sessions/app:s/requests", "", 200),
        ("sender", "POST", "/v1/sessions", r#"{"session":"t"}"#, 403),
        ("operator", "POST", "/v1/sessions", r#"{"session":"t"}"#, 200),
        ("app", "POST", "/v1/sessions", r#"{"session":"t"}"#, 403),
        ("sender", "POST", "/v1/sessions/s/requests", "{}", 200),
        ("looker", "POST", "/v1/sessions/s/requests", "{}", 403),
        ("sender", "POST", "/v1/sessions/s/acknowledge", r#"{"upto":1}"#, 200),
        ("app", "POST", "/v1/sessions/s/keep-alive", "", 403),
        ("sender", "POST", "/v1/session-retries", r#"{"sent_before":1}"#, 403),
        ("operator", "POST", "/v1/session-retries", r#"{"sent_before":1}"#, 200),
        ("app", "POST", "/v1/session-retries", r#"{"sent_before":1}"#, 403),
        ("looker", "DELETE", "/v1/sessions/s", "", 403),
        ("sender", "DELETE", "/v1/sessions/s", "", 200),
        ("other", "GET", "/v1/sessions/s", "", 403),
    ] {
        let (told, said) = world.ask(Some(who), method, path, body);
        assert_eq!(told, status, "{who} {method} {path}: {said}");
    }
}
