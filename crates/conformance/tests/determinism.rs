//! Determinism: the same script gives the same canonical hash.
//!
//! The hash is equal in memory and on disk, in every durability mode and on every machine, and after
//! rebuilding the database from the log.

use mainstay::{
    At, CellCommand, Database, Durability, FieldValue, Fields, HashCommand, MergeStrategy, Name,
    NewEvent, RecordWrite, Transaction, Ttl, Value,
};
use mainstay_conformance::TestDb;
use std::time::Duration;

/// The expected hashes of `main` and `dev` after the script. They change only with a deliberate change
/// of the export format.
const MAIN: &str = "568d035c6a4cb7b14907ccd644f0e7e6b63650740d59ed0b7a31cc92c8093ca5";
const DEV: &str = "2b57b84dfdbe41e3147200b2262bf0ddeddd2ca38f475c4efd57a82c7f8b8cd4";

const MODES: [Durability; 3] = [Durability::Memory, Durability::Interval, Durability::Sync];

/// A script that covers values of all types, transactions, branches, merges and expiry.
fn script(w: &TestDb) {
    for n in 0..200i64 {
        w.cells().set(&format!("k{:02}", n % 40), value(n)).unwrap();
        if n % 7 == 0 {
            w.cells().delete(&format!("k{:02}", n % 11)).unwrap();
        }
        w.pass_ms(1);
    }
    w.db().fork("dev", "main", At::Latest).unwrap();
    for n in 0..30i64 {
        let name = |text: String| Name::new(&text).unwrap();
        let transaction = Transaction::on(if n % 3 == 0 { "main" } else { "dev" })
            .step(CellCommand::Incr { name: name(format!("n{}", n % 4)), by: n.into() })
            .step(CellCommand::set(name(format!("t{}", n % 6)), n));
        w.db().execute(transaction).unwrap();
    }
    w.cells().set_with("short", 1, Ttl::Millis(20)).unwrap();
    w.on("dev").set_with("long", 1, Ttl::Millis(60_000)).unwrap();
    w.db().tag("v1", "main", At::Latest).unwrap();
    w.pass_ms(50);
    w.db().sweep().unwrap();
    w.db().merge("dev", "main", MergeStrategy::Theirs).unwrap();
    w.on("dev").delete("k05").unwrap();
}

fn value(n: i64) -> Value {
    match n % 6 {
        0 => n.into(),
        1 => (n as f64 / 4.0).into(),
        2 => format!("text {n} {}", "x".repeat((n as usize * 37) % 900)).into(),
        3 => Value::Bytes(vec![n as u8; n as usize]),
        4 => Value::Array(vec![n.into(), Value::Null, true.into()]),
        _ => f64::NAN.into(),
    }
}

