//! Conversion errors with the path to the place in the value.

use super::Value;
use crate::{Code, Error};
use serde::de::{Expected, Unexpected};
use std::fmt::{self, Display, Write};

/// The most characters of user text in an error.
const EXCERPT_CHARS: usize = 64;
/// The longest message of another library, in characters.
const MESSAGE_CHARS: usize = 512;

/// An error on its way up the call stack. Each level adds its place to the path.
#[derive(Debug)]
pub(super) struct Failure {
    code: Code,
    message: String,
    /// Ordered from the innermost place outwards.
    path: Vec<Place>,
}

#[derive(Debug)]
enum Place {
    Name(String),
    Index(usize),
}

impl Failure {
    #[cold]
    pub(super) fn new(message: impl Display) -> Failure {
        let message = excerpt(&message.to_string(), MESSAGE_CHARS);
        Failure { code: Code::InvalidValue, message, path: Vec::new() }
    }

    #[cold]
    pub(super) fn in_field(mut self, name: &str) -> Failure {
        self.path.push(Place::Name(excerpt(name, EXCERPT_CHARS)));
        self
    }

    #[cold]
    pub(super) fn in_element(mut self, index: usize) -> Failure {
        self.path.push(Place::Index(index));
        self
    }

    /// Builds the error for the caller; `doing` names the operation and the type.
    #[cold]
    pub(super) fn into_error(self, doing: &str) -> Error {
        let message = match self.path() {
            path if path.is_empty() => format!("{doing}: {}", self.message),
            path => format!("{doing}: at `{path}`: {}", self.message),
        };
        Error::new(self.code, message)
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for place in self.path.iter().rev() {
            match place {
                Place::Name(name) if path.is_empty() => path.push_str(name),
                // Writing to a string does not fail.
                Place::Name(name) => _ = write!(path, ".{name}"),
                Place::Index(index) => _ = write!(path, "[{index}]"),
            }
        }
        path
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: error.code(), message: error.message().to_owned(), path: Vec::new() }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl serde::ser::Error for Failure {
    fn custom<T: Display>(message: T) -> Failure {
        Failure::new(message)
    }
}

impl serde::de::Error for Failure {
    fn custom<T: Display>(message: T) -> Failure {
        Failure::new(message)
    }

    // Serde's default text repeats a wrong string in full, which may be megabytes.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Failure {
        Failure::new(format_args!("invalid type: {}, expected {expected}", brief(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Failure {
        Failure::new(format_args!("invalid value: {}, expected {expected}", brief(found)))
    }
}

fn brief(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) => format!("string {:?}", excerpt(text, EXCERPT_CHARS)),
        other => other.to_string(),
    }
}

fn excerpt(text: &str, limit_chars: usize) -> String {
    match text.char_indices().nth(limit_chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The value in serde's terms, for its messages.
pub(super) fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(b) => Unexpected::Bool(*b),
        Value::Int(n) => Unexpected::Signed(*n),
        Value::Float(n) => Unexpected::Float(*n),
        Value::Number(_) => Unexpected::Other("number by its text"),
        Value::String(text) => Unexpected::Str(text),
        Value::Bytes(bytes) => Unexpected::Bytes(bytes),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}
