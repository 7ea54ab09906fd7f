//! `mainstay job` and `mainstay lock`.

use crate::program::{Done, Program, field};
use crate::served::Served;
use mainstay::Value;

fn job(program: &Program, words: &[&str]) -> Done {
    program.data(&[&["job"], words].concat())
}

fn claim(program: &Program, words: &[&str]) -> (String, String) {
    let got = job(program, &[&["claim"], words].concat()).objects().remove(0);
    let text = |name| String::from_utf8_lossy(&field(&got, name).as_text()).into_owned();
    (text("id"), text("token"))
}

#[test]
fn a_job_is_submitted_claimed_and_done() {
    let program = Program::new();
    let submitted = job(&program, &["submit", "email", "1", "--input", "to: a"]).ok();
    assert_eq!(submitted, "{\"type\":\"email\",\"id\":\"1\",\"state\":\"pending\"}\n");
    let blocked = job(&program, &["submit", "report", "1", "--depends", "email/1"]).objects();
    assert_eq!(field(&blocked[0], "state"), &Value::from("blocked"));
    let (id, token) = claim(&program, &["email", "-w", "w1", "--lease", "1h"]);
    assert_eq!(id, "1");
    let held = "{\"type\":\"email\",\"id\":\"1\",\"held\":true}\n";
    assert_eq!(job(&program, &["beat", "email", "1", &token]).ok(), held);
    assert_eq!(job(&program, &["step", "email", "1", &token, "1", "--of", "2"]).ok(), held);
    let done = program
        .data_fed(&["job", "done", "email", "1", &token, "--result", "-", "-o", "raw"], "sent\n");
    assert_eq!(done.ok(), "completed\n");
    assert_eq!(job(&program, &["result", "email", "1", "-o", "raw"]).ok(), "sent\n");
    assert_eq!(job(&program, &["input", "email", "1", "-o", "raw"]).ok(), "to: a");
    let counted = job(&program, &["count", "report", "--state", "pending", "-o", "raw"]).ok();
    assert_eq!(counted, "1\n");
    let (_, token) = claim(&program, &["report", "--worker", "w1"]);
    let failed =
        job(&program, &["fail", "report", "1", &token, "no paper", "--retry", "-o", "raw"]);
    assert_eq!(failed.ok(), "pending\n");
    let state = |verb| job(&program, &[verb, "report", "1", "-o", "raw"]).ok();
    assert_eq!((state("cancel"), state("retry")), ("cancelled\n".into(), "pending\n".into()));
    assert_eq!(job(&program, &["sweep"]).ok(), "{\"retried\":0,\"failed\":0}\n");
}

#[test]
fn a_job_is_shown_as_it_is_and_as_it_was() {
    let program = Program::new();
    for id in ["a", "b"] {
        job(&program, &["submit", "t", id]).ok();
    }
    let (_, token) = claim(&program, &["t", "-w", "w1"]);
    job(&program, &["fail", "t", "a", &token, "no\x1bpaper"]).ok();
    let then = job(&program, &["get", "t", "a", "--rev", &token, "-o", "table"]).ok();
    assert!(then.contains("claimed") && then.contains("w1"), "{then}");
    let now = job(&program, &["get", "t", "a", "-o", "table"]).ok();
    assert!(now.contains("failed") && !now.contains('\x1b'), "{now}");
    let created = now.lines().find(|line| line.contains("created_at")).unwrap();
    assert!(created.contains("-") && created.contains('Z'), "a time: {created}");
    let object = job(&program, &["get", "t", "a"]).objects().remove(0);
    assert_eq!(field(field(&object, "fields"), "state"), &Value::from("failed"));
    let listed = job(&program, &["list", "t", "-o", "table"]).ok();
    let head = listed.lines().nth(1).unwrap();
    for name in ["id", "state", "worker", "retries", "updated", "error"] {
        assert!(head.contains(name), "{listed}");
    }
    assert!(!head.contains("ms"), "{listed}");
    let one = job(&program, &["list", "t", "--state", "failed"]).objects();
    assert_eq!((one.len(), field(&one[0], "id")), (1, &Value::from("a")));
    assert_eq!(job(&program, &["list", "t", "--after", "a"]).objects().len(), 1);
    assert_eq!(job(&program, &["list", "t", "--limit", "1"]).objects().len(), 1);
    let history = job(&program, &["history", "t", "a"]).objects();
    let states: Vec<_> = history.iter().map(|version| field(version, "state").clone()).collect();
    assert_eq!(states, ["failed", "claimed", "pending"].map(Value::from));
}

