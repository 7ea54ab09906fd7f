//! Deserializer from values to Rust types.

use super::failure::{Failure, unexpected};
use super::key::KeyReader;
use super::visit::VALUE;
use super::{Value, number, too_deep};
use crate::Result;
use crate::limits::VALUE_LIMIT_DEPTH;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::any::type_name;
use std::collections::{BTreeMap, btree_map};
use std::result::Result as StdResult;

/// Converts a value to a Rust type, the inverse of [`to_value`](super::to_value).
///
/// Integers convert to every integer type that can hold them, and to floats that hold them exactly. Floats
/// convert only to floats, rounded for an `f32`. Bytes can be read as a list of `u8`. An error names the
/// field and the expected type.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    if !value.fits(VALUE_LIMIT_DEPTH) {
        return Err(too_deep());
    }
    let doing = |failure: Failure| {
        failure.into_error(&format!("cannot read the value as {}", type_name::<T>()))
    };
    T::deserialize(Reader(value)).map_err(doing)
}

/// Deserializer of one value.
struct Reader(Value);

/// Deserializer for the [`Value`] type, which preserves the text of numbers.
struct ExactReader(Value);

/// Converts an integer to a float if it is exact. The comparison uses i128, because `i64::MAX` rounds up to a
/// float above it.
fn exact_f64(n: i64) -> StdResult<f64, Failure> {
    let float = n as f64;
    if float as i128 == i128::from(n) { Ok(float) } else { Err(inexact(n, "f64")) }
}

fn exact_f32(n: i64) -> StdResult<f32, Failure> {
    let float = n as f32;
    if float as i128 == i128::from(n) { Ok(float) } else { Err(inexact(n, "f32")) }
}

#[cold]
fn inexact(n: i64, kind: &str) -> Failure {
    Failure::new(format_args!("invalid value: integer `{n}` is no exact {kind}, expected {kind}"))
}

/// Rounds to the nearest float, which is what a request for a float means. Fails if it is infinite.
fn nearest(text: &str) -> StdResult<f64, Failure> {
    text.parse().ok().filter(|float: &f64| float.is_finite()).ok_or_else(|| no_such(text, "f64"))
}

#[cold]
fn no_such(text: &str, kind: &str) -> Failure {
    Failure::new(format_args!("invalid value: number `{text}`, expected {kind}"))
}

