//! Arguments: help, versions, completions, and invalid words.

use crate::program::Program;
use std::fs;

#[test]
fn the_version_is_there_as_noun_and_as_flag() {
    let program = Program::new();
    let version = format!("mainstay {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(program.run(&["version"]).ok(), version);
    assert_eq!(program.run(&["--version"]).ok(), version);
}

#[test]
fn help_names_every_noun_and_the_exit_codes() {
    let help = Program::new().run(&["help"]).ok();
    for noun in [
        "serve",
        "cell",
        "branch",
        "tag",
        "feed",
        "txn",
        "export",
        "import",
        "backup",
        "restore",
        "doctor",
        "tour",
        "repl",
        "completions",
        "version",
        "Exit codes: 0",
        "NO_COLOR",
    ] {
        assert!(help.contains(noun), "{noun} is missing in {help}");
    }
}

#[test]
fn wrong_words_end_with_two_say_where_help_is_and_make_nothing() {
    let program = Program::new();
    for words in [
        &["dokter"][..],
        &["--fast"],
        &["doctor"],
        &["doctor", ".", "--data", "."],
        &["--data", ".", "doctor", ".", "--salvage"],
        &["doctor", ".", "--slavage"],
        &["--data", "d", "cell", "gte", "a"],
        &["--data", "d", "--server", "x:1", "cell", "list"],
        &["--data", "d", "cell", "get", "a", "--rev", "1", "--at", "1"],
        &["--data", "d", "cell", "get", "a", "--rev", "first"],
        &["--data", "d", "cell", "get", "a", "--at", "whenever"],
        &["--data", "d", "cell", "set", "a", "1", "--ttl", "-1s"],
        &["--data", "d", "cell", "cas", "a", "one", "x"],
        &["--data", "d", "cell", "list", "-o", "yaml"],
        &["--data", "d", "branch", "merge", "a", "b", "--strategy", "mine"],
        &["completions", "tcsh-like"],
    ] {
        let said = program.run(words).error();
        assert!(said.contains("--help"), "{words:?}: {said}");
    }
    assert_eq!(fs::read_dir(program.root()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_wrong_verb_is_answered_with_the_one_that_was_meant() {
    let said = Program::new().run(&["cell", "histroy", "a"]).error();
    assert!(said.contains("'history'"), "{said}");
}

#[test]
fn completions_are_written_for_three_shells() {
    let program = Program::new();
    for (shell, sign) in
        [("bash", "complete -F"), ("zsh", "#compdef mainstay"), ("fish", "complete -c")]
    {
        let script = program.run(&["completions", shell]).ok();
        assert!(script.contains(sign) && script.contains("history"), "{shell}");
    }
}

#[test]
fn a_directory_without_a_database_gets_one_only_by_writing() {
    let program = Program::new();
    for words in [
        &["cell", "get", "a"][..],
        &["cell", "list"],
        &["cell", "delete", "a"],
        &["branch", "list"],
        &["tag", "list"],
        &["feed"],
        &["export", "file"],
        &["backup", "file"],
    ] {
        let said = program.data(words).error();
        assert!(said.contains("there is no database in d"), "{words:?}: {said}");
    }
    assert_eq!(fs::read_dir(program.root()).unwrap().count(), 0, "nothing was made");
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["cell", "get", "a"]).ok();
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let program = Program::new();
    fs::create_dir(program.path("d")).unwrap();
    fs::write(program.path("d/mine"), "x").unwrap();
    let said = program.data(&["cell", "set", "a", "1"]).error();
    assert!(said.contains("not a Mainstay database"), "{said}");
    assert_eq!(fs::read_dir(program.path("d")).unwrap().count(), 1);
}

#[test]
fn a_second_process_is_told_to_talk_to_the_server() {
    let program = Program::new();
    let _open = mainstay::Database::open(program.path("d")).unwrap();
    let said = program.data(&["cell", "get", "a"]).error();
    assert!(said.contains("open in another process") && said.contains("--server ADDR"), "{said}");
}
