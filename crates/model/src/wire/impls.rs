//! Manual serde impls for types with private fields.

use crate::{Code, Error, Name, RequestId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        Name::new(<&str>::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RequestId, D::Error> {
        RequestId::new(<&[u8]>::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The wire form of an error. Codes are encoded by their names, which never change.
#[derive(Serialize, Deserialize)]
struct Told<'e> {
    code: &'e str,
    message: &'e str,
    position: Option<usize>,
    #[serde(borrow)]
    keys: Vec<&'e str>,
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let keys = self.keys().iter().map(String::as_str).collect();
        let code = self.code().name();
        let message = self.message();
        let position = self.position();
        Told { code, message, position, keys }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Error, D::Error> {
        let told = Told::deserialize(from)?;
        let error = match Code::from_name(told.code) {
            Some(code) => Error::new(code, told.message),
            // A newer program sent an unknown code.
            None => Error::new(Code::Unsupported, format!("{}: {}", told.code, told.message)),
        };
        let error = error.with_keys(told.keys.into_iter().map(str::to_owned).collect());
        Ok(match told.position {
            Some(position) => error.at_position(position),
            None => error,
        })
    }
}