#[test]
fn what_is_not_there_ends_with_one_and_what_is_wrong_with_two() {
    let program = Program::new();
    job(&program, &["submit", "t", "a"]).ok();
    let (_, token) = claim(&program, &["t", "-w", "w1"]);
    job(&program, &["cancel", "t", "a"]).ok();
    for words in [
        &["claim", "t", "-w", "w"][..],
        &["claim", "t", "-w", "w", "--wait", "10"],
        &["submit", "t", "a"],
        &["get", "t", "b"],
        &["get", "t", "a", "--rev", "1"],
        &["input", "t", "a"],
        &["result", "t", "a"],
        &["history", "t", "b"],
        &["cancel", "t", "b"],
        &["beat", "t", "a", &token],
        &["done", "t", "a", &token],
    ] {
        job(&program, words).not_held();
    }
    let fenced = job(&program, &["step", "t", "a", &token, "1"]).not_held();
    assert!(fenced.contains("FENCED"), "{fenced}");
    for words in [
        &["submit", "a.b", "c"][..],
        &["submit", "t", "b", "--depends", "b"],
        &["list", "t", "--state", "done"],
        &["claim", "t", "-w", "w", "--lease", "0"],
    ] {
        job(&program, words).error();
    }
}

#[test]
fn a_claim_on_a_server_waits_longer_than_one_answer_may_take() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    let server = format!("127.0.0.1:{}", served.port);
    let due = (mainstay::Clock::wall_us(&mainstay::SystemClock::new()) / 1000 + 2500).to_string();
    let submitted = served.ask(&format!("JOB.SUBMIT t a RUNAT {due}")).1;
    assert!(submitted.contains("pending"), "{submitted}");
    let words = ["--server", &server, "--timeout", "2s", "job", "claim", "t", "-w", "w"];
    let got = program.run(&[&words[..], &["--wait", "1m", "-o", "raw"]].concat()).ok();
    assert!(got.starts_with("a\t"), "{got}");
}

#[test]
fn a_server_sweeps_by_itself_and_keeps_large_input_where_it_is_told() {
    let program = Program::new();
    let variables = [
        ("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0"),
        ("MAINSTAY_JOBS__SWEEP_INTERVAL_MS", "10"),
        ("MAINSTAY_JOBS__OBJECTS_DIRECTORY", "objects"),
        ("MAINSTAY_JOBS__INLINE_LIMIT_BYTES", "8"),
        ("MAINSTAY_JOBS__NAMESPACE", "mine:"),
        ("MAINSTAY_JOBS__TYPES", "[{ name = \"once\", max_retries = 0 }]"),
    ];
    let served = Served::start(&program, &variables);
    assert!(served.ask("JOB.SUBMIT t a DATA 0123456789").1.contains("pending"));
    assert!(served.ask("JOB.SUBMIT once a").1.contains("pending"));
    assert!(served.ask("REC.GET mine:state.tasks.t.a").1.contains("params_ref"));
    let claimed = served.ask("JOB.CLAIM t WORKER w LEASE 1").1;
    assert!(claimed.contains("0123456789"), "{claimed}");
    served.ask("JOB.CLAIM once WORKER w LEASE 1");
    // Another worker gets the job after the sweeper has ended the first claim.
    let again = served.ask("JOB.CLAIM t WORKER w2 WAIT 60000").1;
    assert!(again.contains("0123456789"), "{again}");
    while !served.ask("JOB.COUNT once STATE failed").1.starts_with(":1") {}
    let mut namespaces = std::fs::read_dir(program.path("objects")).unwrap();
    assert!(namespaces.next().unwrap().unwrap().path().join("t/a/params").is_dir());
}

#[test]
fn a_lock_has_one_holder() {
    let program = Program::new();
    let lock = |words: &[&str]| program.data(&[&["lock"], words].concat());
    lock(&["take", "nightly", "--owner", "one"]).ok();
    lock(&["show", "none"]).not_held();
    let taken = lock(&["take", "nightly", "--owner", "one", "--lease", "1h", "-o", "raw"]).ok();
    let token = taken.trim();
    lock(&["take", "nightly", "-o", "raw", "--owner", "two"]).not_held();
    let shown = lock(&["show", "nightly"]).objects().remove(0);
    assert_eq!(field(&shown, "owner"), &Value::from("one"));
    lock(&["renew", "nightly", token, "-l", "2h"]).ok();
    lock(&["renew", "nightly", "1"]).not_held();
    assert_eq!(lock(&["free", "nightly", token]).ok(), "{\"name\":\"nightly\",\"freed\":true}\n");
    lock(&["free", "nightly", token]).not_held();
}
