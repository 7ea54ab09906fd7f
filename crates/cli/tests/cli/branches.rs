//! `mainstay branch` and `mainstay tag`.

use crate::program::{Program, field};

/// `a` has changed on both branches, `b` only on the draft.
fn forked() -> Program {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["branch", "fork", "draft"]).ok();
    program.data(&["cell", "set", "a", "main"]).ok();
    program.data(&["cell", "set", "a", "draft", "-b", "draft"]).ok();
    program.data(&["cell", "set", "b", "draft", "-b", "draft"]).ok();
    program
}

#[test]
fn a_fork_starts_at_the_revision_it_names() {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["cell", "set", "a", "2"]).ok();
    let fork = program.data(&["branch", "fork", "old", "--from", "main", "--rev", "1"]).ok();
    assert_eq!(fork, "{\"name\":\"old\",\"revision\":1}\n");
    assert_eq!(program.data(&["cell", "get", "a", "-b", "old", "-o", "raw"]).ok(), "1");
    let said = program.data(&["branch", "fork", "old"]).not_held();
    assert!(said.contains("EXISTS"), "{said}");
    let said = program.data(&["branch", "fork", "x", "--from", "none"]).not_held();
    assert!(said.contains("NOTFOUND"), "{said}");
}

#[test]
fn branches_are_listed_with_what_is_known_of_them() {
    let program = forked();
    let branches = program.data(&["branch", "list"]).objects();
    let names: Vec<_> = branches.iter().map(|b| field(b, "name").as_str().unwrap()).collect();
    assert_eq!(names, ["draft", "main"]);
    assert_eq!(field(&branches[0], "parent"), &"main".into());
    assert_eq!(field(&branches[0], "fork_revision"), &1.into());
    assert_eq!(field(&branches[1], "children"), &1.into());
    assert_eq!(program.data(&["branch", "info", "draft"]).objects(), branches[..1]);
    program.data(&["branch", "info", "none"]).not_held();
}

#[test]
fn a_difference_names_who_changed_what() {
    let program = forked();
    let rows = program.data(&["branch", "diff", "main", "draft", "-o", "raw"]).ok();
    assert_eq!(rows, "cells\ta\tboth\ncells\tb\tdraft\n");
    assert_eq!(program.data(&["branch", "diff", "main", "main"]).ok(), "");
    program.data(&["branch", "diff", "main", "none"]).not_held();
}

#[test]
fn a_strict_merge_names_the_keys_and_changes_nothing() {
    let program = forked();
    let said = program.data(&["branch", "merge", "draft", "main"]).not_held();
    assert!(said.contains("both changed a:") && said.contains("--strategy"), "{said}");
    program.data(&["cell", "get", "b"]).not_held();
}

#[test]
fn the_strategy_says_who_wins() {
    for (strategy, a) in [("theirs", "draft"), ("ours", "main")] {
        let program = forked();
        let merged = program.data(&["branch", "merge", "draft", "--strategy", strategy]).objects();
        assert_eq!(field(&merged[0], "into"), &"main".into());
        assert_eq!(program.data(&["cell", "get", "a", "-o", "raw"]).ok(), a, "{strategy}");
        assert_eq!(program.data(&["cell", "get", "b", "-o", "raw"]).ok(), "draft", "{strategy}");
    }
}

#[test]
fn a_branch_is_deleted_once_and_main_never() {
    let program = forked();
    program.data(&["branch", "delete", "draft"]).ok();
    program.data(&["branch", "delete", "draft"]).not_held();
    program.data(&["branch", "delete", "main"]).error();
}

#[test]
fn use_is_for_the_repl() {
    let said = forked().data(&["branch", "use", "draft"]).error();
    assert!(said.contains("--branch draft"), "{said}");
}

#[test]
fn tags_pin_revisions_by_name() {
    let program = forked();
    assert_eq!(
        program.data(&["tag", "set", "v1", "--rev", "1"]).ok(),
        "{\"name\":\"v1\",\"revision\":1}\n"
    );
    program.data(&["tag", "set", "v2", "-b", "draft"]).ok();
    let tags = program.data(&["tag", "list", "-o", "raw"]).ok();
    assert_eq!(tags, "v1\tmain\t1\nv2\tdraft\t6\n");
    program.data(&["tag", "set", "v1"]).not_held();
    program.data(&["tag", "delete", "v1"]).ok();
    program.data(&["tag", "delete", "v1"]).not_held();
}
