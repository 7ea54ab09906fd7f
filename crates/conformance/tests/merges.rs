//! Serializability of merges that run concurrently with writers on both branches.
//!
//! All committed transactions are sorted by revision and replayed one by one on the reference model,
//! which must reach the same state.

use mainstay::{
    BranchCommand, CellCommand, Code, Database, Durability, MergeStrategy, Name, Options, Revision,
    Transaction,
};
use mainstay_conformance::reference_model::Oracle;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CELLS: u64 = 200;
const MERGES: usize = 30;
const BRANCHES: [&str; 2] = ["main", "side"];

/// Committed transactions of all threads, with their revisions.
type Committed = Mutex<Vec<(Revision, Transaction)>>;

fn commit(db: &Database, committed: &Committed, transaction: Transaction) {
    let receipt = db.execute(transaction.clone()).unwrap();
    committed.lock().unwrap().push((receipt.revision, transaction));
}

/// A writer thread: sets that conflict with those of the other branch, and deletions.
fn write(db: &Database, committed: &Committed, seed: u64, stop: &AtomicBool) {
    for i in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // Multiplies by a large odd number, so that consecutive writes are not adjacent in key order.
        let name = Name::new(&format!("{:03}", (i + seed).wrapping_mul(0x9e37_79b9) % CELLS));
        let command = match (i + seed) % 5 {
            0 => CellCommand::Delete { name: name.unwrap(), counter: None },
            _ => CellCommand::set(name.unwrap(), i as i64 % 3),
        };
        // A deletion without effect takes no revision, so it is not recorded.
        let transaction = Transaction::on(BRANCHES[seed as usize % 2]).step(command);
        let receipt = db.execute(transaction.clone()).unwrap();
        if receipt.answers[0].took_effect() {
            committed.lock().unwrap().push((receipt.revision, transaction));
        }
    }
}

/// Merges in both directions with each strategy and returns the number of successful merges.
fn merge(db: &Database, committed: &Committed) -> usize {
    let strategies = [MergeStrategy::Strict, MergeStrategy::Theirs, MergeStrategy::Ours];
    let mut merged = 0;
    for i in 0..MERGES {
        let [a, b] = BRANCHES.map(|name| Name::new(name).unwrap());
        let (from, into) = if i % 2 == 0 { (a, b) } else { (b, a) };
        let command = BranchCommand::Merge { from, into, strategy: strategies[i % 3] };
        let transaction = Transaction::new().step(command);
        match db.execute(transaction.clone()) {
            Ok(receipt) => {
                committed.lock().unwrap().push((receipt.revision, transaction));
                merged += 1;
            }
            Err(error) => assert_eq!(error.code(), Code::MergeConflict, "{error}"),
        }
    }
    merged
}

fn compare(db: &Database, oracle: &Oracle) {
    for branch in BRANCHES {
        let cells = db.branch(branch).unwrap().cells();
        for i in 0..CELLS {
            let name = format!("{i:03}");
            let shown = |cell: mainstay::Versioned| (cell.value, cell.counter, cell.revision);
            let model = oracle.get(branch, &name, oracle.latest()).unwrap();
            let engine = cells.get_versioned(&name).unwrap();
            assert_eq!(engine.map(shown), model.map(shown), "{branch} {name}");
        }
    }
}

fn merges_beside_writers(db: &Database) {
    let committed = Committed::default();
    let stop = AtomicBool::new(false);
    let mut oracle = Oracle::new(db.revision(), 1_000_000_000);
    for i in 0..CELLS {
        let set = CellCommand::set(Name::new(&format!("{i:03}")).unwrap(), 0);
        commit(db, &committed, Transaction::new().step(set));
    }
    let name = Name::new("side").unwrap();
    let from = Name::new("main").unwrap();
    let fork = BranchCommand::Fork { name, from, at: None };
    commit(db, &committed, Transaction::new().step(fork));
    let merged = thread::scope(|scope| {
        for seed in 0..4 {
            let committed = &committed;
            let stop = &stop;
            scope.spawn(move || write(db, committed, seed, stop));
        }
        let merged = merge(db, &committed);
        stop.store(true, Ordering::Relaxed);
        merged
    });
    assert!(merged >= MERGES / 2, "only strict ones may fail: {merged}");
    let mut committed = committed.into_inner().unwrap();
    committed.sort_by_key(|(revision, _)| *revision);
    for (revision, transaction) in committed {
        oracle.execute(&transaction).unwrap_or_else(|error| panic!("{transaction:?}: {error}"));
        assert_eq!(oracle.revision(), revision, "{transaction:?}");
    }
    compare(db, &oracle);
}

#[test]
fn in_memory() {
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    merges_beside_writers(&options.memory().unwrap());
}

#[test]
fn on_disk() {
    let files = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let options = options.write_buffer_bytes(256 << 10);
    merges_beside_writers(&options.open(files.path().join("db")).unwrap());
}
