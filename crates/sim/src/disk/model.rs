//! What of that which was not synced is there after a power cut.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A model of disks and file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Model {
    /// POSIX, at its worst: nothing that was not synced, no name in a directory that was not.
    Nothing,
    /// POSIX, by chance: of what was not synced any part, in any order, each write as a whole.
    Some,
    /// The same, and of each write any of its sectors of 512 bytes.
    Torn512,
    /// The same, and of each write any of its pages of 4 KiB.
    Torn4096,
    /// As ext4 does it: names and lengths in order, and all of them that came before a sync of anything; what was
    /// appended is there with the length that covers it.
    Ordered,
    /// Everything, as after a crash of the program alone.
    Everything,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 6] = [
        Model::Nothing,
        Model::Some,
        Model::Torn512,
        Model::Torn4096,
        Model::Ordered,
        Model::Everything,
    ];

    /// What of a write can be there without the rest.
    pub fn sector(self) -> Option<usize> {
        match self {
            Model::Torn512 => Some(512),
            Model::Torn4096 | Model::Ordered => Some(4096),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Model::Nothing => "nothing",
            Model::Some => "some",
            Model::Torn512 => "torn-512",
            Model::Torn4096 => "torn-4096",
            Model::Ordered => "ordered",
            Model::Everything => "everything",
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(name: &str) -> Result<Model, String> {
        let found = Model::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| format!("`{name}` is no model of a power cut"))
    }
}
