//! `mainstay repl`, driven through a pipe.

use crate::program::{Done, Program};

fn repl(program: &Program, lines: &str) -> Done {
    program.data_fed(&["repl"], lines)
}

#[test]
fn nouns_and_commands_stand_side_by_side_in_any_case() {
    let program = Program::new();
    let out = repl(&program, "cell set a 1\nCell Get a\nCELL.SET a 2\ncell.get a\nGET a\n");
    assert_eq!(out.code, 2, "a verb has one spelling");
    let out = repl(&program, "Cell get a\ncell.get a\nget a\n").ok();
    assert_eq!(out, "{\"name\":\"a\",\"value\":\"2\"}\n{\"value\":\"2\"}\n\"2\"\n");
}

#[test]
fn quotes_are_those_of_redis_cli_and_go_over_lines() {
    let program = Program::new();
    let lines = "SET a \"x y\\t\\x41\"\nSET b 'it\\'s \\n'\nSET c \"two\nlines\"\n";
    repl(&program, lines).ok();
    let get = |name| program.data(&["cell", "get", name, "-o", "raw"]).ok();
    assert_eq!((get("a"), get("b")), ("x y\tA".to_owned(), "it's \\n".to_owned()));
    assert_eq!(get("c"), "two\nlines");
}

#[test]
fn a_wrong_line_is_said_and_the_next_goes_on() {
    let program = Program::new();
    let done = repl(&program, "NOPE\n\"a\"b\ncell gte a\nCELL.SET a\nCELL.SET a 1\n");
    assert_eq!((done.code, done.out.as_str()), (2, "{\"counter\":1}\n"));
    for word in ["unknown command 'NOPE'", "closing quote", "gte", "arguments for 'cell.set'"] {
        assert!(done.err.contains(word), "{word}: {}", done.err);
    }
}

#[test]
fn the_exit_code_is_that_of_the_worst_line() {
    let program = Program::new();
    assert_eq!(repl(&program, "PING\n").code, 0);
    assert_eq!(repl(&program, "cell get a\nPING\n").code, 1);
    assert_eq!(repl(&program, "NOPE\ncell get a\n").code, 2);
}

#[test]
fn comments_empty_lines_and_an_open_end_are_fine() {
    let program = Program::new();
    let out = repl(&program, "# it's a comment\n\n   \nPING").ok();
    assert_eq!(out, "\"PONG\"\n");
    let done = repl(&program, "PING\nSET a \"open");
    assert_eq!(done.code, 2);
    assert!(done.err.contains("not closed"), "{}", done.err);
}

#[test]
fn exit_leaves_what_follows_unread() {
    let program = Program::new();
    for word in ["exit", "quit", "EXIT"] {
        assert_eq!(repl(&program, &format!("PING\n{word}\nPING\n")).ok(), "\"PONG\"\n");
    }
}

#[test]
fn help_explains_all_a_command_and_a_verb() {
    let program = Program::new();
    let all = repl(&program, "help\n").ok();
    assert!(all.contains("CELL.CAS") && all.contains("branch"), "{all}");
    let command = repl(&program, "help CELL.CAS\nhelp cell.cas\n").ok();
    assert_eq!(command.matches("CELL.CAS name NIL|counter value [JSON]").count(), 2);
    let verb = repl(&program, "help cell set\n").ok();
    assert!(verb.contains("cell set [OPTIONS] <NAME> <VALUE>"), "{verb}");
    let said = repl(&program, "help NOPE\n").not_held();
    assert!(said.contains("there is no NOPE"), "{said}");
}

#[test]
fn a_branch_stays_in_use_until_another_is() {
    let program = Program::new();
    let lines = "cell set a main\nbranch fork draft\nbranch use draft\ncell set a draft\n\
        cell get a --branch main\ncell get a\nBRANCH.USE main\nCELL.GET a\n";
    let out = repl(&program, lines).ok();
    let values: Vec<&str> = out.lines().filter(|line| line.contains("value")).collect();
    let expected = [
        r#"{"name":"a","value":"main"}"#,
        r#"{"name":"a","value":"draft"}"#,
        r#"{"value":"main"}"#,
    ];
    assert_eq!(values, expected);
}

#[test]
fn a_transaction_sees_its_own_writes_and_rolls_back() {
    let program = Program::new();
    let lines = "TXN.BEGIN\ncell set a 1\nCELL.GET a\ncell list\nTXN.ROLLBACK\nCELL.GET a\n";
    let out = repl(&program, lines).ok();
    let seen: Vec<&str> = out.lines().collect();
    assert_eq!(seen[2..], [r#"{"value":"1"}"#, r#"{"name":"a"}"#, "\"OK\"", "null"]);
    let done = repl(&program, "TXN.COMMIT\nTXN.BEGIN\nTXN.BEGIN\nBRANCH.FORK x\nBRANCH.USE x\n");
    assert_eq!(done.err.lines().filter(|line| line.contains("ERR ")).count(), 4, "{}", done.err);
}

#[test]
fn multi_keeps_commands_and_refuses_nouns() {
    let program = Program::new();
    let lines = "MULTI\ncell get a\nCELL.SET a 1\nEXEC x\ncell get a\nDISCARD\n\
        MULTI\nCELL.SET a 2\nCELL.GET a\nEXEC\ncell get a\n";
    let done = repl(&program, lines);
    let seen: Vec<&str> = done.out.lines().collect();
    let kept = ["\"OK\"", "\"QUEUED\"", "\"OK\"", "\"OK\"", "\"QUEUED\"", "\"QUEUED\""];
    assert_eq!(seen[..6], kept);
    assert_eq!(seen[6..], ["[1,\"2\"]", r#"{"name":"a","value":"2"}"#]);
    let refused = |line: &&str| line.contains("cell is not for inside MULTI");
    assert_eq!(done.err.lines().filter(refused).count(), 2, "{}", done.err);
    assert!(done.err.contains("EXEC or DISCARD first"), "{}", done.err);
}

#[test]
fn what_would_never_be_shown_is_refused() {
    let said = repl(&Program::new(), "FEED.WATCH\nfeed.watch AFTER 0\n").error();
    assert_eq!(said.matches("`feed --follow` shows them").count(), 2, "{said}");
}

#[test]
fn tables_are_shown_for_commands_too_and_the_rest_as_in_redis_cli() {
    let program = Program::new();
    let lines = "SET a x\nCELL.LIST\nGET a\nGET b\nEXISTS a b\n";
    let out = program.data_fed(&["repl", "-o", "table"], lines).ok();
    let table = "┌──────┐\n│ name │\n╞══════╡\n│ a    │\n└──────┘\n";
    assert_eq!(out, format!("OK\n{table}\"x\"\n(nil)\n(integer) 1\n"));
}

#[test]
fn a_dash_is_a_dash_and_txn_wants_a_file_where_lines_are_read() {
    let program = Program::new();
    repl(&program, "cell set a -\nPING\n").ok();
    assert_eq!(program.data(&["cell", "get", "a", "-o", "raw"]).ok(), "-");
    let said = repl(&program, "txn\n").error();
    assert!(said.contains("TXN.BEGIN"), "{said}");
}

#[test]
fn no_history_is_kept_of_a_pipe() {
    let program = Program::new();
    repl(&program, "PING\n").ok();
    assert!(!program.path(".local").exists());
}
