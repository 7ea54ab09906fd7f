//! Short histories; the long ones are `cargo run --release -p mainstay-sim --bin histories`.

use mainstay_sim::history::{Plan, run};
use std::process::Command;

/// Catches stale reads, lost updates, doubled compare-and-swaps, half transactions, phantoms and all else that no one order
/// explains.
#[test]
fn twenty_thousand_operations_are_explained() {
    let plan = Plan { seed: u64::from(std::process::id()), operations: 20_000 };
    let tally = run(&plan).unwrap_or_else(|what| panic!("{what}"));
    assert!(tally.operations >= plan.operations, "{tally:?}");
    // Threads that never meet would never disagree.
    assert!(tally.beside > 1_000 && tally.transactions > 500, "{tally:?}");
}

#[test]
fn the_program_says_what_it_has_checked() {
    let words = ["--operations", "3000", "--seed", "7"];
    let done = Command::new(env!("CARGO_BIN_EXE_histories")).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    assert!(said.starts_with("seed 7\n"), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.ends_with(" operations checked, 0 violations"), "{said}");
}
