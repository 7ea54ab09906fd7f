//! `mainstay export`, `import`, `backup` and `restore`.

use crate::program::{Program, field};
use std::fs;

fn written() -> Program {
    let program = Program::new();
    program.data(&["cell", "set", "a", "1"]).ok();
    program.data(&["cell", "set", "a", "2"]).ok();
    program.data(&["tag", "set", "v1"]).ok();
    program
}

fn flip_a_bit(program: &Program, name: &str) {
    let mut bytes = fs::read(program.path(name)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(program.path(name), bytes).unwrap();
}

#[test]
fn a_branch_goes_through_a_file_with_its_history() {
    let program = written();
    let export = &program.data(&["export", "file"]).objects()[0];
    assert_eq!((field(export, "versions"), field(export, "tags")), (&2.into(), &1.into()));
    let import = ["--data", "other", "import", "file", "copy"];
    let imported = &program.run(&import).objects()[0];
    assert_eq!(
        (field(imported, "source"), field(imported, "versions")),
        (&"main".into(), &2.into())
    );
    let history = ["--data", "other", "cell", "history", "a", "-b", "copy"];
    assert_eq!(program.run(&history).objects().len(), 2);
    let said = program.run(&import).not_held();
    assert!(said.contains("BranchExists") && !said.contains("command"), "{said}");
}

#[test]
fn an_export_overwrites_nothing_and_a_damaged_one_is_refused() {
    let program = written();
    program.data(&["export", "file"]).ok();
    let said = program.data(&["export", "file"]).error();
    assert!(said.contains("exists already"), "{said}");
    flip_a_bit(&program, "file");
    program.data(&["import", "file", "copy"]).error();
    program.data(&["branch", "info", "copy"]).not_held();
    program.data(&["export", "other", "-b", "none"]).not_held();
}

#[test]
fn a_backup_is_verified_and_restored() {
    let program = written();
    let made = program.data(&["backup", "file"]).ok();
    assert_eq!(program.run(&["backup", "verify", "file"]).ok(), made);
    assert_eq!(program.run(&["restore", "copy", "file"]).ok(), made);
    let get = ["--data", "copy", "cell", "get", "a", "-o", "raw"];
    assert_eq!(program.run(&get).ok(), "2");
    assert_eq!(program.run(&["--data", "copy", "cell", "history", "a"]).objects().len(), 2);
}

#[test]
fn a_damaged_backup_is_found_and_not_restored() {
    let program = written();
    program.data(&["backup", "file"]).ok();
    flip_a_bit(&program, "file");
    program.run(&["backup", "verify", "file"]).error();
    program.run(&["restore", "copy", "file"]).error();
    assert!(!program.path("copy").exists(), "nothing was made");
    program.run(&["backup", "verify", "none"]).error();
}

#[test]
fn a_restore_touches_no_directory_that_holds_something() {
    let program = written();
    program.data(&["backup", "file"]).ok();
    program.data(&["cell", "set", "a", "3"]).ok();
    let said = program.run(&["restore", "d", "file"]).error();
    assert!(said.contains("not an empty directory"), "{said}");
    assert_eq!(program.data(&["cell", "get", "a", "-o", "raw"]).ok(), "3");
    let said = program.run(&["restore", "file", "file"]).error();
    assert!(said.contains("not an empty directory"), "{said}");
    fs::create_dir(program.path("empty")).unwrap();
    program.run(&["restore", "empty", "file"]).ok();
}

#[test]
fn a_backup_without_a_file_explains_itself() {
    let said = written().data(&["backup"]).error();
    assert!(said.contains("Usage"), "{said}");
}
