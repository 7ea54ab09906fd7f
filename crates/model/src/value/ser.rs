//! Serializer from Rust types to values.

use super::failure::Failure;
use super::key::KeyWriter;
use super::{Value, number, too_deep};
use crate::Result;
use crate::limits::VALUE_LIMIT_DEPTH;
use serde::ser::{self, Serialize};
use std::any::type_name;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::result::Result as StdResult;

/// Converts any type that serde can serialize to a value.
///
/// Structs become objects, tuples become arrays, and `None` and `()` become null. Enums are objects tagged
/// with the variant's name. Nothing is rounded: an integer beyond `i64` is an error. Because null stands for
/// `None`, `Some(None)` and `Some(())` are read back as `None`.
///
/// ```
/// use mainstay_model::{Value, from_value, to_value};
/// let value = to_value(&vec![1u8, 2, 3])?;
/// assert_eq!(value.to_string(), "[1, 2, 3]");
/// assert_eq!(from_value::<Vec<u8>>(value)?, [1, 2, 3]);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub fn to_value<T: Serialize + ?Sized>(from: &T) -> Result<Value> {
    let writer = Writer { levels: VALUE_LIMIT_DEPTH };
    let doing = |failure: Failure| {
        failure.into_error(&format!("cannot make a value of the {}", type_name::<T>()))
    };
    from.serialize(writer).map_err(doing)
}

/// Serializer of one value with at most this many levels.
#[derive(Clone, Copy)]
struct Writer {
    levels: usize,
}

impl Writer {
    /// The serializer for elements of an array or object.
    fn inner(self) -> StdResult<Writer, Failure> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Writer { levels }),
            None => Err(too_deep().into()),
        }
    }

    fn array(self, length: usize, variant: Option<&'static str>) -> StdResult<Items, Failure> {
        // The length is only a hint, so the reserved memory is bounded.
        let items = Vec::with_capacity(length.min(1024));
        Ok(Items { inner: self.tagged(variant)?.inner()?, items, variant })
    }

    fn object(self, variant: Option<&'static str>) -> StdResult<Fields, Failure> {
        let inner = self.tagged(variant)?.inner()?;
        Ok(Fields { inner, fields: BTreeMap::new(), key: None, variant })
    }

    /// A variant with content is wrapped in an object, which costs a level.
    fn tagged(self, variant: Option<&'static str>) -> StdResult<Writer, Failure> {
        if variant.is_some() { self.inner() } else { Ok(self) }
    }
}

fn tag(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(name) => Value::Object(BTreeMap::from([(name.to_owned(), value)])),
        None => value,
    }
}

#[cold]
fn too_big(n: impl std::fmt::Display, kind: &str) -> Failure {
    Failure::new(format_args!("the {kind} {n} does not fit an i64: store it as a string"))
}

macro_rules! write_ints {
    ($($method:ident($int:ty),)*) => {
        $(fn $method(self, n: $int) -> StdResult<Value, Failure> {
            Ok(Value::Int(i64::from(n)))
        })*
    };
}

macro_rules! write_big_ints {
    ($($method:ident($int:ty),)*) => {
        $(fn $method(self, n: $int) -> StdResult<Value, Failure> {
            i64::try_from(n).map(Value::Int).map_err(|_| too_big(n, stringify!($int)))
        })*
    };
}

