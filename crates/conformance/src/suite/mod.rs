//! Generic conformance suite for stores: fixtures, requirements, cases, a runner and mutation tests.
//!
//! Records, runs and keyed state share it. A [`Contract`] is the store's trait object together with its
//! requirements and its registered cases.
//!
//! ```text
//!   Fixture<dyn RecordStore> (engine, Redis, ...) --opens--> Arc<dyn RecordStore>
//!        \--drives futures, advances the clock--> TestStore --> Case (requirements, body)
//! ```

mod case;
mod fixture;
mod mutation;
mod test_store;

pub use case::{Case, Contract, StoreCase, run, skipped};
pub use fixture::{Fixture, Wrapped};
pub use mutation::detect;
pub use test_store::{LIFE_MS, RACERS, TestStore};

/// Defines a test for every case of a contract. The expression creates a fixture for each test.
#[macro_export]
#[doc(hidden)]
macro_rules! test_contract {
    ($name:ident, $fixture:expr, $contract:ty, $tests:ident) => {
        mod $name {
            #[allow(
                unused_imports,
                reason = "the fixture may use names of the caller's scope"
            )]
            use super::*;

            fn run(case: &str) {
                $crate::suite::run::<$contract>(case, &$fixture);
            }

            $crate::$tests!();
        }
    };
}

/// Defines a test for every record store case. The expression creates a fixture for each test.
///
/// ```
/// mainstay_conformance::test_store!(in_memory, mainstay_conformance::TestDb::memory());
/// ```
#[macro_export]
macro_rules! test_store {
    ($name:ident, $fixture:expr) => {
        $crate::test_contract!($name, $fixture, dyn $crate::RecordStore, record_store_tests);
    };
}

/// Defines a test for every run store case. The expression creates a fixture for each test.
#[macro_export]
macro_rules! test_run_store {
    ($name:ident, $fixture:expr) => {
        $crate::test_contract!($name, $fixture, dyn $crate::RunStore, run_store_tests);
    };
}

/// Defines a test for every keyed state store case. The expression creates a fixture for each test.
#[macro_export]
macro_rules! test_keyed_store {
    ($name:ident, $fixture:expr) => {
        $crate::test_contract!($name, $fixture, dyn $crate::KeyedState, keyed_store_tests);
    };
}
