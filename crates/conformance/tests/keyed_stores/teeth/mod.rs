//! The suite has teeth: a store that does less than it says fails it, each by the cases that are about that.

mod durable;
mod keys;
mod races;
mod reads;
mod restores;
mod seals;
mod snapshots;
mod spaces;
mod writes;

use super::bent::Before;
use mainstay_conformance::KeyedWorld;
use mainstay_conformance::keyed_store_cases::ALL;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Asserts that cases fail on the bent store; that they pass on the straight one, other tests tell.
#[track_caller]
fn bites(bend: impl Fn() -> Before, cases: &[&str]) {
    for name in cases {
        let case = ALL.iter().find(|case| case.name == *name).expect("there is such a case");
        let world = bend();
        assert_eq!(case.excuse(&world), None, "{name}");
        let passed = catch_unwind(AssertUnwindSafe(|| case.run(&world as &dyn KeyedWorld)));
        assert!(passed.is_err(), "{name} did not notice");
    }
}
