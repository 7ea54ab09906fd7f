//! `mainstay txn`.

use crate::program::Program;
use std::fs;

#[test]
fn the_lines_are_one_transaction() {
    let program = Program::new();
    let lines = "# two writes\nCELL.SET a 1\n\nCELL.SET b \"x\ny\"\nCELL.GET a\nCELL.CAS a 9 z\n";
    let answers = program.data_fed(&["txn"], lines).ok();
    let expected = "{\"command\":\"CELL.SET a 1\",\"answer\":1}\n\
        {\"command\":\"CELL.SET b \\\"x\\\\ny\\\"\",\"answer\":1}\n\
        {\"command\":\"CELL.GET a\",\"answer\":\"1\"}\n\
        {\"command\":\"CELL.CAS a 9 z\",\"answer\":null}\n\
        {\"revision\":1}\n";
    assert_eq!(answers, expected);
    assert_eq!(program.data(&["cell", "get", "b", "-o", "raw"]).ok(), "x\ny");
}

#[test]
fn a_line_that_fails_undoes_all_and_is_named() {
    let program = Program::new();
    for lines in [
        "CELL.SET a x\nCELL.INCR a",
        "CELL.SET a x\nNOPE",
        "CELL.SET a x\nCELL.SET b",
        "CELL.SET a x\nBRANCH.FORK c",
    ] {
        let said = program.data_fed(&["txn"], lines).error();
        assert!(said.contains("line 2:") && said.contains("nothing was written"), "{said}");
    }
    program.data(&["cell", "get", "a"]).not_held();
}

#[test]
fn what_would_end_the_transaction_is_refused_before_anything_happens() {
    let program = Program::new();
    for line in ["TXN.COMMIT", "txn.rollback", "EXEC", "BRANCH.USE x", "QUIT"] {
        let said = program.data_fed(&["txn"], &format!("CELL.SET a 1\n{line}\n")).error();
        assert!(said.contains("line 2:"), "{said}");
    }
    assert!(!program.path("d").exists(), "nothing was made");
}

#[test]
fn a_quote_that_never_ends_is_refused_by_the_line_it_begins_at() {
    let program = Program::new();
    let said = program.data_fed(&["txn"], "CELL.SET a 1\nCELL.SET b \"x\nCELL.SET c 1\n").error();
    assert!(said.contains("line 2:") && said.contains("not closed"), "{said}");
}

#[test]
fn a_file_and_a_branch_can_be_named() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "main"]).ok();
    program.data(&["branch", "fork", "draft"]).ok();
    fs::write(program.path("lines"), "CELL.SET a draft\n").unwrap();
    assert_eq!(
        program.data(&["txn", "lines", "-b", "draft", "-o", "raw"]).ok(),
        "CELL.SET a draft\t2\n3\n"
    );
    assert_eq!(program.data(&["cell", "get", "a", "-o", "raw"]).ok(), "main");
    let dash = program.data_fed(&["txn", "-", "-o", "raw"], "CELL.SET b x\n").ok();
    assert_eq!(dash, "CELL.SET b x\t1\n4\n");
    let said = program.data(&["txn", "none"]).error();
    assert!(said.contains("none could not be read"), "{said}");
}
