//! Request IDs (idempotency keys of transactions): a retry returns the same receipt and executes nothing.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Receipt, RequestId, Transaction};
use std::time::Duration;

fn named(id: &str) -> Transaction {
    Transaction::new().request(RequestId::new(id).unwrap()).step(incr("n", 1)).step(get("n"))
}

/// A retry executes nothing and returns the same receipt, marked `repeated`.
pub fn repeated_gives_the_same_receipt(w: &mut TestDb) {
    let first = w.db().execute(named("r1")).unwrap();
    assert!(!first.repeated);
    w.cells().set("n", 100).unwrap();
    let again = writes_nothing(w.db(), || w.db().execute(named("r1")).unwrap());
    assert_eq!(again, Receipt { repeated: true, ..first });
    assert_eq!(w.cells().get("n").unwrap(), int(100));
}

/// A read-only transaction is stored, too: a retry returns the old answers.
pub fn reading_is_remembered_too(w: &mut TestDb) {
    w.cells().set("n", 1).unwrap();
    let named = || Transaction::new().request(RequestId::new("r").unwrap()).step(get("n"));
    let first = w.db().execute(named()).unwrap();
    w.cells().set("n", 2).unwrap();
    let again = w.db().execute(named()).unwrap();
    assert_eq!(again, Receipt { repeated: true, ..first });
}

/// A different ID is a different request.
pub fn another_id_runs(w: &mut TestDb) {
    w.db().execute(named("r1")).unwrap();
    w.db().execute(named("r2")).unwrap();
    assert_eq!(w.cells().get("n").unwrap(), int(2));
}

/// A failed request is not stored, so a retry runs it.
pub fn failed_runs_again(w: &mut TestDb) {
    w.cells().set("n", "text").unwrap();
    refused(w.db().execute(named("r1")), Code::NotANumber);
    w.cells().set("n", 1).unwrap();
    let receipt = w.db().execute(named("r1")).unwrap();
    assert!(!receipt.repeated);
    assert_eq!(w.cells().get("n").unwrap(), int(2));
}

/// An ID reused for a different transaction never executes that transaction.
pub fn reused_for_another_transaction_does_not_run(w: &mut TestDb) {
    w.db().execute(named("r1")).unwrap();
    let other = Transaction::new().request(RequestId::new("r1").unwrap()).step(set("x", 1));
    writes_nothing(w.db(), || match w.db().execute(other) {
        Ok(receipt) => assert!(receipt.repeated),
        Err(error) => assert_eq!(error.code(), Code::RequestReused),
    });
    assert_eq!(w.cells().get("x").unwrap(), None);
}

/// A receipt is kept for a day.
pub fn remembered_for_a_day(w: &mut TestDb) {
    w.db().execute(named("r1")).unwrap();
    w.pass(Duration::from_secs(23 * 3600));
    w.cells().set("other", 1).unwrap();
    assert!(w.db().execute(named("r1")).unwrap().repeated);
    assert_eq!(w.cells().get("n").unwrap(), int(1));
}

/// Of two concurrent submissions with one ID, exactly one executes.
pub fn submitted_twice_at_once_runs_once(w: &mut TestDb) {
    let tickets = [w.db().submit(named("r1")), w.db().submit(named("r1"))];
    let receipts = tickets.map(|ticket| ticket.wait().unwrap());
    assert_eq!(receipts.iter().filter(|receipt| receipt.repeated).count(), 1);
    assert_eq!(w.cells().get("n").unwrap(), int(1));
}

/// A request ID has 1 to 64 bytes.
pub fn ids_have_limits(_: &mut TestDb) {
    refused(RequestId::new(""), Code::InvalidArgument);
    refused(RequestId::new("r".repeat(65)), Code::InvalidArgument);
    assert!(RequestId::new("r".repeat(64)).is_ok());
}
