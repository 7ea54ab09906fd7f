//! Disk failures, injected at the seam of the log's files.

mod seam;

use mainstay::{
    Answer, At, BranchCommand, CellCommand, Code, Command, Database, Durability, ErrorKind, Field,
    Fields, Filter, IndexCommand, Name, Options, Test, Ticket, Transaction, Value, Where,
};
use seam::{Faults, FaultyFiles, within};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn open(durability: Durability) -> (Database, Arc<Faults>) {
    let (files, faults) = FaultyFiles::new();
    let options = Options::new().durability(durability).sweep_interval(None).files(files);
    (options.memory().unwrap(), faults)
}

#[test]
fn a_full_disk_takes_nothing_and_writing_goes_on_when_space_returns() {
    for durability in [Durability::Sync, Durability::Interval, Durability::Memory] {
        let (db, faults) = open(durability);
        let cells = db.cells();
        assert_eq!(cells.set("a", "kept").unwrap(), 1);
        db.fork("side", "main", mainstay::At::Latest).unwrap();
        let before = db.revision();
        // SeqCst for all flags in this file: the simplest order, and tests need no speed.
        faults.room.store(0, Ordering::SeqCst);
        for _ in 0..3 {
            let error = cells.set("a", "lost").unwrap_err();
            assert_eq!((error.code(), error.kind()), (Code::DiskFull, ErrorKind::ReadOnly));
        }
        assert_eq!(
            db.fork("gone", "main", mainstay::At::Latest).unwrap_err().code(),
            Code::DiskFull
        );
        assert!(db.branch("gone").is_err(), "the fork never happened");
        assert_eq!(cells.get("a").unwrap(), Some("kept".into()), "reads go on");
        assert_eq!(cells.list("", None, 10).unwrap().names, ["a"]);
        assert_eq!(db.revision(), before);
        faults.room.store(-1, Ordering::SeqCst);
        assert_eq!(cells.set("a", "new").unwrap(), 2, "no gap in the counter");
        assert_eq!(db.revision(), before + 1, "no gap in the revisions");
        assert_eq!(cells.history("a", 10, None).unwrap().len(), 2);
        assert!(db.branch("side").is_ok());
    }
}

/// Running out of file descriptors because of many clients is not a disk failure.
#[test]
fn a_process_without_a_file_for_the_log_goes_on_when_it_has_one() {
    let (files, faults) = FaultyFiles::new();
    let options = Options::new().sweep_interval(None).segment_bytes(1 << 16).background(false);
    let db = options.files(files).memory().unwrap();
    let cells = db.cells();
    let value = "v".repeat(10_000);
    faults.no_files.store(true, Ordering::SeqCst);
    let refused = (0..20).find_map(|_| cells.set("a", value.as_str()).err());
    let refused = refused.expect("a segment is full by then");
    assert_eq!((refused.code(), refused.kind()), (Code::QueueFull, ErrorKind::Unavailable));
    assert!(refused.to_string().contains("LimitNOFILE"), "{refused}");
    let before = db.revision();
    assert!(cells.set("a", value.as_str()).is_err() && !db.stats().read_only);
    assert_eq!(cells.get("a").unwrap(), Some(value.as_str().into()), "reads go on");
    faults.no_files.store(false, Ordering::SeqCst);
    cells.set("a", "new").unwrap();
    assert_eq!(db.revision(), before + 1);
}

#[test]
fn a_full_log_is_known_until_there_is_space_again() {
    let (db, faults) = open(Durability::Sync);
    db.cells().set("a", 1).unwrap();
    assert_eq!(db.write_refusal(), None);
    faults.room.store(0, Ordering::SeqCst);
    db.cells().set("a", 2).unwrap_err();
    assert_eq!(db.write_refusal().map(|why| why.code()), Some(Code::DiskFull));
    faults.room.store(-1, Ordering::SeqCst);
    // Without any write, the database itself notices that the disk has room again.
    within(60, move || {
        while db.write_refusal().is_some() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(db.cells().get("a").unwrap(), Some(1.into()));
    });
}

