//! Staged restore of runs in batches: not visible before it is complete.

use crate::{event, memory, note};
use mainstay::{
    At, CanonicalEvent, ChangeKind, Code, Contract, Database, ExportReport, Filter, MergeStrategy,
    RunFilter, Runs,
};
use std::time::Duration;

/// Returns the events of a run, and deletes the run.
fn archived(db: &Database, count: u64) -> Vec<CanonicalEvent> {
    let all = (1..=count).map(|number| note("r", number)).collect();
    db.runs().append_batch(all).unwrap();
    let events = db.runs().fetch("r", 0, 100_000).unwrap();
    assert!(db.runs().delete("r").unwrap());
    events
}

#[track_caller]
fn is_not_there(runs: &Runs) {
    assert_eq!(runs.get("r").unwrap(), None);
    assert!(runs.fetch("r", 0, 10).unwrap().is_empty());
    assert_eq!(runs.snapshot("r").unwrap(), None);
    assert!(runs.list(&RunFilter::default(), None, 10).unwrap().runs.is_empty());
    assert!(runs.alerts("r", 0, 10).unwrap().is_empty());
    assert!(runs.tail("r", 0).unwrap().next(10, Duration::ZERO).unwrap().is_empty());
}

#[test]
fn nobody_sees_a_run_before_it_is_whole_and_nobody_appends_to_it() {
    let (db, _) = memory();
    let events = archived(&db, 700);
    let runs = db.runs();
    let hash = {
        let (other, _) = memory();
        other.runs().restore("r", None, None, events.clone()).unwrap();
        other.runs().snapshot("r").unwrap().unwrap().hash()
    };
    let mut restoring = runs.restoring("r", Some("made".into()), Some(7)).unwrap();
    for part in events[..600].chunks(300) {
        assert_eq!(restoring.add(part.to_vec()).unwrap(), 300);
        db.sync().unwrap();
        is_not_there(&runs);
        assert_eq!(runs.append(note("r", 900)).unwrap_err().code(), Code::RunNotFound);
    }
    assert_eq!(restoring.finish(events[600..].to_vec()).unwrap(), 100);
    assert_eq!(runs.fetch("r", 0, 1_000).unwrap(), events);
    let info = runs.get("r").unwrap().unwrap();
    assert_eq!((info.created, info.metadata), (7, Some("made".into())));
    assert_eq!(runs.snapshot("r").unwrap().unwrap().hash(), hash);
    assert_eq!(runs.project("r").unwrap().unwrap().hash(), hash);
    assert_eq!(runs.append(note("r", 900)).unwrap().run_seq, 701);
    assert!(runs.append(note("r", 3)).unwrap().idempotent);
}

#[test]
fn a_name_that_was_never_there_is_kept_for_it_as_well() {
    let (source, _) = memory();
    let events = archived(&source, 2);
    let (db, _) = memory();
    let mut restoring = db.runs().restoring("r", None, None).unwrap();
    restoring.add(events[..1].to_vec()).unwrap();
    assert_eq!(db.runs().append(note("r", 9)).unwrap_err().code(), Code::RunNotFound);
    restoring.finish(events[1..].to_vec()).unwrap();
    assert_eq!(db.runs().fetch("r", 0, 9).unwrap(), events);
}

#[test]
fn a_crash_in_between_leaves_nothing_and_beginning_again_finishes() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path()).unwrap();
    let events = archived(&db, 900);
    let mut restoring = db.runs().restoring("r", None, None).unwrap();
    restoring.add(events[..300].to_vec()).unwrap();
    restoring.add(events[300..600].to_vec()).unwrap();
    drop((restoring, db));
    let db = Database::open(directory.path()).unwrap();
    is_not_there(&db.runs());
    let mut again = db.runs().restoring("r", None, None).unwrap();
    assert_eq!(again.add(events[..500].to_vec()).unwrap(), 500);
    assert_eq!(again.finish(events[500..].to_vec()).unwrap(), 400);
    drop(db);
    let db = Database::open(directory.path()).unwrap();
    assert_eq!(db.runs().fetch("r", 0, 1_000).unwrap(), events);
    // The remains are deleted with the data of the old run, and the restored run stays.
    db.sweep().unwrap();
    assert_eq!(db.runs().fetch("r", 0, 1_000).unwrap(), events);
}

#[test]
fn of_two_that_restore_a_run_the_later_one_does() {
    let (db, _) = memory();
    let events = archived(&db, 4);
    let mut one = db.runs().restoring("r", None, None).unwrap();
    let mut two = db.runs().restoring("r", None, None).unwrap();
    one.add(events[..2].to_vec()).unwrap();
    two.add(events[..1].to_vec()).unwrap();
    assert_eq!(one.add(events[2..].to_vec()).unwrap_err().code(), Code::Fenced);
    assert_eq!(one.finish(Vec::new()).unwrap_err().code(), Code::Fenced);
    assert_eq!(two.finish(events[1..].to_vec()).unwrap(), 3);
    assert_eq!(db.runs().fetch("r", 0, 9).unwrap(), events);
    let late = db.runs().restoring("r", None, None).unwrap();
    assert_eq!(late.finish(events).unwrap_err().code(), Code::RunExists);
}

