use crate::world::{World, until};
use mainstay::{FieldValue, Fields, ManualClock, Options, RecordWrite};
use mainstay_server::http::Settings;
use serde_json::{Value, json};
use std::time::Duration;

fn run(w: &World, body: Value) -> Value {
    w.post("/v1/transactions", &body.to_string()).ok()
}

/// A path with this value in the query argument `where`.
fn filtered(path: &str, tests: Value) -> String {
    let text = tests.to_string();
    let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("{path}where={encoded}")
}

#[test]
fn a_record_is_put_and_read_with_its_counter() {
    let w = World::new();
    let put = w.put("/v1/records/jobs/17", r#"{"state":"pending","tries":0}"#);
    assert_eq!((put.status, put.header("etag")), (200, "\"1\""));
    let put = w.put("/v1/records/jobs/17", r#"{"state":"claimed","worker":"w1"}"#).ok();
    assert_eq!(put["counter"], 2);
    let got = w.get("/v1/records/jobs/17");
    assert_eq!((got.status, got.header("etag")), (200, "\"2\""));
    let wanted = json!({
        "fields": {"state": "claimed", "tries": "0", "worker": "w1"}, "counter": 2,
        "stamp": put["stamp"], "revision": put["revision"], "expires": null,
    });
    assert_eq!(got.json(), wanted);
    let known = [("if-none-match", "\"2\"")];
    assert_eq!(w.ask("GET", "/v1/records/jobs/17", &known, "").status, 304);
    assert_eq!(w.get("/v1/records/jobs").code(), (404, "RecordNotFound".into()));
    assert_eq!(w.get("/v1/cells/jobs/17").code().0, 404, "a record is no cell");
}

#[test]
fn some_fields_are_read_by_name() {
    let w = World::new();
    w.put("/v1/records/a", r#"{"x":"1","y":"2","a,b":"3"}"#).ok();
    let fields =
        |query: &str| w.get(&format!("/v1/records/a?fields={query}")).ok()["fields"].clone();
    assert_eq!(fields("x,none"), json!({"x": "1"}));
    assert_eq!(fields("%24bytes:YSxi"), json!({"a,b": "3"}));
    assert_eq!(w.get("/v1/records/a?fields=%24bytes:%3F").code(), (400, "InvalidField".into()));
}

#[test]
fn put_merges_replace_drops_and_null_takes_out() {
    let w = World::new();
    let fields = || w.get("/v1/records/a").ok()["fields"].clone();
    w.put("/v1/records/a", r#"{"x":"1","y":"2"}"#).ok();
    w.put("/v1/records/a", r#"{"x":null,"z":3.5}"#).ok();
    assert_eq!(fields(), json!({"y": "2", "z": "3.5"}));
    w.put("/v1/records/a?replace=true", r#"{"only":true}"#).ok();
    assert_eq!(fields(), json!({"only": "true"}));
    // A record without fields does not exist.
    assert_eq!(w.put("/v1/records/a", r#"{"only":null}"#).ok()["counter"], 4);
    assert_eq!(w.get("/v1/records/a").code().1, "RecordNotFound");
    assert_eq!(w.put("/v1/records/a", r#"{"only":null}"#).code(), (404, "RecordNotFound".into()));
    for (path, wrong) in [
        ("/v1/records/a", "{}"),
        ("/v1/records/a", r#"{"x":[1]}"#),
        ("/v1/records/a", r#"{"x":{"y":1}}"#),
        ("/v1/records/a?replace=true", r#"{"x":null}"#),
    ] {
        assert_eq!(w.put(path, wrong).code(), (400, "InvalidField".into()), "{wrong}");
    }
    assert_eq!(w.put("/v1/records/a", "{").code(), (400, "InvalidArgument".into()));
    assert_eq!(w.put("/v1/records/a?ttl=1", "{}").code(), (400, "InvalidArgument".into()));
    assert_eq!(w.put("/v1/records/%00", r#"{"x":"1"}"#).code(), (400, "InvalidName".into()));
    assert_eq!(w.db.revision(), 4, "what was refused wrote nothing");
}

#[test]
fn bytes_survive_as_values_and_as_names() {
    let w = World::new();
    w.put("/v1/records/a", r#"{"v":{"$bytes":"AP8="},"$bytes:AP8=":"n"}"#).ok();
    let record = w.db.records().get("a").unwrap().unwrap();
    let wanted = Fields::of([(&b"v"[..], &b"\x00\xff"[..]), (b"\x00\xff", b"n")]).unwrap();
    assert_eq!(record.fields, wanted);
    let shown = json!({"v": {"$bytes": "AP8="}, "$bytes:AP8=": "n"});
    assert_eq!(w.get("/v1/records/a").ok()["fields"], shown);
    assert_eq!(w.get("/v1/records").ok()["records"][0]["fields"], shown);
    assert_eq!(w.get("/v1/record-history/a").ok()["versions"][0]["fields"], shown);
    let event = w.get("/v1/feed/page?after=0").ok()["events"][0].clone();
    assert_eq!((&event["fields"], event.get("value")), (&shown, None));
    let receipt = run(&w, json!({"commands": [{"get_record": {"key": "a"}}]}));
    assert_eq!(receipt["answers"][0]["record"]["fields"], shown);
}

#[test]
fn a_time_to_live_is_set_and_otherwise_stays() {
    let clock = ManualClock::new(1_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    let put = w.put("/v1/records/a?ttl_ms=1500", r#"{"x":"1"}"#).ok();
    let expires = put["stamp"].as_u64().unwrap() + 1_500_000;
    w.put("/v1/records/a", r#"{"x":"2"}"#).ok();
    assert_eq!(w.get("/v1/records/a").ok()["expires"], expires, "a put leaves it");
    clock.advance(Duration::from_secs(2));
    assert_eq!(w.get("/v1/records/a").code().1, "RecordNotFound");
    assert_eq!(w.get("/v1/record-count").ok()["count"], 0);
    assert_eq!(w.put("/v1/records/a?ttl_ms=0", r#"{"x":"1"}"#).code(), (400, "InvalidTtl".into()));
}

#[test]
fn conditions_of_the_headers_hold_or_it_is_412() {
    let w = World::new();
    let new = [("if-none-match", "*")];
    assert_eq!(w.ask("PUT", "/v1/records/a", &new, r#"{"x":"1"}"#).ok()["counter"], 1);
    let lost = w.ask("PUT", "/v1/records/a", &new, r#"{"x":"2"}"#);
    assert_eq!(lost.code(), (412, "PreconditionFailed".into()));
    assert_eq!(lost.header("etag"), "\"1\"", "what to try next");
    assert!(lost.text.contains("the record"), "{}", lost.text);
    let first = [("if-match", "\"1\"")];
    assert_eq!(w.ask("PUT", "/v1/records/a", &first, r#"{"x":"2"}"#).ok()["counter"], 2);
    assert_eq!(w.ask("PUT", "/v1/records/a", &first, r#"{"x":"3"}"#).code().0, 412);
    let lost = w.ask("DELETE", "/v1/records/a", &first, "");
    assert_eq!((lost.code().0, lost.header("etag")), (412, "\"2\""));
    assert_eq!(w.ask("DELETE", "/v1/records/a", &new, "").code().0, 412);
    assert_eq!(w.get("/v1/records/a").ok()["fields"], json!({"x": "2"}));
    assert_eq!(
        w.ask("DELETE", "/v1/records/a", &[("if-match", "\"2\"")], "").ok()["deleted"],
        true
    );
    let gone = w.ask("DELETE", "/v1/records/a", &[("if-match", "\"3\"")], "");
    assert_eq!((gone.code().0, gone.header("etag")), (412, ""));
    assert_eq!(w.delete("/v1/records/a").ok()["deleted"], false);
    assert_eq!(w.put("/v1/records/a", r#"{"x":"1"}"#).ok()["counter"], 4, "the counter goes on");
}

#[test]
fn one_write_looks_at_several_things_and_changes_several() {
    let w = World::new();
    w.put("/v1/records/job", r#"{"state":"pending","error":"x","tries":1}"#).ok();
    let claim = json!({
        "when": [{"field": {"name": "state", "is": "pending"}}, {"field": {"name": "worker", "is": null}}, "exists"],
        "set": {"state": "claimed", "token": {"revision": true}, "tries": {"sum": 1}, "at": {"millis": 5}},
        "clear": ["error"],
        "ttl": {"ms": 60000},
    })
    .to_string();
    let won = w.ask("PATCH", "/v1/records/job", &[], &claim);
    assert_eq!((won.status, won.header("etag")), (200, "\"2\""));
    let won = won.json();
    let lost = w.ask("PATCH", "/v1/records/job", &[], &claim);
    assert_eq!((lost.code().0, lost.header("etag")), (412, "\"2\""));
    let job = w.get("/v1/records/job").ok();
    let millis = won["stamp"].as_u64().unwrap() / 1000 + 5;
    let token = won["revision"].to_string();
    assert_eq!(
        job["fields"],
        json!({"state": "claimed", "token": token, "tries": "2", "at": millis.to_string()})
    );
    assert_eq!(job["expires"], won["stamp"].as_u64().unwrap() + 60_000_000);

    // A writer with the current fencing token succeeds; one with a stale token gets `Fenced`.
    let hold = |token: &str| {
        let fence = json!([{"fence": {"name": "token", "is": token}}]);
        let body = json!({"when": fence, "set": {"state": "done"}}).to_string();
        w.ask("PATCH", "/v1/records/job", &[], &body)
    };
    assert_eq!(hold("1").code(), (409, "Fenced".into()));
    assert_eq!(hold(&token).ok()["counter"], 3);
    let of_counter = json!({"when": [{"counter": 3}], "set": {"state": "x"}}).to_string();
    assert_eq!(w.ask("PATCH", "/v1/records/job", &[], &of_counter).ok()["counter"], 4);
    assert_eq!(w.ask("PATCH", "/v1/records/job", &[], &of_counter).code().0, 412);
    let only_new = json!({"when": [{"counter": null}], "set": {"x": "1"}}).to_string();
    assert_eq!(w.ask("PATCH", "/v1/records/job", &[], &only_new).code().0, 412);
    assert_eq!(w.ask("PATCH", "/v1/records/new", &[], &only_new).ok()["counter"], 1);
    let revision = w.db.revision();
    for wrong in [
        json!({"key": "job", "set": {"x": "1"}}),
        json!({"when": ["absent"], "set": {"x": "1"}}),
        json!({"when": [{"field": {"name": "x"}}], "set": {"x": "1"}}),
        json!({"when": [{"fence": {"name": "x", "is": null}}], "set": {"x": "1"}}),
        json!({"set": {"x": "1"}, "clear": ["x"]}),
        json!({"set": {"x": "1"}, "sets": {}}),
        json!({}),
    ] {
        let said = w.ask("PATCH", "/v1/records/job", &[], &wrong.to_string());
        assert_eq!(said.code().0, 400, "{wrong}");
    }
    let not_a_number = json!({"set": {"state": {"sum": 1}}}).to_string();
    let said = w.ask("PATCH", "/v1/records/job", &[], &not_a_number);
    assert_eq!(said.code(), (400, "NotANumber".into()));
    assert_eq!(w.db.revision(), revision, "what was refused wrote nothing");
}

#[test]
fn a_request_with_a_name_is_done_once() {
    let w = World::new();
    let named = [("idempotency-key", "claim-1")];
    let body = r#"{"when":[{"counter":null}],"set":{"n":{"sum":1}}}"#;
    let first = w.ask("PATCH", "/v1/records/a", &named, body).ok();
    let again = w.ask("PATCH", "/v1/records/a", &named, body).ok();
    assert_eq!((&again["counter"], &again["revision"]), (&json!(1), &first["revision"]));
    assert_eq!(again["repeated"], true);
    assert_eq!(w.get("/v1/records/a").ok()["fields"], json!({"n": "1"}));
}

#[test]
fn records_are_scanned_with_filters_and_a_cursor() {
    let w = World::new();
    let put = |key: &str, state: &str, at: &str| {
        let fields = Fields::of([("state", state), ("at", at)]).unwrap();
        w.db.records().put(key, &fields, None).unwrap();
    };
    put("j/1", "pending", "9");
    put("j/2", "done", "10");
    put("j/3", "pending", "100");
    put("k/1", "pending", "1");
    let keys = |path: &str| -> Vec<String> {
        let page = w.get(path).ok();
        let keys = page["records"].as_array().unwrap().iter().map(|r| r["key"].clone());
        keys.map(|key| key.as_str().unwrap().to_owned()).collect()
    };
    let first = w.get("/v1/records?prefix=j/&limit=2").ok();
    let record = w.db.records().get("j/1").unwrap().unwrap();
    let wanted = json!({
        "key": "j/1", "fields": {"state": "pending", "at": "9"}, "counter": 1,
        "stamp": record.stamp, "revision": 1, "expires": null,
    });
    assert_eq!((&first["records"][0], &first["next"]), (&wanted, &json!("j/2")));
    assert_eq!(keys("/v1/records?prefix=j/&limit=2&after=j/2"), ["j/3"]);
    let of = |tests| filtered("/v1/records?prefix=j/&", tests);
    assert_eq!(keys(&of(json!({"state": "pending"}))), ["j/1", "j/3"]);
    assert_eq!(keys(&of(json!({"at": {"lt": 100, "ge": "9"}}))), ["j/1", "j/2"]);
    assert_eq!(keys(&of(json!({"state": {"in": ["done", "x"]}}))), ["j/2"]);
    assert_eq!(keys(&of(json!({"state": {"ne": "done"}, "at": {"gt": 9}}))), ["j/3"]);
    let page = w.get(&filtered("/v1/records?limit=1&", json!({"state": "pending"}))).ok();
    assert_eq!(page["next"], "j/1", "filters come before the limit");
    assert_eq!(w.get("/v1/record-count?prefix=j/").ok(), json!({"count": 3}));
    let pending = filtered("/v1/record-count?", json!({"state": "pending"}));
    assert_eq!(w.get(&pending).ok()["count"], 3);
    // Reads of the past, and of another branch.
    assert_eq!(keys("/v1/records?rev=2"), ["j/1", "j/2"]);
    assert_eq!(w.get("/v1/record-count?rev=2").ok()["count"], 2);
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    w.delete("/v1/records/j/1?branch=side").ok();
    assert_eq!(w.get("/v1/record-count?branch=side").ok()["count"], 3);
    assert_eq!(w.get("/v1/record-count").ok()["count"], 4);
    for wrong in [json!({"at": {"like": 1}}), json!({"at": null}), json!([])] {
        assert_eq!(w.get(&filtered("/v1/records?", wrong.clone())).code().0, 400, "{wrong}");
    }
    assert_eq!(w.get("/v1/records?where=x").code(), (400, "InvalidArgument".into()));
    let elsewhere = w.get("/v1/records?prefix=j/&after=a");
    assert_eq!(elsewhere.code(), (400, "InvalidArgument".into()), "a cursor of another scan");
    assert_eq!(w.get("/v1/records?limit=0").code(), (400, "InvalidLimit".into()));
}

#[test]
fn the_past_and_the_history_of_a_record_are_read() {
    let w = World::new();
    let first = w.put("/v1/records/a/b", r#"{"x":"1"}"#).ok();
    w.delete("/v1/records/a/b").ok();
    w.put("/v1/records/a/b", r#"{"x":"2"}"#).ok();
    for then in [format!("rev={}", first["revision"]), format!("at={}", first["stamp"])] {
        let record = w.get(&format!("/v1/records/a/b?{then}&fields=x")).ok();
        assert_eq!(record["fields"], json!({"x": "1"}));
    }
    assert_eq!(w.get("/v1/records/a/b?rev=2").code().1, "RecordNotFound");
    let page = w.get("/v1/record-history/a/b?limit=2").ok();
    let versions = page["versions"].as_array().unwrap();
    let seen: Vec<_> = versions.iter().map(|v| (&v["counter"], &v["deleted"])).collect();
    assert_eq!(seen, [(&json!(3), &json!(false)), (&json!(2), &json!(true))]);
    assert_eq!((versions[1].get("fields"), &page["next"]), (None, &json!(2)));
    let rest = w.get("/v1/record-history/a/b?limit=2&before=2").ok();
    assert_eq!(rest["versions"][0]["fields"], json!({"x": "1"}));
    assert_eq!(w.get("/v1/record-history/none").ok()["versions"], json!([]));
}

#[test]
fn every_command_on_records_stands_in_a_transaction() {
    let w = World::new();
    let receipt = run(
        &w,
        json!({"commands": [
            {"write_record": {"key": "a", "set": {"x": "1", "y": "2"}, "when": [{"counter": null}]}},
            {"write_record": {"key": "a", "set": {"x": "9"}, "when": [{"field": {"name": "x", "is": "0"}}]}},
            {"write_record": {"key": "a", "set": {"x": "5"}, "replace": true, "ttl": {"ms": 60000}}},
            {"get_record": {"key": "a", "fields": ["x"]}},
            {"restore_record": {"key": "b", "fields": {"x": "7"}, "counter": 10}},
            {"restore_record": {"key": "c", "counter": 4}},
            {"expire_record": {"key": "b", "ttl": {"ms": 60000}, "only": "with_expiry"}},
            {"expire_record": {"key": "b", "ttl": {"ms": 60000}}},
            {"scan_records": {"where": {"x": {"gt": 4}}, "limit": 1}},
            {"count_records": {"prefix": "", "where": {"x": {"gt": 4}}}},
            {"hash_set": {"key": "h", "fields": {"f": "1", "g": "1"}}},
            {"hash_set": {"key": "h", "fields": {"f": "2"}, "only_absent": true}},
            {"hash_add": {"key": "h", "field": "f", "by": 41}},
            {"hash_add_float": {"key": "h", "field": "g", "by": "0.5"}},
            {"hash_delete": {"key": "h", "fields": ["f", "none"]}},
            {"hash_get": {"key": "h"}},
            {"delete_record": {"key": "a", "when": [{"field": {"name": "x", "is": "0"}}]}},
            {"delete_record": {"key": "a", "when": ["exists"]}},
            {"get_record": {"key": "a"}},
        ]}),
    );
    let answers = receipt["answers"].as_array().unwrap();
    for (i, wanted) in [
        json!({"counter": 1}),
        json!({"counter": null}),
        json!({"counter": 2}),
        json!(null),
        json!({"counter": 10}),
        json!({"counter": 4}),
        json!({"did": false}),
        json!({"did": true}),
        json!(null),
        json!({"count": 2}),
        json!({"count": 2}),
        json!({"did": false}),
        json!({"sum": "42"}),
        json!({"sum": "1.5"}),
        json!({"count": 1}),
        json!(null),
        json!({"did": false}),
        json!({"did": true}),
        json!({"record": null}),
    ]
    .into_iter()
    .enumerate()
    {
        if !wanted.is_null() {
            assert_eq!(answers[i], wanted, "{i}");
        }
    }
    let record = &answers[3]["record"];
    assert_eq!(
        (&record["fields"], &record["revision"]),
        (&json!({"x": "5"}), &receipt["revision"])
    );
    let page = &answers[8]["records"];
    assert_eq!((&page["records"][0]["key"], &page["next"]), (&json!("a"), &json!("a")));
    assert_eq!(answers[15]["record"]["fields"], json!({"g": "1.5"}));
}

#[test]
fn a_name_is_one_thing_to_commands_of_redis() {
    let w = World::new();
    w.put("/v1/records/r", r#"{"x":"1"}"#).ok();
    w.put("/v1/cells/c", "1").ok();
    let refused = |command: Value| {
        let body = json!({"commands": [command]}).to_string();
        w.post("/v1/transactions", &body).code()
    };
    let wrong = (409, "WrongType".to_owned());
    assert_eq!(refused(json!({"get_text": {"name": "r"}})), wrong);
    assert_eq!(refused(json!({"swap_text": {"name": "r", "value": "x"}})), wrong);
    assert_eq!(refused(json!({"hash_get": {"key": "c"}})), wrong);
    let receipt = run(
        &w,
        json!({"commands": [
            {"put_text": {"name": "r", "value": "x"}},
            {"get_text": {"name": "r"}},
            {"get_record": {"key": "r"}},
        ]}),
    );
    assert_eq!(receipt["answers"][0], json!({"counter": 1}));
    assert_eq!(receipt["answers"][1]["cell"]["value"], "x");
    assert_eq!(receipt["answers"][2], json!({"record": null}));
}

#[test]
fn guards_on_records_hold_or_nothing_happens() {
    let w = World::new();
    w.put("/v1/records/a", r#"{"x":"1"}"#).ok();
    let since = w.db.revision();
    w.put("/v1/cells/a", "1").ok();
    let held = |guard: Value| {
        let body = json!({"guards": [guard], "commands": [], "otherwise": []});
        run(&w, body)["held"].as_bool().unwrap()
    };
    assert!(held(json!({"record": {"key": "a", "is": 1}})));
    assert!(!held(json!({"record": {"key": "a", "is": 2}})));
    assert!(held(json!({"record_absent": {"key": "b"}})));
    assert!(!held(json!({"record_absent": {"key": "a"}})));
    assert!(held(json!({"field": {"key": "a", "field": "x", "is": 1}})));
    assert!(!held(json!({"field": {"key": "a", "field": "x", "is": null}})));
    assert!(held(json!({"field": {"key": "b", "field": "x", "is": null}})));
    // The cell with this name has changed, but the record has not.
    assert!(held(json!({"unchanged": {"contract": "records", "name": "a", "since": since}})));
    assert!(!held(json!({"unchanged": {"name": "a", "since": since}})));
    assert!(held(json!({"range_unchanged": {"contract": "records", "since": since}})));
    assert!(!held(json!({"range_unchanged": {"contract": "cells", "since": since}})));
    let left_out = json!({"guards": [{"field": {"key": "a", "field": "x"}}]}).to_string();
    assert_eq!(w.post("/v1/transactions", &left_out).code().0, 400);
}

#[test]
fn changes_of_records_are_in_the_feed_with_their_fields() {
    let clock = ManualClock::new(1_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    w.put("/v1/records/a?ttl_ms=1000", r#"{"x":"1"}"#).ok();
    let stamped = RecordWrite::to("b").unwrap().set("token", FieldValue::Revision).unwrap();
    w.db.records().write(stamped).unwrap();
    w.delete("/v1/records/b").ok();
    clock.advance(Duration::from_secs(2));
    w.db.sweep().unwrap();
    let mut follower = w.follow("/v1/feed?after=0", &[]);
    let mut next = || {
        let sent = follower.next().unwrap();
        assert_eq!(sent.data["contract"], "records");
        let Value::Object(mut data) = sent.data else { panic!("no object") };
        (data["key"].clone(), sent.event, data.remove("fields"), data["counter"].clone())
    };
    let event = |key: &str, kind: &str, fields: Option<Value>, counter: u64| {
        (json!(key), kind.to_owned(), fields, json!(counter))
    };
    assert_eq!(next(), event("a", "set", Some(json!({"x": "1"})), 1));
    assert_eq!(next(), event("b", "set", Some(json!({"token": "2"})), 1));
    assert_eq!(next(), event("b", "deleted", None, 2));
    assert_eq!(next(), event("a", "expired", None, 2));
}

#[test]
fn indexes_are_declared_looked_at_and_dropped() {
    let w = World::new();
    for n in 0..3 {
        w.put(&format!("/v1/records/jobs/{n}"), r#"{"state":"pending"}"#).ok();
    }
    let explain = || {
        let path = filtered("/v1/record-explain?prefix=jobs/&", json!({"state": "pending"}));
        w.get(&path).ok()["explanation"].as_str().unwrap().to_owned()
    };
    assert!(explain().contains("no index helps"), "{}", explain());
    let add = |body: Value| w.post("/v1/record-indexes", &body.to_string());
    let added = add(json!({"prefix": "jobs/", "fields": ["state", "$bytes:AP8="]}));
    assert_eq!((added.status, &added.json()["id"]), (201, &json!(1)));
    until("the index to be filled", || !w.get("/v1/record-indexes/1").ok()["ready"].is_null());
    let one = w.get("/v1/record-indexes/1").ok();
    let wanted = json!({
        "id": 1, "prefix": "jobs/", "fields": ["state", "$bytes:AP8="], "created": 4,
        "ready": one["ready"], "filled": 3,
    });
    assert_eq!(one, wanted);
    assert_eq!(w.get("/v1/record-indexes").ok(), json!({"indexes": [wanted]}));
    assert!(explain().starts_with("index 1 over `jobs/`"), "{}", explain());
    assert_eq!(w.delete("/v1/record-indexes/1").ok()["deleted"], true);
    assert_eq!(w.delete("/v1/record-indexes/1").ok()["deleted"], false);
    assert_eq!(w.get("/v1/record-indexes/1").code(), (404, "IndexNotFound".into()));
    assert!(explain().contains("no index helps"), "{}", explain());
}

#[test]
fn indexes_that_make_no_sense_are_refused() {
    let w = World::new();
    let add = |body: Value| w.post("/v1/record-indexes", &body.to_string());
    let fields = json!({"fields": ["a"]});
    let named = [("idempotency-key", "one")];
    let once = || w.ask("POST", "/v1/record-indexes", &named, &fields.to_string()).ok();
    assert_eq!((once()["id"].clone(), once()["repeated"].clone()), (json!(1), json!(true)));
    assert_eq!(add(fields).code(), (409, "IndexExists".into()));
    for (body, code) in [
        (json!({"fields": []}), "InvalidArgument"),
        (json!({"fields": ["a", "a"]}), "InvalidArgument"),
        (json!({"fields": ["$bytes:?"]}), "InvalidField"),
        (json!({"prefix": "a"}), "InvalidArgument"),
        (json!({"fields": ["b"], "wait": true}), "InvalidArgument"),
    ] {
        assert_eq!(add(body.clone()).code(), (400, code.into()), "{body}");
    }
    assert_eq!(w.delete("/v1/record-indexes/x").code(), (400, "InvalidArgument".into()));
    assert_eq!(w.get("/v1/record-explain?branch=none").code(), (404, "BranchNotFound".into()));
    assert_eq!(w.get("/v1/record-explain?where=1").code().0, 400);
}
