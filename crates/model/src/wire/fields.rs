//! Custom field encodings (serde `with` modules) that bound memory or use canonical bytes.

use super::{LIST_LIMIT, VALUE_DEPTH};
use crate::{Value, codec};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// The enclosing frame and the storage check bound the size of values.
const BOUNDS: codec::Bounds = codec::Bounds { limit_bytes: usize::MAX, limit_depth: VALUE_DEPTH };

/// The most elements reserved before they are read.
const RESERVE_LIMIT: usize = 256;

/// Serializes a value as its canonical bytes.
struct Written<'v>(&'v Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        codec::encode_within(BOUNDS, self.0, &mut bytes).map_err(S::Error::custom)?;
        to.serialize_bytes(&bytes)
    }
}

/// A value decoded from its canonical bytes.
struct Taken(Value);

impl<'de> Deserialize<'de> for Taken {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Taken, D::Error> {
        let bytes = <&[u8]>::deserialize(from)?;
        codec::decode_within(BOUNDS, bytes).map(Taken).map_err(D::Error::custom)
    }
}

/// A value as its canonical bytes.
pub mod value {
    use super::*;

    /// Serializes as canonical bytes.
    pub fn serialize<S: Serializer>(value: &Value, to: S) -> Result<S::Ok, S::Error> {
        Written(value).serialize(to)
    }

    /// Deserializes from canonical bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        Taken::deserialize(from).map(|taken| taken.0)
    }
}

/// An optional value as canonical bytes.
pub mod maybe_value {
    use super::*;

    /// Serializes as an option of canonical bytes.
    pub fn serialize<S: Serializer>(value: &Option<Value>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Written).serialize(to)
    }

    /// Deserializes from an option of canonical bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
        Ok(Option::<Taken>::deserialize(from)?.map(|taken| taken.0))
    }
}

/// A type with its own JSON form, as the canonical bytes of that JSON value.
pub mod object {
    use super::*;
    use crate::{from_value, to_value};
    use serde::de::DeserializeOwned;

    /// Serializes as canonical bytes.
    pub fn serialize<S: Serializer, T: Serialize>(what: &T, to: S) -> Result<S::Ok, S::Error> {
        Written(&to_value(what).map_err(S::Error::custom)?).serialize(to)
    }

    /// Deserializes from canonical bytes.
    pub fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: DeserializeOwned,
    {
        from_value(Taken::deserialize(from)?.0).map_err(D::Error::custom)
    }
}

/// Pairs of names and values.
pub mod pairs {
    use super::*;
    use crate::Name;

    /// Serializes as a list of pairs.
    pub fn serialize<S: Serializer>(pairs: &[(Name, Value)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(pairs.iter().map(|(name, value)| (name, Written(value))))
    }

    /// Deserializes from a list of pairs.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Name, Value)>, D::Error> {
        let pairs: Vec<(Name, Taken)> = list::deserialize(from)?;
        Ok(pairs.into_iter().map(|(name, value)| (name, value.0)).collect())
    }
}

/// Bytes as one byte string, not as a list.
pub mod bytes {
    use super::*;

    /// Serializes as bytes.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    /// Deserializes from bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(from).map(<[u8]>::to_vec)
    }
}

/// Optional bytes as one byte string.
pub mod maybe_bytes {
    use super::*;

    /// Bytes that are serialized as one byte string.
    struct Piece<'b>(&'b [u8]);

    impl Serialize for Piece<'_> {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.serialize_bytes(self.0)
        }
    }

    /// Serializes as an option of bytes.
    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Piece).serialize(to)
    }

    /// Deserializes from an option of bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<&[u8]>::deserialize(from)?.map(<[u8]>::to_vec))
    }
}

/// A short text.
pub mod text {
    use super::*;
    use compact_str::CompactString;

    /// Serializes as text.
    pub fn serialize<S: Serializer>(text: &CompactString, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(text)
    }

    /// Deserializes from text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<CompactString, D::Error> {
        <&str>::deserialize(from).map(CompactString::new)
    }
}

/// A list with a limit on its elements.
pub mod list {
    use super::*;

    /// Serializes as a list.
    pub fn serialize<S: Serializer, L, T: Serialize>(list: &L, to: S) -> Result<S::Ok, S::Error>
    where
        L: std::ops::Deref<Target = [T]>,
    {
        (**list).serialize(to)
    }

    /// Deserializes from a list. It allocates memory only as elements arrive.
    pub fn deserialize<'de, D, L, T>(from: D) -> Result<L, D::Error>
    where
        D: Deserializer<'de>,
        L: FromIterator<T> + std::ops::Deref<Target = [T]>,
        T: Deserialize<'de>,
    {
        let items: Vec<T> = from.deserialize_seq(Elements(PhantomData))?;
        Ok(items.into_iter().collect())
    }
}

/// An optional list.
pub mod maybe_list {
    use super::*;

    struct Listed<T>(Vec<T>);

    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Listed<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listed<T>, D::Error> {
            list::deserialize(from).map(Listed)
        }
    }

    /// Serializes as an option of a list.
    pub fn serialize<S: Serializer, T: Serialize>(
        list: &Option<Vec<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        list.serialize(to)
    }

    /// Deserializes from an option of a list.
    pub fn deserialize<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
    where
        D: Deserializer<'de>,
        T: Deserialize<'de>,
    {
        Ok(Option::<Listed<T>>::deserialize(from)?.map(|listed| listed.0))
    }
}

/// Visitor that reads the elements of a list one by one.
struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {LIST_LIMIT}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let told = list.size_hint().unwrap_or(0);
        let mut items = Vec::with_capacity(told.min(RESERVE_LIMIT));
        while let Some(item) = list.next_element()? {
            if items.len() == LIST_LIMIT {
                return Err(A::Error::custom("the list is too long"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// The optional request identity of a transaction.
pub mod request {
    use super::*;
    use crate::{Request, RequestId, SessionRequest};

    /// The first two variants are encoded like an `Option`, because older versions had only these.
    #[derive(Serialize)]
    enum Told<'r> {
        Nothing,
        Named(&'r RequestId),
        Session(&'r SessionRequest),
    }

    #[derive(Deserialize)]
    enum Heard {
        Nothing,
        Named(RequestId),
        Session(SessionRequest),
    }

    /// Serializes as one of three variants.
    pub fn serialize<S: Serializer>(request: &Option<Request>, to: S) -> Result<S::Ok, S::Error> {
        let told = match request {
            None => Told::Nothing,
            Some(Request::Named(id)) => Told::Named(id),
            Some(Request::Session(request)) => Told::Session(request),
        };
        told.serialize(to)
    }

    /// Deserializes from one of three variants.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Request>, D::Error> {
        Ok(match Heard::deserialize(from)? {
            Heard::Nothing => None,
            Heard::Named(id) => Some(Request::Named(id)),
            Heard::Session(request) => Some(Request::Session(request)),
        })
    }
}
