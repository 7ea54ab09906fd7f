use crate::world::World;
use mainstay::{ManualClock, Options};
use mainstay_server::http::Settings;
use serde_json::{Value, json};
use std::time::Duration;

fn run(w: &World, body: Value) -> Value {
    w.post("/v1/transactions", &body.to_string()).ok()
}

#[test]
fn every_command_on_texts_answers_in_order() {
    let w = World::new();
    let receipt = run(
        &w,
        json!({"commands": [
            {"swap": {"name": "a", "value": "x"}},
            {"swap": {"name": "a", "value": "y", "only": "absent"}},
            {"swap": {"name": "a", "value": "z", "only": {"equals": "x"}, "ttl": {"ms": 60000}}},
            {"swap": {"name": "a", "value": "w", "only": {"differs": "z"}}},
            {"expire_if": {"name": "a", "ttl": {"ms": 90000}, "only": "earlier"}},
            {"persist": {"name": "a"}},
            {"append": {"name": "a", "text": "zz"}},
            {"append": {"name": "a", "text": {"$bytes": "/w=="}}},
            {"set_all": {"pairs": [{"name": "p", "value": 1}, {"name": "q", "value": "2"}]}},
            {"set_all": {"pairs": [{"name": "p", "value": 9}], "only_absent": true}},
            {"add": {"name": "q", "by": -3}},
            {"add_float": {"name": "f", "by": "0.1"}},
            {"add_float": {"name": "f", "by": "0.2"}},
            {"touch": {"name": "f", "ttl": {"ms": 1000}}},
            {"take": {"name": "f"}},
        ]}),
    );
    let replaced = |did: bool, old: Value| json!({"replaced": {"did": did, "old": old}});
    let wanted = json!([
        replaced(true, Value::Null),
        replaced(false, json!("x")),
        replaced(true, json!("x")),
        replaced(false, json!("z")),
        {"did": false},
        {"did": true},
        {"count": 3},
        {"count": 4},
        {"did": true},
        {"did": false},
        {"number": {"value": -1, "counter": 2}},
        {"number": {"value": "0.1", "counter": 1}},
        {"number": {"value": "0.3", "counter": 2}},
        replaced(true, json!("0.3")),
        replaced(true, json!("0.3")),
    ]);
    assert_eq!(receipt["answers"], wanted);
    assert_eq!(w.get("/v1/cells/q").ok()["value"], json!("-1"), "a text stays a text");
    assert_eq!(w.get("/v1/cells/a").ok()["value"], json!({"$bytes": "enp6/w=="}));
}

#[test]
fn every_command_on_cells_answers_in_order() {
    let w = World::new();
    let receipt = run(
        &w,
        json!({"commands": [
            {"init": {"name": "a", "value": {"$bytes": "AA=="}}},
            {"set": {"name": "b", "value": 2.0}},
            {"set": {"name": "t", "value": 1, "ttl": {"ms": 60000}}},
            {"set": {"name": "t", "value": 2, "ttl": "keep"}},
            {"set": {"name": "u", "value": 1, "ttl": {"until_us": 99_000_000_000_000_000_u64}}},
            {"cas": {"name": "b", "expected": 1, "value": 3}},
            {"cas": {"name": "b", "expected": null, "value": 4}},
            {"delete": {"name": "none"}},
            {"delete": {"name": "a", "counter": 1}},
            {"incr": {"name": "n", "by": 2.5}},
            {"expire": {"name": "b", "ttl": {"ms": 1000}}},
            {"expire": {"name": "b", "ttl": "clear"}},
            {"restore": {"name": "r", "value": null, "counter": 7}},
            {"restore": {"name": "gone", "counter": 9}},
            {"get": {"name": "b"}},
            {"get": {"name": "none"}},
            {"list": {"limit": 2}},
            {"sweep": {"limit": 10}},
        ]}),
    );
    let answers = receipt["answers"].as_array().unwrap();
    let wanted = [
        json!({"counter": 1}),
        json!({"counter": 1}),
        json!({"counter": 1}),
        json!({"counter": 2}),
        json!({"counter": 1}),
        json!({"counter": 2}),
        json!({"counter": null}),
        json!({"did": false}),
        json!({"did": true}),
        json!({"number": {"value": 2.5, "counter": 1}}),
        json!({"did": true}),
        json!({"did": true}),
        json!({"counter": 7}),
        json!({"counter": 9}),
    ];
    assert_eq!(answers[..14], wanted);
    assert_eq!(answers[14]["cell"]["value"], 3);
    assert_eq!(answers[15], json!({"cell": null}));
    assert_eq!(answers[16], json!({"page": {"names": ["b", "n"], "next": "n"}}));
    assert_eq!(answers[17], json!({"count": 0}));
    assert_eq!((receipt["held"].clone(), receipt["repeated"].clone()), (json!(true), json!(false)));
    assert_eq!(w.get("/v1/cells/r").ok()["value"], json!(null), "null was restored");
    assert_eq!(w.get("/v1/cells/gone").code().1, "CellNotFound", "a deletion was restored");
    assert!(w.get("/v1/cells/t").ok()["expires"].is_u64());
}

