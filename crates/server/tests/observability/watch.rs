use crate::lines;
use crate::seam::FaultyFiles;
use mainstay::{ManualClock, NewEvent, Options};
use mainstay_server::config::Config;
use mainstay_server::crew::Crew;
use mainstay_server::telemetry::Watch;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_database_that_became_read_only_is_told_of_once() {
    lines::keep();
    let (files, faults) = FaultyFiles::new();
    let db = Options::new().files(files).memory().unwrap();
    let watch = Watch::start(db.clone(), Arc::default()).unwrap();
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
    let watch = Watch::start(db.clone(), Arc::default()).unwrap();
    clock.set_wall(1_000_000 + Duration::from_secs(7_200).as_micros() as u64);
    db.cells().set("a", 2).unwrap();
    drop(watch);
    let told = lines::all().matches("the wall clock jumped ahead").count();
    assert_eq!(told, 1, "{}", lines::all());
}

#[test]
fn what_fails_each_round_beside_the_faces_is_told_once() {
    lines::keep();
    let directory = tempfile::tempdir().unwrap();
    // A file blocks the path of the directory that the archive needs.
    std::fs::write(directory.path().join("archive"), "in the way").unwrap();
    let db = Options::new().memory().unwrap();
    for kind in ["RunStarted", "RunCompleted"] {
        db.runs().append(NewEvent::new("stubborn", kind).plan("1")).unwrap();
    }
    let mut config = Config::default();
    config.archive.directory = Some(directory.path().to_owned());
    config.archive.older_than_ms = 0;
    config.archive.interval_ms = 1;
    let crew = Crew::start(&db, &config).unwrap();
    while crew.archived().total.failed < 5 {
        std::thread::sleep(Duration::from_millis(1));
    }
    crew.stop();
    // The watch checks when it starts and when it ends, and finds a failure both times.
    drop(Watch::start(db.clone(), crew).unwrap());
    let told = lines::all().matches("runs could not be archived").count();
    assert_eq!(told, 1, "{}", lines::all());
    assert!(db.runs().get("stubborn").unwrap().is_some(), "it stays");
}
