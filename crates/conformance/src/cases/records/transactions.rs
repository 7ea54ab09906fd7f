//! Transactions over cells and records: atomicity, guards on records, request IDs.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Code, Contract, FieldValue, Guard, RecordWrite, RequestId, Transaction, Ttl,
};

fn record_is(is: Option<u64>) -> Guard {
    Guard::Record { key: name("k"), is }
}

fn field_is(is: Option<&str>) -> Guard {
    let is = is.map(|text| text.as_bytes().to_vec());
    Guard::Field { key: name("k"), field: field("a"), is }
}

fn passes(w: &TestDb, guard: Guard) -> bool {
    let receipt = w.db().execute(Transaction::new().guard(guard).otherwise(vec![]));
    receipt.unwrap().held
}

/// Cells and records written in one transaction share one revision and timestamp.
pub fn one_revision_for_both_kinds(w: &mut TestDb) {
    let both = Transaction::new().step(set("c", 1)).step(write("k", &[("a", "1")]));
    let receipt = writes_once(w.db(), || w.db().execute(both).unwrap());
    let cell = w.cells().get_versioned("c").unwrap().unwrap();
    let record = w.records().get("k").unwrap().unwrap();
    assert_eq!((cell.revision, cell.stamp), (receipt.revision, receipt.stamp));
    assert_eq!((record.revision, record.stamp), (receipt.revision, receipt.stamp));
}

/// An error on a cell or record aborts the writes to both.
pub fn all_or_nothing_over_both_kinds(w: &mut TestDb) {
    w.records().set_field("k", "n", "x").unwrap();
    let sum = RecordWrite::to("k").unwrap().set("n", FieldValue::Sum { by: 1 }).unwrap();
    let bad = Transaction::new().step(set("c", 1)).step(write("l", &[("a", "1")])).step(sum);
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::NotANumber, 2);
    let bad = Transaction::new().step(write("l", &[("a", "1")])).must(delete("absent"));
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::MustFailed, 1);
    is_gone(&w.records(), "l");
    assert_eq!(w.cells().get("c").unwrap(), None);
}

/// Steps see the effects of earlier steps.
pub fn steps_see_earlier_ones(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(write("k", &[("a", "1")]))
        .step(get_record("k"))
        .step(delete_record("k"))
        .step(get_record("k"));
    let answers = w.db().execute(transaction).unwrap().answers;
    let Answer::Record(Some(seen)) = &answers[1] else { panic!("{answers:?}") };
    assert_eq!((&seen.fields, seen.counter), (&fields(&[("a", "1")]), 1));
    assert_eq!((&answers[2], &answers[3]), (&Answer::Did(true), &Answer::Record(None)));
}

/// A guard on a record's counter, or on its absence.
pub fn guard_on_the_counter(w: &mut TestDb) {
    assert!(passes(w, record_is(None)) && !passes(w, record_is(Some(0))));
    w.records().set_field("k", "a", "1").unwrap();
    assert!(passes(w, record_is(Some(1))) && !passes(w, record_is(None)));
    w.records().delete("k").unwrap();
    assert!(passes(w, record_is(None)) && !passes(w, record_is(Some(2))));
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    assert!(passes(w, record_is(None)) && !passes(w, record_is(Some(3))));
}

/// A guard on a field's value, or on its absence, with or without the record.
pub fn guard_on_a_field(w: &mut TestDb) {
    assert!(passes(w, field_is(None)) && !passes(w, field_is(Some(""))));
    w.records().set_field("k", "b", "1").unwrap();
    assert!(passes(w, field_is(None)));
    w.records().set_field("k", "a", "1").unwrap();
    assert!(passes(w, field_is(Some("1"))) && !passes(w, field_is(Some("1.0"))));
    assert!(!passes(w, field_is(None)));
}

/// A guard on a cell ignores the record with that name, and vice versa.
pub fn guards_know_their_kind(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert!(passes(w, record_is(None)) && passes(w, counter_is("k", Some(1))));
    let since = w.db().revision();
    w.records().set_field("k", "a", "1").unwrap();
    assert!(passes(w, unchanged("k", since)) && passes(w, range_unchanged("", since)));
    let record = |contract| Guard::Unchanged { contract, name: name("k"), since, expires: None };
    assert!(!passes(w, record(Contract::Records)) && passes(w, record(Contract::Cells)));
}

