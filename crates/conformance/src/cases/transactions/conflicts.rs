//! Serializability: a commit fails with `Conflict` if a value, absence or range that was read has changed.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, ErrorKind, InteractiveTransaction, Transaction, Ttl};

/// Runs a transaction around a concurrent write. Returns whether it committed.
#[track_caller]
fn survives(
    w: &TestDb,
    inside: impl FnOnce(&mut InteractiveTransaction),
    meanwhile: impl FnOnce(),
) -> bool {
    let mut t = w.db().begin().unwrap();
    inside(&mut t);
    t.set("result", 1).unwrap();
    meanwhile();
    let before = w.db().revision();
    match t.commit() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert_eq!(w.db().revision(), before, "a conflict writes nothing");
            false
        }
    }
}

/// A key that was read and written meanwhile conflicts.
pub fn read_then_changed(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let meanwhile = || done(w.cells().set("k", 1).unwrap());
    assert!(!survives(w, |t| done(t.get("k").unwrap()), meanwhile));
    assert_eq!(w.cells().get("result").unwrap(), None);
}

/// A key that was read with its version and written meanwhile conflicts.
pub fn read_versioned_then_changed(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let meanwhile = || done(w.cells().set("k", 2).unwrap());
    assert!(!survives(w, |t| done(t.get_versioned("k").unwrap()), meanwhile));
}

/// A key that was read and deleted meanwhile conflicts.
pub fn read_then_deleted(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let meanwhile = || done(w.cells().delete("k").unwrap());
    assert!(!survives(w, |t| done(t.get("k").unwrap()), meanwhile));
}

/// A key that was absent and created meanwhile conflicts.
pub fn absent_then_created(w: &mut TestDb) {
    let meanwhile = || done(w.cells().set("k", 1).unwrap());
    assert!(!survives(w, |t| assert_eq!(t.get("k").unwrap(), None), meanwhile));
}

/// A key that was absent, then created and deleted again, conflicts.
pub fn absent_then_created_and_deleted(w: &mut TestDb) {
    let meanwhile = || {
        w.cells().set("k", 1).unwrap();
        w.cells().delete("k").unwrap();
    };
    assert!(!survives(w, |t| assert_eq!(t.get("k").unwrap(), None), meanwhile));
}

/// A key that was not written does not conflict, whatever else is written.
pub fn untouched_does_not_conflict(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let meanwhile = || done(w.cells().set("other", 1).unwrap());
    assert!(survives(w, |t| done(t.get("k").unwrap()), meanwhile));
    assert_eq!(w.cells().get("result").unwrap(), int(1));
}

/// A write that failed or had no effect is no change.
pub fn write_without_effect_is_no_change(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let meanwhile = || {
        assert_eq!(w.cells().cas("k", Some(9), 2).unwrap(), None);
        assert_eq!(w.cells().init("k", 2).unwrap(), 1);
        assert!(!w.cells().delete_if("k", 9).unwrap());
    };
    assert!(survives(w, |t| done(t.get("k").unwrap()), meanwhile));
}

/// Phantom: a name created in a listed range conflicts.
pub fn phantom_in_a_listed_range(w: &mut TestDb) {
    w.cells().set("p/a", 1).unwrap();
    let meanwhile = || done(w.cells().set("p/b", 1).unwrap());
    assert!(!survives(w, |t| done(t.list("p/", None, 10).unwrap()), meanwhile));
}

/// A phantom in an empty range conflicts, too.
pub fn phantom_in_an_empty_range(w: &mut TestDb) {
    let meanwhile = || done(w.cells().set("p/a", 1).unwrap());
    assert!(!survives(w, |t| done(t.list("p/", None, 10).unwrap()), meanwhile));
}

/// A name deleted in a listed range conflicts.
pub fn deletion_in_a_listed_range(w: &mut TestDb) {
    w.cells().set("p/a", 1).unwrap();
    w.cells().set("p/b", 1).unwrap();
    let meanwhile = || done(w.cells().delete("p/a").unwrap());
    assert!(!survives(w, |t| done(t.list("p/", None, 10).unwrap()), meanwhile));
}

/// Writes outside the listed range do not conflict.
pub fn outside_the_listed_range(w: &mut TestDb) {
    w.cells().set("p/a", 1).unwrap();
    let meanwhile = || {
        w.cells().set("p", 1).unwrap();
        w.cells().set("p0", 1).unwrap();
        w.cells().set("q/a", 1).unwrap();
    };
    assert!(survives(w, |t| done(t.list("p/", None, 10).unwrap()), meanwhile));
}

