//! `replace` drops the fields that are not set.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, FieldValue, Fields, RecordWrite, Ttl};

/// `replace` removes the other fields.
pub fn drops_other_fields(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "1")]), None).unwrap();
    assert_eq!(w.records().replace("k", &fields(&[("b", "2")]), None).unwrap(), 2);
    holds(&w.records(), "k", &[("b", "2")]);
}

/// `replace` of a missing record creates it.
pub fn of_nothing_makes_a_record(w: &mut TestDb) {
    assert_eq!(w.records().replace("k", &fields(&[("b", "2")]), None).unwrap(), 1);
    holds(&w.records(), "k", &[("b", "2")]);
}

/// `replace` keeps the expiry unless a new one is given.
pub fn keeps_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.records().replace("k", &fields(&[("b", "2")]), None).unwrap();
    w.pass_ms(6);
    is_gone(&w.records(), "k");
    w.records().replace("k", &fields(&[("b", "2")]), Some(Ttl::Millis(5))).unwrap();
    w.records().replace("k", &fields(&[("b", "2")]), Some(Ttl::Millis(50))).unwrap();
    w.pass_ms(6);
    holds(&w.records(), "k", &[("b", "2")]);
}

/// A sum in a `replace` still starts from the old value.
pub fn sums_go_on(w: &mut TestDb) {
    w.records().put("k", &fields(&[("n", "4"), ("a", "1")]), None).unwrap();
    let write = RecordWrite::to("k").unwrap().replace();
    w.records().write(write.set("n", FieldValue::Sum { by: 3 }).unwrap()).unwrap();
    holds(&w.records(), "k", &[("n", "7")]);
}

/// A `replace` without fields, or one that clears fields, is refused.
pub fn with_nothing_is_refused(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), None).unwrap();
    refused(
        writes_nothing(w.db(), || w.records().replace("k", &Fields::default(), None)),
        Code::InvalidField,
    );
    let write = RecordWrite::to("k").unwrap().replace().clear("a").unwrap();
    refused(writes_nothing(w.db(), || w.records().write(write)), Code::InvalidField);
}
