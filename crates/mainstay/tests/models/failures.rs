//! A failed sync makes the database read-only. A full disk undoes writes and recovers. Every write is
//! answered in both cases.

use crate::checker::holds;
use crate::world::{World, join, set};
use mainstay::{Code, Filter};
use std::time::Duration;

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_everybody_is_answered() {
    holds("broken", broken);
}

#[test]
fn a_full_disk_takes_back_what_it_has_to_and_goes_on() {
    holds("full", full);
}

/// The second sync fails.
pub fn broken() {
    let world = World::new();
    world.disk.break_in(2);
    join([
        world.spawn(|world| ["cell-a1", "cell-a2"].iter().for_each(|name| world.execute(name))),
        world.spawn(|world| world.execute_all(&["cell-b1", "cell-b2", "cell-b3"])),
        world.spawn(|world| {
            let ticket = world.db.submit(set("cell-c1"));
            world.answered("cell-c1", ticket.wait());
        }),
        world.spawn(|world| (0..3).for_each(|_| world.look())),
    ]);
    let late = world.db.execute(set("cell-d1"));
    // If all writes shared one sync, this write causes the second one.
    let code = late.unwrap_err().code();
    assert!(matches!(code, Code::SyncFailed | Code::UnknownOutcome), "{code:?}");
    assert_eq!(world.db.execute(set("cell-d2")).unwrap_err().code(), Code::SyncFailed);
    world.look();
    assert_eq!(world.told() as u64, world.db.revision());
}

/// The second write finds no space, but later ones do.
pub fn full() {
    let world = World::new();
    world.disk.run_full_in(2);
    join([
        world.spawn(|world| ["cell-a1", "cell-a2"].iter().for_each(|name| world.execute(name))),
        world.spawn(|world| world.execute_all(&["cell-b1", "cell-b2", "cell-b3"])),
        world.spawn(|world| world.execute("cell-c1")),
        world.spawn(|world| (0..3).for_each(|_| world.look())),
    ]);
    // All writes may have shared one log write.
    let _ = world.db.execute(set("cell-d1"));
    let went_on = world.db.execute(set("cell-d2"));
    assert!(world.answered("cell-d2", went_on), "nothing is written any more");
    world.settle();
    taken_back_is_gone(&world);
}

/// A write that is refused because of a full disk is known to be undone.
fn taken_back_is_gone(world: &World) {
    let mut feed = world.db.watch(Filter::default(), 0).unwrap();
    let mut logged = 0;
    while let Some(event) = feed.next(Duration::ZERO).unwrap() {
        logged += usize::from(event.key != "cell-d1");
    }
    assert_eq!(logged, world.told());
}
