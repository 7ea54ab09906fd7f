//! `mainstay run` and `mainstay outbox`.

use crate::program::{Done, Program, field};
use crate::served::Served;
use mainstay::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn run(program: &Program, words: &[&str]) -> Done {
    program.data(&[&["run"], words].concat())
}

const STARTED: &str = r#"[{"eventType":"RunStarted","planVersion":"1"}]"#;

/// A program whose run has one failed step and one illegal event.
fn told() -> Program {
    let program = Program::new();
    run(&program, &["bootstrap", "r", r#"{"who":"me"}"#, "--events", STARTED]).ok();
    let step = |kind, step, data| {
        run(&program, &["append", "r", kind, data, "--step", step, "--plan", "1"]).ok();
    };
    step("StepStarted", "pay", "null");
    step("StepFailed", "pay", "{\"error\":\"no \\u001b[31mpaper\"}");
    step("StepCompleted", "never", "done");
    program
}

#[test]
fn events_are_appended_once_and_where_they_are_expected() {
    let program = Program::new();
    let words = ["append", "r", "RunStarted", r#"{"by":"me"}"#, "--plan", "1", "--expect", "0"];
    let first = run(&program, &words).objects().remove(0);
    assert_eq!(
        (field(&first, "seq"), field(&first, "persisted")),
        (&Value::Int(1), &Value::Int(1))
    );
    let again = run(&program, &words).objects().remove(0);
    assert_eq!(field(&again, "idempotent"), &Value::Int(1));
    let moved = run(&program, &["append", "r", "RunPaused", "--plan", "1", "--expect", "0"]);
    assert!(moved.not_held().contains("CONFLICT run `r` is at 1"));
    let words = ["append", "r", "Noted", "-", "--own-key", "k", "--more", r#"{"tenant":"t"}"#];
    program.data_fed(&[&["run"], &words[..]].concat(), "from the input").ok();
    let fetched = run(&program, &["fetch", "r", "--after", "1"]).objects().remove(0);
    assert_eq!(field(&fetched, "eventData"), &Value::from("from the input"));
    assert_eq!(field(&fetched, "tenant"), &Value::from("t"));
    assert_eq!(field(&fetched, "idempotencyKey"), &Value::from("k"));
    let batch = program.data_fed(&["run", "batch", "r"], STARTED).objects().remove(0);
    assert_eq!((field(&batch, "seq"), field(&batch, "conflict")), (&Value::Int(1), &Value::Int(1)));
    let key = run(&program, &["key", "r", "RunStarted", "--plan", "1", "-o", "raw"]).ok();
    let fetched = run(&program, &["fetch", "r", "--limit", "1"]).objects().remove(0);
    assert_eq!(field(&fetched, "idempotencyKey"), &Value::from(key.trim()));
}

#[test]
fn a_timeline_shows_what_happened_when_and_what_it_came_to() {
    let program = told();
    for verb in ["timeline", "show"] {
        let shown = run(&program, &[verb, "r", "-o", "table"]).ok();
        assert!(!shown.contains('\x1b'), "{shown}");
        let line = |what: &str| shown.lines().find(|line| line.contains(what)).unwrap().to_owned();
        assert!(line("RunStarted").contains("+0.000s"), "{shown}");
        assert!(
            line("StepFailed").contains("pay") && line("StepFailed").contains("paper"),
            "{shown}"
        );
        assert!(line("StepCompleted").contains("! event 4"), "{shown}");
        assert!(!line("StepFailed").contains('!'), "{shown}");
        assert!(shown.contains("1 FAILED 2-3"), "{shown}");
        assert!(
            line("r is ").starts_with("r is RUNNING at event 4, INCONSISTENT; hash "),
            "{shown}"
        );
    }
    let objects = run(&program, &["show", "r"]).objects();
    assert_eq!(objects.len(), 5, "the events and what they came to");
    assert!(field(&objects[3], "illegal").to_json().contains("never"));
    let snapshot = field(&objects[4], "snapshot");
    assert_eq!(field(snapshot, "lastEventSeq"), &Value::Int(4));
    let kept = run(&program, &["snapshot", "r"]).objects().remove(0);
    assert_eq!(field(&kept, "hash"), field(snapshot, "hash"));
    assert_eq!(run(&program, &["project", "r"]).objects().remove(0), kept);
    let then = run(&program, &["snapshot", "r", "--seq", "1"]).objects().remove(0);
    assert_eq!(field(&then, "lastEventSeq"), &Value::Int(1));
    let alerts = run(&program, &["alerts", "r"]).objects();
    assert_eq!((alerts.len(), field(&alerts[0], "seq")), (1, &Value::Int(4)));
    let info = run(&program, &["info", "r"]).objects().remove(0);
    assert_eq!(field(&info, "metadata"), &Value::from(r#"{"who":"me"}"#));
}

#[test]
fn runs_are_listed_forked_and_deleted() {
    let program = told();
    run(&program, &["append", "s", "RunFailed", "--plan", "1"]).ok();
    assert_eq!(run(&program, &["list", "-o", "raw"]).ok(), "r\ns\n");
    assert_eq!(run(&program, &["list", "--status", "running", "-o", "raw"]).ok(), "r\n");
    assert_eq!(run(&program, &["list", "s", "-o", "raw"]).ok(), "s\n");
    assert_eq!(run(&program, &["list", "--after", "r", "-o", "raw"]).ok(), "s\n");
    let revision = run(&program, &["revision", "r", "2", "-o", "raw"]).ok();
    let forked = run(&program, &["fork", "r", "2", "again"]).objects().remove(0);
    assert_eq!(field(&forked, "revision"), &Value::Int(revision.trim().parse().unwrap()));
    run(&program, &["fork", "r", "99", "never"]).error();
    let words = ["append", "r", "StepCompleted", "--step", "pay", "--plan", "1", "-b", "again"];
    let appended = run(&program, &words).objects().remove(0);
    assert_eq!(field(&appended, "seq"), &Value::Int(3));
    run(&program, &["delete", "r"]).ok();
    assert_eq!(run(&program, &["list", "-o", "raw"]).ok(), "s\n");
    assert_eq!(run(&program, &["fetch", "r", "-b", "again"]).objects().len(), 3);
}

#[test]
fn what_is_not_there_ends_with_one_and_what_is_wrong_with_two() {
    let program = told();
    for words in [
        &["show", "none"][..],
        &["snapshot", "none"],
        &["snapshot", "r", "--seq", "9", "-o", "table"],
        &["project", "none"],
        &["info", "none"],
        &["revision", "r", "9"],
        &["delete", "none"],
        &["bootstrap", "r"],
    ] {
        run(&program, words).not_held();
    }
    for words in [
        &["append", "r", "StepStarted", "--plan", "1"][..],
        &["append", "r", "RunStarted"],
        &["append", "r", "RunStarted", "--plan", "1", "--emitted", "noon"],
        &["batch", "r", "{}"],
        &["key", "r|s", "T", "--plan", "1"],
        &["list", "--status", "done"],
        &["fetch", ""],
    ] {
        run(&program, words).error();
    }
    assert_eq!(run(&program, &["fetch", "none"]).ok(), "", "no events are no failure");
}

#[test]
fn a_tail_shows_events_as_they_come() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    let server = format!("127.0.0.1:{}", served.port);
    for format in ["table", "json", "raw"] {
        let words = ["--server", &server, "run", "tail", format, "--limit", "2", "-o", format];
        let mut child = program.command(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for kind in ["RunStarted", "RunPaused"] {
            served.ask(&format!("RUN.APPEND {format} {kind} 1 PLAN 1"));
            let line = lines.next().unwrap().unwrap();
            assert!(line.contains(kind), "{line}");
        }
        assert!(lines.next().is_none() && child.wait().unwrap().success());
    }
    let words = ["--server", &server, "run", "tail", "json", "--wait", "10", "--after", "2"];
    assert_eq!(program.run(&words).ok(), "", "nothing came");
}

#[test]
fn messages_are_put_claimed_failed_and_replayed() {
    let program = Program::new();
    let outbox = |words: &[&str]| program.data(&[&["outbox"], words].concat());
    assert_eq!(outbox(&["put", "s", "one", "--run", "r"]).ok(), "{\"subject\":\"s\",\"id\":1}\n");
    program.data_fed(&["outbox", "put", "s", "-"], "two").ok();
    let claimed = outbox(&["claim", "9", "--lease", "1h"]).objects();
    assert_eq!((claimed.len(), field(&claimed[1], "payload")), (2, &Value::from("two")));
    outbox(&["claim"]).not_held();
    assert_eq!(outbox(&["ack", "2", "-o", "raw"]).ok(), "1\n");
    outbox(&["ack", "2"]).not_held();
    assert_eq!(outbox(&["fail", "1", "no wire", "-o", "raw"]).ok(), "WAIT\n");
    outbox(&["fail", "9", "no wire"]).not_held();
    outbox(&["replay", "1"]).not_held();
    assert_eq!(outbox(&["dead"]).ok(), "");
    let state = outbox(&["state"]).objects().remove(0);
    assert_eq!((field(&state, "pending"), field(&state, "dead")), (&Value::Int(1), &Value::Int(0)));
    outbox(&["claim", "0"]).error();
}

#[test]
fn a_server_gives_up_after_as_many_tries_as_it_is_told() {
    let program = Program::new();
    let variables = [("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0"), ("MAINSTAY_OUTBOX__TRIES", "1")];
    let served = Served::start(&program, &variables);
    served.ask("OUTBOX.PUT s p");
    served.ask("OUTBOX.CLAIM 1 LEASE 60000");
    assert!(served.ask("OUTBOX.FAIL 1 no").1.contains("DEAD"));
    let server = format!("127.0.0.1:{}", served.port);
    let outbox = |words: &[&str]| program.run(&[&["--server", &server, "outbox"], words].concat());
    let dead = outbox(&["dead"]).objects().remove(0);
    assert_eq!(
        (field(&dead, "tries"), field(&dead, "error")),
        (&Value::Int(1), &Value::from("no"))
    );
    outbox(&["replay", "1"]).ok();
    assert_eq!(outbox(&["dead"]).ok(), "");
}
