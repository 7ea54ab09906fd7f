//! Lossless JSON form of record fields.
//!
//! ```text
//!   name    text as it is, other bytes as `$bytes:` and base64
//!   bytes   text as a string, other bytes as {"$bytes": base64}
//! ```
//!
//! Writes may also contain numbers and booleans, which are stored as their text, and null, which removes the
//! field.

use super::{Raw, raw, value};
use mainstay::{Code, Error, Field, FieldValue, Fields, Result, Test, Value, Where};
use serde_json::value::RawValue;

/// The fields of a record as an object.
pub(crate) fn shown(fields: &Fields) -> Raw {
    raw(&fields.to_value())
}

/// The effect of a write on fields: those to set, and those to remove.
pub(crate) type Changes = (Vec<(Field, FieldValue)>, Vec<Field>);

/// Parses an object of fields and their new values.
pub(crate) fn changes(fields: &RawValue) -> Result<Changes> {
    let mut set = Vec::new();
    let mut clear = Vec::new();
    for (name, value) in object(fields)? {
        match value {
            Value::Null => clear.push(Field::from_text(&name)?),
            value => set.push((Field::from_text(&name)?, becomes(&name, value)?)),
        }
    }
    Ok((set, clear))
}

/// Parses an object of fields and their bytes.
pub(crate) fn pairs(fields: &RawValue) -> Result<Vec<(Field, Vec<u8>)>> {
    object(fields)?
        .into_iter()
        .map(|(name, value)| Ok((Field::from_text(&name)?, bytes(&name, value)?)))
        .collect()
}

/// Parses an object of fields and the tests on them.
pub(crate) fn filters(tests: &RawValue) -> Result<Vec<Where>> {
    let mut filters = Vec::new();
    for (name, value) in object(tests)? {
        let field = Field::from_text(&name)?;
        let of = |test| Where { field: field.clone(), test };
        match value {
            Value::Object(tests) => {
                for (operator, bound) in tests {
                    filters.push(of(test(&name, &operator, bound)?));
                }
            }
            value => filters.push(of(Test::Eq(bytes(&name, value)?))),
        }
    }
    Ok(filters)
}

/// Parses the bytes to store in a field, or to compare it with.
pub(crate) fn bytes_of(field: &str, raw: &RawValue) -> Result<Vec<u8>> {
    bytes(field, value(raw)?)
}

fn bytes(field: &str, value: Value) -> Result<Vec<u8>> {
    match value {
        Value::Float(n) if !n.is_finite() => Err(no_bytes(field)),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(no_bytes(field)),
        plain => Ok(plain.as_text().into_owned()),
    }
}

/// Parses a new value: bytes, or an object with one member that computes the value.
fn becomes(field: &str, value: Value) -> Result<FieldValue> {
    let Value::Object(object) = value else { return bytes(field, value).map(FieldValue::Bytes) };
    let mut said = object.into_iter();
    match (said.next().as_ref().map(|(what, of)| (what.as_str(), of)), said.next()) {
        (Some(("revision", Value::Bool(true))), None) => Ok(FieldValue::Revision),
        (Some(("millis", &Value::Int(plus))), None) => Ok(FieldValue::Millis { plus }),
        (Some(("sum", &Value::Int(by))), None) => Ok(FieldValue::Sum { by }),
        (Some(("copy", Value::String(of))), None) => {
            Ok(FieldValue::Copy { of: Field::from_text(of)? })
        }
        _ => Err(no_bytes(field)),
    }
}

fn test(field: &str, operator: &str, bound: Value) -> Result<Test> {
    if operator == "in" {
        let Value::Array(bounds) = bound else {
            return Err(invalid(format!("the field {field:?}: `in` takes a list")));
        };
        let bounds = bounds.into_iter().map(|bound| bytes(field, bound));
        return bounds.collect::<Result<_>>().map(Test::In);
    }
    let of = match operator {
        "eq" => Test::Eq,
        "ne" => Test::Ne,
        "lt" => Test::Lt,
        "le" => Test::Le,
        "gt" => Test::Gt,
        "ge" => Test::Ge,
        _ => {
            let known = "eq, ne, lt, le, gt, ge and in";
            let message = format!("the field {field:?}: no test {operator:?}, there are {known}");
            return Err(Error::new(Code::InvalidArgument, message));
        }
    };
    bytes(field, bound).map(of)
}

