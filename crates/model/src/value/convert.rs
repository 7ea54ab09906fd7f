//! Conversions from Rust types to values.

use super::Value;
use std::collections::BTreeMap;

macro_rules! from_number {
    ($variant:ident($wide:ty): $($narrow:ty)*) => {
        $(impl From<$narrow> for Value {
            #[inline]
            fn from(n: $narrow) -> Value {
                Value::$variant(<$wide>::from(n))
            }
        })*
    };
}

// `u64` is missing on purpose: not every `u64` fits, and a fallible conversion must not be `From`.
from_number!(Int(i64): i8 i16 i32 i64 u8 u16 u32);
from_number!(Float(f64): f32 f64);

impl From<()> for Value {
    fn from((): ()) -> Value {
        Value::Null
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl From<char> for Value {
    fn from(c: char) -> Value {
        Value::String(c.into())
    }
}

impl From<&str> for Value {
    #[inline]
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::String(text.clone())
    }
}

impl From<String> for Value {
    #[inline]
    fn from(text: String) -> Value {
        Value::String(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        Value::Array(items)
    }
}

impl From<BTreeMap<String, Value>> for Value {
    fn from(fields: BTreeMap<String, Value>) -> Value {
        Value::Object(fields)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(maybe: Option<T>) -> Value {
        maybe.map_or(Value::Null, Into::into)
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Value {
        Value::Array(items.into_iter().collect())
    }
}
