//! Times to live of records: to the millisecond, invisible at once and everywhere.

use crate::World;
use crate::check::*;
use mainstay::{At, Code, ExpireOnly, RecordCommand, RecordWrite, Transaction, Ttl};

fn lasting(w: &World, ms: u64) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(ms))).unwrap();
}

/// An expired record is invisible everywhere: get, field, scan, count, in a transaction.
pub fn expired_is_invisible_everywhere(w: &mut World) {
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

/// The expiry is exact: until the millisecond before it is there.
pub fn exact_to_the_millisecond(w: &mut World) {
    lasting(w, 1);
    w.clock().advance(std::time::Duration::from_micros(999));
    holds(&w.records(), "k", &[("a", "1")]);
    w.clock().advance(std::time::Duration::from_micros(1));
    is_gone(&w.records(), "k");
}

/// A time to live can be given, changed, taken away.
pub fn expire_changes_it(w: &mut World) {
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

/// Of nothing, and of what has expired, there is no time to live; it does not come back.
pub fn expire_of_nothing(w: &mut World) {
    assert!(!writes_nothing(w.db(), || w.records().expire("k", Ttl::Millis(5)).unwrap()));
    lasting(w, 5);
    w.pass_ms(6);
    assert!(!writes_nothing(w.db(), || w.records().expire("k", Ttl::Clear).unwrap()));
    is_gone(&w.records(), "k");
}

/// Conditions on the expiry, as Redis has them.
pub fn conditions_on_the_expiry(w: &mut World) {
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

/// A time to live of nothing, and one beyond the calendar, is refused.
pub fn bad_times_are_refused(w: &mut World) {
    w.records().set_field("k", "a", "1").unwrap();
    for ttl in [Ttl::Millis(0), Ttl::Millis(u64::MAX), Ttl::Until(u64::MAX)] {
        refused(writes_nothing(w.db(), || w.records().expire("k", ttl)), Code::InvalidTtl);
        let put = || w.records().put("k", &fields(&[("a", "2")]), Some(ttl));
        refused(writes_nothing(w.db(), put), Code::InvalidTtl);
        refused(w.records().expire("absent", ttl), Code::InvalidTtl);
    }
}

/// A moment in the past ends it at once.
pub fn until_the_past_ends_it(w: &mut World) {
    w.records().set_field("k", "a", "1").unwrap();
    assert!(w.records().expire("k", Ttl::Until(1)).unwrap());
    is_gone(&w.records(), "k");
}

/// The next write counts the expiry: the counter survives it.
pub fn next_write_counts_the_expiry(w: &mut World) {
    lasting(w, 5);
    w.pass_ms(6);
    assert_eq!(w.records().put("k", &fields(&[("b", "1")]), None).unwrap(), 3);
    holds(&w.records(), "k", &[("b", "1")]);
    assert_eq!(w.records().history("k", 1, None).unwrap()[0].writes, 2);
}

/// The sweep writes the expiry down, once; what is expired reads the same swept or not.
pub fn sweep_deletes_what_is_due(w: &mut World) {
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

/// What was put off is not swept.
pub fn sweep_leaves_what_was_put_off(w: &mut World) {
    lasting(w, 5);
    w.records().expire("k", Ttl::Millis(50)).unwrap();
    w.pass_ms(6);
    assert_eq!(writes_nothing(w.db(), || w.db().sweep().unwrap()), 0);
    holds(&w.records(), "k", &[("a", "1")]);
}

/// Deleting what has expired answers false, and writes the expiry down.
pub fn delete_on_expired(w: &mut World) {
    lasting(w, 5);
    w.pass_ms(6);
    assert!(!writes_once(w.db(), || w.records().delete("k").unwrap()));
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 3);
}

/// A read of the past judges at that time.
pub fn past_judges_then(w: &mut World) {
    lasting(w, 5);
    let then = w.db().revision();
    w.pass_ms(6);
    w.cells().set("c", 1).unwrap();
    let at = |at| w.records().at(at).unwrap().get("k").unwrap().is_some();
    assert!(at(At::Revision(then)));
    assert!(!at(At::Revision(w.db().revision())));
    assert!(!at(At::Latest));
}

/// The time is fixed for a transaction.
pub fn now_is_fixed_for_a_transaction(w: &mut World) {
    let both = Transaction::new()
        .step(write("k", &[("a", "1")]).ttl(Ttl::Millis(5)))
        .step(get_record("k"))
        .step(write("l", &[("a", "1")]).ttl(Ttl::Millis(5)));
    let receipt = w.db().execute(both).unwrap();
    let expires = |key: &str| w.records().get(key).unwrap().unwrap().expires;
    assert_eq!(expires("k"), Some(receipt.stamp + 5_000));
    assert_eq!(expires("k"), expires("l"));
}

/// A write may change nothing but the time to live, if its conditions hold: a version of its own, or nothing.
pub fn write_of_the_time_to_live_alone(w: &mut World) {
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
