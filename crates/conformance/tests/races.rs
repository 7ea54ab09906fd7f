//! Threads against each other. Each test says which check it would catch the absence of.

use mainstay::{At, Cells, Code, Database, Durability, Error, ErrorKind, Options, Result, Value};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const THREADS: usize = 8;

/// In memory, and on disk without waiting for the disk: races are about order, not durability.
fn on_both(test: impl Fn(&Database)) {
    test(&Database::memory().unwrap());
    let files = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Memory).write_buffer_bytes(1 << 20);
    test(&options.open(files.path().join("db")).unwrap());
}

/// Runs the same thing on all threads at once and gives what each answered.
fn together<T: Send>(run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        let one = |n| {
            let (start, run) = (&start, &run);
            scope.spawn(move || {
                start.wait();
                run(n)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn number(value: Option<Value>) -> i64 {
    value.and_then(|value| value.as_i64()).unwrap_or(0)
}

/// Runs until it is not in conflict with anyone.
fn until_done<T>(mut attempt: impl FnMut() -> Result<T>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

/// Catches a `cas` that looks and writes in two steps: two callers would both see absence.
#[test]
fn one_cas_of_none_wins() {
    on_both(|db| {
        for round in 0..50 {
            let name = format!("lock{round}");
            let won = together(|n| db.cells().cas(&name, None, n as i64).unwrap());
            let winners: Vec<usize> = (0..THREADS).filter(|n| won[*n].is_some()).collect();
            assert_eq!(winners.len(), 1, "{won:?}");
            assert_eq!(db.cells().get(&name).unwrap(), Some((winners[0] as i64).into()));
        }
    });
}

/// Catches a `cas` whose comparison is against anything but the newest counter: sums would be
/// lost, or counters would repeat.
#[test]
fn cas_loops_lose_nothing() {
    const EACH: u64 = 60;
    on_both(|db| {
        db.cells().set("sum", 0).unwrap();
        let counters =
            together(|_| (0..EACH).map(|_| add_by_cas(&db.cells())).collect::<Vec<u64>>());
        let total = THREADS as u64 * EACH;
        assert_eq!(db.cells().get("sum").unwrap(), Some((total as i64).into()));
        let mut all: Vec<u64> = counters.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (2..=total + 1).collect::<Vec<u64>>(), "no counter twice, none left out");
    });
}

fn add_by_cas(cells: &Cells) -> u64 {
    loop {
        let seen = cells.get_versioned("sum").unwrap().unwrap();
        let next = seen.value.as_i64().unwrap() + 1;
        if let Some(counter) = cells.cas("sum", Some(seen.counter), next).unwrap() {
            return counter;
        }
    }
}

/// Catches an `incr` that reads outside the one writer: additions would be lost.
#[test]
fn incr_loses_nothing() {
    const EACH: i64 = 300;
    on_both(|db| {
        let sums = together(|_| -> Vec<i64> {
            (0..EACH).map(|_| number(Some(db.cells().incr("n", 1).unwrap().0))).collect()
        });
        let mut all: Vec<i64> = sums.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (1..=THREADS as i64 * EACH).collect::<Vec<i64>>());
        let seen = db.cells().get_versioned("n").unwrap().unwrap();
        assert_eq!(seen.counter, THREADS as u64 * EACH as u64);
    });
}

/// Catches a commit without the check of what was read (money would be made or lost), one that
/// becomes visible by halves, and a snapshot that is not one.
#[test]
fn transfers_conserve_money() {
    const ACCOUNTS: usize = 5;
    const START: i64 = 100;
    on_both(|db| {
        for account in 0..ACCOUNTS {
            db.cells().set(&format!("acct/{account}"), START).unwrap();
        }
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| audit_until(db, &done, ACCOUNTS as i64 * START));
            together(|n| {
                (0..60)
                    .for_each(|i| transfer(db, (n + i) % ACCOUNTS, (n * 3 + i * 7 + 1) % ACCOUNTS))
            });
            done.store(true, Ordering::Release);
            assert!(reader.join().unwrap() > 0);
        });
        assert_eq!(total(db), ACCOUNTS as i64 * START);
    });
}

fn transfer(db: &Database, from: usize, to: usize) {
    if from == to {
        return;
    }
    until_done(|| {
        let mut t = db.begin()?;
        let (from, to) = (format!("acct/{from}"), format!("acct/{to}"));
        let (a, b) = (number(t.get(&from)?), number(t.get(&to)?));
        let amount = 7.min(a);
        t.set(&from, a - amount)?;
        t.set(&to, b + amount)?;
        t.commit()
    });
}

