//! Random programs on the engine and on the reference model: every answer must be equal.
//!
//! `PROPTEST_CASES` sets the number of programs. The seed differs in each test run. A failure prints the
//! smallest program found.

mod program;
mod served;

use mainstay::Durability;
use mainstay_conformance::TestDb;
use program::step::Program;
use program::tally::{RunTally, Tally};
use program::{driver::Driver, make};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;

/// Limits the number of cases, so that a test takes seconds, unless the environment sets it.
fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 3_000,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    config
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn in_memory(program in make::program()) {
        Driver::new(TestDb::memory(), Durability::Sync).run(&program);
    }

    #[test]
    fn on_disk(program in make::program()) {
        // Few programs wait for the disk, so that more of them fit into the time.
        let durability = [Durability::Memory, Durability::Interval, Durability::Sync];
        let durability = durability[program.0.len() % 8 / 3];
        Driver::new(TestDb::disk(), durability).run(&program);
    }
}

proptest! {
    // Fewer cases, because every step is a network round trip.
    #![proptest_config(config(100))]

    #[test]
    fn served_to_a_client(program in make::program()) {
        Driver::new(TestDb::served(served::serve), Durability::Memory).run(&program);
    }
}

/// Runs the same programs each time, so that the statistics are deterministic.
fn counted(programs: BoxedStrategy<Program>) -> Tally {
    let config = ProptestConfig { cases: 400, ..config(400) };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let tally = Cell::new(Tally::default());
    let ran = TestRunner::new_with_rng(config, random).run(&programs, |program| {
        let one = Driver::new(TestDb::memory(), Durability::Memory).run(&program);
        tally.set(tally.get().and(one));
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{:?}", tally.get());
    tally.get()
}

#[test]
fn runs_fork_at_events_and_merge_in_all_ways() {
    let runs = counted(make::branching_runs()).runs;
    let RunTally { forks, inherited, brought, joined, left, clashed } = runs;
    assert!(forks >= 200 && inherited >= 30, "{runs:?}");
    assert!(brought >= 200 && joined >= 60 && left >= 60 && clashed >= 60, "{runs:?}");
}

#[test]
fn merges_of_all_kinds_happen_beside_expiries() {
    let tally = counted(make::expiring_and_merging());
    let Tally { neighbours, ancestors, siblings, expiring, .. } = tally;
    assert!(neighbours >= 100 && ancestors >= 30 && siblings >= 100, "{tally:?}");
    assert!(expiring >= 200, "{tally:?}");
}

#[test]
fn spaces_are_replaced_and_merged_in_all_ways() {
    let spaces = counted(make::branching_spaces()).spaces;
    assert!(spaces.brought >= 1_000 && spaces.both >= 500, "{spaces:?}");
    assert!(spaces.passed >= 15 && spaces.conflicted >= 60, "{spaces:?}");
}
