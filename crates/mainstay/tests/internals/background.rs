//! Tests of `mainstay_engine::lifecycle::background` on whole databases.

use mainstay::{At, Database, Durability, ManualClock, NewEvent, Options};
use mainstay_model::Revision;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn open(directory: &Path) -> Database {
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let options = options.write_buffer_bytes(2 << 20).segment_bytes(16 << 10);
    options.feed_retention(Duration::ZERO, 0).open(directory).unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_log_is_not_trimmed_beyond_a_flush_that_lags() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory.path().join("db"));
    let write = |i: i64| db.cells().set("a", i).unwrap();
    for i in 0..3_000 {
        write(i);
    }
    db.trim().unwrap();
    let flushing = db.engine().flushing.lock();
    let mut i = 3_000;
    while db.engine().state.sealed.load(Ordering::Relaxed) < 3 {
        write(i);
        i += 1;
    }
    let mark = db.engine().index().flushed();
    let behind = db.engine().log.segments().iter().filter(|segment| segment.0 > mark + 1).count();
    assert!(behind > 3, "{behind} segments that replay needs");
    db.engine().trim_log().unwrap();
    let first = db.engine().log.first_revision();
    assert!(first > 1 && first <= mark + 1, "the log begins at {first}, the mark is {mark}");
    // The state that a crash would leave now.
    db.sync().unwrap();
    copy(&directory.path().join("db"), &directory.path().join("copy"));
    drop(flushing);
    let found = open(&directory.path().join("copy"));
    assert_eq!(found.revision(), db.revision());
    assert_eq!(found.cells().get("a").unwrap(), Some((i - 1).into()));
}

#[test]
fn what_a_branch_needed_is_let_go_of_when_its_removal_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let options = Options::new().durability(Durability::Memory).sync_interval(hour);
    let db = options.retention(Duration::ZERO).open(directory.path()).unwrap();
    db.cells().set("a", 1).unwrap();
    let forked = db.fork("b", "main", At::Latest).unwrap();
    db.cells().set("a", 2).unwrap();
    let core = db.engine();
    core.flush_all().unwrap();
    db.delete_branch("b").unwrap();
    let deleted = db.revision();
    assert!(core.sequencer.durable() < deleted, "nobody has synced it yet");
    core.raise_floors().unwrap();
    assert!(
        core.index().floor(mainstay_engine::storage::retention_class::CELLS) > forked,
        "nothing needs it any more"
    );
    assert!(core.sequencer.durable() >= deleted, "it does not come back after a power cut");
}

/// Returns the floor of every class that holds data of runs.
fn floors_of_runs(db: &Database) -> Vec<(String, Revision)> {
    let index = db.engine().index();
    let all = index.classes.all().iter().enumerate();
    let of_runs = all.filter(|(_, class)| class.is_of_runs());
    of_runs.map(|(place, class)| (class.label.clone(), index.floor(place))).collect()
}

#[test]
fn heads_events_and_keys_of_runs_are_let_go_of_at_one_revision() {
    let clock = ManualClock::new(1_700_000_000_000_000);
    let options = Options::new().durability(Durability::Memory).sweep_interval(None);
    let kept = Some(Duration::from_secs(60));
    let options = options.clock(clock.clone()).retention_all().record_retention(kept);
    let db = options.memory().unwrap();
    let append = |n: u64| {
        let event = NewEvent::new("r", "Noted").with_key(&n.to_string());
        db.runs().append(event).unwrap();
    };
    let raise = || {
        db.engine().flush_all().unwrap();
        db.engine().raise_floors().unwrap();
    };
    let all_at = |floor: Revision| {
        let labels = ["\0runs", "\0states", "\0events", "\0keys"];
        labels.map(|label| (label.to_owned(), floor)).to_vec()
    };
    (1..=3).for_each(append);
    let tagged = db.tag("t", "main", At::Latest).unwrap();
    (4..=6).for_each(append);
    let old = db.revision();
    clock.advance(Duration::from_secs(120));
    append(7);
    assert_eq!(floors_of_runs(&db), all_at(0));
    raise();
    assert_eq!(floors_of_runs(&db), all_at(tagged), "a tag holds all of them");
    db.untag("t").unwrap();
    raise();
    assert!(old > tagged);
    assert_eq!(floors_of_runs(&db), all_at(old), "what is older than retention is over");
}
