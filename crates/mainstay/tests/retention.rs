//! Retention: trimmed versions, retained versions, and changes of the settings.

use mainstay::{
    At, Code, Database, Durability, Field, Fields, Filter, ManualClock, Options, Test, Where,
};
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn options(clock: &Arc<ManualClock>) -> Options {
    Options::new()
        .durability(Durability::Memory)
        .clock(clock.clone())
        .sweep_interval(None)
        .write_buffer_bytes(64 << 10)
        .segment_bytes(64 << 10)
}

fn fill(db: &Database, clock: &ManualClock, names: &[&str], rounds: i64) {
    for round in 0..rounds {
        clock.advance(Duration::from_secs(60));
        for name in names {
            db.cells().set(name, round).unwrap();
        }
    }
}

#[test]
fn classes_keep_their_own_history_and_may_change() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let names = ["plain", "log/a", "log/b", "tmp/x"];
    let first = options(&clock)
        .retention(7 * DAY)
        .retention_class("log/", None)
        .retention_class("tmp/", Some(Duration::from_secs(600)));
    let db = first.open(directory.path()).unwrap();
    fill(&db, &clock, &names, 300);
    clock.advance(DAY);
    db.cells().set("plain", "newest").unwrap();
    db.trim().unwrap();
    let length = |db: &Database, name: &str| db.cells().history(name, 1000, None).unwrap().len();
    assert_eq!((length(&db, "plain"), length(&db, "log/a")), (301, 300));
    assert_eq!(length(&db, "tmp/x"), 1, "only what is current is kept of a short-lived class");
    let then = db.cells().at(At::Revision(8)).unwrap();
    assert_eq!(then.get("log/a").unwrap(), Some(1.into()), "each class reaches back by itself");
    assert_eq!(then.get("tmp/x").unwrap_err().code(), Code::HistoryTrimmed);
    drop(then);
    let hash = db.export_hash("main").unwrap();
    db.close().unwrap();

    // The same data under other classes: only its location changes.
    let other = options(&clock).retention(7 * DAY).retention_class("log/a", Some(7 * DAY));
    let db = other.open(directory.path()).unwrap();
    assert!(db.open_report().rebuilt.is_none());
    assert_eq!((length(&db, "log/b"), length(&db, "tmp/x")), (1, 1));
    assert_eq!(db.cells().get("log/a").unwrap(), Some(299.into()));
    assert_eq!(db.cells().list("", None, 10).unwrap().names.len(), 4);
    db.close().unwrap();
    drop(db);
    let db = options(&clock).retention(7 * DAY).open(directory.path()).unwrap();
    assert_eq!(db.cells().list("", None, 10).unwrap().names.len(), 4);
    assert_ne!(hash, [0; 32]);
}

#[test]
fn the_log_is_never_trimmed_beyond_what_the_stores_hold() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let settings = || options(&clock).feed_retention(Duration::from_secs(1), 0);
    for round in 0..5_i64 {
        let db = settings().open(directory.path()).unwrap();
        fill(&db, &clock, &["a", "b"], 400);
        db.trim().unwrap();
        fill(&db, &clock, &["a", "c"], 37);
        let stats = db.stats();
        assert!(stats.log_first <= stats.flushed + 1, "{stats:?}");
        assert!(stats.log_first > 1, "something was trimmed: {stats:?}");
        let feed = db.watch(Filter::default(), 1);
        assert_eq!(feed.err().unwrap().code(), Code::HistoryTrimmed);
        drop(db);
        let db = settings().open(directory.path()).unwrap();
        assert_eq!(db.revision(), (round as u64 + 1) * (800 + 74));
        assert_eq!(db.cells().get("c").unwrap(), Some(36.into()));
    }
}

