//! `otherwise`: alternative steps that run if a guard fails.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Demand, Step, Transaction};

fn choice(w: &TestDb) -> mainstay::Result<mainstay::Receipt> {
    let transaction = Transaction::new()
        .guard(counter_is("k", None))
        .step(set("k", "first"))
        .otherwise(vec![incr("missed", 1).into(), get("k").into()]);
    w.db().execute(transaction)
}

/// If the guards hold, only the steps run.
pub fn not_run_when_guards_hold(w: &mut TestDb) {
    let receipt = choice(w).unwrap();
    assert!(receipt.held);
    assert_eq!(receipt.answers.as_slice(), [Answer::Counter(1)]);
    assert_eq!(w.cells().get("missed").unwrap(), None);
}

/// If a guard fails, only `otherwise` runs, and the receipt has `held: false`.
pub fn run_when_a_guard_fails(w: &mut TestDb) {
    w.cells().set("k", "taken").unwrap();
    let receipt = choice(w).unwrap();
    assert!(!receipt.held);
    assert_eq!(receipt.answers.len(), 2);
    assert_eq!(receipt.answers[0], Answer::Number { value: 1.into(), counter: 1 });
    assert_eq!(w.cells().get("k").unwrap(), Some("taken".into()));
    assert_eq!(w.cells().get("missed").unwrap(), int(1));
}

/// With an empty `otherwise`, a failed guard is a normal answer.
pub fn empty_is_an_answer(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let transaction =
        Transaction::new().guard(counter_is("k", None)).step(set("k", 2)).otherwise(vec![]);
    let receipt = writes_nothing(w.db(), || w.db().execute(transaction).unwrap());
    assert!(!receipt.held && receipt.answers.is_empty());
}

/// Without `otherwise`, a failed guard is an error and nothing is written.
pub fn without_it_the_transaction_fails(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let transaction = Transaction::new().guard(counter_is("k", None)).step(set("k", 2));
    writes_nothing(w.db(), || refused(w.db().execute(transaction), Code::GuardFailed));
}

/// An error in `otherwise` aborts the transaction and reports its position there.
pub fn error_aborts_with_its_position(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let transaction = Transaction::new()
        .guard(counter_is("text", None))
        .otherwise(vec![set("a", 1).into(), incr("text", 1).into()]);
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::NotANumber, 1));
}

/// `must` also works in `otherwise`.
pub fn must_counts_there_too(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let must = Step { command: delete("absent").into(), demand: Demand::Effect };
    let transaction =
        Transaction::new().guard(counter_is("k", None)).otherwise(vec![set("a", 1).into(), must]);
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::MustFailed, 1));
}
