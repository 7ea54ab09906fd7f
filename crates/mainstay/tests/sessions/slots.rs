//! Response slots are reused, shared and deleted in batches. No response is lost or confused with another one
//! by that, even across flushes, reopens and crashes.

use super::machine::{Machine, make_sizes, sized};
use super::random::Random;
use super::*;
use mainstay::{Code, Error, ErrorKind, Guard, KEPT_LIMIT_BYTES, MemoryFiles};
use std::collections::BTreeMap;

/// Response sizes: small enough to share a slot, too large to share, too large for a spare slot, and large.
const SIZES: [usize; 7] = [0, 10, 100, 240, 300, 1_100, 5_000];
/// Maximal number of kept responses, below the engine's limits, so that only the client evicts.
const WINDOW: u64 = 100;

type Told = std::result::Result<Receipt, Error>;

/// A client's record of its session.
#[derive(Clone, Default)]
struct Book {
    /// The first answer of each request.
    first: BTreeMap<u64, Told>,
    mark: u64,
    executed: i64,
}

impl Book {
    fn newest(&self) -> u64 {
        self.first.keys().next_back().copied().unwrap_or(0).max(self.mark)
    }

    fn kept(&self) -> impl Iterator<Item = (&u64, &Told)> {
        self.first.range(self.mark..)
    }

    fn raise(&mut self, mark: u64) {
        self.mark = self.mark.max(mark);
    }

    fn note(&mut self, id: u64, lowest: u64, told: Told) {
        self.executed += i64::from(told.is_ok());
        let before = self.first.insert(id, told);
        assert!(before.is_none(), "{id} was answered twice as if it were new");
        self.raise(lowest);
    }

    /// Checks that every kept answer is repeated unchanged, and that every evicted request is refused.
    fn check(&self, db: &Database, place: &str) {
        let session = open(db, "s");
        let info = session.info();
        let kept = self.kept().count() as u64;
        let next = self.kept().last().map_or(0, |(id, _)| id + 1).max(self.mark);
        assert_eq!((info.mark, info.kept, info.next_request), (self.mark, kept, next), "{place}");
        assert_eq!(db.stats().sessions.kept, kept, "{place}");
        (1..self.mark).for_each(|id| assert_evicted(&session, id, place));
        self.kept().for_each(|(id, first)| assert_same(&session, *id, first, place));
        assert_eq!((value(db, "n"), value(db, "twice")), (self.executed, 0), "{place}");
    }
}

fn assert_evicted(session: &Session, id: u64, place: &str) {
    let error = session.execute(id, 0, add("twice")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseEvicted, "{place}: {id}");
}

/// Compares the whole receipt, with revision and timestamp. Only `repeated` differs.
fn assert_same(session: &Session, id: u64, first: &Told, place: &str) {
    let again = session.execute(id, 0, add("twice"));
    let first = first.clone().map(|first| Receipt { repeated: true, ..first });
    assert_eq!(again, first, "{place}: {id}");
}

/// Returns a request whose answer has one of the sizes, or is an error.
fn asked(random: &mut Random) -> Transaction {
    let size = SIZES[random.below(SIZES.len() as u64) as usize];
    match random.below(8) {
        0 => add("n").guard(Guard::Counter { name: name("never"), is: Some(1) }),
        1..5 => add("n"),
        _ => sized(size),
    }
}

/// Sends a new request after the mark, mostly in order. Now and then it acknowledges earlier answers.
fn ask(db: &Database, book: &mut Book, random: &mut Random) {
    let ahead = book.newest() + 1 + random.below(3);
    let late = book.mark + random.below(ahead - book.mark);
    let id = if random.below(3) == 0 { late } else { ahead };
    if book.first.contains_key(&id) {
        return assert_same(&open(db, "s"), id, &book.first[&id], "asked for again");
    }
    let lowest = match random.below(12) {
        // One client has no other pending request, and one has received some of its answers.
        0 => id,
        1 | 2 => id.saturating_sub(random.below(20)),
        _ if id >= book.mark + WINDOW => id - WINDOW / 2,
        _ => 0,
    };
    let request = mainstay::SessionRequest::new(name("s"), id, lowest);
    let told = db.execute(asked(random).in_session(request));
    if let Err(error) = &told {
        assert_eq!(error.code(), Code::GuardFailed);
    }
    assert!(!told.as_ref().is_ok_and(|receipt| receipt.repeated), "{id} is new");
    book.note(id, lowest, told);
}

