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

/// How often racers run until they meet.
const MEETINGS: usize = 50;

/// Asserts that cases fail on the bent store; that they pass on the straight one, other tests tell.
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
