//! Runs with branches, merges, historical reads, exports, deferred deletion and reopening.

use crate::{event, memory, note};
use mainstay::{
    At, Code, Contract, Database, Durability, ManualClock, MergeStrategy, NewEvent, Options,
    RunFilter, RunStatus, Runs, Value,
};
use std::time::Duration;

fn types(db: &Database, branch: &str, run: &str) -> Vec<String> {
    let runs = db.branch(branch).unwrap().runs();
    let events = runs.fetch(run, 0, 1000).unwrap();
    assert!(events.iter().enumerate().all(|(place, event)| event.run_seq == place as u64 + 1));
    events.into_iter().map(|event| event.event_type).collect()
}

#[test]
fn a_fork_goes_on_from_any_event() {
    let (db, _) = memory();
    for kind in ["RunStarted", "A", "B", "C", "RunFailed"] {
        db.runs().append(event("r", kind, None)).unwrap();
    }
    let third = db.runs().revision_of("r", 3).unwrap().unwrap();
    db.fork("again", "main", At::Revision(third)).unwrap();
    let again = db.branch("again").unwrap().runs();
    assert_eq!(again.append(event("r", "C", None)).unwrap().run_seq, 4);
    assert_eq!(again.append(event("r", "RunCompleted", None)).unwrap().run_seq, 5);
    assert!(again.append(event("r", "A", None)).unwrap().idempotent);
    assert_eq!(types(&db, "again", "r"), ["RunStarted", "A", "B", "C", "RunCompleted"]);
    assert_eq!(types(&db, "main", "r"), ["RunStarted", "A", "B", "C", "RunFailed"]);
    assert_eq!(again.snapshot("r").unwrap().unwrap().status, RunStatus::Completed);
    assert_eq!(again.get("r").unwrap().unwrap().status, RunStatus::Completed);
    assert_eq!(db.runs().get("r").unwrap().unwrap().status, RunStatus::Failed);
    assert_eq!(db.runs().revision_of("r", 6).unwrap(), None);
}

#[test]
fn what_one_side_appended_travels() {
    let (db, _) = memory();
    for number in 1..=300 {
        db.runs().append(note("r", number)).unwrap();
    }
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().runs();
    for number in 301..=600 {
        side.append(note("r", number)).unwrap();
    }
    side.bootstrap("new", Value::from("made there"), vec![note("new", 1)]).unwrap();
    db.runs().append(note("other", 1)).unwrap();
    let differences = db.diff("side", "main").unwrap();
    let names: Vec<_> = differences
        .iter()
        .filter(|one| one.contract == Contract::Runs)
        .map(|one| one.key.as_str())
        .collect();
    assert_eq!(names, ["new", "other", "r"]);
    db.merge("side", "main", MergeStrategy::Strict).unwrap();
    let ours = db.runs().fetch("r", 0, 1000).unwrap();
    let theirs = side.fetch("r", 0, 1000).unwrap();
    assert_eq!(ours, theirs);
    let hash = |runs: &mainstay::Runs| runs.snapshot("r").unwrap().unwrap().hash();
    assert_eq!(hash(&db.runs()), hash(&side));
    assert_eq!(db.runs().get("new").unwrap().unwrap().metadata, Some("made there".into()));
    // Both branches agree now, and continue from here.
    assert!(db.diff("side", "main").unwrap().iter().all(|one| one.key == "other"));
    side.append(note("r", 601)).unwrap();
    db.merge("side", "main", MergeStrategy::Strict).unwrap();
    assert_eq!(db.runs().get("r").unwrap().unwrap().last_event_seq, 601);
    // Deletions are merged as well.
    side.delete("r").unwrap();
    db.merge("side", "main", MergeStrategy::Strict).unwrap();
    assert!(db.runs().get("r").unwrap().is_none());
}

