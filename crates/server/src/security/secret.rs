//! Secrets: values that are never printed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A password or its hash. Neither `Debug` nor serde prints it. Only [`Secret::expose`] returns it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// The text printed in its place.
const SHOWN: &str = "(secret)";

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<Vec<u8>>) -> Secret {
        Secret(secret.into())
    }

    /// Returns the secret.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SHOWN)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_and_never_written() {
        let secret: Secret = serde_json::from_str("\"hunter2\"").unwrap();
        assert_eq!(secret.expose(), b"hunter2");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "(secret) Some((secret))");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"(secret)\"");
    }
}
