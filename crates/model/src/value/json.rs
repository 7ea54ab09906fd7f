//! Lossless JSON encoding of values.
//!
//! | value | JSON |
//! |---|---|
//! | bytes | `{"$bytes": "<base64, padded>"}` |
//! | NaN, infinities | `{"$float": "NaN"}`, `"Infinity"`, `"-Infinity"` |
//! | a NaN with other bits | `{"$float": "<its 16 hexadecimal digits>"}` |
//! | an object whose only field begins with `$` | `{"$object": {...}}` around it |
//! | everything else | itself; an integer has no point, a float always has one or an exponent |
//!
//! An integer beyond an `i64` is refused and not rounded. Only the data of events keeps such numbers, and
//! every other number that would be printed differently, as text ([`Value::from_json_exact`]).

use super::{Value, beyond, number};
use crate::limits::VALUE_LIMIT_DEPTH;
use crate::{Code, Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::collections::BTreeMap;

const BYTES: &str = "$bytes";
const FLOAT: &str = "$float";
const OBJECT: &str = "$object";

impl Value {
    /// Converts to JSON text.
    ///
    /// ```
    /// use mainstay_model::Value;
    /// let value = Value::Array(vec![Value::Int(1), Value::Bytes(b"\xff".to_vec())]);
    /// assert_eq!(value.to_json(), r#"[1,{"$bytes":"/w=="}]"#);
    /// assert_eq!(Value::from_json(&value.to_json())?, value);
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        // Serialization fails only for a value nested deeper than the storage limit.
        serde_json::to_string(&wrapped(self, VALUE_LIMIT_DEPTH)).unwrap_or_default()
    }

    /// Parses JSON text. Fails for an integer that does not fit an `i64`.
    pub fn from_json(text: &str) -> Result<Value> {
        let too_large = || number::beyond_64_bits(text).map(beyond);
        let value = parsed(text).map_err(|error| too_large().unwrap_or(error))?;
        if is_suspect(&value) {
            let is_refused = too_large().or_else(|| number_in(&value).map(beyond));
            is_refused.map_or(Ok(()), Err)?;
        }
        unwrapped(value)
    }

    /// Parses JSON text. Numbers that an `i64` or an `f64` would print differently keep their text.
    ///
    /// ```
    /// use mainstay_model::Value;
    /// let text = "[18446744073709551616,1e400,1,1.50]";
    /// assert_eq!(Value::from_json_exact(text)?.to_json(), text);
    /// assert!(Value::from_json(text).is_err());
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn from_json_exact(text: &str) -> Result<Value> {
        unwrapped(parsed(&number::kept(text))?)
    }

    /// The value as bytes for text clients: a string without quotes, bytes unchanged, everything else as
    /// JSON.
    pub fn as_text(&self) -> Cow<'_, [u8]> {
        match self {
            Value::String(text) => Cow::Borrowed(text.as_bytes()),
            Value::Bytes(bytes) => Cow::Borrowed(bytes),
            other => Cow::Owned(other.to_json().into_bytes()),
        }
    }

    /// Converts bytes to a string, or to bytes if they are not UTF-8.
    pub fn from_text(text: &[u8]) -> Value {
        match simdutf8::basic::from_utf8(text) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => Value::Bytes(text.to_vec()),
        }
    }
}

fn parsed(text: &str) -> Result<Value> {
    let invalid = |error: serde_json::Error| {
        let message = format!("this is not JSON: {error}");
        Error::new(Code::InvalidValue, message)
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    // The builder below bounds the depth.
    reader.disable_recursion_limit();
    let value = super::visit::build(&mut reader, VALUE_LIMIT_DEPTH + 1).map_err(invalid)?;
    reader.end().map_err(invalid)?;
    Ok(value)
}

/// Returns whether a number in the value may have been an integer beyond `i64`, so that the text must be
/// checked.
fn is_suspect(value: &Value) -> bool {
    match value {
        Value::Float(n) => n.abs() >= i64::MAX as f64,
        Value::Number(_) => true,
        Value::Array(items) => items.iter().any(is_suspect),
        Value::Object(fields) => fields.values().any(is_suspect),
        _ => false,
    }
}

/// Finds a number that was kept as text, which only `from_json_exact` may return.
fn number_in(value: &Value) -> Option<&str> {
    match value {
        Value::Number(text) => Some(text),
        Value::Array(items) => items.iter().find_map(number_in),
        Value::Object(fields) => fields.values().find_map(number_in),
        _ => None,
    }
}

/// Wraps the parts that JSON cannot represent. Borrows the value if none needs it.
fn wrapped(value: &Value, levels: usize) -> Cow<'_, Value> {
    match value {
        Value::Bytes(bytes) => Cow::Owned(object(BYTES, STANDARD.encode(bytes))),
        Value::Float(n) if !n.is_finite() => Cow::Owned(object(FLOAT, float_text(*n))),
        Value::Array(items) if levels > 0 => {
            let items = items.iter().map(|item| wrapped(item, levels - 1).into_owned());
            Cow::Owned(Value::Array(items.collect()))
        }
        Value::Object(fields) if levels > 0 => {
            let field = |(name, item): (&String, &Value)| {
                (name.clone(), wrapped(item, levels - 1).into_owned())
            };
            let inner = Value::Object(fields.iter().map(field).collect());
            if is_reserved(fields) { Cow::Owned(object(OBJECT, inner)) } else { Cow::Owned(inner) }
        }
        plain => Cow::Borrowed(plain),
    }
}

