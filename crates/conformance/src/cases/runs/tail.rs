//! Tailing a run: events in order, each once, and only durable ones.

use super::{is_whole, note};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Durability, Filter, RunTail, Transaction};
use std::time::Duration;

#[track_caller]
fn next(tail: &mut RunTail, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let events = tail.next(count - seen.len(), PATIENCE).unwrap();
        assert!(!events.is_empty(), "the tail ended too early");
        seen.extend(events.into_iter().map(|event| event.run_seq));
    }
    seen
}

fn nothing_comes(tail: &mut RunTail) -> bool {
    tail.next(10, Duration::from_millis(20)).unwrap().is_empty()
}

/// A tail delivers existing and new events after a sequence number.
pub fn what_is_there_and_what_comes(w: &mut TestDb) {
    w.runs().append_batch((1..=5).map(|number| note("r", number)).collect()).unwrap();
    let mut tail = w.runs().tail("r", 3).unwrap();
    assert_eq!((next(&mut tail, 2), tail.position()), (vec![4, 5], 5));
    assert!(nothing_comes(&mut tail));
    w.runs().append(note("r", 5)).unwrap();
    w.runs().append(note("other", 1)).unwrap();
    assert!(nothing_comes(&mut tail), "told again is nothing new");
    w.runs().append(note("r", 6)).unwrap();
    assert_eq!(next(&mut tail, 1), [6]);
}

/// A tail can wait for a run that does not exist yet.
pub fn before_the_run_is_there(w: &mut TestDb) {
    let mut tail = w.runs().tail("r", 0).unwrap();
    assert!(nothing_comes(&mut tail));
    let runs = w.runs();
    let appends = std::thread::spawn(move || runs.append(note("r", 1)).unwrap());
    assert_eq!(next(&mut tail, 1), [1]);
    appends.join().unwrap();
}

/// A tail returns at most `limit` events at once and skips none.
pub fn pages_of_a_tail(w: &mut TestDb) {
    w.runs().append_batch((1..=10).map(|number| note("r", number)).collect()).unwrap();
    let mut tail = w.runs().tail("r", 0).unwrap();
    assert_eq!(tail.next(4, PATIENCE).unwrap().len(), 4);
    assert_eq!(next(&mut tail, 6), [5, 6, 7, 8, 9, 10]);
    refused(tail.next(0, Duration::ZERO), Code::InvalidLimit);
}

/// A tail on a branch delivers inherited events and the branch's own.
pub fn on_a_branch(w: &mut TestDb) {
    w.runs().append(note("r", 1)).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let mut tail = w.runs_on("dev").tail("r", 0).unwrap();
    w.runs().append(note("r", 2)).unwrap();
    assert_eq!(next(&mut tail, 1), [1]);
    assert!(nothing_comes(&mut tail));
    w.runs_on("dev").append(note("r", 3)).unwrap();
    assert_eq!(next(&mut tail, 1), [2]);
}

/// The same script gives the same events in every durability mode.
pub fn same_in_every_durability(w: &mut TestDb) {
    let mut hashes = Vec::new();
    for mode in [Durability::Memory, Durability::Interval, Durability::Sync] {
        w.configure(move |options| options.durability(mode));
        w.clock().set_wall(crate::test_db::START_US);
        super::tell(w, "r", &["RunStarted", "StepStarted", "StepStarted"]);
        w.runs().append_batch((1..=300).map(|number| note("r", number)).collect()).unwrap();
        is_whole(&w.runs(), "r");
        w.db().sync().unwrap();
        let mut tail = w.runs().tail("r", 0).unwrap();
        assert_eq!(next(&mut tail, 303).len(), 303);
        hashes.push((super::all(&w.runs(), "r"), w.runs().snapshot("r").unwrap()));
    }
    assert!(hashes.windows(2).all(|two| two[0] == two[1]));
}

/// (Disk.) Unsynced events can be fetched, but neither tail nor feed deliver them before a later sync.
/// Requires: Disk.
pub fn only_what_is_synced(w: &mut TestDb) {
    w.configure(|options| options.durability(Durability::Memory));
    let mut tail = w.runs().tail("r", 0).unwrap();
    let mut feed = w.db().watch(Filter::default(), w.db().revision()).unwrap();
    w.runs().append(note("r", 1)).unwrap();
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 1);
    assert!(nothing_comes(&mut tail));
    assert!(feed.next(Duration::from_millis(20)).unwrap().is_none());
    let synced = Transaction::new().step(super::append(note("r", 2))).durability(Durability::Sync);
    w.db().execute(synced).unwrap();
    assert_eq!(next(&mut tail, 2), [1, 2]);
    assert_eq!(keys(&mut feed, 2), ["r", "r"]);
}
