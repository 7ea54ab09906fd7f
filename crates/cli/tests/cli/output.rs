//! Output formats.

use crate::program::Program;

fn written() -> Program {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["cell", "set", "b", "2"]).ok();
    program
}

#[test]
fn a_pipe_gets_json_one_object_a_line() {
    assert_eq!(written().data(&["cell", "list"]).ok(), "{\"name\":\"a\"}\n{\"name\":\"b\"}\n");
}

#[test]
fn a_table_has_a_heading_and_a_row_each_and_no_colours_in_a_pipe() {
    let table = written().data(&["cell", "list", "-o", "table"]).ok();
    assert_eq!(table, "┌──────┐\n│ name │\n╞══════╡\n│ a    │\n│ b    │\n└──────┘\n");
}

#[test]
fn an_empty_table_says_so() {
    assert_eq!(written().data(&["cell", "list", "x", "-o", "table"]).ok(), "(none)\n");
}

#[test]
fn tables_show_times_where_json_has_microseconds() {
    let program = written();
    let table = program.data(&["cell", "getv", "a", "-o", "table"]).ok();
    let heading = table.lines().nth(1).unwrap();
    let columns: Vec<&str> = heading.split(['│', '┆']).map(str::trim).collect();
    assert_eq!(columns, ["", "name", "value", "counter", "stamp", "revision", ""]);
    assert!(table.contains("Z ┆ 1"), "{table}");
}

#[test]
fn raw_is_a_line_with_tabs_between_and_a_value_alone_to_the_byte() {
    let program = written();
    let raw = |words: &[&str]| program.data(&[words, &["-o", "raw"]].concat()).ok();
    assert_eq!(raw(&["cell", "get", "a"]), "1");
    assert_eq!(raw(&["cell", "set", "a", "x"]), "2\n");
    let version = raw(&["cell", "getv", "a"]);
    let fields: Vec<&str> = version.split('\t').collect();
    assert_eq!((fields.len(), fields[0], fields[1], fields[3]), (4, "x", "2", "3\n"), "{version}");
    assert!(fields[2].parse::<u64>().unwrap() > 0, "{version}");
    assert_eq!(raw(&["cell", "incr", "n", "5"]), "5\n");
    assert_eq!(raw(&["cell", "delete", "n"]), "true\n");
    assert_eq!(raw(&["branch", "fork", "draft"]), "5\n");
    let feed = raw(&["feed", "--after", "5"]);
    assert_eq!(feed.trim_end().split('\t').count(), 6, "{feed}");
    assert!(feed.ends_with("forked\n") && !feed.ends_with("\n\n"), "{feed:?}");
}

#[test]
fn a_value_cannot_steer_the_terminal() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "\x1b[2J"]).ok();
    let table = program.data(&["cell", "get", "a", "-o", "table"]).ok();
    assert!(!table.contains('\x1b') && table.contains("[2J"), "{table}");
}

#[test]
fn nobody_who_reads_on_is_no_error() {
    let program = Program::new();
    let lines: String = (0..5000).map(|n| format!("CELL.SET a-rather-long-name-{n} x\n")).collect();
    program.data_fed(&["txn"], &lines).ok();
    let mut command = program.command(&["--data", "d", "cell", "list"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
