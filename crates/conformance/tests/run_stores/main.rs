//! Runs the run store suite on every implementation, and checks that it detects faulty stores.
//!
//! The implementations are the engine in memory, on disk and through a server, a store with gaps, and a
//! store with fewer capabilities.

mod faulty_store;
mod gappy;
mod mutation_tests;
mod partial_store;
#[path = "../served/mod.rs"]
mod served;

use mainstay_conformance::{RunStore, TestDb, suite, test_run_store};

test_run_store!(memory, TestDb::memory());
test_run_store!(disk, TestDb::disk());
test_run_store!(remote, TestDb::served(served::serve));
test_run_store!(gapless, gappy::Gappy::without_habits());
test_run_store!(gappy_store, gappy::Gappy::with_habits());
test_run_store!(plain, partial_store::plain());

/// The engine skips only cases about missing capabilities.
#[test]
fn the_engine_skips_nothing() {
    for (case, why) in suite::skipped::<dyn RunStore>(&TestDb::memory()) {
        assert!(case.starts_with("lacking::"), "{case} is skipped: {why}");
    }
}

/// Cases that need a missing capability are skipped and listed with the reason.
#[test]
fn what_is_lacking_is_listed() {
    let skipped = suite::skipped::<dyn RunStore>(&gappy::Gappy::with_habits());
    let why = |name: &str| skipped.iter().find(|(case, _)| *case == name).map(|(_, why)| why);
    assert_eq!(why("fetch::seen_is_never_overtaken").unwrap(), "`gappy` lacks Monotone");
    assert_eq!(why("lacking::batches").unwrap(), "`gappy` has Batches");
    assert_eq!(why("batch::answers_per_position"), None);
    let skipped = suite::skipped::<dyn RunStore>(&partial_store::plain());
    assert!(skipped.iter().any(
        |(case, why)| *case == "races::one_bootstrap_wins" && why == "`plain` lacks Bootstrap"
    ));
}

/// The gappy store skips only cases about gaps and about missing capabilities.
#[test]
fn a_gappy_store_skips_little() {
    for (case, why) in suite::skipped::<dyn RunStore>(&gappy::Gappy::with_habits()) {
        let is_about_gaps = why.ends_with("Monotone") || why.ends_with("Contiguous");
        assert!(case.starts_with("lacking::") || is_about_gaps, "{case} is skipped: {why}");
    }
}
