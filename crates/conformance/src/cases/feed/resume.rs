//! Resuming the feed after a revision. A revision older than the log is an error, never a silent gap.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Durability, ErrorKind, Event, Filter, Result, Transaction};
use std::time::Duration;

/// Reads all events after a revision, or returns the first error.
fn rest(w: &TestDb, after: u64) -> Result<Vec<Event>> {
    let mut feed = w.db().watch(Filter::default(), after)?;
    let mut seen = Vec::new();
    while let Some(event) = feed.next(Duration::from_millis(20))? {
        seen.push(event);
    }
    Ok(seen)
}

/// The start revision is exclusive.
pub fn after_is_exclusive(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let here = w.db().revision();
    w.cells().set("b", 1).unwrap();
    w.cells().set("c", 1).unwrap();
    let mut feed = w.db().watch(Filter::default(), here).unwrap();
    assert_eq!(keys(&mut feed, 2), ["b", "c"]);
    let mut feed = w.db().watch(Filter::default(), here + 1).unwrap();
    assert_eq!(keys(&mut feed, 1), ["c"]);
}

/// A feed from the start delivers every revision.
pub fn from_the_start(w: &mut TestDb) {
    let start = w.db().revision();
    for n in 0..30 {
        w.cells().set(&format!("k{n:02}"), n).unwrap();
    }
    let seen = rest(w, start).unwrap();
    let revisions: Vec<u64> = seen.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (start + 1..=start + 30).collect::<Vec<u64>>());
}

/// A feed resumed at any revision misses no event and repeats none.
pub fn resumed_anywhere_misses_nothing(w: &mut TestDb) {
    let start = w.db().revision();
    for n in 0..12 {
        w.cells().set("k", n).unwrap();
    }
    for cut in 0..12 {
        let seen = rest(w, start + cut).unwrap();
        assert_eq!(seen.len() as u64, 12 - cut);
        assert_eq!(seen[0].revision, start + cut + 1);
    }
}

/// Two consumers are independent.
pub fn two_consumers(w: &mut TestDb) {
    let mut one = w.db().watch(Filter::default(), w.db().revision()).unwrap();
    let mut two = w.db().watch(Filter::default(), w.db().revision()).unwrap();
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    assert_eq!(keys(&mut one, 2), ["a", "b"]);
    assert_eq!(keys(&mut two, 2), ["a", "b"]);
}

/// A consumer that does not read does not block writers. Later it gets either every event or the error
/// `HistoryTrimmed`.
pub fn slow_consumer_is_told_or_served(w: &mut TestDb) {
    let start = w.db().revision();
    let mut feed = w.db().watch(Filter::default(), start).unwrap();
    for n in 0..3_000 {
        let blind = Transaction::new().step(set("k", n)).durability(Durability::Memory);
        w.db().execute(blind).unwrap();
    }
    w.db().sync().unwrap();
    let mut expected = start + 1;
    loop {
        match feed.next(Duration::from_millis(50)) {
            Ok(Some(event)) => assert_eq!(event.revision, expected, "a silent gap"),
            Ok(None) => break,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::HistoryTrimmed, "{error}");
                return;
            }
        }
        expected += 1;
    }
    assert_eq!(expected, w.db().revision() + 1);
}

/// After a sync, the feed delivers all earlier revisions, including those written with
/// `Durability::Memory`.
pub fn shows_all_after_a_sync(w: &mut TestDb) {
    let start = w.db().revision();
    for n in 0..5 {
        let unsynced = Transaction::new().step(set("k", n)).durability(Durability::Memory);
        w.db().execute(unsynced).unwrap();
    }
    let synced = w.db().sync().unwrap();
    assert_eq!(synced, w.db().revision());
    assert_eq!(rest(w, start).unwrap().len(), 5);
}

/// Resuming from a trimmed revision fails with `HistoryTrimmed` and skips nothing silently.
pub fn trimmed_is_told(w: &mut TestDb) {
    let minute = Duration::from_secs(60);
    w.configure(move |options| {
        let options = options.retention(minute).feed_retention(minute, 1);
        options.segment_bytes(1 << 20).write_buffer_bytes(1 << 20)
    });
    let start = w.db().revision();
    let filler = "x".repeat(100_000);
    for n in 0..200 {
        w.cells().set(&format!("k{}", n % 10), filler.as_str()).unwrap();
        w.pass(minute);
        if n % 50 == 49 {
            w.db().trim().unwrap();
        }
    }
    w.db().trim().unwrap();
    match rest(w, start) {
        Ok(seen) => {
            let whole = seen.len() == 200 && seen[0].revision == start + 1;
            assert!(whole, "{} events came, the first at {}", seen.len(), seen[0].revision);
            panic!("twenty megabytes of an old log are still there");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::HistoryTrimmed, "{error}"),
    }
}

/// (Disk.) The feed does not deliver unsynced changes.
/// Requires: Disk.
pub fn waits_for_the_sync(w: &mut TestDb) {
    w.configure(|options| options.durability(Durability::Memory));
    let mut feed = w.db().watch(Filter::default(), w.db().revision()).unwrap();
    w.cells().set("k", 1).unwrap();
    assert!(feed.next(Duration::from_millis(50)).unwrap().is_none());
    w.db().sync().unwrap();
    assert_eq!(keys(&mut feed, 1), ["k"]);
}

/// (Disk.) A later synced write makes all earlier ones durable, and the feed delivers them in order.
/// Requires: Disk.
pub fn later_sync_shows_all_before(w: &mut TestDb) {
    w.configure(|options| options.durability(Durability::Memory));
    let mut feed = w.db().watch(Filter::default(), w.db().revision()).unwrap();
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    let synced = Transaction::new().step(set("c", 1)).durability(Durability::Sync);
    w.db().execute(synced).unwrap();
    assert_eq!(keys(&mut feed, 3), ["a", "b", "c"]);
}