/// Opens a new session on an empty machine.
fn begin() -> (Machine, Arc<MemoryFiles>, Database, Book) {
    let files = Arc::new(MemoryFiles::new());
    let machine = Machine::with(files.clone());
    let db = machine.open();
    make_sizes(&db, &SIZES);
    open(&db, "s");
    (machine, files, db, Book { mark: 1, ..Book::default() })
}

fn program(seed: u64, steps: u64) {
    let (mut machine, mut files, mut db, mut book) = begin();
    let mut random = Random(seed);
    for step in 0..steps {
        let place = format!("seed {seed}, step {step}");
        machine.clock.advance(Duration::from_millis(random.below(20)));
        match random.below(60) {
            0..54 => ask(&db, &mut book, &mut random),
            54 => {
                let mark = book.newest() - random.below(10).min(book.newest());
                open(&db, "s").keep_alive(mark).unwrap();
                book.raise(mark);
            }
            55 | 56 => db.trim().unwrap(),
            57 | 58 => {
                if random.below(2) == 0 {
                    db.close().unwrap();
                }
                drop(db);
                db = machine.open();
                book.check(&db, &place);
            }
            _ => {
                // Power failure: requests after the copy are as if they had never been sent.
                let image = files.copy();
                let known = book.clone();
                (0..random.below(30)).for_each(|_| ask(&db, &mut book, &mut random));
                drop(db);
                files = machine.lose_all_but(image);
                db = machine.open();
                book = known;
                book.check(&db, &place);
            }
        }
    }
    book.check(&db, &format!("seed {seed}, at the end"));
}

#[test]
fn every_response_is_where_it_was_put_after_every_opening() {
    for seed in 1..=6 {
        program(seed, 400);
    }
}

/// Sends requests in this order, with answers of one size.
fn answer(db: &Database, book: &mut Book, bytes: usize, lowest: u64, ids: &[u64]) {
    let session = open(db, "s");
    for &id in ids {
        book.note(id, lowest, session.execute(id, lowest, sized(bytes)));
    }
}

/// Reopens the database twice: from the log alone, and from the stores.
fn check_reopened(machine: &Machine, db: Database, book: &Book, place: &str) -> Database {
    drop(db);
    let db = machine.open();
    book.check(&db, place);
    db.trim().unwrap();
    drop(db);
    let db = machine.open();
    book.check(&db, place);
    db
}

#[test]
fn a_mark_in_the_middle_of_a_slot_stays_there() {
    let (machine, _, db, mut book) = begin();
    answer(&db, &mut book, 0, 0, &[3, 1, 2, 6, 5]);
    // Evicts some responses of the shared slot, and request 4 before it was ever sent.
    answer(&db, &mut book, 0, 5, &[7]);
    let db = check_reopened(&machine, db, &book, "five behind the mark");
    // Then a keep-alive of the client alone evicts all of them.
    open(&db, "s").keep_alive(9).unwrap();
    book.raise(9);
    let db = check_reopened(&machine, db, &book, "none behind the mark");
    answer(&db, &mut book, 0, 0, &[9]);
    check_reopened(&machine, db, &book, "one in the old slot");
}

#[test]
fn slots_that_go_in_heaps_leave_their_mark_and_what_is_behind_it() {
    for bytes in [300, 1_100] {
        let (machine, _, mut db, mut book) = begin();
        for round in 0..3 {
            let first = 1 + 151 * round;
            let ids: Vec<u64> = (first..first + 150).rev().collect();
            answer(&db, &mut book, bytes, 0, &ids);
            // All but three responses are evicted at once. Few of their slots stay as spares, and the others
            // are deleted.
            answer(&db, &mut book, 10, first + 147, &[first + 150]);
            db = check_reopened(&machine, db, &book, &format!("{bytes} bytes, round {round}"));
        }
    }
}

#[test]
fn what_had_to_make_room_does_not_come_back() {
    let (machine, _, db, mut book) = begin();
    let quarter = KEPT_LIMIT_BYTES / 4;
    make_sizes(&db, &[quarter]);
    answer(&db, &mut book, quarter, 0, &[1, 3, 4, 5]);
    assert_eq!(
        open(&db, "s").info().mark,
        2,
        "four quarters, and what is around them, are too much"
    );
    book.raise(2);
    // The response would be the oldest of four itself, so its client gets the answer only once.
    answer(&db, &mut book, quarter, 0, &[2]);
    assert_eq!(open(&db, "s").info().mark, 3);
    book.raise(3);
    let db = check_reopened(&machine, db, &book, "three quarters");
    answer(&db, &mut book, 0, 0, &[6, 7]);
    check_reopened(&machine, db, &book, "and two small ones");
}
