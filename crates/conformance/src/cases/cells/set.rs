//! `get`, `get_versioned` and `set`.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Ttl, Value};

/// A cell that was never written is absent.
pub fn never_written_is_absent(w: &mut TestDb) {
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().get_versioned("k").unwrap(), None);
}

/// The first `set` returns counter 1, and each further one adds one.
pub fn raises_the_counter_by_one(w: &mut TestDb) {
    for expected in 1..=5 {
        assert_eq!(w.cells().set("k", expected as i64).unwrap(), expected);
        assert_eq!(w.cells().get("k").unwrap(), int(expected as i64));
    }
}

/// Each set is one revision.
pub fn takes_one_revision(w: &mut TestDb) {
    writes_once(w.db(), || w.cells().set("k", 1).unwrap());
    writes_once(w.db(), || w.cells().set("k", 1).unwrap());
}

/// Setting the same value again counts as a write.
pub fn of_the_same_value_is_a_write(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert_eq!(w.cells().set("k", 1).unwrap(), 2);
}

/// `get_versioned` returns the value, counter, timestamp and revision of the last write.
pub fn versioned_tells_everything(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.pass_ms(5);
    w.cells().set("k", 2).unwrap();
    let revision = w.db().revision();
    let stamp = w.wall_us();
    w.cells().set("other", 1).unwrap();
    let seen = w.cells().get_versioned("k").unwrap().unwrap();
    assert_eq!((seen.value, seen.counter), (Value::Int(2), 2));
    assert_eq!((seen.revision, seen.stamp, seen.expires), (revision, stamp, None));
    assert_eq!(w.db().stamp_of(revision).unwrap(), stamp);
}

/// Writes to one cell do not affect other cells.
pub fn cells_are_independent(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("ab", 2).unwrap();
    w.cells().set("a", 3).unwrap();
    assert_eq!(counter(&w.cells(), "a"), Some(2));
    assert_eq!(counter(&w.cells(), "ab"), Some(1));
    assert_eq!(w.cells().get("ab").unwrap(), int(2));
}

/// After a deletion, `set` continues the counter.
pub fn after_deletion_continues_the_counter(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(w.cells().set("k", 2).unwrap(), 3);
}

/// A `set` without a time to live removes the old one.
pub fn clears_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    w.cells().set("k", 2).unwrap();
    w.pass_ms(50);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A `set` with `Keep` keeps the expiry.
pub fn keep_keeps_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let before = w.cells().get_versioned("k").unwrap().unwrap().expires;
    w.pass_ms(5);
    w.cells().set_with("k", 2, Ttl::Keep).unwrap();
    assert_eq!(w.cells().get_versioned("k").unwrap().unwrap().expires, before);
    w.pass_ms(6);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// A read at a revision returns the newest version that is not newer than that revision.
pub fn old_values_stay_readable(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let then = w.db().revision();
    w.cells().set("k", 2).unwrap();
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
    assert_eq!(read_at(&w.cells(), At::Latest, "k").unwrap(), int(2));
}
