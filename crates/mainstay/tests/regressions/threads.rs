//! Callers, callbacks and background threads beside each other.

use super::*;

#[test]
fn a_held_executor_leaves_no_work_lying() {
    let db = Options::new().sweep_interval(None).memory().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let n = Arc::new(AtomicU64::new(0));
    {
        let db = db.clone();
        let stop = stop.clone();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                db.confirm_clock();
            }
        });
    }
    let n2 = n.clone();
    let db2 = db.clone();
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
fn a_feed_returns_when_its_time_is_over() {
    let db = Options::new().sync_interval(Duration::from_millis(5)).memory().unwrap();
    let mut feed = db.watch(Filter { key: Some("never".into()), ..Filter::default() }, 0).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let d = db.clone();
    let s = stop.clone();
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
                    let db = db.clone();
                    let stuck = stuck.clone();
                    let late = late.clone();
                    let closed = closed.clone();
                    std::thread::spawn(move || {
                        loop {
                            // SeqCst: a test flag, speed does not matter.
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
            let s = stuck.load(Ordering::SeqCst);
            let l = late.load(Ordering::SeqCst);
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
    // With a long interval, the delay shows as a hang.
    let db = Options::new()
        .sync_interval(Duration::from_secs(3600))
        .sweep_interval(None)
        .memory()
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let d = db.clone();
    let s = stop.clone();
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
        let d = db.clone();
        let s = stop.clone();
        ts.push(std::thread::spawn(move || {
            let mut i = 0_u64;
            while !s.load(Ordering::Relaxed) {
                i += 1;
                d.cells().set(&format!("k{}", i % 1000), "v".repeat(100)).unwrap();
            }
        }));
    }
    let d = db.clone();
    let s = stop.clone();
    ts.push(std::thread::spawn(move || {
        while !s.load(Ordering::Relaxed) {
            let _ = d.trim();
        }
    }));
    let start = std::time::Instant::now();
    let mut last = 0;
    let mut back = 0;
    let mut gap = 0;
    while start.elapsed() < Duration::from_secs(10) {
        // reads the log's first revision before the mark, because a crash in between would see at least this
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
