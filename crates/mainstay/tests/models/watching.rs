//! Waiting for revisions: each waiter is woken, and learns only of durable revisions.

use crate::checker::holds;
use crate::world::{FOR_EVER, World, join, set, set_in_memory};
use mainstay::{Code, Filter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn whoever_waits_for_a_revision_is_woken() {
    holds("waiting", waiting);
}

#[test]
fn whoever_waits_can_be_interrupted() {
    holds("interrupted", interrupted);
}

#[test]
fn a_feed_is_woken_and_shows_durable_changes_alone() {
    holds("feeds", feeds);
}

#[test]
fn whoever_waits_is_woken_when_it_is_closed() {
    holds("waiting for the end", until_closed);
}

/// One thread waits for the last revision, one for any change, and one can be interrupted.
pub fn waiting() {
    let world = World::new();
    join([
        world.spawn(|world| world.execute("cell-a1")),
        world.spawn(|world| world.execute("cell-b1")),
        world.spawn(|world| {
            world.db.wait_for(2, FOR_EVER).unwrap();
            assert_eq!(world.disk.count(), 2);
        }),
        world.spawn(|world| {
            let mut reached = world.db.reached().unwrap();
            while reached.settled() < 2 {
                reached = world.db.wait_to_move(reached, FOR_EVER).unwrap();
                world.look();
            }
        }),
    ]);
    world.settle();
}

/// A thread that waits on behalf of others is interrupted.
pub fn interrupted() {
    let world = World::new();
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    join([
        world.spawn(move |world| {
            world.db.wait_for_unless(2, FOR_EVER, &stop).unwrap();
            // SeqCst, because the scheduler explores sequentially consistent orders only.
            assert!(stop.load(Ordering::SeqCst), "there is no second revision");
        }),
        world.spawn(|world| world.execute("cell-a1")),
        world.spawn(move |world| {
            told.store(true, Ordering::SeqCst);
            world.db.interrupt();
        }),
    ]);
}

/// A feed follows writes, some of which are synced later.
pub fn feeds() {
    let world = World::new();
    join([
        world.spawn(|world| world.execute("cell-a1")),
        world.spawn(|world| {
            world.db.execute(set_in_memory("cell-b1")).unwrap();
            world.db.sync().unwrap();
        }),
        world.spawn(|world| {
            let mut feed = world.db.watch(Filter::default(), 0).unwrap();
            for revision in 1..=2 {
                let event = feed.next(FOR_EVER).unwrap().expect("nothing ends a feed");
                assert_eq!(event.revision, revision);
                assert!(world.disk.holds(&event.key), "{} is not durable", event.key);
                assert!(world.db.cells().get(&event.key).unwrap().is_some(), "told too early");
            }
        }),
    ]);
    assert_eq!(world.disk.count(), 2);
}

/// The revisions that these threads wait for never come.
pub fn until_closed() {
    let world = World::new();
    join([
        world.spawn(|world| {
            let refused = world.db.wait_for(3, FOR_EVER).unwrap_err();
            assert_eq!(refused.code(), Code::Closed);
        }),
        world.spawn(|world| {
            let end = match world.db.watch(Filter::default(), 0) {
                Ok(mut feed) => (0..2).find_map(|_| feed.next(FOR_EVER).err()),
                Err(error) => Some(error),
            };
            assert_eq!(end.expect("there is one change at most").code(), Code::Closed);
        }),
        world.spawn(|world| {
            let answer = world.db.execute(set("cell-a1"));
            world.answered("cell-a1", answer);
        }),
        world.spawn(|world| world.db.close().unwrap()),
    ]);
}