/// Only the range of the page that was read is guarded; writes after it do not conflict.
pub fn behind_the_page_that_was_read(w: &mut TestDb) {
    for cell in ["p/a", "p/b", "p/c", "p/d"] {
        w.cells().set(cell, 1).unwrap();
    }
    let meanwhile = || done(w.cells().set("p/z", 1).unwrap());
    assert!(survives(w, |t| done(t.list("p/", None, 2).unwrap()), meanwhile));
    let meanwhile = || done(w.cells().set("p/aa", 1).unwrap());
    assert!(!survives(w, |t| done(t.list("p/", None, 2).unwrap()), meanwhile));
}

/// Blind writes never conflict: the last commit wins.
pub fn blind_writes_never_conflict(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    let meanwhile = || done(w.cells().set("k", 2).unwrap());
    assert!(survives(w, |t| done(t.set("k", 1).unwrap()), meanwhile));
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    assert_eq!(counter(&w.cells(), "k"), Some(3));
}

/// Reading an own blind write adds no guard.
pub fn reading_an_own_write_guards_nothing(w: &mut TestDb) {
    let inside = |t: &mut InteractiveTransaction| {
        t.set("k", 1).unwrap();
        assert_eq!(t.get("k").unwrap(), int(1));
    };
    assert!(survives(w, inside, || done(w.cells().set("k", 2).unwrap())));
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A read before an own write is still guarded.
pub fn read_before_write_still_guards(w: &mut TestDb) {
    let inside = |t: &mut InteractiveTransaction| {
        t.get("k").unwrap();
        t.set("k", 1).unwrap();
    };
    assert!(!survives(w, inside, || done(w.cells().set("k", 2).unwrap())));
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A read-only transaction never fails, whatever changed.
pub fn read_only_never_fails(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    t.get("k").unwrap();
    t.list("", None, 10).unwrap();
    w.cells().set("k", 2).unwrap();
    w.cells().set("new", 2).unwrap();
    assert!(t.commit().is_ok());
}

/// The answer of a `cas` depends on the cell, so it is guarded, whether the swap succeeds or not.
pub fn cas_is_a_read(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let won = |t: &mut InteractiveTransaction| assert_eq!(t.cas("k", Some(1), 5).unwrap(), Some(2));
    assert!(!survives(w, won, || done(w.cells().set("k", 2).unwrap())));
    let lost = |t: &mut InteractiveTransaction| assert_eq!(t.cas("k", Some(9), 5).unwrap(), None);
    assert!(!survives(w, lost, || done(w.cells().set("k", 3).unwrap())));
    assert_eq!(w.cells().get("k").unwrap(), int(3));
}

/// The answer of an `incr` depends on the cell, so it is guarded.
pub fn incr_is_a_read(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let inside = |t: &mut InteractiveTransaction| done(t.incr("k", 1).unwrap());
    assert!(!survives(w, inside, || done(w.cells().set("k", 10).unwrap())));
    assert_eq!(w.cells().get("k").unwrap(), int(10));
}

/// The answer of a `delete` depends on the cell, so it is guarded.
pub fn delete_is_a_read(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let inside = |t: &mut InteractiveTransaction| assert!(t.delete("k").unwrap());
    assert!(!survives(w, inside, || done(w.cells().delete("k").unwrap())));
}

/// Write skew is prevented: of two transactions that read both cells and write one each, only one
/// commits.
pub fn write_skew_cannot_happen(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    let mut one = w.db().begin().unwrap();
    let mut two = w.db().begin().unwrap();
    for t in [&mut one, &mut two] {
        assert_eq!((t.get("a").unwrap(), t.get("b").unwrap()), (int(1), int(1)));
    }
    one.set("a", 0).unwrap();
    two.set("b", 0).unwrap();
    one.commit().unwrap();
    refused(two.commit(), Code::Conflict);
    assert_eq!(w.cells().get("b").unwrap(), int(1));
}

/// A cell that was read live and has expired at commit conflicts.
pub fn read_live_but_expired_at_commit(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let inside = |t: &mut InteractiveTransaction| assert_eq!(t.get("k").unwrap(), int(1));
    assert!(!survives(w, inside, || w.pass_ms(20)));
}

/// A cell that was listed live and has expired at commit conflicts.
pub fn listed_live_but_expired_at_commit(w: &mut TestDb) {
    w.cells().set_with("p/k", 1, Ttl::Millis(10)).unwrap();
    let inside =
        |t: &mut InteractiveTransaction| assert_eq!(t.list("p/", None, 9).unwrap().names.len(), 1);
    assert!(!survives(w, inside, || w.pass_ms(20)));
}

/// The time to live of an own write starts at commit, so it cannot expire before and does not conflict.
pub fn own_time_to_live_in_a_listed_range(w: &mut TestDb) {
    let inside = |t: &mut InteractiveTransaction| {
        t.set_with("p/own", 1, Ttl::Millis(5)).unwrap();
        assert_eq!(t.list("p/", None, 9).unwrap().names, ["p/own"]);
    };
    assert!(survives(w, inside, || w.pass_ms(20)));
    assert_eq!(w.cells().get("p/own").unwrap(), int(1));
}

/// A cell that is still live at commit does not conflict.
pub fn read_live_and_still_live(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let inside = |t: &mut InteractiveTransaction| assert_eq!(t.get("k").unwrap(), int(1));
    assert!(survives(w, inside, || w.pass_ms(5)));
}

/// Inside a transaction, expiry is judged at the snapshot's time.
pub fn expiry_is_judged_at_the_snapshot(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let mut t = w.db().begin().unwrap();
    w.pass_ms(20);
    assert_eq!(t.get("k").unwrap(), int(1));
    assert_eq!(t.list("", None, 9).unwrap().names, ["k"]);
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert!(t.commit().is_ok(), "it wrote nothing");
}

/// Writes on other branches do not conflict.
pub fn other_branches_do_not_conflict(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let meanwhile = || done(w.on("dev").set("k", 2).unwrap());
    let inside = |t: &mut InteractiveTransaction| {
        t.get("k").unwrap();
        t.list("", None, 9).unwrap();
    };
    assert!(survives(w, inside, meanwhile));
}

/// A cell changed by a merge conflicts.
pub fn merge_changes_what_it_brings(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("k", 2).unwrap();
    let meanwhile = || done(w.db().merge("dev", "main", Default::default()).unwrap());
    assert!(!survives(w, |t| done(t.get("k").unwrap()), meanwhile));
}

/// A transaction cannot commit if its branch was deleted and recreated.
pub fn branch_deleted_and_recreated(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut t = w.db().branch("dev").unwrap().begin().unwrap();
    t.set("k", 1).unwrap();
    w.db().delete_branch("dev").unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    assert!(writes_nothing(w.db(), || t.commit()).is_err());
    assert_eq!(w.on("dev").get("k").unwrap(), None);
}

/// A transaction cannot commit if its branch was deleted.
pub fn branch_deleted(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut t = w.db().branch("dev").unwrap().begin().unwrap();
    t.set("k", 1).unwrap();
    w.db().delete_branch("dev").unwrap();
    assert!(writes_nothing(w.db(), || t.commit()).is_err());
}

/// A key made to expire and deleted in one transaction counts as written, not as swept.
pub fn expired_and_deleted_at_once_is_a_change(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let gone = Transaction::new().step(expire("k", Ttl::Until(1))).step(delete("k"));
    let meanwhile = || done(w.db().execute(gone).unwrap());
    assert!(!survives(w, |t| done(t.get("k").unwrap()), meanwhile));
}

/// Sweeping a key that had already expired at the snapshot conflicts with no read of it or its range.
pub fn sweep_of_the_unseen_is_no_change(w: &mut TestDb) {
    w.cells().set_with("a/k", 1, Ttl::Millis(5)).unwrap();
    w.pass_ms(6);
    let inside = |t: &mut InteractiveTransaction| {
        assert_eq!(t.get("a/k").unwrap(), None);
        assert!(t.list("a/", None, 10).unwrap().names.is_empty());
    };
    assert!(survives(w, inside, || assert_eq!(w.db().sweep().unwrap(), 1)));
}

/// Sweeping a key that was listed live conflicts, and so does a key created and swept meanwhile.
pub fn sweep_of_the_seen_is_a_change(w: &mut TestDb) {
    let listing = |t: &mut InteractiveTransaction| done(t.list("a/", None, 10).unwrap());
    let sweep = || {
        w.pass_ms(6);
        assert_eq!(w.db().sweep().unwrap(), 1);
    };
    w.cells().set_with("a/k", 1, Ttl::Millis(5)).unwrap();
    assert!(!survives(w, listing, sweep));
    let comes = || {
        w.cells().set_with("a/l", 1, Ttl::Millis(5)).unwrap();
        sweep();
    };
    assert!(!survives(w, listing, comes));
}