#[test]
fn two_histories_do_not_become_one() {
    for strategy in [MergeStrategy::Strict, MergeStrategy::Theirs, MergeStrategy::Ours] {
        let (db, _) = memory();
        db.runs().append(note("r", 1)).unwrap();
        db.fork("side", "main", At::Latest).unwrap();
        let side = db.branch("side").unwrap().runs();
        side.append(note("r", 2)).unwrap();
        side.append(note("r", 3)).unwrap();
        db.runs().append(note("r", 3)).unwrap();
        let before = db.runs().fetch("r", 0, 9).unwrap();
        let merged = db.merge("side", "main", strategy);
        let after = db.runs().fetch("r", 0, 9).unwrap();
        // Existing events are not rewritten.
        assert_eq!(after[..before.len()], before[..]);
        let keys: Vec<_> = after.iter().map(|event| event.idempotency_key.as_str()).collect();
        match strategy {
            MergeStrategy::Strict => {
                assert_eq!(merged.unwrap_err().keys(), ["r"]);
                assert_eq!(keys, ["note-1", "note-3"]);
            }
            MergeStrategy::Theirs => assert_eq!(keys, ["note-1", "note-3", "note-2"]),
            MergeStrategy::Ours => assert_eq!(keys, ["note-1", "note-3"]),
        }
    }
}

#[test]
fn the_past_is_there_as_long_as_the_run_is() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let db = options.clock(clock.clone()).memory().unwrap();
    db.runs().bootstrap("r", Value::from(7), vec![event("r", "RunStarted", None)]).unwrap();
    for number in 1..=600 {
        db.runs().append(note("r", number)).unwrap();
    }
    let then = db.revision();
    db.runs().append(event("r", "RunCompleted", None)).unwrap();
    db.runs().append(event("gone", "RunStarted", None)).unwrap();
    let with_gone = db.revision();
    db.runs().delete("gone").unwrap();
    let check = || {
        let past = db.runs().at(At::Revision(then)).unwrap();
        let events = past.fetch("r", 590, 100).unwrap();
        assert_eq!((events.len(), events.last().unwrap().run_seq), (11, 601));
        let snapshot = past.snapshot("r").unwrap().unwrap();
        let info = past.get("r").unwrap().unwrap();
        assert_eq!((snapshot.status, snapshot.last_event_seq), (RunStatus::Running, 601));
        assert_eq!((info.status, info.last_event_seq), (RunStatus::Running, 601));
        assert_eq!(info.metadata, Some(7.into()));
    };
    check();
    let past = db.runs().at(At::Revision(with_gone)).unwrap();
    assert_eq!(past.fetch("gone", 0, 9).unwrap().len(), 1);
    drop(past);
    // Two days later, the old versions of the heads are trimmed.
    clock.advance(Duration::from_secs(48 * 3600));
    db.reap().unwrap();
    db.cells().set("later", 1).unwrap();
    db.trim().unwrap();
    clock.advance(Duration::from_secs(48 * 3600));
    db.cells().set("later", 2).unwrap();
    db.trim().unwrap();
    check();
    let past = db.runs().at(At::Revision(with_gone)).unwrap();
    assert_eq!(past.fetch("gone", 0, 9).unwrap_err().code(), Code::HistoryTrimmed);
}

#[test]
fn an_export_brings_runs_as_they_were() {
    let (db, _) = memory();
    db.runs().bootstrap("r", Value::from("about"), vec![event("r", "RunStarted", None)]).unwrap();
    for number in 1..=300 {
        db.runs().append(note("r", number)).unwrap();
    }
    db.runs().append(event("r", "RunApproved", None)).unwrap();
    db.runs().append(note("s", 1)).unwrap();
    db.runs().append(note("gone", 1)).unwrap();
    db.runs().delete("gone").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("export");
    let report = db.export("main", &file, &mut |_| {}).unwrap();
    assert_eq!((report.runs, report.versions), (2, 306));
    let (other, _) = memory();
    other.import(&file, "came", &mut |_| {}).unwrap();
    let came = other.branch("came").unwrap().runs();
    let all = RunFilter::default();
    let names = |runs: &mainstay::Runs| {
        let page = runs.list(&all, None, 9).unwrap();
        page.runs.into_iter().map(|run| (run.run_id, run.status, run.created)).collect::<Vec<_>>()
    };
    assert_eq!(names(&came), names(&db.runs()));
    assert_eq!(came.fetch("r", 0, 999).unwrap(), db.runs().fetch("r", 0, 999).unwrap());
    assert_eq!(came.get("r").unwrap().unwrap().metadata, Some("about".into()));
    assert_eq!(came.alerts("r", 0, 9).unwrap().len(), 1);
    assert!(came.append(note("r", 7)).unwrap().idempotent);
}

