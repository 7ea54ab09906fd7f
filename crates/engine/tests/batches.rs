//! Transactions that are executed side by side.

use mainstay::{Answer, CellCommand, Code, Database, Guard, Name, Transaction};

fn set(name: &str, value: i64) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), value))
}

#[test]
fn every_place_has_its_own_answer_however_many_there_are() {
    let db = Database::memory().unwrap();
    let mut transactions = Vec::new();
    for i in 0..5000_i64 {
        // Every seventh is refused: its cell was never written.
        let guard = Guard::Counter { name: Name::new("never").unwrap(), is: Some(1) };
        let transaction = set("a", i);
        transactions.push(if i % 7 == 3 { transaction.guard(guard) } else { transaction });
    }
    let receipts = db.execute_all(transactions);
    assert_eq!(receipts.len(), 5000);
    let mut counter = 0;
    for (i, receipt) in receipts.iter().enumerate() {
        if i % 7 == 3 {
            assert_eq!(receipt.as_ref().unwrap_err().code(), Code::GuardFailed);
            continue;
        }
        counter += 1;
        // Nobody else writes: the order of the batch is the order of the counters.
        assert_eq!(receipt.as_ref().unwrap().answers[0], Answer::Counter(counter));
    }
    assert_eq!(db.cells().get("a").unwrap(), Some(4999.into()));
}

#[test]
fn batches_of_many_threads_lose_nothing_and_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..20 {
                    let incr = |_| {
                        let name = Name::new("sum").unwrap();
                        Transaction::new().step(CellCommand::Incr { name, by: 1.into() })
                    };
                    let receipts = db.execute_all((0..=thread * round % 50).map(incr).collect());
                    assert!(receipts.iter().all(Result::is_ok));
                }
            });
        }
    });
    let expected: i64 = (0..8).flat_map(|t| (0..20).map(move |r| t * r % 50 + 1)).sum();
    db.close().unwrap();
    drop(db);
    let db = Database::open(directory.path()).unwrap();
    assert_eq!(db.cells().get("sum").unwrap(), Some(expected.into()));
}

#[test]
fn an_empty_batch_answers_nothing_and_a_closed_database_refuses_each() {
    let db = Database::memory().unwrap();
    assert!(db.execute_all(Vec::new()).is_empty());
    db.close().unwrap();
    let receipts = db.execute_all(vec![set("a", 1), set("b", 2)]);
    assert!(receipts.iter().all(|r| r.as_ref().unwrap_err().code() == Code::Closed));
    assert_eq!(receipts.len(), 2);
}
