//! Statistics of a database, seen from outside.

mod seam;

use mainstay::{At, CellCommand, Database, Durability, Filter, Name, Options, Transaction};
use seam::FaultyFiles;
use std::time::Duration;

fn set(name: &str) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), "value"))
}

fn write(db: &Database, times: i64) {
    for i in 0..times {
        db.cells().set("a", i).unwrap();
    }
}

#[test]
fn every_sync_is_measured_and_every_group_counted_with_its_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let db = Options::new().sweep_interval(None).open(directory.path().join("db")).unwrap();
    let before = db.stats();
    db.execute_all((0..10).map(|i| set(&format!("key {i}"))).collect());
    db.cells().set("one more", 1).unwrap();
    let after = db.stats();
    assert_eq!(after.sync_us.count() - before.sync_us.count(), 2);
    assert_eq!(after.group_transactions.count() - before.group_transactions.count(), 2);
    assert_eq!(after.group_transactions.sum - before.group_transactions.sum, 11);
    let bytes = after.group_bytes.sum - before.group_bytes.sum;
    assert!(bytes > 11 * 5 && bytes < 10_000, "{bytes}");
}

#[test]
fn writes_that_need_no_sync_are_not_counted_as_one() {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    let before = db.stats();
    db.cells().set("a", 1).unwrap();
    let after = db.stats();
    assert_eq!(after.sync_us.count(), before.sync_us.count());
    assert_eq!(after.group_transactions.count(), before.group_transactions.count() + 1);
}

#[test]
fn reads_from_memory_are_hits_and_reads_from_a_store_are_misses() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Options::new().sweep_interval(None).open(directory.path().join("db")).unwrap();
    let db = open();
    db.cells().set("a", 1).unwrap();
    db.trim().unwrap();
    db.close().unwrap();
    let db = open();
    let before = db.stats();
    (0..6400).for_each(|_| drop(db.cells().get("a").unwrap()));
    let after = db.stats();
    let hits = after.cache_hits - before.cache_hits;
    assert!((6300..=6464).contains(&hits), "{hits}");
    assert_eq!(after.cache_misses - before.cache_misses, 1, "only the first read");
}

#[test]
fn what_makes_room_for_others_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let db = options.cache_bytes(64 << 10).open(directory.path().join("db")).unwrap();
    for i in 0..2_000 {
        db.cells().set(&format!("key {i}"), "x".repeat(100)).unwrap();
    }
    assert_eq!(db.stats().cache_evictions, 0, "nothing leaves before it is in a store");
    db.trim().unwrap();
    assert!(db.stats().cache_evictions > 1_000, "{}", db.stats().cache_evictions);
}

#[test]
fn flushes_and_compactions_are_counted_with_their_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let db = options.open(directory.path().join("db")).unwrap();
    assert_eq!((db.stats().flush.count, db.stats().compaction.count), (0, 0));
    for i in 0..100 {
        db.cells().set(&format!("key {i}"), "x".repeat(1_000)).unwrap();
    }
    db.trim().unwrap();
    let stats = db.stats();
    assert_eq!((stats.flush.count, stats.flush.failures, stats.flush.running), (1, 0, 0));
    assert!(stats.flush.bytes > 100_000, "{:?}", stats.flush);
    assert!(stats.compaction.count > 0 && stats.compaction.bytes > 0, "{:?}", stats.compaction);
    assert!(stats.flush.us > 0 && stats.compaction.us > 0);
}

#[test]
fn the_slowest_feed_says_how_far_behind_it_is() {
    let db = Database::memory().unwrap();
    let mut slow = db.watch(Filter::default(), 0).unwrap();
    let mut quick = db.watch(Filter::default(), 0).unwrap();
    write(&db, 3);
    while quick.next(Duration::ZERO).unwrap().is_some() {}
    assert_eq!((db.stats().feeds, db.stats().feed_behind), (2, 3));
    while slow.next(Duration::ZERO).unwrap().is_some() {}
    assert_eq!((db.stats().feeds, db.stats().feed_behind), (2, 0));
    drop((slow, quick));
    assert_eq!(db.stats().feeds, 0);
}

#[test]
fn pins_are_summed_up_by_kind() {
    let db = Database::memory().unwrap();
    write(&db, 3);
    db.fork("one", "main", At::Revision(1)).unwrap();
    db.fork("two", "main", At::Revision(2)).unwrap();
    let _open = db.begin().unwrap();
    let pins = db.pin_summaries();
    let seen: Vec<_> =
        pins.iter().map(|pin| (pin.kind.as_str(), pin.count, pin.revisions_behind)).collect();
    assert_eq!(seen, [("branch", 2, 4), ("transaction", 1, 0)]);
    assert!(pins[0].oldest_age_us > 0);
}

#[test]
fn what_waits_for_the_log_is_seen_while_it_waits() {
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().sweep_interval(None).files(files).memory().unwrap();
    let came = faults.syncs.came();
    faults.syncs.hold();
    let tickets: Vec<_> = (0..3).map(|i| db.submit(set(&format!("key {i}")))).collect();
    faults.syncs.wait_for_more_than(came);
    assert_eq!(db.stats().in_flight, 3);
    faults.syncs.let_go();
    tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    assert_eq!((db.stats().in_flight, db.stats().unwritten_bytes), (0, 0));
}