fn object(name: &str, value: impl Into<Value>) -> Value {
    Value::Object(BTreeMap::from([(name.to_owned(), value.into())]))
}

fn is_reserved(fields: &BTreeMap<String, Value>) -> bool {
    fields.len() == 1 && fields.keys().all(|name| name.starts_with('$'))
}

fn float_text(n: f64) -> String {
    match n {
        n if n == f64::INFINITY => "Infinity".to_owned(),
        n if n == f64::NEG_INFINITY => "-Infinity".to_owned(),
        n if n.to_bits() == f64::NAN.to_bits() => "NaN".to_owned(),
        n => format!("{:016x}", n.to_bits()),
    }
}

fn unwrapped(value: Value) -> Result<Value> {
    match value {
        Value::Array(items) => {
            Ok(Value::Array(items.into_iter().map(unwrapped).collect::<Result<_>>()?))
        }
        Value::Object(fields) if is_reserved(&fields) => open(fields),
        Value::Object(fields) => inside(fields),
        plain => Ok(plain),
    }
}

fn inside(fields: BTreeMap<String, Value>) -> Result<Value> {
    let fields = fields.into_iter().map(|(name, item)| Ok((name, unwrapped(item)?)));
    Ok(Value::Object(fields.collect::<Result<_>>()?))
}

/// Decodes a reserved object.
fn open(fields: BTreeMap<String, Value>) -> Result<Value> {
    let Some((name, content)) = fields.into_iter().next() else { return Ok(Value::Null) };
    match (name.as_str(), content) {
        (OBJECT, Value::Object(fields)) => inside(fields),
        (BYTES, Value::String(text)) => {
            STANDARD.decode(&text).map(Value::Bytes).map_err(|_| reserved(BYTES, "padded base64"))
        }
        (FLOAT, Value::String(text)) => float(&text)
            .map(Value::Float)
            .ok_or_else(|| reserved(FLOAT, "NaN, Infinity, -Infinity or 16 hexadecimal digits")),
        (other, _) => Err(reserved(other, "what its name says; to store it, put it into $object")),
    }
}

fn float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        bits if bits.len() == 16 => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
        _ => None,
    }
}

fn reserved(name: &str, wants: &str) -> Error {
    let message = format!("an object with the one field `{name}` is reserved: it holds {wants}");
    Error::new(Code::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::samples;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_survives(value in samples::any_value()) {
            let text = value.to_json();
            let back = Value::from_json(&text).unwrap();
            prop_assert_eq!(back, value, "{}", text);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = Value::from_json(&text);
        }
    }

    #[test]
    fn what_json_cannot_say_is_wrapped() {
        let cases = [
            (Value::Bytes(vec![0xff]), r#"{"$bytes":"/w=="}"#),
            (Value::Float(f64::NAN), r#"{"$float":"NaN"}"#),
            (Value::Float(f64::NEG_INFINITY), r#"{"$float":"-Infinity"}"#),
            (
                Value::Float(f64::from_bits(0x7ff8_0000_0000_0001)),
                r#"{"$float":"7ff8000000000001"}"#,
            ),
            (Value::Float(1.0), "1.0"),
            (Value::Float(-0.0), "-0.0"),
            (Value::Int(1), "1"),
            (object("$bytes", "x"), r#"{"$object":{"$bytes":"x"}}"#),
        ];
        for (value, text) in cases {
            assert_eq!(value.to_json(), text);
            assert_eq!(Value::from_json(text).unwrap(), value);
        }
    }

    #[test]
    fn the_deepest_value_survives_and_a_deeper_text_is_refused() {
        let mut value = Value::Bytes(vec![1]);
        for _ in 0..VALUE_LIMIT_DEPTH - 1 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(Value::from_json(&value.to_json()).unwrap(), value);
        let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Value::from_json(&text).unwrap_err().code(), Code::InvalidValue);
    }

    #[test]
    fn reserved_names_and_bad_text_are_refused() {
        for text in [
            r#"{"$x":1}"#,
            r#"{"$bytes":"!"}"#,
            r#"{"$float":"x"}"#,
            "[1",
            "1 2",
            "",
            "nan",
            "9223372036854775808",
        ] {
            assert_eq!(Value::from_json(text).unwrap_err().code(), Code::InvalidValue, "{text}");
        }
    }

    #[test]
    fn text_is_what_a_client_of_strings_sees() {
        assert_eq!(Value::from("a").as_text().as_ref(), b"a");
        assert_eq!(Value::Bytes(vec![0xff]).as_text().as_ref(), [0xff]);
        assert_eq!(Value::Int(7).as_text().as_ref(), b"7");
        assert_eq!(Value::from_text(b"a"), Value::from("a"));
        assert_eq!(Value::from_text(&[0xff]), Value::Bytes(vec![0xff]));
    }
}
