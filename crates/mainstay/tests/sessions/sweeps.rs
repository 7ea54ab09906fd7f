//! Expiry of many sessions at once: in several transactions, all of them, and no others.

use super::machine::Machine;
use super::*;
use mainstay::{
    ChangeKind, Contract, ErrorKind, Feed, Filter, MemoryFiles, REQUESTS_AHEAD_LIMIT,
    SessionCommand, SessionInfo, SessionRequest, Ttl,
};
use std::collections::BTreeMap;

/// Maximal number of keys that a sweep touches in one transaction.
const BATCH: u64 = 1_000;
const SESSIONS: usize = 500;
/// Keys of each session: its own entry, a slot of responses and two messages.
const KEYS_EACH: u64 = 4;
/// One session has more messages than a transaction of the sweep has keys.
const LETTERS: u64 = 1_500;
const CELLS: usize = 1_300;

fn all(db: &Database, transactions: impl Iterator<Item = Transaction>) {
    let done = db.execute_all(transactions.collect());
    done.into_iter().for_each(|done| drop(done.unwrap()));
}

fn send(to: &str) -> SessionCommand {
    SessionCommand::Send { session: name(to), payload: b"x".to_vec() }
}

/// Opens a session with one response and two messages.
fn furnish(name: &str) -> [Transaction; 2] {
    let options = SessionOptions::new().name(name);
    let request = SessionRequest::new(super::name(name), 1, 1);
    let work = add("n").step(send(name)).step(send(name));
    [Transaction::new().step(options.command().unwrap()), work.in_session(request)]
}

fn stays(index: usize) -> bool {
    index.is_multiple_of(10)
}

fn label(index: usize) -> String {
    format!("s/{index:04}")
}

/// A session that stays: its description without the lease, its pending messages, and its response.
type Stay = (SessionInfo, Vec<(u64, Vec<u8>)>, Receipt);

fn staying(db: &Database) -> Vec<Stay> {
    let one = |index| {
        let session = open(db, &label(index));
        assert!(!session.is_new());
        let info = SessionInfo { expires: 0, ..session.info().clone() };
        let receipt = session.execute(1, 0, add("twice")).unwrap();
        (info, session.pending(0, 10).unwrap(), Receipt { repeated: false, ..receipt })
    };
    (0..SESSIONS).filter(|index| stays(*index)).map(one).collect()
}

/// Returns the session events of the feed from here on, by session.
fn told(db: &Database, feed: &mut Feed) -> BTreeMap<String, Vec<ChangeKind>> {
    db.execute(add("end")).unwrap();
    let mut told: BTreeMap<String, Vec<ChangeKind>> = BTreeMap::new();
    loop {
        let event = feed.next(secs(60)).unwrap().unwrap();
        match event.contract {
            Contract::Sessions => told.entry(event.key).or_default().push(event.kind),
            _ if event.key == "end" => return told,
            _ => {}
        }
    }
}

/// Returns the database before the sweep. Cells are due too, and come first.
fn begin(machine: &Machine) -> Database {
    let db = machine.open();
    all(&db, (0..SESSIONS).flat_map(|index| furnish(&label(index))));
    open(&db, "full");
    let many = (0..LETTERS).fold(Transaction::new(), |all, _| all.step(send("full")));
    db.execute(many).unwrap();
    let cell = |index| {
        let name = name(&format!("c/{index}"));
        let value = "x".into();
        Transaction::new().step(CellCommand::Set { name, value, ttl: Ttl::Millis(60_000) })
    };
    all(&db, (0..CELLS).map(cell));
    machine.clock.advance(secs(59));
    let keep = |index| SessionCommand::KeepAlive {
        session: name(&label(index)),
        lowest_pending: 0,
        epoch: 0,
    };
    let stay = (0..SESSIONS).filter(|index| stays(*index));
    all(&db, stay.map(|index| Transaction::new().step(keep(index))));
    machine.clock.advance(secs(2));
    db
}

#[test]
fn more_sessions_than_one_transaction_takes_expire_and_nothing_else_does() {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let db = begin(&machine);
    let before = staying(&db);
    let revision = db.revision();
    let mut feed = db.watch(Filter::default(), revision).unwrap();
    let gone: Vec<String> = (0..SESSIONS).filter(|index| !stays(*index)).map(label).collect();
    let keys = gone.len() as u64 * KEYS_EACH + LETTERS + 1 + CELLS as u64;
    assert_eq!(db.sweep().unwrap(), keys);
    assert!(db.revision() - revision >= (keys - LETTERS) / BATCH, "in several transactions");
    assert_eq!(db.sweep().unwrap(), 0);
    let figures = db.stats().sessions;
    let left = before.len() as u64;
    assert_eq!((figures.live, figures.kept, figures.pending), (left, left, 2 * left));
    assert_eq!((figures.expired, value(&db, "twice")), (gone.len() as u64 + 1, 0));
    let names = gone.iter().map(String::as_str).chain(["full"]);
    let expired = |name: &str| (name.to_owned(), vec![ChangeKind::Expired]);
    assert_eq!(told(&db, &mut feed), names.map(expired).collect());
    assert_eq!(staying(&db), before);
    check_gone(&db, &gone[1..]);
    drop((feed, db));
    let db = machine.open();
    assert_eq!(staying(&db), before);
    assert_eq!(db.stats().sessions.live, left);
    check_gone(&db, &gone);
}

/// Checks that the sessions and all their parts are gone, and that their numbers are not reused.
fn check_gone(db: &Database, gone: &[String]) {
    for name in gone {
        let late = add("twice").in_session(SessionRequest::new(super::name(name), 1, 1));
        assert_eq!(db.execute(late).unwrap_err().kind(), ErrorKind::SessionExpired);
        assert_eq!(db.sessions().send(name, "x").unwrap(), None);
    }
    let anew = open(db, &gone[0]);
    assert!(anew.is_new());
    assert_eq!(anew.info().next_request, 2 + REQUESTS_AHEAD_LIMIT);
    assert!(anew.pending(0, 10).unwrap().is_empty());
    assert_eq!(db.sessions().send(&gone[0], "x").unwrap(), Some(3));
    assert!(anew.close().unwrap());
}

#[test]
fn after_a_day_even_their_numbers_are_gone() {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let db = begin(&machine);
    machine.clock.advance(secs(100));
    assert!(db.sweep().unwrap() > BATCH);
    assert_eq!(db.stats().sessions.live, 0);
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    machine.clock.advance(secs(24 * 3600 + 1));
    assert_eq!(db.sweep().unwrap(), SESSIONS as u64 + 1);
    assert!(told(&db, &mut feed).is_empty(), "nobody has to know of that");
    drop((feed, db));
    let db = machine.open();
    for session in [open(&db, &label(7)), open(&db, "full")] {
        assert_eq!((session.info().next_request, session.info().last_sent), (1, 0));
    }
}
