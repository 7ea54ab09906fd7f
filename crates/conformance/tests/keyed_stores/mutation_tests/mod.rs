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

use super::faulty_store::{Faults, FaultySpaces};
use mainstay_conformance::suite;

#[track_caller]
fn detects(faults: impl Fn() -> Faults + Copy + Send + Sync + 'static, cases: &[&str]) {
    suite::detect(|| FaultySpaces::new(faults), cases);
}
