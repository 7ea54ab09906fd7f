//! `mainstay run archive`, `archived` and `restore`, and the background archive and relay of a server.

use crate::process::Process;
use crate::program::{Done, Program, field};
use crate::served::Served;
use mainstay::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// The interval and the limit of polls for background work.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: usize = 3_000;

fn run(program: &Program, words: &[&str]) -> Done {
    program.data(&[&["run"], words].concat())
}

fn append(program: &Program, run_id: &str, kind: &str) {
    let words = ["append", run_id, kind, r#"{"n":[1,2.5]}"#, "--plan", "1"];
    run(program, &words).ok();
}

/// A program with two completed runs and an open one.
fn told() -> Program {
    let program = Program::new();
    let metadata = r#"{"who":"me"}"#;
    run(&program, &["bootstrap", "a/1", metadata]).ok();
    for run_id in ["a/1", "b/1"] {
        append(&program, run_id, "RunStarted");
        append(&program, run_id, "RunCompleted");
    }
    append(&program, "open", "RunStarted");
    program
}

fn names(objects: &[Value]) -> Vec<&Value> {
    objects.iter().map(|object| field(object, "run")).collect()
}

/// Polls until a value is available.
#[track_caller]
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = look() {
            return found;
        }
        sleep(PAUSE);
    }
    panic!("it never came");
}

#[test]
fn a_run_goes_to_the_archive_and_comes_back_as_it_was() {
    let program = told();
    let events = run(&program, &["fetch", "a/1"]).ok();
    let info = run(&program, &["info", "a/1"]).objects().remove(0);
    let snapshot = run(&program, &["snapshot", "a/1"]).ok();
    let done = run(&program, &["archive", "--older", "0", "--archive", "old"]).objects();
    assert_eq!(names(&done), [&Value::from("a/1"), &Value::from("b/1")]);
    assert_eq!(field(&done[0], "events"), &Value::Int(2));
    let Value::String(file) = field(&done[0], "file") else { panic!("{done:?}") };
    assert!(program.path("old").join(file).is_file(), "{file}");
    assert_eq!(run(&program, &["list", "-o", "raw"]).ok(), "open\n");

    let listed = program.run(&["run", "archived", "--archive", "old"]).objects();
    assert_eq!(names(&listed), names(&done));
    assert_eq!(field(&listed[0], "file"), field(&done[0], "file"));

    let back = ["restore", "a/1", "--archive", "old"];
    assert_eq!(field(&run(&program, &back).objects()[0], "written"), &Value::Int(2));
    assert_eq!(field(&run(&program, &back).objects()[0], "written"), &Value::Int(0), "again");
    assert_eq!(run(&program, &["fetch", "a/1"]).ok(), events);
    assert_eq!(run(&program, &["snapshot", "a/1"]).ok(), snapshot);
    let now = run(&program, &["info", "a/1"]).objects().remove(0);
    assert_eq!(field(&now, "metadata"), field(&info, "metadata"));
    assert_eq!(run(&program, &["list", "-o", "raw"]).ok(), "a/1\nopen\n");
}

#[test]
fn what_is_young_open_or_elsewhere_stays_unless_it_is_asked_for() {
    let program = told();
    let archive = |words: &[&str]| run(&program, &[&["archive"], words].concat());
    assert_eq!(archive(&["--archive", "old"]).ok(), "", "nothing is thirty days old");
    let due = archive(&["--older", "0", "--all-states", "--dry-run", "--archive", "no"]).objects();
    assert_eq!(due.len(), 3);
    assert_eq!(field(&due[2], "status"), &Value::from("RUNNING"));
    assert!(!program.path("no").exists(), "looking makes nothing");
    assert_eq!(run(&program, &["list", "-o", "raw"]).ok(), "a/1\nb/1\nopen\n");
    let done = archive(&["--older", "0", "--prefix", "b/", "--archive", "old"]).objects();
    assert_eq!(names(&done), [&Value::from("b/1")]);
    let done = archive(&["--older", "0", "--all-states", "--archive", "old"]).objects();
    assert_eq!(names(&done), [&Value::from("a/1"), &Value::from("open")]);
    run(&program, &["restore", "none", "--archive", "old"]).not_held();
    assert!(
        run(&program, &["restore", "a/1", "--archive", "no"]).error().contains("no archive at no")
    );
    assert!(run(&program, &["archived", "--archive", "no"]).error().contains("no archive at no"));
    if cfg!(not(feature = "s3")) {
        assert!(archive(&["--archive", "s3://bucket"]).error().contains("--features s3"));
    }
}