/// The disk of the stores is full: their last write goes to a device that accepts no bytes.
#[test]
fn a_full_disk_under_the_stores_is_told_at_once_and_writing_resumes() {
    within(60, || {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::Memory).write_buffer_bytes(64 << 10);
        let db = options.open(directory.path()).unwrap();
        let full = directory.path().join("index/MARK.next");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        let set = |n: i64| db.cells().set(&format!("cell {n}"), "x".repeat(1000));
        let (first, refused) = (0..10_000).find_map(|n| set(n).err().map(|e| (n, e))).unwrap();
        assert_eq!((refused.code(), refused.kind()), (Code::DiskFull, ErrorKind::ReadOnly));
        // If each write had to wait, this would take minutes.
        for n in first..first + 100 {
            assert_eq!(set(n).unwrap_err().code(), Code::DiskFull);
            assert!(db.cells().get("cell 0").unwrap().is_some(), "reads go on");
        }
        assert_eq!(db.write_refusal().map(|why| why.code()), Some(Code::DiskFull));
        std::fs::remove_file(&full).unwrap();
        while set(first).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(db.write_refusal(), None);
        db.close().unwrap();
        let db = Database::open(directory.path()).unwrap();
        assert_eq!(db.revision(), first as u64 + 1, "what was acknowledged and nothing else");
    });
}

#[test]
fn writers_at_a_full_disk_lose_nothing_that_was_acknowledged() {
    let (db, faults) = open(Durability::Sync);
    let total = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    match db.cells().incr("n", 1) {
                        Ok(_) => drop(total.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => assert_eq!(error.code(), Code::DiskFull),
                    }
                }
            });
        }
        for _ in 0..50 {
            faults.room.store(0, Ordering::SeqCst);
            std::thread::yield_now();
            faults.room.store(-1, Ordering::SeqCst);
            std::thread::yield_now();
        }
    });
    let total = total.load(Ordering::SeqCst);
    assert_eq!(db.cells().get("n").unwrap(), Some((total as i64).into()));
    let history = db.cells().history("n", 100_000, None).unwrap();
    assert_eq!(history.len() as u64, total, "one version for each, none for those that failed");
    assert_eq!(db.revision(), total);
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_reads_go_on() {
    let (db, faults) = open(Durability::Sync);
    db.cells().set("a", 1).unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    let error = db.cells().set("a", 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome);
    faults.sync_fails.store(false, Ordering::SeqCst);
    let error = db.cells().set("a", 3).unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::SyncFailed, ErrorKind::ReadOnly));
    assert_eq!(db.cells().get("a").unwrap(), Some(1.into()), "what is not durable is not seen");
    assert!(db.stats().read_only);
    assert_eq!(db.close().unwrap_err().code(), Code::SyncFailed);
    assert_eq!(db.cells().get("a").unwrap_err().code(), Code::Closed);
}

#[test]
fn closing_says_when_what_was_not_promised_cannot_be_synced() {
    let (db, _) = open(Durability::Memory);
    db.cells().set("a", 1).unwrap();
    db.close().unwrap();
    let (db, faults) = open(Durability::Memory);
    db.cells().set("a", 1).unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    let error = db.close().unwrap_err();
    assert_eq!(error.code(), Code::SyncFailed, "{error}");
    assert_eq!(db.cells().get("a").unwrap_err().code(), Code::Closed, "it is closed all the same");
}

/// Background work that is interrupted by closing is not reported as a failure.
#[test]
fn closing_is_no_failure_of_the_background() {
    for _ in 0..50 {
        let options = Options::new().durability(Durability::Memory);
        let db = options.sweep_interval(Some(Duration::from_millis(1))).memory().unwrap();
        for n in 0..200 {
            db.cells().set_with(&format!("k{n}"), 1, mainstay::Ttl::Millis(1 + n / 20)).unwrap();
        }
        db.close().unwrap();
        assert_eq!(db.stats().last_failure, None);
    }
}

#[test]
fn a_failed_late_sync_latches_too() {
    let (db, faults) = open(Durability::Interval);
    faults.sync_fails.store(true, Ordering::SeqCst);
    db.cells().set("a", 1).unwrap();
    assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::UnknownOutcome);
    assert_eq!(db.cells().set("a", 2).unwrap_err().code(), Code::SyncFailed);
}

/// Runs a write whose sync is held up. Returns the reader's view during that time.
fn seen_before_durable<T>(
    db: &Database,
    faults: &Faults,
    write: impl FnOnce() + Send,
    look: impl FnOnce() -> T,
) -> T {
    let before = db.revision();
    let came = faults.syncs.came();
    faults.syncs.hold();
    std::thread::scope(|scope| {
        scope.spawn(write);
        faults.syncs.wait_for_more_than(came);
        let seen = look();
        assert_eq!(db.revision(), before);
        faults.syncs.let_go();
        seen
    })
}

