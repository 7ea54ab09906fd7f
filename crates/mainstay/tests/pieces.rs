//! More data than one round or one log write takes: rounds end at 16 MiB, and groups are written in pieces of
//! 64 MiB.

mod seam;

use mainstay::{
    CellCommand, Clock, Code, Database, Durability, ErrorKind, ManualClock, Name, Options, Receipt,
    Result, Ticket, Transaction, Value,
};
use seam::{Faults, FaultyFiles, Gate, within};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const WATCHDOG_SECS: u64 = 300;
const MIB: usize = 1 << 20;
/// Room for one piece of the log, but not for two.
const ONE_PIECE: i64 = 70 << 20;

/// Options with buffers so large that no writer waits for a flush.
fn options() -> Options {
    Options::new().sweep_interval(None).write_buffer_bytes(4 << 30)
}

fn name(i: usize) -> String {
    format!("large {i:02}")
}

fn large(i: usize, bytes: usize) -> Transaction {
    let value = Value::Bytes(vec![i as u8; bytes]);
    Transaction::new().step(CellCommand::set(Name::new(&name(i)).unwrap(), value))
}

/// Asserts that exactly the acknowledged writes are there, with their values.
fn check(db: &Database, answers: &[Result<Receipt>], bytes: usize) {
    for (i, answer) in answers.iter().enumerate() {
        let found = db.cells().get_versioned(&name(i)).unwrap();
        let expected = answer.as_ref().ok().map(|receipt| receipt.revision);
        assert_eq!(found.as_ref().map(|cell| cell.revision), expected, "{}", name(i));
        if let Some(cell) = found {
            assert!(cell.value == Value::Bytes(vec![i as u8; bytes]), "{}", name(i));
        }
    }
}

/// A clock that can be held, and with it the executor, which reads the time.
struct HeldClock(Arc<ManualClock>, Gate);

impl Clock for HeldClock {
    fn wall_us(&self) -> u64 {
        self.1.pass();
        self.0.wall_us()
    }
    fn monotonic_us(&self) -> u64 {
        self.0.monotonic_us()
    }
}

#[test]
fn many_large_transactions_at_once_commit_in_order() {
    within(WATCHDOG_SECS, || {
        let count = 40;
        let bytes = 4 * MIB;
        let clock = Arc::new(HeldClock(ManualClock::new(1_000_000_000), Gate::default()));
        let ((files, _), directory) = (FaultyFiles::new(), tempfile::tempdir().unwrap());
        let options = || options().clock(clock.clone()).files(files.clone());
        let db = options().open(directory.path()).unwrap();
        clock.1.hold();
        let before = clock.1.came();
        let own = db.clone();
        // Holds the executor while all others queue up.
        let first = std::thread::spawn(move || own.cells().set("first", 1));
        clock.1.wait_for_more_than(before);
        let tickets: Vec<Ticket> = (0..count).map(|i| db.submit(large(i, bytes))).collect();
        clock.1.let_go();
        first.join().unwrap().unwrap();
        let answers: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
        let revisions: Vec<u64> =
            answers.iter().map(|answer| answer.as_ref().unwrap().revision).collect();
        assert!(revisions.is_sorted(), "in the order submitted: {revisions:?}");
        check(&db, &answers, bytes);
        db.close().unwrap();
        drop(db);
        let db = options().open(directory.path()).unwrap();
        assert_eq!(db.revision(), 1 + count as u64);
        check(&db, &answers, bytes);
    });
}

/// Holds the log at its first write while thirty large transactions become one group behind it.
fn one_large_group(db: &Database, faults: &Faults, bytes: usize) -> Vec<Ticket> {
    faults.writes.hold();
    let before = faults.writes.came();
    let mut first = Transaction::new().step(CellCommand::set(Name::new("first").unwrap(), 1));
    // The first transaction needs no sync, because the ones behind it could otherwise share it.
    first.durability = Some(Durability::Memory);
    let first = db.submit(first);
    faults.writes.wait_for_more_than(before);
    let tickets = (0..30).map(|i| db.submit(large(i, bytes))).collect();
    // SeqCst: a flag of the test's fault injection, speed does not matter.
    faults.room.store(ONE_PIECE, Ordering::SeqCst);
    faults.writes.let_go();
    first.wait().unwrap();
    tickets
}

/// Returns the number of leading transactions that were acknowledged. All others must have failed because of
/// the full disk.
fn acknowledged(answers: &[Result<Receipt>]) -> usize {
    let done = answers.iter().take_while(|answer| answer.is_ok()).count();
    for answer in &answers[done..] {
        assert_eq!(answer.as_ref().unwrap_err().code(), Code::DiskFull);
    }
    done
}

#[test]
fn a_disk_that_runs_full_within_a_group_keeps_exactly_what_was_acknowledged() {
    for durability in [Durability::Sync, Durability::Memory] {
        within(WATCHDOG_SECS, move || {
            let bytes = 4 * MIB;
            let ((files, faults), directory) = (FaultyFiles::new(), tempfile::tempdir().unwrap());
            let options = || options().durability(durability).files(files.clone());
            let db = options().open(directory.path()).unwrap();
            let tickets = one_large_group(&db, &faults, bytes);
            let answers: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
            let done = acknowledged(&answers);
            assert!(done > 0 && done < answers.len(), "{done} of {}", answers.len());
            check(&db, &answers, bytes);
            assert_eq!(db.revision(), 1 + done as u64);
            faults.room.store(-1, Ordering::SeqCst);
            assert_eq!(db.cells().set("first", 2).unwrap(), 2, "writing goes on");
            db.close().unwrap();
            drop(db);
            let db = options().open(directory.path()).unwrap();
            assert_eq!(db.revision(), 2 + done as u64);
            check(&db, &answers, bytes);
        });
    }
}

#[test]
fn pieces_of_a_group_whose_sync_fails_are_not_acknowledged() {
    within(WATCHDOG_SECS, || {
        let (files, faults) = FaultyFiles::new();
        let db = options().files(files).memory().unwrap();
        faults.full_is_broken.store(true, Ordering::SeqCst);
        let tickets = one_large_group(&db, &faults, 4 * MIB);
        let answers: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
        let unknown = |answer: &&Result<Receipt>| matches!(answer, Err(error) if error.kind() == ErrorKind::UnknownOutcome);
        assert!(answers.iter().all(|answer| answer.is_err()), "none of them is durable");
        let unsure = answers.iter().take_while(unknown).count();
        assert!(unsure > 0 && unsure < answers.len(), "{unsure} of {}", answers.len());
        assert_eq!(acknowledged(&answers[unsure..]), 0);
        assert_eq!(db.revision(), 1, "nor does anybody see them");
        assert_eq!(db.cells().set("first", 2).unwrap_err().code(), Code::SyncFailed);
    });
}

#[test]
fn pieces_before_a_full_disk_are_synced_within_the_interval() {
    within(WATCHDOG_SECS, || {
        let (files, faults) = FaultyFiles::new();
        let options = options().durability(Durability::Interval).files(files);
        let db = options.sync_interval(Duration::from_millis(20)).memory().unwrap();
        let tickets = one_large_group(&db, &faults, 4 * MIB);
        let answers: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
        let done = acknowledged(&answers);
        assert!(done > 0 && done < answers.len(), "{done} of {}", answers.len());
        while db.durable_revision() < 1 + done as u64 {
            std::thread::yield_now();
        }
    });
}