#[test]
fn every_command_on_branches_is_known() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    // Each of these must be the only step of its transaction.
    let alone = |command: Value| run(&w, json!({"commands": [command]}))["answers"][0].clone();
    let fork = json!({"fork": {"name": "side", "from": "main", "rev": 1}});
    assert_eq!(alone(fork), json!({"revision": 1}));
    alone(json!({"create_branch": {"name": "empty"}}));
    alone(json!({"rename_branch": {"name": "empty", "to": "void"}}));
    let tag = json!({"tag": {"name": "v1", "branch": "main", "rev": 1}});
    assert_eq!(alone(tag), json!({"revision": 1}));
    assert_eq!(alone(json!({"untag": {"name": "v1"}})), json!({"did": true}));
    run(&w, json!({"branch": "side", "commands": [{"set": {"name": "a", "value": 2}}]}));
    alone(json!({"merge": {"from": "side", "into": "main", "strategy": "theirs"}}));
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 2);
    alone(json!({"import_branch": {"name": "in"}}));
    alone(json!({"finish_import": {"name": "in", "tags": []}}));
    alone(json!({"delete_branch": {"name": "void"}}));
    let names: Vec<String> = w.db.branches().into_iter().map(|branch| branch.name).collect();
    assert_eq!(names, ["in", "main", "side"]);
}

