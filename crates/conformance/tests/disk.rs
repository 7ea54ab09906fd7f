//! Runs every case on a database on disk, including the cases that need one.

use mainstay_conformance::{TestDb, cases};

fn run(case: &str) {
    cases::run(case, &mut TestDb::disk());
}

mainstay_conformance::database_tests!();
mainstay_conformance::disk_tests!();
