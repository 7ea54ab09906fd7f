//! Models of a power failure: which unsynced changes survive it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A model of disks and file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Model {
    /// POSIX at its worst: no unsynced data survives, and no unsynced directory entry.
    Nothing,
    /// POSIX at random: any subset of the unsynced changes survives, in any order, each write as a whole.
    Some,
    /// The same, but of each write any subset of its 512-byte sectors survives.
    Torn512,
    /// The same, but of each write any subset of its 4 KiB pages survives.
    Torn4096,
    /// Like ext4: names and lengths survive in order, and all of those before any sync survive. Appended data
    /// survives with the length that covers it.
    Ordered,
    /// Everything survives, as after a crash of the process alone.
    Everything,
}

impl Model {
    /// All models.
    pub const ALL: [Model; 6] = [
        Model::Nothing,
        Model::Some,
        Model::Torn512,
        Model::Torn4096,
        Model::Ordered,
        Model::Everything,
    ];

    /// The unit in which a write can be torn; `None` if writes are atomic.
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
