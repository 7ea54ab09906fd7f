//! `expire`, and the effect of an expiry on each command.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Transaction, Ttl, Value};

/// A cell is absent as soon as its time to live ends, without a sweep.
pub fn cell_is_gone_when_its_time_is_over(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    w.pass_ms(9);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    w.pass_ms(1);
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().get_versioned("k").unwrap(), None);
    assert!(names(&w.cells(), "").is_empty());
}

/// The expiry is the transaction's timestamp plus the time to live.
pub fn expiry_counts_from_the_stamp(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    let seen = w.cells().get_versioned("k").unwrap().unwrap();
    assert_eq!(seen.expires, Some(seen.stamp + 10_000));
}

/// `Until` sets the expiry timestamp directly.
pub fn until_names_the_moment(w: &mut TestDb) {
    let moment = w.wall_us() + 7_000;
    w.cells().set_with("k", 1, Ttl::Until(moment)).unwrap();
    assert_eq!(w.cells().get_versioned("k").unwrap().unwrap().expires, Some(moment));
    w.pass_ms(7);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// An expiry in the past is allowed. The cell expires at once, and the write still raises the counter.
pub fn until_the_past_expires_at_once(w: &mut TestDb) {
    let past = w.wall_us() - 1;
    assert_eq!(w.cells().set_with("k", 1, Ttl::Until(past)).unwrap(), 1);
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().set("k", 2).unwrap(), 3);
}

/// A time to live of zero is refused, and nothing is written.
pub fn zero_milliseconds_are_refused(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    writes_nothing(w.db(), || {
        refused(w.cells().set_with("k", 2, Ttl::Millis(0)), Code::InvalidTtl);
        refused(w.cells().expire("k", Ttl::Millis(0)), Code::InvalidTtl);
    });
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A time to live beyond the range of timestamps is refused, and nothing is written.
pub fn beyond_the_calendar_is_refused(w: &mut TestDb) {
    writes_nothing(w.db(), || {
        refused(w.cells().set_with("k", 2, Ttl::Millis(u64::MAX)), Code::InvalidTtl);
    });
}

/// `expire` sets a time to live and keeps the value. It counts as a write.
pub fn gives_a_time_to_live(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert!(writes_once(w.db(), || w.cells().expire("k", Ttl::Millis(10)).unwrap()));
    let seen = w.cells().get_versioned("k").unwrap().unwrap();
    assert_eq!((seen.value, seen.counter), (Value::Int(1), 2));
    w.pass_ms(11);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// `expire` with `Clear` removes the time to live.
pub fn clear_takes_it_away(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    assert!(w.cells().expire("k", Ttl::Clear).unwrap());
    w.pass_ms(50);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    assert_eq!(counter(&w.cells(), "k"), Some(2));
}

/// `expire` with `Keep` returns whether the cell exists and writes nothing.
pub fn keep_writes_nothing(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    assert!(writes_nothing(w.db(), || w.cells().expire("k", Ttl::Keep).unwrap()));
    assert_eq!(counter(&w.cells(), "k"), Some(1));
}

/// `expire` of an absent cell returns false and writes nothing.
pub fn absent_answers_false(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.cells().expire("k", Ttl::Millis(10)).unwrap()));
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert!(!writes_nothing(w.db(), || w.cells().expire("k", Ttl::Millis(10)).unwrap()));
}

/// `set` on an expired cell counts the expiry as a deletion: counter 5 becomes 7, in one version with
/// two writes.
pub fn set_on_expired_counts_the_expiry(w: &mut TestDb) {
    five_then_expired(w);
    assert_eq!(w.cells().set("k", 9).unwrap(), 7);
    let newest = &w.cells().history("k", 1, None).unwrap()[0];
    assert_eq!((newest.counter, newest.writes, &newest.value), (7, 2, &int(9)));
}

/// `delete` on an expired cell returns false but writes the expiry.
pub fn delete_on_expired_writes_the_expiry(w: &mut TestDb) {
    five_then_expired(w);
    assert!(!writes_once(w.db(), || w.cells().delete("k").unwrap()));
    let newest = &w.cells().history("k", 1, None).unwrap()[0];
    assert_eq!((newest.counter, newest.writes, &newest.value), (6, 1, &None));
}

