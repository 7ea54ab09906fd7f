//! Map keys: text in a value; strings, integers, bools or chars in Rust.

use super::failure::Failure;
use serde::de::{Deserializer, IntoDeserializer, Visitor, value::StrDeserializer};
use serde::forward_to_deserialize_any;
use serde::ser::{Impossible, Serialize, Serializer};

/// Serializer of a key to text.
pub(super) struct KeyWriter;

type Written = Result<String, Failure>;
type Never = Impossible<String, Failure>;

#[cold]
fn refused<T>(kind: &str) -> Result<T, Failure> {
    let rule = "the key of a map must be a string, an integer, a bool or a char";
    Err(Failure::new(format_args!("{rule}, not {kind}")))
}

macro_rules! write_as_text {
    ($($method:ident($kind:ty),)*) => {
        $(fn $method(self, key: $kind) -> Written {
            Ok(key.to_string())
        })*
    };
}

impl Serializer for KeyWriter {
    type Ok = String;
    type Error = Failure;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    write_as_text! {
        serialize_bool(bool), serialize_char(char), serialize_str(&str),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_i128(i128), serialize_u128(u128),
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, key: &T) -> Written {
        key.serialize(self)
    }

    fn serialize_f32(self, _: f32) -> Written {
        refused("a float")
    }

    fn serialize_f64(self, _: f64) -> Written {
        refused("a float")
    }

    fn serialize_bytes(self, _: &[u8]) -> Written {
        refused("bytes")
    }

    fn serialize_none(self) -> Written {
        refused("an option")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Written {
        refused("an option")
    }

    fn serialize_unit(self) -> Written {
        refused("a unit")
    }

    fn serialize_unit_struct(self, name: &'static str) -> Written {
        refused(name)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Written {
        refused(name)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Never, Failure> {
        refused("a list")
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, Failure> {
        refused("a tuple")
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Never, Failure> {
        refused(name)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Failure> {
        refused(name)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Never, Failure> {
        refused("a map")
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Never, Failure> {
        refused(name)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, Failure> {
        refused(name)
    }
}

/// Deserializer of a key to the map's key type.
pub(super) struct KeyReader<'a>(pub(super) &'a str);

impl KeyReader<'_> {
    /// Parses the key as a number or bool in canonical form. Otherwise two keys with equal values, such as
    /// `1` and `01`, would silently lose a value.
    fn parse<T: std::str::FromStr + ToString>(&self, kind: &str) -> Result<T, Failure> {
        match self.0.parse::<T>() {
            Ok(key) if key.to_string() == self.0 => Ok(key),
            _ => Err(Failure::new(format_args!("the name is not an {kind} key")).in_field(self.0)),
        }
    }
}

macro_rules! read_from_text {
    ($($method:ident -> $visit:ident($kind:ty),)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            visitor.$visit(self.parse::<$kind>(stringify!($kind))?)
        })*
    };
}

impl<'de> Deserializer<'de> for KeyReader<'_> {
    type Error = Failure;

    read_from_text! {
        deserialize_bool -> visit_bool(bool),
        deserialize_i8 -> visit_i8(i8), deserialize_i16 -> visit_i16(i16),
        deserialize_i32 -> visit_i32(i32), deserialize_i64 -> visit_i64(i64),
        deserialize_u8 -> visit_u8(u8), deserialize_u16 -> visit_u16(u16),
        deserialize_u32 -> visit_u32(u32), deserialize_u64 -> visit_u64(u64),
        deserialize_i128 -> visit_i128(i128), deserialize_u128 -> visit_u128(u128),
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let variant: StrDeserializer<'_, Failure> = self.0.into_deserializer();
        visitor.visit_enum(variant)
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct
        map struct identifier ignored_any
    }
}
