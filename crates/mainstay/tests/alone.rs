//! A database without threads of its own: the calling threads do all the work.

mod seam;

use mainstay::{
    Answer, CellCommand, Code, Database, Durability, ErrorKind, Filter, ManualClock, Name, Options,
    Transaction, Ttl, Value,
};
use seam::{Faults, FaultyFiles, within};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ALL: [Durability; 3] = [Durability::Sync, Durability::Interval, Durability::Memory];

fn alone() -> Options {
    Options::new().background(false)
}

/// Opens a database without threads, on a disk that can be made to fail, with a manual clock.
fn open(durability: Durability) -> (Database, Arc<Faults>, Arc<ManualClock>) {
    let (files, faults) = FaultyFiles::new();
    let clock = ManualClock::new(1_700_000_000_000_000);
    let options = alone().durability(durability).files(files).clock(clock.clone());
    (options.memory().unwrap(), faults, clock)
}

fn set(name: &str, value: impl Into<Value>) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), value))
}

fn add(name: &str) -> Transaction {
    Transaction::new().step(CellCommand::Incr { name: Name::new(name).unwrap(), by: 1.into() })
}

/// Returns the names of this process's threads that belong to a database.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.starts_with("mainstay-")).collect()
}

#[test]
fn there_are_no_threads() {
    let directory = tempfile::tempdir().unwrap();
    let memory = alone().memory().unwrap();
    let disk = alone().open(directory.path().join("db")).unwrap();
    for db in [memory, disk] {
        db.cells().set("a", 1).unwrap();
        db.sync().unwrap();
        db.trim().unwrap();
        assert_eq!(threads(), Vec::<String>::new(), "no other test here opens one with threads");
    }
}

#[test]
fn what_is_written_is_seen_whatever_its_durability() {
    within(60, || {
        for durability in ALL {
            let (db, ..) = open(durability);
            for n in 1..=100 {
                assert_eq!(db.execute(add("n")).unwrap().revision, n);
                assert_eq!(db.cells().get("n").unwrap(), Some((n as i64).into()));
            }
            let receipts = db.execute_all((0..3000).map(|_| add("n")).collect());
            assert!(receipts.iter().all(Result::is_ok));
            assert_eq!(db.cells().get("n").unwrap(), Some(3100.into()));
        }
    });
}

#[test]
fn a_ticket_is_done_and_a_callback_called_when_submitting_returns() {
    for durability in ALL {
        let (db, ..) = open(durability);
        let ticket = db.submit(add("n"));
        assert!(ticket.is_done());
        assert_eq!(ticket.wait().unwrap().revision, 1);
        let told = Arc::new(AtomicU64::new(0));
        let tell = told.clone();
        db.submit_with(add("n"), move |answer| {
            // SeqCst for all flags and counters in this file: the simplest order, and tests need no speed.
            tell.store(answer.unwrap().revision, Ordering::SeqCst);
        });
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }
}

/// Submits the next transaction in the callback of the last one, and waits there for others.
fn go_on(db: Database, left: u64, told: Arc<Mutex<Vec<u64>>>) {
    db.clone().submit_with(add("n"), move |answer| {
        told.lock().unwrap().push(answer.unwrap().revision);
        db.execute(set("beside", left as i64)).unwrap();
        assert!(db.submit(set("beside", 0)).wait().is_ok());
        db.sync().unwrap();
        if left > 0 {
            go_on(db, left - 1, told);
        }
    });
}

#[test]
fn callbacks_may_do_whatever_they_may_elsewhere() {
    within(60, || {
        let (db, ..) = open(Durability::Interval);
        let told = Arc::new(Mutex::new(Vec::new()));
        go_on(db, 50, told.clone());
        let expected: Vec<u64> = (0..=50).map(|n| 3 * n + 1).collect();
        assert_eq!(*told.lock().unwrap(), expected);
    });
}

#[test]
fn a_sync_is_done_by_who_asks_for_it() {
    within(60, || {
        for durability in ALL {
            let (db, faults, _) = open(durability);
            db.execute(add("n")).unwrap();
            let synced = if durability == Durability::Sync { 1 } else { 0 };
            assert_eq!(db.durable_revision(), synced);
            let before = faults.syncs.came();
            assert_eq!(db.sync().unwrap(), 1);
            assert_eq!((db.durable_revision(), faults.syncs.came() - before), (1, 1 - synced));
        }
    });
}

#[test]
fn what_an_interval_owes_is_synced_by_the_next_call_behind_it() {
    let (db, _, clock) = open(Durability::Interval);
    db.execute(add("n")).unwrap();
    db.execute(add("n")).unwrap();
    assert_eq!(db.durable_revision(), 0);
    clock.advance(Duration::from_millis(100));
    assert_eq!(db.durable_revision(), 0, "nobody has called");
    db.execute(add("n")).unwrap();
    assert_eq!(db.durable_revision(), 3);
    db.execute(add("n")).unwrap();
    clock.advance(Duration::from_millis(100));
    db.sweep().unwrap();
    assert!(db.durable_revision() >= 4, "whatever comes to the writer does it");
}

#[test]
fn closing_syncs_what_is_left_and_refuses_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    for durability in ALL {
        let path = directory.path().join(format!("{durability:?}"));
        let db = alone().durability(durability).open(&path).unwrap();
        db.execute(add("n")).unwrap();
        db.close().unwrap();
        assert_eq!(db.execute(add("n")).unwrap_err().code(), Code::Closed);
        assert_eq!(db.submit(add("n")).wait().unwrap_err().code(), Code::Closed);
        assert_eq!(db.sync().unwrap_err().code(), Code::Closed);
        let db = alone().open(&path).unwrap();
        assert_eq!(db.cells().get("n").unwrap(), Some(1.into()));
    }
}

