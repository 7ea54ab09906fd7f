//! Random programs on the engine and on the model: every answer is the same.
//!
//! `PROPTEST_CASES` says how many; the seed is another one each time. A failure prints the
//! smallest program found.

mod program;

use mainstay_conformance::World;
use program::{driver::Driver, make};
use proptest::prelude::*;

/// As many as fit into some seconds, unless the caller says otherwise.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 60;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn in_memory(program in make::program()) {
        Driver::new(World::memory()).run(&program);
    }

    #[test]
    fn on_disk(program in make::program()) {
        Driver::new(World::disk()).run(&program);
    }
}
