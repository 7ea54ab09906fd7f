//! Races between threads. Each test names the missing check that it would detect.

use mainstay::{
    At, Cells, Code, Database, Durability, Error, ErrorKind, Message, NewEvent, Options, Result,
    Value,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;

/// Runs a test in memory and on disk, without fsync, because races concern order and not durability.
fn on_both(test: impl Fn(&Database)) {
    test(&Database::memory().unwrap());
    let files = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Memory).write_buffer_bytes(1 << 20);
    test(&options.open(files.path().join("db")).unwrap());
}

/// Runs `run` on all threads, started together by a barrier, and returns all results.
fn together<T: Send>(run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        let one = |n| {
            let start = &start;
            let run = &run;
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

/// Retries until the attempt has no conflict.
fn until_done<T>(mut attempt: impl FnMut() -> Result<T>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

/// Detects a `cas` that does not compare and write atomically: two callers would see absence.
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

/// Detects a `cas` that does not compare the newest counter: increments would be lost, or counters
/// repeated.
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

/// Detects an `incr` that reads outside the writer thread: increments would be lost.
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

/// Detects commits that do not validate their reads (money would be created or lost), commits that
/// become visible partially, and snapshots that are inconsistent.
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
            // Pairs with the `Acquire` load in `audit_until`.
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
        let from = format!("acct/{from}");
        let to = format!("acct/{to}");
        let a = number(t.get(&from)?);
        let b = number(t.get(&to)?);
        let amount = 7.min(a);
        t.set(&from, a - amount)?;
        t.set(&to, b + amount)?;
        t.commit()
    });
}

/// Sums up snapshots until the writers are done. Returns the number of snapshots.
fn audit_until(db: &Database, done: &AtomicBool, expected: i64) -> usize {
    let mut audits = 0;
    loop {
        // Pairs with the `Release` store after all transfers: if it is set, the audit below is after all
        // of them.
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

/// Detects commits that validate only their writes (snapshot isolation): both transactions would
/// withdraw.
#[test]
fn write_skew_is_impossible() {
    on_both(|db| {
        for round in 0..40 {
            let a = format!("a{round}");
            let b = format!("b{round}");
            db.cells().set(&a, 50).unwrap();
            db.cells().set(&b, 50).unwrap();
            together(|n| withdraw(db, [&a, &b], n % 2));
            let left = number(db.cells().get(&a).unwrap()) + number(db.cells().get(&b).unwrap());
            assert!(left >= 0, "{left} is left: both withdrew what only one could");
            assert_eq!(left, 0, "one of them could withdraw");
        }
    });
}

/// Withdraws 100 from one account if both together have it.
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

/// Detects commits that do not validate their ranges: a room would be overfilled.
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

/// Counts the guests, then adds one if the room is not full.
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

/// Detects a closure form that does not retry, or that retries on the old snapshot.
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

/// Detects forks that check the name outside the writer thread.
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

/// Detects a revision assigned twice, and a read that misses an acknowledged write.
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

/// Detects sequence numbers assigned outside the writer thread (duplicates or gaps), keys looked up
/// outside it (duplicate events), and readers that see an event before earlier ones.
#[test]
fn producers_and_readers_of_the_same_runs() {
    const RUNS: usize = 3;
    const EACH: u64 = 120;
    on_both(|db| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let follow = |run: usize| {
                let done = &done;
                scope.spawn(move || follow_until(db, &format!("run{run}"), done))
            };
            let readers: Vec<_> = (0..RUNS).map(follow).collect();
            let told = together(|n| produce(db, n, RUNS, EACH));
            db.sync().unwrap();
            // Pairs with the `Acquire` load in `follow_until`.
            done.store(true, Ordering::Release);
            let seen: Vec<u64> = readers.into_iter().map(|one| one.join().unwrap()).collect();
            for (run, seen) in seen.into_iter().enumerate() {
                check_run(db, &format!("run{run}"), seen, told.iter().flatten());
            }
        });
    });
}

/// Detects interactive transactions whose answers do not hold at commit. Each transaction stores the
/// event ID that it was answered, which is compared with the run.
#[test]
fn what_is_told_in_open_transactions_is_so() {
    const EACH: usize = 30;
    on_both(|db| {
        let first_tellers = together(|thread| {
            // Two threads share each key, and only one of them adds the event.
            let bring = |number: usize| bring_once(db, &format!("{}-{number}", thread / 2));
            (0..EACH).filter(|number| bring(*number)).count()
        });
        let events = db.runs().fetch("r", 0, 1_000).unwrap();
        assert_eq!(events.len(), THREADS / 2 * EACH);
        assert_eq!(first_tellers.into_iter().sum::<usize>(), events.len(), "each was new once");
        for event in events {
            let told = db.cells().get(&format!("told/{}", event.idempotency_key)).unwrap();
            assert_eq!(told, Some(event.event_id.as_str().into()));
        }
    });
}

