//! Runs every case through the remote client, connected to a server in this process.

mod served;

use mainstay_conformance::{TestDb, cases};

fn run(case: &str) {
    cases::run(case, &mut TestDb::served(served::serve));
}

mainstay_conformance::database_tests!();
