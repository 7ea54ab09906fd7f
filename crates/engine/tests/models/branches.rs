//! Branches come and go beside readers; transactions that conflict take turns.

use crate::checker::holds;
use crate::world::{World, join};
use mainstay::{At, Code, Database};

#[test]
fn a_branch_is_there_as_a_whole_or_not_at_all() {
    holds("branches", branches);
}

#[test]
fn of_transactions_that_conflict_nothing_is_lost() {
    holds("conflicts", conflicts);
}

/// One forks, deletes and forks again, others write to the parent and read.
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

/// Whoever sees the branch sees its parent as of the fork.
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

/// Two add to one cell, each by what it has read.
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