/// Appends an event and stores its event ID in a cell. Returns whether the event was new.
fn bring_once(db: &Database, key: &str) -> bool {
    db.transaction(|t| {
        let told = t.append(NewEvent::new("r", "Noted").with_key(key))?;
        if told.persisted {
            t.set(&format!("told/{key}"), told.event_id.as_str())?;
        }
        Ok(told.persisted)
    })
    .unwrap()
}

/// Appends each event twice; other threads append the same events. Returns the acknowledged sequence
/// numbers.
fn produce(db: &Database, thread: usize, runs: usize, each: u64) -> Vec<(String, String, u64)> {
    let mut told = Vec::new();
    for number in 0..each {
        let run = format!("run{}", number as usize % runs);
        // Two threads share each key, and one of them sometimes sends different data.
        let key = format!("{}-{number}", thread / 2);
        let event = NewEvent::new(&run, "Noted").with_key(&key);
        let event = event.value((thread as i64 % 2) * (number as i64 % 2));
        let first = db.runs().append(event.clone()).unwrap();
        let again = db.runs().append(event).unwrap();
        assert!(again.idempotent && again.run_seq == first.run_seq, "{first:?} {again:?}");
        told.push((run, key, first.run_seq));
    }
    told
}

/// Tails a run and checks that sequence numbers have no gaps and never decrease. Returns the last one.
fn follow_until(db: &Database, run: &str, done: &AtomicBool) -> u64 {
    let mut tail = db.runs().tail(run, 0).unwrap();
    let mut last = 0;
    loop {
        // Pairs with the `Release` store after the sync: if it is set, all events are durable and the
        // tail delivers them.
        let finished = done.load(Ordering::Acquire);
        let events = tail.next(7, Duration::from_millis(5)).unwrap();
        if events.is_empty() && finished {
            return last;
        }
        for event in events {
            assert_eq!(event.run_seq, last + 1, "{run}");
            last = event.run_seq;
        }
        let info = db.runs().get(run).unwrap();
        let fetched = db.runs().fetch(run, last, 1_000).unwrap();
        let ahead = fetched.iter().zip(last + 1..).all(|(event, seq)| event.run_seq == seq);
        assert!(ahead, "a page of {run} behind {last} has a gap");
        assert!(info.is_none_or(|info| info.last_event_seq >= last));
    }
}

/// Checks that every acknowledged event has its sequence number, each key is unique, and the snapshot
/// includes all events.
fn check_run<'t>(
    db: &Database,
    run: &str,
    seen: u64,
    told: impl Iterator<Item = &'t (String, String, u64)>,
) {
    let events = db.runs().fetch(run, 0, 100_000).unwrap();
    assert_eq!(events.len() as u64, seen, "the reader of {run} saw all of it");
    let keys: BTreeSet<&str> = events.iter().map(|event| event.idempotency_key.as_str()).collect();
    assert_eq!(keys.len(), events.len(), "one event per key");
    for (_, key, seq) in told.filter(|(of, _, _)| of == run) {
        assert_eq!(&events[*seq as usize - 1].idempotency_key, key, "event {seq} of {run}");
    }
    let kept = db.runs().snapshot(run).unwrap();
    let whole = db.runs().project(run).unwrap();
    assert_eq!(kept.as_ref().map(|it| it.last_event_seq), Some(seen));
    assert_eq!(kept, whole);
}

/// Detects claims that do not read and lease atomically (two relays would get a message), and a queue
/// that delivers a run's second message before its first is acknowledged.
#[test]
fn relays_share_messages_in_order() {
    const MESSAGES: u64 = 240;
    const RUNS: u64 = 5;
    on_both(|db| {
        for number in 0..MESSAGES {
            let run = format!("run{}", number % RUNS);
            let run = (number % 6 != 5).then_some(run.as_str());
            db.outbox().put("s", number.to_be_bytes(), run).unwrap();
        }
        let sent: Mutex<Vec<Message>> = Mutex::new(Vec::new());
        together(|n| relay(db, n, &sent));
        let sent = sent.into_inner().unwrap();
        let ids: BTreeSet<u64> = sent.iter().map(|message| message.id).collect();
        assert_eq!((sent.len() as u64, ids.len() as u64), (MESSAGES, MESSAGES), "each once");
        for run in (0..RUNS).map(|run| format!("run{run}")) {
            let of_run = sent.iter().filter(|message| message.run.as_ref() == Some(&run));
            let ids: Vec<u64> = of_run.map(|message| message.id).collect();
            assert!(ids.is_sorted(), "{run} was sent as {ids:?}");
        }
        assert_eq!(db.outbox().state().unwrap().pending, 0);
    });
}

/// Claims, sends and acknowledges messages until none is left.
fn relay(db: &Database, n: usize, sent: &Mutex<Vec<Message>>) {
    while db.outbox().state().unwrap().pending > 0 {
        let claimed = db.outbox().claim(1 + n % 4, Duration::from_secs(600)).unwrap();
        let ids: Vec<u64> = claimed.iter().map(|message| message.id).collect();
        sent.lock().unwrap().extend(claimed);
        assert_eq!(db.outbox().ack(&ids).unwrap(), ids.len() as u64);
    }
}
