//! Errors for a user with few rights.

use crate::program::{Done, Program};
use crate::served::Served;
use std::process::Stdio;

/// A server with one user who may do everything, and another who may only use cells.
fn served() -> (Program, Served) {
    let program = Program::new();
    let hash = program.fed(&["user", "hash"], b"secret\n").ok();
    let user = |name, allow| {
        format!(
            "[[security.users]]\nname = \"{name}\"\npassword_hash = \"{}\"\nallow = [\"{allow}\"]\n\
             prefixes = [\"\"]\n",
            hash.trim_end()
        )
    };
    let file = format!(
        "[resp]\naddress = \"127.0.0.1:0\"\n{}{}",
        user("root", "all"),
        user("cells", "cells")
    );
    program.write("mainstay.toml", &file);
    let served = Served::start(&program, &[]);
    (program, served)
}

fn run(program: &Program, served: &Served, user: &str, words: &[&str], input: &str) -> Done {
    let server = format!("127.0.0.1:{}", served.port);
    let mut command =
        program.command(&[&["--server", &server, "--user", user][..], words].concat());
    command.env("MAINSTAY_PASSWORD", "secret").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    Done::of(child.wait_with_output().unwrap())
}

#[test]
fn a_list_takes_no_right_but_that_of_cells() {
    let (program, served) = served();
    let lines: String = (0..1000).map(|n| format!("CELL.SET k{n:04} x\n")).collect();
    run(&program, &served, "cells", &["txn"], &lines).ok();
    let list = |user, more: &[&str]| {
        run(&program, &served, user, &[&["cell", "list", "-o", "raw"], more].concat(), "")
    };
    assert_eq!(list("cells", &["k00"]).ok().lines().count(), 100);
    assert_eq!(list("cells", &["--limit", "1000"]).ok().lines().count(), 1000);
    assert_eq!(list("cells", &[]).ok().lines().count(), 1000, "pages and all");
    assert_eq!(list("root", &[]).ok().lines().count(), 1000);
}

#[test]
fn a_backup_asks_where_files_are_and_then_for_the_right() {
    let (program, served) = served();
    let url = format!("http://127.0.0.1:{}", served.http_port);
    for more in [&["--http", &url][..], &[]] {
        let words = [&["backup", "file"], more].concat();
        let said = run(&program, &served, "cells", &words, "").error();
        assert!(said.contains("admin:read is missing"), "{said}");
    }
    run(&program, &served, "root", &["backup", "file"], "").ok();
}