#[test]
fn deleting_gives_up_what_was_left() {
    let (db, _) = memory();
    let events = archived(&db, 4);
    let mut left = db.runs().restoring("r", None, None).unwrap();
    left.add(events[..2].to_vec()).unwrap();
    assert!(!db.runs().delete("r").unwrap());
    assert_eq!(left.add(events[2..].to_vec()).unwrap_err().code(), Code::Fenced);
}

#[test]
fn the_feed_tells_of_a_restored_run_once_and_a_fork_there_has_all_of_it() {
    let (db, _) = memory();
    for kind in ["RunStarted", "RunCompleted", "RunStarted"] {
        db.runs().append(event("r", kind, None).with_key(&format!("{}", db.revision()))).unwrap();
    }
    let events = db.runs().fetch("r", 0, 9).unwrap();
    assert_eq!(db.runs().alerts("r", 0, 9).unwrap().len(), 1);
    db.runs().delete("r").unwrap();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    let mut restoring = db.runs().restoring("r", Some(1.into()), None).unwrap();
    restoring.add(events[..1].to_vec()).unwrap();
    restoring.finish(events[1..].to_vec()).unwrap();
    db.sync().unwrap();
    let told = feed.next(Duration::from_secs(30)).unwrap().unwrap();
    assert_eq!((told.contract, told.key.as_str()), (Contract::Runs, "r"));
    assert_eq!((told.kind, told.counter), (ChangeKind::Restored, 3));
    assert_eq!(feed.next(Duration::ZERO).unwrap(), None);
    assert_eq!(db.runs().alerts("r", 0, 9).unwrap().len(), 1, "it is in the run's alerts");
    let first = db.runs().revision_of("r", 1).unwrap().unwrap();
    db.fork("b", "main", At::Revision(first)).unwrap();
    assert_eq!(db.branch("b").unwrap().runs().fetch("r", 0, 9).unwrap(), events);
}

/// Returns the run events of a branch's feed after a revision, as kind and sequence number.
fn told(db: &Database, branch: &str, after: u64) -> Vec<(ChangeKind, u64)> {
    db.sync().unwrap();
    let filter = Filter { branch: Some(branch.to_owned()), ..Filter::default() };
    let mut feed = db.watch(filter, after).unwrap();
    std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap())
        .filter(|change| change.contract == Contract::Runs)
        .map(|change| (change.kind, change.counter))
        .collect()
}

/// Returns events of a run, the last of which is invalid after the one before it, so it raises an alert.
fn alerting() -> Vec<CanonicalEvent> {
    let (db, _) = memory();
    for (number, kind) in ["RunCompleted", "RunStarted"].into_iter().enumerate() {
        db.runs().append(event("r", kind, None).with_key(&number.to_string())).unwrap();
    }
    assert_eq!(db.runs().alerts("r", 0, 9).unwrap().len(), 1);
    db.runs().fetch("r", 0, 9).unwrap()
}

#[test]
fn the_feed_says_nothing_of_a_restoring_that_is_given_up() {
    let events = alerting();
    for was_there in [false, true] {
        let (db, _) = memory();
        if was_there {
            db.runs().restore("r", None, None, events.clone()).unwrap();
            db.runs().delete("r").unwrap();
        }
        let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
        // The first restore is dropped, the second one replaces it and is deleted.
        for _ in 0..2 {
            let mut restoring = db.runs().restoring("r", Some("made".into()), None).unwrap();
            assert_eq!(restoring.add(events.clone()).unwrap(), 2);
        }
        assert!(!db.runs().delete("r").unwrap());
        assert!(db.reap().unwrap() > 0);
        db.cells().set("end", 1).unwrap();
        db.sync().unwrap();
        let told = feed.next(Duration::from_secs(30)).unwrap().unwrap();
        assert_eq!((told.contract, told.key.as_str()), (Contract::Cells, "end"), "{told:?}");
    }
}

/// Exports a branch, and imports it into another database.
fn moved(db: &Database, branch: &str) -> (ExportReport, Database) {
    let directory = tempfile::tempdir().unwrap();
    let (file, (other, _)) = (directory.path().join("export"), memory());
    let report = db.export(branch, &file, &mut |_| {}).unwrap();
    other.import(&file, "moved", &mut |_| {}).unwrap();
    (report, other)
}

