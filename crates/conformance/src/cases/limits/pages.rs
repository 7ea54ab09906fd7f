//! Limits on the number of commands, guards and page entries.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{CellCommand, Code, Transaction, limits};

/// A transaction has at most 100,000 commands.
pub fn commands_of_a_transaction(w: &mut TestDb) {
    let mut transaction = Transaction::new();
    transaction.steps = (0..=limits::TRANSACTION_LIMIT_COMMANDS).map(|_| get("k").into()).collect();
    writes_nothing(w.db(), || {
        refused(w.db().execute(transaction.clone()), Code::TransactionTooLarge);
    });
    transaction.steps.pop();
    assert_eq!(w.db().execute(transaction).unwrap().answers.len(), 100_000);
}

/// An interactive transaction has at most 10,000 guards.
pub fn guards_of_an_interactive_transaction(w: &mut TestDb) {
    let read = |count: usize| {
        let mut t = w.db().begin()?;
        for n in 0..count {
            t.get(&format!("k{n}"))?;
        }
        t.set("done", 1)?;
        t.commit()
    };
    assert!(read(limits::GUARD_LIMIT).is_ok());
    writes_nothing(w.db(), || refused(read(limits::GUARD_LIMIT + 1), Code::TransactionTooLarge));
}

/// Page limits inside a transaction are the same as outside.
pub fn pages_inside_a_transaction(w: &mut TestDb) {
    for limit in [0, limits::PAGE_LIMIT + 1] {
        let list = CellCommand::List { prefix: String::new(), after: None, limit };
        refused_at(w.db().execute(Transaction::new().step(list)), Code::InvalidLimit, 0);
    }
    let mut t = w.db().begin().unwrap();
    refused(t.list("", None, limits::PAGE_LIMIT + 1), Code::InvalidLimit);
}