/// A `cas` that expects absence succeeds on an expired cell.
pub fn cas_none_on_expired_wins(w: &mut TestDb) {
    five_then_expired(w);
    assert_eq!(w.cells().cas("k", None, 9).unwrap(), Some(7));
}

/// A `cas` that expects the counter of an expired cell fails.
pub fn cas_with_the_counter_of_expired_loses(w: &mut TestDb) {
    five_then_expired(w);
    assert_eq!(writes_nothing(w.db(), || w.cells().cas("k", Some(5), 9).unwrap()), None);
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().set("k", 9).unwrap(), 7);
}

/// `init` on an expired cell writes.
pub fn init_on_expired_writes(w: &mut TestDb) {
    five_then_expired(w);
    assert_eq!(w.cells().init("k", 9).unwrap(), 7);
    assert_eq!(w.cells().get("k").unwrap(), int(9));
}

/// `incr` on an expired cell starts from zero and drops the old time to live.
pub fn incr_on_expired_starts_from_zero(w: &mut TestDb) {
    five_then_expired(w);
    assert_eq!(w.cells().incr("k", 1).unwrap(), (Value::Int(1), 7));
    w.pass_ms(50);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// `expire` cannot revive an expired cell.
pub fn expire_does_not_bring_back(w: &mut TestDb) {
    five_then_expired(w);
    for ttl in [Ttl::Clear, Ttl::Keep, Ttl::Millis(99)] {
        assert!(!writes_nothing(w.db(), || w.cells().expire("k", ttl).unwrap()));
        assert_eq!(w.cells().get("k").unwrap(), None);
    }
}

/// A sweep deletes expired cells and keeps all others.
pub fn sweep_deletes_what_is_due(w: &mut TestDb) {
    w.cells().set_with("a", 1, Ttl::Millis(10)).unwrap();
    w.cells().set_with("b", 1, Ttl::Millis(10)).unwrap();
    w.cells().set_with("c", 1, Ttl::Millis(100)).unwrap();
    w.cells().set("d", 1).unwrap();
    w.pass_ms(11);
    assert_eq!(w.db().sweep().unwrap(), 2);
    assert_eq!(names(&w.cells(), ""), ["c", "d"]);
    let newest = &w.cells().history("a", 9, None).unwrap()[0];
    assert_eq!((newest.counter, newest.writes, &newest.value), (2, 1, &None));
    assert_eq!(w.cells().set("a", 2).unwrap(), 3);
}

/// A sweep writes nothing if no cell has expired.
pub fn sweep_of_nothing_writes_nothing(w: &mut TestDb) {
    w.cells().set_with("a", 1, Ttl::Millis(100)).unwrap();
    w.cells().set("b", 1).unwrap();
    assert_eq!(writes_nothing(w.db(), || w.db().sweep().unwrap()), 0);
}

/// A sweep skips cells whose time to live was removed or extended.
pub fn sweep_leaves_what_was_put_off(w: &mut TestDb) {
    for cell in ["cleared", "put off", "set again"] {
        w.cells().set_with(cell, 1, Ttl::Millis(10)).unwrap();
    }
    w.cells().expire("cleared", Ttl::Clear).unwrap();
    w.cells().expire("put off", Ttl::Millis(100)).unwrap();
    w.cells().set("set again", 2).unwrap();
    w.pass_ms(20);
    assert_eq!(writes_nothing(w.db(), || w.db().sweep().unwrap()), 0);
    assert_eq!(names(&w.cells(), ""), ["cleared", "put off", "set again"]);
}

/// In one transaction, a cell set with a past expiry is absent for the next step.
pub fn expires_at_once_within_a_transaction(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(set_with("k", 1, Ttl::Until(1)))
        .step(get("k"))
        .step(set("k", 2))
        .step(get("k"));
    let receipt = w.db().execute(transaction).unwrap();
    assert_eq!(receipt.answers[1], Answer::Cell(None));
    assert_eq!(receipt.answers[2], Answer::Counter(3));
    assert_eq!(w.cells().history("k", 9, None).unwrap()[0].writes, 3);
}

/// Leaves a cell `k` with counter 5 that has expired.
fn five_then_expired(w: &TestDb) {
    for n in 1..5 {
        w.cells().set("k", n).unwrap();
    }
    w.cells().set_with("k", 5, Ttl::Millis(10)).unwrap();
    w.pass_ms(11);
}
