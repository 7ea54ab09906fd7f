use super::samples::{any_value, nested_arrays, nested_objects};
use super::{Value, codec};
use crate::Code;
use crate::limits::VALUE_LIMIT_BYTES;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn equality_goes_by_meaning() {
    let quiet = f64::from_bits(0x7ff8_0000_0000_0000);
    let other = f64::from_bits(0x7ff8_0000_0000_0001);
    assert_eq!(Value::Float(quiet), Value::Float(quiet));
    assert_ne!(Value::Float(quiet), Value::Float(other));
    assert_ne!(Value::Float(0.0), Value::Float(-0.0));
    assert_ne!(Value::Int(1), Value::Float(1.0));
    assert_ne!(Value::from("a"), Value::from(b"a"));
    assert_ne!(Value::Null, Value::Array(vec![]));
    assert_eq!(nested_objects(3), nested_objects(3));
    assert_ne!(nested_objects(3), nested_objects(4));
}

#[test]
fn rust_types_become_values() {
    assert_eq!(Value::from(-1i8), Value::Int(-1));
    assert_eq!(Value::from(u32::MAX), Value::Int(4_294_967_295));
    assert_eq!(Value::from(0.5f32), Value::Float(0.5));
    assert_eq!(Value::from(Some("a")), Value::String("a".into()));
    assert_eq!(Value::from(None::<i64>), Value::Null);
    assert_eq!(Value::from(()), Value::Null);
    assert_eq!(Value::from(&[1u8, 2][..]), Value::Bytes(vec![1, 2]));
    assert_eq!(Value::from(vec![Value::Null]), Value::Array(vec![Value::Null]));
}

#[test]
fn accessors_do_not_convert() {
    assert_eq!(Value::Int(3).as_i64(), Some(3));
    assert_eq!(Value::Float(3.0).as_i64(), None);
    assert_eq!(Value::Int(3).as_f64(), None);
    assert_eq!(Value::Float(2.5).as_f64(), Some(2.5));
    assert_eq!(Value::from("a").as_str(), Some("a"));
    assert_eq!(Value::from("a").as_bytes(), None);
    assert_eq!(Value::from(b"a").as_bytes(), Some(&b"a"[..]));
    assert_eq!(Value::Bool(true).as_bool(), Some(true));
    assert!(Value::Null.is_null() && !Value::Bool(false).is_null());
    assert_eq!(Value::Object(BTreeMap::new()).type_name(), "object");
}

#[test]
fn text_is_readable() {
    let fields = [
        ("a \"b\"\n".to_owned(), Value::from(b"\x00x")),
        ("list".to_owned(), Value::from(vec![Value::Null, 1.0.into(), 2.into(), true.into()])),
        ("odd".to_owned(), Value::Array(vec![f64::NAN.into(), (-0.0).into()])),
        ("z".to_owned(), Value::from("é\u{1}")),
    ];
    let text = Value::Object(fields.into()).to_string();
    let expected = r#"{"a \"b\"\n": b"\x00x", "list": [null, 1.0, 2, true], "#.to_owned()
        + r#""odd": [NaN, -0.0], "z": "é\u0001"}"#;
    assert_eq!(text, expected);
}

#[test]
fn depth_counts_containers() {
    assert_eq!(Value::Int(1).depth(), 0);
    assert_eq!(Value::Array(vec![]).depth(), 1);
    assert_eq!(Value::Array(vec![1.into(), nested_objects(2), 2.into()]).depth(), 3);
    assert_eq!(nested_arrays(1000).depth(), 1000);
}

#[test]
fn the_limit_of_depth_is_exact() {
    for nested in [nested_arrays, nested_objects] {
        assert!(nested(128).check().is_ok());
        assert_eq!(nested(129).check().unwrap_err().code(), Code::ValueTooDeep);
    }
}

#[test]
fn the_limit_of_size_is_exact() {
    // A tag and a four-byte length precede the content.
    let most = VALUE_LIMIT_BYTES - 5;
    assert!(Value::from("s".repeat(most)).check().is_ok());
    let error = Value::from("s".repeat(most + 1)).check().unwrap_err();
    assert_eq!(error.code(), Code::ValueTooLarge);
}

proptest! {
    #[test]
    fn the_measured_size_is_the_encoded_size(value in any_value()) {
        let mut bytes = Vec::new();
        codec::encode(&value, &mut bytes).unwrap();
        let mut room_bytes = bytes.len();
        prop_assert!(value.check_within(128, &mut room_bytes).is_ok());
        prop_assert_eq!(room_bytes, 0);
        room_bytes = bytes.len() - 1;
        prop_assert!(value.check_within(128, &mut room_bytes).is_err());
        prop_assert!(value.fits(value.depth()));
        prop_assert!(value.depth() == 0 || !value.fits(value.depth() - 1));
    }
}
