//! Guards: conditions that must hold for a transaction's steps to run.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Contract, ErrorKind, Guard, Transaction, Ttl, Value};

/// Returns whether a transaction with this guard runs; asserts that a failed one writes nothing.
#[track_caller]
fn holds(w: &TestDb, guard: Guard) -> bool {
    let probe = w.cells().get("probe").unwrap();
    let transaction = Transaction::new().guard(guard).step(incr("probe", 1));
    match w.db().execute(transaction) {
        Ok(receipt) => receipt.held,
        Err(error) => {
            assert_eq!((error.code(), error.kind()), (Code::GuardFailed, ErrorKind::Conflict));
            assert_eq!(w.cells().get("probe").unwrap(), probe);
            false
        }
    }
}

/// A counter guard on a present cell holds only for the current counter.
pub fn counter_of_a_present_cell(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("k", 1).unwrap();
    assert!(holds(w, counter_is("k", Some(2))));
    assert!(!holds(w, counter_is("k", Some(1))));
    assert!(!holds(w, counter_is("k", Some(3))));
    assert!(!holds(w, counter_is("k", None)));
}

/// A counter guard of absence holds on an absent cell, even if a deleted one still has a counter.
pub fn counter_of_an_absent_cell(w: &mut TestDb) {
    assert!(holds(w, counter_is("k", None)));
    assert!(!holds(w, counter_is("k", Some(0))));
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert!(holds(w, counter_is("k", None)));
    assert!(!holds(w, counter_is("k", Some(2))));
}

/// A counter guard treats an expired cell as absent.
pub fn counter_of_an_expired_cell(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(5)).unwrap();
    assert!(holds(w, counter_is("k", Some(1))));
    w.pass_ms(6);
    assert!(holds(w, counter_is("k", None)));
    assert!(!holds(w, counter_is("k", Some(1))));
}

/// A value guard compares values, not counters.
pub fn value_goes_by_meaning(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("k", 2).unwrap();
    assert!(holds(w, value_is("k", int(2))));
    assert!(!holds(w, value_is("k", int(1))));
    assert!(!holds(w, value_is("k", Some(2.0.into()))));
    assert!(!holds(w, value_is("k", None)));
}

/// A value guard of absence does not hold for `Null`.
pub fn value_of_an_absent_cell(w: &mut TestDb) {
    assert!(holds(w, value_is("k", None)));
    assert!(!holds(w, value_is("k", Some(Value::Null))));
    w.cells().set("k", ()).unwrap();
    assert!(!holds(w, value_is("k", None)));
    assert!(holds(w, value_is("k", Some(Value::Null))));
}

/// A value guard treats an expired cell as absent.
pub fn value_of_an_expired_cell(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(5)).unwrap();
    w.pass_ms(6);
    assert!(holds(w, value_is("k", None)));
    assert!(!holds(w, value_is("k", int(1))));
}

/// Value guards compare floats bit by bit: NaN equals itself, minus zero differs from zero.
pub fn value_compares_floats_by_bits(w: &mut TestDb) {
    w.cells().set("nan", f64::NAN).unwrap();
    w.cells().set("zero", 0.0).unwrap();
    assert!(holds(w, value_is("nan", Some(f64::NAN.into()))));
    assert!(!holds(w, value_is("zero", Some((-0.0).into()))));
}

/// `Unchanged` holds until the cell is written, even with an equal value.
pub fn unchanged_until_written(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let since = w.db().revision();
    w.cells().set("other", 1).unwrap();
    assert!(holds(w, unchanged("k", since)));
    w.cells().set("k", 1).unwrap();
    assert!(!holds(w, unchanged("k", since)));
    assert!(holds(w, unchanged("k", w.db().revision())));
}

/// `Unchanged` of an absent cell fails once it has been created, even if it is deleted again.
pub fn unchanged_absence(w: &mut TestDb) {
    w.cells().set("other", 1).unwrap();
    let since = w.db().revision();
    assert!(holds(w, unchanged("k", since)));
    w.cells().set("k", 1).unwrap();
    assert!(!holds(w, unchanged("k", since)));
    w.cells().delete("k").unwrap();
    assert!(!holds(w, unchanged("k", since)));
}

