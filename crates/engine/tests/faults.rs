//! What happens when the disk fails: through the seam of the log's files.

mod seam;

use mainstay::{At, Code, Database, Durability, ErrorKind, Options};
use seam::{Faults, FaultyFiles, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    db.close().unwrap();
    assert_eq!(db.cells().get("a").unwrap_err().code(), Code::Closed);
}

#[test]
fn a_failed_late_sync_latches_too() {
    let (db, faults) = open(Durability::Interval);
    faults.sync_fails.store(true, Ordering::SeqCst);
    db.cells().set("a", 1).unwrap();
    assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::UnknownOutcome);
    assert_eq!(db.cells().set("a", 2).unwrap_err().code(), Code::SyncFailed);
}

/// Runs a write whose sync waits; gives what a reader sees while it does.
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
    let rename = || db.rename_branch("old", "new").unwrap();
    let before = seen_before_durable(&db, &faults, rename, look);
    assert_eq!(before, sees(["main", "old"], &[("v", "old")], [true, false]));
    assert_eq!(look(), sees(["main", "new"], &[("v", "new")], [false, true]));
    let untag = || assert!(db.untag("v").unwrap());
    let before = seen_before_durable(&db, &faults, untag, look);
    assert_eq!(before, sees(["main", "new"], &[("v", "new")], [false, true]));
    assert_eq!(look(), sees(["main", "new"], &[], [false, true]));
    assert!(db.pins().iter().all(|pin| !pin.holder.contains("tag")));
}

#[test]
fn scans_go_on_while_writes_are_undone() {
    // Undo and a scan need the same two locks: taken in opposite order, both would wait for ever.
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
