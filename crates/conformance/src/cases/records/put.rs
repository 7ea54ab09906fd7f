//! `put` merges fields and sets the expiry if a time to live is given.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Fields, Ttl};

/// A record that was never written is absent.
pub fn never_written_is_absent(w: &mut TestDb) {
    is_gone(&w.records(), "k");
    assert_eq!(w.records().get_field("k", "a").unwrap(), None);
}

/// The first write creates the record with counter 1.
pub fn makes_a_record(w: &mut TestDb) {
    assert_eq!(w.records().put("k", &fields(&[("b", "2"), ("a", "1")]), None).unwrap(), 1);
    holds(&w.records(), "k", &[("a", "1"), ("b", "2")]);
}

/// `put` merges fields: unnamed fields stay.
pub fn merges_fields(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "1")]), None).unwrap();
    assert_eq!(w.records().put("k", &fields(&[("b", "2"), ("c", "2")]), None).unwrap(), 2);
    holds(&w.records(), "k", &[("a", "1"), ("b", "2"), ("c", "2")]);
}

/// Writing the same fields again counts as a write.
pub fn of_the_same_fields_is_a_write(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), None).unwrap();
    let counter = writes_once(w.db(), || w.records().put("k", &fields(&[("a", "1")]), None));
    assert_eq!(counter.unwrap(), 2);
}

/// A time to live is set in the same write, exact to the millisecond.
pub fn sets_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    let stamp = w.records().get("k").unwrap().unwrap().stamp;
    assert_eq!(w.records().get("k").unwrap().unwrap().expires, Some(stamp + 5_000));
    w.pass_ms(4);
    holds(&w.records(), "k", &[("a", "1")]);
    w.pass_ms(1);
    is_gone(&w.records(), "k");
}

/// A write without a time to live keeps the expiry.
pub fn none_leaves_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    let expires = w.records().get("k").unwrap().unwrap().expires;
    w.records().put("k", &fields(&[("b", "1")]), None).unwrap();
    assert_eq!(w.records().get("k").unwrap().unwrap().expires, expires);
    w.pass_ms(6);
    is_gone(&w.records(), "k");
}

/// `Clear` removes the expiry.
pub fn clear_ends_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.records().put("k", &fields(&[("b", "1")]), Some(Ttl::Clear)).unwrap();
    w.pass_ms(6);
    holds(&w.records(), "k", &[("a", "1"), ("b", "1")]);
}

/// `get` returns fields, counter, timestamp, revision and expiry.
pub fn get_tells_everything(w: &mut TestDb) {
    w.pass_ms(3);
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(7))).unwrap();
    let seen = w.records().get("k").unwrap().unwrap();
    assert_eq!((seen.fields.text("a"), seen.counter), (Some("1"), 1));
    assert_eq!((seen.revision, seen.stamp), (w.db().revision(), w.wall_us()));
    assert_eq!(seen.expires, Some(w.wall_us() + 7_000));
}

/// Records are independent of each other and of cells with the same name.
pub fn records_are_independent(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), None).unwrap();
    w.records().put("l", &fields(&[("a", "2")]), None).unwrap();
    w.cells().set("k", 3).unwrap();
    holds(&w.records(), "k", &[("a", "1")]);
    holds(&w.records(), "l", &[("a", "2")]);
    assert_eq!((w.cells().get("k").unwrap(), counter(&w.cells(), "k")), (int(3), Some(1)));
    assert_eq!(names(&w.cells(), ""), ["k"]);
}

/// Field names and values can be any bytes, even empty.
pub fn bytes_survive(w: &mut TestDb) {
    let all: Vec<u8> = (0..=255).collect();
    let pairs = [(&b""[..], &b""[..]), (&[0, 255, 10], &all)];
    w.records().put("k", &Fields::of(pairs).unwrap(), None).unwrap();
    let seen = w.records().get("k").unwrap().unwrap().fields;
    assert_eq!((seen.get(b""), seen.get([0, 255, 10])), (Some(&b""[..]), Some(&all[..])));
}

/// After a deletion the counter continues.
pub fn after_deletion_continues_the_counter(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), None).unwrap();
    w.records().delete("k").unwrap();
    assert_eq!(w.records().put("k", &fields(&[("b", "1")]), None).unwrap(), 3);
    holds(&w.records(), "k", &[("b", "1")]);
}

/// A write without fields is refused.
pub fn of_nothing_is_refused(w: &mut TestDb) {
    refused(
        writes_nothing(w.db(), || w.records().put("k", &Fields::default(), None)),
        Code::InvalidField,
    );
}
