//! Runs every case on a database in memory.

use mainstay_conformance::{TestDb, cases};

fn run(case: &str) {
    cases::run(case, &mut TestDb::memory());
}

mainstay_conformance::database_tests!();
