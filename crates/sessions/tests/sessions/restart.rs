//! The database is closed and reopened while its clients work.

use super::lossy::Bank;
use super::*;
use mainstay_sessions::{Client, Faults, Faulty, Local};
use std::thread;

#[test]
fn a_restart_in_the_middle_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Options::new().durability(Durability::Interval).open(directory.path()).unwrap();
    let db = open();
    let local = Local::new(&db).unwrap();
    let transport = Faulty::new(local.clone(), Faults::many(5));
    let bank = Bank::open(&db, &Client::with(transport.clone(), quick()).unwrap());
    drop(db);
    thread::scope(|scope| {
        let working = scope.spawn(|| bank.work());
        for round in 1..4 {
            while bank.stats().answered < round * 100 && !working.is_finished() {
                thread::yield_now();
            }
            // Closing makes all answered requests durable.
            bank.db.lock().close().unwrap();
            let db = open();
            local.replace(&db).unwrap();
            *bank.db.lock() = db;
        }
    });
    bank.wait_for_letters();
    mainstay::remote::wait(transport.deliver_delayed());
    bank.check();
}

#[test]
fn a_lease_begins_anew_and_nothing_is_lost_that_was_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path()).unwrap();
    let local = Local::new(&db).unwrap();
    let session = Client::with(local.clone(), quick()).unwrap().open(named("s")).unwrap();
    session.execute(add("n", 1)).unwrap();
    db.close().unwrap();
    drop(db);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| session.execute(add("n", 1)));
        while session.stats().retries == 0 {
            thread::yield_now();
        }
        local.replace(&Database::open(directory.path()).unwrap()).unwrap();
        assert_eq!(sum(&waiting.join().unwrap()), 2);
    });
    assert!(session.is_live());
}
