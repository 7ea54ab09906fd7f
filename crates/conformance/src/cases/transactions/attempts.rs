//! `attempt` steps: their error becomes their answer.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, At, BranchCommand, Code, Demand, Receipt, RequestId, Step, Transaction, Ttl, Value,
};

#[track_caller]
fn failed(receipt: &Receipt, position: usize, code: Code) {
    match &receipt.answers[position] {
        Answer::Failed(error) => assert_eq!(error.code(), code, "{error}"),
        other => panic!("expected {code:?} at {position}, got {other:?}"),
    }
}

/// The other steps take effect, in one revision.
pub fn others_take_effect(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let transaction =
        Transaction::new().step(set("a", 1)).attempt(incr("text", 1)).attempt(set("b", 2));
    let receipt = writes_once(w.db(), || w.db().execute(transaction).unwrap());
    failed(&receipt, 1, Code::NotANumber);
    assert_eq!(receipt.answers[2], Answer::Counter(1));
    assert_eq!((w.cells().get("a").unwrap(), w.cells().get("b").unwrap()), (int(1), int(2)));
    assert_eq!(counter(&w.cells(), "text"), Some(1));
}

/// A failed attempt writes nothing, not even a counter.
pub fn nothing_of_it_is_written(w: &mut TestDb) {
    w.cells().set("n", i64::MAX).unwrap();
    let transaction = Transaction::new()
        .step(set("text", "x"))
        .attempt(incr("text", 1))
        .attempt(incr("n", 1))
        .attempt(set_with("gone", 1, Ttl::Millis(0)))
        .step(set("text", "y"));
    let receipt = w.db().execute(transaction).unwrap();
    failed(&receipt, 1, Code::NotANumber);
    failed(&receipt, 2, Code::Overflow);
    failed(&receipt, 3, Code::InvalidTtl);
    assert_eq!(receipt.answers[4], Answer::Counter(2));
    assert_eq!(names(&w.cells(), ""), ["n", "text"]);
    assert_eq!(counter(&w.cells(), "n"), Some(1));
}

/// A transaction whose only step is a failed attempt takes no revision.
pub fn failing_alone_takes_no_revision(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let receipt = writes_nothing(w.db(), || {
        w.db().execute(Transaction::new().attempt(incr("text", 1))).unwrap()
    });
    failed(&receipt, 0, Code::NotANumber);
}

/// A failed ordinary or `must` step aborts the transaction, even after an attempt.
pub fn others_may_still_not_fail(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let transaction = Transaction::new().attempt(set("a", 1)).step(incr("text", 1));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::NotANumber, 1));
    let transaction = Transaction::new().attempt(set("a", 1)).must(delete("absent"));
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::MustFailed, 1));
}

/// A step without an effect is not a failure.
pub fn without_effect_is_its_usual_answer(w: &mut TestDb) {
    let transaction = Transaction::new().attempt(cas("a", Some(1), 1)).attempt(delete("a"));
    let receipt = w.db().execute(transaction).unwrap();
    assert_eq!(receipt.answers[0], Answer::MaybeCounter(None));
    assert_eq!(receipt.answers[1], Answer::Did(false));
}

/// A transaction that becomes too large fails as a whole.
pub fn too_much_fails_everything(w: &mut TestDb) {
    let large = Value::from("x".repeat(15 << 20));
    let all = (0..5).map(|n| set(&format!("k{n}"), large.clone()));
    let transaction = all.fold(Transaction::new(), Transaction::attempt);
    writes_nothing(w.db(), || {
        refused_at(w.db().execute(transaction), Code::TransactionTooLarge, 4)
    });
}

/// A failed branch command fails the transaction.
pub fn branch_commands_fail_everything(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let fork = BranchCommand::Fork { name: name("dev"), from: name("main"), at: None };
    refused_at(w.db().execute(Transaction::new().attempt(fork)), Code::BranchExists, 0);
}

/// Attempts also work in `otherwise`.
pub fn counts_in_otherwise_too(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let attempt = Step { command: incr("text", 1).into(), demand: Demand::Nothing };
    let transaction = Transaction::new()
        .guard(counter_is("absent", Some(1)))
        .otherwise(vec![attempt, set("a", 1).into()]);
    let receipt = w.db().execute(transaction).unwrap();
    failed(&receipt, 0, Code::NotANumber);
    assert_eq!(w.cells().get("a").unwrap(), int(1));
}

/// A transaction with a request ID stores the failure, and a retry returns it.
pub fn named_remembers_the_failure(w: &mut TestDb) {
    w.cells().set("n", "x").unwrap();
    let id = || RequestId::new("r").unwrap();
    let named = || Transaction::new().request(id()).attempt(incr("n", 1)).step(set("a", 1));
    let first = w.db().execute(named()).unwrap();
    failed(&first, 0, Code::NotANumber);
    w.cells().set("n", 1).unwrap();
    let again = writes_nothing(w.db(), || w.db().execute(named()).unwrap());
    assert_eq!(again, Receipt { repeated: true, ..first });
    assert_eq!(w.cells().get("n").unwrap(), int(1));
}