impl ser::Serializer for Writer {
    type Ok = Value;
    type Error = Failure;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    write_ints! {
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32),
    }

    write_big_ints! { serialize_u64(u64), serialize_i128(i128), serialize_u128(u128), }

    fn serialize_bool(self, b: bool) -> StdResult<Value, Failure> {
        Ok(Value::Bool(b))
    }

    fn serialize_f32(self, n: f32) -> StdResult<Value, Failure> {
        Ok(Value::Float(f64::from(n)))
    }

    fn serialize_f64(self, n: f64) -> StdResult<Value, Failure> {
        Ok(Value::Float(n))
    }

    fn serialize_char(self, c: char) -> StdResult<Value, Failure> {
        Ok(Value::from(c))
    }

    fn serialize_str(self, text: &str) -> StdResult<Value, Failure> {
        Ok(Value::from(text))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> StdResult<Value, Failure> {
        Ok(Value::from(bytes))
    }

    fn serialize_none(self) -> StdResult<Value, Failure> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> StdResult<Value, Failure> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> StdResult<Value, Failure> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> StdResult<Value, Failure> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> StdResult<Value, Failure> {
        Ok(Value::from(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> StdResult<Value, Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> StdResult<Value, Failure> {
        let value = value.serialize(self.inner()?).map_err(|f| f.in_field(variant))?;
        Ok(tag(Some(variant), value))
    }

    fn serialize_seq(self, length: Option<usize>) -> StdResult<Items, Failure> {
        self.array(length.unwrap_or(0), None)
    }

    fn serialize_tuple(self, length: usize) -> StdResult<Items, Failure> {
        self.array(length, None)
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> StdResult<Items, Failure> {
        self.array(length, None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> StdResult<Items, Failure> {
        self.array(length, Some(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> StdResult<Fields, Failure> {
        self.object(None)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> StdResult<Fields, Failure> {
        self.object(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> StdResult<Fields, Failure> {
        self.object(Some(variant))
    }
}

/// An array under construction.
struct Items {
    inner: Writer,
    items: Vec<Value>,
    variant: Option<&'static str>,
}

impl Items {
    fn push<T: Serialize + ?Sized>(&mut self, item: &T) -> StdResult<(), Failure> {
        let index = self.items.len();
        self.items.push(item.serialize(self.inner).map_err(|f| self.place(f, index))?);
        Ok(())
    }

    fn place(&self, failure: Failure, index: usize) -> Failure {
        let failure = failure.in_element(index);
        match self.variant {
            Some(variant) => failure.in_field(variant),
            None => failure,
        }
    }

    fn finish(self) -> StdResult<Value, Failure> {
        Ok(tag(self.variant, Value::Array(self.items)))
    }
}

macro_rules! items_as {
    ($($kind:ident::$method:ident,)*) => {
        $(impl ser::$kind for Items {
            type Ok = Value;
            type Error = Failure;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> StdResult<(), Failure> {
                self.push(item)
            }

            fn end(self) -> StdResult<Value, Failure> {
                self.finish()
            }
        })*
    };
}

items_as! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

/// An object under construction.
struct Fields {
    inner: Writer,
    fields: BTreeMap<String, Value>,
    /// The key of a map entry whose value follows.
    key: Option<String>,
    variant: Option<&'static str>,
}

impl Fields {
    fn put<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> StdResult<(), Failure> {
        let value = match value.serialize(self.inner) {
            Ok(value) => value,
            Err(failure) => return Err(self.place(failure.in_field(&name))),
        };
        match self.fields.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(value),
            // Two equal keys would silently lose a value.
            Entry::Occupied(entry) => {
                let failure = Failure::new("two entries have this name");
                let failure = failure.in_field(entry.key());
                return Err(self.place(failure));
            }
        }
        Ok(())
    }

    fn place(&self, failure: Failure) -> Failure {
        match self.variant {
            Some(variant) => failure.in_field(variant),
            None => failure,
        }
    }

    fn finish(self) -> StdResult<Value, Failure> {
        let value = number::of_raw(&self.fields).unwrap_or(Value::Object(self.fields));
        Ok(tag(self.variant, value))
    }
}

impl ser::SerializeMap for Fields {
    type Ok = Value;
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> StdResult<(), Failure> {
        self.key = Some(key.serialize(KeyWriter)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> StdResult<(), Failure> {
        let name = self.key.take().ok_or_else(|| Failure::new("a map gave a value without key"))?;
        self.put(name, value)
    }

    fn end(self) -> StdResult<Value, Failure> {
        self.finish()
    }
}

macro_rules! fields_as {
    ($($kind:ident)*) => {
        $(impl ser::$kind for Fields {
            type Ok = Value;
            type Error = Failure;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> StdResult<(), Failure> {
                self.put(name.to_owned(), value)
            }

            fn end(self) -> StdResult<Value, Failure> {
                self.finish()
            }
        })*
    };
}

fields_as! { SerializeStruct SerializeStructVariant }
