use crate::world::{Said, World};
use mainstay::{KEPT_LIMIT_BYTES, LETTER_LIMIT_BYTES, ManualClock, Options};
use mainstay_server::http::Settings;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A server with a manual clock.
fn timed() -> (World, Arc<ManualClock>) {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    (World::of(db, Settings::default()), clock)
}

/// A server with a session `s`.
fn open() -> World {
    let w = World::new();
    w.post("/v1/sessions", r#"{"session":"s"}"#).ok();
    w
}

/// Sends a request of the session `s`.
fn ask(w: &World, number: u64, method: &str, path: &str, body: &str) -> Said {
    let number = number.to_string();
    let headers = [("mainstay-session", "s"), ("idempotency-key", &number)];
    w.ask(method, path, &headers, body)
}

/// The answer that a repeat of this request must get.
fn repeated(mut answer: Value) -> Value {
    if answer.get("repeated").is_some() {
        assert_eq!(answer["repeated"], false, "{answer}");
        answer["repeated"] = json!(true);
    }
    answer
}

#[test]
fn a_session_is_opened_looked_at_kept_alive_and_closed() {
    let (w, clock) = timed();
    let body = r#"{"session":"till/7","lease_ms":5000,"capabilities":{"lang":"rust"}}"#;
    let opened = w.post("/v1/sessions", body).ok();
    let opened_us = opened["opened_us"].as_u64().unwrap();
    let mut known = json!({
        "session": "till/7", "opened_us": opened_us, "lease_ms": 5000, "expires_us": opened_us + 5_000_000,
        "capabilities": {"lang": "rust"}, "next_request": 1, "mark": 1, "kept": 0, "kept_bytes": 0,
        "last_sent": 0, "pending": 0,
    });
    assert_eq!(w.get("/v1/sessions/till%2F7").ok(), known);
    known["created"] = json!(true);
    assert_eq!(opened, known);
    assert_eq!(w.post("/v1/sessions", body).ok()["created"], false);
    clock.advance(Duration::from_secs(4));
    let keep = |body| w.post("/v1/sessions/till%2F7/keep-alive", body);
    assert_eq!(keep("").ok(), json!({"alive": true}));
    clock.advance(Duration::from_secs(4));
    assert_eq!(keep(r#"{"lowest":3}"#).ok(), json!({"alive": true}));
    assert_eq!(w.get("/v1/sessions/till%2F7").ok()["next_request"], 3);
    let closed = w.delete("/v1/sessions/till%2F7").ok();
    assert_eq!(closed["deleted"], true);
    assert_eq!(w.delete("/v1/sessions/till%2F7").ok()["deleted"], false);
    assert_eq!(w.get("/v1/sessions/till%2F7").code(), (404, "SessionNotFound".into()));
    assert_eq!(keep("").code(), (410, "SessionExpired".into()));
}

#[test]
fn a_session_without_an_id_gets_one_and_sessions_are_listed_in_pages() {
    let w = World::new();
    let id = w.post("/v1/sessions", "").ok()["session"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 24);
    w.delete(&format!("/v1/sessions/{id}")).ok();
    for session in ["b", "a", "c"] {
        w.post("/v1/sessions", &json!({"session": session}).to_string()).ok();
    }
    let names = |page: &Value| -> Vec<String> {
        let all = page["sessions"].as_array().unwrap();
        all.iter().map(|one| one["session"].as_str().unwrap().to_owned()).collect()
    };
    let page = w.get("/v1/sessions?limit=2").ok();
    assert_eq!((names(&page), &page["next"]), (vec!["a".into(), "b".into()], &json!("b")));
    let page = w.get("/v1/sessions?after=b").ok();
    assert_eq!((names(&page), &page["next"]), (vec!["c".into()], &Value::Null));
}

#[test]
fn what_is_sent_waits_until_it_is_acknowledged() {
    let (w, clock) = timed();
    w.post("/v1/sessions", r#"{"session":"s"}"#).ok();
    let send = |body: &str| w.post("/v1/sessions/s/requests", body).ok()["number"].clone();
    assert_eq!(send(r#"{"payload":"stop"}"#), 1);
    assert_eq!(send(r#"{"payload":{"$bytes":"AP8="}}"#), 2);
    assert_eq!(send(r#"{"payload":{"a":1}}"#), 3);
    assert_eq!(send("{}"), 4);
    let nobody = w.post("/v1/sessions/nobody/requests", r#"{"payload":"x"}"#).ok();
    assert_eq!(nobody["number"], Value::Null);
    let pending = w.get("/v1/sessions/s/requests").ok();
    let all = json!([
        {"number": 1, "payload": "stop"},
        {"number": 2, "payload": {"$bytes": "AP8="}},
        {"number": 3, "payload": "{\"a\":1}"},
        {"number": 4, "payload": ""},
    ]);
    assert_eq!(pending, json!({"requests": all, "next": null}));
    let page = w.get("/v1/sessions/s/requests?after=1&limit=2").ok();
    assert_eq!((page["requests"].as_array().unwrap().len(), &page["next"]), (2, &json!(3)));
    let acknowledge = |upto: u64| {
        let body = json!({"upto": upto}).to_string();
        w.post("/v1/sessions/s/acknowledge", &body).ok()["acknowledged"].clone()
    };
    assert_eq!((acknowledge(3), acknowledge(2)), (json!(3), json!(0)));
    clock.advance(Duration::from_secs(1));
    let now = w.db.now_us().unwrap();
    let retry = |sent_before: u64| {
        let body = json!({"sent_before": sent_before, "limit": 5}).to_string();
        w.post("/v1/session-retries", &body).ok()["requests"].clone()
    };
    assert_eq!(retry(1), json!([]));
    assert_eq!(retry(now), json!([{"session": "s", "number": 4, "payload": ""}]));
    assert_eq!(retry(now), json!([]), "it counts as sent now");
    assert_eq!(acknowledge(u64::MAX), 1);
    assert_eq!(w.get("/v1/sessions/nobody/requests").code(), (410, "SessionExpired".into()));
}

/// Every kind of write that can be a request of a session. Repeating it has no further effect, gives the same
/// answer, and sets `repeated` on routes that report it.
const WRITES: [(&str, &str, &str); 25] = [
    ("PUT", "/v1/cells/a", "1"),
    ("POST", "/v1/incr/a", r#"{"by":4}"#),
    ("DELETE", "/v1/cells/a", ""),
    ("PUT", "/v1/records/r", r#"{"f":"1"}"#),
    ("PATCH", "/v1/records/r", r#"{"set":{"g":"2"}}"#),
    ("DELETE", "/v1/records/r", ""),
    ("POST", "/v1/runs/run/events", r#"{"eventType":"RunStarted","planVersion":"1"}"#),
    ("PUT", "/v1/runs/other", r#"{"metadata":{},"events":[]}"#),
    ("DELETE", "/v1/runs/other", ""),
    ("POST", "/v1/outbox", r#"{"subject":"s"}"#),
    ("POST", "/v1/outbox/claim", r#"{"limit":1,"lease_ms":60000}"#),
    ("POST", "/v1/outbox/ack", r#"{"ids":[1]}"#),
    ("PUT", "/v1/spaces/sp", "{}"),
    ("PUT", "/v1/spaces/sp/states/k?version=7", "\"v\""),
    ("DELETE", "/v1/spaces/sp/states/k?version=8", ""),
    ("POST", "/v1/spaces/sp/items/k", r#"{"id":"1","item":"x"}"#),
    ("DELETE", "/v1/spaces/sp", ""),
    ("POST", "/v1/sessions/s/requests", r#"{"payload":"x"}"#),
    ("POST", "/v1/sessions/s/acknowledge", r#"{"upto":1}"#),
    ("POST", "/v1/branches", r#"{"name":"side"}"#),
    ("PUT", "/v1/tags/t", ""),
    ("DELETE", "/v1/tags/t", ""),
    ("DELETE", "/v1/branches/side", ""),
    ("POST", "/v1/record-indexes", r#"{"prefix":"r","fields":["f"]}"#),
    ("POST", "/v1/transactions", r#"{"commands":[{"incr":{"name":"n"}},{"get":{"name":"n"}}]}"#),
];

#[test]
fn every_write_is_done_once_in_a_session() {
    // `timed` disables sweeps. They write as well: they fill indexes and clear deleted runs and spaces.
    let (w, _) = timed();
    w.post("/v1/sessions", r#"{"session":"s"}"#).ok();
    w.post("/v1/outbox", r#"{"subject":"first"}"#).ok();
    let numbered = || (1..).zip(WRITES);
    let first: Vec<Said> = numbered()
        .map(|(number, (method, path, body))| ask(&w, number, method, path, body))
        .collect();
    let revision = w.db.revision();
    for ((number, (method, path, body)), first) in numbered().zip(first) {
        let again = ask(&w, number, method, path, body);
        let tag = (first.header("etag").to_owned(), again.header("etag").to_owned());
        assert_eq!(tag.0, tag.1, "{method} {path}");
        assert_eq!(again.ok(), repeated(first.ok()), "{method} {path}");
    }
    assert_eq!(w.db.revision(), revision, "nothing was executed");
    assert_eq!(w.get("/v1/sessions/s").ok()["kept"], WRITES.len());
}

#[test]
fn a_failure_is_an_answer_and_stays_one() {
    let w = open();
    let if_absent = |number: &str| {
        let headers =
            [("mainstay-session", "s"), ("idempotency-key", number), ("if-none-match", "*")];
        w.ask("PUT", "/v1/cells/a", &headers, "2")
    };
    w.put("/v1/cells/a", "\"text\"").ok();
    assert_eq!(ask(&w, 1, "POST", "/v1/incr/a", "").code(), (400, "NotANumber".into()));
    assert_eq!(if_absent("2").code(), (412, "PreconditionFailed".into()));
    let guarded = r#"{"guards":[{"absent":{"name":"a"}}],"commands":[{"incr":{"name":"n"}}]}"#;
    assert_eq!(ask(&w, 3, "POST", "/v1/transactions", guarded).code().0, 409);
    w.delete("/v1/cells/a").ok();
    assert_eq!(ask(&w, 1, "POST", "/v1/incr/a", "").code(), (400, "NotANumber".into()));
    let again = if_absent("2");
    assert_eq!((again.code().0, again.header("etag")), (412, "\"1\""));
    assert_eq!(ask(&w, 3, "POST", "/v1/transactions", guarded).code().0, 409);
    assert_eq!(w.get("/v1/cells/n").code().0, 404);
    assert_eq!(w.get("/v1/cells/a").code().0, 404);
}

#[test]
fn what_a_client_has_got_may_go() {
    let w = open();
    let add = |number: &str, lowest: &str| {
        let headers =
            [("mainstay-session", "s"), ("idempotency-key", number), ("mainstay-lowest", lowest)];
        w.ask("POST", "/v1/incr/n", &headers, "")
    };
    assert_eq!(add("1", "1").ok()["value"], 1);
    assert_eq!(add("2", "0").ok()["value"], 2);
    assert_eq!(add("1", "0").ok()["repeated"], true, "0 says nothing");
    assert_eq!(add("3", "3").ok()["value"], 3);
    assert_eq!(add("1", "1").code(), (410, "ResponseEvicted".into()));
    assert_eq!(add("2", "2").code(), (410, "ResponseEvicted".into()));
    w.delete("/v1/sessions/s").ok();
    assert_eq!(add("4", "4").code(), (410, "SessionExpired".into()));
    assert_eq!(w.get("/v1/cells/n").ok()["value"], 3);
}

#[test]
fn a_key_without_a_session_is_a_name_as_before() {
    let w = open();
    let named = || w.ask("POST", "/v1/incr/n", &[("idempotency-key", "1")], "").ok();
    assert_eq!((named()["value"].clone(), named()["repeated"].clone()), (json!(1), json!(true)));
    assert_eq!(ask(&w, 1, "POST", "/v1/incr/n", "").ok()["value"], 2, "another one");
    assert_eq!(w.get("/v1/sessions/s").ok()["kept"], 1);
    let send =
        || w.ask("POST", "/v1/sessions/s/requests", &[("idempotency-key", "send")], "{}").ok();
    assert_eq!(send()["repeated"], false);
    let again = send();
    assert_eq!((&again["number"], &again["repeated"]), (&json!(1), &json!(true)));
}

#[test]
fn headers_that_make_no_sense_are_told() {
    let w = open();
    let long = "x".repeat(1025);
    let cases: [&[(&str, &str)]; 13] = [
        &[("mainstay-session", "s")],
        &[("mainstay-session", "s"), ("idempotency-key", "one")],
        &[("mainstay-session", "s"), ("idempotency-key", "")],
        &[("mainstay-session", "s"), ("idempotency-key", "-1")],
        &[("mainstay-session", "s"), ("idempotency-key", "+1")],
        &[("mainstay-session", "s"), ("idempotency-key", "0")],
        &[("mainstay-session", "s"), ("idempotency-key", "9223372036854775808")],
        &[("mainstay-session", "s"), ("idempotency-key", "18446744073709551615")],
        &[("mainstay-session", "s"), ("idempotency-key", "18446744073709551616")],
        &[("mainstay-session", "s"), ("idempotency-key", "1"), ("mainstay-lowest", "2")],
        &[("mainstay-session", "s"), ("idempotency-key", "1"), ("mainstay-lowest", "x")],
        &[("mainstay-session", "s"), ("mainstay-session", "t"), ("idempotency-key", "1")],
        &[("mainstay-lowest", "1"), ("idempotency-key", "1")],
    ];
    for headers in cases {
        let said = w.ask("POST", "/v1/incr/n", headers, "");
        assert_eq!(said.code(), (400, "InvalidArgument".into()), "{headers:?}");
    }
    for session in ["", "_mainstay/s", &long] {
        let headers = [("mainstay-session", session), ("idempotency-key", "1")];
        let said = w.ask("POST", "/v1/incr/n", &headers, "");
        assert_eq!(said.code(), (400, "InvalidName".into()), "{session}");
    }
    let nobody = [("mainstay-session", "nobody"), ("idempotency-key", "1")];
    let said = w.ask("POST", "/v1/incr/n", &nobody, "");
    assert_eq!(said.code(), (410, "SessionExpired".into()));
    assert_eq!(w.get("/v1/cells/n").code().0, 404);
    assert_eq!(w.get("/v1/sessions/s").ok()["kept"], 0);
}

#[test]
fn a_session_may_have_a_name_that_is_not_ascii() {
    let w = World::new();
    w.post("/v1/sessions", r#"{"session":"Käse"}"#).ok();
    let request = "POST /v1/incr/n HTTP/1.1\r\nhost: localhost\r\nmainstay-session: Käse\r\n\
                   idempotency-key: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for repeated in [false, true] {
        let said = w.raw(request.as_bytes());
        assert!(
            said.contains(&format!(r#""value":1,"counter":1,"revision":2,"repeated":{repeated}"#)),
            "{said}"
        );
    }
}

/// These routes cannot be exactly once, so they reject the session headers.
#[test]
fn what_is_no_transaction_on_data_is_no_request_of_a_session() {
    let w = open();
    for (method, path, body) in [
        ("PUT", "/v1/jobs/email/1", "{}"),
        ("POST", "/v1/job-claims/email", r#"{"worker":"w"}"#),
        ("POST", "/v1/job-sweeps", ""),
        ("PUT", "/v1/locks/l", r#"{"owner":"o","lease_ms":1000}"#),
        ("POST", "/v1/spaces/sp/seal", r#"{"frontier":1}"#),
        ("PUT", "/v1/spaces/sp/snapshot", ""),
        ("POST", "/v1/sessions", r#"{"session":"t"}"#),
        ("POST", "/v1/sessions/s/keep-alive", ""),
        ("DELETE", "/v1/sessions/s", ""),
        ("POST", "/v1/session-retries", r#"{"sent_before":1}"#),
        ("POST", "/v1/import/side", ""),
    ] {
        let said = ask(&w, 1, method, path, body);
        assert_eq!(said.code(), (400, "InvalidArgument".into()), "{method} {path}");
        assert!(said.text.contains("no request of a session"), "{method} {path}: {}", said.text);
    }
    assert_eq!(w.get("/v1/sessions").ok()["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(w.get("/v1/sessions/s").ok()["kept"], 0);
}

#[test]
fn a_number_that_was_used_for_something_else_is_told_so() {
    let w = open();
    ask(&w, 1, "POST", "/v1/incr/n", "").ok();
    let reused = (422, "RequestReused".to_owned());
    assert_eq!(
        ask(&w, 1, "POST", "/v1/runs/r/events", r#"{"eventType":"A","planVersion":"1"}"#).code(),
        reused
    );
    assert_eq!(ask(&w, 1, "POST", "/v1/sessions/s/requests", "{}").code(), reused);
    let two = r#"{"commands":[{"incr":{"name":"n"}},{"incr":{"name":"n"}}]}"#;
    assert_eq!(ask(&w, 1, "POST", "/v1/transactions", two).code(), reused);
    // A request of the same type is taken for a repeat of the first.
    assert_eq!(ask(&w, 1, "POST", "/v1/incr/other", "").ok()["value"], 1);
    assert_eq!(w.get("/v1/cells/n").ok()["value"], 1);
    assert_eq!(w.get("/v1/cells/other").code().0, 404);
}

/// `UnknownOutcome` makes clients retry forever, so it must not be returned for a request number that was
/// used before.
#[test]
fn a_number_is_used_for_every_write_after_every_other_one() {
    let w = open();
    w.post("/v1/outbox", r#"{"subject":"first"}"#).ok();
    for (number, (method, path, body)) in (1..).zip(WRITES) {
        ask(&w, number, method, path, body).ok();
    }
    let paths = ["cells", "cells/n", "records", "runs", "spaces", "branches", "tags"];
    let seen = || paths.map(|path| w.get(&format!("/v1/{path}")).ok());
    let before = seen();
    let mut reused = 0;
    for (number, first) in (1..).zip(WRITES) {
        for (method, path, body) in WRITES {
            let said = ask(&w, number, method, path, body);
            let is_reused = said.status == 422 && said.code().1 == "RequestReused";
            assert!(said.status < 300 || is_reused, "{first:?}, {method} {path}: {}", said.text);
            reused += u32::from(is_reused);
        }
    }
    assert!(reused > 300, "most can be told from each other, not {reused}");
    assert_eq!(seen(), before, "nothing was executed");
    assert_eq!(w.get("/v1/sessions/s").ok()["kept"], WRITES.len());
    let said = ask(&w, 2, "PUT", "/v1/cells/hc", "1");
    assert!(said.text.contains("this one was not executed"), "{}", said.text);
}

#[test]
fn bad_input_is_told_and_writes_nothing() {
    let w = World::new();
    for (path, body, code) in [
        ("/v1/sessions", r#"{"session":""}"#, "InvalidName"),
        ("/v1/sessions", r#"{"session":"_mainstay/s"}"#, "InvalidName"),
        ("/v1/sessions", r#"{"lease_ms":0}"#, "InvalidTtl"),
        ("/v1/sessions", r#"{"lease_ms":86400001}"#, "InvalidTtl"),
        ("/v1/sessions", r#"{"lease_ms":18446744073709551615}"#, "InvalidTtl"),
        ("/v1/sessions", r#"{"lease_ms":-1}"#, "InvalidArgument"),
        ("/v1/sessions", r#"{"capabilities":{"":"x"}}"#, "InvalidArgument"),
        ("/v1/sessions", r#"{"capabilities":{"a":1}}"#, "InvalidArgument"),
        ("/v1/sessions", r#"{"colour":1}"#, "InvalidArgument"),
        ("/v1/sessions/s/keep-alive", r#"{"lowest":"x"}"#, "InvalidArgument"),
        ("/v1/sessions/s/requests", r#"{"colour":1}"#, "InvalidArgument"),
        ("/v1/sessions/s/acknowledge", "{}", "InvalidArgument"),
        ("/v1/sessions/s/acknowledge", r#"{"upto":-1}"#, "InvalidArgument"),
        ("/v1/sessions/_mainstay%2Fs/requests", "{}", "InvalidName"),
        ("/v1/session-retries", "{}", "InvalidArgument"),
        ("/v1/session-retries", r#"{"sent_before":1,"limit":0}"#, "InvalidLimit"),
    ] {
        assert_eq!(w.post(path, body).code(), (400, code.into()), "{path} {body}");
    }
    assert_eq!(w.get("/v1/sessions?limit=0").code(), (400, "InvalidLimit".into()));
    assert_eq!(w.get("/v1/sessions/s/requests?limit=100001").code(), (400, "InvalidLimit".into()));
    assert_eq!(w.db.revision(), 0, "what was refused wrote nothing");
    w.post("/v1/sessions", r#"{"session":"s"}"#).ok();
    let large = json!({"payload": "x".repeat(LETTER_LIMIT_BYTES + 1)}).to_string();
    let said = w.post("/v1/sessions/s/requests", &large);
    assert_eq!(said.code(), (413, "ValueTooLarge".into()));
    w.put("/v1/cells/big", &json!("x".repeat(KEPT_LIMIT_BYTES)).to_string()).ok();
    let read = r#"{"commands":[{"incr":{"name":"n"}},{"get":{"name":"big"}}]}"#;
    for _ in 0..2 {
        let said = ask(&w, 1, "POST", "/v1/transactions", read);
        assert_eq!(said.code(), (413, "ValueTooLarge".into()));
    }
    assert_eq!(w.get("/v1/cells/n").code().0, 404);
}

#[test]
fn every_command_on_sessions_has_a_form_and_so_has_its_answer() {
    let w = World::new();
    let run = |command: Value| {
        let receipt = w.post("/v1/transactions", &json!({"commands": [command]}).to_string()).ok();
        receipt["answers"][0].clone()
    };
    let opened = run(json!({"open_session": {"session": "s", "lease_ms": 5000}}));
    assert_eq!(
        (&opened["opened"]["created"], &opened["opened"]["lease_ms"]),
        (&json!(true), &json!(5000))
    );
    assert_eq!(run(json!({"keep_session_alive": {"session": "s"}})), json!({"did": true}));
    assert_eq!(run(json!({"send_request": {"session": "s", "payload": "x"}})), json!({"sent": 1}));
    assert_eq!(run(json!({"send_request": {"session": "t"}})), json!({"sent": null}));
    let pending = json!({"requests": [{"number": 1, "payload": "x"}], "next": null});
    assert_eq!(run(json!({"pending_requests": {"session": "s"}})), json!({"pending": pending}));
    assert_eq!(run(json!({"has_pending_requests": {"sent_before": 1}})), json!({"did": false}));
    let retry = run(json!({"retry_requests": {"sent_before": u64::MAX}}));
    assert_eq!(retry, json!({"retry": [{"session": "s", "number": 1, "payload": "x"}]}));
    assert_eq!(
        run(json!({"acknowledge_requests": {"session": "s", "upto": 1}})),
        json!({"count": 1})
    );
    assert_eq!(run(json!({"get_session": {"session": "s"}}))["session"]["last_sent"], 1);
    assert_eq!(run(json!({"get_session": {"session": "t"}})), json!({"session": null}));
    let listed = run(json!({"list_sessions": {}}));
    assert_eq!(listed["sessions"]["sessions"][0]["session"], "s");
    assert_eq!(run(json!({"close_session": {"session": "s"}})), json!({"did": true}));
}

#[test]
fn a_transaction_sends_with_what_it_writes() {
    let w = open();
    let body = r#"{"commands":[{"set":{"name":"a","value":1}},{"must":{"send_request":{"session":"SESSION"}}}]}"#;
    assert_eq!(w.post("/v1/transactions", &body.replace("SESSION", "nobody")).code().0, 409);
    assert_eq!(w.get("/v1/cells/a").code().0, 404);
    w.post("/v1/transactions", &body.replace("SESSION", "s")).ok();
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 1);
    let alone =
        r#"{"commands":[{"set":{"name":"a","value":2}},{"close_session":{"session":"s"}}]}"#;
    assert_eq!(w.post("/v1/transactions", alone).code(), (400, "InvalidArgument".into()));
}

#[test]
fn the_feed_tells_of_sessions() {
    let (w, clock) = timed();
    let mut feed = w.follow("/v1/feed?after=0&contract=sessions", &[]);
    w.post("/v1/sessions", r#"{"session":"s"}"#).ok();
    ask(&w, 1, "PUT", "/v1/cells/a", "1").ok();
    w.post("/v1/sessions/s/requests", r#"{"payload":"hello"}"#).ok();
    w.delete("/v1/sessions/s").ok();
    w.post("/v1/sessions", r#"{"session":"t"}"#).ok();
    clock.advance(Duration::from_secs(61));
    w.db.sweep().unwrap();
    let kinds = ["opened", "sent", "closed", "opened", "expired"];
    for (kind, key) in kinds.into_iter().zip(["s", "s", "s", "t", "t"]) {
        let sent = feed.next().unwrap();
        let told = (&sent.data["kind"], &sent.data["key"], &sent.data["contract"]);
        assert_eq!(told, (&json!(kind), &json!(key), &json!("sessions")));
        assert_eq!(sent.data["branch"], "");
        if kind == "sent" {
            assert_eq!(sent.data["value"], json!({"$bytes": "aGVsbG8="}));
            assert_eq!(sent.data["counter"], 1);
        }
    }
    let page = w.get("/v1/feed/page?after=0&contract=sessions&limit=2").ok();
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
}

#[test]
fn the_document_says_which_operations_can_be_requests_of_sessions() {
    let w = World::new();
    let document = w.get("/openapi.json").ok();
    let has = |path: &str, method: &str, header: &str| {
        let parameters = document["paths"][path][method]["parameters"].as_array().cloned();
        parameters.unwrap_or_default().iter().any(|one| one["name"] == header)
    };
    for header in ["Mainstay-Session", "Mainstay-Lowest"] {
        assert!(has("/v1/cells/{name}", "put", header));
        assert!(has("/v1/transactions", "post", header));
        assert!(!has("/v1/cells/{name}", "get", header));
        assert!(!has("/v1/sessions", "post", header));
        assert!(!has("/v1/locks/{name}", "put", header));
    }
    assert!(document["paths"]["/v1/transactions"]["post"]["responses"]["410"].is_object());
}
