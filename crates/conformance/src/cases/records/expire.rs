//! Times to live of records: exact to the millisecond, with the same effect on every read.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, ExpireOnly, RecordCommand, RecordWrite, Transaction, Ttl};

fn lasting(w: &TestDb, ms: u64) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(ms))).unwrap();
}

/// An expired record is absent from every read: get, get field, scan, count, and in a transaction.
pub fn expired_is_invisible_everywhere(w: &mut TestDb) {
    lasting(w, 5);
    w.pass_ms(5);
    is_gone(&w.records(), "k");
    assert_eq!(w.records().get_field("k", "a").unwrap(), None);
    assert_eq!(found(&w.records(), "", &[]), [] as [&str; 0]);
    assert_eq!(w.records().count("", &[]).unwrap(), 0);
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.run(get_record("k")).unwrap(), mainstay::Answer::Record(None));
    assert_eq!(t.run(count("", vec![])).unwrap(), mainstay::Answer::Count(0));
}

/// The expiry is exact: the record is live until the millisecond before.
pub fn exact_to_the_millisecond(w: &mut TestDb) {
    lasting(w, 1);
    w.clock().advance(std::time::Duration::from_micros(999));
    holds(&w.records(), "k", &[("a", "1")]);
    w.clock().advance(std::time::Duration::from_micros(1));
    is_gone(&w.records(), "k");
}

/// A time to live can be set, changed and removed.
pub fn expire_changes_it(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    assert!(w.records().expire("k", Ttl::Millis(5)).unwrap());
    assert!(w.records().expire("k", Ttl::Millis(50)).unwrap());
    w.pass_ms(6);
    holds(&w.records(), "k", &[("a", "1")]);
    assert!(w.records().expire("k", Ttl::Clear).unwrap());
    w.pass_ms(100);
    holds(&w.records(), "k", &[("a", "1")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(4), "each of them is a write");
}

/// `expire` of a missing or expired record returns false and cannot revive it.
pub fn expire_of_nothing(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.records().expire("k", Ttl::Millis(5)).unwrap()));
    lasting(w, 5);
    w.pass_ms(6);
    assert!(!writes_nothing(w.db(), || w.records().expire("k", Ttl::Clear).unwrap()));
    is_gone(&w.records(), "k");
}

/// Conditions on the expiry work as in Redis.
pub fn conditions_on_the_expiry(w: &mut TestDb) {
    let expire = |ms, only| {
        let command = RecordCommand::Expire { key: name("k"), ttl: Ttl::Millis(ms), only };
        run(w.db(), command).unwrap() == mainstay::Answer::Did(true)
    };
    w.records().set_field("k", "a", "1").unwrap();
    assert!(!expire(50, ExpireOnly::WithExpiry));
    assert!(!expire(50, ExpireOnly::Later), "no expiry is later than any");
    assert!(!expire(50, ExpireOnly::EarlierThanThere));
    assert!(expire(50, ExpireOnly::WithoutExpiry));
    assert!(!expire(90, ExpireOnly::WithoutExpiry));
    assert!(!expire(90, ExpireOnly::Earlier));
    assert!(expire(90, ExpireOnly::Later));
    assert!(!expire(40, ExpireOnly::Later));
    assert!(expire(40, ExpireOnly::EarlierThanThere));
}

/// A time to live of zero, or beyond the range of timestamps, is refused.
pub fn bad_times_are_refused(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    for ttl in [Ttl::Millis(0), Ttl::Millis(u64::MAX), Ttl::Until(u64::MAX)] {
        refused(writes_nothing(w.db(), || w.records().expire("k", ttl)), Code::InvalidTtl);
        refused(
            writes_nothing(w.db(), || w.records().put("k", &fields(&[("a", "2")]), Some(ttl))),
            Code::InvalidTtl,
        );
        refused(w.records().expire("absent", ttl), Code::InvalidTtl);
    }
}

/// An expiry in the past ends the record at once.
pub fn until_the_past_ends_it(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    assert!(w.records().expire("k", Ttl::Until(1)).unwrap());
    is_gone(&w.records(), "k");
}

