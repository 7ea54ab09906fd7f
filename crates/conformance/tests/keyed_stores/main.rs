//! The suite of stores of keyed state: in memory, on one that can do less, and on stores that do less than they say, which
//! it has to find out.

use mainstay_conformance::keyed_stand::MemoryWorld;
use mainstay_conformance::{keyed_need, test_keyed_store};

test_keyed_store!(in_memory, MemoryWorld::default());
// The engine's own spaces, in memory, on disk and through a server, have their line here each:
// test_keyed_store!(engine, World::memory());

/// Memory is excused from nothing but what is about lacking something, and about being opened again.
#[test]
fn memory_skips_little() {
    for (case, why) in keyed_need::skipped(&MemoryWorld::default()) {
        let is_lacking = case.starts_with("lacking::") || case.starts_with("durable::");
        assert!(is_lacking, "{case} is skipped: {why}");
    }
}
