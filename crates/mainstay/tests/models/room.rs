//! Limit of transactions in flight: further ones wait, and proceed later.

use crate::checker::holds;
use crate::world::{FOR_EVER, World, join, set, set_large};
use mainstay::{CellCommand, Code, Guard, Name, Transaction};
use shuttle::thread;

#[test]
fn whoever_waits_for_room_gets_in() {
    holds("room", room);
}

#[test]
fn whoever_waits_for_buffers_gets_in() {
    holds("buffers", buffers);
}

/// Writers fill buffers faster than they are flushed.
pub fn buffers() {
    let world = World::with_buffers(64 << 10);
    join([
        world.spawn(|world| fill(world, ["cell-a1", "cell-a2"])),
        world.spawn(|world| fill(world, ["cell-b1", "cell-b2"])),
        world.spawn(|world| {
            while world.told() < 4 {
                world.db.trim().unwrap();
                thread::yield_now();
            }
        }),
    ]);
    world.settle();
}

fn fill(world: &World, names: [&str; 2]) {
    for name in names {
        world.answered(name, world.db.execute(set_large(name, 8 << 10)));
        assert!(world.db.cells().get(name).unwrap().is_some(), "{name} is gone");
    }
}

/// More transactions than may be in flight. Some fail, and some are submitted in callbacks.
pub fn room() {
    let world = World::new();
    join([
        world.spawn(|world| world.execute_all(&["cell-a1", "cell-a2", "cell-a3", "cell-a4"])),
        world.spawn(|world| {
            let tickets = ["cell-b1", "cell-b2"].map(|name| (name, world.db.submit(set(name))));
            for (name, ticket) in tickets {
                world.answered(name, ticket.wait());
            }
        }),
        world.spawn(|world| {
            for _ in 0..3 {
                let refused = world.db.execute(never()).unwrap_err();
                assert_eq!(refused.code(), Code::GuardFailed);
            }
        }),
        world.spawn(|world| {
            let own = world.clone();
            world.db.submit_with(set("cell-c1"), move |answer| {
                own.answered("cell-c1", answer);
                let inner = own.clone();
                own.db.submit_with(set("cell-c2"), move |answer| {
                    inner.answered("cell-c2", answer);
                });
            });
        }),
    ]);
    // When the first sync is over, the first callback has submitted the second transaction.
    world.db.sync().unwrap();
    world.db.wait_for(8, FOR_EVER).unwrap();
    world.close();
    assert_eq!(world.told(), 8);
}

/// A transaction whose guard never holds.
fn never() -> Transaction {
    let name = Name::new("nothing").unwrap();
    let guard = Guard::Counter { name: name.clone(), is: Some(7) };
    Transaction::new().guard(guard).step(CellCommand::set(name, 1))
}
