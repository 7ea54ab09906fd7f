//! Isolation of users: one user neither accesses the data of another nor blocks it.

use crate::world::{PASSWORD, World, basic, user};
use mainstay::{CellCommand, Name, RequestId, Transaction};
use mainstay_server::http::route_names;
use mainstay_server::security::UserSettings;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a request with an extra header. Returns its status and its body.
fn with(world: &World, user: &str, path: &str, header: (&str, &str), body: &str) -> (u16, Value) {
    let authorization = basic(user, PASSWORD);
    let (status, _, text) =
        world.ask_as(Some(&authorization), "PUT", path, &[header], body.as_bytes());
    (status, serde_json::from_slice(&text).unwrap_or_default())
}

#[test]
fn a_key_of_one_user_tells_another_nothing() {
    let world = World::with(|settings| settings.users.push(user("other", &["cells"], &[""])));
    let key = ("idempotency-key", "order-7");
    let put = |user: &str, body: &str| with(&world, user, "/v1/cells/a", key, body);
    let (status, first) = put("default", "1");
    assert_eq!((status, &first["repeated"], &first["counter"]), (200, &json!(false), &json!(1)));
    let (status, second) = put("other", "1");
    assert_eq!((status, &second["repeated"], &second["counter"]), (200, &json!(false), &json!(2)));
    let (status, third) = put("writer", "2");
    assert_eq!(
        (status, &third["repeated"]),
        (200, &json!(false)),
        "a key of somebody else is free"
    );
    for user in ["default", "other"] {
        assert_eq!(put(user, "1").1["repeated"], json!(true), "its own request is repeated");
    }
    assert_eq!(put("default", "2").0, 422, "its own key is used");
    assert_eq!(world.db.revision(), 3);
}

/// Receipts stored by a server without users are still found.
#[test]
fn without_users_a_key_is_kept_as_it_is() {
    let world = World::with(|settings| settings.users.clear());
    let set = CellCommand::set(Name::new("a").unwrap(), 1);
    let id = RequestId::new("order-7").unwrap();
    world.db.execute(Transaction::new().step(set).request(id)).unwrap();
    let agent = world.ask_as(None, "PUT", "/v1/cells/a", &[("idempotency-key", "order-7")], b"1");
    let text = String::from_utf8_lossy(&agent.2).into_owned();
    assert!(agent.0 == 200 && text.contains("\"repeated\":true"), "{text}");
}

/// A browser attaches its password for this server to requests of a foreign page too.
#[test]
fn a_page_of_elsewhere_gets_nothing_with_the_password_of_a_user() {
    let world = World::new();
    world.db.cells().set("a", "secret").unwrap();
    let password = basic("default", PASSWORD);
    let delete = br#"{"commands":[{"delete":{"name":"a"}}]}"#;
    for header in [("origin", "https://elsewhere.test"), ("sec-fetch-site", "cross-site")] {
        for (method, path, body) in [
            ("POST", "/v1/transactions", &delete[..]),
            ("PUT", "/v1/cells/a", b"2"),
            ("GET", "/v1/cells/a", b""),
            ("GET", "/v1/export/main", b""),
        ] {
            let said = world.ask_as(Some(&password), method, path, &[header], body);
            let text = String::from_utf8_lossy(&said.2);
            assert_eq!(said.0, 403, "{header:?} {method} {path}: {text}");
            assert!(text.contains("http.allowed_origins") && !text.contains("secret"), "{text}");
        }
    }
    assert_eq!(world.db.revision(), 1);
    // Requests of its own pages, of programs, and of servers with a host name succeed.
    let own = format!("http://{}", world.http);
    let headers = [("origin", own.as_str())];
    assert_eq!(world.ask_as(Some(&password), "PUT", "/v1/cells/a", &headers, b"2").0, 200);
    let headers = [("host", "db.test:7380"), ("origin", "https://db.test:7380")];
    assert_eq!(world.ask_as(Some(&password), "PUT", "/v1/cells/a", &headers, b"3").0, 200);
    assert_eq!(world.ask(Some("default"), "GET", "/v1/cells/a", "").0, 200);
}

