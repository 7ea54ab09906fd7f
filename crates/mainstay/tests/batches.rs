//! Batches of transactions that are executed together.

use mainstay::{
    Answer, CellCommand, Code, Database, Durability, Guard, InteractiveTransaction, Name, Options,
    Transaction,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn set(name: &str, value: i64) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), value))
}

#[test]
fn every_place_has_its_own_answer_however_many_there_are() {
    let db = Database::memory().unwrap();
    let mut transactions = Vec::new();
    for i in 0..5000_i64 {
        // Every seventh transaction is refused, because its guard names a cell that was never written.
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
        // This batch is the only writer, so the order of the batch is the order of the counters.
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

/// Returns a write with one of the three durabilities.
fn mixed(i: i64) -> Transaction {
    let levels = [Durability::Sync, Durability::Memory, Durability::Interval];
    set(&format!("k{}", i % 10), i).durability(levels[i as usize % 3])
}

/// Runs a batch. Returns whether each transaction succeeded, or was refused because the database is closed.
fn is_answered(db: &Database, count: i64) -> bool {
    let receipts = db.execute_all((0..count).map(mixed).collect());
    let is_fine = |receipt: &mainstay::Result<_>| {
        receipt.as_ref().err().is_none_or(|error| error.code() == Code::Closed)
    };
    receipts.len() as i64 == count && receipts.iter().all(is_fine)
}

/// Runs batches of all durabilities on two databases, beside callbacks that panic or run batches themselves,
/// until one database is closed.
#[test]
fn everyone_is_answered_whatever_the_neighbours_do() {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one, two] = directories.each_ref().map(|at| Database::open(at.path()).unwrap());
    let (told, tell) = mpsc::channel();
    let called = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let one = &one;
            let two = &two;
            let told = told.clone();
            let called = &called;
            scope.spawn(move || {
                for round in 0..30 {
                    let db = if (thread + round) % 2 == 0 { one } else { two };
                    let own = db.clone();
                    let told = told.clone();
                    called.fetch_add(1, Ordering::Relaxed);
                    db.submit_with(mixed(round), move |_| {
                        let fine = round % 3 != 0 || is_answered(&own, 50);
                        // A thread of the database must not hold the last handle to it.
                        drop(own);
                        told.send(fine).unwrap();
                        assert!(round % 3 != 1, "a callback that panics");
                    });
                    assert!(is_answered(db, 20 + 40 * round));
                    if (thread, round) == (0, 20) {
                        two.close().unwrap();
                    }
                }
            });
        }
    });
    for _ in 0..called.load(Ordering::Relaxed) {
        assert_eq!(tell.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
    assert!(one.cells().set("last", 1).is_ok());
    assert_eq!(two.cells().set("last", 1).unwrap_err().code(), Code::Closed);
}

/// No commit may come between the reads and the writes of such a transaction, even while other threads write.
#[test]
fn a_transaction_that_nobody_comes_between_never_conflicts() {
    let directory = tempfile::tempdir().unwrap();
    let db = Options::new().durability(Durability::Interval).open(directory.path()).unwrap();
    let threads = 8;
    let rounds = 100;
    std::thread::scope(|scope| {
        for number in 0..threads {
            let db = &db;
            scope.spawn(move || {
                let main = db.branch("main").unwrap();
                for _ in 0..rounds {
                    db.cells().incr("n", 1).unwrap();
                    let add = |t: &mut InteractiveTransaction| {
                        let n = t.get("n")?.and_then(|value| value.as_i64()).unwrap_or(0);
                        let listed = t.list("n", None, 10)?.names.len() as i64;
                        t.set("n", n + listed)?;
                        Ok(n)
                    };
                    let (before, receipt) = main.transaction_alone(Vec::new(), add).unwrap();
                    assert!(receipt.held && before > 0, "{number}");
                }
            });
        }
    });
    assert_eq!(db.cells().get("n").unwrap(), Some((2 * threads * rounds).into()));
}

#[test]
fn a_transaction_that_nobody_comes_between_does_nothing_where_a_guard_fails_or_its_closure_does() {
    let db = Database::memory().unwrap();
    let main = db.branch("main").unwrap();
    let name = Name::new("a").unwrap();
    let absent = Guard::Counter { name, is: None };
    let (_, receipt) = main.transaction_alone(vec![absent.clone()], |t| t.set("a", 1)).unwrap();
    assert!(receipt.held && receipt.revision == db.revision());
    let (_, receipt) = main.transaction_alone(vec![absent], |t| t.set("a", 2)).unwrap();
    assert!(!receipt.held);
    let failed = main.transaction_alone(Vec::new(), |t| {
        t.set("a", "text")?;
        t.incr("a", 1)
    });
    assert_eq!(failed.unwrap_err().code(), Code::NotANumber);
    assert_eq!(db.cells().get("a").unwrap(), Some(1.into()));
    // The writer is not blocked any more.
    db.cells().set("a", 4).unwrap();
}
