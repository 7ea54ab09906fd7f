use super::samples::{any_value, nested_arrays};
use super::{Value, from_value, to_value};
use crate::Code;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

/// Bytes in serde's sense. Serde treats a plain `Vec<u8>` as a list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Blob(Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Color {
    Red,
    Blue,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Empty,
    Circle(f64),
    Line(i32, u8),
    Named { label: Option<String>, inner: Option<Box<Shape>> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pair(i16, char);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    note: Option<String>,
    shapes: Vec<Shape>,
    by_number: BTreeMap<i32, Shape>,
    by_flag: BTreeMap<bool, u128>,
    by_letter: BTreeMap<char, ()>,
    by_color: BTreeMap<Color, f32>,
    blob: Blob,
    pair: Pair,
    unit: Unit,
    any: Value,
    tuple: (i8, (u16, String)),
}

fn order() -> Order {
    let named = Shape::Named { label: None, inner: Some(Box::new(Shape::Line(-1, 255))) };
    Order {
        id: i64::MAX as u64,
        note: Some("é".into()),
        shapes: vec![Shape::Empty, Shape::Circle(-0.0), named.clone()],
        by_number: [(-7, named), (3, Shape::Empty)].into(),
        by_flag: [(true, 1), (false, 0)].into(),
        by_letter: [('ß', ())].into(),
        by_color: [(Color::Red, 0.1), (Color::Blue, f32::MAX)].into(),
        blob: Blob(vec![0, 255]),
        pair: Pair(-3, 'x'),
        unit: Unit,
        any: Value::from(vec![Value::Null, b"raw".into(), f64::NAN.into()]),
        tuple: (-128, (65_535, String::new())),
    }
}

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(original: T) {
    assert_eq!(from_value::<T>(to_value(&original).unwrap()).unwrap(), original);
}

#[track_caller]
fn write_error<T: Serialize>(from: T) -> String {
    let error = to_value(&from).unwrap_err();
    assert_eq!(error.code(), Code::InvalidValue, "{error}");
    error.message().to_owned()
}

#[track_caller]
fn read_error<T: DeserializeOwned + Debug>(from: impl Into<Value>) -> String {
    let error = from_value::<T>(from.into()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidValue, "{error}");
    error.message().to_owned()
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in {message:?}");
    }
}

#[test]
fn a_struct_of_everything_comes_back() {
    comes_back(order());
}

