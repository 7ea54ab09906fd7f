use crate::world::{World, until};
use mainstay::{ManualClock, NewEvent, Options};
use mainstay_server::http::Settings;
use serde_json::{Value, json};
use std::time::Duration;

fn step(kind: &str, step: &str) -> Value {
    json!({"eventType": kind, "stepId": step, "planVersion": "1"})
}

fn append(w: &World, run: &str, event: &Value) -> Value {
    w.post(&format!("/v1/runs/{run}/events"), &event.to_string()).ok()
}

fn note(number: u64) -> Value {
    json!({"eventType": "Noted", "idempotencyKey": format!("n{number}"), "eventData": number})
}

#[test]
fn an_event_is_appended_once_however_often_it_is_told() {
    let w = World::new();
    let event = json!({"eventType": "StepCompleted", "stepId": "load", "planVersion": "7", "eventData": {"rows": 3}});
    let first = append(&w, "r", &event);
    let wanted = json!({
        "runSeq": 1, "idempotent": false, "persisted": true, "conflict": false,
        "eventId": first["eventId"], "persistedAt": first["persistedAt"],
    });
    assert_eq!(first, wanted);
    let again = append(&w, "r", &event);
    assert_eq!((&again["runSeq"], &again["idempotent"]), (&json!(1), &json!(true)));
    assert_eq!(
        (&again["eventId"], &again["persistedAt"]),
        (&first["eventId"], &first["persistedAt"])
    );
    let mut other = event.clone();
    other["eventData"] = json!({"rows": 4});
    assert_eq!(append(&w, "r", &other)["conflict"], true);
    let page = w.get("/v1/runs/r/events").ok();
    let stored = json!({
        "runId": "r", "runSeq": 1, "eventId": first["eventId"], "eventType": "StepCompleted", "stepId": "load",
        "eventData": {"rows": 3}, "planVersion": "7", "contractVersion": "1.0",
        "idempotencyKey": page["events"][0]["idempotencyKey"],
        "emittedAt": first["persistedAt"], "persistedAt": first["persistedAt"],
    });
    assert_eq!(page, json!({"events": [stored], "next": 1}));
    assert_eq!(w.db.revision(), 1, "what was there already wrote nothing");
}

