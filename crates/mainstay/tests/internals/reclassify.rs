//! Tests of `mainstay_engine::storage::reclassify` on whole databases.

use mainstay::{At, Database, ManualClock, NewEvent, Options, RunFilter};
use mainstay_engine::lifecycle::open::plain_store_options;
use mainstay_engine::storage::flush_mark::FlushMark;
use mainstay_engine::storage::reclassify::*;
use mainstay_engine::storage::retention_class::RetentionClasses;
use mainstay_engine::storage::retention_class::RetentionRules;
use mainstay_model::Revision;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Classes of earlier versions: runs with cells; all run data in one class; events and keys in classes of
/// their own.
const FORMER: [&[&str]; 3] = [
    &["", ""],
    &["", "", "\0records", "\0entries", "\0runs"],
    &["", "", "\0records", "\0entries", "\0runs", "\0events", "\0keys"],
];

fn open(directory: &Path, clock: &Arc<ManualClock>) -> Database {
    let options = Options::new().sweep_interval(None).clock(clock.clone());
    options.open(directory).unwrap()
}

fn note(run: &str, n: u64) -> NewEvent {
    NewEvent::new(run, "Noted").with_key(&format!("key {n}")).value(n as i64)
}

fn append(db: &Database, run: &str, numbers: std::ops::RangeInclusive<u64>) {
    db.runs().append_batch(numbers.map(|n| note(run, n)).collect()).unwrap();
}

/// Writes run and outbox data of every kind. Returns a revision in the middle of it.
fn fill(db: &Database) -> Revision {
    append(db, "long", 1..=300);
    let middle = db.revision();
    append(db, "long", 301..=600);
    db.runs().bootstrap("made", "with", vec![note("made", 1)]).unwrap();
    // This event is invalid at this place, which creates an alert.
    db.runs().append(NewEvent::new("made", "RunResumed").with_key("resumed")).unwrap();
    db.runs().keep("made", "mine", 1, 2, "state".into()).unwrap();
    append(db, "gone", 1..=5);
    db.runs().delete("gone").unwrap();
    db.fork("fork", "main", At::Latest).unwrap();
    db.branch("fork").unwrap().runs().append(note("made", 9)).unwrap();
    for (subject, run) in [("a", None), ("b", Some("long")), ("c", Some("long"))] {
        db.outbox().put(subject, "words", run).unwrap();
    }
    let first = db.outbox().claim(1, Duration::from_secs(1)).unwrap()[0].id;
    db.outbox().fail(first, "no", Duration::ZERO, 1).unwrap();
    db.cells().set("cell", 1).unwrap();
    middle
}

/// Everything that can be read of that data.
fn read(db: &Database, middle: Revision) -> String {
    let runs = db.runs();
    let fork = db.branch("fork").unwrap().runs();
    let then = runs.at(At::Revision(middle)).unwrap();
    let hashes = ["long", "made"].map(|run| {
        let [kept, folded] = [runs.snapshot(run), runs.project(run)];
        [kept, folded].map(|snapshot| snapshot.unwrap().unwrap().hash())
    });
    let logs = ["long", "made", "gone"].map(|run| runs.fetch(run, 0, 1_000).unwrap());
    let told = (
        runs.list(&RunFilter::default(), None, 9).unwrap(),
        runs.alerts("made", 0, 9).unwrap(),
        runs.kept("made", "mine", 1).unwrap(),
        fork.fetch("made", 0, 9).unwrap(),
        (then.get("long").unwrap(), then.fetch("long", 299, 9).unwrap().len()),
    );
    let outbox = (db.outbox().state().unwrap(), db.outbox().dead(0, 9).unwrap());
    let [main, other] = ["main", "fork"].map(|branch| db.export_hash(branch).unwrap());
    format!("{logs:?} {hashes:?} {told:?} {outbox:?} {main:?} {other:?}")
}

fn labels(index: &Path) -> Vec<String> {
    let mark = FlushMark::read(index).unwrap().unwrap();
    mark.classes.into_iter().map(|class| class.0).collect()
}

