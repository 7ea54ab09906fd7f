//! No waiter is forgotten: not behind callbacks, not behind a sync of another thread, and not when the
//! database is closed meanwhile.
//!
//! The log thread looks for work four times in a sync interval, which would turn a lost wake-up into a short
//! delay. Here the interval is so long that a lost wake-up is a hang, and a watchdog turns the hang into a
//! failure.

mod seam;

use mainstay::{
    CellCommand, Code, Database, Durability, Fields, Name, NewEvent, Options, RecordStore,
    Transaction,
};
use seam::{FaultyFiles, within};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

const NEVER: Duration = Duration::from_secs(3600);

/// Longer than any of these tests takes on a busy machine.
const WATCHDOG_SECS: u64 = 120;

fn options() -> Options {
    Options::new().sync_interval(NEVER).sweep_interval(None)
}

fn set(name: &str) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), 1))
}

/// Gives an unobservable thread time to start waiting. Too short a pause only weakens the test.
fn let_others_wait() {
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn a_callback_may_wait_for_a_ticket() {
    within(WATCHDOG_SECS, || {
        let (db, (sent, came)) = (options().memory().unwrap(), mpsc::channel());
        let own = db.clone();
        db.submit_with(set("a"), move |_| sent.send(own.submit(set("b")).wait()).unwrap());
        came.recv().unwrap().unwrap();
    });
}

#[test]
fn what_a_callback_executes_is_not_left_behind_a_sync_of_somebody_else() {
    within(WATCHDOG_SECS, || {
        let (files, faults) = FaultyFiles::new();
        let db = options().files(files).memory().unwrap();
        let (begun, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let (sent, came) = mpsc::channel();
        let own = db.clone();
        db.submit_with(set("first"), move |_| {
            begun.send(()).unwrap();
            may_go.recv().unwrap();
            sent.send(own.execute(set("from the callback"))).unwrap();
        });
        is_begun.recv().unwrap();
        // The log thread is in the callback now, so this caller takes the log and is held up there.
        faults.syncs.hold();
        let before = faults.syncs.came();
        let own = db.clone();
        let caller = std::thread::spawn(move || own.execute(set("held up")));
        faults.syncs.wait_for_more_than(before);
        go.send(()).unwrap();
        let_others_wait();
        faults.syncs.let_go();
        came.recv().unwrap().unwrap();
        caller.join().unwrap().unwrap();
    });
}

#[test]
fn who_sleeps_is_woken_before_callbacks_run() {
    within(WATCHDOG_SECS, || {
        let (files, faults) = FaultyFiles::new();
        let db = options().files(files).memory().unwrap();
        faults.syncs.hold();
        let before = faults.syncs.came();
        let first = db.submit(set("first"));
        faults.syncs.wait_for_more_than(before);
        // These two form one group, with the callback first.
        let (awake, is_awake) = mpsc::channel();
        let (sent, came) = mpsc::channel();
        db.submit_with(set("callback"), move |_| {
            is_awake.recv().unwrap();
            sent.send(()).unwrap();
        });
        let own = db.clone();
        let sleeper = std::thread::spawn(move || {
            own.execute(set("sleeper")).unwrap();
            awake.send(()).unwrap();
        });
        let_others_wait();
        faults.syncs.let_go();
        came.recv().unwrap();
        sleeper.join().unwrap();
        first.wait().unwrap();
    });
}

/// Work that arrives during a sync is gathered, here less than one batch. The thread that ends the sync must
/// notice the work that is not executed yet.
#[test]
fn what_is_gathered_during_a_sync_is_not_left_lying() {
    within(WATCHDOG_SECS, || {
        let (files, faults) = FaultyFiles::new();
        let db = options().files(files).memory().unwrap();
        for (round, by_caller) in [(1, true), (2, false), (3, true)] {
            faults.syncs.hold();
            let before = faults.syncs.came();
            let own = db.clone();
            // The sync is held up in a calling thread, or in the log thread.
            let first = std::thread::spawn(move || {
                if by_caller { own.execute(set("first")) } else { own.submit(set("first")).wait() }
            });
            faults.syncs.wait_for_more_than(before);
            let tickets: Vec<_> = (0..3).map(|_| db.submit(set("gathered"))).collect();
            let own = db.clone();
            let sleeper = std::thread::spawn(move || own.execute(set("asleep")));
            let_others_wait();
            faults.syncs.let_go();
            first.join().unwrap().unwrap();
            sleeper.join().unwrap().unwrap();
            tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
            assert_eq!(db.revision(), 5 * round);
        }
    });
}

thread_local! {
    static DEPTH: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn no_callback_runs_inside_another() {
    within(WATCHDOG_SECS, || {
        let db = options().durability(Durability::Memory).memory().unwrap();
        let (deepest, (sent, came)) = (Arc::new(AtomicU64::new(0)), mpsc::channel());
        for i in 0..3_000 {
            let own = db.clone();
            let deepest = deepest.clone();
            let sent = sent.clone();
            db.submit_with(set("a"), move |_| {
                DEPTH.set(DEPTH.get() + 1);
                // SeqCst for all flags and counters in this file: the simplest order, and tests need no
                // speed.
                deepest.fetch_max(DEPTH.get(), Ordering::SeqCst);
                sent.send(own.execute(set(&format!("{i}")))).unwrap();
                DEPTH.set(DEPTH.get() - 1);
            });
        }
        drop(sent);
        let answers: Vec<_> = came.iter().collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3_000);
        assert_eq!(deepest.load(Ordering::SeqCst), 1, "the stack would grow with the load");
    });
}

/// Keeps a database in a thread-local variable, and writes to it when the thread ends.
struct Last(Database, mpsc::Sender<()>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.cells().set("last", 1).unwrap();
        self.1.send(()).unwrap();
    }
}

thread_local! {
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

#[test]
fn a_thread_may_write_while_it_ends() {
    within(WATCHDOG_SECS, || {
        let (db, (sent, came)) = (options().memory().unwrap(), mpsc::channel());
        let own = db.clone();
        let thread = std::thread::spawn(move || {
            LAST.set(Some(Last(own.clone(), sent)));
            // The thread's parking place is created later, so it is destroyed earlier.
            own.cells().set("first", 1).unwrap();
        });
        thread.join().unwrap();
        came.recv().unwrap();
        assert_eq!(db.cells().get("last").unwrap(), Some(1.into()));
    });
}

/// Counters of a run with many threads.
#[derive(Default)]
struct Tally {
    written: AtomicU64,
    refused: AtomicU64,
    /// Callbacks that have not run yet.
    owed: AtomicU64,
    stop: AtomicBool,
}

impl Tally {
    fn note<T>(&self, answer: &mainstay::Result<T>) {
        match answer {
            Ok(_) => self.written.fetch_add(1, Ordering::SeqCst),
            Err(error) => {
                assert_eq!(error.code(), Code::Closed, "{error}");
                self.refused.fetch_add(1, Ordering::SeqCst)
            }
        };
    }
}

/// Writes in every possible way, to two databases that share the process's wake-up events.
fn write_in_every_way(me: u64, dbs: &[Database; 2], tally: &Arc<Tally>) {
    for i in 0_u64.. {
        if tally.stop.load(Ordering::Relaxed) {
            return;
        }
        let db = &dbs[((me + i / 7) % 2) as usize];
        let name = format!("{}", (me + i) % 5);
        match (me + i) % 6 {
            0 | 1 => tally.note(&db.execute(set(&name))),
            2 => tally.note(&db.submit(set(&name)).wait()),
            3 => {
                let tickets = [db.submit(set(&name)), db.submit(set("x")), db.submit(set("y"))];
                tickets.into_iter().for_each(|ticket| tally.note(&ticket.wait()));
            }
            4 => drop(db.sync()),
            _ => call_back(dbs, db, i, tally),
        }
    }
}

/// Submits with a callback that writes itself, on this or the other database.
fn call_back(dbs: &[Database; 2], db: &Database, i: u64, tally: &Arc<Tally>) {
    let other = dbs[(i % 2) as usize].clone();
    let own = tally.clone();
    tally.owed.fetch_add(1, Ordering::SeqCst);
    db.submit_with(set("callback"), move |answer| {
        own.note(&answer);
        match i % 4 {
            0 => own.note(&other.execute(set("executed"))),
            1 => own.note(&other.submit(set("submitted")).wait()),
            2 => drop(other.sync()),
            _ => {
                let inner = own.clone();
                own.owed.fetch_add(1, Ordering::SeqCst);
                other.submit_with(set("again"), move |answer| {
                    inner.note(&answer);
                    inner.owed.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
        own.owed.fetch_sub(1, Ordering::SeqCst);
    });
}

fn many_threads(durability: Durability, writes: u64, close: bool) {
    let open = || options().durability(durability).memory().unwrap();
    let dbs = [open(), open()];
    let tally = Arc::new(Tally::default());
    std::thread::scope(|scope| {
        for me in 0..8 {
            let dbs = &dbs;
            let tally = &tally;
            scope.spawn(move || write_in_every_way(me, dbs, tally));
        }
        while tally.written.load(Ordering::SeqCst) < writes {
            std::thread::yield_now();
        }
        if close {
            dbs.iter().for_each(|db| db.close().unwrap());
            while tally.refused.load(Ordering::SeqCst) < 100 {
                std::thread::yield_now();
            }
        }
        tally.stop.store(true, Ordering::Relaxed);
    });
    while tally.owed.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    let written = tally.written.load(Ordering::SeqCst);
    assert_eq!(dbs[0].revision() + dbs[1].revision(), written, "each answer once");
}

#[test]
fn everyone_is_answered_under_load() {
    within(WATCHDOG_SECS, || {
        for durability in [Durability::Sync, Durability::Memory, Durability::Interval] {
            many_threads(durability, 20_000, false);
        }
    });
}

#[test]
fn everyone_is_answered_when_closed_under_load() {
    within(WATCHDOG_SECS, || {
        for round in 0..30 {
            let durability = [Durability::Sync, Durability::Memory][round % 2];
            many_threads(durability, 300, true);
        }
    });
}

/// Regression: a thread that closes waits for the log thread, which itself closes in a callback. That was a
/// deadlock.
#[test]
fn a_callback_may_close_while_somebody_else_does() {
    within(WATCHDOG_SECS, || {
        let (db, (sent, came)) = (options().memory().unwrap(), mpsc::channel());
        let (begun, is_begun) = mpsc::channel();
        let own = db.clone();
        db.submit_with(set("a"), move |_| {
            begun.send(()).unwrap();
            while own.execute(set("b")).is_ok() {
                std::thread::yield_now();
            }
            let_others_wait();
            sent.send(own.close()).unwrap();
        });
        is_begun.recv().unwrap();
        db.close().unwrap();
        came.recv().unwrap().unwrap();
    });
}

/// Catches a store that waits for the log inside `poll`, which would never return.
#[test]
fn a_task_that_writes_a_record_parks_no_thread() {
    within(WATCHDOG_SECS, || {
        let (files, faults) = FaultyFiles::new();
        let db = options().files(files).memory().unwrap();
        let store: Arc<dyn RecordStore> = Arc::new(db.records());
        faults.syncs.hold();
        let (woken, is_woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Woken(Mutex::new(woken))));
        let mut context = Context::from_waker(&waker);
        let fields = Fields::of([("a", "1")]).unwrap();
        let mut writes: Vec<_> =
            ["k", "l", "m"].iter().map(|key| store.put(key, &fields, None)).collect();
        for write in &mut writes {
            assert!(write.as_mut().poll(&mut context).is_pending(), "nothing is on disk yet");
        }
        faults.syncs.let_go();
        for write in &mut writes {
            while write.as_mut().poll(&mut context).is_pending() {
                is_woken.recv().unwrap();
            }
        }
        assert_eq!(db.records().count("", &[]).unwrap(), 3);
    });
}

/// Sends a message each time a task is woken.
struct Woken(Mutex<mpsc::Sender<()>>);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        // The receiver may be gone at the end.
        let _ = self.0.lock().unwrap().send(());
    }
}

/// One thread waits for many others: it is woken by writes and by a set `stop` flag.
#[test]
fn a_wait_ends_by_a_write_by_an_interruption_and_by_the_end() {
    let db = Database::memory().unwrap();
    let stop = AtomicBool::new(false);
    let long = NEVER;
    db.cells().set("a", 1).unwrap();
    db.wait_for_unless(db.revision(), long, &stop).unwrap();
    let next = db.revision() + 1;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| db.wait_for_unless(next, long, &stop));
        db.cells().set("a", 2).unwrap();
        waiter.join().unwrap().unwrap();
        let waiter = scope.spawn(|| db.wait_for_unless(u64::MAX, long, &stop));
        stop.store(true, Ordering::SeqCst);
        db.interrupt();
        waiter.join().unwrap().unwrap();
        stop.store(false, Ordering::SeqCst);
        let waiter = scope.spawn(|| db.wait_for_unless(u64::MAX, long, &stop));
        db.close().unwrap();
        assert_eq!(waiter.join().unwrap().unwrap_err().code(), Code::Closed);
    });
}

