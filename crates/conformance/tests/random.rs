//! Random programs on the engine and on the model: every answer is the same.
//!
//! `PROPTEST_CASES` says how many; the seed is another one each time. A failure prints the
//! smallest program found.

mod program;

use mainstay::Durability;
use mainstay_conformance::World;
use program::{driver::Driver, make};
use proptest::prelude::*;

/// As many as fit into some seconds, unless the caller says otherwise.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 3_000,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 400;
    }
    config
}

proptest! {
    #![proptest_config(config())]

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
