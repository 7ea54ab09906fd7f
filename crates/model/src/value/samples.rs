//! Sample values for tests.

use super::Value;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Arrays nested this deep.
pub(crate) fn nested_arrays(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

/// Objects nested this deep.
pub(crate) fn nested_objects(depth: usize) -> Value {
    (0..depth).fold(Value::Int(1), |inner, _| Value::Object([("k".to_owned(), inner)].into()))
}

/// Arbitrary values, with floats of every bit pattern.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        "\\PC{0,12}".prop_map(Value::from),
        vec(any::<u8>(), 0..200).prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::from),
            btree_map("\\PC{0,4}", inner, 0..8).prop_map(Value::from),
        ]
    })
}