#[test]
fn an_export_as_of_a_tag_between_two_pieces_has_nothing_of_the_run() {
    let (db, _) = memory();
    let events = archived(&db, 4);
    db.cells().set("before", 1).unwrap();
    let mut restoring = db.runs().restoring("r", Some("made".into()), None).unwrap();
    restoring.add(events[..2].to_vec()).unwrap();
    let between = db.tag("between", "main", At::Latest).unwrap();
    restoring.add(events[2..3].to_vec()).unwrap();

    // While the restore is under way: as of the tag, and now.
    db.fork("then", "main", At::Revision(between)).unwrap();
    for branch in ["then", "main"] {
        let (report, other) = moved(&db, branch);
        // The export contains the earlier deletion of the run, so a late producer gets an error.
        assert_eq!((report.cells, report.runs, report.versions), (1, 0, 2));
        let runs = other.branch("moved").unwrap().runs();
        is_not_there(&runs);
        assert_eq!(runs.append(note("r", 1)).unwrap_err().code(), Code::RunNotFound);
    }

    // When the run is complete, the tag still comes before all of its events.
    restoring.finish(events[3..].to_vec()).unwrap();
    let (report, other) = moved(&db, "main");
    assert_eq!((report.runs, report.tags), (1, 1));
    assert_eq!(other.branch("moved").unwrap().runs().fetch("r", 0, 9).unwrap(), events);
    let between = other.tags()[0].revision;
    other.fork("then", "moved", At::Revision(between)).unwrap();
    assert_eq!(other.branch("then").unwrap().cells().get("before").unwrap(), Some(1.into()));
    is_not_there(&other.branch("then").unwrap().runs());
}

#[test]
fn what_could_not_follow_is_not_told_again_when_it_is_restored() {
    let (db, _) = memory();
    for (number, kind) in ["RunCompleted", "RunStarted"].into_iter().enumerate() {
        let event = event("r", kind, None).with_key(&number.to_string());
        db.runs().append(event).unwrap();
    }
    let alerts = db.runs().alerts("r", 0, 9).unwrap();
    let count = |changes: Vec<(ChangeKind, u64)>| {
        changes.iter().filter(|change| change.0 == ChangeKind::Alerted).count()
    };
    assert_eq!(count(told(&db, "main", 0)), alerts.len());
    assert!(!alerts.is_empty());
    let events = db.runs().fetch("r", 0, 9).unwrap();
    db.runs().delete("r").unwrap();
    let before = db.revision();
    db.runs().restore("r", None, None, events).unwrap();
    let appended = ChangeKind::Appended;
    let again = db.runs().alerts("r", 0, 9).unwrap();
    assert_eq!(told(&db, "main", before), [(appended, 1), (appended, 2)]);
    assert_eq!(again.len(), alerts.len(), "the run has them all the same");
}

#[test]
fn a_merge_tells_the_target_what_it_has_not_heard_and_nothing_twice() {
    let (db, _) = memory();
    for kind in ["RunStarted", "RunCompleted"] {
        db.runs().append(event("r", kind, None)).unwrap();
    }
    db.fork("b", "main", At::Latest).unwrap();
    let b = db.branch("b").unwrap().runs();
    b.append(event("r", "RunStarted", None).with_key("again")).unwrap();
    let before = db.revision();
    db.merge("b", "main", MergeStrategy::Strict).unwrap();
    let travelled = [(ChangeKind::Appended, 3), (ChangeKind::Alerted, 3)];
    assert_eq!(told(&db, "main", before), travelled);
    let before = db.revision();
    db.merge("b", "main", MergeStrategy::Theirs).unwrap();
    assert_eq!(told(&db, "main", before), []);
}

#[test]
fn a_tail_goes_on_when_its_run_comes_back_and_ends_when_it_comes_back_shorter() {
    let (db, _) = memory();
    for number in 1..=3 {
        db.runs().append(note("r", number)).unwrap();
    }
    db.sync().unwrap();
    let events = db.runs().fetch("r", 0, 9).unwrap();
    let mut tail = db.runs().tail("r", 0).unwrap();
    assert_eq!(tail.next(9, Duration::ZERO).unwrap().len(), 3);
    db.runs().delete("r").unwrap();
    assert!(tail.next(9, Duration::ZERO).unwrap().is_empty(), "it may come back");
    let restoring = db.runs().restoring("r", None, None).unwrap();
    restoring.finish(events.clone()).unwrap();
    assert!(tail.next(9, Duration::ZERO).unwrap().is_empty());
    db.runs().append(note("r", 4)).unwrap();
    db.sync().unwrap();
    assert_eq!(tail.next(9, Duration::ZERO).unwrap()[0].run_seq, 4);

    db.runs().delete("r").unwrap();
    let waiting = std::thread::spawn(move || tail.next(9, Duration::from_secs(600)));
    db.runs().restore("r", None, None, events[..2].to_vec()).unwrap();
    db.sync().unwrap();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(error.code(), Code::SequenceMoved, "{error}");
    let mut again = db.runs().tail("r", 1).unwrap();
    assert_eq!(again.next(9, Duration::ZERO).unwrap()[0].run_seq, 2);
}
