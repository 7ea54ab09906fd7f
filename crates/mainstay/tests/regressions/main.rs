//! Regression tests: one test for each bug that a review found.

#![allow(clippy::disallowed_methods, reason = "loops are bounded by time; nothing is measured")]

mod imports;
mod requests;
mod threads;

use mainstay::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Runs a test on a thread. Panics if it does not end in time.
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
    // merges the same pair again, with another change
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
        .guard(Guard::Unchanged {
            contract: Contract::Cells,
            name: name.clone(),
            since,
            expires: None,
        })
        .step(CellCommand::set(name, 9));
    let r = db.execute(t);
    eprintln!("{r:?}");
    assert!(r.is_err());
}

fn cell(name: &str) -> Name {
    Name::new(name).unwrap()
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
        let told = std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap())
            .map(|e| format!("{} {}", e.branch, e.key));
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
