//! Epochs: a client can hold a session exclusively, and requests of earlier epochs are refused.

use super::*;
use mainstay::{
    Answer, ErrorKind, Hold, SessionAnswer, SessionCommand, SessionInfo, SessionRequest,
};

/// Opens a session with a nonce, taking it over from an epoch.
fn take(db: &Database, nonce: u64, over: u64) -> (SessionInfo, bool) {
    let hold = Some(Hold { nonce, over });
    let capabilities = Vec::new();
    let open = SessionCommand::Open { session: name("s"), lease_ms: None, capabilities, hold };
    match db.execute(Transaction::new().step(open)).unwrap().answers.remove(0) {
        Answer::Session(answer) => match *answer {
            SessionAnswer::Opened { info, held, .. } => (info, held),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn ask(db: &Database, number: u64, epoch: u64) -> Result<Receipt> {
    let request = SessionRequest::new(name("s"), number, 1).in_epoch(epoch);
    db.execute(add("n").in_session(request))
}

#[track_caller]
fn assert_taken<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired, "{error}");
    assert!(error.message().contains("taken by another client"), "{error}");
}

#[test]
fn who_takes_a_session_has_it_alone() {
    let (db, _clock) = memory();
    let (first, held) = take(&db, 7, 0);
    assert!(held && first.epoch == first.opened);
    ask(&db, 1, first.epoch).unwrap();
    assert_eq!(take(&db, 8, 0), (db.sessions().info("s").unwrap().unwrap(), false), "only a look");
    assert!(!ask(&db, 2, first.epoch).unwrap().repeated);
    let (second, held) = take(&db, 8, first.epoch);
    assert!(held && second.epoch > first.epoch && second.opened == first.opened);
    assert_eq!(second.next_request, 3);
    // Neither new requests nor repeats: only the next client may ask for the answers.
    assert_taken(ask(&db, 3, first.epoch));
    assert_taken(ask(&db, 1, first.epoch));
    assert!(ask(&db, 1, second.epoch).unwrap().repeated);
    assert!(!ask(&db, 3, second.epoch).unwrap().repeated);
    assert!(ask(&db, 3, 0).unwrap().repeated, "who names no epoch is not asked for it");
    assert_eq!(value(&db, "n"), 3);
}

#[test]
fn late_copies_of_an_opening_take_nothing() {
    let (db, _clock) = memory();
    let (first, _) = take(&db, 7, 0);
    assert_eq!(take(&db, 7, 0).0.epoch, first.epoch, "a copy is no second opening");
    let (second, _) = take(&db, 8, first.epoch);
    for over in [0, first.epoch] {
        let (late, held) = take(&db, 7, over);
        assert_eq!((late.epoch, held), (second.epoch, false));
    }
    assert_eq!(take(&db, 8, first.epoch).0.epoch, second.epoch);
    ask(&db, 1, second.epoch).unwrap();
}

#[test]
fn every_word_of_an_earlier_epoch_is_refused() {
    let (db, _clock) = memory();
    let (first, _) = take(&db, 7, 0);
    let (second, _) = take(&db, 8, first.epoch);
    db.sessions().send("s", "x").unwrap();
    let run = |command: SessionCommand| db.execute(Transaction::new().step(command));
    let words = |epoch| {
        let session = || name("s");
        [
            SessionCommand::Pending { session: session(), after: 0, limit: 9, epoch },
            SessionCommand::KeepAlive { session: session(), lowest_pending: 900, epoch },
            SessionCommand::Acknowledge { session: session(), upto: 1, epoch },
        ]
    };
    words(first.epoch).into_iter().for_each(|word| assert_taken(run(word)));
    let close = |epoch| SessionCommand::Close { session: name("s"), epoch };
    assert_eq!(run(close(first.epoch)).unwrap().answers[..], [Answer::Did(false)]);
    let info = db.sessions().info("s").unwrap().unwrap();
    assert_eq!((info.pending, info.mark, info.epoch), (1, 1, second.epoch));
    words(second.epoch).into_iter().for_each(|word| drop(run(word).unwrap()));
    assert_eq!(run(close(second.epoch)).unwrap().answers[..], [Answer::Did(true)]);
}

#[test]
fn the_next_session_of_a_name_has_another_epoch() {
    let (db, _clock) = memory();
    let (first, _) = take(&db, 7, 0);
    assert!(db.sessions().close("s").unwrap());
    let next = db.sessions().open(SessionOptions::new().name("s")).unwrap().info().clone();
    assert_taken(ask(&db, next.next_request, first.epoch));
    ask(&db, next.next_request, next.epoch).unwrap();
    assert_eq!(value(&db, "n"), 1);
}

#[test]
fn epochs_outlive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path()).unwrap();
    let (first, _) = take(&db, 7, 0);
    let (second, _) = take(&db, 8, first.epoch);
    db.close().unwrap();
    drop(db);
    let db = Database::open(directory.path()).unwrap();
    assert_taken(ask(&db, 1, first.epoch));
    ask(&db, 1, second.epoch).unwrap();
    assert_eq!(take(&db, 8, 0), (db.sessions().info("s").unwrap().unwrap(), true), "still held");
    assert_eq!(take(&db, 7, first.epoch).0.epoch, second.epoch);
}

#[test]
fn nobody_holds_with_nothing() {
    let (db, _clock) = memory();
    let hold = Some(Hold { nonce: 0, over: 0 });
    let capabilities = Vec::new();
    let open = SessionCommand::Open { session: name("s"), lease_ms: None, capabilities, hold };
    let error = db.execute(Transaction::new().step(open)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
