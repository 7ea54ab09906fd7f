use crate::world::World;
use mainstay::{ManualClock, Options, Value};
use mainstay_server::http::Settings;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_cell_is_written_and_read_with_its_counter() {
    let w = World::new();
    let put = w.put("/v1/cells/greeting", r#""hello""#);
    assert_eq!((put.status, put.header("etag")), (200, "\"1\""));
    assert_eq!(put.json()["counter"], 1);
    let got = w.get("/v1/cells/greeting");
    assert_eq!((got.status, got.header("etag")), (200, "\"1\""));
    let cell = w.db.cells().get_versioned("greeting").unwrap().unwrap();
    let wanted = json!({
        "value": "hello", "counter": 1, "stamp": cell.stamp, "revision": cell.revision,
        "expires": null,
    });
    assert_eq!(got.json(), wanted);
    assert_eq!(w.put("/v1/cells/greeting", "2").ok()["counter"], 2);
}

#[test]
fn an_absent_cell_is_404_and_null_is_a_value() {
    let w = World::new();
    assert_eq!(w.get("/v1/cells/a").code(), (404, "CellNotFound".into()));
    w.put("/v1/cells/a", "null").ok();
    assert_eq!(w.get("/v1/cells/a").ok()["value"], json!(null));
}

#[test]
fn names_hold_slashes_and_whatever_is_percent_encoded() {
    let w = World::new();
    for (path, name) in [
        ("orders/17", "orders/17"),
        ("orders%2F18", "orders/18"),
        ("%C3%A9%20%3F%23%25", "é ?#%"),
        ("/leading", "/leading"),
        ("a//b", "a//b"),
        ("trailing/", "trailing/"),
        ("incr", "incr"),
    ] {
        w.put(&format!("/v1/cells/{path}"), "1").ok();
        assert_eq!(w.db.cells().get(name).unwrap(), Some(1.into()), "{name}");
        assert_eq!(w.get(&format!("/v1/cells/{path}")).ok()["value"], 1, "{name}");
    }
}

#[test]
fn every_type_of_value_survives() {
    let w = World::new();
    let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    for (i, text) in [
        "null",
        "true",
        "-9223372036854775808",
        "1.0",
        "-0.0",
        "1e300",
        r#""text \u00e9 \" \\""#,
        r#"{"$bytes":"AP8="}"#,
        r#"{"$float":"NaN"}"#,
        r#"{"$float":"-Infinity"}"#,
        r#"{"$object":{"$bytes":"not bytes"}}"#,
        r#"{"a":[1,2.5,{"$bytes":"AP8="}],"b":{}}"#,
        &deep,
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/v1/cells/v{i}");
        w.put(&path, text).ok();
        let stored = w.db.cells().get(&format!("v{i}")).unwrap().unwrap();
        assert_eq!(stored, Value::from_json(text).unwrap(), "{text}");
        let body = w.get(&path).text;
        let shown = format!(r#"{{"value":{},"counter":1"#, stored.to_json());
        assert!(body.starts_with(&shown), "{body}");
    }
}

#[test]
fn the_past_is_read_by_revision_and_by_stamp() {
    let w = World::new();
    let first = w.put("/v1/cells/a", "1").ok();
    let second = w.put("/v1/cells/a", "2").ok();
    let value = |query: String| w.get(&format!("/v1/cells/a?{query}")).ok()["value"].clone();
    assert_eq!(value(format!("rev={}", first["revision"])), 1);
    assert_eq!(value(format!("at={}", first["stamp"])), 1);
    assert_eq!(value(format!("at={}", second["stamp"])), 2);
    let before = first["revision"].as_u64().unwrap() - 1;
    assert_eq!(w.get(&format!("/v1/cells/a?rev={before}")).code().1, "CellNotFound");
    assert_eq!(w.get("/v1/cells/a?rev=999").code(), (400, "FutureRevision".into()));
    assert_eq!(w.get("/v1/cells/a?rev=1&at=1").code(), (400, "InvalidArgument".into()));
}

#[test]
fn a_branch_is_named_by_an_argument() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    w.put("/v1/cells/a?branch=side", "2").ok();
    assert_eq!(w.get("/v1/cells/a?branch=side").ok()["value"], 2);
    assert_eq!(w.get("/v1/cells/a").ok()["value"], 1);
    assert_eq!(w.get("/v1/cells/a?branch=none").code(), (404, "BranchNotFound".into()));
    assert_eq!(w.put("/v1/cells/a?branch=none", "1").code(), (404, "BranchNotFound".into()));
}

#[test]
fn a_time_to_live_ends() {
    let clock = ManualClock::new(1_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    let put = w.put("/v1/cells/a?ttl_ms=1500", "1").ok();
    let expires = put["stamp"].as_u64().unwrap() + 1_500_000;
    assert_eq!(w.get("/v1/cells/a").ok()["expires"], expires);
    clock.advance(Duration::from_secs(2));
    assert_eq!(w.get("/v1/cells/a").code().1, "CellNotFound");
    assert_eq!(w.put("/v1/cells/a?ttl_ms=0", "1").code(), (400, "InvalidTtl".into()));
}

#[test]
fn a_deletion_says_whether_there_was_something_and_the_counter_goes_on() {
    let w = World::new();
    w.put("/v1/cells/a", "1").ok();
    assert_eq!(w.delete("/v1/cells/a").ok()["deleted"], true);
    assert_eq!(w.delete("/v1/cells/a").ok()["deleted"], false);
    assert_eq!(w.put("/v1/cells/a", "1").ok()["counter"], 3);
}

#[test]
fn counting_adds_integers_and_floats() {
    let w = World::new();
    assert_eq!(w.post("/v1/incr/n/1", "").ok()["value"], 1);
    let second = w.post("/v1/incr/n/1", r#"{"by":-5}"#);
    assert_eq!((second.header("etag"), second.json()["value"].as_i64()), ("\"2\"", Some(-4)));
    assert_eq!(w.post("/v1/incr/n/1", r#"{"by":0.5}"#).ok()["value"], -3.5);
    assert_eq!(w.post("/v1/incr/n/1", r#"{"by":"x"}"#).code(), (400, "InvalidArgument".into()));
    w.put("/v1/cells/s", r#""text""#).ok();
    assert_eq!(w.post("/v1/incr/s", "").code(), (400, "NotANumber".into()));
    w.put("/v1/cells/max", "9223372036854775807").ok();
    assert_eq!(w.post("/v1/incr/max", "").code(), (400, "Overflow".into()));
}

#[test]
fn names_are_listed_page_by_page() {
    let w = World::new();
    for name in ["b/1", "a", "b/3", "b/2", "c"] {
        w.db.cells().set(name, 1).unwrap();
    }
    assert_eq!(
        w.get("/v1/cells?prefix=b/&limit=2").ok(),
        json!({"names": ["b/1", "b/2"], "next": "b/2"})
    );
    assert_eq!(
        w.get("/v1/cells?prefix=b/&limit=2&after=b/2").ok(),
        json!({"names": ["b/3"], "next": null})
    );
    assert_eq!(w.get("/v1/cells?rev=1").ok()["names"], json!(["b/1"]));
    assert_eq!(w.get("/v1/cells?limit=0").code(), (400, "InvalidLimit".into()));
    assert_eq!(w.get("/v1/cells?limit=100001").code(), (400, "InvalidLimit".into()));
}

#[test]
fn history_is_newest_first_with_deletions_page_by_page() {
    let w = World::new();
    w.put("/v1/cells/a/b", "1").ok();
    w.delete("/v1/cells/a/b").ok();
    w.put("/v1/cells/a/b", "null").ok();
    let page = w.get("/v1/history/a/b?limit=2").ok();
    let versions = page["versions"].as_array().unwrap();
    let seen: Vec<_> =
        versions.iter().map(|v| (v["counter"].clone(), v["deleted"].clone())).collect();
    assert_eq!(seen, [(json!(3), json!(false)), (json!(2), json!(true))]);
    assert_eq!(versions[0].get("value"), Some(&json!(null)));
    assert_eq!(versions[1].get("value"), None);
    assert_eq!(page["next"], 2);
    let rest = w.get("/v1/history/a/b?limit=2&before=2").ok();
    assert_eq!(
        (rest["versions"][0]["value"].clone(), rest["next"].clone()),
        (json!(1), json!(null))
    );
    assert_eq!(w.get("/v1/history/none").ok()["versions"], json!([]));
}
