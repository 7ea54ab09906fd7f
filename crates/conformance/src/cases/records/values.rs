//! Field values computed at commit: bytes, the revision, the time, a sum, a copy.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Field, FieldValue, RecordWrite, Transaction, Ttl};

fn put(w: &TestDb, value: FieldValue) -> mainstay::Result<String> {
    w.records().set_field("k", "n", value)?;
    Ok(String::from_utf8(w.records().get_field("k", "n").unwrap().unwrap()).unwrap())
}

/// `Revision` becomes the revision in the receipt.
pub fn revision_is_that_of_the_receipt(w: &mut TestDb) {
    w.cells().set("before", 1).unwrap();
    let write = RecordWrite::to("k").unwrap().set("token", FieldValue::Revision).unwrap();
    let receipt = w.db().execute(Transaction::new().step(set("c", 1)).step(write)).unwrap();
    assert_eq!(receipt.revision, w.db().revision());
    holds(&w.records(), "k", &[("token", &receipt.revision.to_string())]);
    assert_eq!(w.records().get("k").unwrap().unwrap().revision, receipt.revision);
}

/// In an interactive transaction, `Revision` becomes the revision of the commit.
pub fn revision_of_an_open_transaction(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    t.run(RecordWrite::to("k").unwrap().set("token", FieldValue::Revision).unwrap()).unwrap();
    w.cells().set("meanwhile", 1).unwrap();
    let receipt = t.commit().unwrap();
    holds(&w.records(), "k", &[("token", &receipt.revision.to_string())]);
}

/// `Millis` becomes the transaction's time in milliseconds plus an offset.
pub fn millis_is_the_stamp(w: &mut TestDb) {
    w.pass_ms(7);
    let now = w.wall_us() / 1000;
    assert_eq!(put(w, FieldValue::Millis { plus: 0 }).unwrap(), now.to_string());
    assert_eq!(put(w, FieldValue::Millis { plus: 250 }).unwrap(), (now + 250).to_string());
    assert_eq!(put(w, FieldValue::Millis { plus: -7 }).unwrap(), (now - 7).to_string());
}

/// `Sum` adds to an integer; a missing field counts as 0.
pub fn sum_adds(w: &mut TestDb) {
    assert_eq!(put(w, FieldValue::Sum { by: 5 }).unwrap(), "5");
    assert_eq!(put(w, FieldValue::Sum { by: -7 }).unwrap(), "-2");
    assert_eq!(put(w, FieldValue::Sum { by: 0 }).unwrap(), "-2");
    assert_eq!(record_counter(&w.records(), "k"), Some(3));
}

/// `Copy` takes the value that another field had before the write. If that field is missing, the target
/// field is removed.
pub fn copy_is_what_another_field_held(w: &mut TestDb) {
    let copy = |of: &str| FieldValue::Copy { of: Field::new(of).unwrap() };
    w.records().put("k", &fields(&[("a", "1"), ("b", "2")]), None).unwrap();
    let turn = RecordWrite::to("k").unwrap().set("a", copy("b")).unwrap();
    w.records().write(turn.set("b", copy("a")).unwrap()).unwrap();
    holds(&w.records(), "k", &[("a", "2"), ("b", "1")]);
    w.records().set_field("k", "a", copy("none")).unwrap();
    holds(&w.records(), "k", &[("b", "1")]);
    let nothing = RecordWrite::to("none").unwrap().set("a", copy("b")).unwrap();
    assert_eq!(w.records().write(nothing).unwrap(), None);
    assert_eq!(w.records().get("none").unwrap(), None);
}

/// A sum on an expired record starts from 0.
pub fn sum_on_expired_starts_anew(w: &mut TestDb) {
    w.records().put("k", &fields(&[("n", "5")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    assert_eq!(put(w, FieldValue::Sum { by: 1 }).unwrap(), "1");
}

/// A sum sees the sums of earlier steps.
pub fn sums_see_earlier_steps(w: &mut TestDb) {
    let add = || RecordWrite::to("k").unwrap().set("n", FieldValue::Sum { by: 2 }).unwrap();
    w.db().execute(Transaction::new().step(add()).step(add())).unwrap();
    holds(&w.records(), "k", &[("n", "4")]);
    assert_eq!(w.records().history("k", 9, None).unwrap()[0].writes, 2);
}

/// A sum on a field that is no canonical integer is refused and writes nothing.
pub fn sum_of_no_number_is_refused(w: &mut TestDb) {
    for text in ["", "x", "1.5", " 1", "01", "+1", "-0", "9223372036854775808"] {
        w.records().set_field("k", "n", text).unwrap();
        refused(writes_nothing(w.db(), || put(w, FieldValue::Sum { by: 1 })), Code::NotANumber);
    }
}

/// An overflowing sum is refused; the smallest and largest integers can be reached.
pub fn sum_overflow_is_refused(w: &mut TestDb) {
    assert_eq!(put(w, FieldValue::Sum { by: i64::MAX }).unwrap(), i64::MAX.to_string());
    refused(writes_nothing(w.db(), || put(w, FieldValue::Sum { by: 1 })), Code::Overflow);
    w.records().set_field("k", "n", "0").unwrap();
    assert_eq!(put(w, FieldValue::Sum { by: i64::MIN }).unwrap(), i64::MIN.to_string());
    refused(writes_nothing(w.db(), || put(w, FieldValue::Sum { by: -1 })), Code::Overflow);
}

/// A write with one failing sum writes nothing.
pub fn one_bad_sum_writes_nothing(w: &mut TestDb) {
    w.records().set_field("k", "n", "x").unwrap();
    let both = write("k", &[("a", "1")]).set("n", FieldValue::Sum { by: 1 }).unwrap();
    refused(writes_nothing(w.db(), || w.records().write(both)), Code::NotANumber);
    holds(&w.records(), "k", &[("n", "x")]);
}