/// Rewrites the index in the layout of an earlier version.
fn make_former(index: &Path, former: &[&str]) {
    let classes = RetentionClasses::from_labels(former.iter().copied());
    let mark = FlushMark::read(index).unwrap().unwrap();
    migrate(index, &plain_store_options(), &mark, &classes).unwrap();
    assert_eq!(labels(index), former);
    assert!(!index.join("states").exists());
    assert_eq!(index.join("keys").exists(), former.contains(&"\0keys"));
}

#[test]
fn a_class_is_trimmed_as_those_were_that_it_comes_from() {
    let floors_of = |old: &[(&str, Revision)], prefixes: &[&str]| {
        let classes = old.iter().map(|(label, floor)| ((*label).to_owned(), *floor)).collect();
        let mark = FlushMark { database: [0; 16], revision: 20, classes };
        let before = RetentionClasses::from_labels(old.iter().map(|class| class.0));
        let prefixes = prefixes
            .iter()
            .map(|prefix| (mainstay_engine::key::keyspace::CELLS, (*prefix).to_owned(), None))
            .collect();
        let now = RetentionClasses::new(&RetentionRules { prefixes, ..RetentionRules::default() });
        floors(&mark, &before, &now).into_iter().map(|class| class.1).collect::<Vec<_>>()
    };
    let all = [("", 20), ("", 5), ("\0records", 9), ("\0entries", 12), ("\0runs", 7)];
    // The system class, cells, records, index entries, the four classes of runs, and keyed state. Keyed
    // state had no class and was stored with cells.
    assert_eq!(floors_of(&all, &[]), [20, 5, 9, 12, 7, 7, 7, 7, 5]);
    assert_eq!(floors_of(&all, &["a/"]), [20, 5, 9, 12, 7, 7, 7, 7, 5, 5]);
    assert_eq!(floors_of(&all[..2], &[]), [20, 5, 5, 5, 5, 5, 5, 5, 5]);
    let with_prefix = [&all[..], &[("a/", 8)]].concat();
    assert_eq!(floors_of(&with_prefix, &["a/"]), [20, 5, 9, 12, 7, 7, 7, 7, 5, 8]);
    assert_eq!(floors_of(&with_prefix, &[]), [20, 8, 9, 12, 7, 7, 7, 7, 5]);
}

#[test]
fn all_of_runs_is_there_after_an_older_index_was_opened() {
    for former in FORMER {
        let directory = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(1_700_000_000_000_000);
        let db = open(directory.path(), &clock);
        let index = directory.path().join("index");
        let middle = fill(&db);
        db.engine().flush_all().unwrap();
        let flushed = db.revision();
        // The log is ahead of the index.
        append(&db, "long", 601..=610);
        let revision = db.revision();
        let before = read(&db, middle);
        db.close().unwrap();
        drop(db);
        make_former(&index, former);

        let db = open(directory.path(), &clock);
        let report = db.open_report();
        assert_eq!((report.rebuilt.as_ref(), report.replayed), (None, revision - flushed));
        assert_eq!(read(&db, middle), before, "{former:?}");
        for n in [1, 300, 600, 610] {
            let again = db.runs().append(note("long", n)).unwrap();
            assert_eq!((again.run_seq, again.idempotent, again.conflict), (n, true, false));
        }
        assert_eq!(db.runs().append(note("long", 611)).unwrap().run_seq, 611);
        let messages = db.outbox().claim(9, Duration::from_secs(1)).unwrap();
        assert_eq!(messages.iter().map(|one| &*one.subject).collect::<Vec<_>>(), ["b"]);
        db.close().unwrap();
        let today = RetentionClasses::new(&RetentionRules::default());
        let today: Vec<_> = today.all().iter().map(|class| class.label.clone()).collect();
        assert_eq!(labels(&index), today);
        let report = mainstay_engine::tools::doctor::inspect(directory.path()).unwrap();
        assert!(report.is_healthy(), "{report}");
    }
}
