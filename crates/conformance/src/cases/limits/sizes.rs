//! Limits on sizes in bytes.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, ErrorKind, Step, Transaction, Value};

fn megabytes(count: usize) -> Value {
    Value::Bytes(vec![7; count << 20])
}

/// A transaction writes at most 64 MiB.
pub fn bytes_of_a_transaction(w: &mut TestDb) {
    let mut transaction = Transaction::new();
    for n in 0..5 {
        transaction = transaction.step(set(&format!("k{n}"), megabytes(14)));
    }
    writes_nothing(w.db(), || refused(w.db().execute(transaction), Code::TransactionTooLarge));
    assert!(names(&w.cells(), "").is_empty());
}

/// An interactive transaction writes at most 64 MiB, too.
pub fn bytes_of_an_interactive_transaction(w: &mut TestDb) {
    let write = || {
        let mut t = w.db().begin()?;
        for n in 0..5 {
            t.set(&format!("k{n}"), megabytes(14))?;
        }
        t.commit()
    };
    writes_nothing(w.db(), || refused(write(), Code::TransactionTooLarge));
}

/// A value that is too large is refused with its position in the transaction.
pub fn value_in_a_transaction(w: &mut TestDb) {
    let transaction = Transaction::new().step(set("a", 1)).step(set("b", megabytes(16)));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::ValueTooLarge, 1));
    assert_eq!(w.cells().get("a").unwrap(), None);
}

/// A value that is nested too deeply is refused with its position in the transaction.
pub fn depth_in_a_transaction(w: &mut TestDb) {
    let deep = (0..129).fold(Value::Null, |inside, _| Value::Array(vec![inside]));
    let transaction = Transaction::new().step(set("a", 1)).step(init("b", deep));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::ValueTooDeep, 1));
}

/// A size error has the kind `TooLarge`.
pub fn kind_is_too_large(w: &mut TestDb) {
    let error = w.cells().set("k", megabytes(16)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(!error.message().is_empty());
}

/// In a batch, a value that is too large fails alone.
pub fn value_in_a_batch_fails_alone(w: &mut TestDb) {
    let answers = w.cells().batch(vec![set("a", 1), set("b", megabytes(16)), set("c", 1)]);
    refused(answers[1].clone(), Code::ValueTooLarge);
    assert_eq!(names(&w.cells(), ""), ["a", "c"]);
}

/// A merge over the transaction limit is refused and changes nothing.
pub fn bytes_of_a_merge(w: &mut TestDb) {
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    for n in 0..5 {
        w.on("dev").set(&format!("k{n}"), megabytes(14)).unwrap();
    }
    let error = writes_nothing(w.db(), || {
        w.db().merge("dev", "main", mainstay::MergeStrategy::Strict).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(names(&w.cells(), "").is_empty());
}

/// The answers of a transaction have at most 128 MiB in total; a transaction that exceeds this writes
/// nothing.
pub fn bytes_of_all_answers(w: &mut TestDb) {
    w.cells().set("large", megabytes(15)).unwrap();
    let ask = |count| {
        let reads = (0..count).map(|_| Step::from(get("large")));
        let mut transaction = Transaction::new().step(set("seen", count));
        transaction.steps.extend(reads);
        transaction
    };
    assert_eq!(w.db().execute(ask(8)).unwrap().answers.len(), 9);
    writes_nothing(w.db(), || refused_at(w.db().execute(ask(9)), Code::TransactionTooLarge, 9));
}

/// An interactive transaction records at most 10,000 keys and ranges; further reads fail with
/// `TransactionTooLarge`.
pub fn too_many_ranges_are_refused(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.get("k").unwrap();
    for _ in 1..10_000 {
        t.list("a/", None, 1).unwrap();
    }
    refused(t.list("a/", None, 1), Code::TransactionTooLarge);
    refused(t.count_records("a/", &[]), Code::TransactionTooLarge);
    t.set("result", 1).unwrap();
    t.commit().unwrap();
}
