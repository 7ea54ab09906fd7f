//! Mutation tests of the suite: each faulty store must fail the cases that cover its fault.

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

/// Number of attempts for a race case, because its threads may not collide at once.
const MEETINGS: usize = 50;

/// Asserts that each case fails on the faulty store. Other tests check that the cases pass on the
/// correct store.
#[track_caller]
fn bites(bend: impl Fn() -> Before, cases: &[&str]) {
    for name in cases {
        let tries = if name.starts_with("races::") { MEETINGS } else { 1 };
        let is_noticed = (0..tries).any(|_| notices(name, &bend()));
        assert!(is_noticed, "{name} did not notice");
    }
}

fn notices(name: &str, world: &Before) -> bool {
    let case = ALL.iter().find(|case| case.name == name).expect("there is such a case");
    assert_eq!(case.excuse(world), None, "{name}");
    catch_unwind(AssertUnwindSafe(|| case.run(world as &dyn KeyedWorld))).is_err()
}