#[test]
fn every_guard_decides_between_commands_and_otherwise() {
    let clock = ManualClock::new(1_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    w.put("/v1/cells/a", "1").ok();
    w.put("/v1/cells/null", "null").ok();
    let now = w.db.revision();
    let held = |guard: Value| {
        let otherwise = json!([{"get": {"name": "a"}}]);
        let receipt = run(&w, json!({"guards": [guard], "commands": [], "otherwise": otherwise}));
        let answers = receipt["answers"].as_array().unwrap().len();
        assert_eq!(answers, usize::from(receipt["held"] == false), "{receipt}");
        receipt["held"] == true
    };
    assert!(held(json!({"counter": {"name": "a", "is": 1}})));
    assert!(!held(json!({"counter": {"name": "a", "is": 2}})));
    assert!(held(json!({"absent": {"name": "none"}})));
    assert!(!held(json!({"absent": {"name": "null"}})));
    assert!(held(json!({"value": {"name": "null", "is": null}})));
    assert!(!held(json!({"value": {"name": "none", "is": null}})));
    assert!(held(json!({"value": {"name": "a", "is": 1}})));
    assert!(!held(json!({"value": {"name": "a", "is": 1.0}})), "types are values, too");
    assert!(held(json!({"unchanged": {"name": "a", "since": now}})));
    assert!(!held(json!({"unchanged": {"name": "a", "since": 0}})));
    assert!(held(json!({"range_unchanged": {"prefix": "a", "since": now}})));
    assert!(!held(
        json!({"range_unchanged": {"prefix": "", "after": "a", "upto": "z", "since": 1}})
    ));
    clock.advance(Duration::from_secs(1));
    let expires = json!(1_500_000);
    assert!(!held(json!({"unchanged": {"name": "a", "since": now, "expires": expires}})));
}

#[test]
fn a_failed_guard_without_otherwise_fails_and_so_does_must() {
    let w = World::new();
    let guarded = r#"{"guards":[{"counter":{"name":"a","is":5}}],"commands":[{"set":{"name":"a","value":1}}]}"#;
    assert_eq!(w.post("/v1/transactions", guarded).code(), (409, "GuardFailed".into()));
    let must = r#"{"commands":[{"set":{"name":"a","value":1}},{"must":{"delete":{"name":"b"}}}]}"#;
    let said = w.post("/v1/transactions", must);
    assert_eq!(said.code(), (409, "MustFailed".into()));
    assert_eq!(said.json()["error"]["position"], 1);
    assert_eq!(w.db.revision(), 0, "all or nothing");
}

#[test]
fn an_error_names_its_command() {
    let w = World::new();
    let body = r#"{"commands":[{"set":{"name":"a","value":1}},{"incr":{"name":""}}]}"#;
    let said = w.post("/v1/transactions", body);
    assert_eq!(said.code(), (400, "InvalidName".into()));
    assert_eq!(said.json()["error"]["position"], 1);
    let body = r#"{"commands":[{"set":{"name":"a","value":"x"}},{"incr":{"name":"a"}}]}"#;
    assert_eq!(w.post("/v1/transactions", body).json()["error"]["position"], 1);
}

#[test]
fn unknown_and_missing_fields_are_refused() {
    let w = World::new();
    for body in [
        "",
        "[]",
        r#"{"command":[]}"#,
        r#"{"commands":[{"set":{"name":"a"}}]}"#,
        r#"{"commands":[{"set":{"name":"a","value":1,"tll":1}}]}"#,
        r#"{"commands":[{"set":{"name":"a","value":1},"must":true}]}"#,
        r#"{"commands":[{"sett":{"name":"a","value":1}}]}"#,
        r#"{"commands":[{"cas":{"name":"a","value":1}}]}"#,
        r#"{"commands":[{"must":{"must":{"get":{"name":"a"}}}}]}"#,
        r#"{"guards":[{"counter":{"name":"a"}}]}"#,
        r#"{"guards":[{"exists":{"name":"a"}}]}"#,
        r#"{"durability":"later"}"#,
        r#"{"commands":[{"incr":{"name":"a","by":"1"}}]}"#,
        r#"{"commands":[{"set":{"name":"a","value":1}}]} x"#,
    ] {
        let said = w.post("/v1/transactions", body);
        assert_eq!(said.code(), (400, "InvalidArgument".into()), "{body}");
    }
    assert_eq!(w.db.revision(), 0);
}

#[test]
fn durability_is_chosen_by_the_transaction() {
    let w = World::new();
    for durability in ["memory", "interval", "sync"] {
        run(&w, json!({"durability": durability, "commands": [{"incr": {"name": "n"}}]}));
    }
    assert_eq!(w.db.durable_revision(), 3, "the last one made all before it durable");
}

#[test]
fn a_transaction_of_megabytes_is_one_transaction() {
    let w = World::new();
    let text = "x".repeat(1 << 20);
    let commands: Vec<Value> =
        (0..8).map(|i| json!({"set": {"name": format!("big/{i}"), "value": text}})).collect();
    let receipt = run(&w, json!({"commands": commands}));
    assert_eq!(receipt["answers"].as_array().unwrap().len(), 8);
    assert_eq!(w.db.revision(), 1);
}

/// Reads see the steps before them, with the revision that the transaction gets.
#[test]
fn histories_and_names_are_steps_whose_answers_are_final() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    let receipt = run(
        &w,
        json!({"commands": [
            {"set": {"name": "a", "value": 2}},
            {"history": {"name": "a"}},
            {"write_record": {"key": "r", "set": {"f": "v"}}},
            {"record_history": {"name": "r", "limit": 1}},
            {"list_names": {}},
            {"count_names": {}},
            {"append_event": {"event": {"runId": "run", "eventType": "A", "idempotencyKey": "k"}}},
            {"event_revision": {"run": "run", "seq": 1}},
            {"event_revision": {"run": "run", "seq": 2}},
            {"write_record": {"key": "r", "when": [{"field": {"name": "f", "is": "v"}}], "set": {"g": "w"}, "clear": ["f"]}},
            {"get": {"name": "a"}},
        ]}),
    );
    let revision = &receipt["revision"];
    let answers = &receipt["answers"];
    let versions = &answers[1]["history"];
    assert_eq!((&versions[0]["value"], &versions[0]["revision"]), (&json!(2), revision));
    assert_eq!(versions[1]["value"], json!(1));
    assert_eq!(&answers[3]["record_history"][0]["revision"], revision);
    assert_eq!(answers[4]["page"]["names"], json!(["a", "r"]));
    assert_eq!(answers[5], json!({"count": 2}));
    assert_eq!(answers[7], json!({"event_revision": revision}));
    assert_eq!(answers[8], json!({"event_revision": null}));
    assert_eq!(answers[9], json!({"counter": 2}), "the field that was compared went");
    assert_eq!(&answers[10]["cell"]["revision"], revision);
}

#[test]
fn the_counts_of_one_transaction_have_a_budget() {
    let options = Options::new().work_limits(2_000, 1 << 30);
    let w = World::of(options.memory().unwrap(), Settings::default());
    let puts: Vec<Value> = (0..100)
        .map(|i| json!({"write_record": {"key": format!("r{i:03}"), "set": {"f": "1"}}}))
        .collect();
    run(&w, json!({"commands": puts}));
    let mut commands = vec![json!({"set": {"name": "a", "value": 1}})];
    commands.extend(std::iter::repeat_n(json!({"count_records": {"prefix": "r"}}), 50));
    let refused = w.post("/v1/transactions", &json!({"commands": commands}).to_string());
    assert_eq!(refused.code(), (413, "TransactionTooLarge".into()));
    assert!(refused.text.contains("transaction_entries"), "{}", refused.text);
    assert_eq!(w.get("/v1/cells/a").code().0, 404, "nothing was written");
}