#[test]
fn the_forms_are_the_documented_ones() {
    let text = |value: Value| value.to_string();
    assert_eq!(text(to_value(&Shape::Empty).unwrap()), r#""Empty""#);
    assert_eq!(text(to_value(&Shape::Circle(1.0)).unwrap()), r#"{"Circle": 1.0}"#);
    assert_eq!(text(to_value(&Shape::Line(1, 2)).unwrap()), r#"{"Line": [1, 2]}"#);
    let named = Shape::Named { label: Some("a".into()), inner: None };
    let expected = r#"{"Named": {"inner": null, "label": "a"}}"#;
    assert_eq!(text(to_value(&named).unwrap()), expected);
    assert_eq!(text(to_value(&Pair(1, 'x')).unwrap()), r#"[1, "x"]"#);
    assert_eq!(to_value(&Unit).unwrap(), Value::Null);
    assert_eq!(to_value(&None::<i32>).unwrap(), Value::Null);
    assert_eq!(to_value(&Blob(vec![1])).unwrap(), Value::Bytes(vec![1]));
    assert_eq!(to_value(&0.1f32).unwrap(), Value::Float(f64::from(0.1f32)));
    assert_eq!(
        text(to_value(&HashMap::from([(u64::MAX, 1)])).unwrap()),
        r#"{"18446744073709551615": 1}"#
    );
    assert_eq!(to_value("text").unwrap(), Value::from("text"));
}

#[test]
fn integers_beyond_i64_are_refused() {
    comes_back(i64::MAX as u64);
    comes_back(i128::from(i64::MIN));
    comes_back(u128::from(i64::MAX as u64));
    says(&write_error(i64::MAX as u64 + 1), &["u64", "9223372036854775808", "i64"]);
    says(&write_error(i128::from(i64::MIN) - 1), &["i128", "-9223372036854775809"]);
    says(&write_error(u128::MAX), &["u128"]);
    says(&write_error(Order { id: u64::MAX, ..order() }), &["Order", "at `id`"]);
    let flags = [(true, u128::MAX)].into();
    says(&write_error(Order { by_flag: flags, ..order() }), &["at `by_flag.true`"]);
}

#[test]
fn integers_are_read_within_their_range() {
    assert_eq!(from_value::<u8>(255.into()).unwrap(), 255);
    assert_eq!(from_value::<i8>((-128).into()).unwrap(), -128);
    assert_eq!(from_value::<u64>(i64::MAX.into()).unwrap(), i64::MAX as u64);
    assert_eq!(from_value::<i128>(i64::MIN.into()).unwrap(), i128::from(i64::MIN));
    says(&read_error::<u8>(256), &["256", "u8"]);
    says(&read_error::<i8>(-129), &["-129", "i8"]);
    says(&read_error::<u64>(-1), &["-1", "u64"]);
    says(&read_error::<u128>(-1), &["-1", "u128"]);
    says(&read_error::<i64>(1.0), &["float", "i64"]);
}

#[test]
fn integers_are_read_as_floats_when_exact() {
    assert_eq!(from_value::<f64>((1i64 << 53).into()).unwrap(), 9_007_199_254_740_992.0);
    assert_eq!(from_value::<f64>(i64::MIN.into()).unwrap(), -9_223_372_036_854_775_808.0);
    assert_eq!(from_value::<f32>((1i64 << 24).into()).unwrap(), 16_777_216.0);
    says(&read_error::<f64>((1i64 << 53) + 1), &["9007199254740993", "f64"]);
    says(&read_error::<f64>(i64::MAX), &["f64"]);
    says(&read_error::<f32>((1i64 << 24) + 1), &["16777217", "f32"]);
}

#[test]
fn odd_floats_survive() {
    for n in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 2.0] {
        let back: f64 = from_value(to_value(&n).unwrap()).unwrap();
        assert_eq!(back.to_bits(), n.to_bits());
    }
    for n in [f32::INFINITY, -0.0, 0.1, f32::MAX] {
        let back: f32 = from_value(to_value(&n).unwrap()).unwrap();
        assert_eq!(back.to_bits(), n.to_bits());
    }
    assert!(from_value::<f32>(f64::NAN.into()).unwrap().is_nan());
    says(&read_error::<f32>(1e300), &["1e300", "f32"]);
}

#[test]
fn keys_that_are_no_text_are_refused() {
    for message in [
        write_error(BTreeMap::from([((1, 2), 3)])),
        write_error(BTreeMap::from([(Some(1), 3)])),
        write_error(BTreeMap::from([((), 3)])),
        write_error(BTreeMap::from([(vec![1], 3)])),
    ] {
        says(&message, &["key", "string, an integer, a bool or a char"]);
    }
}

#[test]
fn keys_are_read_in_their_one_form() {
    let map = |key: &str| Value::Object([(key.to_owned(), Value::Null)].into());
    assert_eq!(from_value::<BTreeMap<i32, ()>>(map("-1")).unwrap(), [(-1, ())].into());
    for key in ["01", "+1", "-0", "one", "", "2147483648"] {
        says(&read_error::<BTreeMap<i32, ()>>(map(key)), &["i32"]);
    }
    says(&read_error::<BTreeMap<Color, ()>>(map("Green")), &["Green", "Red"]);
}

#[test]
fn entries_of_one_name_are_refused() {
    struct Twice;
    impl Serialize for Twice {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([("a", 1), ("a", 2)])
        }
    }
    says(&write_error(Twice), &["at `a`", "two entries"]);
}

#[test]
fn errors_name_the_field_and_the_type() {
    let mut value = to_value(&order()).unwrap();
    let Value::Object(fields) = &mut value else { panic!("a struct is an object") };
    let line = Value::Array(vec![1.into(), "x".into()]);
    let bad = Value::Object([("Line".to_owned(), line)].into());
    fields.insert("shapes".into(), Value::Array(vec!["Empty".into(), bad]));
    let message = read_error::<Order>(value.clone());
    says(&message, &["Order", "at `shapes[1].Line[1]`", "string \"x\"", "u8"]);

    let Value::Object(fields) = &mut value else { panic!("a struct is an object") };
    fields.insert("shapes".into(), Value::Array(vec![]));
    fields.remove("pair");
    says(&read_error::<Order>(value), &["missing field `pair`"]);
}

#[test]
fn errors_do_not_repeat_large_values() {
    let large = "x".repeat(1 << 20);
    assert!(read_error::<i64>(large.clone()).len() < 1000);
    assert!(read_error::<Color>(large.clone()).len() < 1000);
    let map = Value::Object([(large, Value::from("no"))].into());
    assert!(read_error::<BTreeMap<String, i64>>(map).len() < 1000);
}

#[test]
fn wrong_shapes_are_refused() {
    let three = Value::Array(vec![1.into(), 2.into(), 3.into()]);
    says(&read_error::<(i64, i64)>(three.clone()), &["3 elements", "2"]);
    says(&read_error::<(i64, i64, i64, i64)>(three), &["length 3"]);
    says(&read_error::<Shape>("Circle"), &["newtype variant"]);
    says(&read_error::<Shape>("Square"), &["Square", "Circle"]);
    says(&read_error::<Shape>(1), &["1", "enum"]);
    says(&read_error::<Shape>(Value::Object(BTreeMap::new())), &["0 fields", "enum"]);
    let unit = Value::Object([("Empty".to_owned(), Value::Int(1))].into());
    says(&read_error::<Shape>(unit), &["at `Empty`", "unit"]);
    says(&read_error::<bool>(Value::Null), &["bool"]);
    says(&read_error::<char>("ab"), &["ab", "char"]);
}

#[test]
fn bytes_are_read_as_bytes_or_a_list() {
    assert_eq!(from_value::<Vec<u8>>(b"ab".into()).unwrap(), b"ab");
    assert_eq!(from_value::<[u8; 2]>(b"ab".into()).unwrap(), *b"ab");
    says(&read_error::<Vec<i8>>(b"\xff"), &["at `[0]`", "255", "i8"]);
}

#[test]
fn flattened_and_untagged_types_come_back() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i64),
        Text(String),
        Raw(Value),
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Outer {
        first: Either,
        second: Either,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }
    comes_back(Outer {
        first: Either::Number(1),
        second: Either::Raw(vec![Value::Null, b"b".into()].into()),
        rest: [("third".to_owned(), f64::NAN.into())].into(),
    });
    comes_back(vec![Either::Text("a".into())]);
}