#[test]
fn a_long_read_sees_the_submitted_writes_of_its_thread_however_slow_the_sync_is() {
    let (db, faults) = open(Durability::Sync);
    let set = Transaction::new().step(CellCommand::set(Name::new("a").unwrap(), 1));
    let list = CellCommand::List { prefix: String::new(), after: None, limit: 100_000 };
    let came = faults.syncs.came();
    faults.syncs.hold();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let ticket = db.submit(set);
            let receipt = db.execute(Transaction::new().step(list)).unwrap();
            ticket.wait().unwrap();
            receipt.answers
        });
        faults.syncs.wait_for_more_than(came);
        // Longer than a read waits for a group at once.
        std::thread::sleep(Duration::from_millis(300));
        faults.syncs.let_go();
        let answers = read.join().unwrap();
        assert!(matches!(&answers[0], Answer::Names(page) if page.names == ["a"]), "{answers:?}");
    });
}

#[test]
fn branches_and_tags_change_for_readers_when_the_change_is_durable() {
    let (db, faults) = open(Durability::Sync);
    db.fork("old", "main", At::Latest).unwrap();
    db.branch("old").unwrap().cells().set("a", 1).unwrap();
    db.tag("v", "old", At::Latest).unwrap();
    let look = || {
        let names: Vec<_> = db.branches().into_iter().map(|branch| branch.name).collect();
        let tags: Vec<_> = db.tags().into_iter().map(|tag| (tag.name, tag.branch)).collect();
        let reads = ["old", "new"].map(|name| db.branch(name).is_ok());
        (names, tags, reads)
    };
    let sees = |names: [&str; 2], tags: &[(&str, &str)], reads: [bool; 2]| {
        let text = |text: &str| text.to_owned();
        let tags: Vec<_> = tags.iter().map(|(tag, branch)| (text(tag), text(branch))).collect();
        (names.map(text).to_vec(), tags, reads)
    };
    let before =
        seen_before_durable(&db, &faults, || db.rename_branch("old", "new").unwrap(), look);
    assert_eq!(before, sees(["main", "old"], &[("v", "old")], [true, false]));
    assert_eq!(look(), sees(["main", "new"], &[("v", "new")], [false, true]));
    let before = seen_before_durable(&db, &faults, || assert!(db.untag("v").unwrap()), look);
    assert_eq!(before, sees(["main", "new"], &[("v", "new")], [false, true]));
    assert_eq!(look(), sees(["main", "new"], &[], [false, true]));
    assert!(db.pins().iter().all(|pin| !pin.holder.contains("tag")));
}

#[test]
fn scans_go_on_while_writes_are_undone() {
    // Undo and scan need the same two locks. Taken in opposite order, they would deadlock.
    within(120, || {
        let (db, faults) = open(Durability::Memory);
        let names = ["a", "b", "c"];
        for name in names {
            db.cells().set(name, 1).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(db.cells().list("", None, 10).unwrap().names, names);
                    }
                });
            }
            faults.room.store(0, Ordering::SeqCst);
            for i in 0..200 {
                let error = db.cells().set(&format!("new {i}"), 1).unwrap_err();
                assert_eq!(error.code(), Code::DiskFull);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(db.revision(), 3);
    });
}

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn step(command: impl Into<Command>) -> Transaction {
    Transaction::new().step(command)
}

/// Returns a transaction of `count` writes of nine megabytes each. Two of them fill a frame.
fn large(count: i64) -> Transaction {
    let value = Value::Bytes(vec![7; 9 << 20]);
    (0..count).fold(Transaction::new(), |transaction, i| {
        transaction.step(CellCommand::set(name(&format!("large {i}")), value.clone()))
    })
}

/// Submits transactions so that all of them wait for the log together, in one group.
fn in_one_group(db: &Database, faults: &Faults, submit: impl FnOnce() -> Vec<Ticket>) -> Vec<Code> {
    let tickets =
        seen_before_durable(db, faults, || assert!(db.cells().set("first", 1).is_ok()), submit);
    tickets
        .into_iter()
        .map(|ticket| ticket.wait().map_or_else(|error| error.code(), |_| Code::Closed))
        .collect()
}

/// The code that [`in_one_group`] returns for a success.
const DONE: Code = Code::Closed;

#[test]
fn a_group_that_is_written_in_part_is_acknowledged_in_part() {
    let (db, faults) = open(Durability::Sync);
    let codes = in_one_group(&db, &faults, || {
        faults.room.store(20 << 20, Ordering::SeqCst);
        [large(1), large(1), large(3)].map(|t| db.submit(t)).into()
    });
    assert_eq!(codes, [DONE, DONE, Code::DiskFull]);
    assert_eq!((db.revision(), db.durable_revision()), (3, 3));
    faults.room.store(-1, Ordering::SeqCst);
    db.execute(large(3)).unwrap();
    assert_eq!(db.cells().history("large 0", 10, None).unwrap().len(), 3);
}