/// Options with buffers that fill up quickly.
fn small() -> Options {
    alone().write_buffer_bytes(64 << 10).segment_bytes(16 << 10).durability(Durability::Memory)
}

#[test]
fn full_buffers_are_flushed_by_the_writer() {
    within(120, || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let db = small().open(&path).unwrap();
        for n in 0..3000_i64 {
            db.execute(set(&format!("cell {}", n % 500), n)).unwrap();
        }
        assert!(db.stats().flushed > 1000, "{:?}", db.stats().flushed);
        let receipts = db.execute_all((0..3000).map(|_| add("n")).collect());
        assert!(receipts.iter().all(Result::is_ok));
        drop(db);
        let db = small().open(&path).unwrap();
        assert_eq!(db.cells().get("n").unwrap(), Some(3000.into()));
        assert_eq!(db.cells().get("cell 499").unwrap(), Some(2999.into()));
    });
}

/// Writes from callbacks: each callback submits the next write, so the last one is never idle for long.
fn write_on(db: Database, left: u64) {
    db.clone().submit_with(set("large", vec![7_u8; 4 << 10]), move |answer| {
        answer.unwrap();
        if left > 0 {
            write_on(db, left - 1);
        }
    });
}

#[test]
fn full_buffers_are_flushed_in_callbacks_too() {
    within(120, || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let db = small().open(&path).unwrap();
        write_on(db.clone(), 500);
        assert_eq!(db.revision(), 501);
        assert!(db.stats().flushed > 400, "{}", db.stats().flushed);
    });
}

#[test]
fn a_full_disk_takes_nothing_and_writing_goes_on_when_space_returns() {
    for durability in ALL {
        let (db, faults, _) = open(durability);
        db.execute(set("a", "kept")).unwrap();
        faults.room.store(0, Ordering::SeqCst);
        assert_eq!(db.execute(set("a", "lost")).unwrap_err().code(), Code::DiskFull);
        assert_eq!(db.submit(set("a", "lost")).wait().unwrap_err().code(), Code::DiskFull);
        let told = Arc::new(AtomicI64::new(0));
        let tell = told.clone();
        db.submit_with(set("a", "lost"), move |answer| {
            assert_eq!(answer.unwrap_err().code(), Code::DiskFull);
            tell.store(1, Ordering::SeqCst);
        });
        assert_eq!(told.load(Ordering::SeqCst), 1);
        assert_eq!(db.cells().get("a").unwrap(), Some("kept".into()));
        faults.room.store(-1, Ordering::SeqCst);
        assert_eq!(db.execute(set("a", "new")).unwrap().revision, 2, "no gap");
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_reads_go_on() {
    for durability in ALL {
        let (db, faults, clock) = open(durability);
        db.execute(add("n")).unwrap();
        db.sync().unwrap();
        faults.sync_fails.store(true, Ordering::SeqCst);
        let written = db.execute(add("n"));
        assert_eq!(written.is_ok(), durability != Durability::Sync);
        clock.advance(Duration::from_secs(1));
        let kind = db.sync().unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::UnknownOutcome | ErrorKind::ReadOnly), "{kind:?}");
        faults.sync_fails.store(false, Ordering::SeqCst);
        assert_eq!(db.execute(add("n")).unwrap_err().code(), Code::SyncFailed);
        assert_eq!(db.durable_revision(), 1);
        assert!(db.cells().get("n").is_ok());
        let mut feed = db.watch(Filter::default(), 0).unwrap();
        assert_eq!(feed.next(Duration::ZERO).unwrap().unwrap().revision, 1);
        assert!(feed.next(Duration::ZERO).unwrap().is_none(), "what is not durable is not told");
    }
}

#[test]
fn several_threads_may_share_it() {
    within(120, || {
        for durability in ALL {
            let (db, ..) = open(durability);
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let db = &db;
                    scope.spawn(move || {
                        for n in 0..200 {
                            match (thread + n) % 4 {
                                0 => drop(db.submit(add("n")).wait().unwrap()),
                                1 => db.execute_all(vec![add("n")]).remove(0).map(drop).unwrap(),
                                2 => {
                                    db.execute(add("n")).unwrap();
                                    db.sync().unwrap();
                                }
                                _ => drop(db.execute(add("n")).unwrap()),
                            }
                        }
                    });
                }
            });
            let Answer::Number { value, .. } = db.execute(add("n")).unwrap().answers.remove(0)
            else {
                panic!("an addition answers a number");
            };
            assert_eq!(value, Value::Int(1601));
        }
    });
}

#[test]
fn expiries_go_when_somebody_sweeps() {
    let (db, _, clock) = open(Durability::Sync);
    db.cells().set("a", 1).unwrap();
    db.cells().expire("a", Ttl::Millis(1000)).unwrap();
    clock.advance(Duration::from_secs(2));
    let before = db.revision();
    assert_eq!(db.cells().get("a").unwrap(), None);
    assert_eq!(db.revision(), before);
    assert_eq!(db.sweep().unwrap(), 1);
    assert_eq!(db.revision(), before + 1);
}

/// Opening a database removes the access of other users to its files, unless the option to keep modes is set.
#[test]
fn modes_are_kept_where_they_are_wanted() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let file = path.join("DATABASE");
    drop(Options::new().open(&path).unwrap());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for (keep, expected) in [(true, [0o750, 0o640]), (false, [0o700, 0o600])] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        drop(Options::new().keep_modes(keep).open(&path).unwrap());
        assert_eq!([mode(&path), mode(&file)], expected, "{keep}");
    }
}
