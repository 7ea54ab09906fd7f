//! Values: the typed content of cells, fields and events.

pub mod codec;
mod convert;
mod de;
mod display;
mod failure;
mod json;
mod key;
mod number;
mod ser;
mod visit;

#[cfg(test)]
mod codec_tests;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod serde_tests;
#[cfg(test)]
mod value_tests;

pub use de::from_value;
pub use ser::to_value;

use crate::limits::{VALUE_LIMIT_BYTES, VALUE_LIMIT_DEPTH};
use crate::{Code, Error, Result};
use std::collections::BTreeMap;

/// A value that can be stored. `Null` is a value and differs from absence.
///
/// Equality agrees with the encoded bytes. An integer never equals a float. Floats are equal if their bits
/// are equal, so a NaN equals itself and `-0.0` differs from `0.0`.
///
/// ```
/// use mainstay_model::Value;
/// assert_eq!(Value::from(3), Value::Int(3));
/// assert_ne!(Value::from(3), Value::from(3.0));
/// assert_eq!(Value::from(f64::NAN), Value::from(f64::NAN));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The explicit null value.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number; every bit pattern survives.
    Float(f64),
    /// Text.
    String(String),
    /// Arbitrary bytes.
    Bytes(Vec<u8>),
    /// A list.
    Array(Vec<Value>),
    /// Values by name, in byte order of the names.
    Object(BTreeMap<String, Value>),
    /// A JSON number as text, if an `i64` or an `f64` would print it differently. Only the data of events
    /// keeps it. Cells, records and keyed state store its numeric value, and refuse it if that would be
    /// rounded.
    Number(Box<str>),
}

impl Value {
    /// The approximate memory that the value takes in addition to itself, in bytes.
    pub fn weight_bytes(&self) -> usize {
        const SELF: usize = size_of::<Value>();
        match self {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
            Value::String(text) => text.len(),
            Value::Number(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Array(items) => items.iter().map(|item| SELF + item.weight_bytes()).sum(),
            Value::Object(fields) => {
                let weight = |(name, value): (&String, &Value)| {
                    SELF + size_of::<String>() + name.len() + value.weight_bytes()
                };
                fields.iter().map(weight).sum()
            }
        }
    }

    /// The integer, if this is one. Floats are never rounded to integers.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The float, if this is one. Integers are never converted to floats.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(n) => Some(*n),
            Value::Number(text) => match number::plain(text) {
                Some(Value::Float(n)) => Some(n),
                _ => None,
            },
            _ => None,
        }
    }

    /// The bool, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, if these are bytes. A string is not.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The fields, if this is an object.
    pub fn as_object(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// Returns whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The kind of this value, in one word.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// The nesting depth of arrays and objects; 0 for a scalar.
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut open = vec![(self, 0)];
        while let Some((value, around)) = open.pop() {
            if value.is_container() {
                deepest = deepest.max(around + 1);
                value.push_children(around + 1, &mut open);
            }
        }
        deepest
    }

    /// Checks whether the value may be stored: at most 128 levels deep and 16 MiB encoded.
    ///
    /// Encoding performs the same checks. This is for callers that need to know earlier.
    pub fn check(&self) -> Result<()> {
        let mut room_bytes = VALUE_LIMIT_BYTES;
        self.check_within(VALUE_LIMIT_DEPTH, &mut room_bytes)
    }

    fn check_within(&self, levels: usize, room_bytes: &mut usize) -> Result<()> {
        if levels == 0 && self.is_container() {
            return Err(too_deep());
        }
        *room_bytes = room_bytes.checked_sub(codec::own_bytes(self)).ok_or_else(too_large)?;
        match self {
            Value::Array(items) => {
                items.iter().try_for_each(|item| item.check_within(levels - 1, room_bytes))
            }
            Value::Object(fields) => {
                fields.values().try_for_each(|item| item.check_within(levels - 1, room_bytes))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the value has at most this many levels. The recursion is bounded by the levels.
    pub(crate) fn fits(&self, levels: usize) -> bool {
        match self {
            Value::Array(items) => levels > 0 && items.iter().all(|item| item.fits(levels - 1)),
            Value::Object(map) => levels > 0 && map.values().all(|item| item.fits(levels - 1)),
            _ => true,
        }
    }

    fn is_container(&self) -> bool {
        matches!(self, Value::Array(_) | Value::Object(_))
    }

    fn push_children<'a>(&'a self, around: usize, open: &mut Vec<(&'a Value, usize)>) {
        match self {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, around))),
            Value::Object(fields) => open.extend(fields.values().map(|item| (item, around))),
            _ => {}
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Array(a), Value::Array(b)) => a == b,
            (Value::Object(a), Value::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

#[cold]
fn beyond(number: &str) -> Error {
    let shown = number.get(..40).map_or(number.to_owned(), |start| format!("{start}..."));
    let message = format!(
        "the number {shown} is beyond 64 bits: store it as a string; only the data of events keeps such numbers"
    );
    Error::new(Code::InvalidValue, message)
}

#[cold]
fn too_deep() -> Error {
    let message = format!("the value is nested deeper than {VALUE_LIMIT_DEPTH} levels: flatten it");
    Error::new(Code::ValueTooDeep, message)
}

#[cold]
fn too_large() -> Error {
    let message =
        format!("the value needs more than {VALUE_LIMIT_BYTES} bytes encoded: store it in parts");
    Error::new(Code::ValueTooLarge, message)
}