#[test]
fn pins_hold_history_and_show_what_they_cost() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let db = options(&clock).retention(Duration::from_secs(60)).memory().unwrap();
    fill(&db, &clock, &["a"], 10);
    db.tag("release", "main", At::Revision(5)).unwrap();
    let reader = db.cells().at(At::Revision(7)).unwrap();
    fill(&db, &clock, &["a"], 10);
    db.trim().unwrap();
    assert_eq!(db.cells().at(At::Revision(5)).unwrap().get("a").unwrap(), Some(4.into()));
    let pins = db.pins();
    assert_eq!(pins[0].revision, 5);
    assert!(pins[0].holder.contains("release") && pins[0].age_us > 0, "{pins:?}");
    assert!(pins.iter().any(|pin| pin.holder == "reader" && pin.revision == 7), "{pins:?}");
    db.untag("release").unwrap();
    db.trim().unwrap();
    let gone = db.cells().at(At::Revision(6)).err().unwrap();
    assert_eq!(gone.code(), Code::HistoryTrimmed);
    assert_eq!(reader.get("a").unwrap(), Some(6.into()), "an open reader keeps what it reads");
    clock.advance(Duration::from_secs(3601));
    db.trim().unwrap();
    assert_eq!(reader.get("a").unwrap_err().code(), Code::HistoryTrimmed, "but not for ever");
}

/// Regression: a tag kept every index entry that died since, and searches would scan them.
#[test]
fn a_tag_keeps_what_it_shows_but_no_dead_entries_of_an_index() {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    let records = db.records();
    records.add_index("job.", &["state", "timeout_at"]).unwrap();
    let beat = |round: u32| {
        for job in 0..50 {
            let fields = Fields::of([("state", "running"), ("timeout_at", &round.to_string())]);
            records.put(&format!("job.{job}"), &fields.unwrap(), None).unwrap();
        }
    };
    beat(1);
    let then = db.tag("then", "main", At::Latest).unwrap();
    (2..20).for_each(beat);
    db.trim().unwrap();
    let entries = || db.stats().records.index_entries;
    assert_eq!(entries(), 50, "one for each job");
    // A read at the tag scans the records, and sees the old state.
    let is = |field: &str, test| Where { field: Field::new(field).unwrap(), test };
    let first = [is("timeout_at", Test::Eq(b"1".into())), is("state", Test::Eq(b"running".into()))];
    let then = records.at(At::Revision(then)).unwrap();
    assert_eq!(then.count("job.", &first).unwrap(), 50);
    assert_eq!(records.count("job.", &first).unwrap(), 0);
    // A branch reads its parent through the index all the time, so the entries that it needs are kept.
    db.fork("side", "main", At::Latest).unwrap();
    beat(20);
    db.trim().unwrap();
    assert!(entries() > 50, "those at the fork, and those now");
}

/// Returns the number of versions that a tag holds of two cells, with so many writes of each before and after
/// the tag.
fn versions_held(before: i64, behind: i64) -> usize {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let db = options(&clock).retention(DAY).open(directory.path()).unwrap();
    fill(&db, &clock, &["a", "b"], before);
    let tagged = db.tag("then", "main", At::Latest).unwrap();
    fill(&db, &clock, &["a", "b"], behind);
    clock.advance(2 * DAY);
    db.cells().set("other", 1).unwrap();
    db.trim().unwrap();
    let then = db.cells().at(At::Revision(tagged)).unwrap();
    assert_eq!(then.get("a").unwrap(), Some((before - 1).into()));
    ["a", "b"].map(|name| db.cells().history(name, 100_000, None).unwrap().len()).iter().sum()
}

/// Measures the cost of a tag. A retention floor is one revision, so a tag holds the version of each key that
/// it shows and every later version, but no earlier one.
#[test]
fn a_tag_holds_what_it_shows_and_all_that_came_behind_it() {
    assert_eq!(versions_held(500, 0), 2);
    assert_eq!(versions_held(500, 100), 2 * (1 + 100));
    assert_eq!(versions_held(10, 500), 2 * (1 + 500));
}
