//! The tour and the doctor.

use crate::program::Program;
use std::fs;

/// A program with the database of a tour, closed.
fn toured() -> Program {
    let program = Program::new();
    program.run(&["tour"]).ok();
    program
}

/// Flips a bit in the middle of the used part of the first log segment.
fn damage(program: &Program) {
    let path = program.path("mainstay-tour/log/log-00000000000000000001.seg");
    let mut bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_tour_goes_on_where_it_ended() {
    let program = Program::new();
    for run in 1..=2 {
        let text = program.run(&["tour"]).ok();
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
    let program = toured();
    fs::remove_dir_all(program.path("mainstay-tour/index")).unwrap();
    let text = program.run(&["tour"]).ok();
    assert!(text.contains("rebuilt from the log"), "{text}");
}

#[test]
fn the_tour_leaves_a_foreign_directory_alone() {
    let program = Program::new();
    fs::create_dir(program.path("mine")).unwrap();
    fs::write(program.path("mine/x"), "x").unwrap();
    let words = program.run(&["tour", "mine"]).error();
    assert!(words.contains("not a Mainstay database"), "{words}");
    assert_eq!(fs::read_dir(program.path("mine")).unwrap().count(), 1);
}

#[test]
fn the_doctor_finds_and_salvages_damage() {
    let program = toured();
    for words in [["doctor", "--data", "mainstay-tour"], ["--data", "mainstay-tour", "doctor"]] {
        let healthy = program.run(&words).ok();
        assert!(healthy.contains("HEALTHY"), "{healthy}");
    }

    damage(&program);
    let refused = program.run(&["tour"]).error();
    assert!(refused.contains("mainstay doctor mainstay-tour"), "{refused}");
    let refused = program.run(&["--data", "mainstay-tour", "cell", "list"]).error();
    assert!(refused.contains("`mainstay doctor mainstay-tour` says more"), "{refused}");
    let found = program.run(&["doctor", "mainstay-tour"]);
    assert_eq!(found.code, 1);
    assert!(found.out.contains("DAMAGE in log-00000000000000000001.seg"), "{}", found.out);

    let salvaged = program.run(&["doctor", "mainstay-tour", "--salvage"]).ok();
    assert!(salvaged.contains("May be lost"), "{salvaged}");
    program.run(&["tour"]).ok();
    program.run(&["doctor", "mainstay-tour"]).ok();
}

#[test]
fn the_doctor_says_when_it_cannot_look() {
    let program = Program::new();
    fs::write(program.path("mine"), "x").unwrap();
    for directory in [".", "mine", "none"] {
        let words = program.run(&["doctor", directory]).error();
        assert!(words.contains("nothing was touched"), "{words}");
    }
    assert_eq!(fs::read_dir(program.root()).unwrap().count(), 1);
}
