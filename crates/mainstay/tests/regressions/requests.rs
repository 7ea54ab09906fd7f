//! Named requests at their limits.

use super::*;

fn named_request(id: &str) -> Transaction {
    Transaction::new().request(RequestId::new(id).unwrap())
}

#[test]
fn the_largest_answers_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Options::new().sweep_interval(None).open(directory.path()).unwrap();
    let db = open();
    let largest = Value::Bytes(vec![7; limits::VALUE_LIMIT_BYTES - 5]);
    let deepest = (0..limits::VALUE_LIMIT_DEPTH).fold(Value::Null, |v, _| Value::Array(vec![v]));
    db.cells().set("large", largest).unwrap();
    db.cells().set("deep", deepest).unwrap();
    let get = |name: &str| CellCommand::Get { name: cell(name) };
    let one = || named_request("one").step(get("large"));
    let all = || (0..7).fold(named_request("all"), |t, _| t.step(get("large"))).step(get("deep"));
    let first = db.execute(one()).unwrap();
    let whole = db.execute(all()).unwrap();
    assert_eq!(db.execute(one()).unwrap(), Receipt { repeated: true, ..first.clone() });
    // Reads the receipts from the log, and then from the stores.
    drop(db);
    let db = open();
    assert_eq!(db.execute(all()).unwrap(), Receipt { repeated: true, ..whole.clone() });
    db.trim().unwrap();
    drop(db);
    let db = open();
    assert_eq!(db.execute(one()).unwrap(), Receipt { repeated: true, ..first });
    assert_eq!(db.execute(all()).unwrap(), Receipt { repeated: true, ..whole });
    let beyond = (0..8).fold(named_request("beyond"), |t, _| t.step(get("large")));
    assert_eq!(db.execute(beyond).unwrap_err().code(), Code::TransactionTooLarge);
}

#[test]
fn the_largest_named_transactions_are_done() {
    let db = Options::new().sweep_interval(None).memory().unwrap();
    let many = || {
        let mut transaction = named_request("many");
        let set = |n| CellCommand::set(cell(&format!("k{n}")), n);
        transaction.steps = (0..100_000_i64).map(|n| set(n).into()).collect();
        transaction
    };
    let receipt = db.execute(many()).unwrap();
    assert_eq!(receipt.answers.len(), 100_000);
    assert_eq!(db.execute(many()).unwrap(), Receipt { repeated: true, ..receipt });
    // The receipt does not count against the limit: a transaction with an id may write as much as one
    // without.
    let room = limits::TRANSACTION_LIMIT_BYTES / 4 - 32;
    let set = |n| CellCommand::set(cell(&format!("big{n}")), Value::Bytes(vec![1; room]));
    let full = |t: Transaction| (0..4).fold(t, |t, n| t.step(set(n)));
    let spare = |t: Transaction| t.step(CellCommand::set(cell("rest"), "x".repeat(40)));
    db.execute(spare(full(Transaction::new()))).unwrap();
    db.execute(spare(full(named_request("full")))).unwrap();
}
