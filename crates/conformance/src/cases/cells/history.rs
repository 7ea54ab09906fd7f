//! `history(name, limit, before)`: the versions of a cell, newest first, including deletions.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, HistoryEntry, Transaction, Ttl};

fn counters(entries: &[HistoryEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.counter).collect()
}

/// Versions are ordered newest first, with value, revision, timestamp and expiry.
pub fn newest_first_with_everything(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let first = (w.db().revision(), w.wall_us());
    w.pass_ms(3);
    w.cells().set_with("k", 2, Ttl::Millis(10)).unwrap();
    let second = (w.db().revision(), w.wall_us());
    let seen = w.cells().history("k", 10, None).unwrap();
    assert_eq!(counters(&seen), [2, 1]);
    assert_eq!((seen[0].revision, seen[0].stamp), second);
    assert_eq!((seen[1].revision, seen[1].stamp), first);
    assert_eq!((&seen[0].value, &seen[1].value), (&int(2), &int(1)));
    assert_eq!((seen[0].expires, seen[1].expires), (Some(second.1 + 10_000), None));
}

/// A deletion is an entry without a value.
pub fn deletions_are_entries(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    w.cells().set("k", 2).unwrap();
    let seen = w.cells().history("k", 10, None).unwrap();
    assert_eq!(counters(&seen), [3, 2, 1]);
    assert_eq!(seen[1].value, None);
    assert_eq!(seen[2].value, int(1));
}

/// A deleted cell keeps its history.
pub fn of_a_deleted_cell(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(counters(&w.cells().history("k", 10, None).unwrap()), [2, 1]);
}

/// A cell that was never written has no history.
pub fn of_an_absent_cell_is_empty(w: &mut TestDb) {
    w.cells().set("kk", 1).unwrap();
    assert!(w.cells().history("k", 10, None).unwrap().is_empty());
}

/// The limit keeps the newest versions.
pub fn limit_keeps_the_newest(w: &mut TestDb) {
    for n in 0..5 {
        w.cells().set("k", n).unwrap();
    }
    assert_eq!(counters(&w.cells().history("k", 2, None).unwrap()), [5, 4]);
}

/// `before` is exclusive, so consecutive pages have no gap.
pub fn before_is_exclusive(w: &mut TestDb) {
    for n in 0..5 {
        w.cells().set("k", n).unwrap();
    }
    assert_eq!(counters(&w.cells().history("k", 2, Some(4)).unwrap()), [3, 2]);
    assert_eq!(counters(&w.cells().history("k", 9, Some(3)).unwrap()), [2, 1]);
    assert!(w.cells().history("k", 9, Some(1)).unwrap().is_empty());
    assert_eq!(w.cells().history("k", 9, Some(99)).unwrap().len(), 5);
}

/// Paging with `before` returns every version exactly once.
pub fn pages_give_everything_once(w: &mut TestDb) {
    for n in 0..23 {
        w.cells().set("k", n).unwrap();
    }
    let mut all = Vec::new();
    let mut before = None;
    loop {
        let page = counters(&w.cells().history("k", 5, before).unwrap());
        let Some(last) = page.last() else { break };
        before = Some(*last);
        all.extend(page);
    }
    assert_eq!(all, (1..=23).rev().collect::<Vec<u64>>());
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(w: &mut TestDb) {
    refused(w.cells().history("k", 0, None), Code::InvalidLimit);
    refused(w.cells().history("k", 100_001, None), Code::InvalidLimit);
    assert!(w.cells().history("k", 100_000, None).is_ok());
}

/// An invalid name is refused.
pub fn bad_name_is_refused(w: &mut TestDb) {
    refused(w.cells().history("", 1, None), Code::InvalidName);
}

/// A transaction writes one version per key, which records the number of its writes.
pub fn one_version_per_transaction(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    let transaction =
        Transaction::new().step(set("k", 1)).step(incr("k", 1)).step(delete("k")).step(set("k", 4));
    w.db().execute(transaction).unwrap();
    let seen = w.cells().history("k", 10, None).unwrap();
    assert_eq!(counters(&seen), [5, 1]);
    assert_eq!((seen[0].writes, seen[1].writes), (4, 1));
    assert_eq!(seen[0].value, int(4));
}

/// Counters have no gaps: each version's counter is the previous counter plus its number of writes.
pub fn counters_have_no_gaps(w: &mut TestDb) {
    for n in 0..6 {
        let mut transaction = Transaction::new();
        for step in 0..=n % 3 {
            transaction = transaction.step(set("k", step));
        }
        w.db().execute(transaction).unwrap();
        w.cells().delete("k").unwrap();
    }
    let seen = w.cells().history("k", 100, None).unwrap();
    assert!(seen.windows(2).all(|two| two[0].counter == two[1].counter + two[0].writes));
    assert_eq!(seen.last().unwrap().counter, seen.last().unwrap().writes);
}

/// The history of an expired cell that was not swept ends with its last value, not with a deletion.
pub fn untouched_expiry_is_no_entry(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    w.pass_ms(20);
    let seen = w.cells().history("k", 10, None).unwrap();
    assert_eq!((seen.len(), &seen[0].value), (1, &int(1)));
}
