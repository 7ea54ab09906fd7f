//! Where a setting came from, and what is wrong with it.

use std::fmt;
use std::path::PathBuf;

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody gave it.
    Default,
    /// A line of a file; without one, the file as a whole.
    File(PathBuf, Option<usize>),
    /// A variable of the environment.
    Environment(String),
    /// A flag.
    Flag(String),
    /// Several of them at once.
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

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// What, and what to do.
    pub message: String,
}

impl Problem {
    /// Something is wrong here.
    pub(super) fn new(origin: Origin, message: impl Into<String>) -> Problem {
        Problem { origin, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}
