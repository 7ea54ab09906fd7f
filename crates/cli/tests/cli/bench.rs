//! `mainstay bench`: it counts exactly the commands that succeeded.

use crate::program::{Program, field};
use crate::served::Served;
use mainstay::Value;

fn number(row: &Value, name: &str) -> i64 {
    match field(row, name) {
        Value::Int(n) => *n,
        other => panic!("{name} is {other}"),
    }
}

/// Checks a row for this command and this number of requests.
#[track_caller]
fn check(row: &Value, command: &str, requests: i64) {
    assert_eq!(field(row, "command"), &Value::from(command));
    assert_eq!(number(row, "requests"), requests);
    assert!(number(row, "per_second") > 0, "{row}");
    let times = ["p50_micros", "p99_micros", "p999_micros", "max_micros"].map(|n| number(row, n));
    assert!(times.is_sorted(), "{row}");
}

/// The sum of all counters.
fn counted(program: &Program, place: &[&str], keys: u64) -> i64 {
    let count = |key| {
        let name = format!("bench:counter:{key}");
        let value = program.run(&[place, &["cell", "get", &name, "-o", "raw"]].concat()).ok();
        value.parse::<i64>().unwrap()
    };
    (0..keys).map(count).sum()
}

#[test]
fn every_command_on_a_directory_is_done_and_counted_once() {
    let program = Program::new();
    let words = ["bench", "-n", "300", "-c", "4", "--keys", "10", "--durability", "memory"];
    let rows = program.data(&words).objects();
    assert_eq!(rows.len(), 3);
    for (row, command) in rows.iter().zip(["SET", "GET", "INCR"]) {
        check(row, command, 300);
    }
    assert_eq!(counted(&program, &["--data", "d"], 10), 300);
    let said = program.data(&["bench", "-P", "2"]).error();
    assert!(said.contains("--pipeline is for a server"), "{said}");
}

#[test]
fn every_command_to_a_server_is_done_and_counted_once() {
    let program = Program::new();
    let served = Served::start(&program, &[("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0")]);
    let address = format!("127.0.0.1:{}", served.port);
    let place = ["--server", address.as_str()];
    // 101 is not a multiple of the pipeline length, and fewer than one batch per connection.
    let words = ["bench", "incr", "-n", "101", "-c", "8", "-P", "16", "--keys", "3"];
    let rows = program.run(&[&place[..], &words].concat()).objects();
    check(&rows[0], "INCR", 101);
    assert_eq!(counted(&program, &place, 3), 101);
    let words = ["bench", "get", "--seconds", "1", "-c", "2", "--keys", "5", "--size", "7"];
    let rows = program.run(&[&place[..], &words].concat()).objects();
    assert!(number(&rows[0], "requests") > 0 && number(&rows[0], "elapsed_ms") >= 1000);
    let value = program.run(&[&place[..], &["cell", "get", "bench:4", "-o", "raw"]].concat()).ok();
    assert_eq!(value, "xxxxxxx", "what is read was written before");
}

#[test]
fn what_is_refused_is_a_failure_and_no_figure() {
    let program = Program::new();
    program.data(&["cell", "set", "bench:counter:0", "text"]).ok();
    let said = program.data(&["bench", "incr", "-n", "10", "-c", "2", "--keys", "1"]).error();
    assert!(said.contains("not an integer"), "{said}");
}
