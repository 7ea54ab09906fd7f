//! The program as a person runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn mainstay(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
    command.current_dir(directory).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A database of the tour, closed.
fn toured() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let first = mainstay(root.path(), &[]);
    assert!(first.status.success(), "{}", err(&first));
    root
}

/// Flips a bit in the middle of what the first segment of the log holds.
fn damage(root: &Path) {
    let path = root.join("mainstay-data/log/log-00000000000000000001.seg");
    let mut bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_tour_goes_on_where_it_ended() {
    let root = tempfile::tempdir().unwrap();
    for run in 1..=2 {
        let output = mainstay(root.path(), &[]);
        let text = out(&output);
        assert!(output.status.success(), "{text}{}", err(&output));
        let line = |call: &str| text.lines().find(|line| line.contains(call)).unwrap_or_default();
        assert!(line(r#"incr("visits", 1)"#).ends_with(&format!("→ {run}")), "{text}");
        assert!(line(r#"set("greeting""#).ends_with(&format!("counter {}", 2 * run - 1)), "{text}");
        assert!(line("pay(500)").ends_with("alice has too little"), "{text}");
        assert!(text.contains(&format!("1000 on draft-{run}")), "{text}");
        assert!(text.contains("What to try next"), "{text}");
        assert!(!text.contains('\x1b'), "colours in a pipe");
    }
}

#[test]
fn the_tour_rebuilds_an_index_that_is_gone() {
    let root = toured();
    fs::remove_dir_all(root.path().join("mainstay-data/index")).unwrap();
    let output = mainstay(root.path(), &[]);
    assert!(out(&output).contains("rebuilt from the log"), "{}", out(&output));
    assert!(output.status.success());
}

#[test]
fn the_tour_leaves_a_foreign_directory_alone() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("mainstay-data")).unwrap();
    fs::write(root.path().join("mainstay-data/mine"), "x").unwrap();
    let output = mainstay(root.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("not a Mainstay database"), "{}", err(&output));
    assert_eq!(fs::read_dir(root.path().join("mainstay-data")).unwrap().count(), 1);
}

#[test]
fn the_doctor_finds_and_salvages_damage() {
    let root = toured();
    let healthy = mainstay(root.path(), &["doctor", "mainstay-data"]);
    assert_eq!(healthy.status.code(), Some(0));
    assert!(out(&healthy).contains("HEALTHY"), "{}", out(&healthy));

    damage(root.path());
    let refused = mainstay(root.path(), &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("mainstay doctor mainstay-data"), "{}", err(&refused));
    let found = mainstay(root.path(), &["doctor", "mainstay-data"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(out(&found).contains("DAMAGE in log-00000000000000000001.seg"), "{}", out(&found));

    let salvaged = mainstay(root.path(), &["doctor", "mainstay-data", "--salvage"]);
    assert_eq!(salvaged.status.code(), Some(0), "{}", err(&salvaged));
    assert!(out(&salvaged).contains("May be lost"), "{}", out(&salvaged));
    assert!(mainstay(root.path(), &[]).status.success());
    assert_eq!(mainstay(root.path(), &["doctor", "mainstay-data"]).status.code(), Some(0));
}

#[test]
fn the_doctor_says_when_it_cannot_look() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("mine"), "x").unwrap();
    for directory in [".", "mine", "none"] {
        let output = mainstay(root.path(), &["doctor", directory]);
        assert_eq!(output.status.code(), Some(2), "{directory}");
        assert!(err(&output).contains("nothing was touched"), "{}", err(&output));
        assert!(out(&output).is_empty());
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn help_and_version_are_there_and_other_words_are_refused() {
    let root = tempfile::tempdir().unwrap();
    assert!(out(&mainstay(root.path(), &["help"])).contains("mainstay doctor DIR"));
    let version = format!("mainstay {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(out(&mainstay(root.path(), &["--version"])), version);
    for words in [&["dokter"][..], &["--fast"], &["doctor"], &["doctor", ".", "--slavage"]] {
        let output = mainstay(root.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(err(&output).contains("mainstay help"), "{}", err(&output));
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing was made");
}
