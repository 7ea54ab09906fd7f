//! Stored replies of requests.

use super::codec::Codec;
use mainstay_model::Weighed;
use mainstay_model::{Error, Result};
use std::sync::Arc;

/// The longest stored error message, in bytes.
const MESSAGE_LIMIT_BYTES: usize = 1_024;

/// The reply of a request. Retries get the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The response of the user's machine.
    Response {
        /// The response, encoded by the user's codec.
        bytes: Arc<[u8]>,
        /// True if the response reports a failed command.
        is_error: bool,
    },
    /// The command was aborted: it changed nothing and sent nothing. The message is part of the replicated
    /// state, so a different message is a different state.
    Aborted(Error),
}

impl Reply {
    /// The stored form of an error: its code and its message, truncated to the limit.
    pub(super) fn aborted(error: &Error) -> Reply {
        let message = error.message();
        let mut end = message.len().min(MESSAGE_LIMIT_BYTES);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        Reply::Aborted(Error::new(error.code(), &message[..end]))
    }

    /// Returns whether the reply reports a failed command.
    pub fn is_error(&self) -> bool {
        !matches!(self, Reply::Response { is_error: false, .. })
    }

    /// Decodes the response of the user's machine. Returns the error if the command was aborted.
    pub fn decode<R, C: Codec<R>>(&self) -> Result<R> {
        match self {
            Reply::Response { bytes, .. } => C::decode(bytes),
            Reply::Aborted(error) => Err(error.clone()),
        }
    }
}

impl Weighed for Reply {
    fn bytes(&self) -> usize {
        match self {
            Reply::Response { bytes, .. } => bytes.len(),
            Reply::Aborted(error) => error.message().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::Code;

    #[test]
    fn an_error_is_kept_with_its_code_and_as_much_of_its_sentence_as_there_is_room_for() {
        let error = Error::new(Code::Overflow, "é".repeat(1_000)).at_position(3);
        let Reply::Aborted(kept) = Reply::aborted(&error) else { panic!("it is aborted") };
        assert_eq!(
            (kept.code(), kept.message().len(), kept.position()),
            (Code::Overflow, 1_024, None)
        );
        assert!(Reply::aborted(&error).is_error());
    }
}