#[test]
fn what_a_deleted_run_left_goes_and_a_restored_one_is_whole() {
    let (db, _) = memory();
    for number in 1..=2500 {
        db.runs().append(note("r", number)).unwrap();
    }
    let events = db.runs().fetch("r", 0, 10_000).unwrap();
    db.runs().delete("r").unwrap();
    assert!(db.reap().unwrap() >= 5000);
    assert_eq!(db.reap().unwrap(), 0);
    let restored = db.runs().restore("r", Some(1.into()), Some(5), events.clone()).unwrap();
    assert_eq!(restored, 2500);
    assert_eq!(db.runs().fetch("r", 0, 10_000).unwrap(), events);
    assert_eq!(db.runs().get("r").unwrap().unwrap().created, 5);
    // A second restore finds all events.
    assert_eq!(db.runs().restore("r", None, None, events[..9].to_vec()).unwrap(), 0);
    let gap = vec![mainstay::CanonicalEvent { run_seq: 2502, ..events[0].clone() }];
    assert_eq!(db.runs().restore("r", None, None, gap).unwrap_err().code(), Code::InvalidArgument);
    let other =
        vec![mainstay::CanonicalEvent { idempotency_key: "else".into(), ..events[0].clone() }];
    assert_eq!(db.runs().restore("r", None, None, other).unwrap_err().code(), Code::RunExists);
}

#[test]
fn runs_are_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path()).unwrap();
    let batch = (1..=1000).map(|number| note("r", number)).collect();
    db.runs().append_batch(batch).unwrap();
    db.runs().append(note("gone", 1)).unwrap();
    db.runs().delete("gone").unwrap();
    let hash = db.runs().project("r").unwrap().unwrap().hash();
    drop(db);
    for _ in 0..2 {
        let db = Database::open(directory.path()).unwrap();
        assert_eq!(db.runs().snapshot("r").unwrap().unwrap().hash(), hash);
        assert!(db.runs().append(note("r", 500)).unwrap().idempotent);
        assert_eq!(db.runs().append(note("gone", 2)).unwrap_err().code(), Code::RunNotFound);
        db.trim().unwrap();
    }
}

/// Only the Bloom filter of idempotency keys is in memory. It must never report a known key as new.
#[test]
fn every_repeated_event_is_known_wherever_its_key_is() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::new().durability(Durability::Memory).cache_bytes(0);
        options.write_buffer_bytes(256 << 10).open(directory.path()).unwrap()
    };
    let db = open();
    let all = |runs: std::ops::Range<u64>, numbers: std::ops::Range<u64>| {
        runs.flat_map(move |run| numbers.clone().map(move |n| note(&format!("r{run}"), n)))
    };
    let write = |of: &Runs, events: Vec<NewEvent>, fresh: bool| {
        for batch in events.chunks(100) {
            let written = of.append_batch(batch.to_vec()).unwrap();
            assert!(written.iter().all(|one| one.persisted == fresh), "fresh: {fresh}");
        }
    };
    write(&db.runs(), all(0..20, 0..200).collect(), true);
    db.trim().unwrap();
    write(&db.runs(), all(0..20, 0..200).collect(), false);
    db.fork("b", "main", At::Latest).unwrap();
    write(&db.branch("b").unwrap().runs(), all(0..20, 150..200).collect(), false);
    write(&db.branch("b").unwrap().runs(), all(0..20, 200..210).collect(), true);
    drop(db);
    let db = open();
    write(&db.runs(), all(0..20, 0..200).collect(), false);
    write(&db.runs(), all(0..20, 200..220).chain(all(20..30, 0..50)).collect(), true);
    db.trim().unwrap();
    write(&db.runs(), all(0..20, 150..220).chain(all(20..30, 0..50)).collect(), false);
    write(&db.branch("b").unwrap().runs(), all(0..20, 150..210).collect(), false);
}
