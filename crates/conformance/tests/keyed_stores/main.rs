//! Runs the keyed state store suite on every implementation, and checks that it detects faulty stores.
//!
//! The implementations are the in-memory store, the engine in memory, on disk and through a server, and
//! a store with fewer capabilities.

mod edited;
mod faulty_store;
mod mutation_tests;
mod partial_store;
#[path = "../served/mod.rs"]
mod served;

use mainstay_conformance::stores::keyed::{EngineSpaces, MemorySpaces};
use mainstay_conformance::{KeyedState, TestDb, suite, test_keyed_store};

test_keyed_store!(in_memory, MemorySpaces::default());
test_keyed_store!(plain, partial_store::plain());
test_keyed_store!(engine, EngineSpaces::of(TestDb::memory()));
test_keyed_store!(disk, EngineSpaces::disk());
test_keyed_store!(remote, EngineSpaces::of(TestDb::served(served::serve)));

/// The in-memory store skips only cases about missing capabilities and about reopening.
#[test]
fn memory_skips_little() {
    for (case, why) in suite::skipped::<dyn KeyedState>(&MemorySpaces::default()) {
        let is_lacking = case.starts_with("lacking::") || case.starts_with("durable::");
        assert!(is_lacking, "{case} is skipped: {why}");
    }
}

/// Cases that need a missing capability are skipped and listed with the reason.
#[test]
fn what_is_lacking_is_listed() {
    let skipped = suite::skipped::<dyn KeyedState>(&partial_store::plain());
    let why = |name: &str| skipped.iter().find(|(case, _)| *case == name).map(|(_, why)| why);
    assert_eq!(why("ordered::put_waits").unwrap(), "`plain` lacks Ordered");
    assert_eq!(why("batch::of_many").unwrap(), "`plain` lacks Atomic");
    assert_eq!(why("lacking::atomic"), None);
    assert_eq!(why("programs::of_newest_wins"), None);
    let skipped = suite::skipped::<dyn KeyedState>(&MemorySpaces::default());
    assert!(skipped.contains(&("lacking::merged", "`memory` has Merged".to_owned())));
}