fn object(fields: &RawValue) -> Result<impl IntoIterator<Item = (String, Value)> + use<>> {
    match value(fields)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(invalid("fields are an object of names and values".into())),
    }
}

#[cold]
fn no_bytes(field: &str) -> Error {
    invalid(format!(
        "the field {field:?} holds bytes: give a string, a number, a boolean or {{\"$bytes\": base64}}"
    ))
}

#[cold]
fn invalid(message: String) -> Error {
    Error::new(Code::InvalidField, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn any_bytes_come_back_as_names_and_as_values() {
        for name in
            [&b""[..], b"state", b"$bytes:", b"$bytes:AP8=", b"$bytes", b"\x00\xff", b"\xff"]
        {
            for fields in [Fields::of([(name, name)]), Fields::of([(name, name), (b"o", b"1")])] {
                let fields = fields.unwrap();
                let back = pairs(&shown(&fields)).unwrap();
                assert_eq!(back.into_iter().collect::<Fields>(), fields, "{name:?}");
            }
        }
        // A record's only field may look like one of the `$` forms of values, so it is wrapped in `$object`.
        let alone = Fields::of([("$bytes", "AP8=")]).unwrap();
        assert_eq!(shown(&alone).get(), r#"{"$object":{"$bytes":"AP8="}}"#);
        assert_eq!(pairs(&shown(&alone)).unwrap().into_iter().collect::<Fields>(), alone);
    }

    #[test]
    fn what_is_no_bytes_is_refused_and_null_takes_out() {
        let (set, clear) = changes(&raw(
            r#"{"a":"x","b":1,"c":true,"d":{"$bytes":"/w=="},"e":null,"f":{"sum":-2},
                "g":{"millis":5},"h":{"revision":true},"i":{"copy":"a"}}"#,
        ))
        .unwrap();
        let set: Vec<_> = set.into_iter().map(|(_, value)| value).collect();
        let plain = ["x", "1", "true"].map(FieldValue::from);
        assert_eq!(set[..3], plain);
        assert_eq!(set[3], FieldValue::Bytes(vec![0xff]));
        let copied = FieldValue::Copy { of: Field::new("a").unwrap() };
        let made = [
            FieldValue::Sum { by: -2 },
            FieldValue::Millis { plus: 5 },
            FieldValue::Revision,
            copied,
        ];
        assert_eq!(set[4..], made);
        assert_eq!(clear, [Field::new("e").unwrap()]);
        for wrong in [
            r#"{"a":[1]}"#,
            r#"{"a":{}}"#,
            r#"{"a":{"sum":"1"}}"#,
            r#"{"a":{"sum":1,"millis":1}}"#,
            r#"{"a":{"revision":false}}"#,
            r#"{"a":{"$float":"NaN"}}"#,
            r#"{"a":"x","$bytes:?":"x"}"#,
            "[]",
        ] {
            assert_eq!(changes(&raw(wrong)).unwrap_err().code(), Code::InvalidField, "{wrong}");
        }
        assert!(pairs(&raw(r#"{"a":null}"#)).is_err(), "only a write takes out");
    }

    #[test]
    fn a_filter_is_a_value_or_tests() {
        let filters = |text: &str| super::filters(&raw(text));
        let of = |field: &str, test| Where { field: Field::new(field).unwrap(), test };
        assert_eq!(
            filters(r#"{"a":"x","b":{"ge":1,"lt":"5"},"c":{"in":["x",{"$bytes":"/w=="}]}}"#),
            Ok(vec![
                of("a", Test::Eq(b"x".to_vec())),
                of("b", Test::Ge(b"1".to_vec())),
                of("b", Test::Lt(b"5".to_vec())),
                of("c", Test::In(vec![b"x".to_vec(), vec![0xff]])),
            ])
        );
        assert_eq!(filters("{}"), Ok(Vec::new()));
        assert_eq!(filters(r#"{"a":{"like":"x"}}"#).unwrap_err().code(), Code::InvalidArgument);
        for wrong in [r#"{"a":null}"#, r#"{"a":{"in":"x"}}"#, r#"{"a":{"lt":null}}"#, "1"] {
            assert_eq!(filters(wrong).unwrap_err().code(), Code::InvalidField, "{wrong}");
        }
    }
}
