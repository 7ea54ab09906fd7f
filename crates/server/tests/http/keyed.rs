use crate::world::World;
use mainstay::{KeyedState, Options, StateWrite};
use mainstay_server::http::Settings;
use serde_json::{Value, json};
use std::path::Path;

const RAW: (&str, &str) = ("Content-Type", "application/octet-stream");

fn put(w: &World, key: &str, value: &Value, version: &str) -> String {
    let path = format!("/v1/spaces/s/states/{key}?version={version}");
    w.put(&path, &value.to_string()).ok()["wrote"].as_str().unwrap().to_owned()
}

#[test]
fn a_state_is_written_once_however_often_it_is_told() {
    let w = World::new();
    assert_eq!(put(&w, "a", &json!("one"), "7"), "applied");
    assert_eq!(put(&w, "a", &json!("two"), "7"), "stale");
    assert_eq!(w.db.revision(), 1, "what was there already wrote nothing");
    let said = w.get("/v1/spaces/s/states/a");
    assert_eq!(said.header("mainstay-version"), "7");
    assert_eq!(said.ok(), json!({"key": "a", "value": "one", "version": "7"}));
    assert_eq!(put(&w, "a", &json!({"n": [1]}), "8"), "applied");
    assert_eq!(w.get("/v1/spaces/s/states/a").ok()["value"], r#"{"n":[1]}"#);
    assert_eq!(w.delete("/v1/spaces/s/states/a?version=8").ok()["wrote"], "stale");
    assert_eq!(w.delete("/v1/spaces/s/states/a?version=9").ok()["wrote"], "applied");
    assert_eq!(w.get("/v1/spaces/s/states/a").code(), (404, "StateNotFound".into()));
    assert_eq!(w.get("/v1/spaces/s/states/a?rev=1").ok()["value"], "one");
    let stamp = w.db.stamp_of(1).unwrap();
    assert_eq!(w.get(&format!("/v1/spaces/s/states/a?at={stamp}")).ok()["value"], "one");
}

#[test]
fn any_bytes_are_a_state_and_a_key() {
    let w = World::new();
    let path = "/v1/spaces/s/states/$bytes:%2FwA=";
    assert_eq!(
        w.put(&format!("{path}?version=1"), r#"{"$bytes":"AP8="}"#).ok()["wrote"],
        "applied"
    );
    let wanted = json!({"key": "$bytes:/wA=", "value": {"$bytes": "AP8="}, "version": "1"});
    assert_eq!(w.get(path).ok(), wanted);
    assert_eq!(w.db.keyed("s").unwrap().get([0xff, 0]).unwrap().unwrap().value, [0, 0xff]);
    let said = w.send("PUT", &format!("{path}?version=2"), &[RAW], &[0xfe, 0, 1]);
    assert_eq!(said.status().as_u16(), 200);
    let mut raw = w.send("GET", path, &[("Accept", RAW.1)], b"");
    assert_eq!(raw.headers()["mainstay-version"], "2");
    assert_eq!(raw.headers()["content-type"], RAW.1);
    assert_eq!(raw.body_mut().read_to_vec().unwrap(), [0xfe, 0, 1]);
    put(&w, "a%2Fb%20c", &json!("x"), "1");
    assert_eq!(w.get("/v1/spaces/s/states/a%2Fb%20c").ok()["key"], "a/b c");
}

#[test]
fn keys_are_given_in_pages_with_their_states() {
    let w = World::new();
    for key in ["a", "b", "c"] {
        put(&w, key, &json!(key), "1");
    }
    let page = w.get("/v1/spaces/s/states?limit=2").ok();
    assert_eq!(page["states"][1], json!({"key": "b", "value": "b", "version": "1"}));
    assert_eq!(page["next"], "b");
    let page = w.get("/v1/spaces/s/states?limit=2&after=b").ok();
    assert_eq!((page["states"].as_array().unwrap().len(), &page["next"]), (1, &Value::Null));
    assert_eq!(w.get("/v1/spaces/s/states?prefix=c").ok()["states"][0]["key"], "c");
    assert_eq!(w.get("/v1/spaces/s/states?rev=1").ok()["states"].as_array().unwrap().len(), 1);
    assert_eq!(w.get("/v1/spaces/none/states").ok(), json!({"states": [], "next": null}));
    assert_eq!(w.get("/v1/spaces/s/states?limit=0").code(), (400, "InvalidLimit".into()));
}

#[test]
fn a_space_is_declared_sealed_and_dropped() {
    let w = World::new();
    let body = r#"{"versions":"time","ordered":true,"groups":16}"#;
    assert_eq!(w.put("/v1/spaces/s", body).ok()["created"], true);
    assert_eq!(w.put("/v1/spaces/s", body).ok()["created"], false);
    assert_eq!(w.put("/v1/spaces/s", "{}").code(), (409, "SpaceExists".into()));
    assert_eq!(w.put("/v1/spaces/plain", "").ok()["created"], true);
    let wanted = json!({"versions": "time", "ordered": true, "merged": false, "groups": 16, "frontier": null});
    assert_eq!(w.get("/v1/spaces/s").ok(), wanted);
    assert_eq!(put(&w, "a", &json!("one"), "1.1"), "waiting");
    assert_eq!(put(&w, "a", &json!("two"), "1.2"), "waiting");
    assert_eq!(w.get("/v1/spaces/s/states/a").code().0, 404);
    let waiting = w.get("/v1/spaces/s/waiting?below=1.2").ok();
    assert_eq!(waiting, json!({"waiting": [{"key": "a", "version": "1.1", "value": "one"}]}));
    let seal =
        |frontier: Value| w.post("/v1/spaces/s/seal", &json!({"frontier": frontier}).to_string());
    assert_eq!(seal(json!("2.0")).ok()["settled"], 2);
    assert_eq!(seal(json!("2.0")).ok()["settled"], 0);
    assert_eq!(seal(json!(3)).code(), (400, "InvalidVersion".into()));
    // A number with a decimal point is the most likely mistake.
    let said = seal(json!(3.17)).text;
    assert!(said.contains("epoch.round") && !said.contains("VersionForm"), "{said}");
    assert_eq!(w.get("/v1/spaces/s").ok()["frontier"], "2.0");
    assert_eq!(w.get("/v1/spaces/s/states/a").ok()["version"], "1.2");
    let names = |query: &str| w.get(&format!("/v1/spaces{query}")).ok();
    assert_eq!(names(""), json!({"names": ["plain", "s"], "next": null}));
    assert_eq!(names("?limit=1"), json!({"names": ["plain"], "next": "plain"}));
    assert_eq!(names("?prefix=s")["names"], json!(["s"]));
    assert_eq!(w.delete("/v1/spaces/s").ok()["deleted"], true);
    assert_eq!(w.delete("/v1/spaces/s").ok()["deleted"], false);
    assert_eq!(w.get("/v1/spaces/s").code(), (404, "SpaceNotFound".into()));
}

#[test]
fn sealing_takes_as_many_transactions_as_it_needs() {
    let w = World::new();
    w.put("/v1/spaces/s", r#"{"ordered":true}"#).ok();
    let writes = (0..25_000).map(|n: u64| StateWrite::put(n.to_be_bytes(), "v", n)).collect();
    w.db.keyed("s").unwrap().write(writes).unwrap();
    let before = w.db.revision();
    assert_eq!(w.post("/v1/spaces/s/seal", r#"{"frontier":25000}"#).ok()["settled"], 25_000);
    assert!(w.db.revision() > before + 1);
}

#[test]
fn writes_go_together_with_items_and_positions() {
    let w = World::new();
    let all = json!([
        {"put": {"key": "a", "value": "1", "version": 7}},
        {"put": {"key": "a", "value": "0", "version": "6"}},
        {"delete": {"key": "b", "version": 1}},
        {"append": {"key": "a", "id": "1", "item": {"$bytes": "AP8="}}},
        {"advance": {"source": "orders", "position": 8}},
    ]);
    let said = w.post("/v1/spaces/s/states", &all.to_string()).ok();
    assert_eq!(said["wrote"], json!(["applied", "stale", "applied", "applied", "applied"]));
    assert_eq!(said["revision"], 1);
    assert_eq!(w.get("/v1/spaces/s/positions").ok(), json!({"positions": {"orders": 8}}));
    let item =
        |id: &str| w.post("/v1/spaces/s/items/a", &json!({"id": id, "item": "i"}).to_string()).ok();
    assert_eq!((&item("2")["wrote"], &item("2")["wrote"]), (&json!("applied"), &json!("stale")));
    let page = w.get("/v1/spaces/s/items/a?limit=1").ok();
    assert_eq!(page, json!({"items": [{"id": "1", "item": {"$bytes": "AP8="}}], "next": "1"}));
    assert_eq!(w.get("/v1/spaces/s/items/a?after=1").ok()["items"][0]["id"], "2");
    let wrong = json!([{"advance": {"source": "x", "position": 1}}, {"put": {"key": "", "value": "", "version": 1}}]);
    let said = w.post("/v1/spaces/s/states", &wrong.to_string());
    assert_eq!(said.json()["error"]["position"], 1);
    assert_eq!(said.code(), (400, "InvalidName".into()));
    assert_eq!(w.get("/v1/spaces/s/positions").ok()["positions"].as_object().unwrap().len(), 1);
}

#[test]
fn a_request_that_is_named_is_done_once() {
    let w = World::new();
    let ask = || {
        let named = [("Idempotency-Key", "k")];
        w.ask("PUT", "/v1/spaces/s/states/a?version=1", &named, "\"x\"").ok()
    };
    let first = ask();
    let again = ask();
    assert_eq!((&first["wrote"], &again["wrote"]), (&json!("applied"), &json!("applied")));
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
}

#[test]
fn bad_input_is_told_what_is_wrong_and_leaves_nothing() {
    let w = World::new();
    for (path, body, code) in [
        ("/v1/spaces/s/states/a", "\"x\"", "InvalidVersion"),
        ("/v1/spaces/s/states/a?version=x", "\"x\"", "InvalidVersion"),
        ("/v1/spaces/s/states/a?version=1", "null", "InvalidArgument"),
        ("/v1/spaces/s/states/a?version=1", "nonsense", "InvalidArgument"),
        ("/v1/spaces/s/states/a?version=1&colour=red", "\"x\"", "InvalidArgument"),
        ("/v1/spaces/_mainstay%2Fs/states/a?version=1", "\"x\"", "InvalidName"),
        ("/v1/spaces/s/states/$bytes:%3F?version=1", "\"x\"", "InvalidName"),
        ("/v1/spaces/s", r#"{"versions":"u32"}"#, "InvalidVersion"),
        ("/v1/spaces/s", r#"{"groups":0}"#, "InvalidArgument"),
        ("/v1/spaces/s", r#"{"space":"t"}"#, "InvalidArgument"),
    ] {
        assert_eq!(w.put(path, body).code(), (400, code.into()), "{path} {body}");
    }
    assert_eq!(w.get("/v1/spaces").ok()["names"], json!([]));
    assert_eq!(w.get("/v1/spaces/s/states?rev=9").code().0, 400);
    assert_eq!(w.get("/v1/spaces/s/states?branch=none").code(), (404, "BranchNotFound".into()));
}

#[test]
fn states_are_part_of_transactions_with_guards() {
    let w = World::new();
    let execute = |body: Value| w.post("/v1/transactions", &body.to_string());
    let said = execute(json!({"commands": [
        {"declare_space": {"space": "s", "versions": "u64"}},
        {"put_state": {"space": "s", "key": "a", "value": "1", "version": 3}},
        {"append_item": {"space": "s", "key": "a", "id": "i", "item": "x"}},
        {"advance_position": {"space": "s", "source": "orders", "position": 4}},
        {"delete_state": {"space": "s", "key": "b", "version": 2}},
        {"write_states": {"space": "s", "writes": [{"put": {"key": "c", "value": "3", "version": 1}}]}},
        {"get_states": {"space": "s", "keys": ["a", "b", "none"]}},
        {"scan_states": {"space": "s", "limit": 1}},
        {"list_keys": {"space": "s", "prefix": "c"}},
        {"list_items": {"space": "s", "key": "a"}},
        {"waiting_states": {"space": "s"}},
        {"get_positions": {"space": "s"}},
        {"get_space": {"space": "s"}},
        {"list_spaces": {}},
        {"seal_space": {"space": "s", "frontier": 1}},
        {"set": {"name": "cell", "value": 1}},
    ]}))
    .ok();
    let known = json!([{"version": "3", "value": "1"}, {"version": "2", "value": null}, null]);
    let wanted = [
        json!({"did": true}),
        json!({"wrote": ["applied"]}),
        json!({"wrote": ["applied"]}),
        json!({"wrote": ["applied"]}),
        json!({"wrote": ["applied"]}),
        json!({"wrote": ["applied"]}),
        json!({"known": known}),
        json!({"states": {"states": [{"key": "a", "value": "1", "version": "3"}], "next": "a"}}),
        json!({"keys": {"keys": ["c"], "next": null}}),
        json!({"items": [{"id": "i", "item": "x"}]}),
        json!({"waiting": []}),
        json!({"positions": {"orders": 4}}),
        json!({"space": {"versions": "u64", "ordered": false, "merged": false, "groups": 128, "frontier": null}}),
        json!({"page": {"names": ["s"], "next": null}}),
        json!({"sealed": {"settled": 0, "done": true}}),
    ];
    for (position, wanted) in wanted.iter().enumerate() {
        assert_eq!(&said["answers"][position], wanted, "{position}");
    }
    let guarded = |guard: Value| {
        execute(json!({"guards": [guard], "commands": [{"set": {"name": "cell", "value": 2}}]}))
            .status
    };
    for (guard, status) in [
        (json!({"state_version": {"space": "s", "key": "a", "is": "3"}}), 200),
        (json!({"state_version": {"space": "s", "key": "a", "is": 4}}), 409),
        (json!({"state_version": {"space": "s", "key": "b", "is": 2}}), 200),
        (json!({"state_absent": {"space": "s", "key": "none"}}), 200),
        (json!({"state_absent": {"space": "s", "key": "a"}}), 409),
        (json!({"state_unchanged": {"space": "s", "key": "a", "since": 1}}), 200),
        (json!({"state_unchanged": {"space": "s", "key": "a", "id": "i", "since": 1}}), 200),
        (json!({"state_unchanged": {"space": "s", "source": "orders", "since": 1}}), 200),
        (json!({"state_unchanged": {"space": "s", "prefix": "c", "since": 1}}), 200),
        (json!({"state_unchanged": {"space": "s", "since": 1}}), 200),
        (json!({"state_unchanged": {"space": "s", "id": "i", "since": 1}}), 400),
        (json!({"unchanged": {"contract": "keyed", "name": "s", "since": 1}}), 200),
    ] {
        assert_eq!(guarded(guard.clone()), status, "{guard}");
    }
    put(&w, "a", &json!("2"), "5");
    assert_eq!(guarded(json!({"state_unchanged": {"space": "s", "key": "a", "since": 1}})), 409);
    let stale =
        json!({"must": {"put_state": {"space": "s", "key": "a", "value": "9", "version": 1}}});
    assert_eq!(execute(json!({"commands": [stale]})).status, 409);
    assert_eq!(
        execute(json!({"commands": [{"drop_space": {"space": "s"}}]})).ok()["answers"][0]["did"],
        true
    );
}

#[test]
fn the_feed_and_differences_call_it_keyed() {
    let w = World::new();
    put(&w, "a", &json!("1"), "1");
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    w.put("/v1/spaces/s/states/a?version=2&branch=side", "\"2\"").ok();
    let page = w.get("/v1/feed/page?after=0&contract=keyed&prefix=s/").ok();
    let event = &page["events"][0];
    assert_eq!((&event["contract"], &event["key"]), (&json!("keyed"), &json!("s/a")), "{page}");
    assert_eq!(event["value"], json!({"version": "1", "value": "1"}));
    let diff = w.get("/v1/diff?a=main&b=side").ok();
    assert!(diff.to_string().contains("keyed") && diff.to_string().contains("s/a"), "{diff}");
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

fn bytes(w: &World, path: &str) -> (ureq::http::HeaderMap, Vec<u8>) {
    let mut response = w.send("GET", path, &[], b"");
    assert_eq!(response.status().as_u16(), 200);
    let bytes = response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap();
    (response.headers().clone(), bytes)
}

#[test]
fn a_space_of_any_size_goes_out_and_comes_back() {
    let scratch = tempfile::tempdir().unwrap();
    let settings = Settings { scratch: Some(scratch.path().into()), ..Settings::default() };
    let w = World::with(settings);
    let from = w.db.keyed("from").unwrap();
    for piece in 0..40_u64 {
        from.write(
            (0..500)
                .map(|n| StateWrite::put((piece * 500 + n).to_be_bytes(), vec![n as u8; 2048], n))
                .collect(),
        )
        .unwrap();
    }
    let revision = w.db.revision();
    from.put("later", "x", 1).unwrap();
    let (headers, file) = bytes(&w, &format!("/v1/spaces/from/snapshot?rev={revision}"));
    assert!(file.len() > 32 << 20, "more than a reply of RESP holds");
    assert_eq!(headers["mainstay-entries"], "20000");
    assert_eq!(headers["mainstay-revision"].to_str().unwrap(), revision.to_string());
    assert_eq!(headers["mainstay-hash"].to_str().unwrap().len(), 64);
    w.put("/v1/spaces/to/states/before?version=1", "\"x\"").ok();
    let mut said = w.send("PUT", "/v1/spaces/to/snapshot", &[RAW], &file);
    let text = said.body_mut().read_to_string().unwrap();
    assert_eq!((said.status().as_u16(), text.as_str()), (200, r#"{"entries":20000}"#));
    assert_eq!(w.get("/v1/spaces/to/states/before").code().0, 404);
    assert_eq!(bytes(&w, "/v1/spaces/to/snapshot").1, file);
    let middle = file.len() / 2;
    let mut damaged = file.clone();
    damaged[middle] ^= 1;
    for body in [&damaged[..], &file[..middle], b"", b"no snapshot of ours"] {
        let mut said = w.send("PUT", "/v1/spaces/to/snapshot", &[RAW], body);
        let text = said.body_mut().read_to_string().unwrap();
        assert_eq!(said.status().as_u16(), 400, "{text}");
        assert!(text.contains("nothing was changed"), "{text}");
    }
    assert_eq!(w.db.keyed("to").unwrap().snapshot().unwrap(), file);
    assert_eq!(w.get("/v1/spaces/none/snapshot").code(), (404, "SpaceNotFound".into()));
    assert!(is_empty(scratch.path()), "nothing is left lying about");
}

#[test]
fn a_snapshot_is_given_up_before_the_disk_is_full() {
    let settings = Settings { scratch_reserve_bytes: 1 << 50, ..Settings::default() };
    let w = World::of(Options::new().memory().unwrap(), settings);
    w.db.keyed("s").unwrap().put("a", "1", 1).unwrap();
    assert_eq!(w.get("/v1/spaces/s/snapshot").code(), (507, "DiskFull".into()));
    let said = w.send(
        "PUT",
        "/v1/spaces/s/snapshot",
        &[RAW],
        &w.db.keyed("s").unwrap().snapshot().unwrap(),
    );
    assert_eq!(said.status().as_u16(), 507);
    assert_eq!(w.db.keyed("s").unwrap().get("a").unwrap().unwrap().value, b"1");
}
