//! `mainstay feed`.

use crate::program::{Program, field};
use mainstay::{Options, Value};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

fn written() -> Program {
    let program = Program::new();
    program.data(&["cell", "set", "a/1", "x"]).ok();
    program.data(&["cell", "set", "b/1", "x"]).ok();
    program.data(&["branch", "fork", "draft"]).ok();
    program.data(&["cell", "set", "a/2", "x", "-b", "draft"]).ok();
    program.data(&["cell", "delete", "a/1"]).ok();
    program
}

fn keys(program: &Program, flags: &[&str]) -> Vec<String> {
    let events = program.data(&[&["feed"], flags].concat()).objects();
    let key = |event| format!("{} {}", field(event, "kind"), field(event, "key")).replace('"', "");
    events.iter().map(key).collect()
}

#[test]
fn every_change_comes_once_in_order() {
    let program = written();
    let all = keys(&program, &[]);
    assert_eq!(all, ["set a/1", "set b/1", "forked draft", "set a/2", "deleted a/1"]);
}

#[test]
fn changes_are_chosen_by_revision_prefix_and_branch() {
    let program = written();
    assert_eq!(keys(&program, &["--after", "3"]), ["set a/2", "deleted a/1"]);
    assert_eq!(keys(&program, &["--prefix", "a/"]), ["set a/1", "set a/2", "deleted a/1"]);
    let draft = keys(&program, &["--prefix", "a/", "--branch", "draft"]);
    assert_eq!(draft, ["set a/2"]);
    assert_eq!(keys(&program, &["--after", "5"]), [""; 0]);
}

#[test]
fn a_transaction_larger_than_a_page_is_not_cut() {
    let program = Program::new();
    let lines: String = (0..1500).map(|n| format!("CELL.SET k{n} x\n")).collect();
    program.data_fed(&["txn"], &lines).ok();
    program.data(&["cell", "set", "last", "x"]).ok();
    let seen = program.data(&["feed", "-o", "raw"]).ok();
    assert_eq!(seen.lines().count(), 1501);
    assert!(seen.trim_end().ends_with("last\tset"));
}

#[test]
fn whoever_fell_behind_is_told_where_to_go_on() {
    let program = Program::new();
    let options = Options::new().segment_bytes(4096).feed_retention(Duration::ZERO, 0);
    let db = options.open(program.path("d")).unwrap();
    for n in 0..200 {
        db.cells().set("k", format!("{n:0>100}")).unwrap();
    }
    db.trim().unwrap();
    let first = db.stats().log_first;
    assert!(first > 2, "nothing was trimmed");
    db.close().unwrap();
    let said = program.data(&["feed", "--after", "1"]).error();
    let after = (first - 1).to_string();
    assert!(said.contains(&format!("go on with --after {after}\n")), "{said}");
    let kept = program.data(&["feed", "--after", &after]).objects();
    assert_eq!(field(&kept[0], "revision"), &Value::Int(first as i64));
    assert_eq!(program.data(&["feed"]).objects(), kept, "everything that is kept");
}

#[test]
fn following_shows_what_there_is_and_waits() {
    let program = written();
    let mut command = program.command(&["--data", "d", "feed", "--follow", "-o", "raw"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen: Vec<String> = lines.take(5).map(|line| line.unwrap()).collect();
    assert!(seen[4].ends_with("a/1\tdeleted"), "{seen:?}");
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
}
