//! Permissions of each user over HTTP.

use crate::world::{PASSWORD, World, basic, user};
use mainstay_server::http::route_names;
use std::io::{Read, Write};
use std::net::TcpStream;

/// These routes need no authentication.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

#[test]
fn who_does_not_say_who_it_is_gets_401_everywhere() {
    let world = World::new();
    for (method, path) in route_names() {
        let open = OPEN.contains(&path.as_str());
        let path = path.replace("{name}", "a");
        let (status, headers, _) = world.ask_as(None, method, &path, &[], b"{}");
        assert_eq!(status, if open { 200 } else { 401 }, "{method} {path}");
        let challenge = headers.get("www-authenticate").map(|it| it.to_str().unwrap());
        let wanted = (!open).then_some("Basic realm=\"mainstay\", charset=\"UTF-8\"");
        assert_eq!(challenge, wanted, "{method} {path}");
    }
}

/// Connections stay open only for authenticated clients. Otherwise unauthenticated ones could use up all
/// connection slots with health checks.
#[test]
fn strangers_keep_no_connection() {
    let world = World::new();
    let connection = |authorization: Option<&str>, path: &str| {
        let (_, headers, _) = world.ask_as(authorization, "GET", path, &[], b"");
        headers.get("connection").map(|it| it.to_str().unwrap().to_owned())
    };
    for path in ["/healthz", "/readyz", "/v1/cells/a", "/nosuch"] {
        assert_eq!(connection(None, path).as_deref(), Some("close"), "{path}");
    }
    assert_eq!(connection(Some(&basic("default", PASSWORD)), "/v1/cells/a"), None);
}

