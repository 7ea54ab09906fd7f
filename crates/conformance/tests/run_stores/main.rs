//! Runs the run store suite on every implementation, and checks that it detects faulty stores.
//!
//! The implementations are the engine in memory, on disk and through a server, a store with gaps, and a
//! store with fewer capabilities.

mod bent;
mod gappy;
mod less;
#[path = "../served/mod.rs"]
mod served;
mod teeth;

use mainstay_conformance::{World, run_need, test_run_store};

test_run_store!(memory, World::memory());
test_run_store!(disk, World::disk());
test_run_store!(remote, World::served(served::serve));
test_run_store!(gapless, gappy::Gappy::without_habits());
test_run_store!(gappy_store, gappy::Gappy::with_habits());
test_run_store!(plain, less::plain());

/// The engine skips only cases about missing capabilities.
#[test]
fn the_engine_skips_nothing() {
    for (case, why) in run_need::skipped(&World::memory()) {
        assert!(case.starts_with("lacking::"), "{case} is skipped: {why}");
    }
}

/// Cases that need a missing capability are skipped and listed with the reason.
#[test]
fn what_is_lacking_is_listed() {
    let skipped = run_need::skipped(&gappy::Gappy::with_habits());
    let why = |name: &str| skipped.iter().find(|(case, _)| *case == name).map(|(_, why)| why);
    assert_eq!(why("fetch::seen_is_never_overtaken").unwrap(), "`gappy` lacks Monotone");
    assert_eq!(why("lacking::batches").unwrap(), "`gappy` has Batches");
    assert_eq!(why("batch::answers_per_position"), None);
    let skipped = run_need::skipped(&less::plain());
    assert!(skipped.iter().any(
        |(case, why)| *case == "races::one_bootstrap_wins" && why == "`plain` lacks Bootstrap"
    ));
}

/// The gappy store skips only cases about gaps and about missing capabilities.
#[test]
fn a_gappy_store_skips_little() {
    for (case, why) in run_need::skipped(&gappy::Gappy::with_habits()) {
        let is_about_gaps = why.ends_with("Monotone") || why.ends_with("Contiguous");
        assert!(case.starts_with("lacking::") || is_about_gaps, "{case} is skipped: {why}");
    }
}
