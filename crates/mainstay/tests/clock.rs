//! Opening a database with a wrong system clock, and again with a correct one.

use mainstay::{Database, ManualClock, Options, Ttl};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SECOND_US: u64 = 1_000_000;
const HOUR_US: u64 = 3_600 * SECOND_US;
const YEAR_US: u64 = 365 * 24 * HOUR_US;
const START_US: u64 = 1_700_000_000 * SECOND_US;

fn open(directory: &Path, wall_us: u64, options: Options) -> (Database, Arc<ManualClock>) {
    let clock = ManualClock::new(wall_us);
    let options = options.clock(clock.clone()).sweep_interval(None);
    (options.open(directory).unwrap(), clock)
}

fn stamp(db: &Database) -> u64 {
    db.cells().incr("tick", 1).unwrap();
    db.cells().get_versioned("tick").unwrap().unwrap().stamp
}

/// Asserts that a key with a TTL of one hour of wall-clock time lives that long.
fn assert_lives_for_an_hour(db: &Database, clock: &ManualClock, wall_us: u64) {
    db.cells().set_with("absolute", 1, Ttl::Until(wall_us + HOUR_US)).unwrap();
    db.cells().set_with("relative", 1, Ttl::Millis(3_600_000)).unwrap();
    db.cells().set_with("over", 1, Ttl::Until(wall_us - SECOND_US)).unwrap();
    let there = || {
        stamp(db);
        ["absolute", "relative", "over"].map(|name| db.cells().get(name).unwrap().is_some())
    };
    assert_eq!(there(), [true, true, false], "now");
    clock.advance(Duration::from_secs(3_590));
    assert_eq!(there(), [true, true, false], "before the hour is over");
    clock.advance(Duration::from_secs(20));
    assert_eq!(there(), [false, false, false], "behind it");
}

#[test]
fn one_start_ten_years_ahead_moves_no_stamp() {
    let directory = tempfile::tempdir().unwrap();
    let (db, _) = open(directory.path(), START_US, Options::new());
    db.cells().set_with("kept", 1, Ttl::Millis(86_400_000)).unwrap();
    db.close().unwrap();
    for _ in 0..2 {
        // A restart with the same clock is no confirmation.
        let (db, clock) = open(directory.path(), START_US + 10 * YEAR_US, Options::new());
        assert!(stamp(&db) < START_US + 3 * HOUR_US);
        assert!(db.stats().clock_jump_us.is_some_and(|ahead_us| ahead_us > 9 * YEAR_US));
        assert_lives_for_an_hour(&db, &clock, START_US + 10 * YEAR_US);
        assert!(db.cells().get("kept").unwrap().is_some(), "a wrong clock ends nothing");
        db.close().unwrap();
    }
    let wall_us = START_US + 12 * HOUR_US;
    let (db, clock) = open(directory.path(), wall_us, Options::new());
    assert_eq!((stamp(&db), db.stats().clock_jump_us), (wall_us, None));
    assert_lives_for_an_hour(&db, &clock, wall_us);
}

#[test]
fn a_clock_far_ahead_is_followed_once_it_is_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let (db, _) = open(directory.path(), START_US, Options::new());
    stamp(&db);
    db.close().unwrap();
    let wall_us = START_US + 10 * YEAR_US;
    let (db, _) = open(directory.path(), wall_us, Options::new());
    assert!(stamp(&db) < START_US + HOUR_US);
    db.confirm_clock();
    assert_eq!((stamp(&db), db.stats().clock_jump_us), (wall_us, None));
    db.close().unwrap();
    let (db, _) = open(directory.path(), wall_us + HOUR_US, Options::new());
    assert_eq!(stamp(&db), wall_us + HOUR_US, "what it has stamped since is evidence");
}

#[test]
fn a_database_that_was_closed_for_months_follows_the_clock() {
    let directory = tempfile::tempdir().unwrap();
    let (db, _) = open(directory.path(), START_US, Options::new());
    stamp(&db);
    db.close().unwrap();
    let wall_us = START_US + YEAR_US / 2;
    let (db, _) = open(directory.path(), wall_us, Options::new());
    assert_eq!(stamp(&db), wall_us);
}

#[test]
fn moments_mean_the_wall_clock_when_stamps_are_ahead_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let believed = Options::new().clock_jump_limit(None);
    let (db, _) = open(directory.path(), START_US, believed.clone());
    stamp(&db);
    db.close().unwrap();
    let (db, _) = open(directory.path(), START_US + 10 * YEAR_US, believed.clone());
    let ahead = stamp(&db);
    assert_eq!(ahead, START_US + 10 * YEAR_US, "it was told to believe it");
    db.close().unwrap();
    let wall_us = START_US + 24 * HOUR_US;
    let (db, clock) = open(directory.path(), wall_us, believed);
    assert!(stamp(&db) > ahead, "stamps never go back");
    assert!(db.wall_offset_us() > 9 * YEAR_US as i64);
    assert_lives_for_an_hour(&db, &clock, wall_us);
}
