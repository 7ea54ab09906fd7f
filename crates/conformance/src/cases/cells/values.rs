//! Values: a read returns exactly the written value.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Value};
use std::collections::BTreeMap;

#[track_caller]
fn survives(w: &TestDb, value: Value) {
    w.cells().set("k", value.clone()).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), Some(value));
}

/// `Null` is a value: the cell is present.
pub fn null_is_a_value(w: &mut TestDb) {
    survives(w, Value::Null);
    assert_eq!(counter(&w.cells(), "k"), Some(1));
    assert_eq!(names(&w.cells(), ""), ["k"]);
    assert!(w.cells().delete("k").unwrap());
}

/// Booleans round-trip.
pub fn truth_survives(w: &mut TestDb) {
    survives(w, true.into());
    survives(w, false.into());
}

/// Integers round-trip, including the smallest and the largest.
pub fn whole_numbers_survive(w: &mut TestDb) {
    [0, 1, -1, i64::MAX, i64::MIN].into_iter().for_each(|n| survives(w, n.into()));
}

/// Floats round-trip bit by bit: NaN, infinities, negative zero.
pub fn floats_survive_bit_by_bit(w: &mut TestDb) {
    let odd = f64::from_bits(0x7ff8_dead_beef_0001);
    for n in [0.0, -0.0, f64::NAN, odd, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 0.1] {
        w.cells().set("k", n).unwrap();
        let seen = w.cells().get("k").unwrap().unwrap().as_f64().unwrap();
        assert_eq!(seen.to_bits(), n.to_bits());
    }
}

/// A float with an integral value stays a float.
pub fn whole_float_stays_a_float(w: &mut TestDb) {
    w.cells().set("k", 3.0).unwrap();
    assert_eq!(w.cells().get("k").unwrap().unwrap().as_i64(), None);
}

/// Text round-trips: empty, non-ASCII, or with a NUL inside.
pub fn text_survives(w: &mut TestDb) {
    ["", "a", "é日🙂", "a\0b"].into_iter().for_each(|text| survives(w, text.into()));
}

/// Bytes stay bytes, even if they are valid UTF-8.
pub fn bytes_stay_bytes(w: &mut TestDb) {
    survives(w, Value::Bytes(vec![]));
    survives(w, Value::Bytes((0..=255).collect()));
    w.cells().set("k", Value::Bytes(b"text".to_vec())).unwrap();
    assert_ne!(w.cells().get("k").unwrap(), Some("text".into()));
}

/// Arrays and objects round-trip, nested or empty.
pub fn nesting_survives(w: &mut TestDb) {
    let array = Value::Array(vec![Value::Null, 1.into(), Value::Array(vec![]), "x".into()]);
    let object = BTreeMap::from([("a".to_owned(), array), (String::new(), Value::Null)]);
    survives(w, Value::Object(object));
    survives(w, Value::Object(BTreeMap::new()));
}

/// 128 levels of nesting are stored; 129 are refused and nothing is written.
pub fn depth_limit_is_exact(w: &mut TestDb) {
    let nested =
        |levels: usize| (0..levels).fold(Value::Null, |inside, _| Value::Array(vec![inside]));
    survives(w, nested(128));
    writes_nothing(w.db(), || refused(w.cells().set("k", nested(129)), Code::ValueTooDeep));
    assert_eq!(w.cells().get("k").unwrap(), Some(nested(128)));
}

/// 16 MiB encoded are stored; one more byte is refused and nothing is written.
pub fn size_limit_is_exact(w: &mut TestDb) {
    // The encoding starts with a tag of one byte and a length of four bytes.
    let room = mainstay::limits::VALUE_LIMIT_BYTES - 5;
    w.cells().set("k", Value::Bytes(vec![7; room])).unwrap();
    let large = Value::Bytes(vec![8; room + 1]);
    writes_nothing(w.db(), || {
        refused(w.cells().set("k", large.clone()), Code::ValueTooLarge);
        refused(w.cells().init("other", large.clone()), Code::ValueTooLarge);
        refused(w.cells().cas("other", None, large), Code::ValueTooLarge);
    });
    let seen = w.cells().get("k").unwrap().unwrap();
    assert!(seen.as_bytes().is_some_and(|bytes| bytes.len() == room && bytes[room - 1] == 7));
}

/// Serializable types of the caller round-trip.
pub fn typed_values_survive(w: &mut TestDb) {
    let typed: (String, Vec<u32>, Option<bool>) = ("x".into(), vec![1, 2], Some(true));
    assert_eq!(w.cells().set_as("k", &typed).unwrap(), 1);
    assert_eq!(w.cells().get_as("k").unwrap(), Some(typed));
    assert_eq!(w.cells().get_as::<i64>("absent").unwrap(), None);
}

/// Reading a value as an incompatible type is refused.
pub fn wrong_type_is_refused(w: &mut TestDb) {
    w.cells().set("k", "text").unwrap();
    refused(w.cells().get_as::<i64>("k"), Code::InvalidValue);
}
