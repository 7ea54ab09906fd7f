use crate::world::World;
use mainstay::{ManualClock, Options};
use mainstay_server::http::Settings;
use mainstay_server::outbox;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A server with a manual clock.
fn timed() -> (World, Arc<ManualClock>) {
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    (World::of(db, Settings::default()), clock)
}

fn put(w: &World, body: Value) -> u64 {
    w.post("/v1/outbox", &body.to_string()).ok()["id"].as_u64().unwrap()
}

fn claim(w: &World, body: Value) -> Vec<Value> {
    let claimed = w.post("/v1/outbox/claim", &body.to_string()).ok();
    claimed["messages"].as_array().unwrap().clone()
}

#[test]
fn a_message_is_written_claimed_and_acknowledged() {
    let w = World::new();
    assert_eq!(put(&w, json!({"subject": "orders", "payload": {"id": 7}})), 1);
    assert_eq!(put(&w, json!({"subject": "orders", "payload": {"$bytes": "AP8="}})), 2);
    assert_eq!(put(&w, json!({"subject": "orders"})), 3);
    let claimed = claim(&w, json!({"limit": 2, "lease_ms": 60_000}));
    let first = json!({
        "id": 1, "subject": "orders", "payload": "{\"id\":7}", "run": null, "tries": 1,
        "written": w.db.stamp_of(1).unwrap(), "failure": null,
    });
    assert_eq!(claimed[0], first);
    assert_eq!(claimed[1]["payload"], json!({"$bytes": "AP8="}));
    let rest = w.post("/v1/outbox/claim", "").ok();
    assert_eq!(rest["messages"][0]["id"], 3, "what is leased is not handed out");
    assert_eq!(w.post("/v1/outbox/ack", r#"{"ids":[1,2,9]}"#).ok(), json!({"acked": 2}));
    assert_eq!(w.get("/v1/outbox").ok()["pending"], 1);
}

#[test]
fn messages_of_a_run_wait_for_each_other_and_others_do_not() {
    let (w, _) = timed();
    for (subject, run) in [("a", Some("r")), ("b", Some("r")), ("c", None)] {
        put(&w, json!({"subject": subject, "run": run}));
    }
    let subjects = |claimed: Vec<Value>| {
        claimed.iter().map(|one| one["subject"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!(subjects(claim(&w, json!({}))), "ac");
    w.post("/v1/outbox/ack", r#"{"ids":[1]}"#).ok();
    assert_eq!(subjects(claim(&w, json!({}))), "b");
}

#[test]
fn a_lease_that_is_over_gives_the_message_to_another() {
    let (w, clock) = timed();
    put(&w, json!({"subject": "s"}));
    assert_eq!(claim(&w, json!({"lease_ms": 1000})).len(), 1);
    clock.advance(Duration::from_millis(999));
    assert!(claim(&w, json!({"lease_ms": 1000})).is_empty());
    clock.advance(Duration::from_millis(2));
    assert_eq!(claim(&w, json!({"lease_ms": 1000}))[0]["tries"], 2);
}

#[test]
fn a_token_that_is_over_ends_nobodys_lease() {
    let (w, clock) = timed();
    put(&w, json!({"subject": "s"}));
    let hold = || w.post("/v1/outbox/claim", r#"{"lease_ms": 1000}"#).ok()["token"].clone();
    let late = hold();
    clock.advance(Duration::from_millis(1001));
    let next = hold();
    let ack =
        |token: &Value| w.post("/v1/outbox/ack", &json!({"ids": [1], "token": token}).to_string());
    let fail = json!({"id": 1, "token": late}).to_string();
    assert_eq!(w.post("/v1/outbox/fail", &fail).code(), (409, "Fenced".into()));
    assert_eq!(ack(&late).code(), (409, "Fenced".into()));
    assert_eq!(ack(&next).ok(), json!({"acked": 1}));
}

#[test]
fn what_fails_waits_and_then_is_dead_and_can_be_replayed() {
    let (w, clock) = timed();
    put(&w, json!({"subject": "s", "payload": "p"}));
    claim(&w, json!({}));
    let fail = r#"{"id":1,"message":"refused","backoff_ms":500,"tries":2}"#;
    let waits = w.post("/v1/outbox/fail", fail).ok();
    assert_eq!(waits["became"], "waits");
    assert_eq!(w.get("/v1/outbox").ok()["oldest_due"], waits["due"]);
    clock.advance(Duration::from_millis(501));
    assert_eq!(claim(&w, json!({}))[0]["failure"], "refused");
    assert_eq!(w.post("/v1/outbox/fail", fail).ok(), json!({"became": "dead", "due": null}));
    assert_eq!(w.post("/v1/outbox/fail", fail).ok()["became"], "unknown");
    let dead = w.get("/v1/outbox/dead").ok();
    assert_eq!(
        (&dead["messages"][0]["id"], &dead["messages"][0]["failure"]),
        (&json!(1), &json!("refused"))
    );
    assert_eq!(w.get("/v1/outbox/dead?after=1").ok(), json!({"messages": []}));
    let state = w.get("/v1/outbox").ok();
    assert_eq!(state, json!({"pending": 0, "dead": 1, "last_id": 1, "oldest_due": null}));
    let replay = || w.post("/v1/outbox/dead/1/replay", "").ok();
    assert_eq!(replay(), json!({"replayed": true}));
    assert_eq!(replay(), json!({"replayed": false}));
    assert_eq!(claim(&w, json!({}))[0]["tries"], 1, "with all its tries");
}

#[test]
fn a_branch_has_an_outbox_of_its_own() {
    let w = World::new();
    put(&w, json!({"subject": "main"}));
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    w.post("/v1/outbox?branch=side", r#"{"subject":"side"}"#).ok();
    assert_eq!(w.post("/v1/outbox/claim?branch=side", "").code().1, "Unsupported");
    assert_eq!(w.get("/v1/outbox?branch=side").ok()["pending"], 1);
    assert_eq!(w.get("/v1/outbox/dead?branch=none").code().0, 404);
    let diff = w.get("/v1/diff?a=side&b=main").ok();
    assert_eq!(diff["differences"][0]["contract"], "outbox");
    w.post("/v1/merges", r#"{"from":"side","into":"main"}"#).ok();
    let claimed = w.post("/v1/outbox/claim", "").ok();
    assert_eq!(claimed["messages"].as_array().unwrap().len(), 2);
    assert_eq!(claimed["messages"][1]["subject"], "side");
}

#[test]
fn a_claim_of_one_id_gives_the_same_messages_again() {
    let w = World::new();
    put(&w, json!({"subject": "a"}));
    let headers = [("idempotency-key", "claim-1")];
    let ask = || w.ask("POST", "/v1/outbox/claim", &headers, "{}").ok();
    let first = ask();
    assert_eq!(first["messages"].as_array().unwrap().len(), 1);
    assert_eq!(ask(), first);
}

#[test]
fn bad_input_is_told_and_writes_nothing() {
    let w = World::new();
    for (path, body, code) in [
        ("/v1/outbox", r#"{"subject":""}"#, "InvalidArgument"),
        ("/v1/outbox", r#"{"subject":"s","run":""}"#, "InvalidName"),
        ("/v1/outbox", r#"{"payload":"p"}"#, "InvalidArgument"),
        ("/v1/outbox", r#"{"subject":"s","colour":1}"#, "InvalidArgument"),
        ("/v1/outbox/claim", r#"{"limit":0}"#, "InvalidLimit"),
        ("/v1/outbox/claim", r#"{"limit":1001}"#, "InvalidLimit"),
        ("/v1/outbox/claim", r#"{"lease_ms":0}"#, "InvalidTtl"),
        ("/v1/outbox/ack", r#"{"ids":["a"]}"#, "InvalidArgument"),
        ("/v1/outbox/fail", r#"{"id":1,"tries":0}"#, "InvalidArgument"),
        ("/v1/outbox/fail", r#"{"message":"m"}"#, "InvalidArgument"),
        ("/v1/outbox/dead/one/replay", "", "InvalidArgument"),
    ] {
        assert_eq!(w.post(path, body).code(), (400, code.into()), "{path} {body}");
    }
    assert_eq!(w.get("/v1/outbox/dead?limit=0").code(), (400, "InvalidLimit".into()));
    let large = json!({"subject": "s", "payload": "x".repeat((16 << 20) + 1)}).to_string();
    assert_eq!(w.post("/v1/outbox", &large).code(), (413, "ValueTooLarge".into()));
    assert_eq!(w.db.revision(), 0, "what was refused wrote nothing");
}

#[test]
fn every_command_on_the_outbox_has_a_form_and_so_has_its_answer() {
    let w = World::new();
    let run = |command: Value| {
        let receipt = w.post("/v1/transactions", &json!({"commands": [command]}).to_string()).ok();
        receipt["answers"][0].clone()
    };
    assert_eq!(run(json!({"put_message": {"subject": "s"}})), json!({"message": 1}));
    let claimed = run(json!({"claim_messages": {"limit": 1, "lease_ms": 1000}}));
    assert_eq!(claimed["messages"][0]["id"], 1);
    let fail = json!({"fail_message": {"id": 1, "message": "m", "tries": 1}});
    assert_eq!(run(fail)["undelivered"]["became"], "dead");
    assert_eq!(run(json!({"dead_messages": {}}))["messages"][0]["failure"], "m");
    assert_eq!(run(json!({"replay_message": {"id": 1}})), json!({"did": true}));
    assert_eq!(run(json!({"look_at_outbox": {}}))["outbox"]["pending"], 1);
    // Only claimed messages are acknowledged.
    assert_eq!(run(json!({"ack_messages": {"ids": [1]}})), json!({"count": 0}));
    run(json!({"claim_messages": {"limit": 1, "lease_ms": 1000}}));
    assert_eq!(run(json!({"ack_messages": {"ids": [1]}})), json!({"count": 1}));
}

/// Defaults come from `[outbox]`, not from the HTTP face.
#[test]
fn what_is_not_said_is_as_the_configuration_says() {
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let outbox = outbox::Settings {
        backoff_ms: 70_000,
        tries: 2,
        lease_ms: 5_000,
        ..outbox::Settings::default()
    };
    let w = World::of(db, Settings { outbox, ..Settings::default() });
    let waits_ms =
        |became: &Value| (became["due"].as_u64().unwrap() - w.db.now_us().unwrap()) / 1000;
    put(&w, json!({"subject": "s"}));
    put(&w, json!({"subject": "s"}));
    assert_eq!(claim(&w, json!({})).len(), 2);
    clock.advance(Duration::from_millis(4_900));
    assert!(claim(&w, json!({})).is_empty(), "the lease was 5 seconds");
    let waits = w.post("/v1/outbox/fail", r#"{"id": 1}"#).ok();
    assert!((69_000..=70_000).contains(&waits_ms(&waits)), "{waits}");
    clock.advance(Duration::from_millis(200));
    let claims = r#"{"commands": [{"claim_messages": {}}]}"#;
    let claimed = w.post("/v1/transactions", claims).ok();
    assert!(claimed.to_string().contains(r#""tries":2"#), "{claimed}");
    clock.advance(Duration::from_millis(4_900));
    assert!(claim(&w, json!({})).is_empty(), "the lease was 5 seconds");
    let fails = r#"{"commands": [{"fail_message": {"id": 2, "message": "refused"}}]}"#;
    let failed = w.post("/v1/transactions", fails).ok();
    assert!(failed.to_string().contains("dead"), "{failed}");
    assert_eq!(w.get("/v1/outbox").ok()["dead"], 1);
}
