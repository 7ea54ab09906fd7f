//! Connections: one transaction at a time, controlled by `begin`, `commit` and `rollback`.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code};

/// Without a transaction, each operation commits immediately.
pub fn without_transaction_goes_straight(w: &mut TestDb) {
    let mut c = w.db().connection();
    assert!(!c.in_transaction());
    assert_eq!(c.set("k", 1).unwrap(), 1);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    assert_eq!(c.get("k").unwrap(), int(1));
}

/// Inside a transaction, writes become visible at commit.
pub fn inside_waits_for_the_commit(w: &mut TestDb) {
    let mut c = w.db().connection();
    c.begin().unwrap();
    assert!(c.in_transaction());
    c.set("k", 1).unwrap();
    assert_eq!(c.get("k").unwrap(), int(1));
    assert_eq!(w.cells().get("k").unwrap(), None);
    c.commit().unwrap();
    assert!(!c.in_transaction());
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A second `begin` is refused, and the first transaction stays open.
pub fn begin_twice_is_refused(w: &mut TestDb) {
    let mut c = w.db().connection();
    c.begin().unwrap();
    c.set("k", 1).unwrap();
    refused(c.begin(), Code::TransactionActive);
    c.commit().unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// Commit without begin is refused.
pub fn commit_without_begin_is_refused(w: &mut TestDb) {
    let mut c = w.db().connection();
    refused(c.commit(), Code::NoTransaction);
    c.begin().unwrap();
    c.commit().unwrap();
    refused(c.commit(), Code::NoTransaction);
}

/// Rollback without begin is refused.
pub fn rollback_without_begin_is_refused(w: &mut TestDb) {
    let mut c = w.db().connection();
    refused(c.rollback(), Code::NoTransaction);
    c.begin().unwrap();
    c.rollback().unwrap();
    refused(c.rollback(), Code::NoTransaction);
}

/// A rollback discards the writes.
pub fn rollback_forgets(w: &mut TestDb) {
    let mut c = w.db().connection();
    c.begin().unwrap();
    c.set("k", 1).unwrap();
    c.rollback().unwrap();
    assert_eq!(c.get("k").unwrap(), None);
}

/// A failed command leaves the transaction open.
pub fn failed_command_leaves_it_open(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let mut c = w.db().connection();
    c.begin().unwrap();
    refused(c.incr("text", 1), Code::NotANumber);
    assert!(c.in_transaction());
    c.set("k", 1).unwrap();
    c.commit().unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A conflict ends the transaction, and the next one can begin.
pub fn conflict_ends_it(w: &mut TestDb) {
    let mut c = w.db().connection();
    c.begin().unwrap();
    c.get("k").unwrap();
    c.set("k", 1).unwrap();
    w.cells().set("k", 2).unwrap();
    refused(c.commit(), Code::Conflict);
    assert!(!c.in_transaction());
    c.begin().unwrap();
    assert_eq!(c.get("k").unwrap(), int(2));
}

/// Dropping the connection rolls back.
pub fn dropping_rolls_back(w: &mut TestDb) {
    let mut c = w.db().connection();
    c.begin().unwrap();
    c.set("k", 1).unwrap();
    drop(c);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// A connection can switch to another branch.
pub fn moves_to_another_branch(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut c = w.db().connection();
    c.use_branch("dev").unwrap();
    c.set("k", 1).unwrap();
    c.begin().unwrap();
    c.set("l", 1).unwrap();
    c.commit().unwrap();
    assert_eq!(names(&w.on("dev"), ""), ["k", "l"]);
    assert!(names(&w.cells(), "").is_empty());
    refused(c.use_branch("nowhere"), Code::BranchNotFound);
}
