//! Failures: what is said on the standard error, and with which exit code the program ends.

use mainstay::{Code, Error};
use std::fmt;
use std::process::ExitCode;

/// What was asked for is not there, is there already, or a condition did not hold.
pub const NOT_HELD: u8 = 1;
/// It could not be done.
pub const ERROR: u8 = 2;

/// Kinds of refusals that say something about the state, not about the request.
const ABOUT_STATE: [&str; 6] =
    ["NOTFOUND", "EXISTS", "CONFLICT", "FENCED", "SESSIONEXPIRED", "EVICTED"];

/// The result of everything the command line does.
pub type Result<T> = std::result::Result<T, Failure>;

/// What happened, to what, what to do, and the exit code that goes with it.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Something that could not be done.
    pub fn error(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: ERROR }
    }

    /// Something that is not there, or a condition that did not hold.
    pub fn not_held(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: NOT_HELD }
    }

    /// An error reply: its first word is the kind.
    pub fn refused(line: &str) -> Failure {
        let kind = line.split(' ').next().unwrap_or_default();
        match ABOUT_STATE.contains(&kind) {
            true => Failure::not_held(line),
            false => Failure::error(line),
        }
    }

    /// The same with a sentence more about what to do.
    #[must_use]
    pub fn hint(mut self, hint: &str) -> Failure {
        self.message = format!("{}: {hint}", self.message);
        self
    }

    /// Whether it is an error reply of this kind.
    pub fn is_of_kind(&self, kind: &str) -> bool {
        self.message.split(' ').next() == Some(kind)
    }

    /// The number of the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The exit code.
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
        // Which command of a transaction it was says nothing to who asked for one thing.
        let message = format!("{}: {}", error.code().name(), error.message());
        match error.code() {
            Code::BranchNotFound | Code::BranchExists => Failure::not_held(message),
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
            assert_eq!(Failure::refused(line).code(), NOT_HELD, "{line}");
        }
        for line in ["INVALID x", "ERR x", "", "NOTFOUNDX y", "TRIMMED x"] {
            assert_eq!(Failure::refused(line).code(), ERROR, "{line}");
        }
    }
}
