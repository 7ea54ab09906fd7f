//! Validated names of cells, branches, tags and other objects that users name.

use crate::{Code, Error, Result};
use compact_str::CompactString;
use std::fmt;

/// The longest name, in bytes.
pub const NAME_LIMIT_BYTES: usize = 1024;

/// Names under this prefix belong to the engine.
pub const RESERVED_PREFIX: &str = "_mainstay/";

/// A checked name: 1 to 1024 bytes of UTF-8, no NUL, not starting with `_mainstay/`.
///
/// ```
/// use mainstay_model::Name;
/// assert!(Name::new("orders/17").is_ok());
/// assert!(Name::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(CompactString);

impl Name {
    /// Validates a name.
    pub fn new(name: &str) -> Result<Name> {
        check_name(name)?;
        Ok(Name(CompactString::new(name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as bytes. Lists are in this byte order.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Validates a name. The error says why the name is invalid.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(invalid("the name is empty: give 1 to 1024 bytes"));
    }
    if name.len() > NAME_LIMIT_BYTES {
        return Err(invalid(format!("the name has {} bytes: 1024 is the most", name.len())));
    }
    if name.as_bytes().contains(&0) {
        return Err(invalid("the name holds a NUL byte"));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(invalid("names under `_mainstay/` belong to the engine"));
    }
    Ok(())
}

#[cold]
fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidName, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_name_are_exact() {
        assert!(Name::new(&"n".repeat(1024)).is_ok());
        for bad in ["", "a\0b", "_mainstay/x", "_mainstay/", &"n".repeat(1025)] {
            assert_eq!(Name::new(bad).unwrap_err().code(), Code::InvalidName, "{bad:?}");
        }
        for good in ["a", "_mainstay", "é", "a b", "_Mainstay/x"] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
    }
}
