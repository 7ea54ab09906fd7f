//! Failures: a message for the standard error, and the exit code.

use mainstay::{Code, Error};
use std::fmt;
use std::process::ExitCode;

/// Exit code if an entity is missing or exists already, or a condition failed.
pub const NEGATIVE: u8 = 1;
/// Exit code for errors.
pub const ERROR: u8 = 2;

/// Error kinds about the state of the database rather than about the request.
const NEGATIVE_KINDS: [&str; 6] =
    ["NOTFOUND", "EXISTS", "CONFLICT", "FENCED", "SESSIONEXPIRED", "EVICTED"];

/// The result type of the command line.
pub type Result<T> = std::result::Result<T, Failure>;

/// An error message and its exit code. The message names the problem, its object and the remedy.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure with exit code 2.
    pub fn error(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: ERROR }
    }

    /// A failure with exit code 1: an entity is missing, or a condition failed.
    pub fn negative(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: NEGATIVE }
    }

    /// A failure from an error reply, whose first word is the kind.
    pub fn from_error_reply(line: &str) -> Failure {
        let kind = line.split(' ').next().unwrap_or_default();
        if NEGATIVE_KINDS.contains(&kind) { Failure::negative(line) } else { Failure::error(line) }
    }

    /// Appends advice to the message.
    #[must_use]
    pub fn hint(mut self, hint: &str) -> Failure {
        self.message = format!("{}: {hint}", self.message);
        self
    }

    /// True if the message is an error reply of this kind.
    pub fn is_of_kind(&self, kind: &str) -> bool {
        self.message.split(' ').next() == Some(kind)
    }

    /// The exit code as a number.
    pub fn code(&self) -> u8 {
        self.code
    }

    pub fn exit(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        // Leaves out the position of the command in its transaction, because the user gave only one.
        let message = format!("{}: {}", error.code().name(), error.message());
        match error.code() {
            Code::BranchNotFound | Code::BranchExists => Failure::negative(message),
            _ => Failure::error(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_about_the_state_ends_with_one_and_any_other_with_two() {
        for line in [
            "NOTFOUND no branch x",
            "EXISTS x",
            "CONFLICT a b",
            "FENCED job a/1",
            "SESSIONEXPIRED x",
            "EVICTED x",
        ] {
            assert_eq!(Failure::from_error_reply(line).code(), NEGATIVE, "{line}");
        }
        for line in ["INVALID x", "ERR x", "", "NOTFOUNDX y", "TRIMMED x"] {
            assert_eq!(Failure::from_error_reply(line).code(), ERROR, "{line}");
        }
    }
}
