//! What each right opens to the remote client, and to nobody else.

use crate::limited::connect;
use crate::world::{World, user};
use mainstay::{At, CellCommand, Code, Database, Filter, Guard, Name, Result, Transaction};
use std::time::Duration;

/// What is wanted, how, and who may; `default` always may.
type Attempt = (&'static str, fn(&Database) -> Result<()>, &'static [&'static str]);

/// Those with some rights. All have all keys, where keys matter.
const USERS: [&str; 7] = ["reader", "writer", "figures", "watcher", "names", "admin", "changer"];

fn name() -> Name {
    Name::new("a").unwrap()
}

fn guarded() -> Transaction {
    let guard = Guard::Counter { name: name(), is: Some(7) };
    Transaction::new().guard(guard).step(CellCommand::set(name(), 1)).otherwise(Vec::new())
}

const ATTEMPTS: &[Attempt] = &[
    ("get", |db| db.cells().get("a").map(drop), &["reader"]),
    ("history", |db| db.cells().history("a", 9, None).map(drop), &["reader"]),
    ("list", |db| db.cells().list("", None, 9).map(drop), &["reader"]),
    ("set", |db| db.cells().set("a", 1).map(drop), &["writer"]),
    ("delete", |db| db.cells().delete("a").map(drop), &["writer"]),
    ("incr", |db| db.cells().incr("n", 1).map(drop), &[]),
    ("a guard", |db| db.execute(guarded()).map(drop), &[]),
    ("a view", |db| db.cells().at(At::Latest).map(drop), &["reader", "writer"]),
    ("get then", |db| db.cells().at(At::Latest)?.get("a").map(drop), &["reader"]),
    ("list then", |db| db.cells().at(At::Latest)?.list("", None, 9).map(drop), &["reader"]),
    ("begin", |db| db.begin()?.commit().map(drop), &["reader", "writer"]),
    ("get inside", |db| db.begin()?.get("a").map(drop), &["reader"]),
    ("set inside", |db| db.begin()?.set("a", 1).map(drop), &["writer"]),
    (
        "watch",
        |db| db.watch(Filter::default(), 0)?.next(Duration::ZERO).map(drop),
        &["reader", "watcher"],
    ),
    ("a branch", |db| db.branch("main").map(drop), &["reader", "writer", "names", "changer"]),
    ("branches", |db| db.try_branches().map(drop), &["reader", "names", "changer"]),
    ("tags", |db| db.try_tags().map(drop), &["reader", "names", "changer"]),
    ("diff", |db| db.diff("main", "main").map(drop), &["reader", "names", "changer"]),
    ("untag", |db| db.untag("t").map(drop), &["changer"]),
    ("pins", |db| db.try_pins().map(drop), &["reader"]),
    ("stats", |db| db.try_stats().map(drop), &["reader", "figures"]),
    ("export hash", |db| db.export_hash("main").map(drop), &["reader", "admin"]),
    ("sweep", |db| db.sweep().map(drop), &["admin"]),
    ("trim", |db| db.trim(), &["admin"]),
    ("revision", |db| db.try_revision().map(drop), &USERS),
];

#[test]
fn a_right_opens_what_it_is_for_and_nothing_else() {
    let world = World::with(|settings| {
        settings.users.extend([
            user("figures", &["server:read"], &[]),
            user("watcher", &["feed:read"], &[""]),
            user("names", &["branches:read"], &[""]),
            user("changer", &["branches"], &[""]),
            user("admin", &["admin"], &[""]),
        ]);
    });
    world.db.cells().set("a", 1).unwrap();
    for who in USERS {
        let db = connect(&world, who);
        for (what, attempt, allowed) in ATTEMPTS {
            match attempt(&db) {
                Ok(()) => assert!(allowed.contains(&who), "{who} may {what}"),
                Err(error) => {
                    assert_eq!(error.code(), Code::Forbidden, "{who} {what}: {error}");
                    assert!(!allowed.contains(&who), "{who} may not {what}: {error}");
                }
            }
        }
    }
    let root = connect(&world, "default");
    ATTEMPTS.iter().for_each(|(what, attempt, _)| attempt(&root).expect(what));
}