/// A guard that a record is unchanged fails on writes, deletions and expiry.
pub fn guard_on_no_change(w: &mut TestDb) {
    let unchanged = |since, expires| {
        let contract = Contract::Records;
        let name = name("k");
        Guard::Unchanged { contract, name, since, expires }
    };
    let before = w.db().revision();
    assert!(passes(w, unchanged(before, None)));
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    assert!(!passes(w, unchanged(before, None)));
    let since = w.db().revision();
    let expires = w.records().get("k").unwrap().unwrap().expires;
    assert!(passes(w, unchanged(since, expires)));
    w.pass_ms(6);
    assert!(!passes(w, unchanged(since, expires)));
}

/// A guard that a range of records is unchanged considers only its bounds.
pub fn guard_on_a_range(w: &mut TestDb) {
    let range = |prefix: &str, since| Guard::RangeUnchanged {
        contract: Contract::Records,
        prefix: prefix.to_owned(),
        after: None,
        upto: Some("a/5".into()),
        since,
        expires: None,
    };
    w.records().set_field("a/1", "f", "1").unwrap();
    let since = w.db().revision();
    w.records().set_field("a/9", "f", "1").unwrap();
    w.records().set_field("b", "f", "1").unwrap();
    w.cells().set("a/2", 1).unwrap();
    assert!(passes(w, range("a/", since)));
    w.records().delete("a/1").unwrap();
    assert!(!passes(w, range("a/", since)));
}

/// If a guard on a record fails, `otherwise` runs.
pub fn otherwise_runs(w: &mut TestDb) {
    let instead = vec![write("other", &[("a", "1")]).into()];
    let transaction =
        Transaction::new().guard(record_is(Some(1))).step(set("c", 1)).otherwise(instead);
    assert!(!w.db().execute(transaction).unwrap().held);
    holds(&w.records(), "other", &[("a", "1")]);
    assert_eq!(w.cells().get("c").unwrap(), None);
}

/// A transaction with a request ID runs once, and a retry returns the same answers.
pub fn repeated_gives_the_same_receipt(w: &mut TestDb) {
    w.records().put("k", &fields(&[("n", "1"), ("", "x")]), Some(Ttl::Millis(50))).unwrap();
    let sum = RecordWrite::to("k").unwrap().set("n", FieldValue::Sum { by: 1 }).unwrap();
    let add = mainstay::HashCommand::Add { key: name("l"), field: field("n"), by: 3 };
    let transaction = Transaction::new()
        .step(sum)
        .step(get_record("k"))
        .step(get_record("absent"))
        .step(scan("", vec![]))
        .step(count("", vec![]))
        .step(add)
        .request(RequestId::new("once").unwrap());
    let first = w.db().execute(transaction.clone()).unwrap();
    let again = writes_nothing(w.db(), || w.db().execute(transaction).unwrap());
    assert!(again.repeated);
    assert_eq!((again.revision, again.answers), (first.revision, first.answers));
    assert_eq!(w.records().get_field("k", "n").unwrap(), Some(b"2".to_vec()));
}

/// Reusing a request ID for a different transaction is refused; every part of a write is compared.
pub fn reused_request_is_refused(w: &mut TestDb) {
    let id = || RequestId::new("once").unwrap();
    let plain = || write("k", &[("a", "1")]);
    w.db().execute(Transaction::new().step(plain()).request(id())).unwrap();
    let others = [
        write("k", &[("a", "2")]),
        write("k", &[("b", "1")]),
        plain().clear("c").unwrap(),
        plain().replace(),
        plain().ttl(Ttl::Millis(5)),
        plain().when_counter(Some(1)),
    ];
    for other in others {
        let asked =
            writes_nothing(w.db(), || w.db().execute(Transaction::new().step(other).request(id())));
        refused(asked, Code::RequestReused);
    }
}
