//! The maximal number of sessions, and one more.

use super::machine::Machine;
use super::*;
use mainstay::{Code, ErrorKind, MemoryFiles, SESSION_LIMIT, SessionCommand};

/// Number of sessions that are opened in one batch.
const BATCH: usize = 10_000;

fn label(index: usize) -> String {
    format!("s{index}")
}

/// Opens the maximal number of sessions.
fn fill(db: &Database) {
    let opening = |index| {
        let options = SessionOptions::new().name(&label(index));
        Transaction::new().step(options.command().unwrap())
    };
    for first in (0..SESSION_LIMIT).step_by(BATCH) {
        let batch = (first..first + BATCH).map(opening).collect();
        db.execute_all(batch).into_iter().for_each(|done| drop(done.unwrap()));
    }
}

/// Asserts that no more session can be opened, and that the existing ones still work.
fn check_full(db: &Database) {
    assert_eq!(db.stats().sessions.live, SESSION_LIMIT as u64);
    let revision = db.revision();
    let error = db.sessions().open(SessionOptions::new().name("new")).err().unwrap();
    assert_eq!((error.code(), error.kind()), (Code::TooManySessions, ErrorKind::TooLarge));
    assert_eq!(db.revision(), revision, "nothing is written of it");
    assert!(!open(db, &label(SESSION_LIMIT - 1)).is_new());
    assert_eq!(db.sessions().info("new").unwrap(), None);
}

#[test]
fn there_is_a_most_and_who_goes_makes_room() {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let db = machine.open();
    fill(&db);
    check_full(&db);
    drop(db);
    let db = machine.open();
    check_full(&db);
    assert!(open(&db, &label(1)).close().unwrap());
    assert!(open(&db, "new").is_new());
    let error = db.sessions().open(SessionOptions::new().name(&label(1))).err().unwrap();
    assert_eq!(error.code(), Code::TooManySessions, "not even who was there a moment ago");
    // A session whose lease is over is removed when it is used next, which makes room.
    machine.clock.advance(secs(61));
    let send = SessionCommand::Send { session: name(&label(2)), payload: vec![] };
    db.execute(Transaction::new().step(send)).unwrap();
    assert!(open(&db, &label(1)).is_new());
}