#[test]
fn a_message_goes_to_the_outbox_if_its_event_is_new() {
    let w = World::new();
    let mut event = note(1);
    event["message"] = json!({"subject": "s", "payload": {"n": 1}});
    let mut other = note(2);
    other["message"] = json!({"subject": "t", "payload": "text"});
    for _ in 0..2 {
        append(&w, "r", &event);
        append(&w, "r", &json!([event, other]));
    }
    let claimed = w.post("/v1/outbox/claim", "").ok();
    let message = &claimed["messages"][0];
    assert_eq!((&message["subject"], &message["run"]), (&json!("s"), &json!("r")));
    assert_eq!(message["payload"], r#"{"n":1}"#);
    assert_eq!(w.db.outbox().state().unwrap().pending, 2);
    event["message"] = json!("text");
    assert_eq!(w.post("/v1/runs/r/events", &event.to_string()).status, 400);
}

#[test]
fn the_numbers_of_an_event_are_kept_as_they_are_written() {
    let w = World::new();
    for number in ["18446744073709551616", "1e400", "0.1000000000000000055511151231257827"] {
        let event = |n: &str| {
            format!(r#"{{"eventType":"N","idempotencyKey":"{number}","eventData":[{n}]}}"#)
        };
        w.post("/v1/runs/r/events", &event(number)).ok();
        assert_eq!(w.post("/v1/runs/r/events", &event(number)).ok()["conflict"], false);
        assert_eq!(w.post("/v1/runs/r/events", &event("0.1")).ok()["conflict"], true);
        let page = w.get("/v1/runs/r/events").text;
        assert!(page.contains(&format!(r#""eventData":[{number}]"#)), "{page}");
    }
    let refused = w.put("/v1/cells/c", "18446744073709551616");
    assert_eq!(refused.code(), (400, "InvalidValue".into()));
}

#[test]
fn a_list_is_appended_as_a_whole_or_not_at_all() {
    let w = World::new();
    let all = append(&w, "r", &json!([step("StepStarted", "a"), step("StepStarted", "b")]));
    let seqs: Vec<_> = all.as_array().unwrap().iter().map(|one| &one["runSeq"]).collect();
    assert_eq!(seqs, [1, 2]);
    assert_eq!(append(&w, "r", &json!([note(1)]))[0]["runSeq"], 3, "a list of one is a list");
    assert_eq!(append(&w, "r", &json!([])), json!([]));
    let bad = json!([note(2), {"eventType": "StepStarted", "planVersion": "1"}]).to_string();
    let said = w.post("/v1/runs/r/events", &bad);
    assert_eq!(said.code(), (400, "InvalidArgument".into()));
    assert_eq!(said.json()["error"]["position"], 1);
    assert_eq!(w.get("/v1/runs/r").ok()["lastEventSeq"], 3);
}

#[test]
fn an_append_can_say_where_the_run_has_to_stand() {
    let w = World::new();
    let post = |expect: u64, event: Value| {
        w.post(&format!("/v1/runs/r/events?expect={expect}"), &event.to_string())
    };
    assert_eq!(post(0, note(1)).ok()["runSeq"], 1);
    assert_eq!(post(0, note(2)).code(), (409, "SequenceMoved".into()));
    assert_eq!(post(0, note(1)).ok()["idempotent"], true, "told again it is found");
    assert_eq!(post(1, json!([note(2), note(3)])).ok()[1]["runSeq"], 3);
    assert_eq!(post(1, json!([note(4), note(5)])).code(), (409, "SequenceMoved".into()));
    assert_eq!(w.get("/v1/runs/r").ok()["lastEventSeq"], 3);
}

#[test]
fn a_run_is_made_with_what_is_known_of_it_once() {
    let w = World::new();
    let body = json!({"metadata": {"tenant": "t1"}, "events": [{"eventType": "RunStarted", "planVersion": "1"}]});
    let made = w.put("/v1/runs/r", &body.to_string()).ok();
    assert_eq!((made.as_array().unwrap().len(), &made[0]["runSeq"]), (1, &json!(1)));
    assert_eq!(w.put("/v1/runs/r", &body.to_string()).code(), (409, "RunExists".into()));
    assert_eq!(w.put("/v1/runs/empty", "{}").ok(), json!([]));
    let stamp = w.db.stamp_of(1).unwrap();
    let wanted = json!({
        "runId": "r", "status": "RUNNING", "lastEventSeq": 1, "inconsistent": false,
        "created": stamp, "updated": stamp, "revision": 1, "metadata": {"tenant": "t1"},
    });
    assert_eq!(w.get("/v1/runs/r").ok(), wanted);
    assert_eq!(w.put("/v1/runs/x", r#"{"run":"x"}"#).code(), (400, "InvalidArgument".into()));
    let of_another = r#"{"events":[{"runId":"y","eventType":"E","planVersion":"1"}]}"#;
    assert_eq!(w.put("/v1/runs/x", of_another).code(), (400, "InvalidArgument".into()));
    assert_eq!(w.get("/v1/runs/x").code(), (404, "RunNotFound".into()));
}

#[test]
fn a_name_may_hold_slashes_when_they_are_encoded() {
    let w = World::new();
    append(&w, "tenant-7%2Fr%201", &note(1));
    assert_eq!(w.get("/v1/runs/tenant-7%2Fr%201").ok()["runId"], "tenant-7/r 1");
    assert_eq!(w.get("/v1/runs?prefix=tenant-7/").ok()["runs"][0]["runId"], "tenant-7/r 1");
    assert_eq!(w.get("/v1/runs/tenant-7/r%201").code().0, 404);
}

#[test]
fn runs_are_listed_by_name_state_and_time() {
    let clock = ManualClock::new(1_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    let w = World::of(db, Settings::default());
    for (name, kinds) in
        [("a/1", &["RunStarted"][..]), ("a/2", &["RunStarted", "RunCompleted"]), ("b/1", &[])]
    {
        w.put(&format!("/v1/runs/{}", name.replace('/', "%2F")), "{}").ok();
        for kind in kinds {
            clock.advance(Duration::from_secs(1));
            w.db.runs().append(NewEvent::new(name, kind).plan("1")).unwrap();
        }
    }
    let names = |query: &str| {
        let page = w.get(&format!("/v1/runs{query}")).ok();
        let names: Vec<String> = page["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["runId"].as_str().unwrap().to_owned())
            .collect();
        (names.join(" "), page["next"].clone())
    };
    assert_eq!(names(""), ("a/1 a/2 b/1".into(), Value::Null));
    assert_eq!(names("?prefix=a/&status=completed").0, "a/2");
    assert_eq!(names("?status=PENDING").0, "b/1");
    assert_eq!(names("?limit=2"), ("a/1 a/2".into(), json!("a/2")));
    assert_eq!(names("?limit=2&after=a/2").0, "b/1");
    let created = w.get("/v1/runs/a%2F2").ok()["created"].as_u64().unwrap();
    assert_eq!(names(&format!("?created_from={created}")).0, "a/2 b/1");
    assert_eq!(names(&format!("?created_before={created}")).0, "a/1");
    let updated = w.get("/v1/runs/a%2F2").ok()["updated"].as_u64().unwrap();
    assert_eq!(names(&format!("?updated_from={updated}")).0, "a/2 b/1");
    assert_eq!(names(&format!("?updated_before={updated}")).0, "a/1");
    assert!(w.get("/v1/runs").ok()["runs"][0].get("metadata").is_none());
    assert_eq!(w.get("/v1/runs?status=asleep").code(), (400, "InvalidArgument".into()));
    assert_eq!(w.get("/v1/runs?prefix=a/&after=b").code(), (400, "InvalidArgument".into()));
}

#[test]
fn a_snapshot_is_never_behind_and_is_what_the_events_add_up_to() {
    let w = World::new();
    append(&w, "r", &json!({"eventType": "RunStarted", "planVersion": "1"}));
    for event in [step("StepStarted", "a"), step("StepFailed", "a"), step("StepRetried", "a")] {
        append(&w, "r", &event);
    }
    let snapshot = w.get("/v1/runs/r/snapshot").ok();
    assert_eq!((&snapshot["lastEventSeq"], &snapshot["flags"]), (&json!(4), &json!([])));
    assert_eq!(snapshot["hash"], w.db.runs().snapshot("r").unwrap().unwrap().hash());
    assert_eq!(w.get("/v1/runs/r/projection").ok(), snapshot);
    let first = w.get("/v1/runs/r/snapshot?seq=3").ok();
    assert_eq!(
        (&first["steps"]["a"]["status"], &first["lastEventSeq"]),
        (&json!("FAILED"), &json!(3))
    );
    assert_eq!(w.get("/v1/runs/r/snapshot?seq=5").code(), (404, "RunNotFound".into()));
    for path in ["snapshot", "projection"] {
        assert_eq!(w.get(&format!("/v1/runs/none/{path}")).code(), (404, "RunNotFound".into()));
    }
}

#[test]
fn what_could_not_follow_is_told_as_an_alert() {
    let w = World::new();
    let completed = json!({"eventType": "RunCompleted", "planVersion": "1"});
    append(&w, "r", &completed);
    append(&w, "r", &json!({"eventType": "RunStarted", "planVersion": "1"}));
    append(&w, "r", &step("StepStarted", "a"));
    let info = w.get("/v1/runs/r").ok();
    assert_eq!(info["inconsistent"], true);
    let page = w.get("/v1/runs/r/alerts").ok();
    let alerts = page["alerts"].as_array().unwrap();
    assert!(!alerts.is_empty());
    let first = alerts[0]["runSeq"].as_u64().unwrap();
    assert!(alerts[0]["message"].as_str().unwrap().len() > 10, "{page}");
    let rest = w.get(&format!("/v1/runs/r/alerts?after={first}")).ok();
    assert_eq!(rest["alerts"].as_array().unwrap().len(), alerts.len() - 1);
    assert_eq!(w.get("/v1/runs/none/alerts").ok(), json!({"alerts": [], "next": 0}));
}

#[test]
fn a_run_is_read_as_it_was() {
    let w = World::new();
    for number in 1..=3 {
        append(&w, "r", &note(number));
    }
    let then = w.get("/v1/runs/r/events?rev=2").ok();
    assert_eq!((then["events"].as_array().unwrap().len(), &then["next"]), (2, &json!(2)));
    assert_eq!(w.get("/v1/runs/r?rev=1").ok()["lastEventSeq"], 1);
    let stamp = w.db.stamp_of(2).unwrap();
    assert_eq!(w.get(&format!("/v1/runs/r/snapshot?at={stamp}")).ok()["lastEventSeq"], 2);
    assert_eq!(w.get("/v1/runs?rev=0").ok()["runs"], json!([]));
    assert_eq!(w.get("/v1/runs/r?rev=9").code(), (400, "FutureRevision".into()));
    assert_eq!(w.get("/v1/runs/r?rev=1&at=1").code(), (400, "InvalidArgument".into()));
}

#[test]
fn a_branch_goes_on_from_an_event_by_itself() {
    let w = World::new();
    for number in 1..=3 {
        append(&w, "r", &note(number));
    }
    w.post("/v1/branches", r#"{"name":"again","from":"main","rev":2}"#).ok();
    let other = json!({"eventType": "Other", "planVersion": "1"}).to_string();
    assert_eq!(w.post("/v1/runs/r/events?branch=again", &other).ok()["runSeq"], 3);
    let kinds = |branch: &str| {
        let page = w.get(&format!("/v1/runs/r/events?after=2&branch={branch}")).ok();
        page["events"][0]["eventType"].clone()
    };
    assert_eq!((kinds("again"), kinds("main")), (json!("Other"), json!("Noted")));
    assert_eq!(w.delete("/v1/runs/r?branch=again").ok()["deleted"], true);
    assert_eq!(w.get("/v1/runs/r?branch=again").code(), (404, "RunNotFound".into()));
    assert_eq!(w.get("/v1/runs/r").ok()["lastEventSeq"], 3);
    assert_eq!(w.get("/v1/runs/r?branch=none").code().0, 404);
}

#[test]
fn a_whole_run_is_deleted_and_never_one_event() {
    let w = World::new();
    append(&w, "r", &note(1));
    assert_eq!(w.delete("/v1/runs/r/events").code(), (405, "MethodNotAllowed".into()));
    assert_eq!(w.delete("/v1/runs/r/events/1").code(), (404, "RouteNotFound".into()));
    assert_eq!(w.delete("/v1/runs/r").ok()["deleted"], true);
    assert_eq!(w.delete("/v1/runs/r").ok()["deleted"], false);
    assert_eq!(w.get("/v1/runs/r/events").ok()["events"], json!([]));
    let said = w.post("/v1/runs/r/events", &note(2).to_string());
    assert_eq!(said.code(), (404, "RunNotFound".into()));
}

#[test]
fn a_request_of_one_id_makes_a_run_once() {
    let w = World::new();
    let headers = [("idempotency-key", "make-r")];
    let body = json!({"events": [note(1)]}).to_string();
    let first = w.ask("PUT", "/v1/runs/r", &headers, &body).ok();
    assert_eq!(w.ask("PUT", "/v1/runs/r", &headers, &body).ok(), first);
}

#[test]
fn keys_are_made_by_the_formula() {
    let w = World::new();
    let key = |event: Value| w.post("/v1/run-keys", &event.to_string());
    let event = json!({
        "runId": "run-1", "eventType": "StepCompleted", "stepId": "fetch", "logicalAttemptId": "2",
        "planVersion": "3",
    });
    let made = key(event.clone()).ok()["idempotencyKey"].as_str().unwrap().to_owned();
    assert!(made.starts_with("0ef5ea03a0162a17"), "{made}");
    append(&w, "run-1", &event);
    assert_eq!(w.get("/v1/runs/run-1/events").ok()["events"][0]["idempotencyKey"], made);
    for wrong in [
        json!({"runId": "r", "eventType": "RunStarted"}),
        json!({"runId": "r|s", "eventType": "RunStarted", "planVersion": "1"}),
        json!({"eventType": "RunStarted", "planVersion": "1"}),
    ] {
        assert_eq!(key(wrong.clone()).status, 400, "{wrong}");
    }
    assert_eq!(w.db.revision(), 1, "asking for a key writes nothing");
}

#[test]
fn bad_input_is_told_and_the_log_stays_as_it_was() {
    let w = World::with(Settings { transaction_limit_bytes: 4 << 10, ..Settings::default() });
    append(&w, "r", &note(1));
    let post = |event: Value| w.post("/v1/runs/r/events", &event.to_string());
    for (event, code) in [
        (json!({"eventType": "StepStarted", "planVersion": "1"}), "InvalidArgument"),
        (json!({"eventType": "", "planVersion": "1"}), "InvalidArgument"),
        (
            json!({"eventType": "StepStarted", "stepId": "a|b", "planVersion": "1"}),
            "InvalidArgument",
        ),
        (json!({"eventType": "RunStarted"}), "InvalidArgument"),
        (json!({"eventType": "RunStarted", "idempotencyKey": ""}), "InvalidArgument"),
        (json!({"runId": "s", "eventType": "RunStarted", "planVersion": "1"}), "InvalidArgument"),
        (json!({"eventType": "E", "planVersion": "1", "runSeq": 9}), "InvalidArgument"),
    ] {
        assert_eq!(post(event.clone()).code(), (400, code.into()), "{event}");
    }
    for event in [
        json!({"eventType": "E", "planVersion": "1", "emittedAt": "noon"}),
        json!({"planVersion": "1"}),
        json!({"eventType": 1, "planVersion": "1"}),
        json!("RunStarted"),
    ] {
        assert_eq!(post(event.clone()).status, 400, "{event}");
    }
    assert_eq!(w.post("/v1/runs/r/events", "{").code(), (400, "InvalidArgument".into()));
    assert_eq!(w.post("/v1/runs/r/events", "[1").code(), (400, "InvalidArgument".into()));
    let large = json!({"eventType": "E", "planVersion": "1", "eventData": "x".repeat(5 << 10)});
    assert_eq!(post(large).code(), (413, "BodyTooLarge".into()));
    assert_eq!(w.post("/v1/runs/%00/events", "{}").code(), (400, "InvalidName".into()));
    for path in ["events", "alerts", "tail"] {
        for limit in ["0", "100001"] {
            let said = w.get(&format!("/v1/runs/r/{path}?limit={limit}"));
            assert_eq!(said.code(), (400, "InvalidLimit".into()), "{path} {limit}");
        }
    }
    for path in ["events?after=x", "events?limt=1", "snapshot?seq=-1", "tail?limit=5"] {
        let said = w.get(&format!("/v1/runs/r/{path}"));
        assert_eq!(said.code(), (400, "InvalidArgument".into()), "{path}");
    }
    assert_eq!(w.get("/v1/runs?limit=0").code(), (400, "InvalidLimit".into()));
    assert_eq!(w.get("/v1/runs/none/events").ok(), json!({"events": [], "next": 0}));
    assert_eq!(w.get("/v1/runs/none/events?after=7").ok()["next"], 7);
    assert_eq!(w.get("/v1/runs/r").ok()["lastEventSeq"], 1);
    assert_eq!(w.db.revision(), 1, "what was refused wrote nothing");
}

#[test]
fn an_event_over_the_limit_of_values_is_refused() {
    let w = World::new();
    let large = json!({"eventType": "E", "planVersion": "1", "eventData": "x".repeat(17 << 20)});
    let said = w.post("/v1/runs/r/events", &large.to_string());
    assert_eq!(said.code(), (413, "ValueTooLarge".into()));
    assert_eq!(w.get("/v1/runs/r").code().0, 404);
}

#[test]
fn what_a_version_does_not_know_is_kept_and_bytes_survive() {
    let w = World::new();
    let event = json!({"eventType": "E", "planVersion": "1", "colour": "green", "eventData": {"$bytes": "AP8="}});
    append(&w, "r", &event);
    let stored = &w.get("/v1/runs/r/events").ok()["events"][0];
    assert_eq!(
        (&stored["colour"], &stored["eventData"]),
        (&json!("green"), &json!({"$bytes": "AP8="}))
    );
    let kept = &w.db.runs().fetch("r", 0, 1).unwrap()[0];
    assert_eq!(kept.event_data, mainstay::Value::Bytes(vec![0, 255]));
    let mut tail = w.follow("/v1/runs/r/tail", &[]);
    assert_eq!(&tail.next().unwrap().data, stored);
}

/// A page has as many events as requested, if that many exist.
#[test]
fn a_page_of_a_tail_is_as_long_as_it_may_be() {
    let w = World::new();
    append(&w, "r", &Value::Array((1..=300).map(note).collect()));
    for (limit, events) in [(7, 7), (200, 200), (1_000, 300)] {
        let page = w.get(&format!("/v1/runs/r/tail?wait_ms=0&limit={limit}")).ok();
        assert_eq!(page["events"].as_array().unwrap().len(), events);
        assert_eq!(page["next"], events);
    }
    let large = |number: u64| {
        json!({"eventType": "Noted", "idempotencyKey": format!("large-{number}"),
        "eventData": "x".repeat(100 << 10)})
    };
    for number in 0..10 {
        append(&w, "s", &large(number));
    }
    let page = w.get("/v1/runs/s/tail?wait_ms=0&limit=1000").ok();
    assert_eq!(page["events"].as_array().unwrap().len(), 10, "several pieces make a page");
}

#[test]
fn a_tail_tells_what_is_there_and_wakes_on_what_comes() {
    let w = World::new();
    for number in 1..=2 {
        append(&w, "r", &note(number));
    }
    let mut tail = w.follow("/v1/runs/r/tail", &[]);
    for number in 1..=2 {
        assert_eq!(tail.next().unwrap().data["runSeq"], number);
    }
    w.wait_for_metric("mainstay_http_run_tails 1");
    // Events of other runs, and changes of other kinds, are not sent to this reader.
    append(&w, "s", &note(1));
    w.put("/v1/cells/r", "1").ok();
    append(&w, "r", &json!([note(3), note(4)]));
    let third = tail.next().unwrap();
    let fourth = tail.next().unwrap();
    assert_eq!((third.id.as_deref(), third.event.as_str()), (Some("3"), "appended"));
    assert_eq!(fourth.id.as_deref(), Some("4"), "each event can be resumed behind");
    let stored = w.get("/v1/runs/r/events?after=2").ok();
    assert_eq!(
        json!([third.data, fourth.data]),
        stored["events"],
        "brought or fetched, it is the same"
    );
    drop(tail);
    w.wait_for_metric("mainstay_http_run_tails 0");
}

#[test]
fn a_tail_resumes_behind_its_last_event() {
    let w = World::new();
    for number in 1..=6 {
        append(&w, "r", &note(number));
    }
    let mut first = w.follow("/v1/runs/r/tail?after=1", &[]);
    assert_eq!((0..2).map(|_| first.next().unwrap().data["runSeq"].clone()).last(), Some(json!(3)));
    let id = first.id.clone().unwrap();
    drop(first);
    let mut second = w.follow("/v1/runs/r/tail?after=0", &[("last-event-id", &id)]);
    append(&w, "r", &note(7));
    let seen: Vec<_> = (0..4).map(|_| second.next().unwrap().data["runSeq"].clone()).collect();
    assert_eq!(seen, [4, 5, 6, 7]);
    let said = w.ask("GET", "/v1/runs/r/tail", &[("last-event-id", "x")], "");
    assert_eq!(said.code(), (400, "InvalidArgument".into()));
}

#[test]
fn many_tails_see_every_event_once_and_in_order_while_producers_append() {
    let w = World::new();
    let tails: Vec<_> = (0..20).map(|_| w.follow("/v1/runs/r/tail", &[])).collect();
    std::thread::scope(|scope| {
        for producer in 0..2 {
            let runs = w.db.runs();
            scope.spawn(move || {
                for number in 0..300 {
                    let key = format!("{producer}-{number}");
                    runs.append(NewEvent::new("r", "Noted").with_key(&key)).unwrap();
                }
            });
        }
        for mut tail in tails {
            for seq in 1..=600 {
                assert_eq!(tail.next().unwrap().data["runSeq"], seq);
            }
        }
    });
}

#[test]
fn a_quiet_tail_shows_signs_of_life_and_goes_on() {
    let w = World::with(Settings { keep_alive_ms: 20, ..Settings::default() });
    let mut tail = w.follow("/v1/runs/r/tail", &[]);
    for _ in 0..3 {
        assert_eq!(tail.block().unwrap(), crate::world::Sent::default());
    }
    append(&w, "r", &note(1));
    assert_eq!(tail.next().unwrap().data["runSeq"], 1, "the run need not be there before");
}

#[test]
fn a_tail_follows_its_branch_and_is_told_when_that_goes() {
    let w = World::with(Settings { keep_alive_ms: 20, ..Settings::default() });
    append(&w, "r", &note(1));
    w.post("/v1/branches", r#"{"name":"side"}"#).ok();
    let mut tail = w.follow("/v1/runs/r/tail?branch=side&after=1", &[]);
    append(&w, "r", &note(2));
    w.post("/v1/runs/r/events?branch=side", &note(3).to_string()).ok();
    assert_eq!(tail.next().unwrap().data["idempotencyKey"], "n3");
    w.delete("/v1/branches/side").ok();
    let last = tail.next().unwrap();
    assert_eq!((last.event.as_str(), tail.next()), ("error", None));
    assert_eq!(w.get("/v1/runs/r/tail?branch=side").code().0, 404);
}

#[test]
fn a_page_of_a_tail_waits_for_the_first_event() {
    let w = World::new();
    let page = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| w.get("/v1/runs/r/tail?wait_ms=50000"));
        w.wait_for_metric("mainstay_http_run_tails 1");
        append(&w, "s", &note(1));
        append(&w, "r", &json!([note(1), note(2)]));
        waiting.join().unwrap().ok()
    });
    assert_eq!((page["events"].as_array().unwrap().len(), &page["next"]), (2, &json!(2)));
    let limited = w.get("/v1/runs/r/tail?wait_ms=1&limit=1").ok();
    assert_eq!((limited["events"].as_array().unwrap().len(), &limited["next"]), (1, &json!(1)));
    let nothing = w.get("/v1/runs/r/tail?wait_ms=1&after=2").ok();
    assert_eq!(nothing, json!({"events": [], "next": 2}));
}

#[test]
fn tails_take_the_seats_of_the_feed() {
    let w = World::with(Settings { feed_readers: 1, ..Settings::default() });
    let first = w.follow("/v1/runs/r/tail", &[]);
    assert_eq!(w.get("/v1/runs/r/tail").code(), (503, "TooManyReaders".into()));
    assert_eq!(w.get("/v1/feed").code(), (503, "TooManyReaders".into()));
    drop(first);
    until("the seat is free", || w.get("/v1/runs/r/tail?wait_ms=0").status == 200);
}

#[test]
fn a_server_that_stops_ends_its_tails() {
    let mut w = World::new();
    let mut tail = w.follow("/v1/runs/r/tail", &[]);
    w.wait_for_metric("mainstay_http_run_tails 1");
    w.app.start_draining();
    assert_eq!(tail.next(), None);
    w.end();
}

#[test]
fn one_call_is_atomic_over_cells_records_runs_and_the_outbox() {
    let w = World::new();
    let run = |body: &Value| w.post("/v1/transactions", &body.to_string());
    let body = json!({"commands": [
        {"set": {"name": "c", "value": 1}},
        {"write_record": {"key": "k", "set": {"f": "1"}}},
        {"append_event": {"event": {"runId": "r", "eventType": "RunStarted", "planVersion": "1"}, "expect": 0}},
        {"put_message": {"subject": "s", "payload": "started", "run": "r"}},
        {"snapshot_run": {"run": "r"}},
    ]});
    let receipt = run(&body).ok();
    let answers = &receipt["answers"];
    assert_eq!((&receipt["revision"], &answers[2]["appended"]["runSeq"]), (&json!(1), &json!(1)));
    assert_eq!(answers[3], json!({"message": 1}));
    assert_eq!(answers[4]["snapshot"]["status"], "RUNNING");
    assert_eq!(run(&body).ok()["answers"][2]["appended"]["idempotent"], true);
    let broken = json!({"commands": [
        {"put_message": {"subject": "s", "payload": "lost"}},
        {"append_event": {"event": {"runId": "r", "eventType": "E", "idempotencyKey": "k"}, "expect": 7}},
    ]});
    let said = run(&broken);
    assert_eq!(said.code(), (409, "SequenceMoved".into()));
    assert_eq!(said.json()["error"]["position"], 1);
    assert_eq!(w.get("/v1/outbox").ok()["last_id"], 2, "neither was done");
}

#[test]
fn every_command_on_runs_has_a_form_and_so_has_its_answer() {
    let w = World::new();
    let run = |command: Value| {
        let receipt = w.post("/v1/transactions", &json!({"commands": [command]}).to_string()).ok();
        receipt["answers"][0].clone()
    };
    let event = json!({"eventType": "RunApproved", "planVersion": "1"});
    let made = run(json!({"bootstrap_run": {"run": "r", "metadata": 7, "events": [event]}}));
    assert_eq!(made["appended_all"][0]["runSeq"], 1);
    assert_eq!(run(json!({"get_run": {"run": "r"}}))["run"]["metadata"], 7);
    assert_eq!(run(json!({"get_run": {"run": "x"}})), json!({"run": null}));
    let fetched = run(json!({"fetch_events": {"run": "r"}}));
    assert_eq!(fetched["events"][0]["eventType"], "RunApproved");
    assert_eq!(run(json!({"project_run": {"run": "r"}}))["snapshot"]["lastEventSeq"], 1);
    assert_eq!(run(json!({"run_alerts": {"run": "r"}})), json!({"alerts": []}));
    let listed = run(json!({"list_runs": {"prefix": "r", "limit": 1, "status": "approved"}}));
    assert_eq!(
        (&listed["runs"]["runs"][0]["runId"], &listed["runs"]["next"]),
        (&json!("r"), &Value::Null)
    );
    let keep = json!({"run": "r", "reducer": "mine", "version": 1, "seq": 1, "state": {"n": 1}});
    assert_eq!(run(json!({"keep_state": keep})), json!({"did": true}));
    let kept = run(json!({"kept_state": {"run": "r", "reducer": "mine", "version": 1}}));
    assert_eq!(kept, json!({"kept": {"seq": 1, "state": {"n": 1}}}));
    assert_eq!(run(json!({"delete_run": {"run": "r"}})), json!({"did": true}));
    let restore = json!({"run": "r", "metadata": 8, "created": 5, "events": fetched["events"]});
    assert_eq!(run(json!({"restore_run": restore})), json!({"count": 1}));
    let info = w.get("/v1/runs/r").ok();
    assert_eq!((&info["metadata"], &info["created"]), (&json!(8), &json!(5)));
    assert_eq!(w.get("/v1/runs/r/events").ok()["events"], fetched["events"]);
}

#[test]
fn the_feed_tells_of_runs_and_messages_and_can_be_asked_for_one_kind() {
    let w = World::new();
    let mut all = w.follow("/v1/feed", &[]);
    let mut runs = w.follow("/v1/feed?contract=runs", &[]);
    let mut outbox = w.follow("/v1/feed?contract=outbox", &[]);
    w.put("/v1/cells/a", "1").ok();
    w.put("/v1/runs/r", r#"{"metadata":{"a":1}}"#).ok();
    append(&w, "r", &note(1));
    for kind in ["RunCompleted", "RunStarted"] {
        append(&w, "r", &json!({"eventType": kind, "planVersion": "1"}));
    }
    w.post("/v1/outbox", r#"{"subject":"s","payload":"p","run":"r"}"#).ok();
    w.delete("/v1/runs/r").ok();
    let told = |sent: crate::world::Sent| {
        let contract = sent.data["contract"].clone();
        let counter = sent.data["counter"].clone();
        (contract.as_str().unwrap().to_owned(), sent.event, counter.as_u64().unwrap())
    };
    let seen: Vec<_> = (0..2).map(|_| told(runs.next().unwrap())).collect();
    assert_eq!(seen, [("runs".into(), "set".into(), 0), ("runs".into(), "appended".into(), 1)]);
    let mut rest = Vec::new();
    while rest.last().is_none_or(|(_, kind, _): &(String, String, u64)| kind != "deleted") {
        rest.push(told(runs.next().unwrap()));
    }
    let kinds: Vec<&str> = rest.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert!(kinds.contains(&"alerted") && rest.iter().all(|(of, ..)| of == "runs"), "{rest:?}");
    let message = outbox.next().unwrap();
    assert_eq!((message.event.as_str(), &message.data["key"]), ("set", &json!("1")));
    let value = json!({"subject": "s", "payload": {"$bytes": "cA=="}, "run": "r"});
    assert_eq!(message.data["value"], value);
    let order: Vec<String> = (0..4).map(|_| told(all.next().unwrap()).0).collect();
    assert_eq!(order, ["cells", "runs", "runs", "runs"]);
    let page = w.get("/v1/feed/page?after=0&contract=outbox").ok();
    assert_eq!(page["events"].as_array().unwrap().len(), 1);
    assert_eq!(w.get("/v1/feed?contract=dreams").code(), (400, "InvalidArgument".into()));
}