/// Adds up every snapshot it can get while the others run; says how many.
fn audit_until(db: &Database, done: &AtomicBool, expected: i64) -> usize {
    let mut audits = 0;
    loop {
        let last = done.load(Ordering::Acquire);
        assert_eq!(total(db), expected, "money was made or lost");
        audits += 1;
        if last {
            return audits;
        }
    }
}

fn total(db: &Database) -> i64 {
    let snapshot = db.cells().at(At::Latest).unwrap();
    let accounts = snapshot.list("acct/", None, 100).unwrap().names;
    accounts.iter().map(|account| number(snapshot.get(account).unwrap())).sum()
}

/// Catches a commit that checks only what it writes (snapshot isolation): both would withdraw.
#[test]
fn write_skew_is_impossible() {
    on_both(|db| {
        for round in 0..40 {
            let (a, b) = (format!("a{round}"), format!("b{round}"));
            db.cells().set(&a, 50).unwrap();
            db.cells().set(&b, 50).unwrap();
            together(|n| withdraw(db, [&a, &b], n % 2));
            let left = number(db.cells().get(&a).unwrap()) + number(db.cells().get(&b).unwrap());
            assert!(left >= 0, "{left} is left: both withdrew what only one could");
            assert_eq!(left, 0, "one of them could withdraw");
        }
    });
}

/// Takes 100 from one account if both together have it.
fn withdraw(db: &Database, accounts: [&String; 2], which: usize) {
    until_done(|| {
        let mut t = db.begin()?;
        let have = [number(t.get(accounts[0])?), number(t.get(accounts[1])?)];
        if have[0] + have[1] >= 100 {
            t.set(accounts[which], have[which] - 100)?;
        }
        t.commit()
    });
}

/// Catches a commit without the check of ranges: the count would be of a room long full.
#[test]
fn phantoms_never_exceed_the_limit() {
    const SEATS: usize = 5;
    on_both(|db| {
        for round in 0..15 {
            let room = format!("room{round}/");
            let seated = together(|n| take_seat(db, &room, n, SEATS));
            let taken = db.cells().list(&room, None, 100).unwrap().names.len();
            assert_eq!(taken, SEATS, "{seated:?}");
            assert_eq!(seated.iter().filter(|seated| **seated).count(), SEATS);
        }
    });
}

/// Counts, then inserts if there is room.
fn take_seat(db: &Database, room: &str, guest: usize, seats: usize) -> bool {
    until_done(|| {
        let mut t = db.begin()?;
        let taken = t.list(room, None, 100)?.names.len();
        if taken >= seats {
            return Ok(false);
        }
        t.set(&format!("{room}{guest}"), 1)?;
        t.commit().map(|_| true)
    })
}

/// Catches a closure form that commits without retrying, or retries on the old snapshot.
#[test]
fn closures_are_retried_until_they_win() {
    const EACH: i64 = 40;
    on_both(|db| {
        together(|_| {
            (0..EACH).for_each(|_| {
                db.transaction(|t| {
                    let n = number(t.get("n")?);
                    t.set("n", n + 1)
                })
                .map(drop)
                .unwrap_or_else(|error: Error| panic!("{error}"));
            });
        });
        assert_eq!(number(db.cells().get("n").unwrap()), THREADS as i64 * EACH);
    });
}

/// Catches forks that check the name before they are alone.
#[test]
fn one_fork_of_a_name_wins() {
    on_both(|db| {
        for round in 0..20 {
            let name = format!("branch{round}");
            let forks = together(|_| db.fork(&name, "main", At::Latest));
            assert_eq!(forks.iter().filter(|fork| fork.is_ok()).count(), 1);
            let lost = forks.into_iter().filter_map(|fork| fork.err());
            lost.for_each(|error| assert_eq!(error.code(), Code::BranchExists));
        }
    });
}

/// Catches a revision given twice, and a read that goes back behind an acknowledged write.
#[test]
fn writers_read_what_they_wrote() {
    on_both(|db| {
        let revisions = together(|n| {
            let name = format!("own{n}");
            let write = |i: i64| {
                let transaction = mainstay::Transaction::new()
                    .step(mainstay::CellCommand::set(mainstay::Name::new(&name).unwrap(), i));
                let receipt = db.execute(transaction).unwrap();
                assert_eq!(db.cells().get(&name).unwrap(), Some(i.into()));
                receipt.revision
            };
            (0..100).map(write).collect::<Vec<u64>>()
        });
        assert!(revisions.iter().all(|own| own.windows(2).all(|two| two[0] < two[1])));
        let mut all: Vec<u64> = revisions.into_iter().flatten().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0] + 1 == two[1]), "one revision per transaction");
    });
}
