//! A short loop of kills; the long one is `cargo run --release -p mainstay-sim --bin kill`.

use std::process::Command;

const CYCLES: &str = "20";

/// Catches writes that are acknowledged before they are written, and all that recovery loses.
#[test]
fn twenty_kills_lose_nothing() {
    let done = Command::new(env!("CARGO_BIN_EXE_kill")).args(["--cycles", CYCLES]).output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let also = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}\n{also}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("20 cycles, ") && last.ends_with(", 0 lost"), "{said}\n{also}");
    // A child that writes nothing would lose nothing.
    let writes = last.split(' ').nth(2).and_then(|word| word.parse::<u64>().ok());
    assert!(writes.is_some_and(|writes| writes > 500), "{last}");
}
