//! `incr`: integer plus integer is an integer, a float operand makes a float, any other type is refused.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Ttl, Value};

/// An absent cell counts as zero.
pub fn absent_starts_from_zero(w: &mut TestDb) {
    assert_eq!(w.cells().incr("k", 5).unwrap(), (Value::Int(5), 1));
    assert_eq!(w.cells().get("k").unwrap(), int(5));
}

/// Integers are added, and each `incr` raises the counter.
pub fn adds_and_counts(w: &mut TestDb) {
    w.cells().set("k", 40).unwrap();
    assert_eq!(w.cells().incr("k", 3).unwrap(), (Value::Int(43), 2));
    assert_eq!(w.cells().incr("k", -1).unwrap(), (Value::Int(42), 3));
}

/// Adding zero is a write too.
pub fn by_zero_is_a_write(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert_eq!(writes_once(w.db(), || w.cells().incr("k", 0).unwrap()), (Value::Int(1), 2));
}

/// After a deletion, `incr` starts from zero and continues the counter.
pub fn after_deletion_starts_from_zero(w: &mut TestDb) {
    w.cells().set("k", 40).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(w.cells().incr("k", 1).unwrap(), (Value::Int(1), 3));
}

/// A float on either side makes the result a float.
pub fn float_on_either_side_makes_a_float(w: &mut TestDb) {
    w.cells().set("i", 1).unwrap();
    assert_eq!(w.cells().incr("i", 0.5).unwrap().0, Value::Float(1.5));
    w.cells().set("f", 1.5).unwrap();
    assert_eq!(w.cells().incr("f", 1).unwrap().0, Value::Float(2.5));
    assert_eq!(w.cells().incr("f", 0.25).unwrap().0, Value::Float(2.75));
    assert_eq!(w.cells().incr("absent", 0.5).unwrap().0, Value::Float(0.5));
}

/// Integer overflow is refused, and nothing is written.
pub fn overflow_is_refused(w: &mut TestDb) {
    w.cells().set("max", i64::MAX).unwrap();
    w.cells().set("min", i64::MIN).unwrap();
    writes_nothing(w.db(), || {
        refused(w.cells().incr("max", 1), Code::Overflow);
        refused(w.cells().incr("min", -1), Code::Overflow);
    });
    assert_eq!(w.cells().get("max").unwrap(), int(i64::MAX));
    assert_eq!(w.cells().incr("max", -1).unwrap(), (Value::Int(i64::MAX - 1), 2));
}

/// The smallest and largest integers can be reached.
pub fn bounds_can_be_reached(w: &mut TestDb) {
    w.cells().set("k", i64::MAX - 1).unwrap();
    assert_eq!(w.cells().incr("k", 1).unwrap().0, Value::Int(i64::MAX));
    assert_eq!(w.cells().incr("low", i64::MIN).unwrap().0, Value::Int(i64::MIN));
}

/// An integer that no float represents exactly is not added to a float, because it would be rounded
/// first.
pub fn no_integer_is_rounded(w: &mut TestDb) {
    let odd = (1_i64 << 53) + 1;
    w.cells().set("whole", odd).unwrap();
    w.cells().set("float", 0.5).unwrap();
    refused(writes_nothing(w.db(), || w.cells().incr("whole", 0.0)), Code::Overflow);
    refused(writes_nothing(w.db(), || w.cells().incr("float", odd)), Code::Overflow);
    assert_eq!(w.cells().get("whole").unwrap(), Some(odd.into()));
    assert_eq!(
        w.cells().incr("float", 1_i64 << 53).unwrap().0,
        Value::Float((1_u64 << 53) as f64 + 0.5)
    );
}

/// A sum of finite floats that overflows is refused.
pub fn float_overflow_is_refused(w: &mut TestDb) {
    w.cells().set("k", f64::MAX).unwrap();
    writes_nothing(w.db(), || refused(w.cells().incr("k", f64::MAX), Code::Overflow));
    assert_eq!(w.cells().get("k").unwrap(), Some(f64::MAX.into()));
}

/// Adding to infinity gives infinity.
pub fn infinity_stays(w: &mut TestDb) {
    w.cells().set("k", f64::INFINITY).unwrap();
    assert_eq!(w.cells().incr("k", 1).unwrap().0, Value::Float(f64::INFINITY));
}

/// `incr` of a value that is not a number is refused.
pub fn other_types_are_refused(w: &mut TestDb) {
    let others: [Value; 6] =
        [().into(), true.into(), "01".into(), vec![1u8].into(), Value::Array(vec![]), object()];
    for other in others {
        w.cells().set("k", other.clone()).unwrap();
        writes_nothing(w.db(), || refused(w.cells().incr("k", 1), Code::NotANumber));
        assert_eq!(w.cells().get("k").unwrap(), Some(other));
    }
}

/// A string that is a plain integer counts as that integer, and the result is a number.
pub fn plain_integers_as_text_count(w: &mut TestDb) {
    w.cells().set("k", "41").unwrap();
    assert_eq!(w.cells().incr("k", 1).unwrap(), (Value::Int(42), 2));
    assert_eq!(w.cells().get("k").unwrap(), int(42));
    w.cells().set("k", "-2").unwrap();
    assert_eq!(w.cells().incr("k", 0.5).unwrap().0, Value::Float(-1.5));
}

fn object() -> Value {
    Value::Object(std::collections::BTreeMap::new())
}

/// `incr` keeps the time to live.
pub fn keeps_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    w.cells().incr("k", 1).unwrap();
    w.pass_ms(9);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
    w.pass_ms(2);
    assert_eq!(w.cells().get("k").unwrap(), None);
}
