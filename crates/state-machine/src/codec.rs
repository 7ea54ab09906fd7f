//! Codecs for commands, responses, requests, keys and values: the trait and two implementations.

use mainstay_model::{Code, Error, Name, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes values of a type. A codec has no state, because bytes written on one replica are read on others,
/// possibly years later.
///
/// Equal values must have equal bytes on all replicas, because replicas are compared by their bytes.
///
/// ```
/// use mainstay_state_machine::Codec;
/// use mainstay_model::{Code, Error, Result};
///
/// struct Celsius(i8);
/// struct OneByte;
///
/// impl Codec<Celsius> for OneByte {
///     fn encode(value: &Celsius, out: &mut Vec<u8>) -> Result<()> {
///         out.push(value.0 as u8);
///         Ok(())
///     }
///
///     fn decode(bytes: &[u8]) -> Result<Celsius> {
///         match bytes {
///             [byte] => Ok(Celsius(*byte as i8)),
///             _ => Err(Error::new(Code::InvalidValue, "a temperature is one byte")),
///         }
///     }
/// }
/// ```
pub trait Codec<T> {
    /// Appends the encoded value to `out`.
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<()>;

    /// Decodes a value. Fails unless it uses all bytes.
    fn decode(bytes: &[u8]) -> Result<T>;

    /// Encodes a value.
    fn to_bytes(value: &T) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Self::encode(value, &mut bytes)?;
        Ok(bytes)
    }
}

/// The Postcard format, for all types that implement serde's traits. The order and the types of fields must
/// not change, otherwise the machine's version must rise. Its bytes do not sort as the values do.
///
/// ```
/// use mainstay_state_machine::{Codec, Postcard};
/// let bytes = Postcard::to_bytes(&("till-7".to_owned(), 300_u64))?;
/// let (name, cents): (String, u64) = Postcard::decode(&bytes)?;
/// assert_eq!((name.as_str(), cents), ("till-7", 300));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard;

impl<T: Serialize + DeserializeOwned> Codec<T> for Postcard {
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<()> {
        let bytes = postcard::to_stdvec(value).map_err(|_| no_value("written"))?;
        out.extend_from_slice(&bytes);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<T> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            _ => Err(no_value("read")),
        }
    }
}

/// The error of a failed conversion. Its message is stored as the answer of a malformed command. It must not
/// be a library's message, which could differ between replicas.
#[cold]
fn no_value(what: &str) -> Error {
    Error::new(Code::InvalidValue, format!("this cannot be {what} as a value of its type"))
}

/// Order-preserving keys: integers, text, bytes and names.
///
/// ```
/// use mainstay_state_machine::{Codec, Ordered};
/// assert!(Ordered::to_bytes(&2_u64)? < Ordered::to_bytes(&300_u64)?);
/// assert!(Ordered::to_bytes(&-1_i64)? < Ordered::to_bytes(&0_i64)?);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ordered;

macro_rules! numbers {
    ($($number:ident $flip:expr,)*) => {$(
        impl Codec<$number> for Ordered {
            fn encode(value: &$number, out: &mut Vec<u8>) -> Result<()> {
                out.extend_from_slice(&(value ^ $flip).to_be_bytes());
                Ok(())
            }

            fn decode(bytes: &[u8]) -> Result<$number> {
                let number = bytes.try_into().map(|bytes| $number::from_be_bytes(bytes) ^ $flip);
                number.map_err(|_| no_key("a number of another length"))
            }
        }
    )*};
}

// Flipping the sign bit makes negative numbers sort before positive ones.
numbers! { u8 0, u16 0, u32 0, u64 0, i32 i32::MIN, i64 i64::MIN, }

impl Codec<Vec<u8>> for Ordered {
    fn encode(value: &Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

impl Codec<String> for Ordered {
    fn encode(value: &String, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<String> {
        text(bytes).map(str::to_owned)
    }
}

impl Codec<Name> for Ordered {
    fn encode(value: &Name, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Name> {
        text(bytes).and_then(Name::new)
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| no_key("no text"))
}

#[cold]
fn no_key(what: &str) -> Error {
    Error::new(Code::InvalidValue, format!("a key cannot be read: it is {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_or_less_than_a_value_is_refused() {
        let bytes = Postcard::to_bytes(&(1_u64, "one".to_owned())).unwrap();
        type Pair = (u64, String);
        assert!(<Postcard as Codec<Pair>>::decode(&bytes).is_ok());
        for bad in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
            let error = <Postcard as Codec<Pair>>::decode(bad).unwrap_err();
            assert_eq!(error.code(), Code::InvalidValue);
        }
        assert!(<Ordered as Codec<u64>>::decode(&[1; 7]).is_err());
        assert!(<Ordered as Codec<String>>::decode(&[0xff]).is_err());
        assert!(<Ordered as Codec<Name>>::decode(b"").is_err());
    }

    #[test]
    fn bytes_of_numbers_sort_as_the_numbers_do() {
        let numbers = [i64::MIN, -300, -1, 0, 1, 300, i64::MAX];
        let bytes = numbers.map(|number| Ordered::to_bytes(&number).unwrap());
        assert!(bytes.is_sorted());
        let read = bytes.map(|bytes| <Ordered as Codec<i64>>::decode(&bytes).unwrap());
        assert_eq!(read, numbers);
    }
}
