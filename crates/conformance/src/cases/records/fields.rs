//! Operations on single fields: set, read, clear.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{RecordWrite, Ttl};

/// `set_field` sets one field and keeps the others.
pub fn set_field_upserts(w: &mut TestDb) {
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 1);
    assert_eq!(w.records().set_field("k", "b", "1").unwrap(), 2);
    assert_eq!(w.records().set_field("k", "a", "2").unwrap(), 3);
    holds(&w.records(), "k", &[("a", "2"), ("b", "1")]);
}

/// `set_fields` sets several fields in one write.
pub fn set_fields_is_one_write(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let set = || w.records().set_fields("k", &fields(&[("b", "2"), ("c", "3")]));
    assert_eq!(writes_once(w.db(), set).unwrap(), 2);
    holds(&w.records(), "k", &[("a", "1"), ("b", "2"), ("c", "3")]);
}

/// Setting fields keeps the expiry.
pub fn setting_keeps_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.records().set_field("k", "a", "2").unwrap();
    w.records().set_fields("k", &fields(&[("b", "2")])).unwrap();
    w.pass_ms(6);
    is_gone(&w.records(), "k");
}

/// Setting a field of an expired record creates one with only that field and no expiry.
pub fn on_expired_makes_one_without_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    assert_eq!(w.records().set_field("k", "b", "2").unwrap(), 3, "the expiry counts");
    holds(&w.records(), "k", &[("b", "2")]);
    assert_eq!(w.records().get("k").unwrap().unwrap().expires, None);
}

/// `get_field` returns the value, or `None` if the field or record is missing.
pub fn get_field_reads_one(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    assert_eq!(w.records().get_field("k", "a").unwrap(), Some(b"1".to_vec()));
    assert_eq!(w.records().get_field("k", "b").unwrap(), None);
    assert_eq!(w.records().get_field("l", "a").unwrap(), None);
}

/// `get_fields` returns the wanted fields that exist, and the record's counter.
pub fn get_fields_reads_some(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "2"), ("c", "3")]), None).unwrap();
    let seen = w.records().get_fields("k", &["c", "x", "a"]).unwrap().unwrap();
    assert_eq!((seen.fields, seen.counter), (fields(&[("a", "1"), ("c", "3")]), 1));
    let none = w.records().get_fields("k", &["x"]).unwrap().unwrap();
    assert!(none.fields.is_empty(), "the record is there");
    assert_eq!(w.records().get_fields("l", &["a"]).unwrap(), None);
}

/// A cleared field is removed, and the others stay.
pub fn cleared_is_gone(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "2")]), None).unwrap();
    assert!(w.records().clear_field("k", "a").unwrap());
    holds(&w.records(), "k", &[("b", "2")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(2));
}

/// Clearing the last field deletes the record, which counts as a deletion.
pub fn last_field_gone_is_the_record_gone(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(50))).unwrap();
    assert!(w.records().clear_field("k", "a").unwrap());
    is_gone(&w.records(), "k");
    assert_eq!(found(&w.records(), "", &[]), [] as [&str; 0]);
    let history = w.records().history("k", 1, None).unwrap();
    assert_eq!((history[0].counter, &history[0].fields, history[0].expires), (2, &None, None));
    assert_eq!(w.records().set_field("k", "b", "1").unwrap(), 3);
    w.pass_ms(60);
    holds(&w.records(), "k", &[("b", "1")]);
}

/// Clearing a field of a missing record writes nothing.
pub fn clearing_of_nothing_writes_nothing(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.records().clear_field("k", "a").unwrap()));
    is_gone(&w.records(), "k");
}

/// One write can set some fields and clear others.
pub fn sets_and_clears_in_one(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "1")]), None).unwrap();
    let write = RecordWrite::to("k").unwrap().set("c", "2").unwrap().clear("a").unwrap();
    assert_eq!(writes_once(w.db(), || w.records().write(write).unwrap()), Some(2));
    holds(&w.records(), "k", &[("b", "1"), ("c", "2")]);
}