/// The part of a group that was written before the disk was full must be synced before it is acknowledged.
#[test]
fn a_sync_that_fails_behind_a_full_disk_acknowledges_nothing() {
    let (db, faults) = open(Durability::Sync);
    let codes = in_one_group(&db, &faults, || {
        faults.room.store(20 << 20, Ordering::SeqCst);
        faults.full_is_broken.store(true, Ordering::SeqCst);
        [large(1), large(1), large(3)].map(|t| db.submit(t)).into()
    });
    assert_eq!(codes, [Code::UnknownOutcome, Code::UnknownOutcome, Code::DiskFull]);
    assert_eq!((db.revision(), db.durable_revision()), (1, 1), "nobody sees it");
    assert_eq!(db.cells().get("large 0").unwrap(), None);
    assert_eq!(db.cells().set("a", 1).unwrap_err().code(), Code::SyncFailed);
}

/// Catalog changes that are undone because of a full disk must leave no trace.
#[test]
fn a_full_disk_takes_back_changes_of_the_catalog() {
    let (db, faults) = open(Durability::Sync);
    db.fork("side", "main", At::Latest).unwrap();
    db.tag("kept", "side", At::Latest).unwrap();
    db.execute(step(BranchCommand::Import { name: name("half") })).unwrap();
    let look = |db: &Database| {
        let names: Vec<_> = db.branches().into_iter().map(|b| (b.name, b.id, b.children)).collect();
        let tags: Vec<_> = db.tags().into_iter().map(|t| (t.name, t.branch, t.revision)).collect();
        (names, tags, db.pins().into_iter().map(|pin| pin.holder).collect::<Vec<_>>())
    };
    let before = look(&db);
    let commands = || {
        let fork = BranchCommand::Fork { name: name("new"), from: name("other"), at: None };
        vec![
            step(BranchCommand::Rename { name: name("side"), to: name("other") }),
            step(BranchCommand::Untag { name: name("kept") }),
            step(BranchCommand::Tag { name: name("kept"), branch: name("main"), at: None }),
            step(BranchCommand::Finish { name: name("half"), tags: vec![(name("t"), 2)] }),
            step(fork),
        ]
    };
    let codes = in_one_group(&db, &faults, || {
        faults.room.store(0, Ordering::SeqCst);
        commands().into_iter().map(|t| db.submit(t)).collect()
    });
    assert_eq!(codes, [Code::DiskFull; 5]);
    assert_eq!(look(&db), before);
    assert!(db.branch("side").is_ok() && db.branch("other").is_err());
    faults.room.store(-1, Ordering::SeqCst);
    // The rename is written before the disk is full, but the transactions after it are not.
    let codes = in_one_group(&db, &faults, || {
        faults.room.store(20 << 20, Ordering::SeqCst);
        let commands = commands();
        let kept = commands[0].clone();
        let mut all = vec![large(1), kept, large(1), large(3)];
        all.extend(commands.into_iter().skip(1));
        all.into_iter().map(|t| db.submit(t)).collect()
    });
    assert_eq!(codes[..3], [DONE; 3]);
    assert_eq!(codes[3..], [Code::DiskFull; 5]);
    let renamed = look(&db);
    assert_eq!(renamed.1, [("kept".to_owned(), "other".to_owned(), before.1[0].2)]);
    assert!(db.branch("side").is_err() && db.branch("other").is_ok());
    faults.room.store(-1, Ordering::SeqCst);
    let receipts = db.execute_all(commands().into_iter().skip(1).collect());
    assert!(receipts.iter().all(Result::is_ok), "{receipts:?}");
    db.branch("new").unwrap().cells().set("a", 1).unwrap();
    let mut feed = db.watch(Filter::default(), 0).unwrap();
    let mut told = Vec::new();
    while let Some(event) = feed.next(Duration::ZERO).unwrap() {
        told.push((event.branch, event.key));
    }
    assert_eq!(told.last(), Some(&("new".to_owned(), "a".to_owned())));
    assert!(told.iter().any(|(branch, _)| branch == "side"), "{told:?}");
}

