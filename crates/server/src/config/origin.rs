//! The origin of a setting, and errors in settings.

use std::fmt;
use std::path::PathBuf;

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Not given by any source.
    Default,
    /// A line of a file, or the file as a whole.
    File(PathBuf, Option<usize>),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
    /// Several settings in combination.
    Together,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, Some(line)) => write!(f, "{}:{line}", super::shown(path)),
            Origin::File(path, None) => f.write_str(&super::shown(path)),
            Origin::Environment(name) | Origin::Flag(name) => f.write_str(name),
            Origin::Together => f.write_str("all settings together"),
        }
    }
}

/// An error in the configuration, with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The source of the setting.
    pub origin: Origin,
    /// The error, and how to fix it.
    pub message: String,
}

impl Problem {
    /// Creates a problem.
    pub(super) fn new(origin: Origin, message: impl Into<String>) -> Problem {
        Problem { origin, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}
