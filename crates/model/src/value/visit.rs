//! `Serialize` and `Deserialize` for [`Value`], inside other types and other formats.

use super::{Value, number};
use crate::limits::VALUE_LIMIT_DEPTH;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The error at the end of the recursion.
const TOO_DEEP: &str = "the value is nested deeper than 128 levels";

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // One level above the limit, so that `to_value` reaches the limit first and returns its error code.
        Bounded { value: self, levels: VALUE_LIMIT_DEPTH + 1 }.serialize(serializer)
    }
}

/// A value with at most this many levels.
struct Bounded<'a> {
    value: &'a Value,
    levels: usize,
}

impl Serialize for Bounded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inner = |value| Bounded { value, levels: self.levels - 1 };
        match self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Int(n) => serializer.serialize_i64(*n),
            Value::Float(n) => serializer.serialize_f64(*n),
            Value::String(text) => serializer.serialize_str(text),
            Value::Number(text) => {
                let raw = RawValue::from_string(text.to_string()).map_err(S::Error::custom)?;
                raw.serialize(serializer)
            }
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::Array(_) | Value::Object(_) if self.levels == 0 => {
                Err(S::Error::custom(TOO_DEEP))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(inner)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, inner(value))))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Builder { levels: VALUE_LIMIT_DEPTH, asks: false }.deserialize(deserializer)
    }
}

/// Builds a value of at most this many levels.
pub(super) fn build<'de, D: Deserializer<'de>>(from: D, levels: usize) -> Result<Value, D::Error> {
    Builder { levels, asks: false }.deserialize(from)
}

/// The newtype name by which a [`Value`] identifies itself to this crate's deserializer.
pub(super) const VALUE: &str = "$mainstay::Value";

/// Visitor that builds a value of at most this many levels from any format.
#[derive(Clone, Copy)]
struct Builder {
    levels: usize,
    /// True if the builder has just announced itself with `VALUE`. The next newtype wrapper is then not part
    /// of the value.
    asks: bool,
}

impl Builder {
    fn inner<E: de::Error>(self) -> Result<Builder, E> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Builder { levels, asks: false }),
            None => Err(E::custom(TOO_DEEP)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Builder {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // Other formats ignore the name. This crate's deserializer preserves the text of numbers for it.
        deserializer.deserialize_newtype_struct(VALUE, Builder { asks: true, ..self })
    }
}

/// Converts a key to text. In other formats keys may be numbers.
fn key_text<E: de::Error>(key: Value) -> Result<String, E> {
    match key {
        Value::String(name) => Ok(name),
        Value::Int(n) => Ok(n.to_string()),
        Value::Bool(b) => Ok(b.to_string()),
        other => Err(E::custom(format_args!(
            "the key of a map must be a string, an integer or a bool, not {}",
            other.type_name()
        ))),
    }
}

fn int<E: de::Error>(n: impl TryInto<i64> + fmt::Display + Copy) -> Result<Value, E> {
    n.try_into()
        .map(Value::Int)
        .map_err(|_| E::custom(format_args!("the integer {n} does not fit an i64")))
}

impl<'de> Visitor<'de> for Builder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a bool, an integer, a float, a string, bytes, an array or an object")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    // Each wrapper costs a level, because endless wrappers would be endless recursion.
    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        if self.asks {
            return deserializer.deserialize_any(Builder { asks: false, ..self });
        }
        self.inner()?.deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Int(n))
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Value, E> {
        int(n)
    }

    fn visit_i128<E: de::Error>(self, n: i128) -> Result<Value, E> {
        int(n)
    }

    fn visit_u128<E: de::Error>(self, n: u128) -> Result<Value, E> {
        int(n)
    }

    fn visit_f64<E: de::Error>(self, n: f64) -> Result<Value, E> {
        Ok(Value::Float(n))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::from(bytes))
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Value, E> {
        Ok(Value::Bytes(bytes))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut items = Vec::with_capacity(elements.size_hint().unwrap_or(0).min(1024));
        while let Some(item) = elements.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut fields = BTreeMap::new();
        while let Some(key) = entries.next_key_seed(inner)? {
            let name = key_text(key)?;
            let value = entries.next_value_seed(inner)?;
            if fields.contains_key(&name) {
                return Err(de::Error::custom(format_args!("two entries are named `{name}`")));
            }
            fields.insert(name, value);
        }
        Ok(number::of_raw(&fields).unwrap_or(Value::Object(fields)))
    }
}
