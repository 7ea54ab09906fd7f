//! `mainstay cell`.

use crate::program::{Program, field};

#[test]
fn a_value_is_written_and_read() {
    let program = Program::new();
    assert_eq!(
        program.data(&["cell", "set", "a", "hello"]).ok(),
        "{\"name\":\"a\",\"counter\":1}\n"
    );
    assert_eq!(program.data(&["cell", "set", "a", "you"]).ok(), "{\"name\":\"a\",\"counter\":2}\n");
    assert_eq!(program.data(&["cell", "get", "a"]).ok(), "{\"name\":\"a\",\"value\":\"you\"}\n");
}

#[test]
fn what_is_not_there_is_said_and_ends_with_one() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    for words in [
        &["cell", "get", "b"][..],
        &["cell", "getv", "b"],
        &["cell", "get", "a", "--rev", "0"],
        &["cell", "get", "a", "--at", "1h ago"],
        &["cell", "delete", "b"],
        &["cell", "delete", "a", "--if", "7"],
        &["cell", "history", "b"],
        &["cell", "get", "a", "--branch", "none"],
        &["cell", "set", "a", "2", "--branch", "none"],
    ] {
        let said = program.data(words).not_held();
        assert!(said.starts_with("mainstay: "), "{words:?}: {said}");
    }
}

#[test]
fn getv_tells_counter_stamp_and_revision() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["cell", "set", "a", "2"]).ok();
    let cell = &program.data(&["cell", "getv", "a"]).objects()[0];
    assert_eq!(field(cell, "value"), &"2".into());
    assert_eq!(field(cell, "counter"), &2.into());
    assert_eq!(field(cell, "revision"), &2.into());
    assert!(field(cell, "stamp_us").as_i64().unwrap() > 0);
}

#[test]
fn json_is_stored_and_shown_with_its_type_and_text_stays_text() {
    let program = Program::new();
    program.data(&["cell", "set", "typed", r#"{"a":[1,null]}"#, "--json"]).ok();
    program.data(&["cell", "set", "text", "1"]).ok();
    let get = |name, flags: &[&str]| {
        program.data(&[&["cell", "get", name], flags].concat()).ok().trim_end().to_owned()
    };
    assert_eq!(get("typed", &["--json"]), r#"{"name":"typed","value":{"a":[1,null]}}"#);
    assert_eq!(get("typed", &["-o", "raw"]), r#"{"a":[1,null]}"#);
    assert_eq!(get("text", &[]), r#"{"name":"text","value":"1"}"#);
    let said = program.data(&["cell", "set", "typed", "{", "--json"]).error();
    assert!(said.contains("not JSON"), "{said}");
}

#[test]
fn bytes_go_in_by_the_standard_input_and_come_out_to_the_byte() {
    let program = Program::new();
    let bytes = b"\x00\xff\n\r\n";
    program.fed(&["--data", "d", "cell", "set", "a", "-"], bytes).ok();
    let output =
        program.command(&["--data", "d", "cell", "get", "a", "-o", "raw"]).output().unwrap();
    assert_eq!(output.stdout, bytes);
    let shown = program.data(&["cell", "get", "a"]).ok();
    assert_eq!(shown, "{\"name\":\"a\",\"value\":{\"$bytes\":\"AP8KDQo=\"}}\n");
}

#[test]
fn numbers_below_zero_are_values_not_flags() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "-5", "--json"]).ok();
    let sum = program.data(&["cell", "incr", "a", "-2"]).ok();
    assert_eq!(sum, "{\"name\":\"a\",\"value\":-7,\"counter\":2}\n");
    program.data(&["cell", "cas", "a", "2", "-1.5", "--json"]).ok();
    let sum = program.data(&["cell", "incr", "a"]).ok();
    assert_eq!(sum, "{\"name\":\"a\",\"value\":-0.5,\"counter\":4}\n");
}

#[test]
fn incr_of_a_text_is_an_error() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "x"]).ok();
    let said = program.data(&["cell", "incr", "a"]).error();
    assert!(said.contains("INVALID") && said.contains("not a number"), "{said}");
    assert!(said.contains("`cell set a NUMBER --json`") && said.contains("INCR"), "{said}");
    let said = program.data(&["cell", "incr", "b", "much"]).error();
    assert!(said.contains("much"), "{said}");
}

