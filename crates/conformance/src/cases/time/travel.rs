//! Time travel: a read at a revision or timestamp returns the newest version that is not newer.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Value};

/// Every revision shows its own state.
pub fn every_revision_shows_its_state(w: &mut TestDb) {
    let mut revisions = Vec::new();
    for n in 0..10 {
        w.cells().set("k", n).unwrap();
        revisions.push(w.db().revision());
    }
    for (n, revision) in revisions.into_iter().enumerate() {
        assert_eq!(read_at(&w.cells(), At::Revision(revision), "k").unwrap(), int(n as i64));
    }
}

/// A revision in which only other cells were written shows the older version.
pub fn newest_not_newer(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("other", 1).unwrap();
    let between = w.db().revision();
    w.cells().set("k", 2).unwrap();
    assert_eq!(read_at(&w.cells(), At::Revision(between), "k").unwrap(), int(1));
}

/// Before its first version a cell is absent.
pub fn before_the_first_is_absent(w: &mut TestDb) {
    w.cells().set("other", 1).unwrap();
    let before = w.db().revision();
    w.cells().set("k", 1).unwrap();
    let past = w.cells().at(At::Revision(before)).unwrap();
    assert_eq!(past.get("k").unwrap(), None);
    assert_eq!(past.get_versioned("k").unwrap(), None);
    assert!(past.history("k", 9, None).unwrap().is_empty());
    assert_eq!(past.list("", None, 9).unwrap().names, ["other"]);
}

/// Before the first write the database is empty.
pub fn before_everything_is_nothing(w: &mut TestDb) {
    let start = w.db().revision();
    w.cells().set("k", 1).unwrap();
    let past = w.cells().at(At::Revision(start)).unwrap();
    assert!(past.list("", None, 9).unwrap().names.is_empty());
    let long_ago = w.cells().at(At::Stamp(w.wall_us() - 1_000_000)).unwrap();
    assert_eq!(long_ago.get("k").unwrap(), None);
}

/// A deletion is visible from its revision on.
pub fn deletion_is_seen_from_its_revision_on(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let there = w.db().revision();
    w.cells().delete("k").unwrap();
    let gone = w.db().revision();
    w.cells().set("k", 2).unwrap();
    assert_eq!(read_at(&w.cells(), At::Revision(there), "k").unwrap(), int(1));
    assert_eq!(read_at(&w.cells(), At::Revision(gone), "k").unwrap(), None);
}

/// A timestamp selects the newest revision with a timestamp that is not later.
pub fn stamp_shows_the_newest_not_later(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let first = w.wall_us();
    w.pass_ms(10);
    w.cells().set("k", 2).unwrap();
    let second = w.wall_us();
    w.pass_ms(10);
    let at = |stamp| read_at(&w.cells(), At::Stamp(stamp), "k").unwrap();
    assert_eq!(at(first - 1), None);
    assert_eq!(at(first), int(1));
    assert_eq!(at(second - 1), int(1));
    assert_eq!(at(second), int(2));
    assert_eq!(at(second + 1), int(2));
}

/// A versioned read of the past returns that version's counter, timestamp and revision.
pub fn versioned_in_the_past(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let revision = w.db().revision();
    let stamp = w.wall_us();
    w.cells().set("k", 2).unwrap();
    let past = w.cells().at(At::Revision(revision)).unwrap();
    let seen = past.get_versioned("k").unwrap().unwrap();
    assert_eq!((seen.value, seen.counter), (Value::Int(1), 1));
    assert_eq!((seen.revision, seen.stamp), (revision, stamp));
    assert_eq!(past.revision(), revision);
}

/// A history at a past revision ends at that revision.
pub fn history_of_the_past_ends_there(w: &mut TestDb) {
    for n in 0..5 {
        w.cells().set("k", n).unwrap();
    }
    let then = w.db().revision() - 2;
    let past = w.cells().at(At::Revision(then)).unwrap();
    let counters: Vec<u64> =
        past.history("k", 9, None).unwrap().iter().map(|entry| entry.counter).collect();
    assert_eq!(counters, [3, 2, 1]);
}

/// A future revision or timestamp is refused.
pub fn future_is_refused(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let next = w.db().revision() + 1;
    refused(w.cells().at(At::Revision(next)).map(drop), Code::FutureRevision);
    // Up to five seconds ahead are accepted, because clocks may differ.
    let soon = w.wall_us() + 4_000_000;
    assert_eq!(w.cells().at(At::Stamp(soon)).unwrap().get("k").unwrap(), int(1));
    for ahead_us in [6_000_000, 3_600_000_000] {
        let later = w.wall_us() + ahead_us;
        refused(w.cells().at(At::Stamp(later)).map(drop), Code::FutureRevision);
    }
}

/// A reader at the newest revision keeps it during later writes.
pub fn reader_stays_where_it_is(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let here = w.cells().at(At::Latest).unwrap();
    w.cells().set("k", 2).unwrap();
    w.cells().set("new", 2).unwrap();
    assert_eq!(here.get("k").unwrap(), int(1));
    assert_eq!(here.list("", None, 9).unwrap().names, ["k"]);
    assert_eq!(here.revision(), w.db().revision() - 2);
}

/// The timestamp of every transaction can be queried.
pub fn stamps_are_known(w: &mut TestDb) {
    let mut last = 0;
    for n in 0..4 {
        w.pass_ms(n);
        w.cells().set("k", n as i64).unwrap();
        let stamp = w.db().stamp_of(w.db().revision()).unwrap();
        assert!(stamp > last);
        assert_eq!(stamp, w.cells().get_versioned("k").unwrap().unwrap().stamp);
        last = stamp;
    }
}
