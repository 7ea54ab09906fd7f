//! A user limited to some keys, through every handle: no other key is read, written or revealed.

use crate::world::{PASSWORD, World, user};
use mainstay::remote::{AsyncDatabase, Options};
use mainstay::{
    At, CellCommand, Code, Database, Error, Filter, Guard, InteractiveTransaction, KeyedState,
    MergeStrategy, Name, RecordPick, RequestId, Result, Step, Transaction, Ttl,
};
use std::time::Duration;

/// An operation through a handle, with its name.
type Attempt = (&'static str, fn(&Database) -> Result<()>);

pub fn options(world: &World, user: &str) -> Options {
    Options::new(&world.resp.to_string()).login(user, PASSWORD)
}

pub fn connect(world: &World, user: &str) -> Database {
    options(world, user).connect().unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn set(text: &str) -> Transaction {
    Transaction::new().step(CellCommand::set(name(text), 1))
}

fn first(db: &Database, filter: Filter) -> Result<()> {
    db.watch(filter, 0)?.next(Duration::ZERO).map(drop)
}

fn prefixed(prefix: &str) -> Filter {
    Filter { prefix: Some(prefix.to_owned()), ..Filter::default() }
}

fn keyed(key: &str) -> Filter {
    Filter { key: Some(key.to_owned()), ..Filter::default() }
}

fn inside<T>(
    db: &Database,
    work: impl FnOnce(&mut InteractiveTransaction) -> Result<T>,
) -> Result<()> {
    let mut open = db.begin()?;
    let worked = work(&mut open).map(drop);
    // A rejected command leaves the transaction open, and is not part of it.
    open.commit()?;
    worked
}

fn range(prefix: &str) -> Guard {
    let prefix = prefix.to_owned();
    Guard::RangeUnchanged {
        contract: mainstay::Contract::Cells,
        prefix,
        after: None,
        upto: None,
        since: 0,
        expires: None,
    }
}

fn value(key: &str) -> Guard {
    Guard::Value { name: name(key), is: Some("secret-value".into()) }
}

fn counter(key: &str) -> Guard {
    Guard::Counter { name: name(key), is: None }
}

fn unchanged(key: &str) -> Guard {
    Guard::Unchanged {
        contract: mainstay::Contract::Cells,
        name: name(key),
        since: 0,
        expires: None,
    }
}

/// Operations that a user limited to `app:` must not do, although it has all permissions.
const OUTSIDE: &[Attempt] = &[
    ("get", |db| db.cells().get("other").map(drop)),
    ("get the beginning", |db| db.cells().get("ap").map(drop)),
    ("get versioned", |db| db.cells().get_versioned("other").map(drop)),
    ("get as", |db| db.cells().get_as::<String>("other").map(drop)),
    ("get many", |db| db.cells().get_many(&["app:a", "other"]).pop().unwrap().map(drop)),
    ("init", |db| db.cells().init("other", 1).map(drop)),
    ("set", |db| db.cells().set("other", 1).map(drop)),
    ("set with", |db| db.cells().set_with("other", 1, Ttl::Millis(1)).map(drop)),
    ("cas", |db| db.cells().cas("other", Some(1), 1).map(drop)),
    ("delete", |db| db.cells().delete("other").map(drop)),
    ("delete if", |db| db.cells().delete_if("other", 1).map(drop)),
    ("incr", |db| db.cells().incr("other", 1).map(drop)),
    ("expire", |db| db.cells().expire("other", Ttl::Millis(1)).map(drop)),
    ("batch", |db| {
        db.cells().batch(vec![CellCommand::set(name("other"), 1)]).pop().unwrap().map(drop)
    }),
    ("history", |db| db.cells().history("other", 10, None).map(drop)),
    ("list", |db| db.cells().list("", None, 10).map(drop)),
    ("list the beginning", |db| db.cells().list("ap", Some("app:"), 10).map(drop)),
    ("get then", |db| db.cells().at(At::Revision(1))?.get("other").map(drop)),
    ("list then", |db| db.cells().at(At::Revision(1))?.list("", None, 10).map(drop)),
    ("history then", |db| db.cells().at(At::Revision(1))?.history("other", 9, None).map(drop)),
    ("get elsewhere", |db| db.branch("trial")?.cells().get("other").map(drop)),
    ("record", |db| db.records().get("other").map(drop)),
    ("field", |db| db.records().get_field("other", "f").map(drop)),
    ("record history", |db| db.records().history("other", 9, None).map(drop)),
    ("scan", |db| db.records().scan("", &[], None, 9).map(drop)),
    ("scan the beginning", |db| db.records().scan("ap", &[], Some("app:"), 9).map(drop)),
    ("count", |db| db.records().count("ap", &[]).map(drop)),
    ("explain", |db| db.records().explain("ap", &[]).map(drop)),
    ("indexes", |db| db.records().indexes().map(drop)),
    ("add an index", |db| db.records().add_index("app:", &["f"]).map(drop)),
    ("drop an index", |db| db.records().drop_index(1).map(drop)),
    ("record then", |db| db.records().at(At::Latest)?.get("other").map(drop)),
    ("scan then", |db| db.records().at(At::Latest)?.scan("", &[], None, 9).map(drop)),
    ("count then", |db| db.records().at(At::Latest)?.count("ap", &[]).map(drop)),
    ("history then", |db| db.records().at(At::Latest)?.history("other", 9, None).map(drop)),
    ("record elsewhere", |db| db.branch("trial")?.records().get("other").map(drop)),
    ("put fields", |db| db.records().set_field("other", "f", "1").map(drop)),
    ("swap", |db| db.records().compare_and_swap("other", "f", "1", "2").map(drop)),
    ("pick", |db| db.records().pick(RecordPick::under("ap", Vec::new())).map(drop)),
    ("expire a record", |db| db.records().expire("other", Ttl::Clear).map(drop)),
    ("delete a record", |db| db.records().delete("other").map(drop)),
    ("a state", |db| db.keyed("other")?.get("app:a").map(drop)),
    ("a state then", |db| db.keyed("other")?.at(At::Latest)?.get("app:a").map(drop)),
    ("a state in a view", |db| db.cells().at(At::Latest)?.keyed("other")?.get("k").map(drop)),
    ("states", |db| db.keyed("other")?.scan(b"app:", None, 9).map(drop)),
    ("spaces", |db| db.spaces("ap", None, 9).map(drop)),
    ("a snapshot", |db| db.keyed("other")?.snapshot().map(drop)),
    ("put a state", |db| db.keyed("other")?.put("app:a", "1", 1).map(drop)),
    ("seal", |db| db.keyed("other")?.seal(1).map(drop)),
    ("restore", |db| db.keyed("other")?.restore(&db.keyed("app:s")?.snapshot()?).map(drop)),
    ("drop a space", |db| db.keyed("other")?.clear().map(drop)),
    ("execute", |db| db.execute(set("app:a").step(CellCommand::set(name("other"), 1))).map(drop)),
    ("execute all", |db| db.execute_all(vec![set("other")]).pop().unwrap().map(drop)),
    ("submit", |db| db.submit(set("other")).wait().map(drop)),
    ("submit with", |db| {
        let (done, told) = std::sync::mpsc::channel();
        db.submit_with(set("other"), move |result| done.send(result).unwrap());
        told.recv().unwrap().map(drop)
    }),
    ("read in a transaction", |db| {
        db.execute(Transaction::new().step(CellCommand::Get { name: name("other") })).map(drop)
    }),
    ("guard a value", |db| db.execute(set("app:a").guard(value("other"))).map(drop)),
    ("guard a counter", |db| db.execute(set("app:a").guard(counter("other"))).map(drop)),
    ("guard a change", |db| db.execute(set("app:a").guard(unchanged("other"))).map(drop)),
    ("guard a range", |db| db.execute(set("app:a").guard(range(""))).map(drop)),
    ("otherwise", |db| {
        let otherwise: Vec<Step> = set("other").steps.into_iter().collect();
        db.execute(set("app:b").guard(value("app:b")).otherwise(otherwise)).map(drop)
    }),
    ("get inside", |db| inside(db, |open| open.get("other"))),
    ("list inside", |db| inside(db, |open| open.list("", None, 10))),
    ("set inside", |db| inside(db, |open| open.set("other", 1))),
    ("incr inside", |db| inside(db, |open| open.incr("other", 1))),
    ("delete inside", |db| inside(db, |open| open.delete("other"))),
    ("get on a connection", |db| db.connection().get("other").map(drop)),
    ("watch", |db| first(db, Filter::default())),
    ("watch the beginning", |db| first(db, prefixed("ap"))),
    ("watch a key", |db| first(db, keyed("other"))),
    ("watch a key by a prefix of one's own", |db| {
        first(db, Filter { prefix: Some("app:".into()), ..keyed("other") })
    }),
    ("fork", |db| db.fork("app:x", "main", At::Latest).map(drop)),
    ("delete a branch", |db| db.delete_branch("trial").map(drop)),
    ("rename a branch", |db| db.rename_branch("trial", "app:x")),
    ("merge", |db| db.merge("trial", "main", MergeStrategy::Strict).map(drop)),
    ("tag", |db| db.tag("app:t", "main", At::Latest).map(drop)),
    ("untag", |db| db.untag("secret-tag").map(drop)),
    ("diff", |db| db.diff("main", "trial").map(drop)),
    ("export hash", |db| db.export_hash("main").map(drop)),
    ("sweep", |db| db.sweep().map(drop)),
    ("trim", |db| db.trim()),
];

/// Operations that it may do.
const INSIDE: &[Attempt] = &[
    ("init", |db| db.cells().init("app:i", 1).map(drop)),
    ("set", |db| db.cells().set("app:a", 1).map(drop)),
    ("cas", |db| db.cells().cas("app:a", None, 1).map(drop)),
    ("incr", |db| db.cells().incr("app:a", 1).map(drop)),
    ("expire", |db| db.cells().expire("app:i", Ttl::Millis(100_000)).map(drop)),
    ("delete", |db| db.cells().delete("app:i").map(drop)),
    ("get", |db| db.cells().get("app:a").map(|value| assert_eq!(value, Some(2.into())))),
    ("get many", |db| db.cells().get_many(&["app:a", "app:b"]).into_iter().try_for_each(shut)),
    ("history", |db| db.cells().history("app:a", 9, None).map(|all| assert_eq!(all.len(), 2))),
    ("list", |db| db.cells().list("app:", None, 9).map(|page| assert_eq!(page.names, ["app:a"]))),
    ("then", |db| {
        let then = db.cells().at(At::Latest)?;
        assert_eq!(then.get("app:a")?, Some(2.into()));
        assert_eq!(then.history("app:a", 9, None)?.len(), 2);
        then.list("app:", None, 10).map(|page| assert_eq!(page.names, ["app:a"]))
    }),
    ("put fields", |db| db.records().set_field("app:r", "f", "1").map(drop)),
    ("swap", |db| db.records().compare_and_swap("app:r", "f", "1", "2").map(|did| assert!(did))),
    ("pick", |db| {
        let pick = RecordPick::under("app:", Vec::new()).set("f", "3")?;
        db.records().pick(pick).map(|picked| assert_eq!(picked.unwrap().0, "app:r"))
    }),
    ("field", |db| {
        db.records().get_field("app:r", "f").map(|value| assert_eq!(value, Some(b"3".to_vec())))
    }),
    ("scan", |db| {
        db.records().scan("app:", &[], None, 9).map(|page| assert_eq!(page.records.len(), 1))
    }),
    ("explain", |db| db.records().explain("app:", &[]).map(drop)),
    ("elsewhere", |db| db.branch("trial")?.cells().set("app:a", 1).map(drop)),
    ("execute", |db| {
        db.execute(set("app:b").guard(counter("app:b")).guard(range("app:b"))).map(drop)
    }),
    ("a state", |db| {
        let space = db.keyed("app:s")?;
        space.put("other", "1", 1)?;
        space.restore(&space.snapshot()?)?;
        db.spaces("app:", None, 9).map(|page| assert_eq!(page.names, ["app:s"]))
    }),
    ("submit", |db| db.submit(set("app:b")).wait().map(drop)),
    ("inside", |db| {
        inside(db, |open| {
            assert_eq!(open.list("app:", None, 10)?.names, ["app:a", "app:b"]);
            open.get("app:a")?;
            open.incr("app:a", 1)?;
            open.delete("app:b")
        })
    }),
    ("on a connection", |db| db.connection().get("app:a").map(drop)),
    ("watch", |db| first(db, prefixed("app:"))),
    ("watch a key", |db| first(db, keyed("app:a"))),
    ("branches", |db| db.try_branches().map(|all| assert_eq!(all.len(), 2))),
    ("tags", |db| db.try_tags().map(|all| assert_eq!(all.len(), 1))),
    ("pins", |db| db.try_pins().map(drop)),
    ("stats", |db| db.try_stats().map(drop)),
    ("revision", |db| db.try_revision().map(drop)),
    ("sync", |db| db.sync().map(drop)),
    ("stamp", |db| db.stamp_of(1).map(drop)),
    ("resolve", |db| db.resolve(At::Revision(1)).map(drop)),
];

fn shut<T>(result: Result<T>) -> Result<()> {
    result.map(drop)
}

/// Starts a server with keys that do not belong to the user.
fn world() -> World {
    let world = World::new();
    world.db.cells().set("other", "secret-value").unwrap();
    world.db.records().set_field("other", "f", "secret-field").unwrap();
    world.db.fork("trial", "main", At::Latest).unwrap();
    world.db.branch("trial").unwrap().cells().set("other", "secret-too").unwrap();
    world.db.tag("secret-tag", "main", At::Latest).unwrap();
    world
}

fn assert_refused(what: &str, refused: Result<()>) {
    let error = refused.expect_err(what);
    assert_eq!(error.code(), Code::Forbidden, "{what}: {error}");
    assert!(error.message().contains("User app has no permissions"), "{what}: {error}");
    assert!(!error.message().contains("secret"), "{what}: {error}");
}

#[test]
fn every_handle_stays_inside_the_prefix() {
    let world = world();
    let app = connect(&world, "app");
    let before = world.db.revision();
    for (what, attempt) in OUTSIDE {
        assert_refused(what, attempt(&app));
    }
    assert_eq!(world.db.revision(), before, "nothing of it was done");
    for (what, attempt) in INSIDE {
        attempt(&app).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

#[test]
fn the_feed_of_a_prefix_tells_of_its_keys_and_of_no_branch() {
    let world = world();
    world.db.fork("app:branch", "main", At::Latest).unwrap();
    world.db.tag("app:tag", "main", At::Latest).unwrap();
    world.db.cells().set("app:a", 1).unwrap();
    let keys = |user: &str| {
        let mut feed = connect(&world, user).watch(prefixed("app:"), 0).unwrap();
        std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap().map(|event| event.key))
            .collect::<Vec<_>>()
    };
    assert_eq!(keys("app"), ["app:a"]);
    assert_eq!(keys("default"), ["app:branch", "app:tag", "app:a"]);
}

#[tokio::test]
async fn handles_to_be_awaited_stay_inside_too() {
    let world = world();
    let db: AsyncDatabase = options(&world, "app").connect_async().await.unwrap();
    assert_refused("get", db.cells().get("other").await.map(drop));
    assert_refused("set", db.cells().set("other", 1).await.map(drop));
    let then = db.cells().at(At::Latest).await.unwrap();
    assert_refused("then", then.get("other").await.map(drop));
    let mut open = db.begin().await.unwrap();
    assert_refused("inside", open.get("other").await.map(drop));
    open.set("app:a", 1).await.unwrap();
    open.commit().await.unwrap();
    assert_eq!(db.cells().get("app:a").await.unwrap(), Some(1.into()));
}

#[test]
fn whoever_does_not_say_who_it_is_gets_nowhere() {
    let world = world();
    let told = |options: Options| -> Error { options.connect().map(drop).unwrap_err() };
    let address = world.resp.to_string();
    for options in [
        Options::new(&address),
        Options::new(&address).login("app", "wrong"),
        Options::new(&address).login("nobody of ours", PASSWORD),
    ] {
        let error = told(options);
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
        assert!(error.message().contains("Options::login"), "{error}");
        assert!(!error.message().contains("wrong"), "{error}");
    }
    assert_eq!(told(options(&world, "nobody")).code(), Code::Forbidden);
}

#[test]
fn a_request_id_of_one_user_tells_another_nothing() {
    let world = World::with(|settings| settings.users.push(user("other", &["cells"], &[""])));
    for user in ["default", "other"] {
        let db = connect(&world, user);
        let request = || set("a").request(RequestId::new("order-7").unwrap());
        assert!(!db.execute(request()).unwrap().repeated, "{user}");
        assert!(db.execute(request()).unwrap().repeated, "{user}");
    }
}
