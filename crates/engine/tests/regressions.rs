//! One test for each fault that a review found, so that it stays mended.

#![allow(clippy::disallowed_methods, reason = "loops are bounded by time; nothing is measured")]

use mainstay::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Runs on a thread; panics if not done in time.
fn within(secs: u64, what: &str, f: impl FnOnce() + Send + 'static) {
    let (tx, rx) = mpsc::channel();
    let t = std::thread::spawn(move || {
        f();
        let _ = tx.send(());
    });
    match rx.recv_timeout(Duration::from_secs(secs)) {
        Ok(()) => t.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Disconnected) => t.join().unwrap(),
        Err(_) => {
            eprintln!("HANG: {what}");
            panic!("HANG: {what}")
        }
    }
}

#[test]
fn a_held_executor_leaves_no_work_lying() {
    let db = Options::new().sweep_interval(None).memory().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let n = Arc::new(AtomicU64::new(0));
    {
        let (db, stop) = (db.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                db.confirm_clock();
            }
        });
    }
    let (n2, db2) = (n.clone(), db.clone());
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        for i in 0..100_000 {
            db2.cells().set("a", i).unwrap();
            n2.fetch_add(1, Ordering::Relaxed);
        }
        tx.send(()).unwrap();
    });
    let r = rx.recv_timeout(Duration::from_secs(8));
    stop.store(true, Ordering::Relaxed);
    let before = n.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(2));
    let after = n.load(Ordering::Relaxed);
    eprintln!("writes done {before}, 2 s later {after}, r {r:?}");
    let stuck = r.is_err() && before == after;
    // another write frees it
    db.cells().set("b", 1).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    eprintln!("after another write: {}", n.load(Ordering::Relaxed));
    assert!(!stuck, "the lone writer hangs");
}

