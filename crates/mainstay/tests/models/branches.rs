//! Branches that come and go beside readers, and transactions that conflict.

use crate::checker::holds;
use crate::world::{World, join};
use mainstay::{At, BranchCommand, Code, Database, Durability, Name, Transaction};
use std::time::Duration;

#[test]
fn a_branch_is_there_as_a_whole_or_not_at_all() {
    holds("branches", branches);
}

#[test]
fn of_transactions_that_conflict_nothing_is_lost() {
    holds("conflicts", conflicts);
}

#[test]
fn what_a_branch_needed_stays_until_its_removal_is_synced() {
    holds("floors", floors);
}

/// One thread deletes a branch without waiting for a sync, and another one trims.
pub fn floors() {
    let world = World::with(1 << 20, |options| options.retention(Duration::ZERO));
    world.execute("cell-a1");
    let forked = world.db.fork("side", "main", At::Latest).unwrap();
    world.execute("cell-a2");
    join([
        world.spawn(|world| world.db.trim().unwrap()),
        world.spawn(|world| {
            let delete = BranchCommand::Delete { name: Name::new("side").unwrap() };
            let delete = Transaction::new().step(delete).durability(Durability::Memory);
            world.db.execute(delete).unwrap();
        }),
    ]);
    let deleted = world.db.revision();
    let durable = world.db.stats().durable;
    let past = world.db.cells().at(At::Revision(forked)).and_then(|past| past.get("cell-a1"));
    match past {
        Ok(found) => assert!(found.is_some(), "it is gone without a word"),
        Err(error) => {
            assert_eq!(error.code(), Code::HistoryTrimmed);
            assert!(durable >= deleted, "let go of before its removal was synced");
        }
    }
}

/// One thread forks, deletes and forks again, while others write to the parent and read.
pub fn branches() {
    let world = World::new();
    world.execute("cell-a1");
    join([
        world.spawn(|world| {
            world.db.fork("side", "main", At::Revision(1)).unwrap();
            world.db.delete_branch("side").unwrap();
        }),
        world.spawn(|world| world.execute("cell-a2")),
        world.spawn(|world| (0..3).for_each(|_| read_side(&world.db))),
    ]);
    let gone = world.db.branch("side").err().expect("it was deleted");
    assert_eq!(gone.code(), Code::BranchNotFound);
}

/// A reader that sees the branch must see its parent as of the fork.
fn read_side(db: &Database) {
    let read = |name| db.branch("side").and_then(|side| side.cells().get(name));
    for (name, is_there) in [("cell-a1", true), ("cell-a2", false)] {
        match read(name) {
            Ok(found) => assert_eq!(found.is_some(), is_there, "{name} on the branch"),
            Err(error) => assert_eq!(error.code(), Code::BranchNotFound, "{error}"),
        }
    }
    assert!(db.cells().get("cell-a1").unwrap().is_some(), "the parent is always there");
}

/// Two threads add to one cell by read, modify, write.
pub fn conflicts() {
    let world = World::new();
    join(["first", "other"].map(|_| {
        world.spawn(|world| {
            let added = world.db.transaction(|t| {
                let before = t.get("cell-nn")?.and_then(|value| value.as_i64()).unwrap_or(0);
                t.set("cell-nn", before + 1)
            });
            added.unwrap();
        })
    }));
    assert_eq!(world.db.cells().get("cell-nn").unwrap(), Some(2.into()));
}