#[test]
fn cas_writes_only_on_its_counter() {
    let program = Program::new();
    program.data(&["cell", "cas", "a", "nil", "first"]).ok();
    let said = program.data(&["cell", "cas", "a", "NIL", "again"]).not_held();
    assert!(said.contains("there already"), "{said}");
    program.data(&["cell", "cas", "a", "1", "second"]).ok();
    let said = program.data(&["cell", "cas", "a", "1", "late"]).not_held();
    assert!(said.contains("the counter of a is not 1"), "{said}");
    assert_eq!(program.data(&["cell", "get", "a", "-o", "raw"]).ok(), "second");
}

#[test]
fn deletion_says_that_it_happened_and_the_counter_goes_on() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    let gone = program.data(&["cell", "delete", "a", "--if", "1"]).ok();
    assert_eq!(gone, "{\"name\":\"a\",\"deleted\":true}\n");
    assert_eq!(program.data(&["cell", "set", "a", "1"]).ok(), "{\"name\":\"a\",\"counter\":3}\n");
}

#[test]
fn a_time_to_live_of_a_millisecond_ends() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1", "--ttl", "1ms"]).ok();
    program.data(&["cell", "set", "b", "1", "--ttl", "1h"]).ok();
    // The next process starts after the TTL.
    program.data(&["cell", "get", "a"]).not_held();
    program.data(&["cell", "get", "b"]).ok();
}

#[test]
fn history_is_newest_first_with_deletions() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["cell", "delete", "a"]).ok();
    program.data(&["cell", "set", "a", "[2]", "--json"]).ok();
    let versions = program.data(&["cell", "history", "a", "--json"]).objects();
    let counters: Vec<_> = versions.iter().map(|v| field(v, "counter").as_i64()).collect();
    assert_eq!(counters, [Some(3), Some(2), Some(1)]);
    assert_eq!(field(&versions[0], "value"), &mainstay::Value::Array(vec![2.into()]));
    assert_eq!(field(&versions[1], "value"), &mainstay::Value::Null);
    let older = program.data(&["cell", "history", "a", "--before", "3", "--limit", "1"]).objects();
    assert_eq!(older.len(), 1);
    assert_eq!(field(&older[0], "counter"), &2.into());
}

#[test]
fn the_past_is_read_by_revision_and_by_time() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "old"]).ok();
    let cell = &program.data(&["cell", "getv", "a"]).objects()[0];
    let stamp = field(cell, "stamp_us").as_i64().unwrap().to_string();
    program.data(&["cell", "set", "a", "new"]).ok();
    for flags in [["--rev", "1"], ["--at", &stamp]] {
        let words = [&["cell", "get", "a", "-o", "raw"][..], &flags].concat();
        assert_eq!(program.data(&words).ok(), "old", "{flags:?}");
    }
    let said = program.data(&["cell", "get", "a", "--rev", "99"]).error();
    assert!(said.contains("the newest is 2"), "{said}");
}

#[test]
fn a_list_goes_over_pages_in_byte_order() {
    let program = Program::new();
    let lines: String = (0..2500).map(|n| format!("CELL.SET k/{n:04} x\n")).collect();
    program.data_fed(&["txn"], &lines).ok();
    program.data(&["cell", "set", "other", "x"]).ok();
    let all = program.data(&["cell", "list", "k/", "-o", "raw"]).ok();
    let expected: String = (0..2500).map(|n| format!("k/{n:04}\n")).collect();
    assert_eq!(all, expected);
    let some = program.data(&["cell", "list", "--after", "k/2497", "--limit", "3", "-o", "raw"]);
    assert_eq!(some.ok(), "k/2498\nk/2499\nother\n");
    let many = program.data(&["cell", "list", "--limit", "1001", "-o", "raw"]).ok();
    assert_eq!(many.lines().count(), 1001);
    assert_eq!(program.data(&["cell", "list", "--rev", "0"]).ok(), "");
    assert_eq!(program.data(&["cell", "list", "none"]).ok(), "");
}

#[test]
fn bad_names_are_refused() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    let long = "n".repeat(1025);
    for name in ["", "_mainstay/x", &long] {
        let said = program.data(&["cell", "set", name, "1"]).error();
        assert!(said.contains("INVALID"), "{said}");
    }
}

#[test]
fn a_branch_is_chosen_by_a_flag() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "main"]).ok();
    program.data(&["branch", "fork", "draft"]).ok();
    program.data(&["cell", "set", "a", "draft", "--branch", "draft"]).ok();
    assert_eq!(program.data(&["cell", "get", "a", "-o", "raw"]).ok(), "main");
    assert_eq!(program.data(&["cell", "get", "a", "-o", "raw", "-b", "draft"]).ok(), "draft");
    let history = program.data(&["cell", "history", "a", "-b", "draft"]).objects();
    assert_eq!(history.len(), 2);
}
