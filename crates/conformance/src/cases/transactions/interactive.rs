//! Interactive transactions: snapshot reads, read-your-writes, commit and rollback.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Error, RecordWrite, Ttl, Value};

/// Reads see the snapshot, regardless of concurrent writes.
pub fn reads_a_snapshot(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.revision(), w.db().revision());
    assert_eq!(t.get("a").unwrap(), int(1));
    w.cells().set("b", 2).unwrap();
    w.cells().set("c", 2).unwrap();
    assert_eq!(t.get("b").unwrap(), int(1));
    assert_eq!(t.get("c").unwrap(), None);
    assert_eq!(t.list("", None, 10).unwrap().names, ["a", "b"]);
}

/// The snapshot is taken at `begin`, not at the first read.
pub fn snapshot_is_taken_at_begin(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    w.cells().set("a", 2).unwrap();
    assert_eq!(t.get("a").unwrap(), int(1));
}

/// A transaction reads its own writes; other readers see them only after the commit.
pub fn reads_its_own_writes(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    t.set("a", 2).unwrap();
    t.set("b", 3).unwrap();
    assert_eq!((t.get("a").unwrap(), t.get("b").unwrap()), (int(2), int(3)));
    assert_eq!((w.cells().get("a").unwrap(), w.cells().get("b").unwrap()), (int(1), None));
    t.commit().unwrap();
    assert_eq!((w.cells().get("a").unwrap(), w.cells().get("b").unwrap()), (int(2), int(3)));
}

/// Own writes show revision 0 before the commit; other versions show their revision.
pub fn own_writes_have_no_revision_yet(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    let seen = t.get_versioned("a").unwrap().unwrap();
    assert_eq!((seen.counter, seen.revision), (1, w.db().revision()));
    t.set("a", 2).unwrap();
    let own = t.get_versioned("a").unwrap().unwrap();
    assert_eq!((own.value, own.counter, own.revision), (Value::Int(2), 2, 0));
}

/// A transaction sees its own deletions.
pub fn sees_its_own_deletions(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    assert!(t.delete("a").unwrap());
    assert!(!t.delete("a").unwrap());
    assert_eq!(t.get("a").unwrap(), None);
    assert_eq!(t.cas("a", None, 2).unwrap(), Some(3));
    t.commit().unwrap();
    assert_eq!(counter(&w.cells(), "a"), Some(3));
}

/// Lists contain own writes and omit own deletions, in order.
pub fn lists_see_its_own_writes(w: &mut TestDb) {
    for cell in ["p/b", "p/d", "p/f"] {
        w.cells().set(cell, 1).unwrap();
    }
    let mut t = w.db().begin().unwrap();
    t.set("p/a", 1).unwrap();
    t.delete("p/d").unwrap();
    t.set("p/e", 1).unwrap();
    t.set("p/x", 1).unwrap();
    t.delete("p/x").unwrap();
    assert_eq!(t.list("p/", None, 10).unwrap().names, ["p/a", "p/b", "p/e", "p/f"]);
    let page = t.list("p/", Some("p/a"), 2).unwrap();
    assert_eq!((page.names, page.next.as_deref()), (vec!["p/b".into(), "p/e".into()], Some("p/e")));
}

/// Each operation returns the same answer as outside a transaction.
pub fn operations_answer_as_outside(w: &mut TestDb) {
    w.cells().set("n", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.init("i", 1).unwrap(), 1);
    assert_eq!(t.init("n", 9).unwrap(), 1);
    assert_eq!(t.cas("n", Some(7), 9).unwrap(), None);
    assert_eq!(t.cas("n", Some(1), 2).unwrap(), Some(2));
    assert_eq!(t.incr("n", 3).unwrap(), (Value::Int(5), 3));
    assert!(t.expire("n", Ttl::Millis(10)).unwrap());
    assert!(!t.expire("absent", Ttl::Millis(10)).unwrap());
    assert!(!t.delete_if("n", 1).unwrap());
    assert!(t.delete_if("n", 4).unwrap());
    t.set_with("ttl", 1, Ttl::Millis(10)).unwrap();
    t.commit().unwrap();
    assert_eq!(w.cells().get("n").unwrap(), None);
    assert_eq!(names(&w.cells(), ""), ["i", "ttl"]);
    w.pass_ms(11);
    assert_eq!(names(&w.cells(), ""), ["i"]);
}