/// A deletion is a change.
pub fn unchanged_sees_a_deletion(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let since = w.db().revision();
    w.cells().delete("k").unwrap();
    assert!(!holds(w, unchanged("k", since)));
}

/// An expiry that was read and has passed is a change, even without a write.
pub fn unchanged_sees_an_expiry(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(5)).unwrap();
    let since = w.db().revision();
    let expires = w.cells().get_versioned("k").unwrap().unwrap().expires;
    let guard = Guard::Unchanged { contract: Contract::Cells, name: name("k"), since, expires };
    assert!(holds(w, guard.clone()));
    w.pass_ms(6);
    assert!(!holds(w, guard));
}

/// `RangeUnchanged` holds until a name in the range is written, including new names.
pub fn range_unchanged_until_written(w: &mut TestDb) {
    w.cells().set("p/a", 1).unwrap();
    let since = w.db().revision();
    w.cells().set("q", 1).unwrap();
    w.cells().set("p", 1).unwrap();
    assert!(holds(w, range_unchanged("p/", since)));
    w.cells().set("p/b", 1).unwrap();
    assert!(!holds(w, range_unchanged("p/", since)));
    assert!(holds(w, range_unchanged("p/", w.db().revision())));
}

/// `RangeUnchanged` detects changes and deletions in the range.
pub fn range_sees_changes_and_deletions(w: &mut TestDb) {
    w.cells().set("p/a", 1).unwrap();
    w.cells().set("p/b", 1).unwrap();
    let since = w.db().revision();
    w.cells().set("p/a", 2).unwrap();
    assert!(!holds(w, range_unchanged("p/", since)));
    let since = w.db().revision();
    w.cells().delete("p/b").unwrap();
    assert!(!holds(w, range_unchanged("p/", since)));
}

/// A range is bounded by `after`, exclusive, and `upto`, inclusive.
pub fn range_keeps_to_its_bounds(w: &mut TestDb) {
    let since = w.db().revision();
    let guard = || Guard::RangeUnchanged {
        contract: Contract::Cells,
        prefix: "p/".into(),
        after: Some("p/b".into()),
        upto: Some("p/d".into()),
        since,
        expires: None,
    };
    for outside in ["p/a", "p/b", "p/dd", "p/e", "p", "q"] {
        w.cells().set(outside, 1).unwrap();
        assert!(holds(w, guard()), "{outside}");
    }
    w.cells().set("p/d", 1).unwrap();
    assert!(!holds(w, guard()));
}

/// The empty prefix covers the whole branch.
pub fn range_of_everything(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let since = w.db().revision();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    w.on("dev").set("x", 1).unwrap();
    assert!(holds(w, range_unchanged("", since)), "another branch is another range");
    assert!(!holds(w, range_unchanged("", since)), "the probe itself was written");
}

/// An expiry that was read in a range and has passed is a change.
pub fn range_sees_an_expiry(w: &mut TestDb) {
    w.cells().set_with("p/a", 1, Ttl::Millis(5)).unwrap();
    let since = w.db().revision();
    let expires = w.cells().get_versioned("p/a").unwrap().unwrap().expires;
    let guard = Guard::RangeUnchanged {
        contract: Contract::Cells,
        prefix: "p/".into(),
        after: None,
        upto: None,
        since,
        expires,
    };
    assert!(holds(w, guard.clone()));
    w.pass_ms(6);
    assert!(!holds(w, guard));
}

/// All guards must hold.
pub fn all_must_hold(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let both = |second| {
        let guards = Transaction::new().guard(counter_is("a", Some(1))).guard(second);
        w.db().execute(guards.step(incr("n", 1)))
    };
    assert!(both(counter_is("b", None)).is_ok());
    refused(both(counter_is("b", Some(1))), Code::GuardFailed);
}

/// Guards are evaluated on the state before the steps.
pub fn guards_see_the_state_before(w: &mut TestDb) {
    let transaction = Transaction::new().guard(counter_is("k", None)).step(set("k", 1));
    assert!(w.db().execute(transaction).unwrap().held);
}