#[test]
fn interval_is_kept_under_steady_submits() {
    let db = Options::new().durability(Durability::Interval).memory().unwrap();
    let start = std::time::Instant::now();
    let mut pending = std::collections::VecDeque::new();
    while start.elapsed() < Duration::from_secs(2) {
        let t = Transaction::new().step(CellCommand::set(Name::new("a").unwrap(), 1));
        pending.push_back(db.submit(t));
        if pending.len() > 8 {
            pending.pop_front().unwrap().wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(db.durable_revision() > 0, "two seconds of interval writes, nothing synced");
}

#[test]
fn the_last_handle_may_be_dropped_in_a_callback() {
    within(5, "last handle in a callback", || {
        let (tx, rx) = mpsc::channel();
        let db = Database::memory().unwrap();
        let own = db.clone();
        let gate = Arc::new(AtomicBool::new(false));
        let g = gate.clone();
        let t = Transaction::new().step(CellCommand::set(Name::new("a").unwrap(), 1));
        db.submit_with(t, move |r| {
            while !g.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            r.unwrap();
            drop(own);
            tx.send(()).unwrap();
        });
        drop(db);
        gate.store(true, Ordering::Relaxed);
        rx.recv().unwrap();
    });
}

#[test]
fn a_callback_may_execute() {
    within(5, "execute in a callback", || {
        let (tx, rx) = mpsc::channel();
        let db = Database::memory().unwrap();
        let own = db.clone();
        let t = Transaction::new().step(CellCommand::set(Name::new("a").unwrap(), 1));
        db.submit_with(t, move |r| {
            r.unwrap();
            own.cells().set("b", 1).unwrap();
            tx.send(()).unwrap();
        });
        rx.recv().unwrap();
    });
}

#[test]
fn a_panicking_callback_harms_nobody_else() {
    within(5, "after a panicking callback", || {
        let db = Database::memory().unwrap();
        let t = || Transaction::new().step(CellCommand::set(Name::new("a").unwrap(), 1));
        db.submit_with(t(), |_| panic!("user bug"));
        std::thread::sleep(Duration::from_millis(300));
        db.submit(t()).wait().unwrap();
    });
}

#[test]
fn a_sweep_passes_markers_of_a_deleted_branch() {
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new()
        .durability(Durability::Memory)
        .clock(clock.clone())
        .sweep_interval(None)
        .memory()
        .unwrap();
    db.fork("b", "main", At::Latest).unwrap();
    let b = db.branch("b").unwrap().cells();
    for i in 0..1500 {
        b.set_with(&format!("k{i}"), 1, Ttl::Millis(10)).unwrap();
    }
    db.cells().set_with("mine", 1, Ttl::Millis(20)).unwrap();
    db.delete_branch("b").unwrap();
    clock.advance(Duration::from_secs(1));
    let first = db.sweep().unwrap();
    clock.advance(Duration::from_secs(1));
    let second = db.sweep().unwrap();
    let h = db.cells().history("mine", 10, None).unwrap();
    eprintln!("swept {first} then {second}; history of mine has {} entries", h.len());
    assert_eq!(h.len(), 2, "the expiry never became an event");
}

#[test]
fn a_reader_of_a_deleted_branch_keeps_what_it_sees() {
    let dir = tempfile::tempdir().unwrap();
    for disk in [false, true] {
        let clock = ManualClock::new(1_000_000_000);
        let o = Options::new()
            .durability(Durability::Memory)
            .clock(clock.clone())
            .sweep_interval(None)
            .cache_bytes(0)
            .retention(Duration::from_secs(60));
        let db = if disk { o.open(dir.path().join("d")).unwrap() } else { o.memory().unwrap() };
        db.fork("b", "main", At::Latest).unwrap();
        db.branch("b").unwrap().cells().set("x", "kept").unwrap();
        let r = db.branch("b").unwrap().cells().at(At::Latest).unwrap();
        assert_eq!(r.get("x").unwrap(), Some("kept".into()));
        db.delete_branch("b").unwrap();
        clock.advance(Duration::from_secs(600));
        db.cells().set("y", 1).unwrap();
        db.trim().unwrap();
        let seen = r.get("x");
        eprintln!("disk {disk}: open reader sees {seen:?}");
        assert!(matches!(&seen, Ok(Some(_))) || seen.is_err(), "wrong answer");
    }
}

#[test]
fn a_merge_base_remembers_earlier_merges() {
    let db = Database::memory().unwrap();
    db.fork("a", "main", At::Latest).unwrap();
    let a = db.branch("a").unwrap().cells();
    a.set("k", 1).unwrap();
    db.merge("a", "main", MergeStrategy::Strict).unwrap();
    db.cells().set("k", 2).unwrap();
    db.fork("c", "main", At::Latest).unwrap();
    // the same pair again, with something else
    let with_second = std::env::var("NO_SECOND").is_err();
    a.set("other", 1).unwrap();
    if with_second {
        db.merge("a", "main", MergeStrategy::Strict).unwrap();
    }
    let r = db.merge("a", "c", MergeStrategy::Strict);
    eprintln!("merge a -> c: {r:?}");
    let _ = db.merge("a", "c", MergeStrategy::Theirs);
    let c = db.branch("c").unwrap().cells();
    assert_eq!(
        c.get("k").unwrap(),
        Some(2.into()),
        "c's newer value was overwritten by what it already had"
    );
}

#[test]
fn a_counter_cannot_overflow() {
    let db = Database::memory().unwrap();
    let name = Name::new("a").unwrap();
    let t = Transaction::new().step(CellCommand::Restore {
        name,
        value: Some(1.into()),
        counter: u64::MAX,
        expires: None,
    });
    let r = db.execute(t);
    eprintln!("restore: {:?}", r.map(|r| r.answers));
    within(5, "overflow", move || {
        let r = db.cells().set("a", 2);
        eprintln!("set gives {r:?}");
        assert!(!matches!(r, Ok(0)));
    });
}

#[test]
fn a_refused_command_leaves_the_transaction_usable() {
    let db = Database::memory().unwrap();
    let mut t = db.begin().unwrap();
    let big = Value::Bytes(vec![0; 15 << 20]);
    for i in 0..4 {
        t.set(&format!("b{i}"), big.clone()).unwrap();
    }
    assert!(t.set("b5", big).is_err());
    t.set("small", 1).expect("a failed command leaves the transaction open");
}

#[test]
fn a_feed_returns_when_its_time_is_over() {
    let db = Options::new().sync_interval(Duration::from_millis(5)).memory().unwrap();
    let mut feed = db.watch(Filter { key: Some("never".into()), ..Filter::default() }, 0).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (d, s) = (db.clone(), stop.clone());
    let w = std::thread::spawn(move || {
        while !s.load(Ordering::Relaxed) {
            d.cells().set("a", 1).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        let r = feed.next(Duration::from_millis(200)).unwrap();
        tx.send(r).unwrap();
    });
    let r = rx.recv_timeout(Duration::from_secs(3));
    stop.store(true, Ordering::Relaxed);
    w.join().unwrap();
    assert!(r.is_ok(), "next(200 ms) did not return in 3 s");
}

#[test]
fn closing_while_busy_answers_everyone_and_writes_nothing_after() {
    within(100, "close while busy", || {
        for round in 0..60 {
            let db = Options::new()
                .durability(Durability::Memory)
                .write_buffer_bytes(64 << 10)
                .memory()
                .unwrap();
            let stuck = Arc::new(AtomicU64::new(0));
            let late = Arc::new(AtomicU64::new(0));
            let closed = Arc::new(AtomicBool::new(false));
            let ts: Vec<_> = (0..12)
                .map(|i| {
                    let (db, stuck, late, closed) =
                        (db.clone(), stuck.clone(), late.clone(), closed.clone());
                    std::thread::spawn(move || {
                        loop {
                            let was = closed.load(Ordering::SeqCst);
                            let t = Transaction::new()
                                .step(CellCommand::set(Name::new("a").unwrap(), "0".repeat(2000)));
                            let r = if i % 2 == 0 {
                                let ticket = db.submit(t);
                                let mut n = 0;
                                while !ticket.is_done() {
                                    std::thread::sleep(Duration::from_micros(500));
                                    n += 1;
                                    if n > 3000 {
                                        break;
                                    }
                                }
                                if !ticket.is_done() {
                                    stuck.fetch_add(1, Ordering::SeqCst);
                                    return;
                                }
                                ticket.wait()
                            } else {
                                db.execute(t)
                            };
                            match r {
                                Err(_) => return,
                                Ok(_) if was => {
                                    late.fetch_add(1, Ordering::SeqCst);
                                }
                                Ok(_) => {}
                            }
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(3 + round % 7));
            db.close().unwrap();
            let at_close = db.durable_revision();
            closed.store(true, Ordering::SeqCst);
            for t in ts {
                t.join().unwrap();
            }
            let end = db.revision();
            let (s, l) = (stuck.load(Ordering::SeqCst), late.load(Ordering::SeqCst));
            if s + l > 0 || end > at_close {
                eprintln!(
                    "round {round}: {s} tickets never answered, {l} acknowledged after close; durable at close {at_close}, written in the end {end}"
                );
                panic!("close while busy");
            }
        }
    });
}

#[test]
fn a_failing_neighbour_leaves_no_group_lying() {
    // With a long interval the delay shows as a hang.
    let db = Options::new()
        .sync_interval(Duration::from_secs(3600))
        .sweep_interval(None)
        .memory()
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (d, s) = (db.clone(), stop.clone());
    let bad = std::thread::spawn(move || {
        while !s.load(Ordering::Relaxed) {
            let name = Name::new("x").unwrap();
            let t = Transaction::new()
                .guard(Guard::Counter { name: name.clone(), is: Some(99) })
                .step(CellCommand::set(name, 1));
            let _ = d.execute(t);
            std::thread::yield_now();
        }
    });
    let writer = db.clone();
    within(60, "a write beside failing ones", move || {
        for _ in 0..20_000 {
            writer.cells().set("a", 1).unwrap();
        }
    });
    stop.store(true, Ordering::Relaxed);
    bad.join().unwrap();
}

#[test]
fn an_import_merges_after_a_trim() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new()
        .clock(clock.clone())
        .durability(Durability::Memory)
        .sweep_interval(None)
        .retention(Duration::from_secs(1))
        .memory()
        .unwrap();
    for i in 0..5 {
        db.cells().set("k", i).unwrap();
        clock.advance(Duration::from_secs(10));
    }
    let f = dir.path().join("f");
    db.export("main", &f, &mut |_| {}).unwrap();
    db.import(&f, "imp", &mut |_| {}).unwrap();
    db.branch("imp").unwrap().cells().set("new", 1).unwrap();
    db.trim().unwrap();
    let r = db.merge("imp", "main", MergeStrategy::Theirs);
    eprintln!("merge of an import after a trim: {r:?}");
    assert!(r.is_ok());
}

#[test]
fn an_import_keeps_counters_of_what_has_expired() {
    // versions whose expiry lies in the past, replayed: counters and events must stay as they were
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new()
        .clock(clock.clone())
        .durability(Durability::Memory)
        .sweep_interval(None)
        .memory()
        .unwrap();
    db.cells().set_with("k", 1, Ttl::Millis(1000)).unwrap();
    db.cells().set("k", 2).unwrap();
    db.cells().set("k", 3).unwrap();
    clock.advance(Duration::from_secs(100));
    let f = dir.path().join("f");
    db.export("main", &f, &mut |_| {}).unwrap();
    db.import(&f, "imp", &mut |_| {}).unwrap();
    let a: Vec<_> =
        db.cells().history("k", 9, None).unwrap().iter().map(|h| (h.counter, h.writes)).collect();
    let b: Vec<_> = db
        .branch("imp")
        .unwrap()
        .cells()
        .history("k", 9, None)
        .unwrap()
        .iter()
        .map(|h| (h.counter, h.writes))
        .collect();
    eprintln!("{a:?} {b:?}");
    assert_eq!(a, b);
}

fn mark_of(dir: &std::path::Path) -> Option<i64> {
    let b = std::fs::read(dir.join("index/MARK")).ok()?;
    let Ok(Value::Object(o)) = codec::decode(b.get(16..)?) else { return None };
    o.get("revision")?.as_i64()
}

#[test]
fn the_mark_never_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new()
        .durability(Durability::Memory)
        .write_buffer_bytes(256 << 10)
        .segment_bytes(64 << 10)
        .retention(Duration::from_millis(1))
        .feed_retention(Duration::ZERO, 0)
        .open(dir.path())
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut ts = Vec::new();
    for _ in 0..3 {
        let (d, s) = (db.clone(), stop.clone());
        ts.push(std::thread::spawn(move || {
            let mut i = 0_u64;
            while !s.load(Ordering::Relaxed) {
                i += 1;
                d.cells().set(&format!("k{}", i % 1000), "v".repeat(100)).unwrap();
            }
        }));
    }
    let (d, s) = (db.clone(), stop.clone());
    ts.push(std::thread::spawn(move || {
        while !s.load(Ordering::Relaxed) {
            let _ = d.trim();
        }
    }));
    let start = std::time::Instant::now();
    let (mut last, mut back, mut gap) = (0, 0, 0);
    while start.elapsed() < Duration::from_secs(10) {
        // the log's first revision before the mark: a crash between would see at least this
        let first = std::fs::read_dir(dir.path().join("log"))
            .unwrap()
            .filter_map(|e| {
                e.ok()?
                    .file_name()
                    .into_string()
                    .ok()?
                    .strip_prefix("log-")?
                    .strip_suffix(".seg")?
                    .parse::<i64>()
                    .ok()
            })
            .min()
            .unwrap_or(0);
        if let Some(m) = mark_of(dir.path()) {
            if m < last {
                back += 1;
            }
            if m + 1 < first {
                gap += 1;
            }
            last = m;
        }
    }
    stop.store(true, Ordering::Relaxed);
    while !ts.iter().all(|t| t.is_finished()) {
        db.cells().set("p", 1).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("the mark went back {back} times; {gap} times the log began behind it");
    assert_eq!((back, gap), (0, 0));
}

#[test]
fn an_expiry_is_told_whatever_follows_it() {
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new().clock(clock.clone()).sweep_interval(None).memory().unwrap();
    db.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    clock.advance(Duration::from_secs(1));
    let at = db.revision();
    db.transaction(|t| {
        t.set("k", 2)?;
        t.set("k", 3)?;
        Ok(())
    })
    .unwrap();
    let mut feed = db.watch(Filter::default(), at).unwrap();
    let mut kinds = Vec::new();
    while let Some(e) = feed.next(Duration::from_millis(100)).unwrap() {
        kinds.push((e.kind, e.counter));
    }
    eprintln!("{kinds:?}");
    assert!(kinds.iter().any(|k| k.0 == ChangeKind::Expired));
}

#[test]
fn a_guard_older_than_history_is_refused() {
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new()
        .clock(clock.clone())
        .durability(Durability::Memory)
        .sweep_interval(None)
        .cache_bytes(0)
        .retention(Duration::from_secs(1))
        .memory()
        .unwrap();
    db.cells().set("k", 1).unwrap();
    let since = db.revision();
    db.cells().delete("k").unwrap();
    clock.advance(Duration::from_secs(100));
    db.cells().set("z", 1).unwrap();
    db.trim().unwrap();
    let name = Name::new("k").unwrap();
    let t = Transaction::new()
        .guard(Guard::Unchanged { name: name.clone(), since, expires: None })
        .step(CellCommand::set(name, 9));
    let r = db.execute(t);
    eprintln!("{r:?}");
    assert!(r.is_err());
}

fn named_request(id: &str) -> Transaction {
    Transaction::new().request(RequestId::new(id).unwrap())
}

fn cell(name: &str) -> Name {
    Name::new(name).unwrap()
}

#[test]
fn the_largest_answers_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Options::new().sweep_interval(None).open(directory.path()).unwrap();
    let db = open();
    let largest = Value::Bytes(vec![7; limits::VALUE_LIMIT_BYTES - 5]);
    let deepest = (0..limits::VALUE_LIMIT_DEPTH).fold(Value::Null, |v, _| Value::Array(vec![v]));
    db.cells().set("large", largest).unwrap();
    db.cells().set("deep", deepest).unwrap();
    let get = |name: &str| CellCommand::Get { name: cell(name) };
    let one = || named_request("one").step(get("large"));
    let all = || (0..7).fold(named_request("all"), |t, _| t.step(get("large"))).step(get("deep"));
    let (first, whole) = (db.execute(one()).unwrap(), db.execute(all()).unwrap());
    assert_eq!(db.execute(one()).unwrap(), Receipt { repeated: true, ..first.clone() });
    // From the log, and then from the stores.
    drop(db);
    let db = open();
    assert_eq!(db.execute(all()).unwrap(), Receipt { repeated: true, ..whole.clone() });
    db.trim().unwrap();
    drop(db);
    let db = open();
    assert_eq!(db.execute(one()).unwrap(), Receipt { repeated: true, ..first });
    assert_eq!(db.execute(all()).unwrap(), Receipt { repeated: true, ..whole });
    let beyond = (0..8).fold(named_request("beyond"), |t, _| t.step(get("large")));
    assert_eq!(db.execute(beyond).unwrap_err().code(), Code::TransactionTooLarge);
}

#[test]
fn the_largest_named_transactions_are_done() {
    let db = Options::new().sweep_interval(None).memory().unwrap();
    let many = || {
        let mut transaction = named_request("many");
        let set = |n| CellCommand::set(cell(&format!("k{n}")), n);
        transaction.steps = (0..100_000_i64).map(|n| set(n).into()).collect();
        transaction
    };
    let receipt = db.execute(many()).unwrap();
    assert_eq!(receipt.answers.len(), 100_000);
    assert_eq!(db.execute(many()).unwrap(), Receipt { repeated: true, ..receipt });
    // What the receipt adds does not count: with an id as much can be written as without.
    let room = limits::TRANSACTION_LIMIT_BYTES / 4 - 32;
    let set = |n| CellCommand::set(cell(&format!("big{n}")), Value::Bytes(vec![1; room]));
    let full = |t: Transaction| (0..4).fold(t, |t, n| t.step(set(n)));
    let spare = |t: Transaction| t.step(CellCommand::set(cell("rest"), "x".repeat(40)));
    db.execute(spare(full(Transaction::new()))).unwrap();
    db.execute(spare(full(named_request("full")))).unwrap();
}

#[test]
fn an_export_of_a_newer_format_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main.export");
    let db = Database::memory().unwrap();
    db.cells().set("a", 1).unwrap();
    db.export("main", &path, &mut |_| {}).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let format = whole.windows(6).position(|part| part == b"format").unwrap() + 7;
    for (place, newer) in [(7, b'2'), (format, 2)] {
        let mut bytes = whole.clone();
        bytes[place] = newer;
        std::fs::write(&path, bytes).unwrap();
        let error = db.import(&path, "copy", &mut |_| {}).unwrap_err();
        assert_eq!(error.code(), Code::NewerFormat, "{error}");
        assert!(error.message().contains("format 2"), "{error}");
        assert!(error.message().contains("up to 1"), "{error}");
    }
    assert!(db.branch("copy").is_err());
}

#[test]
fn events_name_a_branch_as_it_was_called() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Options::new().sweep_interval(None).open(directory.path()).unwrap();
    let db = open();
    db.fork("one", "main", At::Latest).unwrap();
    db.branch("one").unwrap().cells().set("a", 1).unwrap();
    db.tag("v", "one", At::Latest).unwrap();
    db.rename_branch("one", "two").unwrap();
    db.branch("two").unwrap().cells().set("a", 2).unwrap();
    db.merge("two", "main", MergeStrategy::Strict).unwrap();
    db.untag("v").unwrap();
    db.rename_branch("two", "three").unwrap();
    db.branch("three").unwrap().cells().set("a", 3).unwrap();
    db.delete_branch("three").unwrap();
    db.fork("one", "main", At::Latest).unwrap();
    let names = |db: &Database, filter: Filter| {
        let mut feed = db.watch(filter, 0).unwrap();
        let next = || feed.next(Duration::ZERO).unwrap();
        let told = std::iter::from_fn(next).map(|e| format!("{} {}", e.branch, e.key));
        told.collect::<Vec<_>>()
    };
    let all = [
        "one one",
        "one a",
        "one v",
        "two two",
        "two a",
        "main a",
        "main two",
        " v",
        "three three",
        "three a",
        "three three",
        "one one",
    ];
    assert_eq!(names(&db, Filter::default()), all);
    let two = Filter { branch: Some("two".into()), ..Filter::default() };
    assert_eq!(names(&db, two.clone()), ["two two", "two a"]);
    db.trim().unwrap();
    drop(db);
    let db = open();
    assert_eq!(names(&db, Filter::default()), all);
    assert_eq!(names(&db, two), ["two two", "two a"]);
}

fn copy_of(from: &std::path::Path) -> tempfile::TempDir {
    fn copy(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy(&entry.path(), &to),
                false => drop(std::fs::copy(entry.path(), to)),
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    copy(from, to.path());
    to
}

#[test]
fn half_an_import_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("main.export");
    let open = |path: &std::path::Path| {
        Options::new().segment_bytes(1 << 16).sweep_interval(None).open(path).unwrap()
    };
    let source = Database::memory().unwrap();
    source.cells().set("first", 1).unwrap();
    source.tag("v", "main", At::Latest).unwrap();
    for n in 0..1500 {
        source.cells().set(&format!("k{n}"), n).unwrap();
    }
    source.export("main", &file, &mut |_| {}).unwrap();
    let path = directory.path().join("db");
    let db = open(&path);
    db.tag("v", "main", At::Latest).unwrap();
    let mut crashed = None;
    db.import(&file, "copy", &mut |progress| {
        if progress.phase != "importing" || progress.done != 1024 {
            return;
        }
        crashed = Some(copy_of(&path));
        // Nobody meets it, and nobody can take its name.
        let names: Vec<_> = db.branches().into_iter().map(|branch| branch.name).collect();
        assert_eq!((names, db.tags().len()), (vec!["main".to_owned()], 1));
        assert_eq!(db.branch("copy").err().unwrap().code(), Code::BranchNotFound);
        let write = Transaction::on("copy").step(CellCommand::set(cell("x"), 1));
        assert_eq!(db.execute(write).unwrap_err().code(), Code::BranchNotFound);
        let fork = db.fork("copy", "main", At::Latest);
        assert_eq!(fork.unwrap_err().code(), Code::BranchExists);
    })
    .unwrap();
    let whole = db.branch("copy").unwrap().cells();
    assert_eq!(whole.list("", None, 9999).unwrap().names.len(), 1501);
    let tag = db.tags().into_iter().find(|tag| tag.name == "copy/v").unwrap();
    let then = whole.at(At::Revision(tag.revision));
    assert_eq!(then.unwrap().list("", None, 9999).unwrap().names, ["first"]);

    let crashed = crashed.unwrap();
    let db = open(crashed.path());
    assert_eq!(db.branches().len(), 1);
    assert_eq!(db.tags().len(), 1);
    assert!(db.pins().iter().all(|pin| !pin.holder.contains("copy")));
    let told = |db: &Database| {
        let mut feed = db.watch(Filter::default(), 0).unwrap();
        let next = || feed.next(Duration::ZERO).unwrap();
        let branches = std::iter::from_fn(next).filter(|e| e.contract == Contract::Branches);
        branches.map(|e| (e.key, e.kind)).collect::<Vec<_>>()
    };
    let copy = |kind| ("copy".to_owned(), kind);
    let events = told(&db);
    assert_eq!(events[1..], [copy(ChangeKind::Forked), copy(ChangeKind::BranchDeleted)]);
    db.import(&file, "copy", &mut |_| {}).unwrap();
    assert_eq!(told(&db)[3], copy(ChangeKind::Forked));
    let again = db.branch("copy").unwrap().cells();
    assert_eq!(again.list("", None, 9999).unwrap().names.len(), 1501);
}

#[test]
fn a_sweep_leaves_an_import_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("main.export");
    let clock = ManualClock::new(1_000_000_000);
    let options = Options::new().clock(clock.clone()).sweep_interval(None);
    let db = options.memory().unwrap();
    db.cells().set_with("k", 1, Ttl::Millis(1000)).unwrap();
    db.cells().set_with("due", 1, Ttl::Millis(1000)).unwrap();
    for n in 0..1500 {
        db.cells().set(&format!("n{n}"), n).unwrap();
    }
    db.cells().set("k", 2).unwrap();
    db.export("main", &file, &mut |_| {}).unwrap();
    clock.advance(Duration::from_secs(10));
    db.import(&file, "copy", &mut |progress| {
        if progress.phase == "importing" {
            db.sweep().unwrap();
        }
    })
    .unwrap();
    let copy = db.branch("copy").unwrap().cells();
    let history = |name: &str| {
        let kept = copy.history(name, 9, None).unwrap();
        kept.into_iter().map(|entry| (entry.counter, entry.value)).collect::<Vec<_>>()
    };
    assert_eq!(history("k"), [(2, Some(2.into())), (1, Some(1.into()))]);
    assert_eq!(copy.get("due").unwrap(), None);
    db.sweep().unwrap();
    assert_eq!(history("due"), [(2, None), (1, Some(1.into()))], "what is due comes due");
}

#[test]
fn an_export_has_the_tags_that_were_there_when_it_began() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main.export");
    let db = Database::memory().unwrap();
    for i in 0..1500 {
        db.cells().set(&format!("k{i:04}"), i).unwrap();
    }
    db.tag("early", "main", At::Latest).unwrap();
    let mut calls = 0;
    let report = db.export("main", &path, &mut |_| {
        calls += 1;
        if calls == 1 {
            db.untag("early").unwrap();
            db.tag("late", "main", At::Latest).unwrap();
            db.tag("later", "main", At::Latest).unwrap();
        }
    });
    assert_eq!(report.unwrap().tags, 1);
    db.import(&path, "copy", &mut |_| {}).unwrap();
    let tags = db.tags();
    let copied: Vec<_> = tags.iter().filter(|tag| tag.branch == "copy").collect();
    assert_eq!(copied.len(), 1);
    assert_eq!(copied[0].name, "early");
}
