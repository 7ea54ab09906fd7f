//! Random programs through the remote client and on the model: every answer is the same.
//!
//! `PROPTEST_CASES` says how many; the seed is another one each time. A failure prints the
//! smallest program found.

mod program;
mod served;

use mainstay::Durability;
use mainstay_conformance::World;
use program::{driver::Driver, make};
use proptest::prelude::*;

/// Fewer than in this process: every step is a trip.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 100;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn served(program in make::program()) {
        Driver::new(World::served(served::serve), Durability::Memory).run(&program);
    }
}
