//! What a request was answered, as it is kept.

use super::codec::Codec;
use crate::session::Weighed;
use crate::{Error, Result};
use std::sync::Arc;

/// The longest sentence of an error that is kept.
const MESSAGE_LIMIT_BYTES: usize = 1_024;

/// What a request was answered. Repeats get the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The machine's response.
    Response {
        /// Its bytes, as the user's codec wrote them.
        bytes: Arc<[u8]>,
        /// Whether it says that the command failed.
        is_error: bool,
    },
    /// The command was aborted: it changed nothing, and sent nothing. The sentence is a part of the state like any
    /// response: other words are another state.
    Aborted(Error),
}

impl Reply {
    /// An error as it is kept: its code and its sentence, which is cut where it is too long.
    pub(super) fn aborted(error: &Error) -> Reply {
        let message = error.message();
        let mut end = message.len().min(MESSAGE_LIMIT_BYTES);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        Reply::Aborted(Error::new(error.code(), &message[..end]))
    }

    /// Whether it says that the command failed.
    pub fn is_error(&self) -> bool {
        !matches!(self, Reply::Response { is_error: false, .. })
    }

    /// The response as the machine gave it; the error, if it was aborted.
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
    use crate::Code;

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
