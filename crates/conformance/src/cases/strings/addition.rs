//! `Add`: integer addition on numbers and on their text form.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Result, StringCommand, Ttl, Value};

fn add(w: &TestDb, by: i64) -> Result<Answer> {
    text(w.db(), StringCommand::Add { name: name("k"), by })
}

fn sum(value: i64, counter: u64) -> Answer {
    Answer::Number { value: Value::Int(value), counter }
}

/// An absent cell counts as the text `0`, and the result is text.
pub fn absent_is_zero(w: &mut TestDb) {
    assert_eq!(add(w, 5).unwrap(), sum(5, 1));
    assert_eq!(w.cells().get("k").unwrap(), Some("5".into()));
    assert_eq!(add(w, -7).unwrap(), sum(-2, 2));
    assert_eq!(w.cells().get("k").unwrap(), Some("-2".into()));
}

/// A number stays a number.
pub fn number_stays_a_number(w: &mut TestDb) {
    w.cells().set("k", 40).unwrap();
    assert_eq!(add(w, 2).unwrap(), sum(42, 2));
    assert_eq!(w.cells().get("k").unwrap(), int(42));
}

/// Bytes that hold an integer become text.
pub fn bytes_become_text(w: &mut TestDb) {
    w.cells().set("k", Value::Bytes(b"7".to_vec())).unwrap();
    assert_eq!(add(w, 1).unwrap(), sum(8, 2));
    assert_eq!(w.cells().get("k").unwrap(), Some("8".into()));
}

/// A text must be a canonical integer.
pub fn only_plain_numbers(w: &mut TestDb) {
    let long = "9223372036854775808";
    for bad in ["", " 1", "1 ", "+1", "01", "-0", "00", "1.0", "1e3", "0x1", "-", "a", long] {
        w.cells().set("k", bad).unwrap();
        writes_nothing(w.db(), || refused(add(w, 1), Code::NotANumber));
    }
    for good in ["0", "-1", "9223372036854775806", "-9223372036854775808"] {
        w.cells().set("k", good).unwrap();
        assert!(add(w, 1).is_ok(), "{good}");
    }
}

/// Values of other types are refused, even floats.
pub fn other_types_are_refused(w: &mut TestDb) {
    for other in [Value::Null, Value::Bool(true), Value::Float(1.0), Value::Array(vec![])] {
        w.cells().set("k", other).unwrap();
        writes_nothing(w.db(), || refused(add(w, 1), Code::NotANumber));
    }
}

/// An overflow of 64 bits is refused, for text and for numbers.
pub fn overflow_is_refused(w: &mut TestDb) {
    for max in [Value::Int(i64::MAX), Value::from(i64::MAX.to_string())] {
        w.cells().set("k", max.clone()).unwrap();
        writes_nothing(w.db(), || refused(add(w, 1), Code::Overflow));
        assert_eq!(w.cells().get("k").unwrap(), Some(max));
    }
    w.cells().set("k", i64::MIN).unwrap();
    writes_nothing(w.db(), || refused(add(w, -1), Code::Overflow));
}

/// `Add` keeps the time to live. On an expired cell it starts from zero without one.
pub fn keeps_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", "1", Ttl::Millis(10)).unwrap();
    add(w, 1).unwrap();
    assert!(w.cells().get_versioned("k").unwrap().unwrap().expires.is_some());
    w.pass_ms(11);
    assert_eq!(add(w, 1).unwrap(), sum(1, 4));
    assert_eq!(w.cells().get_versioned("k").unwrap().unwrap().expires, None);
}