/// The next write counts the expiry as a write, and the counter continues.
pub fn next_write_counts_the_expiry(w: &mut TestDb) {
    lasting(w, 5);
    w.pass_ms(6);
    assert_eq!(w.records().put("k", &fields(&[("b", "1")]), None).unwrap(), 3);
    holds(&w.records(), "k", &[("b", "1")]);
    assert_eq!(w.records().history("k", 1, None).unwrap()[0].writes, 2);
}

/// The sweep writes an expiry once. An expired record reads the same before and after the sweep.
pub fn sweep_deletes_what_is_due(w: &mut TestDb) {
    lasting(w, 5);
    w.cells().set_with("k", 1, Ttl::Millis(5)).unwrap();
    w.records().put("later", &fields(&[("a", "1")]), Some(Ttl::Millis(50))).unwrap();
    w.pass_ms(6);
    assert_eq!(writes_once(w.db(), || w.db().sweep().unwrap()), 2, "a cell and a record");
    assert_eq!(writes_nothing(w.db(), || w.db().sweep().unwrap()), 0);
    let history = w.records().history("k", 9, None).unwrap();
    assert_eq!((history[0].counter, &history[0].fields), (2, &None));
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 3);
    holds(&w.records(), "later", &[("a", "1")]);
}

/// A record whose time to live was extended is not swept.
pub fn sweep_leaves_what_was_put_off(w: &mut TestDb) {
    lasting(w, 5);
    w.records().expire("k", Ttl::Millis(50)).unwrap();
    w.pass_ms(6);
    assert_eq!(writes_nothing(w.db(), || w.db().sweep().unwrap()), 0);
    holds(&w.records(), "k", &[("a", "1")]);
}

/// Deleting an expired record returns false and writes the expiry.
pub fn delete_on_expired(w: &mut TestDb) {
    lasting(w, 5);
    w.pass_ms(6);
    assert!(!writes_once(w.db(), || w.records().delete("k").unwrap()));
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 3);
}

/// A read at a past revision judges expiry at that revision's time.
pub fn past_judges_then(w: &mut TestDb) {
    lasting(w, 5);
    let then = w.db().revision();
    w.pass_ms(6);
    w.cells().set("c", 1).unwrap();
    let at = |at| w.records().at(at).unwrap().get("k").unwrap().is_some();
    assert!(at(At::Revision(then)));
    assert!(!at(At::Revision(w.db().revision())));
    assert!(!at(At::Latest));
}

/// All steps of a transaction use the same time.
pub fn now_is_fixed_for_a_transaction(w: &mut TestDb) {
    let both = Transaction::new()
        .step(write("k", &[("a", "1")]).ttl(Ttl::Millis(5)))
        .step(get_record("k"))
        .step(write("l", &[("a", "1")]).ttl(Ttl::Millis(5)));
    let receipt = w.db().execute(both).unwrap();
    let expires = |key: &str| w.records().get(key).unwrap().unwrap().expires;
    assert_eq!(expires("k"), Some(receipt.stamp + 5_000));
    assert_eq!(expires("k"), expires("l"));
}

/// A write can change only the time to live. It creates a version, or nothing if a condition fails.
pub fn write_of_the_time_to_live_alone(w: &mut TestDb) {
    let lease = |ttl| RecordWrite::to("k").unwrap().ttl(ttl);
    let absent = || w.records().write(lease(Ttl::Millis(5))).unwrap();
    assert_eq!(writes_nothing(w.db(), absent), None);
    w.records().set_field("k", "a", "1").unwrap();
    let stale = || w.records().write(lease(Ttl::Millis(5)).when_counter(Some(7))).unwrap();
    assert_eq!(writes_nothing(w.db(), stale), None);
    assert_eq!(w.records().write(lease(Ttl::Millis(5)).when_counter(Some(1))).unwrap(), Some(2));
    holds(&w.records(), "k", &[("a", "1")]);
    assert_eq!(w.records().write(lease(Ttl::Clear)).unwrap(), Some(3));
    w.pass_ms(6);
    holds(&w.records(), "k", &[("a", "1")]);
    refused(w.records().write(lease(Ttl::Keep)), Code::InvalidField);
    refused(w.records().write(lease(Ttl::Clear).replace()), Code::InvalidField);
    refused(w.records().put("k", &fields(&[]), Some(Ttl::Millis(5))), Code::InvalidField);
}
