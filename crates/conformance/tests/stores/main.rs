//! Runs the record store suite on every implementation, and checks that it detects faulty stores.
//!
//! The implementations are the engine in memory, on disk and through a server, and stores with fewer
//! capabilities.

mod awaited;
mod faulty_store;
mod mutation_tests;
mod partial_store;
#[path = "../served/mod.rs"]
mod served;

use mainstay_conformance::{RecordStore, TestDb, suite, test_store};

test_store!(memory, TestDb::memory());
test_store!(disk, TestDb::disk());
test_store!(remote, TestDb::served(served::serve));
test_store!(bucket, partial_store::bucket());
test_store!(plain, partial_store::plain());

/// The engine skips only cases about missing capabilities.
#[test]
fn the_engine_skips_nothing() {
    for (case, why) in suite::skipped::<dyn RecordStore>(&TestDb::memory()) {
        let is_about_less = case.starts_with("lacking::") || case.starts_with("lifetime::");
        assert!(is_about_less, "{case} is skipped: {why}");
    }
}

/// Cases that need a missing capability are skipped and listed with the reason.
#[test]
fn what_is_lacking_is_listed() {
    let skipped = suite::skipped::<dyn RecordStore>(&partial_store::bucket());
    let why = |name: &str| skipped.iter().find(|(case, _)| *case == name).map(|(_, why)| why);
    assert_eq!(why("swap::right_bytes_win").unwrap(), "`bucket` lacks FieldConditions");
    assert_eq!(why("expiry::put_changes_it").unwrap(), "`bucket` lacks Ttl");
    assert_eq!(why("lacking::ttl"), None);
    assert_eq!(why("conditions::right_counter_writes"), None);
}