#[test]
fn the_limit_of_depth_holds() {
    comes_back(nested_arrays(128));
    assert_eq!(to_value(&nested_arrays(129)).unwrap_err().code(), Code::ValueTooDeep);
    assert_eq!(to_value(&Some([nested_arrays(128)])).unwrap_err().code(), Code::ValueTooDeep);
    let deep = nested_arrays(129);
    assert_eq!(from_value::<Value>(deep.clone()).unwrap_err().code(), Code::ValueTooDeep);
    assert_eq!(from_value::<()>(deep).unwrap_err().code(), Code::ValueTooDeep);
}

#[test]
fn variants_count_as_levels() {
    let chain = |length: usize| {
        (0..length).fold(Shape::Empty, |inner, _| Shape::Named {
            label: None,
            inner: Some(Box::new(inner)),
        })
    };
    comes_back(chain(64));
    assert_eq!(to_value(&chain(64)).unwrap().depth(), 128);
    assert_eq!(to_value(&chain(65)).unwrap_err().code(), Code::ValueTooDeep);
}

proptest! {
    #[test]
    fn a_value_is_its_own_value(value in any_value()) {
        prop_assert_eq!(&to_value(&value).unwrap(), &value);
        prop_assert_eq!(&from_value::<Value>(value.clone()).unwrap(), &value);
    }

    #[test]
    fn no_value_breaks_reading(value in any_value()) {
        if let Err(error) = from_value::<Order>(value.clone()) {
            prop_assert_eq!(error.code(), Code::InvalidValue);
        }
        if let Ok(shape) = from_value::<Shape>(value) {
            comes_back(shape);
        }
    }
}
