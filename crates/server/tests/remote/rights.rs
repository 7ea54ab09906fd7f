//! The operations that each permission allows for the remote client.

use crate::limited::connect;
use crate::world::{World, user};
use mainstay::{
    At, CellCommand, Code, Database, FieldValue, Filter, Guard, Name, RecordPick, Result,
    Transaction, Ttl,
};
use std::time::Duration;

/// An operation with its name and the users who may do it. `default` always may.
type Attempt = (&'static str, fn(&Database) -> Result<()>, &'static [&'static str]);

/// Users with some permissions. All of them have all keys, if keys matter.
const USERS: [&str; 10] = [
    "reader", "writer", "keeper", "taker", "giver", "figures", "watcher", "names", "admin",
    "changer",
];

/// Users with any permission on cells or records.
const DATA: &[&str] = &["reader", "writer", "keeper", "taker", "giver"];
/// The same users, and those with permissions on branches.
const BRANCHES: &[&str] = &["reader", "writer", "keeper", "taker", "giver", "names", "changer"];
/// Users who may read records.
const TAKERS: &[&str] = &["reader", "keeper", "taker"];
/// Users who may write records without reading them.
const GIVERS: &[&str] = &["keeper", "giver"];
/// Users who may do both.
const KEEPERS: &[&str] = &["keeper"];

fn name() -> Name {
    Name::new("a").unwrap()
}

fn guarded() -> Transaction {
    let guard = Guard::Counter { name: name(), is: Some(7) };
    Transaction::new().guard(guard).step(CellCommand::set(name(), 1)).otherwise(Vec::new())
}

fn pick() -> RecordPick {
    RecordPick::under("none", Vec::new()).set("f", "1").unwrap()
}

fn guarded_record() -> Transaction {
    Transaction::new().guard(Guard::Record { key: name(), is: None })
}

const ATTEMPTS: &[Attempt] = &[
    ("get", |db| db.cells().get("a").map(drop), &["reader"]),
    ("history", |db| db.cells().history("a", 9, None).map(drop), &["reader"]),
    ("list", |db| db.cells().list("", None, 9).map(drop), &["reader"]),
    ("set", |db| db.cells().set("a", 1).map(drop), &["writer"]),
    ("delete", |db| db.cells().delete("a").map(drop), &["writer"]),
    ("incr", |db| db.cells().incr("n", 1).map(drop), &[]),
    ("a guard", |db| db.execute(guarded()).map(drop), &[]),
    ("a view", |db| db.cells().at(At::Latest).map(drop), DATA),
    ("get then", |db| db.cells().at(At::Latest)?.get("a").map(drop), &["reader"]),
    ("list then", |db| db.cells().at(At::Latest)?.list("", None, 9).map(drop), &["reader"]),
    ("begin", |db| db.begin()?.commit().map(drop), DATA),
    ("get inside", |db| db.begin()?.get("a").map(drop), &["reader"]),
    ("set inside", |db| db.begin()?.set("a", 1).map(drop), &["writer"]),
    ("record", |db| db.records().get("r").map(drop), TAKERS),
    ("field", |db| db.records().get_field("r", "f").map(drop), TAKERS),
    ("record history", |db| db.records().history("r", 9, None).map(drop), TAKERS),
    ("scan", |db| db.records().scan("", &[], None, 9).map(drop), TAKERS),
    ("count", |db| db.records().count("", &[]).map(drop), TAKERS),
    ("explain", |db| db.records().explain("", &[]).map(drop), TAKERS),
    ("indexes", |db| db.records().indexes().map(drop), TAKERS),
    ("record then", |db| db.records().at(At::Latest)?.get("r").map(drop), TAKERS),
    ("scan then", |db| db.records().at(At::Latest)?.scan("", &[], None, 9).map(drop), TAKERS),
    ("count then", |db| db.records().at(At::Latest)?.count("", &[]).map(drop), TAKERS),
    ("history then", |db| db.records().at(At::Latest)?.history("r", 9, None).map(drop), TAKERS),
    ("set field", |db| db.records().set_field("r", "f", "1").map(drop), GIVERS),
    ("expire record", |db| db.records().expire("r", Ttl::Clear).map(drop), GIVERS),
    ("delete record", |db| db.records().delete("none").map(drop), GIVERS),
    ("sum", |db| db.records().set_field("r", "n", FieldValue::Sum { by: 1 }).map(drop), KEEPERS),
    ("swap", |db| db.records().compare_and_swap("r", "f", "1", "1").map(drop), KEEPERS),
    ("pick", |db| db.records().pick(pick()).map(drop), KEEPERS),
    ("a guard on a record", |db| db.execute(guarded_record()).map(drop), TAKERS),
    ("drop index", |db| db.records().drop_index(9).map(drop), &["admin"]),
    (
        "watch",
        |db| db.watch(Filter::default(), 0)?.next(Duration::ZERO).map(drop),
        &["reader", "watcher"],
    ),
    ("a branch", |db| db.branch("main").map(drop), BRANCHES),
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
            user("taker", &["records:read"], &[""]),
            user("giver", &["records:write"], &[""]),
            user("figures", &["server:read"], &[]),
            user("watcher", &["feed:read"], &[""]),
            user("names", &["branches:read"], &[""]),
            user("changer", &["branches"], &[""]),
            user("admin", &["admin"], &[""]),
        ]);
    });
    world.db.cells().set("a", 1).unwrap();
    world.db.records().set_field("r", "f", "1").unwrap();
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