/// A commit is one revision, with one version per key.
pub fn commit_is_one_revision(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    let mut t = w.db().begin().unwrap();
    t.set("k", 1).unwrap();
    t.set("k", 2).unwrap();
    t.set("other", 2).unwrap();
    let receipt = writes_once(w.db(), || t.commit().unwrap());
    assert_eq!(receipt.revision, w.db().revision());
    let newest = &w.cells().history("k", 10, None).unwrap()[0];
    assert_eq!((newest.counter, newest.writes, newest.revision), (3, 2, receipt.revision));
}

/// A rollback discards everything.
pub fn rollback_leaves_nothing(w: &mut TestDb) {
    writes_nothing(w.db(), || {
        let mut t = w.db().begin().unwrap();
        t.set("k", 1).unwrap();
        t.rollback();
    });
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// Dropping rolls back.
pub fn dropping_rolls_back(w: &mut TestDb) {
    writes_nothing(w.db(), || {
        let mut t = w.db().begin().unwrap();
        t.set("k", 1).unwrap();
        drop(t);
    });
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// A failed command leaves the transaction open and has no effect.
pub fn failed_command_leaves_it_open(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let mut t = w.db().begin().unwrap();
    t.set("a", 1).unwrap();
    refused(t.incr("text", 1), Code::NotANumber);
    refused(t.set("", 1), Code::InvalidName);
    refused(t.set_with("b", 1, Ttl::Millis(0)), Code::InvalidTtl);
    refused(t.list("", None, 0), Code::InvalidLimit);
    t.set("c", 1).unwrap();
    t.commit().unwrap();
    assert_eq!(names(&w.cells(), ""), ["a", "c", "text"]);
    assert_eq!(w.cells().get("text").unwrap(), Some("x".into()));
}

/// A read-only transaction takes no revision, and its receipt has the snapshot's revision.
pub fn read_only_takes_no_revision(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    t.get("k").unwrap();
    let snapshot = t.revision();
    let receipt = writes_nothing(w.db(), || t.commit().unwrap());
    assert_eq!(receipt.revision, snapshot);
}

/// Counters inside the transaction are provisional; the receipt has the final ones.
pub fn receipt_has_the_final_counters(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.set("k", 1).unwrap(), 2);
    w.cells().set("k", 7).unwrap();
    w.cells().set("k", 8).unwrap();
    let receipt = t.commit().unwrap();
    assert_eq!(receipt.answers.last(), Some(&Answer::Counter(4)));
    assert_eq!(counter(&w.cells(), "k"), Some(4));
}

/// The closure form commits and returns the closure's value.
pub fn closure_commits(w: &mut TestDb) {
    w.cells().set("n", 1).unwrap();
    let sum = w.db().transaction(|t| Ok(t.incr("n", 41)?.0)).unwrap();
    assert_eq!(sum, Value::Int(42));
    assert_eq!(w.cells().get("n").unwrap(), int(42));
}

/// The closure form rolls back on an error and returns it.
pub fn closure_rolls_back_on_error(w: &mut TestDb) {
    let result: mainstay::Result<()> = writes_nothing(w.db(), || {
        w.db().transaction(|t| {
            t.set("k", 1)?;
            Err(Error::new(Code::InvalidArgument, "changed my mind"))
        })
    });
    refused(result, Code::InvalidArgument);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// The closure form retries after a conflict, on a new snapshot.
pub fn closure_is_retried_on_conflict(w: &mut TestDb) {
    w.cells().set("n", 1).unwrap();
    let mut runs = 0;
    let seen = w.db().transaction(|t| {
        runs += 1;
        let n = t.get("n")?.and_then(|value| value.as_i64()).unwrap();
        if runs == 1 {
            w.cells().set("n", 10)?;
        }
        t.set("n", n + 1)?;
        Ok(n)
    });
    assert_eq!((seen.unwrap(), runs), (10, 2));
    assert_eq!(w.cells().get("n").unwrap(), int(11));
}

/// A transaction that is idle for more than 30 seconds expires and writes nothing.
pub fn idle_too_long_is_over(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.set("k", 1).unwrap();
    w.pass_ms(31_000);
    writes_nothing(w.db(), || refused(t.commit(), Code::TransactionExpired));
}

/// Gaps of 29 seconds between two calls are accepted.
pub fn almost_idle_too_long_is_fine(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.set("k", 1).unwrap();
    w.pass_ms(29_000);
    t.set("k", 2).unwrap();
    w.pass_ms(29_000);
    t.commit().unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A transaction expires after five minutes in total, even if it is active.
pub fn open_too_long_is_over(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    for n in 0..15 {
        if t.set("k", n).is_err() {
            break;
        }
        w.pass_ms(21_000);
    }
    writes_nothing(w.db(), || refused(t.commit(), Code::TransactionExpired));
}

/// A history read uses the snapshot, starts with own writes, and is guarded.
pub fn history_is_of_the_transaction(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    let values = |t: &mut mainstay::InteractiveTransaction| -> Vec<(Option<Value>, u64)> {
        let versions = t.history("a", 10, None).unwrap().into_iter();
        versions.map(|version| (version.value, version.revision)).collect()
    };
    let first = w.db().revision();
    w.cells().set("a", 2).unwrap();
    assert_eq!(values(&mut t), [(int(1), first)], "the snapshot");
    t.set("a", 3).unwrap();
    assert_eq!(values(&mut t), [(int(3), 0), (int(1), first)], "its own write comes first");
    assert_eq!(t.history("a", 1, None).unwrap().len(), 1);
    assert_eq!(t.history("a", 10, Some(2)).unwrap().len(), 1, "counters below 2");
    refused(t.commit(), Code::Conflict);
}

/// The same for the history of records.
pub fn record_history_is_of_the_transaction(w: &mut TestDb) {
    w.records().set_field("r", "f", "1").unwrap();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.record_history("r", 10, None).unwrap().len(), 1);
    w.records().set_field("r", "f", "2").unwrap();
    assert_eq!(t.record_history("r", 10, None).unwrap().len(), 1, "the snapshot");
    t.write_record(RecordWrite::to("r").unwrap().set("f", "3").unwrap()).unwrap();
    let versions = t.record_history("r", 10, None).unwrap();
    assert_eq!((versions.len(), versions[0].counter, versions[0].revision), (2, 2, 0));
    refused(t.commit(), Code::Conflict);
}

/// Lists of names use the snapshot and own writes, and a name created in the range conflicts.
pub fn names_are_of_the_transaction(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.records().set_field("b", "f", "1").unwrap();
    let mut t = w.db().begin().unwrap();
    w.records().set_field("c", "f", "1").unwrap();
    t.set("d", 1).unwrap();
    t.delete("a").unwrap();
    assert_eq!(t.names("", None, 10).unwrap().names, ["b", "d"]);
    refused(t.commit(), Code::Conflict);
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.names("", None, 2).unwrap().names, ["a", "b"]);
    w.cells().set("z", 1).unwrap();
    t.set("d", 1).unwrap();
    t.commit().unwrap();
}

/// The revision of an event is read from the snapshot; an own event has revision 0.
pub fn revision_of_an_event_is_of_the_transaction(w: &mut TestDb) {
    let event = |key: &str| mainstay::NewEvent::new("r", "A").with_key(key);
    w.runs().append(event("1")).unwrap();
    let first = w.db().revision();
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.revision_of("r", 1).unwrap(), Some(first));
    assert_eq!(t.revision_of("r", 2).unwrap(), None);
    w.runs().append(event("2")).unwrap();
    assert_eq!(t.revision_of("r", 2).unwrap(), None, "the snapshot");
    t.append(event("own")).unwrap();
    assert_eq!(t.revision_of("r", 2).unwrap(), Some(0), "its own");
    refused(t.commit(), Code::Conflict);
}
