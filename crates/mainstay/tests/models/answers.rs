//! Every submitted transaction is answered exactly once, for every way to wait and whatever happens
//! meanwhile.

use crate::checker::{holds, repeats};
use crate::world::{World, join, set};
use mainstay::Code;
use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;

#[test]
fn whoever_waits_is_answered_however_they_wait() {
    holds("mixed", mixed);
}

#[test]
fn whoever_comes_while_the_writer_is_held_is_answered() {
    holds("held", held);
}

#[test]
fn whoever_comes_while_it_is_closed_is_answered() {
    holds("closing", closing);
}

#[test]
fn callbacks_may_execute_submit_and_close() {
    holds("callbacks", callbacks);
}

#[test]
fn many_who_execute_are_answered() {
    holds("crowd", crowd);
}

#[test]
fn two_who_execute_are_answered() {
    holds("pair", pair);
}

/// Without this, a failing schedule could not be reproduced.
#[test]
fn a_schedule_can_be_repeated() {
    repeats(mixed);
}

/// All ways to wait, at the same time.
pub fn mixed() {
    let world = World::new();
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    join([
        world.spawn(|world| ["cell-a1", "cell-a2"].iter().for_each(|name| world.execute(name))),
        world.spawn(|world| world.execute_all(&["cell-b1", "cell-b2", "cell-b3"])),
        world.spawn(|world| {
            let ticket = world.db.submit(set("cell-c1"));
            let awaited = world.db.submit(set("cell-c2"));
            world.answered("cell-c1", ticket.wait());
            world.answered("cell-c2", block_on(awaited));
        }),
        world.spawn(move |world| {
            let own = world.clone();
            world.db.submit_with(set("cell-d1"), move |answer| {
                own.answered("cell-d1", answer);
                // SeqCst, because the scheduler explores sequentially consistent orders only.
                count.fetch_add(1, Ordering::SeqCst);
            });
        }),
    ]);
    // When this sync returns, everything submitted before is done.
    world.db.sync().unwrap();
    world.close();
    assert_eq!(called.load(Ordering::SeqCst), 1);
    assert_eq!((world.told(), world.db.revision()), (8, 8));
}

/// A thread takes the executor repeatedly for a moment, while others wait for it.
pub fn held() {
    let world = World::new();
    join([
        world.spawn(|world| ["cell-a1", "cell-a2"].iter().for_each(|name| world.execute(name))),
        world.spawn(|world| world.execute("cell-b1")),
        world.spawn(|world| {
            for _ in 0..3 {
                world.db.now_us().unwrap();
            }
        }),
    ]);
    assert_eq!(world.told(), 3);
    world.settle();
}

/// Writers beside only the log thread: rounds, groups and gathering.
pub fn crowd() {
    let world = World::new();
    let names = [["cell-a1", "cell-a2"], ["cell-b1", "cell-b2"], ["cell-c1", "cell-c2"]];
    join(
        names.map(|names| {
            world.spawn(move |world| names.iter().for_each(|name| world.execute(name)))
        }),
    );
    assert_eq!(world.told(), 6);
    world.settle();
}

/// Two writers only, so no later writer would finish work that was forgotten.
pub fn pair() {
    let world = World::new();
    join(["cell-a1", "cell-b1"].map(|name| world.spawn(move |world| world.execute(name))));
    assert_eq!(world.told(), 2);
    world.settle();
}

/// Some writes come after the close and are refused. Acknowledged writes are there.
pub fn closing() {
    let world = World::new();
    join([
        world.spawn(|world| ["cell-a1", "cell-a2"].iter().for_each(|name| world.execute(name))),
        world.spawn(|world| world.execute_all(&["cell-b1", "cell-b2", "cell-b3"])),
        world.spawn(|world| {
            let ticket = world.db.submit(set("cell-c1"));
            world.answered("cell-c1", ticket.wait());
        }),
        world.spawn(|world| world.db.close().unwrap()),
        world.spawn(|world| world.db.close().unwrap()),
    ]);
    let refused = world.db.execute(set("cell-d1")).unwrap_err();
    assert_eq!(refused.code(), Code::Closed);
    assert_eq!(world.db.revision(), world.told() as u64);
    assert_eq!(world.db.durable_revision(), world.disk.count());
}

/// Callbacks also run on the log thread, which must not wait for itself.
pub fn callbacks() {
    let world = World::new();
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    join([
        world.spawn(move |world| {
            let own = world.clone();
            world.db.submit_with(set("cell-a1"), move |answer| {
                own.answered("cell-a1", answer);
                own.execute("cell-a2");
                let inner = own.clone();
                let count = count.clone();
                own.db.submit_with(set("cell-a3"), move |answer| {
                    inner.answered("cell-a3", answer);
                    count.fetch_add(1, Ordering::SeqCst);
                    inner.db.close().unwrap();
                });
            });
        }),
        world.spawn(|world| world.execute("cell-b1")),
        world.spawn(|world| world.execute_all(&["cell-c1", "cell-c2"])),
    ]);
    // A close during a callback may return before the callback ends.
    while called.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    world.close();
}
