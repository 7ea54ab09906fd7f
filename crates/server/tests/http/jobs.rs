//! Jobs and locks over HTTP.

use crate::world::{World, until};
use serde_json::{Value, json};
use std::thread;

fn submit(w: &World, path: &str, body: Value) -> Value {
    let said = w.put(&format!("/v1/jobs/{path}"), &body.to_string());
    assert_eq!(said.status, 201, "{}", said.text);
    said.json()
}

fn claim(w: &World, of: &str) -> Value {
    let path = format!("/v1/job-claims/{of}");
    w.post(&path, r#"{"worker":"w1","lease_ms":60000}"#).ok()["claimed"].clone()
}

fn work(w: &World, path: &str, body: &Value) -> (u16, String) {
    let said = w.post(&format!("/v1/jobs/{path}"), &body.to_string());
    let body = said.json();
    let word = body["state"].as_str().or(body["error"]["code"].as_str()).unwrap();
    (said.status, word.to_owned())
}

#[test]
fn a_job_goes_from_submit_to_complete() {
    let w = World::new();
    assert_eq!(claim(&w, "email"), Value::Null);
    let said = submit(&w, "email/1", json!({"data": {"to": "a"}, "priority": 5, "step_count": 2}));
    assert_eq!(said, json!({"type": "email", "id": "1", "state": "pending"}));
    let said = submit(&w, "email/2", json!({"data": {"$bytes": "/w=="}, "depends_on": ["1"]}));
    assert_eq!(said["state"], "blocked");
    let got = claim(&w, "email");
    assert_eq!(got["data"], r#"{"to": "a"}"#.replace(": ", ":"));
    assert_eq!((&got["job"]["id"], &got["job"]["worker"]), (&json!("1"), &json!("w1")));
    let token = got["token"].as_u64().unwrap();
    assert_eq!(token, w.db.revision());
    let held = json!({ "token": token });
    assert_eq!(work(&w, "email/1/heartbeat", &held), (200, "claimed".into()));
    let step = json!({"token": token, "step": 1, "of": 2});
    assert_eq!(work(&w, "email/1/step", &step), (200, "running".into()));
    let done = json!({"token": token, "result": "sent"});
    assert_eq!(work(&w, "email/1/complete", &done), (200, "completed".into()));
    assert_eq!(work(&w, "email/1/complete", &done), (200, "completed".into()), "again is as good");
    let job = w.get("/v1/jobs/email/1").ok();
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!("sent")));
    assert_eq!(job["dependents"], json!(["email/2"]));
    assert_eq!(w.get("/v1/job-output/email/1").text, "sent");
    let bytes = w.send("GET", "/v1/job-input/email/2", &[], b"").body_mut().read_to_vec().unwrap();
    assert_eq!(bytes, b"\xff");
    assert_eq!(w.get("/v1/job-output/email/2").code(), (404, "NoBytes".into()));
    let again = claim(&w, "email")["token"].clone();
    let failed = json!({"token": again, "message": "no paper", "retry": true});
    assert_eq!(work(&w, "email/2/fail", &failed), (200, "pending".into()));
    assert_eq!(work(&w, "email/2/cancel", &json!({})), (200, "cancelled".into()));
    assert_eq!(work(&w, "email/2/retry", &json!({})), (200, "pending".into()));
}

#[test]
fn whoever_lost_a_job_is_told_409() {
    let w = World::new();
    submit(&w, "t/a", json!({}));
    let token = claim(&w, "t")["token"].clone();
    w.post("/v1/jobs/t/a/cancel", "").ok();
    for (verb, body) in [
        ("heartbeat", json!({"token": token})),
        ("step", json!({"token": token, "step": 1})),
        ("complete", json!({"token": token})),
        ("fail", json!({"token": token, "message": "no"})),
    ] {
        assert_eq!(work(&w, &format!("t/a/{verb}"), &body), (409, "Fenced".into()), "{verb}");
    }
}

#[test]
fn a_graph_is_there_as_a_whole_or_not_at_all() {
    let w = World::new();
    let graph = json!({"jobs": [
        {"type": "t", "id": "a"},
        {"type": "t", "id": "b", "depends_on": ["a"], "data": "x"},
        {"type": "u", "id": "c", "depends_on": ["t/a", "t/b"]},
    ]});
    let said = w.post("/v1/job-graphs", &graph.to_string());
    assert_eq!(said.status, 201);
    let states: Vec<_> =
        said.json()["jobs"].as_array().unwrap().iter().map(|job| job["state"].clone()).collect();
    assert_eq!(states, ["pending", "blocked", "blocked"]);
    let revision = w.db.revision();
    for (wrong, code) in [
        (json!([]), (400, "EmptyGraph")),
        (
            json!([{"type": "t", "id": "d", "depends_on": ["e"]}, {"type": "t", "id": "e", "depends_on": ["d"]}]),
            (400, "DependencyCycle"),
        ),
        (json!([{"type": "t", "id": "d"}, {"type": "t", "id": "d"}]), (409, "JobExists")),
        (json!([{"type": "t", "id": "d"}, {"type": "t", "id": "a"}]), (409, "JobExists")),
        (json!([{"type": "t", "id": "d", "depends_on": ["none"]}]), (400, "UnknownDependency")),
        (json!([{"type": "t"}]), (400, "InvalidArgument")),
        (json!([{"type": "t", "id": "d", "what": 1}]), (400, "InvalidArgument")),
    ] {
        let said = w.post("/v1/job-graphs", &json!({ "jobs": wrong }).to_string());
        let (status, name) = said.code();
        assert_eq!((status, name.as_str()), code, "{wrong}");
    }
    assert_eq!(w.db.revision(), revision);
}

