//! Order-preserving codecs for typed keys.

use mainstay_model::{Code, Error, Result};

/// A type of keys. The encoding preserves the order, so that scans are in key order. It must never change, so
/// that stored keys are found again.
///
/// ```
/// use mainstay_streams::StateKeyCodec;
/// assert!(2_u64.to_key() < 256_u64.to_key());
/// assert_eq!(String::from_key(b"user-7")?, "user-7");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub trait StateKeyCodec: Sized {
    /// Encodes a key.
    fn to_key(&self) -> Vec<u8>;

    /// Decodes a key.
    fn from_key(bytes: &[u8]) -> Result<Self>;
}

/// The UTF-8 bytes, unchanged.
impl StateKeyCodec for String {
    fn to_key(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn from_key(bytes: &[u8]) -> Result<String> {
        let text = std::str::from_utf8(bytes).map_err(|_| invalid_key("text", bytes))?;
        Ok(text.to_owned())
    }
}

/// The bytes, unchanged.
impl StateKeyCodec for Vec<u8> {
    fn to_key(&self) -> Vec<u8> {
        self.clone()
    }

    fn from_key(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

/// Eight bytes, big-endian, which sort as the numbers do.
impl StateKeyCodec for u64 {
    fn to_key(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn from_key(bytes: &[u8]) -> Result<u64> {
        let bytes = bytes.try_into().map_err(|_| invalid_key("a number of eight bytes", bytes))?;
        Ok(u64::from_be_bytes(bytes))
    }
}

#[cold]
fn invalid_key(what: &str, bytes: &[u8]) -> Error {
    let message = format!("key {} is not {what}: the space has other keys", bytes.escape_ascii());
    Error::new(Code::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_come_back_and_keep_their_order(one: u64, other: u64, text: String, next: String) {
            prop_assert_eq!(u64::from_key(&one.to_key()), Ok(one));
            prop_assert_eq!(one.to_key().cmp(&other.to_key()), one.cmp(&other));
            prop_assert_eq!(text.to_key().cmp(&next.to_key()), text.cmp(&next));
            prop_assert_eq!(String::from_key(&text.to_key()), Ok(text));
        }
    }

    #[test]
    fn keys_of_another_type_are_refused() {
        assert_eq!(u64::from_key(b"user-7").unwrap_err().code(), Code::InvalidValue);
        assert_eq!(String::from_key(&[0xff]).unwrap_err().code(), Code::InvalidValue);
    }
}