/// Reading the time notices a clock that was set back while nothing was written, as a write would.
#[test]
fn the_time_is_what_the_next_stamp_goes_by() {
    let clock = mainstay::ManualClock::new(1_700_000_000_000_000);
    let options = Options::new().clock(clock.clone()).sweep_interval(None);
    let db = options.memory().unwrap();
    clock.advance(Duration::from_secs(60));
    db.cells().set("a", 1).unwrap();
    let newest = db.stamp_of(db.revision()).unwrap();
    assert_eq!(db.now_us().unwrap(), newest + 1, "a clock that stands still");
    clock.advance(Duration::from_secs(60));
    clock.set_wall(1_700_000_000_000_000 + 90_000_000);
    let now = db.now_us().unwrap();
    db.cells().set("a", 2).unwrap();
    assert_eq!(db.stamp_of(db.revision()).unwrap(), now);
}

/// An event is durable a moment before it is visible. A tail that reads in between must read again.
#[test]
fn a_tail_is_woken_by_every_append() {
    within(WATCHDOG_SECS, || {
        let db = options().memory().unwrap();
        let (runs, (seen, told)) = (db.runs(), mpsc::channel());
        let mut tail = runs.tail("r", 0).unwrap();
        std::thread::spawn(move || {
            // Ends when the receiver is dropped, or with the database.
            while let Ok(events) = tail.next(10, NEVER) {
                if seen.send(events.len()).is_err() {
                    break;
                }
            }
        });
        for number in 0..20_000 {
            runs.append(NewEvent::new("r", "Noted").with_key(&number.to_string())).unwrap();
            assert_eq!(told.recv().unwrap(), 1);
        }
        db.close().unwrap();
    });
}