fn hex(hash: [u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hashes(db: &Database) -> (String, String) {
    (hex(db.export_hash("main").unwrap()), hex(db.export_hash("dev").unwrap()))
}

fn expected() -> (String, String) {
    (MAIN.to_owned(), DEV.to_owned())
}

fn run(mut world: TestDb, mode: Durability) -> (TestDb, (String, String)) {
    world.configure(move |options| options.durability(mode).write_buffer_bytes(64 << 10));
    script(&world);
    let hashes = hashes(world.db());
    (world, hashes)
}

#[test]
fn in_memory_in_every_durability() {
    for mode in MODES {
        assert_eq!(run(TestDb::memory(), mode).1, expected(), "{mode:?}");
    }
}

#[test]
fn on_disk_in_every_durability() {
    for mode in MODES {
        assert_eq!(run(TestDb::disk(), mode).1, expected(), "{mode:?}");
    }
}

#[test]
fn twice_is_the_same() {
    assert_eq!(run(TestDb::disk(), Durability::Sync).1, run(TestDb::disk(), Durability::Sync).1);
}

#[test]
fn a_reopened_database_is_the_same() {
    let (mut world, before) = run(TestDb::disk(), Durability::Sync);
    world.reopen();
    assert_eq!(hashes(world.db()), before);
}

#[test]
fn the_log_alone_gives_it_again() {
    let (mut world, before) = run(TestDb::disk(), Durability::Sync);
    world.reopen_after(|directory| std::fs::remove_dir_all(directory.join("index")).unwrap());
    assert_eq!(hashes(world.db()), before);
    assert_eq!(world.cells().set("one", "more").unwrap(), 1, "and it goes on from there");
}

#[test]
fn another_history_is_another_hash() {
    let (world, before) = run(TestDb::memory(), Durability::Sync);
    world.cells().set("one", "more").unwrap();
    let after = hashes(world.db());
    assert_ne!(after.0, before.0);
    assert_eq!(after.1, before.1, "dev was not touched");
}

#[test]
fn compaction_changes_nothing() {
    let (world, before) = run(TestDb::disk(), Durability::Sync);
    world.db().trim().unwrap();
    assert_eq!(hashes(world.db()), before);
}

/// The expected hashes of the record script. It is separate because the hashes of the cell script are as
/// old as exports.
const RECORDS: (&str, &str) = (
    "1eea1aff6611c929303eb50f32811607677123a869a7000d89032dccee97771f",
    "bad0137b89a1709a07a9a12ef7b81e1f235eba995b5d96cdca7016997ab05041",
);

/// A script for records and hashes: claims, sums, expiries, deletions, changes of kind, a merge per
/// field.
fn records_script(w: &TestDb) {
    let key = |n: i64| format!("tasks.email.{:02}", n % 30);
    for n in 0..120i64 {
        let pairs = [("state", "pending".to_owned()), ("updated_at", n.to_string())];
        w.records().put(&key(n), &Fields::of(pairs).unwrap(), None).unwrap();
        let claim = RecordWrite::to(&key(n * 7)).unwrap().when_field("state", "pending").unwrap();
        let claim =
            claim.set("state", "claimed").unwrap().set("token", FieldValue::Revision).unwrap();
        let claim = claim.set("timeout_at", FieldValue::Millis { plus: 30 }).unwrap();
        let claim = claim.set("tries", FieldValue::Sum { by: 1 }).unwrap();
        w.records().write(claim.ttl(Ttl::Millis(if n % 3 == 0 { 4 } else { 900_000 }))).unwrap();
        if n % 11 == 0 {
            w.records().delete(&key(n)).unwrap();
        }
        w.pass_ms(1);
    }
    w.db().fork("dev", "main", At::Latest).unwrap();
    for branch in ["main", "dev"] {
        let key = Name::new("hash").unwrap();
        let field = mainstay::Field::new(branch).unwrap();
        let add = HashCommand::AddFloat { key, field, by: "0.1".into() };
        w.db().execute(Transaction::on(branch).step(add)).unwrap();
    }
    w.db().sweep().unwrap();
    w.db().merge("dev", "main", MergeStrategy::Strict).unwrap();
}

fn run_records(mut world: TestDb, mode: Durability) -> (TestDb, (String, String)) {
    world.configure(move |options| options.durability(mode).write_buffer_bytes(64 << 10));
    records_script(&world);
    let hashes = hashes(world.db());
    (world, hashes)
}

fn expected_of_records() -> (String, String) {
    (RECORDS.0.to_owned(), RECORDS.1.to_owned())
}

#[test]
fn records_are_the_same_everywhere() {
    for mode in MODES {
        assert_eq!(run_records(TestDb::memory(), mode).1, expected_of_records(), "{mode:?}");
        assert_eq!(run_records(TestDb::disk(), mode).1, expected_of_records(), "{mode:?} on disk");
    }
}

#[test]
fn the_log_alone_gives_records_again() {
    let (mut world, before) = run_records(TestDb::disk(), Durability::Sync);
    world.reopen();
    assert_eq!(hashes(world.db()), before);
    world.reopen_after(|directory| std::fs::remove_dir_all(directory.join("index")).unwrap());
    assert_eq!(hashes(world.db()), before);
    world.db().trim().unwrap();
    assert_eq!(hashes(world.db()), before);
}

/// A script for runs and messages: repeated and illegal events, base snapshots, deletions, a merge of
/// two histories, leases. Exports contain no messages.
fn runs_script(w: &TestDb) {
    let event = |run: &str, kind: &str, n: u64| {
        let event = NewEvent::new(run, kind).with_key(&n.to_string()).value(n as i64);
        if kind.starts_with("Step") { event.step("s") } else { event }
    };
    w.runs().bootstrap("made", "about", vec![event("made", "RunStarted", 0)]).unwrap();
    let kinds = ["RunStarted", "StepStarted", "StepFailed", "StepRetried", "Noted"];
    for n in 0..600u64 {
        let run = format!("run{}", n % 2);
        w.runs().append(event(&run, kinds[(n / 2 % 5) as usize], n - n % 7 % 2)).unwrap();
        if n % 50 == 0 {
            w.db().outbox().put("s", n.to_be_bytes(), Some(&run)).unwrap();
            w.db().outbox().claim(1, Duration::from_millis(20)).unwrap();
        }
        w.pass_ms(1);
    }
    w.runs().append(event("gone", "RunStarted", 0)).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.runs().delete("gone").unwrap();
    for branch in ["main", "dev"] {
        let n = 1_000 + branch.len() as u64;
        w.runs_on(branch).append(event("run0", "RunCompleted", n)).unwrap();
    }
    w.db().merge("dev", "main", MergeStrategy::Theirs).unwrap();
}

#[test]
fn runs_are_the_same_everywhere() {
    let run = |mut world: TestDb, mode: Durability| {
        world.configure(move |options| options.durability(mode).write_buffer_bytes(64 << 10));
        runs_script(&world);
        let hashes = hashes(world.db());
        (world, hashes)
    };
    let expected = run(TestDb::memory(), Durability::Memory).1;
    for mode in MODES {
        assert_eq!(run(TestDb::memory(), mode).1, expected, "{mode:?}");
    }
    let (mut world, before) = run(TestDb::disk(), Durability::Interval);
    assert_eq!(before, expected, "on disk");
    world.reopen();
    assert_eq!(hashes(world.db()), before);
    world.reopen_after(|directory| std::fs::remove_dir_all(directory.join("index")).unwrap());
    assert_eq!(hashes(world.db()), before, "the log alone gives them again");
    world.beside().reap().unwrap();
    world.db().trim().unwrap();
    assert_eq!(hashes(world.db()), before);
}