/// Rounds to an `f32`. Fails if a finite number becomes infinite.
fn narrowed(n: f64) -> StdResult<f32, Failure> {
    let float = n as f32;
    if n.is_finite() && float.is_infinite() {
        return Err(Failure::new(format_args!("invalid value: float `{n:?}`, expected f32")));
    }
    Ok(float)
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(b),
            Value::Int(n) => visitor.visit_i64(n),
            Value::Float(n) => visitor.visit_f64(n),
            Value::String(text) => visitor.visit_string(text),
            Value::Bytes(bytes) => visitor.visit_byte_buf(bytes),
            Value::Array(items) => read_items(items, visitor),
            Value::Object(fields) => read_fields(fields, visitor),
            Value::Number(text) => match number::plain(&text) {
                Some(plain) => Reader(plain).deserialize_any(visitor),
                None => ExactReader(Value::Number(text)).deserialize_any(visitor),
            },
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        match &self.0 {
            Value::Number(text) => {
                let number = text.parse().map_err(|_| no_such(text, "u64"))?;
                visitor.visit_u64(number)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        match self.0 {
            Value::Int(n) => visitor.visit_f32(exact_f32(n)?),
            Value::Float(n) => visitor.visit_f32(narrowed(n)?),
            Value::Number(text) => visitor.visit_f32(narrowed(nearest(&text)?)?),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        match self.0 {
            Value::Int(n) => visitor.visit_f64(exact_f64(n)?),
            Value::Number(text) => visitor.visit_f64(nearest(&text)?),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        match self.0 {
            Value::Bytes(bytes) => {
                read_items(bytes.into_iter().map(Value::from).collect(), visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> StdResult<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> StdResult<V::Value, Failure> {
        if name == VALUE {
            return visitor.visit_newtype_struct(ExactReader(self.0));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> StdResult<V::Value, Failure> {
        match self.0 {
            Value::String(variant) => visitor.visit_enum(variant.into_deserializer()),
            Value::Object(fields) => visitor.visit_enum(Tagged::new(fields)?),
            other => Err(de::Error::invalid_type(unexpected(&other), &"an enum")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 char str string bytes byte_buf unit
        unit_struct tuple_struct map struct identifier
    }
}

impl<'de> Deserializer<'de> for ExactReader {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> StdResult<V::Value, Failure> {
        match self.0 {
            Value::Number(text) => {
                let text = Value::String(text.into());
                read_fields(BTreeMap::from([(number::RAW.to_owned(), text)]), visitor)
            }
            plain => Reader(plain).deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

fn read_items<'de, V: Visitor<'de>>(items: Vec<Value>, visitor: V) -> StdResult<V::Value, Failure> {
    let length = items.len();
    let mut elements = Elements { items: items.into_iter(), next: 0 };
    let read = visitor.visit_seq(&mut elements)?;
    match elements.items.len() {
        0 => Ok(read),
        left => Err(Failure::new(format_args!(
            "invalid length: the array has {length} elements, the type takes {}",
            length - left
        ))),
    }
}

/// Iterates over the elements of an array.
struct Elements {
    items: std::vec::IntoIter<Value>,
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Elements {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> StdResult<Option<T::Value>, Failure> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(Reader(item)).map(Some).map_err(|failure| failure.in_element(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

fn read_fields<'de, V: Visitor<'de>>(
    fields: BTreeMap<String, Value>,
    visitor: V,
) -> StdResult<V::Value, Failure> {
    let mut entries = Entries { fields: fields.into_iter(), open: None };
    let read = visitor.visit_map(&mut entries)?;
    match entries.fields.next() {
        None => Ok(read),
        Some((name, _)) => Err(Failure::new("the type does not take this field").in_field(&name)),
    }
}

/// Iterates over the fields of an object.
struct Entries {
    fields: btree_map::IntoIter<String, Value>,
    /// The field whose name was read and whose value was not read yet.
    open: Option<(String, Value)>,
}

impl<'de> de::MapAccess<'de> for Entries {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> StdResult<Option<K::Value>, Failure> {
        self.open = self.fields.next();
        match &self.open {
            Some((name, _)) => seed.deserialize(KeyReader(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> StdResult<T::Value, Failure> {
        let open = self.open.take();
        let (name, value) = open.ok_or_else(|| Failure::new("a value was read before its name"))?;
        seed.deserialize(Reader(value)).map_err(|failure| failure.in_field(&name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

/// An enum variant with its content, from an object with one field.
struct Tagged {
    variant: String,
    content: Value,
}

impl Tagged {
    fn new(fields: BTreeMap<String, Value>) -> StdResult<Tagged, Failure> {
        let count = fields.len();
        let mut fields = fields.into_iter();
        match (fields.next(), count) {
            (Some((variant, content)), 1) => Ok(Tagged { variant, content }),
            _ => Err(Failure::new(format_args!(
                "invalid value: an object of {count} fields, expected an enum: one field, \
                 named as its variant"
            ))),
        }
    }
}

impl<'de> de::EnumAccess<'de> for Tagged {
    type Error = Failure;
    type Variant = Tagged;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> StdResult<(T::Value, Tagged), Failure> {
        Ok((seed.deserialize(KeyReader(&self.variant))?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Tagged {
    type Error = Failure;

    fn unit_variant(self) -> StdResult<(), Failure> {
        let read: StdResult<(), Failure> = de::Deserialize::deserialize(Reader(self.content));
        read.map_err(|failure| failure.in_field(&self.variant))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> StdResult<T::Value, Failure> {
        seed.deserialize(Reader(self.content)).map_err(|failure| failure.in_field(&self.variant))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> StdResult<V::Value, Failure> {
        let read = Reader(self.content).deserialize_tuple(length, visitor);
        read.map_err(|failure| failure.in_field(&self.variant))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> StdResult<V::Value, Failure> {
        let read = Reader(self.content).deserialize_struct("", fields, visitor);
        read.map_err(|failure| failure.in_field(&self.variant))
    }
}
