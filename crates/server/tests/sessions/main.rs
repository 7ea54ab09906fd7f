//! Sessions over RESP, byte by byte: all commands, repeated requests, transactions, branches, bad input.

#[path = "../support/mod.rs"]
mod support;

mod refusals;
mod requests;
mod transactions;

use support::{Client, Ours};

/// Sends lines one after the other and checks the beginning of each reply.
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

/// Returns the description of a session, as JSON.
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
    let opened = &told["opened_us"];
    let expires = &told["expires_us"];
    assert!(expires.as_u64().unwrap() >= opened.as_u64().unwrap() + 5_000_000);
    let unnamed = client.line("SESSION.OPEN");
    assert!(unnamed.starts_with(r"$24\r\n"), "{unnamed}");
}

/// One effect and one answer, over any connection and for any number of concurrent repeats.
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
    // This hangs if the session never ends.
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
    // This hangs if the event never comes.
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
