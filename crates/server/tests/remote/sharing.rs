//! Many threads that share one client.

use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::{CellCommand, Name, Transaction, remote};
use std::thread;

const THREADS: usize = 64;
const ROUNDS: i64 = 40;

#[test]
fn everyone_gets_the_own_answer() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    thread::scope(|scope| {
        for id in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                let cells = db.cells();
                let own = format!("own/{id}");
                for n in 0..ROUNDS {
                    assert_eq!(cells.set(&own, format!("{id} {n}")).unwrap(), n as u64 + 1);
                    assert_eq!(cells.get(&own).unwrap(), Some(format!("{id} {n}").into()));
                    cells.incr("all", 1).unwrap();
                }
            });
        }
    });
    let all = THREADS as i64 * ROUNDS;
    assert_eq!(db.cells().get("all").unwrap(), Some(all.into()));
    assert_eq!(db.cells().get_versioned("all").unwrap().unwrap().counter, all as u64);
}

#[test]
fn threads_share_two_connections() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    thread::scope(|scope| {
        for id in 0..THREADS {
            let cells = db.cells();
            scope.spawn(move || {
                cells.set(&format!("k{id}"), 1).unwrap();
                cells.get("k0").unwrap();
            });
        }
    });
    assert_eq!(proxy.count(), 2);
}

#[test]
fn open_transactions_have_connections_that_are_used_again() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    let before = proxy.count();
    for n in 0..50 {
        let mut t = db.begin().unwrap();
        t.set("a", n).unwrap();
        match n % 3 {
            0 => drop(t.commit().unwrap()),
            1 => t.rollback(),
            _ => drop(t),
        }
        assert!(db.cells().at(mainstay::At::Latest).unwrap().revision() > 0 || n == 0);
    }
    assert_eq!(proxy.count(), before + 1, "one after the other");
    assert_eq!(db.cells().get("a").unwrap(), Some(48.into()));
    // The server releases the snapshots asynchronously.
    while server.db.pins().iter().any(|pin| ["transaction", "reader"].contains(&&*pin.holder)) {
        thread::yield_now();
    }

    let open: Vec<_> = (0..5).map(|_| db.begin().unwrap()).collect();
    assert_eq!(proxy.count(), before + 5, "at once");
    drop(open);
}

#[test]
fn transactions_of_many_threads_lose_no_update() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let add = |t: &mut mainstay::InteractiveTransaction| {
                        let n = t.get("n")?.and_then(|n| n.as_i64()).unwrap_or(0);
                        t.set("n", n + 1).map(drop)
                    };
                    db.transaction(add).unwrap();
                }
            });
        }
    });
    assert_eq!(db.cells().get("n").unwrap(), Some(80.into()));
}

#[test]
fn more_than_fits_at_once_is_sent_when_there_is_room() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    let name = Name::new("n").unwrap();
    let incr = || Transaction::new().step(CellCommand::Incr { name: name.clone(), by: 1.into() });
    let tickets: Vec<_> = (0..70_000).map(|_| db.submit(incr())).collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.wait().unwrap().revision, n as u64 + 1, "in order");
    }
    let receipts = db.execute_all((0..5_000).map(|_| incr()).collect());
    assert!(receipts.iter().all(Result::is_ok));
    assert_eq!(db.cells().get("n").unwrap(), Some(75_000.into()));
}

#[test]
fn a_callback_may_execute_and_wait() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    let (done, called) = std::sync::mpsc::channel();
    let inside = db.clone();
    let set = |n: i64| Transaction::new().step(CellCommand::set(Name::new("a").unwrap(), n));
    db.submit_with(set(1), move |first| {
        let second = inside.execute(set(2));
        let third = inside.submit(set(3)).wait();
        done.send([first, second, third].map(Result::unwrap)).unwrap();
    });
    let receipts = called.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    assert!(receipts.windows(2).all(|two| two[0].revision < two[1].revision));
}

#[test]
fn large_values_go_in_pieces() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    let large =
        mainstay::Value::Bytes((0..20_u32 << 20).map(|n| n as u8).take(16_000_000).collect());
    let three = (0..3).fold(Transaction::new(), |all, n| {
        all.step(CellCommand::set(Name::new(&format!("k{n}")).unwrap(), large.clone()))
    });
    db.execute(three).unwrap();
    assert_eq!(db.cells().get("k2").unwrap(), Some(large));
}

fn fork(db: &mainstay::Database, branch: &str) {
    db.fork(branch, "main", mainstay::At::Latest).unwrap();
    db.branch(branch).unwrap().cells().set(branch, 1).unwrap();
}

fn merge(branch: &str) -> Transaction {
    let from = Name::new(branch).unwrap();
    let into = Name::new("main").unwrap();
    let strategy = mainstay::MergeStrategy::Strict;
    Transaction::new().step(mainstay::BranchCommand::Merge { from, into, strategy })
}

#[test]
fn nobody_waits_behind_a_merge_however_it_is_asked_for() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    for branch in ["one", "two", "three"] {
        fork(&db, branch);
    }
    assert_eq!(proxy.count(), 2);
    db.submit(merge("one")).wait().unwrap();
    assert_eq!(proxy.count(), 3, "on a connection of its own");
    let (done, told) = std::sync::mpsc::channel();
    db.submit_with(merge("two"), move |receipt| done.send(receipt).unwrap());
    told.recv().unwrap().unwrap();
    db.execute(merge("three")).unwrap();
    assert_eq!(proxy.count(), 3, "which is used again");
    for branch in ["one", "two", "three"] {
        assert_eq!(db.cells().get(branch).unwrap(), Some(1.into()));
    }
}

#[test]
fn several_merges_at_once_have_a_connection_each() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    let branches: Vec<_> = (0..20).map(|n| format!("b{n}")).collect();
    branches.iter().for_each(|branch| fork(&db, branch));
    let merges: Vec<_> = branches.iter().map(|branch| db.submit(merge(branch))).collect();
    merges.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    assert!(branches.iter().all(|branch| db.cells().get(branch).unwrap().is_some()));
}

#[test]
fn a_merge_keeps_its_place_among_all() {
    let server = Ours::start();
    let db = remote::connect(&server.address.to_string()).unwrap();
    db.fork("dev", "main", mainstay::At::Latest).unwrap();
    let set = |branch: &str, value: i64| {
        Transaction::on(branch).step(CellCommand::set(Name::new("a").unwrap(), value))
    };
    let receipts =
        db.execute_all(vec![set("dev", 1), merge("dev"), set("main", 2), set("main", 3)]);
    let revisions: Vec<_> = receipts.into_iter().map(|receipt| receipt.unwrap().revision).collect();
    assert!(revisions.is_sorted(), "{revisions:?}");
    assert_eq!(db.cells().get("a").unwrap(), Some(3.into()));
}