#[test]
fn who_has_no_rights_gets_403_everywhere() {
    let world = World::new();
    for (method, path) in route_names() {
        let open = OPEN.contains(&path.as_str());
        let path = path.replace("{name}", "a");
        let (status, text) = world.ask(Some("nobody"), method, &path, "{}");
        assert_eq!(status, if open { 200 } else { 403 }, "{method} {path} {text}");
        assert!(open || text.contains("the user nobody may not do this"), "{text}");
    }
    assert_eq!(world.db.revision(), 0);
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_the_same() {
    let world = World::new();
    let said =
        |authorization: &str| world.ask_as(Some(authorization), "GET", "/v1/cells/a", &[], b"");
    let (status, _, wrong) = said(&basic("default", "wrong"));
    assert_eq!(status, 401);
    for header in [basic("nosuch", PASSWORD), basic("", ""), "Basic x".into(), "Bearer x".into()] {
        let (status, headers, text) = said(&header);
        assert_eq!((status, &text), (401, &wrong), "{header}");
        assert_eq!(headers["connection"], "close");
    }
    assert_eq!(said(&basic("default", PASSWORD)).0, 404, "there is no such cell");
    assert_eq!(said(&basic("default", "wrong")).0, 401, "also when the right one is remembered");
}

/// Method, path, body. All of them concern keys that do not belong to `app`.
const OUTSIDE: &[(&str, &str, &str)] = &[
    ("GET", "/v1/cells", ""),
    ("GET", "/v1/cells?prefix=ap", ""),
    ("GET", "/v1/cells?prefix=", ""),
    ("GET", "/v1/cells?after=app:", ""),
    ("GET", "/v1/cells/other", ""),
    ("GET", "/v1/cells/%6Fther", ""),
    ("PUT", "/v1/cells/other", "1"),
    ("DELETE", "/v1/cells/other", ""),
    ("POST", "/v1/incr/other", "{}"),
    ("GET", "/v1/history/other", ""),
    ("GET", "/v1/records", ""),
    ("GET", "/v1/records?prefix=ap", ""),
    ("GET", "/v1/records/other", ""),
    ("GET", "/v1/records/other?fields=a", ""),
    ("PUT", "/v1/records/other", r#"{"a":"1"}"#),
    ("PATCH", "/v1/records/other", r#"{"set":{"a":"1"}}"#),
    ("DELETE", "/v1/records/other", ""),
    ("GET", "/v1/record-count", ""),
    ("GET", "/v1/record-history/other", ""),
    ("GET", "/v1/record-explain", ""),
    ("GET", "/v1/record-explain?prefix=ap", ""),
    ("GET", "/v1/record-indexes", ""),
    ("GET", "/v1/record-indexes/1", ""),
    ("POST", "/v1/record-indexes", r#"{"prefix":"app:","fields":["a"]}"#),
    ("DELETE", "/v1/record-indexes/1", ""),
    ("POST", "/v1/transactions", r#"{"commands":[{"get_record":{"key":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"count_records":{}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"hash_get":{"key":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"guards":[{"record_absent":{"key":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"guards":[{"field":{"key":"other","field":"a","is":"1"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"get":{"name":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"must":{"get":{"name":"other"}}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"list":{}}]}"#),
    ("POST", "/v1/transactions", r#"{"guards":[{"absent":{"name":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"guards":[{"range_unchanged":{"since":0}}]}"#),
    ("POST", "/v1/transactions", r#"{"otherwise":[{"get":{"name":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"fork":{"name":"app:b","from":"main"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"delete_branch":{"name":"app:b"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"sweep":{"limit":1}}]}"#),
    ("GET", "/v1/runs", ""),
    ("GET", "/v1/runs?prefix=ap", ""),
    ("GET", "/v1/runs/other", ""),
    ("PUT", "/v1/runs/other", "{}"),
    ("DELETE", "/v1/runs/other", ""),
    ("GET", "/v1/runs/other/events", ""),
    ("POST", "/v1/runs/other/events", r#"{"eventType":"E","planVersion":"1"}"#),
    ("GET", "/v1/runs/other/tail", ""),
    ("GET", "/v1/runs/%6Fther/tail?wait_ms=0", ""),
    ("GET", "/v1/runs/other/snapshot", ""),
    ("GET", "/v1/runs/other/projection", ""),
    ("GET", "/v1/runs/other/alerts", ""),
    ("GET", "/v1/spaces", ""),
    ("GET", "/v1/spaces?prefix=ap", ""),
    ("GET", "/v1/spaces/other", ""),
    ("PUT", "/v1/spaces/other", "{}"),
    ("DELETE", "/v1/spaces/other", ""),
    ("POST", "/v1/spaces/other/seal", r#"{"frontier":1}"#),
    ("GET", "/v1/spaces/other/positions", ""),
    ("GET", "/v1/spaces/other/waiting", ""),
    ("GET", "/v1/spaces/other/states", ""),
    ("GET", "/v1/spaces/other/states?prefix=app:", ""),
    ("POST", "/v1/spaces/other/states", r#"[{"advance":{"source":"app:s","position":1}}]"#),
    ("GET", "/v1/spaces/other/states/app:a", ""),
    ("GET", "/v1/spaces/%6Fther/states/app:a", ""),
    ("PUT", "/v1/spaces/other/states/app:a?version=1", "1"),
    ("DELETE", "/v1/spaces/other/states/app:a?version=1", ""),
    ("GET", "/v1/spaces/other/items/app:a", ""),
    ("POST", "/v1/spaces/other/items/app:a", r#"{"id":"app:i","item":1}"#),
    ("GET", "/v1/spaces/other/snapshot", ""),
    ("PUT", "/v1/spaces/other/snapshot", ""),
    ("POST", "/v1/transactions", r#"{"commands":[{"get_space":{"space":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"list_spaces":{}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"drop_space":{"space":"other"}}]}"#),
    (
        "POST",
        "/v1/transactions",
        r#"{"guards":[{"state_absent":{"space":"other","key":"app:a"}}]}"#,
    ),
    ("POST", "/v1/transactions", r#"{"guards":[{"state_unchanged":{"space":"other","since":0}}]}"#),
    ("GET", "/v1/outbox", ""),
    ("POST", "/v1/outbox", r#"{"subject":"other"}"#),
    ("POST", "/v1/outbox", r#"{"subject":"app:s","run":"other"}"#),
    ("POST", "/v1/outbox/claim", ""),
    ("POST", "/v1/outbox/ack", r#"{"ids":[1]}"#),
    ("POST", "/v1/outbox/fail", r#"{"id":1}"#),
    ("GET", "/v1/outbox/dead", ""),
    ("POST", "/v1/outbox/dead/1/replay", ""),
    ("POST", "/v1/transactions", r#"{"commands":[{"get_run":{"run":"other"}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"list_runs":{}}]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"claim_messages":{}}]}"#),
    ("POST", "/v1/branches", r#"{"name":"app:b"}"#),
    ("DELETE", "/v1/branches/app:b", ""),
    ("GET", "/v1/diff?a=main&b=main", ""),
    ("POST", "/v1/merges", r#"{"from":"main","into":"main"}"#),
    ("PUT", "/v1/tags/app:t", ""),
    ("DELETE", "/v1/tags/app:t", ""),
    ("GET", "/v1/export/main", ""),
    ("POST", "/v1/import/app:b", ""),
    ("POST", "/v1/backup", ""),
    ("GET", "/v1/feed?after=0", ""),
    ("GET", "/v1/feed?after=0&prefix=ap", ""),
    ("GET", "/v1/feed/page?after=0", ""),
];

#[test]
fn who_has_a_prefix_stays_inside_it() {
    let world = World::new();
    world.db.cells().set("other", "secret-value").unwrap();
    for (method, path, body) in OUTSIDE {
        let (status, text) = world.ask(Some("app"), method, path, body);
        assert_eq!(status, 403, "{method} {path} {body}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
    // Two prefixes: whichever of them is checked, nothing is revealed.
    let path = "/v1/cells?prefix=app:&prefix=";
    assert!(matches!(world.ask(Some("app"), "GET", path, "").0, 400 | 403));
    assert_eq!(world.db.revision(), 1, "nothing of it was done");
    assert_eq!(world.ask(Some("app"), "PUT", "/v1/cells/app:a", "1").0, 200);
    let transaction = r#"{"guards":[{"counter":{"name":"app:a","is":1}}],
        "commands":[{"incr":{"name":"app:a"}},{"list":{"prefix":"app:"}}]}"#;
    assert_eq!(world.ask(Some("app"), "POST", "/v1/transactions", transaction).0, 200);
    let (status, text) = world.ask(Some("app"), "GET", "/v1/cells?prefix=app:", "");
    assert_eq!((status, text.contains("app:a"), text.contains("other")), (200, true, false));
}

#[test]
fn the_feed_of_a_prefix_tells_of_its_keys_and_of_no_branch() {
    let world = World::new();
    world.db.cells().set("other", 1).unwrap();
    world.db.cells().set("app:a", 1).unwrap();
    world.db.records().set_field("app:r", "f", "v").unwrap();
    let event = mainstay::NewEvent::new("app:run", "RunStarted").plan("1");
    world.db.runs().append(event).unwrap();
    world.db.outbox().put("app:subject", "secret", None).unwrap();
    world.db.fork("app:branch", "main", mainstay::At::Latest).unwrap();
    let path = "/v1/feed/page?after=0&prefix=app:";
    let (_, seen) = world.ask(Some("app"), "GET", path, "");
    assert!(seen.contains("app:a") && seen.contains("app:r"), "{seen}");
    assert!(seen.contains("app:run"), "{seen}");
    assert!(!seen.contains("app:branch"), "{seen}");
    // The number of a message is not a key, and a user who delivers messages has all keys.
    let (_, seen) =
        world.ask(Some("app"), "GET", "/v1/feed/page?after=0&prefix=app:&contract=outbox", "");
    assert!(seen.contains("\"events\":[]"), "{seen}");
    assert!(
        world.ask(Some("default"), "GET", "/v1/feed/page?after=0", "").1.contains("app:subject")
    );
    assert!(world.ask(Some("default"), "GET", path, "").1.contains("app:branch"));
}

#[test]
fn a_reader_reads_and_changes_nothing() {
    let world = World::new();
    world.db.cells().set("a", 1).unwrap();
    for path in [
        "/v1/cells/a",
        "/v1/cells",
        "/v1/history/a",
        "/v1/branches",
        "/v1/tags",
        "/v1/diff?a=main&b=main",
        "/v1/export/main",
        "/v1/feed/page?after=0",
        "/metrics",
        "/docs",
    ] {
        assert_eq!(world.ask(Some("reader"), "GET", path, "").0, 200, "{path}");
    }
    let set = r#"{"commands":[{"set":{"name":"a","value":2}}]}"#;
    for (method, path, body) in [
        ("PUT", "/v1/cells/a", "2"),
        ("DELETE", "/v1/cells/a", ""),
        ("POST", "/v1/transactions", set),
        ("POST", "/v1/branches", r#"{"name":"b"}"#),
        ("POST", "/v1/import/b", ""),
    ] {
        assert_eq!(world.ask(Some("reader"), method, path, body).0, 403, "{method} {path}");
    }
    assert_eq!(world.db.revision(), 1);
}

#[test]
fn keyed_state_needs_rights_of_its_own() {
    let world = World::with(|settings| {
        settings.users.push(user("operator", &["keyed"], &["app:"]));
        settings.users.push(user("looker", &["keyed:read"], &[""]));
        settings.users.push(user("filler", &["keyed:write"], &[""]));
    });
    let path = "/v1/spaces/app:s/states/a?version=1";
    let put = |name: &str| world.ask(Some(name), "PUT", path, "1").0;
    assert_eq!((put("keeper"), put("looker")), (403, 403), "records are no states");
    assert_eq!(put("filler"), 403, "what became of it tells what was there");
    assert_eq!(put("operator"), 200);
    let look = |name: &str, path: &str| world.ask(Some(name), "GET", path, "").0;
    assert_eq!(look("looker", "/v1/spaces/app:s/states/a"), 200);
    assert_eq!(look("filler", "/v1/spaces/app:s/states/a"), 403);
    assert_eq!(look("operator", "/v1/spaces?prefix=app:"), 200);
    assert_eq!(look("filler", "/v1/spaces/app:s/snapshot"), 403);
    let drop = |name: &str| world.ask(Some(name), "DELETE", "/v1/spaces/app:s", "").0;
    assert_eq!((drop("looker"), drop("filler")), (403, 200));
    world.db.keyed("app:s").unwrap().put("k", "1", 1).unwrap();
    let feed = "/v1/feed/page?after=0&prefix=app:&contract=keyed";
    assert!(world.ask(Some("app"), "GET", feed, "").1.contains("app:s/k"));
}

#[test]
fn runs_and_messages_need_rights_of_their_own() {
    let world = World::with(|settings| {
        settings.users.push(user("producer", &["runs", "outbox:write"], &["app:"]));
        settings.users.push(user("teller", &["runs:write"], &[""]));
    });
    let event = r#"{"eventType":"E","planVersion":"1"}"#;
    let append = |name: &str| world.ask(Some(name), "POST", "/v1/runs/app:r/events", event).0;
    assert_eq!(append("keeper"), 403, "records are no runs");
    assert_eq!(append("reader"), 403);
    assert_eq!(append("teller"), 403, "what comes of it tells what was there");
    assert_eq!(append("producer"), 200);
    assert_eq!(world.ask(Some("producer"), "GET", "/v1/runs/app:r/tail?wait_ms=0", "").0, 200);
    assert_eq!(world.ask(Some("teller"), "GET", "/v1/runs/app:r/tail?wait_ms=0", "").0, 403);
    assert_eq!(world.ask(Some("reader"), "GET", "/v1/runs/app:r/snapshot", "").0, 200);
    let put = r#"{"subject":"app:s","run":"app:r"}"#;
    assert_eq!(world.ask(Some("producer"), "POST", "/v1/outbox", put).0, 200);
    assert_eq!(world.ask(Some("producer"), "POST", "/v1/outbox/claim", "").0, 403);
    assert_eq!(world.ask(Some("reader"), "GET", "/v1/outbox", "").0, 200);
    assert_eq!(world.ask(Some("reader"), "POST", "/v1/outbox/claim", "").0, 403);
    assert_eq!(world.ask(Some("default"), "POST", "/v1/outbox/claim", "").0, 200);
}

#[test]
fn a_write_on_a_condition_reads_as_well() {
    let world = World::new();
    let writer = basic("writer", PASSWORD);
    let put = |headers: &[(&str, &str)]| {
        world.ask_as(Some(&writer), "PUT", "/v1/cells/a", headers, b"1").0
    };
    assert_eq!(put(&[]), 200);
    assert_eq!(put(&[("if-match", "\"1\"")]), 403, "the answer would tell the counter");
    assert_eq!(world.ask(Some("writer"), "POST", "/v1/incr/a", "{}").0, 403, "it tells the sum");
}

#[test]
fn a_body_is_not_waited_for_before_it_is_known_who_sends_it() {
    let world = World::new();
    let mut stream = TcpStream::connect(world.http).unwrap();
    // The body never arrives.
    let head = "PUT /v1/cells/a HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[test]
fn a_password_is_verified_once_for_many_requests() {
    let world = World::new();
    for _ in 0..20 {
        assert_eq!(world.ask(Some("reader"), "GET", "/v1/cells", "").0, 200);
    }
    let verified = world.audit().iter().filter(|line| line["command"] == "auth").count();
    assert_eq!(verified, 1, "each verification is recorded");
    let world = World::with(|settings| settings.remember_ms = 0);
    for _ in 0..3 {
        assert_eq!(world.ask(Some("reader"), "GET", "/v1/cells", "").0, 200);
    }
    assert_eq!(world.audit().len(), 3);
}
