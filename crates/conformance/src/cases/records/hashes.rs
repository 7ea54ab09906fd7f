//! Redis hash commands on records: they return the same results as in Redis.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Field, HashCommand, Ttl};

fn set(w: &TestDb, pairs: &[(&str, &str)], only_absent: bool) -> Answer {
    let pairs =
        pairs.iter().map(|(name, value)| (field(name), value.as_bytes().to_vec())).collect();
    run(w.db(), HashCommand::Set { key: name("k"), pairs, only_absent }).unwrap()
}

fn delete(w: &TestDb, names: &[&str]) -> Answer {
    let fields: Vec<Field> = names.iter().map(|name| field(name)).collect();
    run(w.db(), HashCommand::Delete { key: name("k"), fields }).unwrap()
}

fn add(w: &TestDb, by: i64) -> mainstay::Result<Answer> {
    run(w.db(), HashCommand::Add { key: name("k"), field: field("n"), by })
}

fn add_float(w: &TestDb, by: &str) -> mainstay::Result<Answer> {
    run(w.db(), HashCommand::AddFloat { key: name("k"), field: field("n"), by: by.into() })
}

/// `HSET` returns the number of new fields.
pub fn set_counts_new_fields(w: &mut TestDb) {
    assert_eq!(set(w, &[("a", "1"), ("b", "1")], false), Answer::Count(2));
    assert_eq!(set(w, &[("b", "2"), ("c", "2")], false), Answer::Count(1));
    assert_eq!(writes_once(w.db(), || set(w, &[("a", "1")], false)), Answer::Count(0));
    holds(&w.records(), "k", &[("a", "1"), ("b", "2"), ("c", "2")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(3));
}

/// If a field is given twice, the last value wins.
pub fn last_of_a_field_counts(w: &mut TestDb) {
    assert_eq!(set(w, &[("a", "1"), ("a", "2")], false), Answer::Count(1));
    holds(&w.records(), "k", &[("a", "2")]);
}

/// `HSETNX` writes only if the field is absent.
pub fn set_absent_writes_once(w: &mut TestDb) {
    assert_eq!(set(w, &[("a", "1")], true), Answer::Did(true));
    assert_eq!(writes_nothing(w.db(), || set(w, &[("a", "2")], true)), Answer::Did(false));
    assert_eq!(set(w, &[("b", "2")], true), Answer::Did(true));
    holds(&w.records(), "k", &[("a", "1"), ("b", "2")]);
}

/// `HDEL` returns the number of removed fields; a field given twice counts once.
pub fn delete_counts_what_was_there(w: &mut TestDb) {
    assert_eq!(writes_nothing(w.db(), || delete(w, &["a"])), Answer::Count(0));
    set(w, &[("a", "1"), ("b", "1"), ("c", "1")], false);
    assert_eq!(delete(w, &["a", "x", "a", "b"]), Answer::Count(2));
    assert_eq!(writes_nothing(w.db(), || delete(w, &["a"])), Answer::Count(0));
    holds(&w.records(), "k", &[("c", "1")]);
}

/// Removing the last field deletes the record and its expiry.
pub fn last_field_gone_is_the_record_gone(w: &mut TestDb) {
    set(w, &[("a", "1")], false);
    w.records().expire("k", Ttl::Millis(5)).unwrap();
    assert_eq!(delete(w, &["a"]), Answer::Count(1));
    is_gone(&w.records(), "k");
    set(w, &[("a", "1")], false);
    w.pass_ms(6);
    holds(&w.records(), "k", &[("a", "1")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(4));
}

/// `HINCRBY` adds to an integer; a missing field counts as 0.
pub fn add_adds(w: &mut TestDb) {
    assert_eq!(add(w, 5).unwrap(), Answer::Sum("5".into()));
    assert_eq!(add(w, -7).unwrap(), Answer::Sum("-2".into()));
    holds(&w.records(), "k", &[("n", "-2")]);
}

/// `HINCRBY` refuses a field that is no integer, and an overflow.
pub fn add_refuses(w: &mut TestDb) {
    for text in ["", "x", "1.5", " 1", "01"] {
        set(w, &[("n", text)], false);
        refused(writes_nothing(w.db(), || add(w, 1)), Code::NotANumber);
    }
    set(w, &[("n", &i64::MAX.to_string())], false);
    refused(writes_nothing(w.db(), || add(w, 1)), Code::Overflow);
    assert_eq!(add(w, -1).unwrap(), Answer::Sum((i64::MAX - 1).to_string()));
}

/// `HINCRBYFLOAT` adds short decimals exactly and formats results without an exponent.
pub fn add_float_adds(w: &mut TestDb) {
    assert_eq!(add_float(w, "0.1").unwrap(), Answer::Sum("0.1".into()));
    assert_eq!(add_float(w, "0.2").unwrap(), Answer::Sum("0.3".into()));
    assert_eq!(add_float(w, "5.0e3").unwrap(), Answer::Sum("5000.3".into()));
    assert_eq!(add_float(w, "-0.3").unwrap(), Answer::Sum("5000".into()));
    holds(&w.records(), "k", &[("n", "5000")]);
}

/// `HINCRBYFLOAT` refuses a field or increment that is no number, and an infinite sum.
pub fn add_float_refuses(w: &mut TestDb) {
    set(w, &[("n", "x")], false);
    refused(writes_nothing(w.db(), || add_float(w, "1")), Code::NotANumber);
    set(w, &[("n", "1")], false);
    refused(writes_nothing(w.db(), || add_float(w, "x")), Code::NotANumber);
    refused(writes_nothing(w.db(), || add_float(w, "inf")), Code::Overflow);
}

/// All hash commands keep the expiry.
pub fn keep_the_expiry(w: &mut TestDb) {
    set(w, &[("a", "1"), ("b", "1")], false);
    w.records().expire("k", Ttl::Millis(5)).unwrap();
    let expires = w.records().get("k").unwrap().unwrap().expires;
    set(w, &[("a", "2")], false);
    add(w, 1).unwrap();
    add_float(w, "1").unwrap();
    delete(w, &["b"]);
    assert_eq!(w.records().get("k").unwrap().unwrap().expires, expires);
}

/// On an expired hash they start from an empty one without an expiry.
pub fn on_expired_start_anew(w: &mut TestDb) {
    w.records().put("k", &fields(&[("n", "5"), ("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    assert_eq!(writes_nothing(w.db(), || delete(w, &["a"])), Answer::Count(0));
    assert_eq!(add(w, 1).unwrap(), Answer::Sum("1".into()));
    holds(&w.records(), "k", &[("n", "1")]);
    assert_eq!(w.records().get("k").unwrap().unwrap().expires, None);
}

/// Records and hashes read each other's writes.
pub fn same_records(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let get = |fields| run(w.db(), HashCommand::Get { key: name("k"), fields }).unwrap();
    let Answer::Record(Some(seen)) = get(None) else { panic!("it is not there") };
    assert_eq!(seen, w.records().get("k").unwrap().unwrap());
    let Answer::Record(Some(some)) = get(Some(vec![field("x")])) else { panic!("it is there") };
    assert!(some.fields.is_empty());
    let count = || run(w.db(), HashCommand::Count { key: name("k") }).unwrap();
    w.records().set_field("k", "b", "2").unwrap();
    assert_eq!(count(), Answer::Count(2));
    w.records().delete("k").unwrap();
    assert_eq!(get(None), Answer::Record(None));
    assert_eq!(count(), Answer::Count(0));
}

/// Commands with many fields, in any order and with repetitions: `HDEL`, `HSETNX`.
pub fn many_fields_at_once(w: &mut TestDb) {
    let names: Vec<String> = (0..300).rev().map(|number| format!("f{number}")).collect();
    let some = |names: &[String]| names.iter().map(|name| field(name)).collect::<Vec<_>>();
    let set = |names: &[String]| {
        let pairs = some(names).into_iter().map(|field| (field, b"1".to_vec())).collect();
        run(w.db(), HashCommand::Set { key: name("k"), pairs, only_absent: true }).unwrap()
    };
    let delete = |names: &[String]| {
        run(w.db(), HashCommand::Delete { key: name("k"), fields: some(names) }).unwrap()
    };
    assert_eq!(set(&names[100..]), Answer::Did(true));
    assert_eq!(set(&names[..101]), Answer::Did(false));
    assert_eq!(writes_nothing(w.db(), || delete(&names[..100])), Answer::Count(0));
    assert_eq!(set(&names[..100]), Answer::Did(true));
    assert_eq!(delete(&[&names[50..], &names[200..]].concat()), Answer::Count(250));
    assert_eq!(w.records().get("k").unwrap().unwrap().fields.len(), 50);
    assert_eq!(delete(&names), Answer::Count(50));
    is_gone(&w.records(), "k");
}