#[test]
fn jobs_are_listed_counted_and_looked_at_as_they_were() {
    let w = World::new();
    assert_eq!(w.get("/v1/jobs/t").ok(), json!({"jobs": [], "next": null}));
    assert_eq!(w.get("/v1/jobs/t/a").code(), (404, "JobNotFound".into()));
    assert_eq!(w.db.revision(), 0, "looking writes nothing");
    for id in ["a", "b", "c"] {
        submit(&w, &format!("t/{id}"), json!({}));
    }
    let token = claim(&w, "t")["token"].as_u64().unwrap();
    w.post("/v1/jobs/t/a/complete", &json!({ "token": token }).to_string()).ok();
    let ids = |query: &str| {
        let page = w.get(&format!("/v1/jobs/t{query}")).ok();
        let ids = page["jobs"].as_array().unwrap().iter();
        (
            ids.map(|job| job["id"].as_str().unwrap().to_owned()).collect::<String>(),
            page["next"].clone(),
        )
    };
    assert_eq!(ids("?limit=2"), ("ab".into(), json!("b")));
    assert_eq!(ids("?after=b"), ("c".into(), Value::Null));
    assert_eq!(ids("?state=completed"), ("a".into(), Value::Null));
    assert_eq!(ids(&format!("?state=claimed&rev={token}")), ("a".into(), Value::Null));
    let count = |query: &str| w.get(&format!("/v1/job-count/t{query}")).ok()["count"].clone();
    assert_eq!((count(""), count("?state=pending")), (json!(3), json!(2)));
    assert_eq!(count(&format!("?state=claimed&rev={token}")), json!(1));
    let then = w.get(&format!("/v1/jobs/t/a?rev={token}")).ok();
    assert_eq!((&then["state"], &then["token"]), (&json!("claimed"), &json!(token)));
    let history = w.get("/v1/job-history/t/a?limit=2").ok();
    let states: Vec<_> = history["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["job"]["state"].clone())
        .collect();
    assert_eq!(states, ["completed", "claimed"]);
    let older = w.get(&format!("/v1/job-history/t/a?before={}", history["next"])).ok();
    assert_eq!(older["versions"][0]["job"]["state"], "pending");
    for (path, code) in [
        ("/v1/jobs/t?state=done", (400, "UnknownState")),
        ("/v1/jobs/t?limit=0", (400, "InvalidLimit")),
        ("/v1/jobs/a.b", (400, "InvalidName")),
        ("/v1/jobs/t?what=1", (400, "InvalidArgument")),
        ("/v1/jobs/t/a?rev=1&at=1", (400, "InvalidArgument")),
    ] {
        let (status, name) = w.get(path).code();
        assert_eq!((status, name.as_str()), code, "{path}");
    }
}

#[test]
fn a_claim_waits_for_a_job() {
    let w = World::new();
    assert_eq!(
        w.post("/v1/job-claims/t", r#"{"worker":"w","wait_ms":20}"#).ok()["claimed"],
        Value::Null
    );
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| w.post("/v1/job-claims/t", r#"{"worker":"w","wait_ms":60000}"#).ok());
        submit(&w, "t/a", json!({}));
        assert_eq!(waiting.join().unwrap()["claimed"]["job"]["id"], "a");
    });
}

#[test]
fn whoever_hangs_up_while_waiting_claims_nothing() {
    use std::io::Write;
    let w = World::new();
    let waiting = |count: u8| {
        let line = format!("mainstay_http_orders_under_way {count}");
        until(&line, || w.get("/metrics").text.lines().any(|it| it == line));
    };
    let mut gone = w.connect();
    let body = r#"{"worker":"w","wait_ms":60000}"#;
    let head = format!(
        "POST /v1/job-claims/t HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    gone.write_all(format!("{head}{body}").as_bytes()).unwrap();
    waiting(1);
    drop(gone);
    waiting(0);
    for id in ["a", "b", "c", "d", "e", "f"] {
        submit(&w, &format!("t/{id}"), json!({}));
        assert_eq!(claim(&w, "t")["job"]["id"], id);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let w = World::new();
    submit(&w, "t/a", json!({}));
    let revision = w.db.revision();
    for (method, path, body, code) in [
        ("PUT", "/v1/jobs/t/a", "", (409, "JobExists")),
        ("PUT", "/v1/jobs/a.b/c", "", (400, "InvalidName")),
        ("PUT", "/v1/jobs/t/b", r#"{"id":"c"}"#, (400, "InvalidArgument")),
        ("PUT", "/v1/jobs/t/b", r#"{"depends_on":["b"]}"#, (400, "SelfDependency")),
        ("PUT", "/v1/jobs/t/b", r#"{"timeout_ms":0}"#, (400, "InvalidArgument")),
        ("PUT", "/v1/jobs/t/b", r#"{"prioriti":1}"#, (400, "InvalidArgument")),
        ("POST", "/v1/job-claims/t", "{}", (400, "InvalidArgument")),
        ("POST", "/v1/job-claims/t", r#"{"worker":"w","lease_ms":0}"#, (400, "InvalidArgument")),
        ("POST", "/v1/jobs/t/a/complete", "{}", (400, "InvalidArgument")),
        (
            "POST",
            "/v1/jobs/t/a/fail",
            r#"{"token":1,"message":"","retry_after_ms":5}"#,
            (400, "InvalidArgument"),
        ),
        ("POST", "/v1/jobs/t/none/cancel", "", (404, "JobNotFound")),
        ("POST", "/v1/jobs/t/a/retry", "", (400, "IllegalTransition")),
        ("POST", "/v1/jobs/t/a/what", "", (404, "RouteNotFound")),
        ("DELETE", "/v1/jobs/t/a", "", (405, "MethodNotAllowed")),
        ("PUT", "/v1/locks/l", r#"{"owner":"o","lease_ms":0}"#, (400, "InvalidArgument")),
        ("DELETE", "/v1/locks/l", "", (400, "InvalidArgument")),
    ] {
        let (status, name) = w.ask(method, path, &[], body).code();
        assert_eq!((status, name.as_str()), code, "{method} {path} {body}");
    }
    assert_eq!(w.db.revision(), revision);
    let large = json!({"data": "x".repeat(70_000)}).to_string();
    assert_eq!(w.put("/v1/jobs/t/b", &large).code(), (413, "ValueTooLarge".into()));
}

#[test]
fn a_lock_has_one_holder() {
    let w = World::new();
    assert_eq!(w.get("/v1/locks/a/b").code(), (404, "LockFree".into()));
    let take = |owner: &str| {
        w.put("/v1/locks/a/b", &json!({"owner": owner, "lease_ms": 60_000}).to_string())
    };
    let token = take("one").ok()["token"].as_u64().unwrap();
    assert_eq!(take("two").code(), (409, "LockHeld".into()));
    assert_eq!(take("one").ok()["token"], token);
    let holder = w.get("/v1/locks/a/b").ok();
    assert_eq!((&holder["owner"], &holder["token"]), (&json!("one"), &json!(token)));
    let renew = |token: u64| {
        let body = json!({"token": token, "lease_ms": 90_000}).to_string();
        w.ask("PATCH", "/v1/locks/a/b", &[], &body)
    };
    assert_eq!(renew(token).ok()["token"], token);
    assert_eq!(renew(token + 1).code(), (409, "Fenced".into()));
    let free = |token: u64| w.delete(&format!("/v1/locks/a/b?token={token}"));
    assert_eq!(free(token + 1).ok()["freed"], false);
    assert_eq!(free(token).ok()["freed"], true);
    assert_eq!(free(token).ok()["freed"], false);
    assert!(take("two").ok()["token"].as_u64().unwrap() > token);
}

#[test]
fn a_sweep_tells_what_it_did_and_the_figures_count_it() {
    let w = World::new();
    assert_eq!(w.post("/v1/job-sweeps", "").ok()["looked_at"], 0);
    submit(&w, "t/a", json!({"max_retries": 1}));
    for (retried, failed) in [(1, 0), (0, 1)] {
        w.post("/v1/job-claims/t", r#"{"worker":"w","lease_ms":1}"#).ok();
        let mut swept = Value::Null;
        until("the lease to be over", || {
            swept = w.post("/v1/job-sweeps", "{}").ok();
            swept["looked_at"] == 1
        });
        assert_eq!((&swept["retried"], &swept["failed"]), (&json!(retried), &json!(failed)));
    }
    let page = w.get("/metrics").text;
    for line in [
        r#"mainstay_job_operations_total{kind="submitted"} 1"#,
        r#"mainstay_job_operations_total{kind="claimed"} 2"#,
        r#"mainstay_job_swept_total{became="retried"} 1"#,
        r#"mainstay_job_swept_total{became="failed"} 1"#,
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}
