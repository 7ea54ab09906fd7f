//! Expiry is judged at the time of the snapshot, also for reads of the past.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, At, Transaction, Ttl};

/// A read at a revision judges expiry at that revision's timestamp.
pub fn past_revision_judges_then(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let then = w.db().revision();
    w.pass_ms(20);
    w.cells().set("other", 1).unwrap();
    let later = w.db().revision();
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
    assert_eq!(read_at(&w.cells(), At::Revision(later), "k").unwrap(), None);
}

/// A read at a timestamp judges expiry at exactly that timestamp, even if no transaction has it.
pub fn past_stamp_judges_then(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let start = w.wall_us();
    w.pass_ms(30);
    w.cells().set("other", 1).unwrap();
    assert_eq!(read_at(&w.cells(), At::Stamp(start + 9_000), "k").unwrap(), int(1));
    assert_eq!(read_at(&w.cells(), At::Stamp(start + 11_000), "k").unwrap(), None);
}

/// Lists of the past judge expiry in the past.
pub fn past_lists_judge_then(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let then = w.db().revision();
    w.pass_ms(20);
    let past = w.cells().at(At::Revision(then)).unwrap();
    assert_eq!(past.list("", None, 9).unwrap().names, ["k"]);
    assert!(names(&w.cells(), "").is_empty());
}

/// A sweep does not change the past.
pub fn sweep_leaves_the_past(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let then = w.db().revision();
    w.pass_ms(20);
    assert_eq!(w.db().sweep().unwrap(), 1);
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
}

/// All steps of a transaction use the same time.
pub fn now_is_fixed_for_a_transaction(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(set_with("a", 1, Ttl::Millis(10)))
        .step(set_with("b", 1, Ttl::Millis(10)))
        .step(get("a"));
    let receipt = w.db().execute(transaction).unwrap();
    let expiry = |cell| w.cells().get_versioned(cell).unwrap().unwrap().expires;
    assert_eq!(expiry("a"), Some(receipt.stamp + 10_000));
    assert_eq!(expiry("a"), expiry("b"));
    assert!(matches!(&receipt.answers[2], Answer::Cell(Some(_))));
}

/// An open view judges expiry at its own time.
pub fn reader_judges_at_its_own_time(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let here = w.cells().at(At::Latest).unwrap();
    w.pass_ms(20);
    assert_eq!(here.get("k").unwrap(), int(1));
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// Reads are equal before and after a sweep.
pub fn swept_or_not_reads_the_same(w: &mut TestDb) {
    for cell in ["a", "b", "c"] {
        w.cells().set_with(cell, 1, Ttl::Millis(10)).unwrap();
    }
    w.cells().set("d", 1).unwrap();
    w.pass_ms(20);
    let seen = |w: &TestDb| (names(&w.cells(), ""), w.cells().get("a").unwrap());
    let before = seen(w);
    assert_eq!(w.db().sweep().unwrap(), 3);
    assert_eq!(seen(w), before);
}
