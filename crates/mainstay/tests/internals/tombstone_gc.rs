//! Tests of `mainstay_engine::storage::tombstone_gc` on whole databases.

use mainstay::{At, Code, Database, Durability, ManualClock, Options};
use mainstay_engine::key::keyspace::{self, MAIN_ID};
use mainstay_engine::storage::retention_class;
use mainstay_model::Revision;
use std::ops::Bound;
use std::time::Duration;

fn blocks(db: &Database) -> usize {
    let from = keyspace::key(keyspace::TIMES, MAIN_ID, b"");
    let to = keyspace::key(keyspace::TIMES + 1, MAIN_ID, b"");
    let store = &db.engine().index().stores()[retention_class::SYSTEM];
    store
        .range(
            Bound::Included(&from),
            Bound::Excluded(&to),
            mainstay_engine::storage::index::NEWEST,
        )
        .count()
}

/// Writes for an hour and trims. Returns the revision and stamp in the middle.
fn hour(db: &Database, clock: &ManualClock) -> (Revision, u64) {
    let mut middle = (0, 0);
    for minute in 0..60 {
        clock.advance(Duration::from_secs(60));
        db.cells().set("a", vec![minute; 1000]).unwrap();
        if minute == 30 {
            middle = (db.revision(), db.stamp_of(db.revision()).unwrap());
        }
    }
    db.trim().unwrap();
    middle
}

#[test]
fn stamps_go_with_what_they_were_for() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let kept = Duration::from_secs(2 * 3600);
    let options = |retention: Option<Duration>| {
        let options = Options::new().durability(Durability::Memory).sweep_interval(None);
        let options = options.clock(clock.clone()).segment_bytes(16 << 10);
        let options = options.feed_retention(Duration::from_secs(3 * 3600), u64::MAX);
        match retention {
            Some(retention) => options.retention(retention),
            None => options.retention_all(),
        }
    };
    let directory = tempfile::tempdir().unwrap();
    let db = options(Some(kept)).open(directory.path()).unwrap();
    let hours: Vec<_> = (0..10).map(|_| hour(&db, &clock)).collect();
    assert!(blocks(&db) <= 6, "{} blocks of ten are left", blocks(&db));
    let check = |db: &Database| {
        for &(revision, stamp) in &hours[7..] {
            assert_eq!(db.stamp_of(revision).unwrap(), stamp);
            assert_eq!(db.revision_at(stamp + 1).unwrap(), revision);
        }
        let (revision, stamp) = hours[1];
        assert_eq!(db.stamp_of(revision).unwrap_err().code(), Code::HistoryTrimmed);
        assert_eq!(db.revision_at(stamp).unwrap_err().code(), Code::HistoryTrimmed);
        assert!(db.cells().at(At::Stamp(stamp)).and_then(|then| then.get("a")).is_err());
    };
    check(&db);
    drop(db);
    let db = options(Some(kept)).open(directory.path()).unwrap();
    check(&db);
    drop(db);
    // If history is kept forever, its stamps are kept too.
    let db = options(None).memory().unwrap();
    let hours: Vec<_> = (0..10).map(|_| hour(&db, &clock)).collect();
    assert!(hours.iter().all(|hour| db.stamp_of(hour.0).unwrap() == hour.1));
}
