//! Random programs on the engine and on the model: every answer is the same.
//!
//! `PROPTEST_CASES` says how many; the seed is another one each time. A failure prints the
//! smallest program found.

mod program;
mod served;

use mainstay::Durability;
use mainstay_conformance::World;
use program::{driver::Driver, make, tally::Tally};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

/// As many as fit into some seconds, unless the caller says otherwise.
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
        Driver::new(World::memory(), Durability::Sync).run(&program);
    }

    #[test]
    fn on_disk(program in make::program()) {
        // Few wait for the disk, so that more programs fit into the time.
        let durability = [Durability::Memory, Durability::Interval, Durability::Sync];
        let durability = durability[program.0.len() % 8 / 3];
        Driver::new(World::disk(), durability).run(&program);
    }
}

proptest! {
    // Fewer: every step is a trip.
    #![proptest_config(config(100))]

    #[test]
    fn served_to_a_client(program in make::program()) {
        Driver::new(World::served(served::serve), Durability::Memory).run(&program);
    }
}

/// The same programs each time, so that what they count is the same each time.
#[test]
fn merges_of_all_kinds_happen_beside_expiries() {
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig { failure_persistence: None, ..ProptestConfig::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let mut tally = Tally::default();
    for _ in 0..300 {
        let program = make::expiring_and_merging().new_tree(&mut runner).unwrap().current();
        tally = tally.and(Driver::new(World::memory(), Durability::Memory).run(&program));
    }
    println!("{tally:?}");
    let Tally { neighbours, ancestors, siblings, expiring } = tally;
    assert!(neighbours >= 100 && ancestors >= 30 && siblings >= 100, "{tally:?}");
    assert!(expiring >= 200, "{tally:?}");
}
