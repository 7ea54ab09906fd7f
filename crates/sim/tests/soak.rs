//! A soak of seconds; the long one is `cargo run --release -p mainstay-sim --bin prove -- soak`.

use std::fs;
use std::process::Command;

/// Catches data that is lost or torn under everything at once, and a report that is not written. Figures of so short a
/// run say nothing.
#[test]
fn five_seconds_of_everything_lose_nothing_and_are_drawn() {
    let home = tempfile::tempdir().unwrap();
    let report = home.path().join("soak.svg");
    let mut soak = Command::new(env!("CARGO_BIN_EXE_prove"));
    soak.args(["soak", "--seconds", "5", "--seed", "1", "--report"]).arg(&report);
    let done = soak.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let also = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}\n{also}");
    assert!(said.contains("peak ") && said.contains("everything that was told is there"), "{said}");
    let picture = fs::read_to_string(report).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
}