/// An index whose drop was undone must have all its entries, even if a compaction ran meanwhile.
#[test]
fn a_full_disk_takes_back_the_drop_of_an_index() {
    let (db, faults) = open(Durability::Memory);
    let id = db.records().add_index("", &["state"]).unwrap();
    for i in 0..200 {
        let fields = Fields::of([("state", "pending")]).unwrap();
        db.records().put(&format!("k{i:03}"), &fields, None).unwrap();
    }
    let test = Test::Eq(b"pending".to_vec());
    let pending = [Where { field: Field::new("state").unwrap(), test }];
    db.trim().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let _ = db.trim();
            }
        });
        for _ in 0..100 {
            faults.writes.hold();
            let dropped = db.submit(step(IndexCommand::Drop { id }));
            // Gives a compaction enough time to begin.
            std::thread::sleep(Duration::from_micros(1_500));
            faults.room.store(0, Ordering::SeqCst);
            faults.writes.let_go();
            assert_eq!(dropped.wait().unwrap_err().code(), Code::DiskFull);
            faults.room.store(-1, Ordering::SeqCst);
            if db.records().count("", &pending).unwrap() != 200 {
                break;
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(db.records().explain("", &pending).unwrap().contains("by the index"));
    assert_eq!(db.records().count("", &pending).unwrap(), 200);
    assert!(db.records().drop_index(id).unwrap());
    db.trim().unwrap();
    assert_eq!(db.stats().records.index_bytes, 0, "its entries go when nobody can take it back");
}

/// Submits far more transactions than may be in flight, in batches from many threads at once.
#[test]
fn batches_that_wait_for_room_do_not_wait_for_each_other() {
    let (db, faults) = open(Durability::Sync);
    let (done, all_done) = mpsc::channel();
    seen_before_durable(
        &db,
        &faults,
        || assert!(db.cells().set("first", 1).is_ok()),
        || {
            for _ in 0..140 {
                let db = db.clone();
                let done = done.clone();
                std::thread::spawn(move || {
                    let one = || step(CellCommand::Incr { name: name("n"), by: 1.into() });
                    let receipts = db.execute_all((0..1024).map(|_| one()).collect());
                    done.send(receipts.iter().filter(|receipt| receipt.is_ok()).count()).unwrap();
                });
            }
            // Gives all batches enough time to arrive.
            std::thread::sleep(Duration::from_secs(1));
        },
    );
    for _ in 0..140 {
        let count = all_done.recv_timeout(Duration::from_secs(60));
        assert_eq!(count, Ok(1024), "nobody waits for ever");
    }
    assert_eq!(db.cells().get("n").unwrap(), Some((140_i64 << 10).into()));
}

/// Runs `work` in a callback on the log thread, while another thread holds the log.
fn in_callback<T: Send + 'static>(work: impl FnOnce(&Database) -> T + Send + 'static) -> T {
    let (db, faults) = open(Durability::Sync);
    let (go, gone) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let (done, answer) = mpsc::channel();
    let own = db.clone();
    db.submit_with(step(CellCommand::set(name("a"), 1)), move |result| {
        result.unwrap();
        begin.send(()).unwrap();
        gone.recv().unwrap();
        done.send(work(&own)).unwrap();
    });
    begun.recv().unwrap();
    seen_before_durable(
        &db,
        &faults,
        || assert!(db.cells().set("first", 1).is_ok()),
        || {
            go.send(()).unwrap();
            // Gives the callback enough time to find the log taken.
            std::thread::sleep(Duration::from_millis(50));
        },
    );
    answer.recv_timeout(Duration::from_secs(20)).expect("the callback returns")
}

#[test]
fn a_callback_may_wait_for_the_log() {
    let set = || step(CellCommand::set(name("b"), 1));
    in_callback(move |db| db.execute(set())).unwrap();
    in_callback(|db| db.sync()).unwrap();
    let all = in_callback(move |db| db.execute_all((0..3000).map(|_| set()).collect()));
    assert!(all.iter().all(Result::is_ok));
}

/// All answers of a group are set before the first of its callbacks runs.
#[test]
fn a_callback_keeps_no_neighbour_waiting() {
    let (db, faults) = open(Durability::Sync);
    let (told, tell) = mpsc::channel();
    let (done, answer) = mpsc::channel();
    let ticket = seen_before_durable(
        &db,
        &faults,
        || assert!(db.cells().set("first", 1).is_ok()),
        || {
            let neighbour = db.clone();
            std::thread::spawn(move || told.send(neighbour.cells().set("b", 1)));
            // Gives the neighbour enough time to go to sleep.
            std::thread::sleep(Duration::from_millis(50));
            db.submit_with(step(CellCommand::set(name("a"), 1)), move |_| {
                done.send(tell.recv_timeout(Duration::from_secs(20))).unwrap();
            });
            db.submit(step(CellCommand::set(name("c"), 1)))
        },
    );
    ticket.wait().unwrap();
    assert_eq!(answer.recv().unwrap().expect("it has its answer"), Ok(1));
}
