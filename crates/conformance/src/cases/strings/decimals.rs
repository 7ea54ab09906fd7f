//! `AddFloat`: decimal addition on numbers and on their text form.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Result, StringCommand, Ttl, Value};

fn add(w: &TestDb, by: &str) -> Result<Value> {
    match text(w.db(), StringCommand::AddFloat { name: name("k"), by: by.to_owned() })? {
        Answer::Number { value, counter: at } => {
            assert_eq!(counter(&w.cells(), "k"), Some(at));
            assert_eq!(w.cells().get("k").unwrap(), Some(value.clone()));
            Ok(value)
        }
        other => panic!("{other:?}"),
    }
}

/// Short decimals are added exactly.
pub fn short_decimals_are_exact(w: &mut TestDb) {
    assert_eq!(add(w, "0.1").unwrap(), "0.1".into());
    assert_eq!(add(w, "0.2").unwrap(), "0.3".into());
    assert_eq!(add(w, "3000").unwrap(), "3000.3".into());
    assert_eq!(add(w, "-3000.3").unwrap(), "0".into());
}

/// Results have no trailing zeros and no exponent.
pub fn texts_are_plain(w: &mut TestDb) {
    w.cells().set("k", "10.50").unwrap();
    assert_eq!(add(w, "0.1").unwrap(), "10.6".into());
    w.cells().set("k", "5.0e3").unwrap();
    assert_eq!(add(w, "2.0e2").unwrap(), "5200".into());
    w.cells().set("k", "1").unwrap();
    assert_eq!(add(w, "1e21").unwrap(), "1000000000000000000000".into());
}

/// A float stays a float, without rounding noise.
pub fn float_stays_a_float(w: &mut TestDb) {
    w.cells().set("k", 0.1).unwrap();
    assert_eq!(add(w, "0.2").unwrap(), Value::Float(0.3));
    assert_eq!(add(w, "0.7").unwrap(), Value::Float(1.0));
}

/// An integer stays an integer if the sum is one and fits.
pub fn whole_number_stays_where_it_can(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert_eq!(add(w, "2.0").unwrap(), Value::Int(3));
    assert_eq!(add(w, "0.5").unwrap(), Value::Float(3.5));
    w.cells().set("k", i64::MAX).unwrap();
    assert_eq!(add(w, "1").unwrap(), Value::Float(9_223_372_036_854_775_808.0));
}

/// A value or increment that is no number is refused.
pub fn no_number_is_refused(w: &mut TestDb) {
    for bad in ["", " 1", "1 ", "abc", "nan", "1e", "1e400"] {
        w.cells().set("k", bad).unwrap();
        writes_nothing(w.db(), || refused(add(w, "1"), Code::NotANumber));
        w.cells().set("k", "1").unwrap();
        writes_nothing(w.db(), || refused(add(w, bad), Code::NotANumber));
    }
    for other in [Value::Null, Value::Bool(true), Value::Bytes(vec![0xff])] {
        w.cells().set("k", other).unwrap();
        writes_nothing(w.db(), || refused(add(w, "1"), Code::NotANumber));
    }
}

/// A sum that is not finite is refused.
pub fn not_finite_is_refused(w: &mut TestDb) {
    let old: [Value; 5] =
        ["inf".into(), "-inf".into(), f64::INFINITY.into(), f64::NAN.into(), f64::MAX.into()];
    for old in old {
        w.cells().set("k", old).unwrap();
        let by = f64::MAX.to_string();
        writes_nothing(w.db(), || refused(add(w, &by), Code::Overflow));
        writes_nothing(w.db(), || refused(add(w, "inf"), Code::Overflow));
    }
}

/// `AddFloat` keeps the time to live.
pub fn keeps_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", "1", Ttl::Millis(10)).unwrap();
    add(w, "0.5").unwrap();
    assert!(w.cells().get_versioned("k").unwrap().unwrap().expires.is_some());
}