#[test]
fn browsers_guess_no_type_and_html_loads_nothing() {
    let world = World::new();
    let password = basic("default", PASSWORD);
    for (method, path) in route_names() {
        // These responses do not end.
        if path == "/v1/feed" || path.ends_with("/tail") {
            continue;
        }
        let path = path.replace("{name}", "a");
        for password in [Some(password.as_str()), None] {
            let (_, headers, _) = world.ask_as(password, method, &path, &[], b"{}");
            assert_eq!(headers["x-content-type-options"], "nosniff", "{method} {path}");
            let html = headers
                .get("content-type")
                .is_some_and(|it| it.as_bytes().starts_with(b"text/html"));
            assert_eq!(headers.contains_key("content-security-policy"), html, "{method} {path}");
        }
    }
    let (status, headers, page) = world.ask_as(Some(&password), "GET", "/docs", &[], b"");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(
        status == 200 && policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    // The page must not contain anything that its policy forbids.
    let page = String::from_utf8(page).unwrap();
    assert!(!page.contains("<script") && !page.contains(" style="), "it has inline parts");
    assert_eq!(
        world.ask_as(None, "GET", "/nowhere", &[], b"").1["x-content-type-options"],
        "nosniff"
    );
}

/// A user who takes everything available, and one who takes little.
fn two_users() -> Vec<UserSettings> {
    ["greedy", "honest"].map(|name| user(name, &["all"], &[""])).into()
}

#[test]
fn one_user_does_not_take_all_connections() {
    let world = World::limited(|settings, resp, _| {
        settings.users = two_users();
        resp.connections = 8;
    });
    let mut greedy: Vec<_> = (0..4).map(|_| world.client("greedy")).collect();
    let mut another = world.stranger();
    let reply = another.call(&["AUTH", "greedy", PASSWORD]);
    assert!(reply.starts_with("-UNAVAILABLE the user greedy has 4 connections"), "{reply}");
    assert!(reply.contains("resp.connections or security.user_share_percent"), "{reply}");
    assert_eq!(another.receive_or_end(), None, "it takes no place of others");
    let mut honest = world.client("honest");
    assert_eq!(honest.line("PING"), r"+PONG\r\n");
    // A repeated login keeps one connection slot and takes no second one. A login as another user releases
    // it.
    assert_eq!(greedy[0].call(&["AUTH", "greedy", PASSWORD]), r"+OK\r\n");
    assert_eq!(greedy[0].call(&["AUTH", "honest", PASSWORD]), r"+OK\r\n");
    assert_eq!(world.client("greedy").line("PING"), r"+PONG\r\n");
}

/// Sends a request on a connection that stays open. Returns the connection and the status of the answer.
fn kept_open(world: &World, user: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(world.http).unwrap();
    let authorization = basic(user, PASSWORD);
    let head =
        format!("GET /v1/cells/a HTTP/1.1\r\nhost: a\r\nauthorization: {authorization}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (stream, String::from_utf8_lossy(&status[9..]).into_owned())
}

#[test]
fn one_user_does_not_take_all_connections_over_http() {
    let world = World::limited(|settings, _, http| {
        settings.users = two_users();
        http.connections = 8;
    });
    world.db.cells().set("a", 1).unwrap();
    let greedy: Vec<_> = (0..4).map(|_| kept_open(&world, "greedy")).collect();
    assert!(greedy.iter().all(|(_, status)| status == "200"));
    let (mut another, status) = kept_open(&world, "greedy");
    let mut rest = String::new();
    another.read_to_string(&mut rest).unwrap();
    assert!(status == "503" && rest.contains("http.connections"), "{status} {rest}");
    let honest: Vec<_> = (0..3).map(|_| kept_open(&world, "honest").1).collect();
    assert_eq!(honest, ["200"; 3]);
}

#[test]
fn one_user_does_not_take_all_readers_of_the_feed() {
    let world = World::limited(|settings, resp, http| {
        settings.users = two_users();
        resp.feed_readers = 4;
        http.feed_readers = 4;
    });
    let watch = |user: &str| {
        let mut client = world.client(user);
        client.line("HELLO 3");
        let reply = client.line("FEED.WATCH");
        (client, reply)
    };
    let greedy: Vec<_> = (0..3).map(|_| watch("greedy")).collect();
    assert!(!greedy[0].1.starts_with('-') && !greedy[1].1.starts_with('-'), "{}", greedy[0].1);
    let refused = &greedy[2].1;
    assert!(refused.starts_with("-UNAVAILABLE the user greedy has 2 feed readers"), "{refused}");
    assert!(!watch("honest").1.starts_with('-'));
    let follow = |user: &str| {
        let mut stream = TcpStream::connect(world.http).unwrap();
        let authorization = basic(user, PASSWORD);
        let head =
            format!("GET /v1/feed HTTP/1.1\r\nhost: a\r\nauthorization: {authorization}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (stream, String::from_utf8_lossy(&status[9..]).into_owned())
    };
    let greedy: Vec<_> = (0..3).map(|_| follow("greedy")).collect();
    let statuses: Vec<&str> = greedy.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(statuses, ["200", "200", "503"]);
    assert_eq!(follow("honest").1, "200");
    assert_eq!(world.ask(Some("honest"), "GET", "/v1/feed/page?after=0", "").0, 200);
}

#[test]
fn one_user_does_not_make_the_cursors_of_others_forgotten() {
    let world = World::limited(|settings, resp, _| {
        settings.users = two_users();
        resp.cursors = 10;
    });
    for key in 0..5 {
        world.db.cells().set(&format!("k{key}"), 1).unwrap();
    }
    let mut greedy = world.client("greedy");
    let mut honest = world.client("honest");
    assert!(honest.line("SCAN 0 COUNT 2").starts_with(r"*2\r\n$1\r\n1\r\n"));
    (0..50).for_each(|_| drop(greedy.line("SCAN 0 COUNT 1")));
    let page = honest.line("SCAN 1 COUNT 10");
    assert!(page.contains("k2") && page.contains("k4"), "{page}");
}

/// Returns the reply to a line on a new connection from this loopback address.
fn said_from(address: [u8; 4], to: std::net::SocketAddr, words: &str) -> String {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &std::net::SocketAddr::from((address, 0))).unwrap();
    connect(&socket, &to).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(words.as_bytes()).unwrap();
    let mut reply = vec![0; 4096];
    let length = stream.read(&mut reply).unwrap();
    String::from_utf8_lossy(&reply[..length]).into_owned()
}

#[test]
fn wrong_passwords_wait_by_user_and_address_and_lock_nobody_out_elsewhere() {
    let world = World::with(|settings| {
        settings.users = two_users();
        settings.failures_per_user_and_address = 6;
        // So long that the delay does not end during this test.
        settings.failure_wait_ms = 3_600_000;
        settings.failure_wait_limit_ms = 3_600_000;
        settings.remember_ms = 0;
    });
    let here = [127, 0, 0, 2];
    let guess = |address, user: &str, password: &str| {
        said_from(address, world.resp, &format!("AUTH {user} \"{password}\"\r\n"))
    };
    let mut replies: Vec<String> = (0..8).map(|_| guess(here, "honest", "guess")).collect();
    let waits = replies.split_off(6);
    assert!(replies.iter().all(|reply| reply.starts_with("-WRONGPASS")), "{replies:?}");
    for reply in &waits {
        assert!(reply.starts_with("-UNAVAILABLE too many wrong passwords"), "{reply}");
        assert!(reply.contains("security.failures_per_user_and_address"), "{reply}");
    }
    assert!(guess(here, "honest", PASSWORD).starts_with("-UNAVAILABLE"), "nothing is verified");
    assert_eq!(guess([127, 0, 0, 3], "honest", PASSWORD), "+OK\r\n", "elsewhere it goes on");
    assert_eq!(guess(here, "greedy", PASSWORD), "+OK\r\n", "and so do other users here");
    // Unknown names are counted in the same way, so an attacker cannot find out which names exist.
    let unknown: Vec<String> = (0..8).map(|_| guess(here, "nosuch", "guess")).collect();
    assert_eq!(unknown[..6], replies[..], "as a user that there is");
    assert!(unknown[6].starts_with("-UNAVAILABLE"), "{unknown:?}");
    let mut ops = world.client("greedy");
    let info = ops.line("INFO");
    assert!(info.contains("login_failures:12") && info.contains("login_waits:5"), "{info}");
    let metrics = world.ask(Some("greedy"), "GET", "/metrics", "").1;
    assert!(metrics.contains("mainstay_login_failures_total 12"), "{metrics}");
}

#[test]
fn wrong_passwords_over_http_wait_as_well() {
    let world = World::with(|settings| {
        settings.users = two_users();
        settings.failures_per_user_and_address = 3;
        settings.failure_wait_ms = 3_600_000;
        settings.failure_wait_limit_ms = 3_600_000;
    });
    assert_eq!(world.ask(Some("greedy"), "GET", "/v1/cells", "").0, 200);
    let guess =
        |user: &str| world.ask_as(Some(&basic(user, "guess")), "GET", "/v1/cells", &[], b"");
    let statuses: Vec<u16> = (0..5).map(|_| guess("greedy").0).collect();
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    let (_, headers, text) = guess("greedy");
    assert_eq!(headers["retry-after"], "3600");
    assert!(String::from_utf8_lossy(&text).contains("security.failures_per_address"));
    assert_eq!(world.ask(Some("greedy"), "GET", "/v1/cells", "").0, 200, "it is remembered");
    assert_eq!(world.ask(Some("honest"), "GET", "/v1/cells", "").0, 200);
}

#[test]
fn an_origin_that_is_allowed_may_use_the_server_from_a_browser() {
    let world = World::limited(|_, _, http| http.allowed_origins = vec!["https://app.test".into()]);
    let password = basic("default", PASSWORD);
    let origin = ("origin", "https://app.test");
    let (status, headers, _) = world.ask_as(Some(&password), "PUT", "/v1/cells/a", &[origin], b"1");
    assert_eq!(
        (status, &headers["access-control-allow-origin"]),
        (200, &"https://app.test".parse().unwrap())
    );
    // A browser first sends a preflight request, without a password.
    let asks = [origin, ("access-control-request-method", "PUT")];
    let (status, headers, _) = world.ask_as(None, "OPTIONS", "/v1/cells/a", &asks, b"");
    assert_eq!((status, headers.contains_key("access-control-allow-methods")), (200, true));
    let elsewhere = ("origin", "https://elsewhere.test");
    let (status, headers, _) =
        world.ask_as(Some(&password), "GET", "/v1/cells/a", &[elsewhere], b"");
    assert_eq!((status, headers.contains_key("access-control-allow-origin")), (403, false));
}
