//! Visibility: a write with `Durability::Sync` is visible only after its sync, and durable once acknowledged.

use crate::checker::holds;
use crate::world::{World, join, set_in_memory};
use mainstay::At;

#[test]
fn nobody_sees_a_revision_before_it_is_synced() {
    holds("readers", readers);
}

#[test]
fn what_need_not_be_synced_is_seen_in_order_and_synced_when_asked() {
    holds("in memory", in_memory);
}

/// Readers get the newest revision and cells while writers write.
pub fn readers() {
    let world = World::new();
    join([
        world.spawn(|world| ["cell-a1", "cell-a2"].iter().for_each(|name| world.execute(name))),
        world.spawn(|world| world.execute_all(&["cell-b1", "cell-b2"])),
        world.spawn(|world| (0..4).for_each(|_| world.look())),
        world.spawn(|world| {
            let mut last = 0;
            for _ in 0..3 {
                let seen = world.db.cells().get("cell-a1").unwrap().is_some();
                assert!(!seen || world.disk.holds("cell-a1"), "seen before it was synced");
                let revision = world.db.revision();
                assert!(revision >= last, "revisions went back");
                last = revision;
                read_as_of(world, revision);
            }
        }),
    ]);
    assert_eq!(world.told(), 4);
    world.settle();
}

/// The number of visible cells at a revision equals the revision, and stays so.
fn read_as_of(world: &World, revision: u64) {
    let then = world.db.cells().at(At::Revision(revision)).unwrap();
    let names = ["cell-a1", "cell-a2", "cell-b1", "cell-b2"];
    let there = names.iter().filter(|name| then.get(name).unwrap().is_some()).count();
    assert_eq!(there as u64, revision);
}

/// Writes that need no sync, beside one that does and a thread that requests a sync.
pub fn in_memory() {
    let world = World::new();
    join([
        world.spawn(|world| {
            for name in ["cell-a1", "cell-a2"] {
                let receipt = world.db.execute(set_in_memory(name)).unwrap();
                assert!(world.db.revision() >= receipt.revision);
            }
        }),
        world.spawn(|world| world.execute("cell-b1")),
        world.spawn(|world| {
            let synced = world.db.sync().unwrap();
            assert!(world.disk.count() >= synced && world.db.durable_revision() >= synced);
        }),
    ]);
    world.db.close().unwrap();
    assert_eq!((world.db.revision(), world.disk.count()), (3, 3));
}
