use crate::lines;
use crate::seam::FaultyFiles;
use mainstay::{ManualClock, Options};
use mainstay_server::telemetry::Watch;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_database_that_became_read_only_is_told_of_once() {
    lines::keep();
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().files(files).memory().unwrap();
    let watch = Watch::start(db.clone()).unwrap();
    db.cells().set("a", 1).unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    db.cells().set("a", 2).unwrap_err();
    drop(watch);
    let told = lines::all().matches("the database is read-only until it is reopened").count();
    assert_eq!(told, 1, "{}", lines::all());
}

#[test]
fn a_clock_that_jumped_is_told_of() {
    lines::keep();
    let clock = ManualClock::new(1_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    db.cells().set("a", 1).unwrap();
    let watch = Watch::start(db.clone()).unwrap();
    clock.set_wall(1_000_000 + Duration::from_secs(7_200).as_micros() as u64);
    db.cells().set("a", 2).unwrap();
    drop(watch);
    let told = lines::all().matches("the wall clock jumped ahead").count();
    assert_eq!(told, 1, "{}", lines::all());
}