#[test]
fn runs_of_a_server_are_archived_and_restored_over_the_wire() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    let server = format!("127.0.0.1:{}", served.port);
    let run = |words: &[&str]| program.run(&[&["--server", &server, "run"], words].concat());
    for kind in ["RunStarted", "RunFailed"] {
        run(&["append", "r", kind, "--plan", "1"]).ok();
    }
    let events = run(&["fetch", "r"]).ok();
    assert_eq!(run(&["archive", "--older", "0"]).objects().len(), 1);
    assert_eq!(run(&["fetch", "r"]).ok(), "");
    assert_eq!(run(&["archived"]).objects().len(), 1);
    run(&["restore", "r"]).ok();
    assert_eq!(run(&["fetch", "r"]).ok(), events);
}

/// Starts a server with these settings.
fn serve(data: &Path, settings: &[(&str, &str)]) -> Process {
    let flags: Vec<OsString> = settings
        .iter()
        .flat_map(|(key, value)| ["--set".into(), format!("{key}={value}").into()])
        .collect();
    let flags: Vec<_> = flags.iter().map(OsString::as_os_str).collect();
    Process::serve_with(data, &flags, Stdio::null())
}

#[test]
fn a_server_sends_its_outbox_to_a_file_in_order_and_ends_in_good_order() {
    let program = Program::new();
    let file = program.path("sent.jsonl");
    let settings = [("outbox.file", file.to_str().unwrap()), ("outbox.batch", "3")];
    let server = serve(&program.path("d"), &settings);
    let mut client = server.client();
    for n in 0..20 {
        client.line(&format!("OUTBOX.PUT orders {n} RUN r"));
    }
    let lines = wait_for(|| {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Some(text).filter(|text| text.lines().count() >= 20)
    });
    let sent: Vec<Value> = lines
        .lines()
        .map(|line| field(&Value::from_json(line).unwrap(), "payload").clone())
        .collect();
    assert_eq!(sent, (0..20).map(|n: u32| Value::from(n.to_string())).collect::<Vec<_>>());
    // Messages are also acknowledged while the server is being stopped.
    client.line("OUTBOX.PUT orders last RUN r");
    server.terminate();
    assert!(server.ended().success());
    let state = program.data(&["outbox", "state"]).objects().remove(0);
    let left = if std::fs::read_to_string(&file).unwrap().contains("last") { 0 } else { 1 };
    assert_eq!(field(&state, "pending"), &Value::Int(left));
}

#[test]
fn a_server_archives_what_is_due_and_ends_in_good_order() {
    let program = Program::new();
    let directory = program.path("old");
    let settings = [
        ("archive.directory", directory.to_str().unwrap()),
        ("archive.older_than_ms", "1"),
        ("archive.interval_ms", "20"),
    ];
    let server = serve(&program.path("d"), &settings);
    let mut client = server.client();
    for line in ["open RunStarted", "r RunStarted", "r RunCompleted"] {
        client.line(&format!("RUN.APPEND {line} {{}} PLAN 1"));
    }
    let archived = wait_for(|| {
        let found = program.run(&["run", "archived", "--archive", "old"]).objects();
        let gone = client.line("RUN.INFO r").starts_with("$-1");
        Some(found).filter(|found| !found.is_empty() && gone)
    });
    assert_eq!(names(&archived), [&Value::from("r")]);
    assert_eq!(field(&archived[0], "events"), &Value::Int(2));
    assert!(client.line("RUN.INFO open").contains("RUNNING"));
    server.terminate();
    assert!(server.ended().success());
    run(&program, &["restore", "r", "--archive", "old"]).ok();
    assert_eq!(run(&program, &["fetch", "r"]).objects().len(), 2);
}

#[test]
fn what_a_server_does_by_itself_stands_in_its_metrics() {
    let program = Program::new();
    let variables = [
        ("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0"),
        ("MAINSTAY_OUTBOX__FILE", "sent.jsonl"),
        ("MAINSTAY_ARCHIVE__DIRECTORY", "old"),
        ("MAINSTAY_ARCHIVE__OLDER_THAN_MS", "0"),
        ("MAINSTAY_ARCHIVE__INTERVAL_MS", "20"),
    ];
    let served = Served::start(&program, &variables);
    served.ask("OUTBOX.PUT orders 1");
    served.ask("RUN.APPEND r RunStarted {} PLAN 1");
    served.ask("RUN.APPEND r RunCompleted {} PLAN 1");
    let url = format!("http://127.0.0.1:{}/metrics", served.http_port);
    wait_for(|| {
        let page = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        let has = |line: &str| page.lines().any(|found| found == line);
        let all = has("mainstay_relay_messages_total{kind=\"delivered\"} 1")
            && has("mainstay_archive_runs_total{became=\"archived\"} 1")
            && has("mainstay_archive_events_total 2");
        all.then_some(())
    });
}

#[test]
fn a_server_whose_file_or_branch_makes_no_sense_does_not_start() {
    let program = Program::new();
    let serve = |setting: &str| program.run(&["serve", "--set", setting]).error();
    assert!(serve("outbox.file=none/of/these").contains("none/of/these"));
    assert!(serve("archive.branch=\"\"").contains("archive.branch"));
    assert!(serve("outbox.batch=0").contains("outbox.batch"));
}
